/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/wire/link-shared.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <sched.h>
#include <stdatomic.h>

#define SHARED_RING  (UINT64_C(1) << 20)  /* bytes of each ring; a power of 2 */
#define SHARED_PIECE (UINT64_C(64) << 10) /* bytes after which the other side may start */
#define SHARED_BLOCK (UINT64_C(64) << 10) /* bytes; areas are whole blocks */
#define SHARED_SPINS 400                  /* maximum number of spins, about 40 ns each */
#define SHARED_NAP   1000000              /* maximum sleep of a side that waits for space, in ns */

struct shared_ring {
    _Alignas(64) _Atomic uint64_t written; /* total bytes; by the sender */
    _Alignas(64) _Atomic uint64_t taken;   /* by the receiver */
    _Atomic uint32_t is_asleep;            /* a byte through the socket wakes the receiver */
};

/* The start of the memory. */
struct shared_head {
    struct shared_ring rings[2]; /* received by the proxy, and by the program */
    _Alignas(
        64) _Atomic uint32_t lent[]; /* for each block: an area that the proxy has starts there */
};

struct vg_wire_shared {
    struct shared_head *head;
    size_t size; /* total size */
    struct shared_ring *out, *in;
    unsigned char *out_bytes, *in_bytes;
    uint64_t written;       /* this side's own copies of: */
    _Atomic uint64_t taken; /* which other threads may read */
    unsigned spins;         /* number of spins before it sleeps */
    bool is_single;         /* there is one processor */
    int limit_ms;           /* vg_wire_shared_limit() */
    atomic_bool is_shut;    /* by this side: the other side has the rings */
    unsigned char *staging;
    uint64_t n_blocks;
    uint32_t *areas; /* program's side: number of blocks of the area that starts here */
};

static void
shared_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#endif
}

/* ---- making it ---- */

static size_t
shared_head_size(uint64_t n_blocks)
{
    size_t size = sizeof(struct shared_head) + n_blocks * sizeof(uint32_t);

    return (size + SHARED_BLOCK - 1) & ~(SHARED_BLOCK - 1);
}

unsigned
vg_wire_link_processors(void)
{
    static _Atomic unsigned known;
    cpu_set_t set;

    if (known == 0)
        known = sched_getaffinity(0, sizeof set, &set) == 0 ? (unsigned)CPU_COUNT(&set) : 2;
    return known;
}

