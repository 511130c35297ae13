/* The part of the C library that the client needs, on top of the kernel alone, for builds with -DBILLHOOK_ALONE.

   At start a C library runs dozens of CPUID instructions, and in a virtual machine each of them traps to the
   hypervisor: this takes longer than everything the client does. The headers are the library's. Only what the client
   uses is implemented: `snprintf` supports %s, %d, %ld and %lld. */

#ifndef BILLHOOK_CLIENT_ALONE
#define BILLHOOK_CLIENT_ALONE

#include <stdarg.h>
#include <stddef.h>
#include <sys/mman.h>

/* -- the kernel --------------------------------------------------------------------------------------------------- */

#if defined(__x86_64__)

static long call(long number, long a, long b, long c, long d, long e, long f) {
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

__asm__(".text\n"
        ".globl _start\n"
        "_start:\n"
        "    xor %ebp, %ebp\n"
        "    mov %rsp, %rdi\n"
        "    and $-16, %rsp\n"
        "    call begin\n"
        "come_back:\n" /* from a signal */
        "    mov $15, %eax\n"
        "    syscall\n");
void come_back(void);
#define COME_BACK come_back
#define RESTORER 0x04000000UL

#elif defined(__aarch64__)

static long call(long number, long a, long b, long c, long d, long e, long f) {
    register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d, x4 __asm__("x4") = e, x5 __asm__("x5") = f;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
}

__asm__(".text\n"
        ".globl _start\n"
        "_start:\n"
        "    mov x29, #0\n"
        "    mov x30, #0\n"
        "    mov x0, sp\n"
        "    and sp, x0, #-16\n"
        "    bl begin\n");
#define COME_BACK NULL /* the kernel provides it */
#define RESTORER 0UL

#else
#error "built with a C library on this processor"
#endif

static int last_error;

int *__errno_location(void) { return &last_error; }

static long told(long result) {
    if (result >= 0 || result < -4095) return result;
    last_error = (int)-result;
    return -1;
}

#define CALL6(n, a, b, c, d, e, f) \
    told(call((n), (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f)))
#define CALL4(n, a, b, c, d) CALL6(n, a, b, c, d, 0, 0)
#define CALL3(n, a, b, c) CALL4(n, a, b, c, 0)
#define CALL1(n, a) CALL3(n, a, 0, 0)

long syscall(long number, ...) {
    va_list more;
    va_start(more, number);
    long a = va_arg(more, long), b = va_arg(more, long), c = va_arg(more, long);
    va_end(more);
    return CALL3(number, a, b, c);
}

int open(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    int mode = flags & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY)) ? va_arg(more, int) : 0;
    va_end(more);
    return (int)CALL4(SYS_openat, AT_FDCWD, path, flags, mode);
}

int fcntl(int fd, int what, ...) {
    va_list more;
    va_start(more, what);
    long value = va_arg(more, long);
    va_end(more);
    return (int)CALL3(SYS_fcntl, fd, what, value);
}

int prctl(int what, ...) {
    va_list more;
    va_start(more, what);
    long value = va_arg(more, long);
    va_end(more);
    return (int)CALL3(SYS_prctl, what, value, 0);
}

ssize_t read(int fd, void *into, size_t n) { return CALL3(SYS_read, fd, into, n); }
ssize_t write(int fd, const void *from, size_t n) { return CALL3(SYS_write, fd, from, n); }
ssize_t pread(int fd, void *into, size_t n, off_t at) { return CALL4(SYS_pread64, fd, into, n, at); }
off_t lseek(int fd, off_t at, int from) { return CALL3(SYS_lseek, fd, at, from); }
int close(int fd) { return (int)CALL1(SYS_close, fd); }
int dup2(int from, int to) { return (int)CALL3(SYS_dup3, from, to, 0); } /* of two different descriptors */
int pipe2(int ends[2], int flags) { return (int)CALL3(SYS_pipe2, ends, flags, 0); }
int chdir(const char *path) { return (int)CALL1(SYS_chdir, path); }
int fchdir(int fd) { return (int)CALL1(SYS_fchdir, fd); }
char *getcwd(char *into, size_t room) { return CALL3(SYS_getcwd, into, room, 0) > 0 && *into == '/' ? into : NULL; }
ssize_t readlink(const char *path, char *into, size_t room) {
    return CALL4(SYS_readlinkat, AT_FDCWD, path, into, room);
}
int lstat(const char *path, struct stat *into) {
    return (int)CALL4(SYS_newfstatat, AT_FDCWD, path, into, AT_SYMLINK_NOFOLLOW);
}

int socket(int family, int type, int protocol) { return (int)CALL3(SYS_socket, family, type, protocol); }
int connect(int s, const struct sockaddr *to, socklen_t n) { return (int)CALL3(SYS_connect, s, to, n); }
int shutdown(int s, int how) { return (int)CALL3(SYS_shutdown, s, how, 0); }
ssize_t send(int s, const void *from, size_t n, int flags) { return CALL6(SYS_sendto, s, from, n, flags, 0, 0); }
ssize_t recv(int s, void *into, size_t n, int flags) { return CALL6(SYS_recvfrom, s, into, n, flags, 0, 0); }
int getsockopt(int s, int level, int what, void *into, socklen_t *n) {
    return (int)CALL6(SYS_getsockopt, s, level, what, into, n, 0);
}

