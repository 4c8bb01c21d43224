/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/proxy/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <grp.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pwd.h>
#include <sched.h>

#define CONFINE_FILES 1024

#if defined(__x86_64__)
# define CONFINE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
# define CONFINE_ARCH AUDIT_ARCH_AARCH64
#else
# error "which audit architecture is this?"
#endif

/* Refused with EPERM. */
static const unsigned confine_refused[] = {
    SYS_acct,
    SYS_add_key,
    SYS_adjtimex,
    SYS_bpf,
    SYS_chroot,
    SYS_clock_adjtime,
    SYS_clock_settime,
    SYS_delete_module,
    SYS_fanotify_init,
    SYS_finit_module,
    SYS_fsconfig,
    SYS_fsmount,
    SYS_fsopen,
    SYS_fspick,
    SYS_init_module,
    SYS_io_uring_enter,
    SYS_io_uring_register,
    SYS_io_uring_setup,
    SYS_kcmp,
    SYS_kexec_load,
    SYS_keyctl,
    SYS_mount,
    SYS_mount_setattr,
    SYS_move_mount,
    SYS_open_by_handle_at,
    SYS_open_tree,
    SYS_perf_event_open,
    SYS_personality,
    SYS_pidfd_getfd,
    SYS_pidfd_send_signal,
    SYS_pivot_root,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_ptrace,
    SYS_quotactl,
    SYS_reboot,
    SYS_request_key,
    SYS_rt_sigqueueinfo,
    SYS_rt_tgsigqueueinfo,
    SYS_setdomainname,
    SYS_sethostname,
    SYS_setns,
    SYS_settimeofday,
    SYS_swapoff,
    SYS_swapon,
    SYS_syslog,
    SYS_tkill,
    SYS_umount2,
    SYS_unshare,
    SYS_userfaultfd,
    SYS_vhangup,
#if defined(__x86_64__)
    SYS_ioperm,
    SYS_iopl,
    SYS_kexec_file_load,
    SYS_modify_ldt,
#endif
};

#define CONFINE_N (sizeof confine_refused / sizeof *confine_refused)

/* Other namespaces. */
#define CONFINE_CLONE                                                                              \
 (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |     \
  CLONE_NEWNET)

/* Calls whose first argument is a process, which has to be this one. */
static const unsigned confine_own[] = {SYS_kill, SYS_tgkill};

bool
vg_proxy_become(const char *user)
{
    if (!user)
        return true;
    errno = 0;
    const struct passwd *entry = getpwnam(user);
    if (!entry) {
        errno = errno ? errno : ENOENT;
        return false;
    }
    return initgroups(user, entry->pw_gid) == 0 &&
           setresgid(entry->pw_gid, entry->pw_gid, entry->pw_gid) == 0 &&
           setresuid(entry->pw_uid, entry->pw_uid, entry->pw_uid) == 0;
}

static bool
confine_filter(bool is_strict)
{
    struct sock_filter filter[CONFINE_N * 2 + 48];
    const unsigned pid = (unsigned)getpid();
    const unsigned refuse = is_strict ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ERRNO | EPERM;
    unsigned short n = 0;

#define CONFINE_PUT(...) (filter[n++] = (struct sock_filter)__VA_ARGS__)
#define CONFINE_FIRST                                                                              \
 CONFINE_PUT(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)))
    CONFINE_PUT(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)));
    CONFINE_PUT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, CONFINE_ARCH, 1, 0));
    CONFINE_PUT(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
    CONFINE_PUT(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
#if defined(__x86_64__)
    /* Numbers of x32 are another table's. */
    CONFINE_PUT(BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1));
    CONFINE_PUT(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
#endif
    for (size_t i = 0; i < CONFINE_N; i++) {
        CONFINE_PUT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, confine_refused[i], 0, 1));
        CONFINE_PUT(BPF_STMT(BPF_RET | BPF_K, refuse));
    }
    /* Its flags lie in memory, where nothing can be checked: the C library does without it. */
    CONFINE_PUT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1));
    CONFINE_PUT(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS));
    CONFINE_PUT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 4));
    CONFINE_FIRST;
    CONFINE_PUT(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CONFINE_CLONE, 0, 1));
    CONFINE_PUT(BPF_STMT(BPF_RET | BPF_K, refuse));
    CONFINE_PUT(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    /* Clients' processes may be one user's. */
    for (size_t i = 0; i < sizeof confine_own / sizeof *confine_own; i++) {
        CONFINE_PUT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, confine_own[i], 0, 4));
        CONFINE_FIRST;
        CONFINE_PUT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, pid, 1, 0));
        CONFINE_PUT(BPF_STMT(BPF_RET | BPF_K, refuse));
        CONFINE_PUT(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    }
    CONFINE_PUT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prlimit64, 0, 5));
    CONFINE_FIRST;
    CONFINE_PUT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 2, 0));
    CONFINE_PUT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, pid, 1, 0));
    CONFINE_PUT(BPF_STMT(BPF_RET | BPF_K, refuse));
    CONFINE_PUT(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    /* Vendors speak to services of their own on this machine, and to no other. */
    CONFINE_PUT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3));
    CONFINE_FIRST;
    CONFINE_PUT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_UNIX, 1, 0));
    CONFINE_PUT(BPF_STMT(BPF_RET | BPF_K,
                         is_strict ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ERRNO | EACCES));
    CONFINE_PUT(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
#undef CONFINE_FIRST
#undef CONFINE_PUT
    struct sock_fprog program = {.len = n, .filter = filter};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* Where it may not be said, the kernel chooses by size. */
static void
confine_offer_to_oom(void)
{
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

    if (fd < 0)
        return;
    ssize_t written = write(fd, "500", 3);
    (void)written;
    close(fd);
}

bool
vg_proxy_confine(bool is_strict)
{
    const struct rlimit none = {0, 0};
    const struct rlimit files = {CONFINE_FILES, CONFINE_FILES};

    confine_offer_to_oom();
    return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           setrlimit(RLIMIT_CORE, &none) == 0 && setrlimit(RLIMIT_NOFILE, &files) == 0 &&
           confine_filter(is_strict);
}
