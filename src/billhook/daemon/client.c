/* billhook-hook: `billhook hook` for the price of a process start.

   Hands the event on stdin, with arguments, folder and environment, to the daemon and gives back what that says. Where
   there is no daemon it starts one for the next time and runs `billhook hook` itself: the cold path. That is possible
   only as long as the daemon has not said that it started, because a hook runs at most once per call. When the daemon
   breaks off later, when the deadline passes and on a signal, the client gives the failure answer, in the words of the
   agent's dialect. client.py does the same where this can't be compiled.

   cc -O2 -static -DBILLHOOK_VERSION='"0.1.0"' -o billhook-hook client.c     (Linux) */

#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    MOST_BYTES = 64 << 20, /* of a request */
    MOST_ARGUMENTS = 64,
    MOST_VARIABLES = 8192,
    MOST_ANSWER = (16 << 20) + 9, /* of a frame: both texts, their lengths and the code */
    LONGEST_EVENT = 100,
    CHUNK = 4096,   /* a pipe that polls as writable takes that much without blocking */
    GRACE_MS = 500, /* for `billhook hook` to end its hooks and to answer by itself */
    BUSY_MS = 5000, /* for a daemon without room for one more connection, when there is no deadline */
};
static const int64_t NEVER = INT64_MAX, MILLISECOND = 1000000;

struct bytes {
    char *at;
    size_t n, room;
};

static char **arguments; /* without the program's name */
static int argument_count;
static const char *dialect = "claude", *argument_event = "";
static int lets_pass;           /* --on-failure allow */
static long deadline_ms;        /* as asked for; 0: none */
static int64_t deadline;        /* on our clock, or NEVER */
static struct bytes request, reply;
static size_t stdin_at;         /* where the caller's stdin begins in the request */
static int more_stdin;          /* there is more of it, not read yet */
static int stdout_begun;
static sigset_t callers_mask;
static volatile sig_atomic_t caught;

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 * MILLISECOND + t.tv_nsec;
}

/* -- the failure answer ------------------------------------------------------------------------------------------- */

/* The closing quote of the string whose opening quote is at `i`, or `n`. */
static size_t end_of_string(const char *s, size_t n, size_t i) {
    for (i++; i < n && s[i] != '"'; i++)
        if (s[i] == '\\') i++;
    return i < n ? i : n;
}

static size_t skip_space(const char *s, size_t n, size_t i) {
    while (i < n && (s[i] == ' ' || s[i] == '\t' || s[i] == '\n' || s[i] == '\r')) i++;
    return i;
}

/* Copies the value of the first "hook_event_name" at the top level: a tool's input may hold the same words deeper. */
static int event_in_json(const char *s, size_t n, char *name) {
    static const char key[] = "\"hook_event_name";
    long depth = 0;
    for (size_t i = 0; i < n; i++) {
        if (s[i] == '{' || s[i] == '[') depth++;
        if ((s[i] == '}' || s[i] == ']') && --depth <= 0) return 0;
        if (s[i] != '"') continue;
        size_t start = i, end = i = end_of_string(s, n, i);
        if (depth != 1 || end - start != sizeof key - 1 || memcmp(s + start, key, sizeof key - 1)) continue;
        start = skip_space(s, n, end + 1);
        if (start >= n || s[start] != ':') continue; /* no key, but a value that looks like it */
        start = skip_space(s, n, start + 1);
        if (start >= n || s[start] != '"') return 0;
        end = end_of_string(s, n, start++);
        if (end >= n || end == start || end - start > LONGEST_EVENT) return 0;
        memcpy(name, s + start, end - start);
        name[end - start] = 0;
        return 1;
    }
    return 0;
}

/* Case, `_` and `-` don't matter in the name of an event. */
static int same_event(const char *name, const char *known) {
    for (; *name; name++) {
        if (*name == '_' || *name == '-') continue;
        if (tolower((unsigned char)*name) != tolower((unsigned char)*known)) return 0;
        known++;
    }
    return !*known;
}

/* Whether a refusal of this event has no effect, or would keep an agent going that wants to stop. */
static int never_denied(const char *event) {
    static const char *const events[] = {
        "Stop", "SubagentStop", "TeammateIdle", "PostToolUse", "PostToolUseFailure", "PermissionDenied",
        "Notification", "MessageDisplay", "SessionStart", "SessionEnd", "Setup", "StopFailure", "SubagentStart",
        "PostCompact", "PostModelSwitch", "InstructionsLoaded", "CwdChanged", "FileChanged", "DirectoryAdded",
        "WorktreeRemove",
    };
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        if (same_event(event, events[i])) return 1;
    return 0;
}

