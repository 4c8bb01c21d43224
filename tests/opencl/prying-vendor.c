/* SPDX-License-Identifier: Apache-2.0
 *
 * A vendor of OpenCL that has no platform, and tries on its way in what no vendor needs. It writes
 * a line for each to stderr, with its name and the error. With VG_PRYING_ONE it tries that one
 * alone.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <sched.h>

static const struct {
    const char *name;
    long number, first, second;
} tries[] = {
    {"inet", SYS_socket, AF_INET, SOCK_STREAM},
    {"inet6", SYS_socket, AF_INET6, SOCK_STREAM},
    {"packet", SYS_socket, AF_PACKET, SOCK_RAW},
    {"netlink", SYS_socket, AF_NETLINK, SOCK_RAW},
    {"vsock", SYS_socket, AF_VSOCK, SOCK_STREAM},
    {"ptrace", SYS_ptrace, 0, 0},
    {"unshare", SYS_unshare, CLONE_NEWUSER, 0},
    {"clone", SYS_clone, CLONE_NEWUSER | SIGCHLD, 0},
    {"mount", SYS_mount, 0, 0},
    {"fsopen", SYS_fsopen, 0, 0},
    {"bpf", SYS_bpf, 0, 0},
    {"io_uring", SYS_io_uring_setup, 1, 0},
    {"process_vm_readv", SYS_process_vm_readv, 1, 0},
    {"init_module", SYS_init_module, 0, 0},
    {"keyctl", SYS_keyctl, 0, 0},
    {"perf", SYS_perf_event_open, 0, 0},
    {"userfaultfd", SYS_userfaultfd, 0, 0},
    {"kill", SYS_kill, 2, 0},
    {"kill-all", SYS_kill, -1, 0},
    {"tgkill", SYS_tgkill, 2, 2},
    {"prlimit", SYS_prlimit64, 2, RLIMIT_NOFILE},
    {"unix-datagrams", SYS_socket, AF_UNIX, SOCK_DGRAM},
    {"datagrams", SYS_socketpair, AF_UNIX, SOCK_DGRAM},
    {"owner", SYS_fcntl, STDERR_FILENO, F_SETOWN},
    {"signal", SYS_fcntl, STDERR_FILENO, F_SETSIG},
    {"ioctl-owner", SYS_ioctl, STDERR_FILENO, FIOSETOWN},
    {"priority", SYS_setpriority, PRIO_USER, 0},
    {"io-priority", SYS_ioprio_set, 1, 0},
    {"dumpable", SYS_prctl, PR_SET_DUMPABLE, 1},
    {"shared-memory", SYS_shmget, 0, 4096},
    {"watch", SYS_inotify_init1, 0, 0},
    /* What it may do. */
    {"unix", SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC},
    {"unix-messages", SYS_socket, AF_UNIX, SOCK_SEQPACKET},
    {"own-prlimit", SYS_prlimit64, 0, RLIMIT_NOFILE},
};

__attribute__((constructor)) static void
pry(void)
{
    const char *one = getenv("VG_PRYING_ONE");

    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        if (one && strcmp(one, tries[i].name) != 0)
            continue;
        long result = syscall(tries[i].number, tries[i].first, tries[i].second, 0, 0, 0);
        if (result == 0 && tries[i].number == SYS_clone)
            _exit(0); /* the child */
        dprintf(STDERR_FILENO, "tried %s %d\n", tries[i].name, result < 0 ? errno : 0);
    }
}
