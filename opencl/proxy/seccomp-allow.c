/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/proxy/seccomp-allow.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>

#if defined(__x86_64__)
# define SECCOMP_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
# define SECCOMP_ARCH AUDIT_ARCH_AARCH64
#else
# error "which audit architecture is this?"
#endif

/* Newer calls are as unknown here as to a kernel of that time, which C libraries handle. */
#define SECCOMP_NEWEST 448 /* process_mrelease */

#define SECCOMP_ROOM 1024           /* instructions */
#define SECCOMP_END  SYS_kexec_load /* the call with which seccomp_end() ends the process */

/* Calls that are allowed with any arguments: they affect what the process already has, or files,
 * which Landlock checks. */
static const unsigned seccomp_allowed[] = {
    /* files */
    SYS_chdir,
    SYS_close,
    SYS_close_range,
    SYS_copy_file_range,
    SYS_dup,
    SYS_dup3,
    SYS_faccessat,
    SYS_faccessat2,
    SYS_fadvise64,
    SYS_fallocate,
    SYS_fchdir,
    SYS_fchmod,
    SYS_fdatasync,
    SYS_flock,
    SYS_fstat,
    SYS_fstatfs,
    SYS_fsync,
    SYS_ftruncate,
    SYS_getcwd,
    SYS_getdents64,
    SYS_linkat,
    SYS_lseek,
    SYS_mkdirat,
    SYS_newfstatat,
    SYS_openat,
    SYS_openat2,
    SYS_pipe2,
    SYS_pread64,
    SYS_preadv,
    SYS_preadv2,
    SYS_pwrite64,
    SYS_pwritev,
    SYS_pwritev2,
    SYS_read,
    SYS_readahead,
    SYS_readlinkat,
    SYS_readv,
    SYS_renameat,
    SYS_renameat2,
    SYS_sendfile,
    SYS_splice,
    SYS_statfs,
    SYS_statx,
    SYS_symlinkat,
    SYS_sync_file_range,
    SYS_tee,
    SYS_truncate,
    SYS_umask,
    SYS_unlinkat,
    SYS_write,
    SYS_writev,
    /* memory */
    SYS_brk,
    SYS_get_mempolicy,
    SYS_madvise,
    SYS_mbind,
    SYS_membarrier,
    SYS_memfd_create,
    SYS_mincore,
    SYS_mlock,
    SYS_mlock2,
    SYS_mlockall,
    SYS_mmap,
    SYS_mprotect,
    SYS_mremap,
    SYS_msync,
    SYS_munlock,
    SYS_munlockall,
    SYS_munmap,
    SYS_pkey_alloc,
    SYS_pkey_free,
    SYS_pkey_mprotect,
    SYS_set_mempolicy,
    /* threads, and the linkers that compilers start */
    SYS_execve,
    SYS_exit,
    SYS_exit_group,
    SYS_futex,
    SYS_get_robust_list,
    SYS_getcpu,
    SYS_rseq,
    SYS_sched_get_priority_max,
    SYS_sched_get_priority_min,
    SYS_sched_getaffinity,
    SYS_sched_getattr,
    SYS_sched_getparam,
    SYS_sched_getscheduler,
    SYS_sched_rr_get_interval,
    SYS_sched_setaffinity,
    SYS_sched_setattr,
    SYS_sched_setparam,
    SYS_sched_setscheduler,
    SYS_sched_yield,
    SYS_set_robust_list,
    SYS_set_tid_address,
    SYS_wait4,
    SYS_waitid,
    /* its identity and properties */
    SYS_capget,
    SYS_getegid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getgroups,
    SYS_getpgid,
    SYS_getpid,
    SYS_getppid,
    SYS_getpriority,
    SYS_getrandom,
    SYS_getresgid,
    SYS_getresuid,
    SYS_getrlimit,
    SYS_getrusage,
    SYS_getsid,
    SYS_gettid,
    SYS_getuid,
    SYS_ioprio_get,
    SYS_setrlimit,
    SYS_sysinfo,
    SYS_uname,
    /* signals to itself */
    SYS_restart_syscall,
    SYS_rt_sigaction,
    SYS_rt_sigpending,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_rt_sigsuspend,
    SYS_rt_sigtimedwait,
    SYS_sigaltstack,
    SYS_signalfd4,
    /* time */
    SYS_clock_getres,
    SYS_clock_gettime,
    SYS_clock_nanosleep,
    SYS_getitimer,
    SYS_gettimeofday,
    SYS_nanosleep,
    SYS_setitimer,
    SYS_timer_create,
    SYS_timer_delete,
    SYS_timer_getoverrun,
    SYS_timer_gettime,
    SYS_timer_settime,
    SYS_timerfd_create,
    SYS_timerfd_gettime,
    SYS_timerfd_settime,
    SYS_times,
    /* waiting */
    SYS_epoll_create1,
    SYS_epoll_ctl,
    SYS_epoll_pwait,
    SYS_epoll_pwait2,
    SYS_eventfd2,
    SYS_ppoll,
    SYS_pselect6,
    /* its sockets: that of its program, and its own pairs */
    SYS_accept,
    SYS_accept4,
    SYS_getpeername,
    SYS_getsockname,
    SYS_getsockopt,
    SYS_listen,
    SYS_recvfrom,
    SYS_recvmmsg,
    SYS_recvmsg,
    SYS_sendmmsg,
    SYS_sendmsg,
    SYS_sendto,
    SYS_setsockopt,
    SYS_shutdown,
#if defined(__x86_64__)
    /* the same under their older names */
    SYS_access,
    SYS_alarm,
    SYS_arch_prctl,
    SYS_creat,
    SYS_dup2,
    SYS_epoll_create,
    SYS_epoll_wait,
    SYS_eventfd,
    SYS_fork,
    SYS_getdents,
    SYS_getpgrp,
    SYS_link,
    SYS_lstat,
    SYS_mkdir,
    SYS_open,
    SYS_pause,
    SYS_pipe,
    SYS_poll,
    SYS_readlink,
    SYS_rename,
    SYS_rmdir,
    SYS_select,
    SYS_signalfd,
    SYS_stat,
    SYS_symlink,
    SYS_time,
    SYS_unlink,
    SYS_vfork,
#endif
};

