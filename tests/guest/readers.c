/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "config.h"

#include "tests/guest/readers.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/userfaultfd.h>
#include <stdatomic.h>

enum { WORDS = 8192, BYTES = WORDS * sizeof(uint64_t) };

static volatile uint64_t *memory;
static uint64_t saved[WORDS], expected;
static const char *taken = "";
/* The same contents elsewhere, to be moved to where they were. */
static void *spare;
static int fault_fd = -1;
static atomic_ulong passes, wrong;

int
readers_init(void)
{
    struct rlimit none = {0, 0};

    setrlimit(RLIMIT_CORE, &none);
    memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return -1;
    for (size_t i = 0; i < WORDS; i++) {
        memory[i] = saved[i] = (i + 1) * 6364136223846793005ULL;
        expected += saved[i];
    }
    return 0;
}

static void *
readers_run(void *arg)
{
    (void)arg;
    for (;;) {
        uint64_t sum = 0;
        for (size_t i = 0; i < WORDS; i++)
            sum += memory[i];
        if (sum != expected)
            wrong++;
        passes++;
        usleep(1000);
    }
    return NULL;
}

int
readers_start(unsigned n)
{
    pthread_attr_t attr;
    pthread_t thread;
    int error = 0;

    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 1 << 18);
    for (; n > 0 && error == 0; n--)
        error = pthread_create(&thread, &attr, readers_run, NULL);
    pthread_attr_destroy(&attr);
    return error == 0 ? 0 : -1;
}

/* Has the kernel send SIGBUS for pages that are not there. */
static int
readers_take_pages(void)
{
    struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_SIGBUS};
    struct uffdio_register all = {.range = {(uintptr_t)memory, BYTES},
                                  .mode = UFFDIO_REGISTER_MODE_MISSING};

    fault_fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    return fault_fd >= 0 && ioctl(fault_fd, UFFDIO_API, &api) == 0 &&
                   ioctl(fault_fd, UFFDIO_REGISTER, &all) == 0 &&
                   madvise((void *)(uintptr_t)memory, BYTES, MADV_DONTNEED) == 0
               ? 0
               : -1;
}

static int
readers_give_pages(void)
{
    struct uffdio_copy all = {.dst = (uintptr_t)memory, .src = (uintptr_t)saved, .len = BYTES};
    int result = ioctl(fault_fd, UFFDIO_COPY, &all);

    close(fault_fd);
    return result;
}

static int
readers_unmap(void)
{
    spare = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (spare == MAP_FAILED)
        return -1;
    memcpy(spare, saved, BYTES);
    return munmap((void *)(uintptr_t)memory, BYTES);
}

int
readers_take(const char *how)
{
    static const char *const hows[] = {"protect", "unmap", "bus"};

    for (size_t i = 0; i < sizeof hows / sizeof *hows; i++) {
        if (strcmp(how, hows[i]) == 0)
            taken = hows[i];
    }
    if (strcmp(taken, "protect") == 0)
        return mprotect((void *)(uintptr_t)memory, BYTES, PROT_NONE);
    if (strcmp(taken, "unmap") == 0)
        return readers_unmap();
    return strcmp(taken, "bus") == 0 ? readers_take_pages() : -1;
}

int
readers_give(void)
{
    if (strcmp(taken, "protect") == 0)
        return mprotect((void *)(uintptr_t)memory, BYTES, PROT_READ | PROT_WRITE);
    if (strcmp(taken, "bus") == 0)
        return readers_give_pages();
    return mremap(spare, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, memory) == MAP_FAILED ? -1
                                                                                            : 0;
}

void *
readers_memory(void)
{
    return (void *)(uintptr_t)memory;
}

void
readers_count(unsigned long *ret_passes, unsigned long *ret_wrong)
{
    *ret_passes = passes;
    *ret_wrong = wrong;
}
