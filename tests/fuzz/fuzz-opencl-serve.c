/* SPDX-License-Identifier: Apache-2.0
 *
 * Any messages to a proxy, made by a script, of which each may be wrong. The vendor
 * (opencl-vendor.h) is called as the standard says; every question is answered once, and nothing
 * else is; what the client may have at a time is not exceeded; and at the end nothing is left.
 *
 * The link is a buffer. A thread that waits in the vendor runs when the one that receives does not.
 */
#include "config.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opencl/icd/control.h"
#include "opencl/icd/entries.h"
#include "opencl/icd/vendor.h"
#include "opencl/serve/meter.h"
#include "opencl/serve/private.h"
#include "opencl/track/callback.h"
#include "opencl/track/leaving.h"
#include "opencl/track/memory.h"
#include "tests/fuzz/opencl-message.h"
#include "tests/fuzz/opencl-vendor.h"

#define SERVE_STAGING (MESSAGE_BLOCKS * MESSAGE_BLOCK)
#define SERVE_OBJECTS 24
#define SERVE_MEMORY  (2 << 20)
#define SERVE_ASKED   4096 /* messages of a script */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
bool __wrap_vg_wire_link_receive(struct vg_wire_link *link, void *to, size_t size);
bool __wrap_vg_wire_link_send(struct vg_wire_link *link, struct iovec *parts, int n,
                              void (*help)(void *data), void *data);
unsigned char *__wrap_vg_wire_link_area(const struct vg_wire_link *link, uint64_t at, size_t size);
bool __wrap_vg_wire_link_leave(const struct vg_wire_link *link, const void *pointer);
void __wrap_vg_wire_link_shut(struct vg_wire_link *link);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
                          void *data);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
                          void *data);

static struct message_script script;
static struct message message;
static size_t message_at; /* bytes of it that were received */
static bool has_message, is_over, is_shut;
static bool asked[SERVE_ASKED], reads[SERVE_ASKED];
static bool is_wrong; /* some message was */
static unsigned char *staging;

static _Noreturn void
die(const char *why)
{
    fprintf(stderr, "the proxy is wrong: %s\n", why);
    abort();
}

/* ---- threads, of which one runs at a time ---- */

struct waiting {
    struct waiting *next;
    bool (*is_done)(const void *);
    const void *data;
};

static pthread_mutex_t world = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wakes = PTHREAD_COND_INITIALIZER, rests = PTHREAD_COND_INITIALIZER;
static struct waiting *waiting;
static unsigned n_running; /* threads, but for the first one */
static bool is_serving;
static _Thread_local bool is_other;

struct start {
    void *(*run)(void *);
    void *data;
};

static void *
run_other(void *data)
{
    struct start start = *(struct start *)data;

    free(data);
    pthread_mutex_lock(&world);
    is_other = true;
    start.run(start.data);
    n_running--;
    pthread_cond_signal(&rests);
    pthread_mutex_unlock(&world);
    return NULL;
}

static bool
is_any_done(void)
{
    for (const struct waiting *one = waiting; one; one = one->next)
        if (one->is_done(one->data))
            return true;
    return false;
}

/* Has the others run as far as they can. */
static void
let_others_run(void)
{
    while (n_running > 0 || is_any_done()) {
        pthread_cond_broadcast(&wakes);
        pthread_cond_wait(&rests, &world);
    }
}

static bool
wait_here(bool (*is_done)(const void *), const void *data)
{
    struct waiting one = {waiting, is_done, data}, **link = &waiting;

    if (!is_other)
        return false;
    waiting = &one;
    n_running--;
    pthread_cond_signal(&rests);
    while (!is_done(data))
        pthread_cond_wait(&wakes, &world);
    while (*link != &one)
        link = &(*link)->next;
    *link = one.next;
    n_running++;
    return true;
}

int
__wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
                      void *data)
{
    if (!is_serving)
        return __real_pthread_create(thread, attr, run, data);
    struct start *start = malloc(sizeof *start);
    if (!start)
        die("there is no memory for this test");
    *start = (struct start){run, data};
    n_running++;
    int result = __real_pthread_create(thread, attr, run_other, start);
    if (result != 0)
        die("there is no thread for this test");
    return result;
}

/* ---- the link ---- */