/* A system call that depends on an argument, whose lower half counts. */
struct seccomp_condition {
    unsigned argument, mask; /* 0: all bits */
    bool are_refused;        /* refuse these values, instead of all others */
    unsigned n;
    unsigned values[4];
};

struct seccomp_rule {
    unsigned call;
    int error; /* if a condition is not met */
    unsigned n;
    struct seccomp_condition conditions[2];
};

#define SECCOMP_SELF  UINT_MAX /* among values: this process */
#define SECCOMP_TYPES 0xf      /* of sockets, without flags */

/* Other namespaces. */
#define SECCOMP_CLONE                                                                              \
 (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |     \
  CLONE_NEWNET)

static const struct seccomp_rule seccomp_rules[] = {
    {SYS_clone, EPERM, 1, {{0, SECCOMP_CLONE, false, 1, {0}}}},
    /* Signals to the process itself, also through a descriptor. */
    {SYS_kill, EPERM, 1, {{0, 0, false, 1, {SECCOMP_SELF}}}},
    {SYS_tgkill, EPERM, 1, {{0, 0, false, 1, {SECCOMP_SELF}}}},
    {SYS_fcntl, EPERM, 1, {{1, 0, true, 4, {F_SETOWN, F_SETOWN_EX, F_SETSIG, F_NOTIFY}}}},
    /* And typing into terminals. */
    {SYS_ioctl, EPERM, 1, {{1, 0, true, 4, {FIOSETOWN, SIOCSPGRP, TIOCSTI, TIOCLINUX}}}},
    {SYS_prlimit64, EPERM, 1, {{0, 0, false, 2, {0, SECCOMP_SELF}}}},
    /* Only for itself, not for all processes of this user. */
    {SYS_setpriority, EPERM, 1, {{0, 0, false, 1, {PRIO_PROCESS}}}},
    /* Other processes of this user must not access its memory. */
    {SYS_prctl, EPERM, 1, {{0, 0, true, 3, {PR_SET_DUMPABLE, PR_SET_MM, PR_SET_PTRACER}}}},
    /* Only sockets of this machine, and no datagrams, which need no connection. */
    {SYS_socket,
     EACCES,
     2,
     {{0, 0, false, 1, {AF_UNIX}}, {1, SECCOMP_TYPES, false, 2, {SOCK_STREAM, SOCK_SEQPACKET}}}},
    {SYS_socketpair, EACCES, 1, {{1, SECCOMP_TYPES, false, 2, {SOCK_STREAM, SOCK_SEQPACKET}}}},
};

/* Calls that always fail, but do not end the process. */
static const struct {
    unsigned call;
    int error;
} seccomp_failing[] = {
    /* Its flags are in memory, where they cannot be checked. The C library does without it. */
    {SYS_clone3, ENOSYS},
    /* Landlock does not check what a file's owner may do, nor times. */
    {SYS_fchmodat, EPERM},
    {SYS_utimensat, EPERM},
#if defined(__x86_64__)
    {SYS_chmod, EPERM},
    {SYS_utime, EPERM},
    {SYS_utimes, EPERM},
#endif
    /* There is nothing to connect to, and Landlock does not check sockets with a path. libcuda
     * searches for an MPS server this way, and does without. */
    {SYS_connect, ENOENT},
};

/* ---- the program ---- */

struct seccomp_program {
    struct sock_filter code[SECCOMP_ROOM];
    unsigned short n;
    unsigned refuse; /* result of a forbidden call, with or without an error */
    bool has_errors;
};

static void
seccomp_put(struct seccomp_program *program, unsigned code, unsigned k, unsigned yes, unsigned no)
{
    if (program->n < SECCOMP_ROOM)
        program->code[program->n] =
            (struct sock_filter){(unsigned short)code, (unsigned char)yes, (unsigned char)no, k};
    program->n++;
}

