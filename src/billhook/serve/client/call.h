/* One call of the client: its state, the failure answer, and waiting with a deadline. */

#ifndef BILLHOOK_CLIENT_CALL
#define BILLHOOK_CLIENT_CALL

#include "system.h"
#include "refusals.h"

enum {
    MOST_BYTES = 64 << 20, /* of a request */
    MOST_ARGUMENTS = 64,
    MOST_VARIABLES = 8192,
    MOST_ANSWER = (16 << 20) + 9, /* of a frame: both texts, their lengths and the code */
    CHUNK = 4096,     /* a pipe that polls as writable takes that much without blocking */
    GRACE_MS = 500,   /* for `billhook hook` to answer by itself after a signal */
    EARLY_MS = 50,    /* before the deadline, when it is told to end; a tenth of the time, if that is less */
    REAP_MS = 2000,   /* for it to end its hooks after we have answered */
    EXIT_MS = 100,    /* between the end of its stdout and its exit; if it takes longer, a hook answers later */
    SILENCE_MS = 500, /* after which a whole document on stdin counts as complete */
    START_MS = 5000,  /* for the daemon to begin; half of the deadline, if that is less */
#ifndef ANSWER_MS
    ANSWER_MS = 600000, /* for the daemon to answer once it began, when there is no deadline */
#endif
};
static const int64_t NEVER = INT64_MAX, MILLISECOND = 1000000;

struct bytes {
    char *at;
    size_t n, room;
};

static char *program;    /* argv[0] */
static char **arguments; /* without the program's name */
static int argument_count;
static const char *dialect = "claude", *argument_event = "";
static int fails_open;          /* --on-failure allow */
static long deadline_ms;        /* --deadline; 0: none */
static int64_t deadline;        /* on our clock, or NEVER */
static struct bytes request, reply;
static size_t stdin_at;         /* where the caller's stdin begins in the request */
static int more_stdin;          /* a part of it is not read yet */
static int stdout_begun;
static sigset_t callers_mask;
static volatile sig_atomic_t caught;

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK, &t);
    return (int64_t)t.tv_sec * 1000 * MILLISECOND + t.tv_nsec;
}

/* -- the failure answer ------------------------------------------------------------------------------------------- */

/* The closing quote of the string whose opening quote is at `i`, or `n`. */
static size_t end_of_string(const char *s, size_t n, size_t i) {
    for (i++; i < n && s[i] != '"'; i++)
        if (s[i] == '\\') i++;
    return i < n ? i : n;
}