static bool
next_message(void)
{
    if (has_message)
        vg_wire_out_end(&message.body);
    has_message = !is_over && !is_shut && script.number + 1 < SERVE_ASKED;
    has_message = has_message && message_next(&script, &message);
    if (!has_message)
        return false;
    message_at = 0;
    is_over = message.is_cut;
    is_wrong = is_wrong || message.is_wrong;
    if (message.settles)
        fake_settle();
    let_others_run();
    fake_fail_at(message.fails);
    return true;
}

/* Bytes of the message, from where it is received. */
static size_t
copy_message(unsigned char *to, size_t size)
{
    const size_t head = sizeof message.head, body = message.body.size,
                 all = head + body + message.data;
    size_t n = all - message_at < size ? all - message_at : size;

    for (size_t i = 0; i < n && message_at + i < head + body; i++) {
        size_t at = message_at + i;
        to[i] =
            at < head ? ((const unsigned char *)&message.head)[at] : message.body.bytes[at - head];
    }
    if (message_at + n > head + body) {
        size_t data = message_at > head + body ? n : message_at + n - (head + body);
        memset(to + n - data, 0xA5, data);
    }
    message_at += n;
    return n;
}

bool
__wrap_vg_wire_link_receive(struct vg_wire_link *link, void *to, size_t size)
{
    unsigned char *at = to;

    (void)link;
    while (size > 0) {
        size_t n = has_message ? copy_message(at, size) : 0;
        at += n;
        size -= n;
        if (is_shut || (size > 0 && !next_message()))
            return false;
        /* Who is asked is who answers. */
        if (message_at == 0 && message.head.number < SERVE_ASKED &&
            !(message.head.flags & VG_WIRE_LATER))
            asked[message.head.number] = true;
    }
    return true;
}

static void
check_sent(const struct vg_wire_head *head, size_t size)
{
    size_t data = head->flags & VG_WIRE_ROOM ? 0 : head->data;

    if (size != sizeof *head + head->size + data)
        die("what it sends is not as long as it says");
    if (head->op == VG_WIRE_ANSWER) {
        if (!is_wrong && (head->number >= SERVE_ASKED || !asked[head->number]))
            die("it answers what was not asked, or twice");
        if (head->number < SERVE_ASKED)
            asked[head->number] = false;
    } else if (head->op == VG_WIRE_READ) {
        if (head->size || (head->number < SERVE_ASKED && reads[head->number]))
            die("it sends what was read twice");
        if (head->number < SERVE_ASKED && head->number > 1)
            reads[head->number] = true;
    } else if (head->op != VG_WIRE_EVENT || head->size != 8 || head->data) {
        die("it sends what is no message");
    }
    if ((head->flags & VG_WIRE_ROOM) && head->data > SERVE_STAGING)
        die("it says that there is more in an area than it has");
}

bool
__wrap_vg_wire_link_send(struct vg_wire_link *link, struct iovec *parts, int n,
                         void (*help)(void *data), void *data)
{
    struct vg_wire_head head;
    size_t size = 0;

    (void)link;
    (void)help;
    (void)data;
    for (int i = 0; i < n; i++) {
        fake_read(parts[i].iov_base, parts[i].iov_len);
        size += parts[i].iov_len;
    }
    memcpy(&head, parts[0].iov_base, sizeof head);
    check_sent(&head, size);
    return !is_shut;
}

unsigned char *
__wrap_vg_wire_link_area(const struct vg_wire_link *link, uint64_t at, size_t size)
{
    (void)link;
    return at < SERVE_STAGING && at % MESSAGE_BLOCK == 0 && size <= SERVE_STAGING - at
               ? staging + at
               : NULL;
}

bool
__wrap_vg_wire_link_leave(const struct vg_wire_link *link, const void *pointer)
{
    const unsigned char *at = pointer;

    (void)link;
    return at >= staging && at < staging + SERVE_STAGING;
}

void
__wrap_vg_wire_link_shut(struct vg_wire_link *link)
{
    (void)link;
    is_shut = true;
}

/* ---- a run ---- */

static void
begin(const uint8_t *data, size_t size)
{
    if (!staging) {
        setenv("VGPU_OPENCL_LOG", "/dev/null", 1);
        staging = malloc(SERVE_STAGING);
        vg_cl_control_forbid();
        vg_cl_vendors_set_target(fake_table());
        fake_wait = wait_here;
    }
    memset(&script, 0, sizeof script);
    memset(asked, 0, sizeof asked);
    memset(reads, 0, sizeof reads);
    script.data = data;
    script.left = size;
    message_know(&script, VG_CL_PLATFORM, 1);
    message_know(&script, VG_CL_DEVICE, 2);
    message_know(&script, VG_CL_DEVICE, 3);
    is_over = is_shut = has_message = is_wrong = false;
}

