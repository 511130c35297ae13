/* billhook-hook: `billhook hook` for the price of a process start.

   Sends the event on stdin, with arguments, folder and environment, to the daemon and prints its reply. If there is no
   daemon, it starts one for the next call and runs `billhook hook` itself: the cold path. This is possible only until
   the daemon reports that it started, because a hook runs at most once per call. If the connection breaks later, if the
   deadline passes, and on a signal, the client prints the failure answer in the agent's dialect. If this can't be
   compiled, launcher.sh runs `billhook hook` instead.

   cc -O2 -static -DBILLHOOK_VERSION='"0.1.0"' -o billhook-hook client.c     (Linux; elsewhere -DBILLHOOK_PORTABLE) */

#include "call.h"
#include "cold.h"

/* -- the request -------------------------------------------------------------------------------------------------- */

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

/* Everything but stdin. 0: more than the daemon accepts. */
static int write_head(char **environment) {
    static char cwd[1 << 16];
    size_t variables = 0;
    while (environment[variables]) variables++;
    make_room(&request, 8);
    memcpy(request.at, "bh\0\1", 4);
    request.n = 8; /* the length is filled in last */
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

/* 0: more than the daemon accepts; the remaining input is still unread. */
static int add_stdin(void) {
    for (size_t n = 1; n; request.n += n) {
        if ((more_stdin = request.n >= MOST_BYTES)) return 0;
        if (sent_all(request.at + stdin_at, request.n - stdin_at)) break;
        make_room(&request, 1 << 16);
        n = read_stdin(request.at + request.n, request.room - request.n);
    }
    put_number(request.at + stdin_at - 4, request.n - stdin_at);
    put_number(request.at + 4, request.n - 8);
    return 1;
}

/* -- the daemon --------------------------------------------------------------------------------------------------- */

/* Writes the path of the daemon's folder. 0: its path is unknown. */
static int find_folder(char *path, size_t room) {
    const char *chosen = getenv("BILLHOOK_HOME"), *home = getenv("HOME");
    if (!chosen || !*chosen) chosen = "~/.claude";
    int below_home = chosen[0] == '~';
    if (below_home && (!home || !*home || (chosen[1] && chosen[1] != '/'))) return 0;
    int n = snprintf(path, room, "%s%s/billhook/daemon", below_home ? home : "", chosen + below_home);
    return n > 0 && (size_t)n < room;
}

/* connect(2). If the path is too long for an address, it connects from inside the folder. */
static int connect_in(int s, const char *folder) {
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "s"};
    int back = -1;
    size_t n = strlen(folder);
    if (n + sizeof "/s" > sizeof address.sun_path) {
        if ((back = above_stderr(open(".", FOLDER | O_CLOEXEC))) < 0) return -1;
        if (chdir(folder)) return close(back), -1;
    } else {
        memcpy(address.sun_path, folder, n);
        memcpy(address.sun_path + n, "/s", sizeof "/s");
    }
    int result = connect(s, (struct sockaddr *)&address, sizeof address), error = errno;
    if (back >= 0 && fchdir(back)) fail("cannot return to the working directory");
    if (back >= 0) close(back);
    errno = error;
    return result;
}

static int is_ours(int s) {
    uid_t uid;
    return !peer_uid(s, &uid) && uid == geteuid();
}

/* A connection to this user's daemon, or -1. A folder that other users can write to is ignored. */
static int call_daemon(const char *folder, int64_t begin_by) {
    struct stat status;
    if (lstat(folder, &status) || !S_ISDIR(status.st_mode) || status.st_uid != geteuid() || status.st_mode & 077)
        return -1;
    int s = above_stderr(open_socket());
    if (s < 0) return -1;
    while (connect_in(s, folder)) {
        if (!not_yet() || now() >= begin_by) return close(s), -1;
        awaited(-1, 0, now() + 5 * MILLISECOND); /* its backlog is full */
    }
    return is_ours(s) ? s : (close(s), -1);
}

/* Errors don't matter here: they show in the daemon's reply, or when none comes. */
static void send_request(int s, int64_t begin_by) {
    for (size_t sent = 0; sent < request.n;) {
        ssize_t n = send(s, request.at + sent, request.n - sent, 0);
        if (n >= 0) sent += (size_t)n;
        else if (!not_yet() || !awaited(s, POLLOUT, begin_by)) return;
    }
}

/* Whether the first `n` bytes of the reply are here, or arrive in time. If time runs out, the connection is shut down:
   bytes that were sent before still count, and a daemon that can't report that it began does not begin. */