/* Maps MEMORY with N_BLOCKS. */
static struct vg_wire_shared *
shared_map(int memory, uint64_t n_blocks, bool is_proxy)
{
    struct vg_wire_shared *shared = calloc(1, sizeof *shared);
    size_t head = shared_head_size(n_blocks);

    if (!shared)
        return NULL;
    shared->size = head + 2 * SHARED_RING + n_blocks * SHARED_BLOCK;
    void *all = mmap(NULL, shared->size, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    shared->areas = is_proxy ? NULL : calloc(n_blocks + 1, sizeof *shared->areas);
    if (all == MAP_FAILED || (!is_proxy && !shared->areas)) {
        if (all != MAP_FAILED)
            munmap(all, shared->size);
        free(shared->areas);
        free(shared);
        return NULL;
    }
    unsigned char *bytes = (unsigned char *)all + head;
    shared->head = all;
    shared->in = &shared->head->rings[!is_proxy];
    shared->out = &shared->head->rings[is_proxy];
    shared->in_bytes = bytes + (is_proxy ? 0 : SHARED_RING);
    shared->out_bytes = bytes + (is_proxy ? SHARED_RING : 0);
    shared->staging = bytes + 2 * SHARED_RING;
    shared->n_blocks = n_blocks;
    shared->is_single = vg_wire_link_processors() == 1;
    shared->spins = SHARED_SPINS;
    shared->limit_ms = -1;
    return shared;
}

struct vg_wire_shared *
vg_wire_shared_make(size_t staging, int *memory)
{
    uint64_t n_blocks = staging / SHARED_BLOCK;
    size_t size = shared_head_size(n_blocks) + 2 * SHARED_RING + n_blocks * SHARED_BLOCK;
    struct vg_wire_shared *shared = NULL;

    *memory = memfd_create("vgpu-proxy", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (*memory < 0)
        return NULL;
    /* If the other side could truncate the memory, its use would kill this process. */
    if (ftruncate(*memory, (off_t)size) == 0 &&
        fcntl(*memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
        shared = shared_map(*memory, n_blocks, true);
    if (shared)
        return shared;
    int error = errno;
    close(*memory);
    *memory = -1;
    errno = error;
    return NULL;
}

struct vg_wire_shared *
vg_wire_shared_open(int memory, uint64_t staging)
{
    uint64_t n_blocks = staging / SHARED_BLOCK;
    struct stat status;
    int seals = fcntl(memory, F_GET_SEALS);

    if (staging > VG_WIRE_STAGING_MAX || seals < 0 || !(seals & F_SEAL_SHRINK) ||
        fstat(memory, &status) != 0 ||
        (uint64_t)status.st_size <
            shared_head_size(n_blocks) + 2 * SHARED_RING + n_blocks * SHARED_BLOCK)
        return NULL;
    return shared_map(memory, n_blocks, false);
}

void
vg_wire_shared_limit(struct vg_wire_shared *shared, int ms)
{
    shared->limit_ms = ms;
}

void
vg_wire_shared_shut(struct vg_wire_shared *shared)
{
    atomic_store(&shared->is_shut, true);
}

static bool
shared_is_shut(const struct vg_wire_shared *shared)
{
    return atomic_load_explicit(&shared->is_shut, memory_order_relaxed);
}

void
vg_wire_shared_close(struct vg_wire_shared *shared)
{
    if (!shared)
        return;
    munmap(shared->head, shared->size);
    free(shared->areas);
    free(shared);
}

/* ---- the rings ---- */

/* Returns how many bytes can be received. If it is more than the size of the ring, the other side
 * is faulty. */
static uint64_t
shared_has(const struct vg_wire_shared *shared)
{
    return atomic_load_explicit(&shared->in->written, memory_order_acquire) -
           atomic_load_explicit(&shared->taken, memory_order_relaxed);
}

/* Returns how many bytes can be sent. More than the size of the ring means the same. */
static uint64_t
shared_room(const struct vg_wire_shared *shared)
{
    uint64_t left =
        shared->written - atomic_load_explicit(&shared->out->taken, memory_order_acquire);

    return SHARED_RING - left;
}

/* Publishes what was written. */
static bool
shared_publish(struct vg_wire_shared *shared, int fd)
{
    const char byte = 0;

    atomic_store_explicit(&shared->out->written, shared->written, memory_order_release);
    atomic_thread_fence(memory_order_seq_cst);
    if (!atomic_load_explicit(&shared->out->is_asleep, memory_order_relaxed) ||
        !atomic_exchange(&shared->out->is_asleep, 0))
        return true;
    /* If the socket is full of such bytes, there are enough of them. */
    return send(fd, &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1 || errno == EAGAIN ||
           errno == EINTR;
}

/* Writes up to SIZE bytes, as many as fit into ROOM. */
static size_t
shared_write(struct vg_wire_shared *shared, const void *bytes, size_t size, uint64_t room)
{
    size_t at = shared->written & (SHARED_RING - 1);

    size = size < room ? size : room;
    size = size < SHARED_RING - at ? size : SHARED_RING - at;
    memcpy(shared->out_bytes + at, bytes, size);
    shared->written += size;
    return size;
}

/* Returns whether the socket has ended. If IS_TAKING, removes bytes that woke this side. */
static bool
shared_is_over(int fd, bool is_taking)
{
    char bytes[64];
    ssize_t n = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT | (is_taking ? 0 : MSG_PEEK));

    return n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

static void
shared_nap(int64_t ns)
{
    struct timespec time = {0, ns};

    nanosleep(&time, NULL);
}

/* Waits until there is space. Returns false if the link is broken. */
static bool
shared_wait_for_room(struct vg_wire_shared *shared, int fd, void (*help)(void *data), void *data)
{
    int64_t nap = 50000, slept = 0;

    for (unsigned i = 0; i < SHARED_SPINS && !shared->is_single; i++) {
        if (shared_room(shared))
            return true;
        shared_pause();
    }
    while (!shared_room(shared)) {
        uint64_t has = shared_has(shared);
        /* Received data may be left there when the link is broken. */
        if (has > SHARED_RING || shared_is_over(fd, false))
            return false;
        if (help && has) {
            help(data);
            continue;
        }
        if (shared->limit_ms >= 0 && slept > shared->limit_ms * INT64_C(1000000))
            return false;
        shared_nap(nap);
        slept += nap;
        nap = nap < SHARED_NAP / 2 ? 2 * nap : SHARED_NAP;
    }
    return true;
}

bool
vg_wire_shared_send(struct vg_wire_shared *shared, int fd, const struct iovec *parts, int n,
                    void (*help)(void *data), void *data)
{
    uint64_t unpublished = 0;

    for (int i = 0; i < n; i++) {
        for (size_t sent = 0; sent < parts[i].iov_len;) {
            uint64_t room = shared_room(shared);
            if (room > SHARED_RING || shared_is_shut(shared))
                return false;
            if (room == 0) {
                if (!shared_publish(shared, fd) || !shared_wait_for_room(shared, fd, help, data))
                    return false;
                continue;
            }
            room = room < SHARED_PIECE ? room : SHARED_PIECE;
            size_t wrote = shared_write(shared, (const char *)parts[i].iov_base + sent,
                                        parts[i].iov_len - sent, room);
            sent += wrote;
            unpublished += wrote;
            if (unpublished >= SHARED_PIECE) {
                unpublished = 0;
                if (!shared_publish(shared, fd))
                    return false;
            }
        }
    }
    return shared_publish(shared, fd);
}

void
vg_wire_shared_offer(struct vg_wire_shared *shared, int fd, const void *bytes, size_t size)
{
    uint64_t room = shared_room(shared);

    if (room > SHARED_RING || room < size)
        return;
    for (size_t sent = 0; sent < size;)
        sent += shared_write(shared, (const char *)bytes + sent, size - sent, room - sent);
    shared_publish(shared, fd);
}

/* Spins for data. The time becomes shorter if none comes. */
static bool
shared_spin(struct vg_wire_shared *shared)
{
    if (shared->is_single)
        return false;
    for (unsigned i = 0; i < shared->spins; i++) {
        if (shared_has(shared)) {
            shared->spins = SHARED_SPINS;
            return true;
        }
        shared_pause();
    }
    shared->spins = shared->spins / 2 + 8;
    return false;
}

/* Sleeps until there may be data to receive, for up to TIMEOUT_MS, or indefinitely if it is -1.
 * Returns 1 if it was woken, 0 if nothing came, and -1 if it did not sleep. */
static int
shared_sleep(struct vg_wire_shared *shared, int fd, int timeout_ms)
{
    struct pollfd at = {.fd = fd, .events = POLLIN};

    atomic_store(&shared->in->is_asleep, 1);
    atomic_thread_fence(memory_order_seq_cst);
    return shared_has(shared) ? -1 : poll(&at, 1, timeout_ms);
}

bool
vg_wire_shared_receive(struct vg_wire_shared *shared, int fd, void *to, size_t size)
{
    for (size_t got = 0; got < size;) {
        uint64_t has = shared_has(shared);
        if (has > SHARED_RING || shared_is_shut(shared))
            return false;
        if (has == 0) {
            if (shared_spin(shared))
                continue;
            int woken = shared_sleep(shared, fd, shared->limit_ms);
            /* Data that was sent before the end is received. */
            if ((woken == 0 || (woken > 0 && shared_is_over(fd, true))) && !shared_has(shared))
                return false;
            continue;
        }
        uint64_t taken = atomic_load_explicit(&shared->taken, memory_order_relaxed);
        size_t at = taken & (SHARED_RING - 1);
        size_t n = size - got < has ? size - got : has;
        n = n < SHARED_RING - at ? n : SHARED_RING - at;
        memcpy((char *)to + got, shared->in_bytes + at, n);
        got += n;
        atomic_store_explicit(&shared->taken, taken + n, memory_order_relaxed);
        atomic_store_explicit(&shared->in->taken, taken + n, memory_order_release);
    }
    return true;
}

bool
vg_wire_shared_wait(struct vg_wire_shared *shared, int fd, int timeout_ms)
{
    if (shared_has(shared))
        return true;
    /* The wake-up bytes are for the receiver, so some that woke nothing may be left. */
    if (shared_sleep(shared, fd, timeout_ms) > 0 && !shared_has(shared)) {
        if (shared_is_over(fd, false))
            return true;
        shared_nap((int64_t)timeout_ms * 1000000);
    }
    return shared_has(shared) > 0;
}

/* ---- areas ---- */

static uint64_t
shared_blocks(size_t size)
{
    return size / SHARED_BLOCK + (size % SHARED_BLOCK != 0);
}

static uint64_t
shared_block_of(const struct vg_wire_shared *shared, const unsigned char *area)
{
    return (uint64_t)(area - shared->staging) / SHARED_BLOCK;
}

/* The areas with the lowest addresses were used last, and are in the processor's cache. */
unsigned char *
vg_wire_link_stage(struct vg_wire_link *link, size_t size)
{
    struct vg_wire_shared *shared = link->shared;
    uint64_t n = shared_blocks(size), begin = 0, at = 0;

    if (!shared || n == 0 || n > shared->n_blocks)
        return NULL;
    while (at < shared->n_blocks && at - begin < n) {
        uint32_t has = shared->areas[at] & INT32_MAX;
        bool is_lent = shared->areas[at] != has;
        if (is_lent && !atomic_load_explicit(&shared->head->lent[at], memory_order_acquire))
            shared->areas[at] = has = 0;
        if (has)
            begin = at + has;
        at += has ? has : 1;
    }
    if (at - begin < n)
        return NULL;
    shared->areas[begin] = (uint32_t)n;
    return shared->staging + begin * SHARED_BLOCK;
}

uint64_t
vg_wire_link_where(const struct vg_wire_link *link, const unsigned char *area)
{
    return (uint64_t)(area - link->shared->staging);
}

uint64_t
vg_wire_link_lend(struct vg_wire_link *link, const unsigned char *area)
{
    struct vg_wire_shared *shared = link->shared;
    uint64_t block = shared_block_of(shared, area);

    atomic_store_explicit(&shared->head->lent[block], 1, memory_order_relaxed);
    shared->areas[block] |= UINT32_C(1) << 31;
    return vg_wire_link_where(link, area);
}

void
vg_wire_link_unstage(struct vg_wire_link *link, const unsigned char *area)
{
    link->shared->areas[shared_block_of(link->shared, area)] = 0;
}

unsigned char *
vg_wire_link_area(const struct vg_wire_link *link, uint64_t at, size_t size)
{
    const struct vg_wire_shared *shared = link->shared;
    uint64_t all = shared ? shared->n_blocks * SHARED_BLOCK : 0;

    return at < all && at % SHARED_BLOCK == 0 && size <= all - at ? shared->staging + at : NULL;
}

unsigned char *
vg_wire_link_staging(const struct vg_wire_link *link, size_t *size)
{
    *size = link->shared ? link->shared->n_blocks * SHARED_BLOCK : 0;
    return link->shared ? link->shared->staging : NULL;
}

bool
vg_wire_link_leave(const struct vg_wire_link *link, const void *pointer)
{
    const struct vg_wire_shared *shared = link->shared;
    const unsigned char *area = pointer;

    if (!shared || area < shared->staging ||
        area >= shared->staging + shared->n_blocks * SHARED_BLOCK)
        return false;
    atomic_store_explicit(&shared->head->lent[shared_block_of(shared, area)], 0,
                          memory_order_release);
    return true;
}
