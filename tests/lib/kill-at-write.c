/* SPDX-License-Identifier: Apache-2.0
 *
 * Loaded before the C library: kills the process at a write to its journal, of whatever. The file
 * VG_KILL_AT_WRITE has two numbers of 8 bytes: at which write, below zero before it, 0 for none;
 * and how many there were since that was set. A write begins with the first change of the
 * write-ahead log and ends with a sync of it.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <dlfcn.h>

static volatile int64_t *numbers;
static bool is_writing;

__attribute__((constructor)) static void
open_file(void)
{
    const char *path = getenv("VG_KILL_AT_WRITE");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *map = fd < 0 ? MAP_FAILED : mmap(NULL, 16, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (map != MAP_FAILED)
        numbers = map;
    if (fd >= 0)
        close(fd);
}

static bool
is_journal(int fd)
{
    static const char end[] = "/state.db-wal";
    char link[64], path[512];

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof(path));
    return n >= (ssize_t)sizeof(end) - 1 &&
           memcmp(path + n - (sizeof(end) - 1), end, sizeof(end) - 1) == 0;
}

static void
kill_at(int64_t number)
{
    if (numbers[0] == number)
        kill(getpid(), SIGKILL);
}

ssize_t
pwrite64(int fd, const void *data, size_t size, off64_t at)
{
    ssize_t (*real)(int, const void *, size_t, off64_t) = dlsym(RTLD_NEXT, "pwrite64");

    if (numbers && numbers[0] != 0 && !is_writing && is_journal(fd)) {
        kill_at(-(numbers[1] + 1));
        is_writing = true;
    }
    return real(fd, data, size, at);
}

static int
count_sync(int fd, int status)
{
    if (numbers && numbers[0] != 0 && is_writing && is_journal(fd)) {
        is_writing = false;
        kill_at(++numbers[1]);
    }
    return status;
}

int
fdatasync(int fd)
{
    int (*real)(int) = dlsym(RTLD_NEXT, "fdatasync");

    return count_sync(fd, real(fd));
}

int
fsync(int fd)
{
    int (*real)(int) = dlsym(RTLD_NEXT, "fsync");

    return count_sync(fd, real(fd));
}