static void
release(const struct serve_slot *slot)
{
    const cl_icd_dispatch *cl = &vg_cl_dispatch;
    void *handle = slot->handle;

    switch (slot->type) {
    case VG_CL_CONTEXT:
        cl->clReleaseContext(handle);
        break;
    case VG_CL_QUEUE:
        cl->clReleaseCommandQueue(handle);
        break;
    case VG_CL_MEM:
        cl->clReleaseMemObject(handle);
        break;
    case VG_CL_SAMPLER:
        cl->clReleaseSampler(handle);
        break;
    case VG_CL_PROGRAM:
        cl->clReleaseProgram(handle);
        break;
    case VG_CL_KERNEL:
        cl->clReleaseKernel(handle);
        break;
    case VG_CL_EVENT:
        cl->clReleaseEvent(handle);
        break;
    case VG_CL_DEVICE:
        cl->clReleaseDevice(handle);
        break;
    case VG_CL_NONE:
    case VG_CL_PLATFORM:
        break;
    }
}

/* Does what the end of the process does. Nothing may be left of the client. */
static void
end(struct vg_serve *serve)
{
    /* Whoever goes on may give another command, and wait for that. */
    for (fake_settle_all(); is_any_done() || n_running > 0; fake_settle_all())
        let_others_run();
    is_serving = false;
    pthread_mutex_unlock(&world);
    vg_serve_drop_maps(serve, NULL);
    for (uint64_t id = serve->n_roots + 1; id < serve->n_slots; id++)
        release(&serve->slots[id]);
    if (serve->n_data || serve->n_threads)
        die("what is not there any more is counted");
    free(serve->slots);
    free(serve);
    fake_settle_all();
    vg_cl_leaving_done();
    if (fake_objects_n() || vg_cl_mem_bytes())
        die("something is left of a client that is gone");
    vg_cl_user_events_n = 0;
    if (has_message)
        vg_wire_out_end(&message.body);
}

/* What is told of that has come is told of that it is over, and in the order of time. */
static void
check_told(struct vg_serve_progress *told)
{
    static struct vg_serve_progress_record records[VG_SERVE_PROGRESS_RECORDS];
    const unsigned n = vg_serve_progress_read(told, records, VG_SERVE_PROGRESS_RECORDS);
    int stages[VG_SERVE_WHATS] = {0};

    for (unsigned i = 0; i < n; i++) {
        stages[records[i].what]++;
        if (i > 0 && records[i].at < records[i - 1].at)
            die("it tells of what was before what it has told of");
    }
    if (told->lost)
        return;
    const int ends = stages[VG_SERVE_DONE] + stages[VG_SERVE_FAILED];
    if (stages[VG_SERVE_QUEUED] != ends || stages[VG_SERVE_SUBMITTED] > ends ||
        stages[VG_SERVE_RUNNING] != stages[VG_SERVE_SUBMITTED])
        die("it does not tell what becomes of a command");
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct vg_serve_counts counts;
    struct vg_wire_link link = {.fd = -1};

    begin(data, size);
    uint8_t how = message_byte(&script);
    if (!(how & 1)) {
        message_hello(&script, &message);
        has_message = true;
        message_at = 0;
        asked[message.head.number] = true;
    }
    memset(&counts, 0, sizeof counts);
    counts.is_wanted = (how & 2) != 0;
    counts.told.is_wanted = (how & 8) != 0;
    fake_is_trusting = (how & 4) != 0;
    const struct vg_serve_limits limits = {.memory = SERVE_MEMORY,
                                           .objects = SERVE_OBJECTS,
                                           .data = 1 << 20,
                                           .is_with_binaries = (how & 4) != 0,
                                           .turns = -1,
                                           .counts = &counts};
    pthread_mutex_lock(&world);
    is_serving = true;
    struct vg_serve *serve = vg_serve_begin(&link, &limits);
    vg_serve_run(serve);
    fake_fail_at(0);
    end(serve);
    check_told(&counts.told);
    return 0;
}
