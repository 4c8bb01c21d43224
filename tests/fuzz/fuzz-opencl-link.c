/* SPDX-License-Identifier: Apache-2.0
 *
 * Either side of the memory that a program and a proxy have in common, where the other side writes
 * into it what it likes, also while it is being read. Nothing is touched that lies outside of it,
 * and nothing is waited for that can never come.
 */
#include "config.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <stdatomic.h>

#include "opencl/wire/link-shared.h"

#define LINK_STAGING (4 << 16)
#define LINK_HEAD    65536 /* bytes before the rings */
#define LINK_RINGS   (2 << 20)
#define LINK_WORDS   48 /* 64-bit words of the rings' heads and what was lent */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t *script;
static size_t script_left;

static uint8_t
byte(void)
{
    if (script_left == 0)
        return 0;
    script_left--;
    return *script++;
}

static uint64_t
number(void)
{
    static const uint64_t others[] = {1 << 12,       (1 << 16) - 1,    1 << 16,
                                      (1 << 20) - 1, 1 << 20,          (1 << 20) + 1,
                                      LINK_STAGING,  UINT32_MAX,       UINT64_C(1) << 36,
                                      INT64_MAX,     UINT64_MAX - 255, UINT64_MAX};
    uint8_t one = byte();

    return one < 0xF0 ? one : others[one % (sizeof others / sizeof *others)];
}

/* ---- the other side ---- */

static _Atomic uint64_t *memory; /* as the other side sees it */
static _Atomic uint64_t scribbles[4];
static _Atomic uint32_t n_scribbles; /* 0: it does nothing */
static _Atomic bool is_scribbling;

/* Changes the heads, as long as it is let. */
static void *
scribble(void *data)
{
    (void)data;
    for (unsigned i = 0;; i++) {
        uint32_t n = atomic_load(&n_scribbles);
        atomic_store(&is_scribbling, n > 0);
        if (n > 0 && atomic_load(&n_scribbles) > 0) {
            uint64_t what = atomic_load(&scribbles[i % n]);
            atomic_store(&memory[what % LINK_WORDS], what >> 8);
        } else {
            usleep(100);
        }
    }
    return NULL;
}

static void
begin_scribbling(void)
{
    uint32_t n = byte() % 4 + 1;

    for (uint32_t i = 0; i < n; i++)
        scribbles[i] = number() << 8 | byte();
    atomic_store(&n_scribbles, n);
}

static void
end_scribbling(void)
{
    atomic_store(&n_scribbles, 0);
    while (atomic_load(&is_scribbling))
        usleep(10);
}

/* ---- this side ---- */

static void
touch(unsigned char *bytes, size_t size)
{
    static volatile unsigned char sink;

    if (size == 0)
        return;
    sink = (unsigned char)(bytes[0] ^ bytes[size - 1]);
    bytes[0] = bytes[size - 1] = sink;
}

static void
receive(struct vg_wire_link *link)
{
    size_t size = number() % (3 << 20);
    unsigned char *to = malloc(size + 1);

    if (!to)
        abort();
    vg_wire_link_receive(link, to, size);
    free(to);
}

static void
help(void *data)
{
    unsigned *n = data;

    *n += 1;
}

static void
send_some(struct vg_wire_link *link)
{
    size_t size = number() % (3 << 20);
    unsigned char *from = calloc(1, size + 1);
    unsigned n = 0;

    if (!from)
        abort();
    struct iovec parts[2] = {{from, size / 2}, {from + size / 2, size - size / 2}};
    vg_wire_link_send(link, parts, 2, byte() & 1 ? help : NULL, &n);
    free(from);
}

/* Areas, as the program's side has them. */
static void
stage(struct vg_wire_link *link)
{
    size_t size = number() % (LINK_STAGING + 2);
    unsigned char *area = vg_wire_link_stage(link, size);

    if (!area)
        return;
    touch(area, size);
    if (byte() & 1)
        vg_wire_link_lend(link, area);
    else
        vg_wire_link_unstage(link, area);
}

static void
act(struct vg_wire_link *link, bool is_proxy)
{
    char small[64] = "";
    unsigned char *area;
    uint64_t at, size;

    switch (byte() % 8) {
    case 0:
        at = byte() % LINK_WORDS;
        memory[at] = number();
        break;
    case 1:
        memory[0] += number();
        memory[16] += number();
        break;
    case 2:
        receive(link);
        break;
    case 3:
        send_some(link);
        break;
    case 4:
        vg_wire_link_offer(link, small, byte() % sizeof small);
        break;
    case 5:
        vg_wire_link_wait(link, 0);
        break;
    case 6:
        at = number() << (byte() & 1 ? 16 : 0);
        size = number();
        area = is_proxy ? vg_wire_link_area(link, at, size) : NULL;
        if (area) {
            touch(area, size);
            vg_wire_link_leave(link, area + size / 2);
        }
        if (!is_proxy)
            stage(link);
        break;
    default:
        begin_scribbling();
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static pthread_t thread;
    const size_t all = LINK_HEAD + LINK_RINGS + LINK_STAGING;
    struct vg_wire_link link = {.fd = -1}, other = {.fd = -1};
    int pair[2], fd;

    script = data;
    script_left = size;
    uint8_t how = byte();
    other.shared = vg_wire_shared_make(LINK_STAGING, &fd);
    if (!other.shared || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
        abort();
    memory = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED || (!thread && pthread_create(&thread, NULL, scribble, NULL) != 0))
        abort();
    /* The proxy's side, or the program's, of which the other one says how large it is. */
    bool is_proxy = how & 1;
    link.shared =
        is_proxy ? other.shared : vg_wire_shared_open(fd, how & 2 ? number() << 12 : LINK_STAGING);
    link.fd = pair[0];
    if (link.shared)
        vg_wire_shared_limit(link.shared, 0);
    /* Who sends to nobody is not to wait for ever. */
    close(pair[1]);
    while (link.shared && script_left > 0)
        act(&link, is_proxy);
    end_scribbling();
    if (!is_proxy)
        vg_wire_shared_close(link.shared);
    vg_wire_shared_close(other.shared);
    munmap((void *)memory, all);
    close(pair[0]);
    close(fd);
    return 0;
}
