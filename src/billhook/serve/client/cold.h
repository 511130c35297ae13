/* The client without a daemon: starts one for the next call, and runs `billhook hook` itself. */

#ifndef BILLHOOK_CLIENT_COLD
#define BILLHOOK_CLIENT_COLD

#include "call.h"

static void put(int fd, const char *data, size_t n);

/* Becomes `billhook WORDS`: the program beside this one, otherwise the first on PATH. Returns if neither exists. */
static void become_billhook(char **words) {
    static char path[PATH_MAX + 16];
    own_path(path, program);
    char *slash = strrchr(path, '/');
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
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

/* A grandchild in a new session, without the caller's open files: it keeps running and no process waits for it. */
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
    if (close_from(3))
        for (int fd = 3; fd < 1024; fd++) close(fd);
    become_billhook(words);
    _exit(127);
}

static void keep(int fd, const char *data, size_t n) {
    while (n) {
        ssize_t written = write(fd, data, n);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) fail("cannot buffer stdin for billhook hook");
        data += written;
        n -= (size_t)written;
    }
}

/* Makes stdin readable again from its beginning: what was already read, then what follows. */
static void restore_stdin(void) {
    static char rest[1 << 16];
    int fd = above_stderr(open_scratch());
    keep(fd, request.at + stdin_at, request.n - stdin_at);
    for (size_t n = 1; more_stdin && n; keep(fd, rest, n)) n = read_stdin(rest, sizeof rest);
    if (lseek(fd, 0, SEEK_SET) || dup2(fd, 0) < 0) fail("cannot buffer stdin for billhook hook");
    close(fd);
}

/* Passes on this process's id and deadline: a deadline measured by the child would begin after Python has started. */
static void export_client(pid_t us) {
    char words[64];
    snprintf(words, sizeof words, "%ld %lld", (long)us, deadline == NEVER ? 0LL : (long long)(deadline / MILLISECOND));
    setenv("BILLHOOK_CLIENT", words, 1);
}

static pid_t start_hook(char **words, int out, int err) {
    pid_t us = getpid(), pid = fork();
    if (pid < 0) fail("cannot start a process for billhook hook");
    setpgid(pid, pid); /* parent and child both call it, so the order does not matter */
    if (pid) return pid;
    end_with_parent();
    export_client(us);
    if (getppid() == us && dup2(out, 1) == 1 && dup2(err, 2) == 2) become_billhook(words);
    _exit(127);
}

/* Reads its stdout to the end. 0: the time is over, or a signal came. */
static int read_output(int out, int64_t until) {
    while (wait_for(out, POLLIN, until)) {
        make_room(&reply, 1 << 16);
        ssize_t n = read(out, reply.at + reply.n, reply.room - reply.n);
        if (n > 0) reply.n += (size_t)n;
        else if (!n || !not_yet()) return 1;
    }
    return 0;
}

/* 0: the time is over, or a signal came. */
static int ended(pid_t pid, int *status, int64_t until) {
    do
        if (waitpid(pid, status, WNOHANG)) return 1;
    while (wait_for(-1, 0, until));
    return 0;
}

static void pass_on_errors(int err) {
    static off_t at;
    static char some[CHUNK];
    for (ssize_t n; (n = pread(err, some, sizeof some, at)) > 0; at += n) put(2, some, (size_t)n);
}

static void pass_on(int err) {
    put(1, reply.at, reply.n);
    reply.n = 0;
    pass_on_errors(err);
}

/* Whether it ended. If it only closed stdout, because a hook answers later, the agent gets its answer already. */
static int read_to_exit(pid_t pid, int *status, int out, int err, int64_t until) {
    if (!read_output(out, until)) return 0;
    int64_t soon = now() + EXIT_MS * MILLISECOND;
    if (ended(pid, status, soon < until ? soon : until)) return 1;
    if (caught || now() >= until) return 0;
    pass_on(err);
    close(1);
    return ended(pid, status, until);
}

/* It ends its hooks, which takes a moment after our answer. The reaper kills what is left after that. */
static void leave_reaper(pid_t pid) {
    if (fork()) return;
    setsid();
    if (close_from(0))
        for (int fd = 0; fd < 1024; fd++) close(fd);
    for (int64_t until = now() + REAP_MS * MILLISECOND; now() < until && !kill(-pid, 0);) poll(NULL, 0, 20);
    kill(-pid, SIGKILL);
    _exit(0);
}

static int64_t when_to_stop(void) {
    if (deadline == NEVER) return NEVER;
    int64_t tenth = (deadline - now()) / 10, most = EARLY_MS * MILLISECOND;
    return deadline - (tenth < most ? tenth : most);
}

/* Runs it until shortly before the deadline, then sends it a signal. The code that it exits with is the answer even
   then: it has the results of its hooks. A code that `billhook hook` does not use is a failure: some agents would
   allow the call. Its output is collected first, so that the agent gets exactly one answer, its own or ours. */
static _Noreturn void run_hook(char **words) {
    int status = 255 << 8, number = 0, out[2], err = above_stderr(open_scratch());
    if (err < 0 || open_pipe(out)) fail("cannot start a process for billhook hook");
    for (int i = 0; i < 2; i++) out[i] = above_stderr(out[i]);
    pid_t pid = start_hook(words, out[1], err);
    close(out[1]);
    reply.n = 0;
    int in_time = read_to_exit(pid, &status, out[0], err, when_to_stop()), over = in_time;
    if (!in_time) {
        int64_t grace = now() + GRACE_MS * MILLISECOND;
        number = caught;
        caught = 0;
        kill(-pid, number == SIGINT || number == SIGHUP ? number : SIGTERM);
        over = read_output(out[0], number && grace < deadline ? grace : deadline) && ended(pid, &status, deadline);
        if (!over) leave_reaper(pid);
    }
    int code = over && WIFEXITED(status) ? WEXITSTATUS(status) : 255;
    if (code == 0 || code == 2 || (code == 1 && !strcmp(dialect, "lesson"))) {
        pass_on(err);
        _exit(code);
    }
    if (number) caught = number;
    if (!in_time) fail_for_time();
    pass_on_errors(err);
    fail(code == 127 ? "cannot start billhook hook" : "billhook hook exited unexpectedly");
}

static _Noreturn void go_cold(int with_daemon) {
    char **words = calloc((size_t)argument_count + 3, sizeof *words);
    if (!words) fail("out of memory");
    words[1] = "hook";
    memcpy(words + 2, arguments, (size_t)argument_count * sizeof *words);
    if (with_daemon) start_daemon();
    if (!request.at) become_billhook(words); /* --help: there is no event */
    else restore_stdin();
    run_hook(words);
}

#endif