/* Short words for somebody who may not be listening: they are not waited for. */
static int say(int fd, const char *words) {
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    ssize_t n = (ssize_t)strlen(words);
    return poll(&p, 1, 100) > 0 && write(fd, words, (size_t)n) == n;
}

/* The end of a call that got no answer. `why` has no quote and no backslash in it: it is put into JSON as it is. */
static _Noreturn void fail(const char *why) {
    char event[LONGEST_EVENT + 1], words[800];
    const char *variable = getenv("HOOK_EVENT"), *form = "";
    if (!request.at || !event_in_json(request.at + stdin_at, request.n - stdin_at, event))
        snprintf(event, sizeof event, "%s", *argument_event ? argument_event : variable ? variable : "");
    int passes = lets_pass || never_denied(event), code = strcmp(dialect, "lesson") ? 2 : 1;
    snprintf(words, sizeof words, "billhook: %s\n%s", why,
             passes ? "billhook: the event passes without having been judged\n" : "");
    say(2, words);
    if (passes) _exit(0);
    if (!strncmp(dialect, "claw", 4))
        form = "billhook: %s";
    else if (code == 1 && !same_event(event, "PreToolUse")) /* where the code alone is a warning */
        form = "{\"decision\":\"block\",\"reason\":\"billhook: %s\"}\n";
    else if (code == 2 && same_event(event, "PermissionRequest")) /* where the code is not honoured */
        form = "{\"hookSpecificOutput\":{\"hookEventName\":\"PermissionRequest\",\"decision\":"
               "{\"behavior\":\"deny\",\"message\":\"billhook: %s\"}}}\n";
    if (!*form || stdout_begun) _exit(code);
    snprintf(words, sizeof words, form, why);
    _exit(say(1, words) && *form == '{' && code == 2 ? 0 : code);
}

static _Noreturn void fail_for_time(void) {
    char why[80];
    if (caught) snprintf(why, sizeof why, "ended by signal %d before there was a verdict", (int)caught);
    else snprintf(why, sizeof why, "no answer within %ld ms", deadline_ms);
    fail(why);
}

/* -- waiting ------------------------------------------------------------------------------------------------------ */

static void catch(int number) {
    if (number != SIGCHLD) caught = number;
}

/* From here on signals come in only while we wait: none is missed between looking for it and waiting. */
static void hold_signals(void) {
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP, SIGCHLD};
    struct sigaction ours = {.sa_handler = catch}, before;
    sigset_t held;
    sigemptyset(&held);
    for (int i = 0; i < 4; i++) {
        sigaddset(&held, numbers[i]);
        sigaction(numbers[i], &ours, &before);
        if (before.sa_handler == SIG_IGN && numbers[i] != SIGCHLD) sigaction(numbers[i], &before, NULL);
    }
    sigprocmask(SIG_BLOCK, &held, &callers_mask);
    sigdelset(&callers_mask, SIGCHLD);
    signal(SIGPIPE, SIG_IGN);
}

/* 1: the descriptor is ready; without one (-1), something happened. 0: the time is over, or a signal says so. */
static int wait_for(int fd, short events, int64_t until) {
    struct pollfd p = {.fd = fd, .events = events};
    for (int64_t left = 1; left > 0;) {
        left = until == NEVER ? NEVER : until - now();
        struct timespec t = {.tv_sec = left / MILLISECOND / 1000, .tv_nsec = left % (1000 * MILLISECOND)};
        int ready = left > 0 ? ppoll(&p, fd >= 0, until == NEVER ? NULL : &t, &callers_mask) : 0;
        if (caught) return 0;
        if (ready > 0 || (ready < 0 && (fd < 0 || errno != EINTR))) return 1;
    }
    return 0;
}

static void await(int fd, short events) {
    if (!wait_for(fd, events, deadline)) fail_for_time();
}

static int not_yet(void) { return errno == EAGAIN || errno == EINTR; }

/* Descriptors 0 to 2 may be closed, and nothing of ours must be taken for them. */
static int out_of_the_way(int fd) {
    if (fd < 0 || fd > 2) return fd;
    int higher = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    close(fd);
    return higher;
}

/* -- the request -------------------------------------------------------------------------------------------------- */

static void make_room(struct bytes *b, size_t more) {
    size_t room = b->room ? b->room : 1 << 18;
    while (room - b->n < more) room *= 2;
    if (room == b->room) return;
    char *at = realloc(b->at, room);
    if (!at) fail("out of memory");
    b->at = at;
    b->room = room;
}