static int is_space(char byte) { return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r'; }

static size_t skip_space(const char *s, size_t n, size_t i) {
    while (i < n && is_space(s[i])) i++;
    return i;
}

/* Copies the value of the first "hook_event_name" at the top level: a tool's input may contain the same key deeper. */
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
        if (start >= n || s[start] != ':') continue; /* a value that looks like the key */
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

/* Prints a short text. Does not wait for a reader that is not reading. */
static int print(int fd, const char *words) {
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    ssize_t n = (ssize_t)strlen(words);
    return poll(&p, 1, 100) > 0 && write(fd, words, (size_t)n) == n;
}

static const char *variable_or_nothing(const char *name) {
    const char *value = getenv(name);
    return value ? value : "";
}

/* The dialect of the calling agent: Copilot reads Claude Code's settings, but does not send `permission_mode`. */
static const char *callers_dialect(void) {
    static const char mode[] = "\"permission_mode\"";
    int copilots = *variable_or_nothing("COPILOT_PROJECT_DIR") || *variable_or_nothing("COPILOT_CLI");
    if (strcmp(dialect, "claude") || !copilots || !request.at) return dialect;
    return memmem(request.at + stdin_at, request.n - stdin_at, mode, sizeof mode - 1) ? dialect : "copilot";
}

/* The answer without an opinion: usually nothing, but in some agents that would deny. */
static const char *silence_for(enum kind kind) {
    static char text[100];
    spell(text, sizeof text, wording_for(silences, callers_dialect(), kind)->form, "");
    return text;
}

/* The end of a call that got no answer. */
static _Noreturn void fail(const char *why) {
    char event[LONGEST_EVENT + 1], text[2048];
    if (!request.at || !event_in_json(request.at + stdin_at, request.n - stdin_at, event))
        snprintf(event, sizeof event, "%s", *argument_event ? argument_event : variable_or_nothing("HOOK_EVENT"));
    enum kind kind = kind_of(event);
    const struct wording *row = wording_for(wordings, callers_dialect(), kind);
    int passes = fails_open || !row->form, refuses = row->code ? row->code : 2;
    snprintf(text, sizeof text, "billhook: %s\n%s", why,
             passes ? "billhook: the event continues without being checked\n" : "");
    print(2, text);
    if (passes && !stdout_begun) print(1, silence_for(kind));
    if (passes) _exit(0);
    if (!*row->form || stdout_begun) _exit(refuses);
    spell(text, sizeof text, row->form, why);
    _exit(print(1, text) ? row->code : refuses);
}

static _Noreturn void fail_for_time(void) {
    char why[80];
    if (caught) snprintf(why, sizeof why, "ended by signal %d before there was a verdict", (int)caught);
    else snprintf(why, sizeof why, "no answer within %ld ms", deadline_ms ? deadline_ms : ANSWER_MS);
    fail(why);
}

/* -- waiting ------------------------------------------------------------------------------------------------------ */

static void catch(int number) {
    if (number != SIGCHLD) caught = number;
}

/* Every signal that would end the client without an answer, except those of crashes; and SIGCHLD. */
static const int SIGNALS[] = {SIGTERM, SIGINT,  SIGHUP,    SIGQUIT, SIGALRM, SIGUSR1, SIGUSR2,
                              SIGXCPU, SIGPROF, SIGVTALRM, SIGIO,   SIGCHLD,
#ifdef SIGPWR
                              SIGPWR,
#endif
};
enum { MOST_SIGNALS = sizeof SIGNALS / sizeof *SIGNALS };

/* From here on signals arrive only while the client waits, so none is missed between a check and the wait. */
static void hold_signals(void) {
    struct sigaction ours = {.sa_handler = catch}, before;
    sigset_t held;
    sigemptyset(&held);
    for (int i = 0; i < MOST_SIGNALS; i++) sigaddset(&held, SIGNALS[i]);
    sigprocmask(SIG_BLOCK, &held, &callers_mask);
    for (int i = 0; i < MOST_SIGNALS; i++) {
        sigaction(SIGNALS[i], &ours, &before);
        if (before.sa_handler == SIG_IGN && SIGNALS[i] != SIGCHLD) sigaction(SIGNALS[i], &before, NULL);
    }
    sigdelset(&callers_mask, SIGCHLD);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* `ulimit -f`: the write fails, and we answer */
}

/* 1: the descriptor is ready, or without one (-1): something happened. 0: the time is over, or a signal came. */
static int wait_for(int fd, short events, int64_t until) {
    struct pollfd p = {.fd = fd, .events = events};
    for (int64_t left = 1; left > 0;) {
        left = until == NEVER ? NEVER : until - now();
        struct timespec t = {.tv_sec = left / MILLISECOND / 1000, .tv_nsec = left % (1000 * MILLISECOND)};
        int ready = left > 0 ? poll_with(&p, fd >= 0, until == NEVER ? NULL : &t, &callers_mask) : 0;
        if (caught) return 0;
        if (ready > 0 || (ready < 0 && (fd < 0 || errno != EINTR))) return 1;
    }
    return 0;
}

static void await(int fd, short events) {
    if (!wait_for(fd, events, deadline)) fail_for_time();
}

/* The same with an earlier limit: 0 if only that limit has passed and there is time left for something else. */
static int awaited(int fd, short events, int64_t until) {
    if (wait_for(fd, events, until)) return 1;
    if (caught || now() >= deadline) fail_for_time();
    return 0;
}

static int not_yet(void) { return errno == EAGAIN || errno == EINTR; }

/* Descriptors 0 to 2 may be closed, and a file of the client must not take their place. */
static int above_stderr(int fd) {
    if (fd < 0 || fd > 2) return fd;
    int higher = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    close(fd);
    return higher;
}

static void make_room(struct bytes *b, size_t more) {
    size_t room = b->room ? b->room : 1 << 18;
    while (room - b->n < more) room *= 2;
    if (room == b->room) return;
    char *at = realloc(b->at, room);
    if (!at) fail("out of memory");
    b->at = at;
    b->room = room;
}

/* Whether all brackets and quotes are closed. */
static int is_whole(const char *s, size_t n) {
    long depth = 0;
    for (size_t i = 0; i < n; i++) {
        if (s[i] == '{' || s[i] == '[') depth++;
        if (s[i] == '}' || s[i] == ']') depth--;
        if (s[i] == '"' && (i = end_of_string(s, n, i)) == n) return 0;
    }
    return depth == 0;
}

/* Whether an agent that leaves the pipe open has sent everything: a whole document, then nothing for a while. */
static int sent_all(const char *s, size_t n) {
    size_t end = n, least = n > 64 ? n - 64 : 0;
    while (end > least && is_space(s[end - 1])) end--;
    if (end == least || s[end - 1] != '}') return 0;
    int64_t quiet = now() + SILENCE_MS * MILLISECOND;
    return !awaited(0, POLLIN, quiet < deadline ? quiet : deadline) && is_whole(s, n);
}

/* Reads a part of stdin; 0 at its end, or if it can't be read. */
static size_t read_stdin(char *into, size_t most) {
    for (;;) {
        await(0, POLLIN);
        ssize_t n = read(0, into, most);
        if (n >= 0) return (size_t)n;
        if (!not_yet()) return 0;
    }
}

#endif
