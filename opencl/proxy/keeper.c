/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/proxy/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <stdatomic.h>

#include "opencl/base/clock.h"
#include "opencl/base/say.h"
#include "opencl/icd/entries.h"
#include "opencl/proxy/apart.h"

#define KEEPER_PAUSE       INT64_C(60000000000) /* ns */
#define KEEPER_DEVICES_MAX 16
#define KEEPER_FOLDERS     8 /* descriptors for walking through the cache */

/* Written by the process and read once by the proxy. */
struct keeper_shared {
    atomic_bool is_complete;
    unsigned n;
    struct proxy_seed_file files[SEED_FILES_MAX];
    uint64_t used;
    unsigned char bytes[SEED_BYTES_MAX];
};

/* ---- in the process ---- */

static struct keeper_shared *keeper_to; /* global, because nftw() has no user data */

static bool
keeper_read(const char *path, unsigned char *to, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    size_t got = 0;

    for (ssize_t n = 1; fd >= 0 && got < size && n > 0; got += n > 0 ? (size_t)n : 0)
        n = read(fd, to + got, size - got);
    if (fd >= 0)
        close(fd);
    return got == size;
}

/* Leaves out files that do not fit. */
static int
keeper_add(const char *path, const struct stat *status, int type, struct FTW *at)
{
    struct keeper_shared *to = keeper_to;
    const uint64_t size = (uint64_t)status->st_size;
    const char *relative = path + sizeof APART_CACHE;

    (void)at;
    if (type != FTW_F || to->n == SEED_FILES_MAX || size > SEED_BYTES_MAX - to->used ||
        strlen(relative) >= SEED_PATH_MAX || !keeper_read(path, to->bytes + to->used, size))
        return 0;
    struct proxy_seed_file *file = &to->files[to->n++];
    strcpy(file->path, relative);
    file->at = to->used;
    file->size = size;
    to->used += size;
    return 0;
}

/* Creates and releases contexts, so that libraries compile. Returns the number of devices. */
static unsigned
keeper_use_devices(void)
{
    cl_platform_id platforms[16];
    cl_device_id devices[KEEPER_DEVICES_MAX];
    cl_uint n = 0, n_devices;
    unsigned all = 0;

    if (vg_cl_dispatch.clGetPlatformIDs(16, platforms, &n) != CL_SUCCESS)
        n = 0;
    for (cl_uint i = 0; i < n && i < 16; i++) {
        if (vg_cl_dispatch.clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, KEEPER_DEVICES_MAX,
                                          devices, &n_devices) != CL_SUCCESS)
            n_devices = 0;
        for (cl_uint d = 0; d < n_devices && d < KEEPER_DEVICES_MAX; d++) {
            cl_context context =
                vg_cl_dispatch.clCreateContext(NULL, 1, &devices[d], NULL, NULL, NULL);
            if (context)
                vg_cl_dispatch.clReleaseContext(context);
            all++;
        }
    }
    return all;
}

/* ALIVE reports end of file when the proxy exits. */
static _Noreturn void
keeper_run(struct keeper_shared *to, bool is_unconfined, int alive)
{
    char byte;

    const unsigned n = keeper_use_devices();
    keeper_to = to;
    /* All processes that are not confined use the user's cache. */
    if (n && !is_unconfined)
        nftw(APART_CACHE, keeper_add, KEEPER_FOLDERS, FTW_PHYS);
    atomic_store(&to->is_complete, n > 0);
    munmap(to, sizeof *to);
    while (n && read(alive, &byte, 1) < 0 && errno == EINTR)
        continue;
    _exit(n ? EXIT_SUCCESS : EXIT_FAILURE);
}

/* ---- in the proxy ---- */

