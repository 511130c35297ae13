/* What differs between systems: Linux, or any POSIX system with -DBILLHOOK_PORTABLE (macOS).

   The portable half uses no Linux-specific call; where POSIX has no atomic form of a call, two calls replace it. */

#ifndef BILLHOOK_CLIENT_SYSTEM
#define BILLHOOK_CLIENT_SYSTEM

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef BILLHOOK_PORTABLE

#include <sys/prctl.h>
#include <sys/syscall.h>

#ifdef BILLHOOK_ALONE
#include "alone.h"
#endif

#ifndef SYS_close_range /* since kernel 5.9; older headers lack it */
#define SYS_close_range 436
#endif

enum { CLOCK = CLOCK_MONOTONIC, FOLDER = O_PATH };

/* Signals outside of `mask` arrive only during the call. */
static int poll_with(struct pollfd *some, nfds_t n, const struct timespec *left, const sigset_t *mask) {
    return ppoll(some, n, left, mask);
}

static int open_socket(void) { return socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); }

static int open_pipe(int ends[2]) { return pipe2(ends, O_CLOEXEC); }

/* A file without a name, or -1. */
static int open_scratch(void) {
    int fd = (int)syscall(SYS_memfd_create, "billhook-hook", 1U); /* MFD_CLOEXEC */
    return fd >= 0 ? fd : open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
}

static int peer_uid(int s, uid_t *uid) {
    struct ucred peer;
    socklen_t size = sizeof peer;
    int failed = getsockopt(s, SOL_SOCKET, SO_PEERCRED, &peer, &size);
    return *uid = peer.uid, failed;
}

static int close_from(int first) { return (int)syscall(SYS_close_range, first, ~0U, 0); }

/* An agent may kill the client with SIGKILL, which it can't handle. */
static void end_with_parent(void) { prctl(PR_SET_PDEATHSIG, SIGTERM); }

/* The path of this program with links resolved; empty if unknown. */
static void own_path(char path[PATH_MAX + 1], const char *name) {
    (void)name;
    ssize_t n = readlink("/proc/self/exe", path, PATH_MAX);
    path[n > 0 ? n : 0] = 0;
}

#else

#ifdef CLOCK_UPTIME_RAW /* Python's clock on macOS */
enum { CLOCK = CLOCK_UPTIME_RAW };
#else
enum { CLOCK = CLOCK_MONOTONIC };
#endif
enum { FOLDER = O_RDONLY, SLICE_MS = 50 };

/* Without `ppoll` a signal can arrive between unblocking and waiting; it is then noticed one slice later. */
static int poll_with(struct pollfd *some, nfds_t n, const struct timespec *left, const sigset_t *mask) {
    sigset_t held;
    int ms = SLICE_MS;
    if (left && !left->tv_sec && left->tv_nsec < SLICE_MS * 1000000L) ms = (int)(left->tv_nsec / 1000000) + 1;
    sigprocmask(SIG_SETMASK, mask, &held);
    int ready = poll(some, n, ms), error = errno;
    sigprocmask(SIG_SETMASK, &held, NULL);
    errno = ready ? error : EINTR;
    return ready ? ready : -1;
}

static int closed_on_exec(int fd) {
    if (fd >= 0) fcntl(fd, F_SETFD, FD_CLOEXEC);
    return fd;
}

static int open_socket(void) {
    int s = closed_on_exec(socket(AF_UNIX, SOCK_STREAM, 0));
    if (s >= 0) fcntl(s, F_SETFL, O_NONBLOCK);
    return s;
}

static int open_pipe(int ends[2]) {
    int failed = pipe(ends);
    for (int i = 0; !failed && i < 2; i++) closed_on_exec(ends[i]);
    return failed;
}

static int open_scratch(void) {
    char path[] = "/tmp/billhook-hook-XXXXXX";
    int fd = closed_on_exec(mkstemp(path));
    if (fd >= 0) unlink(path);
    return fd;
}

static int peer_uid(int s, uid_t *uid) {
    gid_t gid;
    return getpeereid(s, uid, &gid);
}

static int close_from(int first) {
    (void)first;
    return -1;
}

static void end_with_parent(void) {} /* `billhook hook` watches its parent itself */

static void own_path(char path[PATH_MAX + 1], const char *name) {
    if (!strchr(name, '/') || !realpath(name, path)) *path = 0;
}

#endif

#endif
