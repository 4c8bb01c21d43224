/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/proxy/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <grp.h>
#include <pwd.h>

#include "opencl/base/say.h"
#include "opencl/proxy/apart.h"
#include "opencl/proxy/landlock.h"
#include "opencl/proxy/reach.h"
#include "opencl/proxy/seccomp-allow.h"
#include "opencl/proxy/seed.h"

#define CONFINE_FILES   1024
#define CONFINE_THREADS 256 /* threads and processes, in addition: */
#define CONFINE_EACH    8   /* per processor, for vendors of CPU devices */

pid_t
vg_proxy_fork(const struct proxy_confinement *confinement)
{
    return confinement->is_unconfined ? fork() : vg_apart_fork();
}

uid_t
vg_proxy_client_uid(const struct proxy_confinement *confinement)
{
    const struct passwd *entry = confinement->user ? getpwnam(confinement->user) : NULL;

    return entry ? entry->pw_uid : geteuid();
}

/* Changes this process permanently to another user. NULL keeps the user. */
static bool
confine_become(const char *user)
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

/* Makes the OOM killer prefer this process. If this is not permitted, the kernel chooses by
 * size. */
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

/* Sets the directories where libraries store data. */
static bool
confine_move_in(void)
{
    static const char *const variables[][2] = {
        {"HOME", APART_HOME},
        {"TMPDIR", REACH_TMP},
        {"XDG_CACHE_HOME", APART_CACHE},
        {"CUDA_CACHE_PATH", APART_CACHE "/cuda"},
        {"POCL_CACHE_DIR", APART_CACHE "/pocl"},
    };

    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        if (setenv(variables[i][0], variables[i][1], 1) < 0)
            return false;
    return chdir(APART_HOME) == 0;
}

/* Isolates this process from others, and from their files. */
static const char *
confine_apart(const struct proxy_confinement *confinement, const struct proxy_reach *reach)
{
    const long processors = sysconf(_SC_NPROCESSORS_CONF);
    const rlim_t n = CONFINE_THREADS + CONFINE_EACH * (rlim_t)(processors > 0 ? processors : 1);
    const struct rlimit processes = {n, n};
    const char *why = vg_apart_map();

    if (!why)
        why = vg_apart_mount(reach, confinement->user);
    if (why)
        return why;
    if (!confine_become(confinement->user))
        return "its user";
    if (confinement->seed)
        vg_seed_write(confinement->seed, APART_CACHE);
    if (setrlimit(RLIMIT_NPROC, &processes) < 0)
        return "its number of processes";
    if (!vg_landlock_confine(reach->rules, reach->n))
        return "Landlock";
    if (!confine_move_in())
        return "its private directory";
    return vg_apart_drop() ? NULL : "its capabilities";
}

const char *
vg_proxy_confine(const struct proxy_confinement *confinement)
{
    const struct rlimit none = {0, 0};
    const struct rlimit files = {CONFINE_FILES, CONFINE_FILES};
    static struct proxy_reach reach;
    const char *why = NULL;

    vg_cl_say_keep();
    confine_offer_to_oom();
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return "no new privileges";
    if (confinement->is_unconfined) {
        why = confine_become(confinement->user) ? NULL : "its user";
    } else if (vg_reach_find(&reach, confinement->vendors)) {
        why = confine_apart(confinement, &reach);
        vg_reach_free(&reach);
    } else {
        why = "its files";
    }
    if (why)
        return why;
    if (setrlimit(RLIMIT_CORE, &none) < 0 || setrlimit(RLIMIT_NOFILE, &files) < 0)
        return "its limits";
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return "its memory";
    return vg_seccomp_allow(confinement->is_strict) ? NULL : "seccomp";
}

bool
vg_proxy_confine_check(const struct proxy_confinement *confinement)
{
    int status = 0;
    pid_t pid = vg_proxy_fork(confinement);

    if (pid == 0) {
        const char *why = vg_proxy_confine(confinement);
        if (why)
            fprintf(stderr, "vgpu-proxy: %s: %s\n", why, strerror(errno));
        _exit(why ? EXIT_FAILURE : EXIT_SUCCESS);
    }
    if (pid < 0)
        fprintf(stderr, "vgpu-proxy: namespaces: %s\n", strerror(errno));
    while (pid > 0 && waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return false;
    if (pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS)
        return true;
    fputs("vgpu-proxy: clients' processes cannot be confined on this machine, so they could read "
          "its files and kill each other; --unconfined serves them anyway\n",
          stderr);
    return false;
}