static void put_number(char *at, size_t number) {
    for (int i = 0; i < 4; i++) at[i] = (char)(number >> (24 - 8 * i));
}

static size_t number_at(const char *at) {
    const unsigned char *b = (const unsigned char *)at;
    return (size_t)b[0] << 24 | (size_t)b[1] << 16 | (size_t)b[2] << 8 | b[3];
}

static void add_number(size_t number) {
    make_room(&request, 4);
    put_number(request.at + request.n, number);
    request.n += 4;
}

static void add_text(const char *text) {
    size_t n = strlen(text);
    add_number(n);
    make_room(&request, n);
    memcpy(request.at + request.n, text, n);
    request.n += n;
}

/* Everything but stdin. 0: more than the daemon takes. */
static int write_head(char **environment) {
    static char cwd[1 << 16];
    size_t variables = 0;
    while (environment[variables]) variables++;
    make_room(&request, 8);
    memcpy(request.at, "bh\0\1", 4);
    request.n = 8; /* the length is known in the end */
    add_text(BILLHOOK_VERSION);
    add_number((size_t)argument_count);
    for (int i = 0; i < argument_count; i++) add_text(arguments[i]);
    add_text(getcwd(cwd, sizeof cwd) ? cwd : "");
    add_number(variables);
    for (size_t i = 0; i < variables; i++) add_text(environment[i]);
    add_number(0);
    stdin_at = request.n;
    return argument_count <= MOST_ARGUMENTS && variables <= MOST_VARIABLES && request.n < MOST_BYTES;
}

/* Reads some of stdin; 0 at its end, and where there is none to read. */
static size_t read_stdin(char *into, size_t most) {
    for (;;) {
        await(0, POLLIN);
        ssize_t n = read(0, into, most);
        if (n >= 0) return (size_t)n;
        if (!not_yet()) return 0;
    }
}

/* 0: more than the daemon takes; the rest can still be read. */
static int add_stdin(void) {
    for (size_t n = 1; n; request.n += n) {
        if ((more_stdin = request.n >= MOST_BYTES)) return 0;
        make_room(&request, 1 << 16);
        n = read_stdin(request.at + request.n, request.room - request.n);
    }
    put_number(request.at + stdin_at - 4, request.n - stdin_at);
    put_number(request.at + 4, request.n - 8);
    return 1;
}

/* -- the daemon --------------------------------------------------------------------------------------------------- */

/* Writes the path of the daemon's folder. 0: nobody can tell where it is. */
static int find_folder(char *path, size_t room) {
    const char *chosen = getenv("BILLHOOK_HOME"), *home = getenv("HOME");
    if (!chosen || !*chosen) chosen = "~/.claude";
    int below_home = chosen[0] == '~';
    if (below_home && (!home || !*home || (chosen[1] && chosen[1] != '/'))) return 0;
    int n = snprintf(path, room, "%s%s/billhook/daemon", below_home ? home : "", chosen + below_home);
    return n > 0 && (size_t)n < room;
}

/* connect(2), also where the path is longer than an address may be: from inside the folder. */
static int connect_in(int s, const char *folder) {
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "s"};
    int back = -1;
    if (strlen(folder) + sizeof "/s" > sizeof address.sun_path) {
        if ((back = out_of_the_way(open(".", O_PATH | O_CLOEXEC))) < 0) return -1;
        if (chdir(folder)) return close(back), -1;
    } else
        snprintf(address.sun_path, sizeof address.sun_path, "%s/s", folder);
    int result = connect(s, (struct sockaddr *)&address, sizeof address), error = errno;
    if (back >= 0 && fchdir(back)) fail("there is no way back into the working directory");
    if (back >= 0) close(back);
    errno = error;
    return result;
}

static int is_ours(int s) {
    struct ucred peer;
    socklen_t size = sizeof peer;
    return !getsockopt(s, SOL_SOCKET, SO_PEERCRED, &peer, &size) && peer.uid == geteuid();
}

