/* Hides what only Linux has: a client that is built with -include of this and -DBILLHOOK_PORTABLE uses none of it. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* The BSDs and macOS have it, glibc does not. */
static inline int getpeereid(int s, uid_t *uid, gid_t *gid) {
    struct ucred peer;
    socklen_t size = sizeof peer;
    int failed = getsockopt(s, SOL_SOCKET, SO_PEERCRED, &peer, &size);
    *uid = peer.uid;
    *gid = peer.gid;
    return failed;
}

#undef SIGPWR
#undef SO_PEERCRED
#undef O_PATH
#undef O_TMPFILE
#undef SOCK_NONBLOCK
#undef SOCK_CLOEXEC
#undef MSG_NOSIGNAL
#pragma GCC poison SO_PEERCRED O_PATH O_TMPFILE SOCK_NONBLOCK SOCK_CLOEXEC MSG_NOSIGNAL
#pragma GCC poison ppoll pipe2 accept4 dup3 syscall prctl memfd_create close_range ucred