static void
seccomp_load(struct seccomp_program *program, size_t at)
{
    seccomp_put(program, BPF_LD | BPF_W | BPF_ABS, (unsigned)at, 0, 0);
}

static void
seccomp_return(struct seccomp_program *program, unsigned what)
{
    seccomp_put(program, BPF_RET | BPF_K, what, 0, 0);
}

static void
seccomp_refuse(struct seccomp_program *program, int error)
{
    seccomp_return(program, program->refuse | (program->has_errors ? (unsigned)error : 0));
}

/* Continues with what follows, or refuses. */
static void
seccomp_check(struct seccomp_program *program, const struct seccomp_condition *condition, int error)
{
    const unsigned self = (unsigned)getpid(), n = condition->n;

    seccomp_load(program, offsetof(struct seccomp_data, args) + condition->argument * 8);
    if (condition->mask)
        seccomp_put(program, BPF_ALU | BPF_AND | BPF_K, condition->mask, 0, 0);
    for (unsigned i = 0; i < n; i++) {
        const unsigned value = condition->values[i];
        seccomp_put(program, BPF_JMP | BPF_JEQ | BPF_K, value == SECCOMP_SELF ? self : value, n - i,
                    0);
    }
    /* Values that were found continue here, and the others before it. One of the two refuses. */
    if (condition->are_refused)
        seccomp_put(program, BPF_JMP | BPF_JA, 1, 0, 0);
    seccomp_refuse(program, error);
}

static void
seccomp_put_rule(struct seccomp_program *program, const struct seccomp_rule *rule)
{
    seccomp_load(program, offsetof(struct seccomp_data, nr));
    const unsigned short begin = program->n;
    seccomp_put(program, BPF_JMP | BPF_JEQ | BPF_K, rule->call, 0, 0);
    for (unsigned i = 0; i < rule->n; i++)
        seccomp_check(program, &rule->conditions[i], rule->error);
    seccomp_return(program, SECCOMP_RET_ALLOW);
    program->code[begin].jf = (unsigned char)(program->n - begin - 1);
}

static void
seccomp_put_call(struct seccomp_program *program, unsigned call, unsigned what)
{
    seccomp_put(program, BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1);
    seccomp_return(program, what);
}

static void
seccomp_write(struct seccomp_program *program, bool is_strict)
{
    seccomp_load(program, offsetof(struct seccomp_data, arch));
    seccomp_put(program, BPF_JMP | BPF_JEQ | BPF_K, SECCOMP_ARCH, 1, 0);
    seccomp_return(program, SECCOMP_RET_KILL_PROCESS);
    seccomp_load(program, offsetof(struct seccomp_data, nr));
#if defined(__x86_64__)
    /* The numbers of x32 are from another table. */
    seccomp_put(program, BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1);
    seccomp_return(program, SECCOMP_RET_KILL_PROCESS);
#endif
    for (size_t i = 0; i < sizeof seccomp_allowed / sizeof *seccomp_allowed; i++)
        seccomp_put_call(program, seccomp_allowed[i], SECCOMP_RET_ALLOW);
    for (size_t i = 0; i < sizeof seccomp_failing / sizeof *seccomp_failing; i++)
        seccomp_put_call(program, seccomp_failing[i].call,
                         SECCOMP_RET_ERRNO | (unsigned)seccomp_failing[i].error);
    if (is_strict)
        seccomp_put_call(program, SECCOMP_END, SECCOMP_RET_KILL_PROCESS);
    seccomp_put(program, BPF_JMP | BPF_JGT | BPF_K, SECCOMP_NEWEST, 0, 1);
    seccomp_return(program, SECCOMP_RET_ERRNO | ENOSYS);
    for (size_t i = 0; i < sizeof seccomp_rules / sizeof *seccomp_rules; i++)
        seccomp_put_rule(program, &seccomp_rules[i]);
    seccomp_refuse(program, EPERM);
}

/* ---- the process ---- */

/* The kernel reports forbidden calls with this signal. No other handler handles it. */
static void
seccomp_end(int number, siginfo_t *info, void *context)
{
    char line[64];

    (void)number;
    (void)context;
    int size = snprintf(line, sizeof line, "vgpu-proxy: system call %d is not allowed\n",
                        info->si_syscall);
    ssize_t written = write(STDERR_FILENO, line, (size_t)size);
    (void)written;
    syscall(SECCOMP_END);
}

bool
vg_seccomp_allow(bool is_strict)
{
    struct seccomp_program program = {.refuse = is_strict ? SECCOMP_RET_TRAP : SECCOMP_RET_ERRNO,
                                      .has_errors = !is_strict};
    const struct sigaction action = {.sa_sigaction = seccomp_end, .sa_flags = SA_SIGINFO};

    seccomp_write(&program, is_strict);
    if (program.n > SECCOMP_ROOM) {
        errno = E2BIG;
        return false;
    }
    const struct sock_fprog loaded = {.len = program.n, .filter = program.code};
    return (!is_strict || sigaction(SIGSYS, &action, NULL) == 0) &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &loaded) == 0;
}