/* A connection to our own daemon, or -1. Only a folder that nobody else can put anything into is looked at. */
static int call_daemon(const char *folder) {
    struct stat status;
    if (lstat(folder, &status) || !S_ISDIR(status.st_mode) || status.st_uid != geteuid() || status.st_mode & 077)
        return -1;
    int s = out_of_the_way(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (s < 0) return -1;
    int64_t enough = deadline == NEVER ? now() + BUSY_MS * MILLISECOND : deadline;
    while (connect_in(s, folder)) {
        if (!not_yet()) return close(s), -1;
        wait_for(-1, 0, now() + 5 * MILLISECOND); /* it has no room for us yet */
        if (now() < enough && !caught) continue;
        if (caught || deadline != NEVER) fail_for_time();
        return close(s), -1;
    }
    return is_ours(s) ? s : (close(s), -1);
}

/* Whether it was taken does not matter here: what the daemon says, or its silence, tells. */
static void send_request(int s) {
    for (size_t sent = 0; sent < request.n;) {
        ssize_t n = send(s, request.at + sent, request.n - sent, MSG_NOSIGNAL);
        if (n >= 0) sent += (size_t)n;
        else if (not_yet()) await(s, POLLOUT);
        else return;
    }
}

/* Whether the first `n` bytes of the reply are here. */
static int have(int s, size_t n) {
    if (n > reply.n) make_room(&reply, n - reply.n);
    while (reply.n < n) {
        ssize_t got = recv(s, reply.at + reply.n, reply.room - reply.n, 0);
        if (got > 0) reply.n += (size_t)got;
        else if (got < 0 && not_yet()) await(s, POLLIN);
        else return 0;
    }
    return 1;
}

static void put(int fd, const char *data, size_t n) {
    while (n) {
        await(fd, POLLOUT);
        ssize_t written = write(fd, data, n < CHUNK ? n : CHUNK);
        if (written < 0 && not_yet()) continue;
        if (written <= 0 && fd == 1) fail("the answer could not be written to stdout");
        if (written <= 0) return;
        data += written;
        n -= (size_t)written;
        stdout_begun |= fd == 1;
    }
}

/* Gives the answer that the body of a frame holds, and ends. Comes back when that is none. */
static void give_answer(const char *body, size_t n) {
    if (n < 9) return;
    size_t out = number_at(body + 1);
    if (out > n - 9 || number_at(body + 5 + out) != n - 9 - out) return;
    put(1, body + 5, out);
    put(2, body + 9 + out, n - 9 - out);
    _exit((unsigned char)body[0]);
}

/* Ends with the daemon's answer; comes back when it has not started. 0: it does not want this call. */
static int take_answer(int s) {
    int started = 0;
    for (size_t at = 0; have(s, at + 1); at += 5) {
        char kind = reply.at[at];
        if (kind == 'N' && !started) return !(have(s, at + 5) && number_at(reply.at + at + 1) <= MOST_ANSWER);
        if (kind != 'A' && (kind != 'S' || started)) break;
        started = 1; /* from this byte on: hooks may have run */
        if (!have(s, at + 5)) break;
        size_t n = number_at(reply.at + at + 1);
        if (n > (kind == 'A' ? MOST_ANSWER : 0)) break;
        if (kind == 'S') continue;
        if (have(s, at + 5 + n)) give_answer(reply.at + at + 5, n);
        break;
    }
    if (started) fail("the daemon broke off after it had started; hooks may have run");
    return 1;
}

/* -- the cold path ------------------------------------------------------------------------------------------------ */

/* Becomes `billhook WORDS`: the one beside us, else the one on PATH. Comes back when there is none. */
static void become_billhook(char **words) {
    char path[PATH_MAX + 16];
    ssize_t n = readlink("/proc/self/exe", path, PATH_MAX);
    path[n > 0 ? n : 0] = 0;
    char *slash = strrchr(path, '/');
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &callers_mask, NULL);
    if (caught) return;
    if (slash) {
        strcpy(slash + 1, "billhook");
        words[0] = path;
        execv(path, words);
    }
    words[0] = "billhook";
    execvp("billhook", words);
}

/* A grandchild in a session of its own, with nothing of the caller's open: it lives on, and nobody waits for it. */
static void start_daemon(void) {
    char *words[] = {NULL, "daemon", "start", "--quiet", NULL};
    const char *unwanted = getenv("BILLHOOK_NO_DAEMON");
    if (unwanted && *unwanted) return;
    pid_t pid = fork();
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR) continue;
    if (pid) return;
    if (fork()) _exit(0);
    setsid();
    int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; fd++)
        if (fd != null && dup2(null, fd) < 0) _exit(1);
    if (syscall(SYS_close_range, 3, ~0U, 0))
        for (int fd = 3; fd < 1024; fd++) close(fd);
    become_billhook(words);
    _exit(127);
}

static void keep(int fd, const char *data, size_t n) {
    while (n) {
        ssize_t written = write(fd, data, n);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) fail("stdin can not be kept for billhook hook");
        data += written;
        n -= (size_t)written;
    }
}

