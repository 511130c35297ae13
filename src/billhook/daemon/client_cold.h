/* The client without a daemon: starts one for the next time, and runs `billhook hook` itself. */

#ifndef BILLHOOK_CLIENT_COLD
#define BILLHOOK_CLIENT_COLD

#include "client_call.h"

/* Becomes `billhook WORDS`: the one beside us, else the one on PATH. Comes back when there is none. */
static void become_billhook(char **words) {
    static char path[PATH_MAX + 16];
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
   it knows its hooks. A code that `billhook hook` has no use for is a fault: some agents would let the call pass. */
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
    if (code == 0 || code == 2 || (code == 1 && !strcmp(dialect, "lesson"))) _exit(code);
    went_cold = code != 127;
    if (!in_time) fail_for_time();
    fail(code == 127 ? "billhook hook can not be started" : "billhook hook broke off");
}

static _Noreturn void go_cold(int with_daemon) {
    char **words = calloc((size_t)argument_count + 3, sizeof *words);
    if (!words) fail("out of memory");
    words[1] = "hook";
    memcpy(words + 2, arguments, (size_t)argument_count * sizeof *words);
    if (with_daemon) start_daemon();
    if (!request.at) become_billhook(words); /* for --help: nobody is judged */
    else give_back_stdin();
    run_hook(words);
}

#endif
