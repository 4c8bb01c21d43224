/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/icd/switch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "opencl/base/clock.h"
#include "opencl/client/client.h"
#include "opencl/icd/accepts.h"
#include "opencl/icd/ending.h"
#include "opencl/icd/gate.h"
#include "opencl/icd/nodes.h"
#include "opencl/icd/vendor.h"
#include "opencl/track/callback.h"
#include "opencl/track/program.h"
#include "opencl/track/read.h"

/* The time for commands to end before calls are let through again, and for how long calls are let
 * through. */
#define SLICE_NS INT64_C(100000000)
#define QUIET_NS 100000000
#define OPEN_NS  2000000

static struct vg_cl_writer switch_stream; /* while the program is stopped */
static bool switch_is_stopped;
static char switch_was[VG_CL_PLACE]; /* the proxy in use when the program was stopped, or empty */

/* ---- stopping ---- */

static bool
switch_wait_for_calls(struct vg_cl_switch *s)
{
    while (vg_cl_gate_inside() > 0) {
        if (vg_cl_is_over(s)) {
            char why[VG_CL_REASON];
            snprintf(why, sizeof why, "%s", s->reason);
            return vg_cl_fail(s, "an OpenCL call had not returned when %.128s", why);
        }
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
    return true;
}

static bool
switch_set_gate(struct vg_cl_switch *s, enum vg_cl_gate state)
{
    return vg_cl_gate_set(state) || vg_cl_fail(s, "membarrier(2) is refused: %s", strerror(errno));
}

static bool
switch_drain_once(struct vg_cl_switch *s)
{
    if (!switch_set_gate(s, VG_CL_GATE_DRAINING) || !switch_wait_for_calls(s) || !vg_cl_drain(s))
        return false;
    /* Until the gate is closed, a thread may set an event whose callbacks enqueue new commands. */
    return switch_set_gate(s, VG_CL_GATE_CLOSED) && switch_wait_for_calls(s) && vg_cl_drain(s);
}

/* Commands may wait for an event that a thread of the program is about to set after another call,
 * which waits at the gate. As long as there is such an event, calls that enqueue no commands are
 * let through from time to time, and every other time all calls, if a thread first enqueues a
 * command. Commands get twice as long each time. */
static bool
switch_drain(struct vg_cl_switch *s)
{
    const int64_t deadline_ns = s->deadline_ns;
    int64_t slice_ns = SLICE_NS;
    bool is_quiet = true;

    for (;;) {
        int64_t now = vg_cl_now();
        bool is_last = deadline_ns - now <= slice_ns;
        s->deadline_ns = is_last ? deadline_ns : now + slice_ns;
        bool ok = switch_drain_once(s);
        s->deadline_ns = deadline_ns;
        if (ok || is_last || (s->is_aborted && s->is_aborted(s->data)) ||
            vg_cl_now() < now + slice_ns)
            return ok;
        slice_ns *= 2;
        if (vg_cl_user_events_n == 0)
            continue;
        vg_cl_gate_set(is_quiet ? VG_CL_GATE_QUIET : VG_CL_GATE_OPEN);
        nanosleep(&(struct timespec){.tv_nsec = is_quiet ? QUIET_NS : OPEN_NS}, NULL);
        is_quiet = !is_quiet;
    }
}

/* Returns the space for the memory of all objects, and for everything else that is known about
 * them. */
static size_t
switch_room(void)
{
    size_t room = (size_t)64 << 20, region[3];

    for (struct vg_cl_object *o = vg_cl_object_next(NULL); o; o = vg_cl_object_next(o)) {
        room += 16384;
        if (o->type == VG_CL_MEM)
            room += vg_cl_content_size(o, region);
        else if (o->type == VG_CL_PROGRAM)
            room += (size_t)32 << 20;
    }
    return room;
}

static bool
switch_can_unload(struct vg_cl_switch *s)
{
    cl_uint n;
    const struct vg_cl_vendor *vendors = vg_cl_vendors_get(&n);

    for (cl_uint i = 0; i < n; i++)
        if (!vendors[i].path)
            return vg_cl_fail(s, "this library was loaded as a layer, so the loader holds the "
                                 "vendor's library");
    return true;
}

static void
switch_unload(void)
{
    cl_uint n;
    struct vg_cl_vendor *vendors = vg_cl_vendors_get(&n);

    for (cl_uint i = 0; i < n; i++)
        vg_cl_vendor_unload(&vendors[i]);
}

static bool
switch_reload(struct vg_cl_switch *s)
{
    cl_uint n;
    struct vg_cl_vendor *vendors = vg_cl_vendors_get(&n);

    for (cl_uint i = 0; i < n; i++) {
        const char *wrong = vendors[i].library ? NULL : vg_cl_vendor_reload(&vendors[i]);
        if (wrong)
            return vg_cl_fail(s, "%.64s: %.160s", vg_cl_vendor_where(&vendors[i]), wrong);
    }
    vg_cl_ending_watch();
    return true;
}

/* Releases the GPU again: it may have to leave before the next attempt. */
static bool
switch_stay(void)
{
    vg_cl_release_all();
    switch_unload();
    vg_cl_nodes_let_go();
    return false;
}

/* If a proxy's link breaks in the meantime, this is the reason for the failure, whatever else
 * failed: the program has made no calls yet. */
static bool
switch_inject(struct vg_cl_switch *s)
{
    bool ok = vg_cl_inject(s, switch_stream.base, switch_stream.used);
    const char *why = vg_cl_vendors_why();

    if (why)
        return vg_cl_fail(s, "%.64s: %s", vg_cl_vendors_place(), why);
    if (ok)
        vg_cl_vendors_stay();
    return ok;
}

/* Returns to the state before the stop, from any of its steps. */
static enum vg_cl_stopped
switch_continue(struct vg_cl_switch *s)
{
    struct vg_cl_switch back = {.deadline_ns = INT64_MAX};

    vg_wire_set_patience(NULL, NULL);
    if (switch_reload(&back) && switch_inject(&back)) {
        vg_cl_gate_set(VG_CL_GATE_OPEN);
        vg_cl_writer_close(&switch_stream);
        return VG_CL_GOES_ON;
    }
    vg_cl_fail(s, "it cannot continue: %.200s", back.reason);
    switch_stay();
    switch_is_stopped = true;
    return VG_CL_LOST;
}

bool
vg_cl_is_stopped(void)
{
    return switch_is_stopped;
}

const char *
vg_cl_place(void)
{
    return switch_is_stopped ? switch_was : vg_cl_vendors_place();
}

bool
vg_cl_can_stop(struct vg_cl_switch *s)
{
    char path[128];

    if (vg_cl_is_ending())
        return vg_cl_fail(s, "the program is exiting");
    if (!switch_can_unload(s))
        return false;
    return !vg_cl_nodes_are_shared(path, sizeof path) ||
           vg_cl_fail(s, "the program also uses GPUs through %s", path);
}

/* The agent sees the stop end, in most cases before the deadline. */
static enum vg_cl_stopped
switch_await_end(struct vg_cl_switch *s)
{
    while (!vg_cl_is_over(s))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    vg_cl_fail(s, "the program is exiting");
    return VG_CL_GOES_ON;
}

static enum vg_cl_stopped
switch_stop(struct vg_cl_switch *s)
{
    char path[128];

    if (switch_is_stopped)
        return VG_CL_STOPPED;
    vg_cl_step(s, "");
    if (vg_cl_is_ending())
        return switch_await_end(s);
    if (!vg_cl_can_stop(s))
        return VG_CL_GOES_ON;
    snprintf(switch_was, sizeof switch_was, "%s", vg_cl_vendors_place());
    if (!switch_drain(s)) {
        vg_cl_gate_set(VG_CL_GATE_OPEN);
        return VG_CL_GOES_ON;
    }
    if (vg_cl_is_ending()) {
        vg_cl_gate_set(VG_CL_GATE_OPEN);
        return switch_await_end(s);
    }
    vg_cl_step(s, "waiting for commands");
    if (!vg_cl_accepts(s)) {
        vg_cl_gate_set(VG_CL_GATE_OPEN);
        return VG_CL_GOES_ON;
    }
    if (!vg_cl_writer_open(&switch_stream, switch_room())) {
        vg_cl_fail(s, "out of memory for the program's state");
        vg_cl_gate_set(VG_CL_GATE_OPEN);
        return VG_CL_GOES_ON;
    }
    if (!vg_cl_extract(s, &switch_stream)) {
        /* Nothing has been released yet. */
        vg_cl_gate_set(VG_CL_GATE_OPEN);
        vg_cl_writer_close(&switch_stream);
        return VG_CL_GOES_ON;
    }
    switch_unload();
    vg_cl_step(s, "unloading");
    if (vg_cl_nodes_are_used(path, sizeof path)) {
        vg_cl_fail(s, "%s stays loaded because the program may use it", path);
        return switch_continue(s);
    }
    vg_cl_nodes_let_go();
    if (vg_cl_nodes_left(path, sizeof path) > 0) {
        vg_cl_fail(s, "%s is still open or mapped", path);
        return switch_continue(s);
    }
    vg_cl_step(s, "nodes");
    switch_is_stopped = true;
    return VG_CL_STOPPED;
}

static bool
switch_is_over(void *data)
{
    return vg_cl_is_over(data);
}

enum vg_cl_stopped
vg_cl_stop(struct vg_cl_switch *s)
{
    vg_wire_set_patience(switch_is_over, s);
    enum vg_cl_stopped stopped = switch_stop(s);
    vg_wire_set_patience(NULL, NULL);
    if (stopped != VG_CL_STOPPED)
        vg_cl_vendors_unreach();
    const char *why = stopped == VG_CL_GOES_ON ? vg_cl_vendors_why() : NULL;
    if (why)
        vg_cl_fail(s, "the program's state in the proxy is lost: %s", why);
    else if (stopped == VG_CL_GOES_ON && vg_cl_vendors_are_cut())
        vg_cl_fail(s, "the connection to its proxy is broken");
    return stopped;
}

/* ---- going on ---- */

bool
vg_cl_resume(struct vg_cl_switch *s, const char *place)
{
    if (!switch_is_stopped)
        return true;
    vg_cl_step(s, "");
    if (!vg_cl_vendors_send(place))
        return vg_cl_fail(s, "'%.64s' is not a proxy", place);
    const bool is_loaded = switch_reload(s);
    vg_cl_vendors_unreach();
    if (!is_loaded)
        return switch_stay();
    vg_cl_step(s, "loading");
    if (!switch_inject(s))
        return switch_stay();
    switch_is_stopped = false;
    vg_cl_gate_set(VG_CL_GATE_OPEN);
    return true;
}

void
vg_cl_forget(void)
{
    if (!switch_is_stopped && switch_stream.base)
        vg_cl_writer_close(&switch_stream);
}

void
vg_cl_switch_leave(void)
{
    switch_is_stopped = false;
    switch_stream = (struct vg_cl_writer){.base = NULL};
}