/* Returns whether PATH is inside the cache directory. */
static bool
keeper_is_inside(const char *path)
{
    if (!memchr(path, '\0', SEED_PATH_MAX) || !*path || *path == '/')
        return false;
    for (const char *part = path; part; part = strchr(part, '/') ? strchr(part, '/') + 1 : NULL)
        if (strncmp(part, "../", 3) == 0 || strcmp(part, "..") == 0 || *part == '/')
            return false;
    return path[strlen(path) - 1] != '/';
}

/* Takes the results of the process and checks them, because vendors' libraries run in it. */
static void
keeper_take(struct proxy_keeper *keeper)
{
    struct keeper_shared *from = keeper->shared;
    struct proxy_seed seed = {.n = from->n};
    const uint64_t used = from->used;

    keeper->shared = NULL;
    bool ok = seed.n <= SEED_FILES_MAX && used <= SEED_BYTES_MAX;
    seed.bytes = ok ? malloc(used + 1) : NULL;
    if (seed.bytes) {
        memcpy(seed.bytes, from->bytes, used);
        memcpy(seed.files, from->files, sizeof seed.files);
    }
    munmap(from, sizeof *from);
    for (unsigned i = 0; ok && seed.bytes && i < seed.n; i++) {
        const struct proxy_seed_file *file = &seed.files[i];
        ok = keeper_is_inside(file->path) && file->at <= used && file->size <= used - file->at;
    }
    if (!ok || !seed.bytes) {
        vg_cl_say("cannot use the cache of the process that keeps the vendors' libraries loaded");
        free(seed.bytes);
        return;
    }
    free(keeper->seed.bytes);
    keeper->seed = seed;
}

static bool
keeper_share(struct proxy_keeper *keeper)
{
    if (keeper->shared)
        munmap(keeper->shared, sizeof *keeper->shared);
    void *shared = mmap(NULL, sizeof *keeper->shared, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    keeper->shared = shared == MAP_FAILED ? NULL : shared;
    return keeper->shared;
}

void
vg_keeper_look(struct proxy_keeper *keeper, const struct proxy_confinement *confinement,
               void (*leave)(void *data), void *data)
{
    int alive[2];
    sigset_t none;

    if (keeper->pid && keeper->shared && atomic_load(&keeper->shared->is_complete))
        keeper_take(keeper);
    if (!confinement->seed || keeper->pid || vg_cl_now() < keeper->due)
        return;
    keeper->due = vg_cl_now() + KEEPER_PAUSE;
    if (!keeper_share(keeper) || pipe2(alive, O_CLOEXEC) < 0)
        return;
    struct keeper_shared *shared = keeper->shared;
    const pid_t pid = vg_proxy_fork(confinement);
    if (pid != 0) {
        close(alive[0]);
        keeper->pid = pid > 0 ? pid : 0;
        keeper->alive = alive[1];
        if (pid < 0)
            close(alive[1]);
        return;
    }
    close(alive[1]);
    keeper->shared = NULL;
    leave(data);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGTERM, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    prctl(PR_SET_NAME, "vgpu-proxy-keep", 0, 0, 0);
    const char *why = vg_proxy_confine(confinement);
    if (why) {
        vg_cl_say("cannot keep the vendors' libraries loaded: %s: %s", why, strerror(errno));
        _exit(EXIT_FAILURE);
    }
    keeper_run(shared, confinement->is_unconfined, alive[0]);
}

void
vg_keeper_leave(const struct proxy_keeper *keeper)
{
    if (keeper->shared)
        munmap(keeper->shared, sizeof *keeper->shared);
    if (keeper->pid)
        close(keeper->alive);
}

bool
vg_keeper_ended(struct proxy_keeper *keeper, pid_t pid, int status)
{
    if (!keeper->pid || pid != keeper->pid)
        return false;
    vg_cl_say("the process that keeps the vendors' libraries loaded has exited with status 0x%x; "
              "the proxy tries again in a minute",
              (unsigned)status);
    close(keeper->alive);
    keeper->pid = 0;
    keeper->due = vg_cl_now() + KEEPER_PAUSE;
    return true;
}