pid_t getpid(void) { return (pid_t)CALL1(SYS_getpid, 0); }
pid_t getppid(void) { return (pid_t)CALL1(SYS_getppid, 0); }
uid_t geteuid(void) { return (uid_t)CALL1(SYS_geteuid, 0); }
pid_t setsid(void) { return (pid_t)CALL1(SYS_setsid, 0); }
int setpgid(pid_t pid, pid_t group) { return (int)CALL3(SYS_setpgid, pid, group, 0); }
pid_t fork(void) { return (pid_t)CALL6(SYS_clone, SIGCHLD, 0, 0, 0, 0, 0); }
pid_t waitpid(pid_t pid, int *status, int options) { return (pid_t)CALL4(SYS_wait4, pid, status, options, 0); }
int kill(pid_t pid, int number) { return (int)CALL3(SYS_kill, pid, number, 0); }
int clock_gettime(clockid_t clock, struct timespec *into) { return (int)CALL3(SYS_clock_gettime, clock, into, 0); }

void _exit(int code) {
    for (;;) CALL1(SYS_exit_group, code);
}

/* -- signals and waiting ------------------------------------------------------------------------------------------ */

enum { SIGNAL_BYTES = 8 }; /* of a set in the kernel: the first bytes of the library's set */

int sigemptyset(sigset_t *set) { return *(unsigned long *)set = 0, 0; }
int sigaddset(sigset_t *set, int number) { return *(unsigned long *)set |= 1UL << (number - 1), 0; }
int sigdelset(sigset_t *set, int number) { return *(unsigned long *)set &= ~(1UL << (number - 1)), 0; }
int sigprocmask(int how, const sigset_t *set, sigset_t *before) {
    return (int)CALL4(SYS_rt_sigprocmask, how, set, before, SIGNAL_BYTES);
}

struct kernel_action {
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)(void);
    unsigned long mask;
};

int sigaction(int number, const struct sigaction *action, struct sigaction *before) {
    struct kernel_action now = {NULL, RESTORER, COME_BACK, 0}, then;
    if (action) {
        now.handler = action->sa_handler;
        now.flags |= (unsigned long)action->sa_flags;
    }
    long failed = CALL4(SYS_rt_sigaction, number, action ? &now : NULL, &then, SIGNAL_BYTES);
    if (!failed && before) {
        before->sa_handler = then.handler;
        before->sa_flags = (int)(then.flags & ~RESTORER);
    }
    return (int)failed;
}

void (*signal(int number, void (*handler)(int)))(int) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART}, before = {.sa_handler = SIG_DFL};
    return sigaction(number, &action, &before) ? SIG_ERR : before.sa_handler;
}

int ppoll(struct pollfd *some, nfds_t n, const struct timespec *until, const sigset_t *mask) {
    struct timespec left; /* the kernel writes there */
    if (until) left = *until;
    return (int)CALL6(SYS_ppoll, some, n, until ? &left : NULL, mask, SIGNAL_BYTES, 0);
}

int poll(struct pollfd *some, nfds_t n, int ms) {
    struct timespec until = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
    return ppoll(some, n, ms < 0 ? NULL : &until, NULL);
}

/* -- texts -------------------------------------------------------------------------------------------------------- */

/* The compiler also inserts calls of these, and must not do so inside their own loops. */
#ifndef __clang__ /* for clang, -fno-builtin is enough */
#pragma GCC push_options
#pragma GCC optimize("no-tree-loop-distribute-patterns")
#endif
void *memcpy(void *restrict to, const void *restrict from, size_t n) {
    for (size_t i = 0; i < n; i++) ((char *)to)[i] = ((const char *)from)[i];
    return to;
}

void *memset(void *at, int byte, size_t n) {
    for (size_t i = 0; i < n; i++) ((char *)at)[i] = (char)byte;
    return at;
}

int memcmp(const void *one, const void *other, size_t n) {
    const unsigned char *a = one, *b = other;
    for (size_t i = 0; i < n; i++)
        if (a[i] != b[i]) return a[i] - b[i];
    return 0;
}

size_t strlen(const char *s) {
    size_t n = 0;
    while (s[n]) n++;
    return n;
}

#ifndef __clang__
#pragma GCC pop_options
#endif

int strncmp(const char *a, const char *b, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (a[i] != b[i] || !a[i]) return (unsigned char)a[i] - (unsigned char)b[i];
    return 0;
}

int strcmp(const char *a, const char *b) { return strncmp(a, b, (size_t)-1); }

char *strcpy(char *restrict to, const char *restrict from) { return memcpy(to, from, strlen(from) + 1); }