/* What we have read of stdin becomes stdin again, with the rest of it. */
static void give_back_stdin(void) {
    char rest[1 << 16];
    int fd = (int)syscall(SYS_memfd_create, "stdin", 0);
    if (fd < 0) fd = open("/tmp", O_TMPFILE | O_RDWR, 0600);
    fd = out_of_the_way(fd);
    keep(fd, request.at + stdin_at, request.n - stdin_at);
    for (size_t n = 1; more_stdin && n; keep(fd, rest, n)) n = read_stdin(rest, sizeof rest);
    if (lseek(fd, 0, SEEK_SET) || dup2(fd, 0) < 0) fail("stdin can not be kept for billhook hook");
    close(fd);
}

static pid_t start_hook(char **words) {
    pid_t us = getpid(), pid = fork();
    if (pid < 0) fail("no process can be started for billhook hook");
    setpgid(pid, pid); /* both of us do it: neither can be too late */
    if (pid) return pid;
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* an agent that is tired of us kills us without a word */
    if (getppid() == us) become_billhook(words);
    _exit(127);
}

/* 0: it has not ended until then, or a signal wants us to end. */
static int ended(pid_t pid, int *status, int64_t until) {
    do
        if (waitpid(pid, status, WNOHANG)) return 1;
    while (wait_for(-1, 0, until));
    return 0;
}

/* Runs it as long as there is time. The code that it ends with by itself is the answer, also when it was asked to end:
   it knows its hooks. A code that `billhook hook` has no use for is a fault, not an answer. */
static _Noreturn void run_hook(char **words) {
    int status = 255 << 8, number = 0;
    pid_t pid = start_hook(words);
    int in_time = ended(pid, &status, deadline), answered = in_time;
    if (!in_time) {
        number = caught;
        caught = 0;
        kill(-pid, number ? number : SIGTERM);
        answered = ended(pid, &status, now() + GRACE_MS * MILLISECOND);
        kill(-pid, SIGKILL);
        caught = number;
    }
    int code = answered && WIFEXITED(status) ? WEXITSTATUS(status) : 255;
    if (code < 126 && (code != 1 || !strcmp(dialect, "lesson"))) _exit(code);
    if (!in_time) fail_for_time();
    fail(code == 127 ? "billhook hook can not be started" : "billhook hook broke off");
}

static _Noreturn void go_cold(int with_daemon) {
    char **words = calloc((size_t)argument_count + 3, sizeof *words);
    if (!words) fail("out of memory");
    words[1] = "hook";
    memcpy(words + 2, arguments, (size_t)argument_count * sizeof *words);
    if (with_daemon) start_daemon();
    if (request.at) give_back_stdin();
    if (deadline != NEVER) run_hook(words);
    become_billhook(words);
    if (caught) fail_for_time();
    fail("billhook hook can not be started");
}

/* -- the command line --------------------------------------------------------------------------------------------- */

/* The value of `option` at arguments[*i], also as `--option=value`; NULL when it is another one. */
static const char *value_of(const char *option, int *i) {
    const char *word = arguments[*i];
    size_t n = strlen(option);
    if (strncmp(word, option, n) || (word[n] && word[n] != '=')) return NULL;
    if (word[n]) return word + n + 1;
    return ++*i < argument_count ? arguments[*i] : "";
}

/* Takes what we need ourselves. What is wrong with the rest is for billhook to say. */
static void read_arguments(void) {
    const char *value;
    for (int i = 0; i < argument_count; i++) {
        if (arguments[i][0] != '-') argument_event = *argument_event ? argument_event : arguments[i];
        else if ((value = value_of("--as", &i))) dialect = value;
        else if ((value = value_of("--on-failure", &i))) lets_pass = !strcmp(value, "allow");
        else if ((value = value_of("--deadline", &i)))
            deadline_ms = strspn(value, "0123456789") == strlen(value) ? strtol(value, NULL, 10) : 0;
        else value_of("--config", &i);
    }
    if (deadline_ms > INT_MAX) deadline_ms = INT_MAX;
    deadline = deadline_ms ? now() + deadline_ms * MILLISECOND : NEVER;
}

int main(int argc, char **argv, char **environment) {
    char folder[PATH_MAX];
    if (argc < 1) return 2;
    arguments = argv + 1;
    argument_count = argc - 1;
    read_arguments();
    hold_signals();
    if (argument_count && !strcmp(arguments[0], "--help")) go_cold(0);
    int fits = write_head(environment);
    fits &= add_stdin();
    if (!fits || !find_folder(folder, sizeof folder)) go_cold(0);
    int s = call_daemon(folder);
    if (s < 0) go_cold(1);
    send_request(s);
    int absent = take_answer(s);
    close(s);
    go_cold(absent);
}