static int have(int s, size_t n, int64_t until) {
    if (n > reply.n) make_room(&reply, n - reply.n);
    while (reply.n < n) {
        ssize_t got = recv(s, reply.at + reply.n, reply.room - reply.n, 0);
        if (got > 0) reply.n += (size_t)got;
        else if (!got || !not_yet()) return 0;
        else if (!awaited(s, POLLIN, until)) shutdown(s, SHUT_RDWR);
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

/* Prints the answer in the body of a frame, and exits. Returns if the body is invalid. */
static void print_answer(const char *body, size_t n) {
    if (n < 9) return;
    size_t out = number_at(body + 1);
    if (out > n - 9 || number_at(body + 5 + out) != n - 9 - out) return;
    put(1, body + 5, out);
    put(2, body + 9 + out, n - 9 - out);
    _exit((unsigned char)body[0]);
}

/* Exits with the daemon's answer; returns if the daemon has not started. 0: it rejected this call, or hangs. */
static int take_answer(int s, int64_t until) {
    int started = 0;
    for (size_t at = 0; have(s, at + 1, until); at += 5) {
        char kind = reply.at[at];
        if (kind == 'N' && !started) return !(have(s, at + 5, until) && number_at(reply.at + at + 1) <= MOST_ANSWER);
        if (kind != 'A' && (kind != 'S' || started)) break;
        started = 1; /* from this byte on: hooks may have run */
        until = deadline == NEVER ? now() + ANSWER_MS * MILLISECOND : deadline;
        if (!have(s, at + 5, until)) break;
        size_t n = number_at(reply.at + at + 1);
        if (n > (kind == 'A' ? MOST_ANSWER : 0)) break;
        if (kind == 'S') continue;
        if (have(s, at + 5 + n, until)) print_answer(reply.at + at + 5, n);
        break;
    }
    if (started && now() >= until) fail_for_time();
    if (started) fail("the daemon closed the connection before it answered; hooks may have run");
    return now() < until;
}

/* A daemon that shuts down removes its socket before it reports that. */
static int is_gone(const char *folder) {
    char path[PATH_MAX + 3];
    struct stat status;
    snprintf(path, sizeof path, "%s/s", folder);
    return lstat(path, &status) && errno == ENOENT;
}

/* -- the command line --------------------------------------------------------------------------------------------- */

/* The value of `option` at arguments[*i], also as `--option=value`; NULL if another option is there. */
static const char *value_of(const char *option, int *i) {
    const char *word = arguments[*i];
    size_t n = strlen(option);
    if (strncmp(word, option, n) || (word[n] && word[n] != '=')) return NULL;
    if (word[n]) return word + n + 1;
    return ++*i < argument_count ? arguments[*i] : "";
}

/* Anywhere on the command line, as in `billhook hook`. */
static int is_help(const char *word) { return !strcmp(word, "--help") || !strcmp(word, "-h"); }

/* Reads the options that the client needs. billhook reports errors in the others. */
static void read_arguments(void) {
    const char *value;
    for (int i = 0; i < argument_count; i++) {
        if (arguments[i][0] != '-') argument_event = *argument_event ? argument_event : arguments[i];
        else if ((value = value_of("--as", &i))) dialect = value;
        else if ((value = value_of("--on-failure", &i))) fails_open = !strcmp(value, "allow");
        else if ((value = value_of("--deadline", &i)))
            deadline_ms = strspn(value, "0123456789") == strlen(value) ? strtol(value, NULL, 10) : 0;
        else if (!value_of("--config", &i)) value_of("--from", &i);
    }
    if (deadline_ms > INT_MAX) deadline_ms = INT_MAX;
    deadline = deadline_ms ? now() + deadline_ms * MILLISECOND : NEVER;
}

int main(int argc, char **argv, char **environment) {
    char folder[PATH_MAX];
    if (argc < 1) return 2;
    program = argv[0];
    arguments = argv + 1;
    argument_count = argc - 1;
    read_arguments();
    hold_signals();
    for (int i = 0; i < argument_count; i++)
        if (is_help(arguments[i])) go_cold(0);
    int fits = write_head(environment);
    fits &= add_stdin();
    if (!fits || !find_folder(folder, sizeof folder)) go_cold(0);
    int64_t half = deadline == NEVER ? NEVER : (deadline - now()) / 2, most = START_MS * MILLISECOND;
    int64_t begin_by = now() + (half < most ? half : most);
    int s = call_daemon(folder, begin_by);
    if (s < 0) go_cold(1);
    send_request(s, begin_by);
    int absent = take_answer(s, begin_by) || is_gone(folder);
    close(s);
    go_cold(absent);
}