char *strrchr(const char *s, int byte) {
    char *found = NULL;
    for (;; s++) {
        if (*s == (char)byte) found = (char *)s;
        if (!*s) return found;
    }
}

void *memmem(const void *in, size_t n, const void *what, size_t size) {
    for (size_t i = 0; size <= n && i <= n - size; i++)
        if (!memcmp((const char *)in + i, what, size)) return (char *)in + i;
    return NULL;
}

char *strstr(const char *in, const char *what) { return memmem(in, strlen(in), what, strlen(what)); }

size_t strspn(const char *s, const char *accepted) {
    size_t n = 0;
    while (s[n] && memmem(accepted, strlen(accepted), s + n, 1)) n++;
    return n;
}

/* Decimal digits only. */
long strtol(const char *restrict s, char **restrict end, int base) {
    long value = 0;
    for (; *s >= '0' && *s <= '9'; s++)
        if (__builtin_mul_overflow(value, (long)base, &value) || __builtin_add_overflow(value, *s - '0', &value))
            value = LONG_MAX / base; /* stays near the maximum */
    if (end) *end = (char *)s;
    return value;
}

static size_t put_digits(char *into, size_t room, size_t n, long number) {
    char digits[24];
    size_t count = 0;
    unsigned long left = number < 0 ? 0 - (unsigned long)number : (unsigned long)number;
    do digits[count++] = (char)('0' + left % 10);
    while (left /= 10);
    if (number < 0) digits[count++] = '-';
    for (; count; n++)
        if (count--, n < room) into[n] = digits[count];
    return n;
}

int snprintf(char *restrict into, size_t room, const char *restrict form, ...) {
    size_t n = 0;
    va_list values;
    va_start(values, form);
    for (; *form; form++) {
        if (*form != '%') {
            if (n < room) into[n] = *form;
            n++;
        } else if (*++form == 's') {
            for (const char *s = va_arg(values, const char *); *s; s++, n++)
                if (n < room) into[n] = *s;
        } else {
            int is_long = *form == 'l';
            while (*form == 'l') form++; /* long and long long have the same size here */
            n = put_digits(into, room, n, is_long ? va_arg(values, long) : va_arg(values, int));
        }
    }
    va_end(values);
    if (room) into[n < room ? n : room - 1] = 0;
    return (int)n;
}

/* -- memory, variables and programs ------------------------------------------------------------------------------- */

char **environ;

/* The size of a block is stored before it. Blocks are never freed: they live as long as the client. */
void *realloc(void *old, size_t n) {
    size_t *at = (size_t *)mmap(NULL, n + sizeof *at, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return NULL;
    if (old) memcpy(at + 1, old, ((size_t *)old)[-1] < n ? ((size_t *)old)[-1] : n);
    *at = n;
    if (old) munmap((size_t *)old - 1, ((size_t *)old)[-1] + sizeof *at);
    return at + 1;
}

void *calloc(size_t count, size_t size) { return realloc(NULL, count * size); }

char *getenv(const char *name) {
    size_t n = strlen(name);
    for (char **variable = environ; *variable; variable++)
        if (!strncmp(*variable, name, n) && (*variable)[n] == '=') return *variable + n + 1;
    return NULL;
}

int setenv(const char *name, const char *value, int overwrite) {
    size_t count = 0, n = strlen(name), kept = 0, room = n + strlen(value) + 2;
    while (environ[count]) count++;
    char **ours = calloc(count + 2, sizeof *ours), *text = calloc(1, room);
    if (!ours || !text) return -1;
    for (size_t i = 0; i < count; i++)
        if (!overwrite || strncmp(environ[i], name, n) || environ[i][n] != '=') ours[kept++] = environ[i];
    snprintf(text, room, "%s=%s", name, value);
    ours[kept] = text;
    environ = ours;
    return 0;
}

int execv(const char *path, char *const *words) { return (int)CALL3(SYS_execve, path, words, environ); }

int execvp(const char *name, char *const *words) {
    static char path[PATH_MAX];
    const char *folder = getenv("PATH");
    for (folder = folder ? folder : "/bin:/usr/bin";; folder++) {
        size_t n = 0;
        while (folder[n] && folder[n] != ':') n++;
        if (n + 1 + strlen(name) < sizeof path) {
            memcpy(path, folder, n);
            snprintf(path + n, sizeof path - n, "%s%s", n ? "/" : "./", name);
            execv(path, words);
        }
        folder += n;
        if (!*folder) return -1;
    }
}

void *mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset) {
    return (void *)CALL6(SYS_mmap, at, n, protection, flags, fd, offset);
}

int munmap(void *at, size_t n) { return (int)CALL3(SYS_munmap, at, n, 0); }

/* -- the beginning ------------------------------------------------------------------------------------------------ */

int main(int argc, char **argv, char **environment);

_Noreturn void begin(long *stack) {
    char **argv = (char **)(stack + 1);
    environ = argv + *stack + 1;
    _exit(main((int)*stack, argv, environ));
}

#endif
