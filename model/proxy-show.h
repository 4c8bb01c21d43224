/* SPDX-License-Identifier: Apache-2.0
 *
 * All that a vgpu-proxy tells of one of its sockets, and of the programs that came by it. Plain
 * data. What is NAME_ns and no sum is an age: so long ago, or for so long.
 */
#ifndef VG_MODEL_PROXY_SHOW_H
#define VG_MODEL_PROXY_SHOW_H

#include "model/proxy-socket.h"

#define VG_PROXY_PROGRAMS_MAX 8192 /* of one socket */

/* What happened so often. */
struct vg_proxy_note {
    int64_t times;
    int64_t ago_ns; /* when it was last; 0: never */
    char *last;     /* in words; empty: never */
};

/* What half, 95 and 99 of 100 commands did not exceed; 0: there were none. */
struct vg_proxy_quantiles {
    int64_t p50_ns;
    int64_t p95_ns;
    int64_t p99_ns;
};

/* What the socket had in the last seconds. */
struct vg_proxy_window {
    int64_t span_ns;     /* 0: nobody has asked the proxy a little before, and nothing is known */
    int64_t held_ns;     /* in which its programs had the device */
    int64_t all_held_ns; /* likewise those of all sockets */
    int64_t weights;     /* of all sockets that had it, or want it, together */
    int64_t done;        /* commands */
    struct vg_proxy_quantiles wait;
    struct vg_proxy_quantiles run;
    struct vg_proxy_quantiles took; /* wait and run together */
};

/* What each program may have, of which it cannot have more memory than the socket says. */
struct vg_proxy_limits {
    int64_t clients;    /* of the whole proxy */
    int64_t vm_clients; /* of the socket; 0: there is no limit */
    int64_t objects;
    int64_t pending_bytes; /* data of commands that are not done */
    int64_t depth;         /* commands while an event is not set */
    int64_t staging_bytes; /* memory in common */
    int64_t max_kernel_s;  /* 0: for ever */
    int64_t linger_s;
};

struct vg_proxy_program {
    int64_t pid; /* of the proxy's process that serves it */
    char *from;  /* where it connected from */
    char *transport;
    char *link; /* "begins", "up" or "broken" */
    int64_t since_ns;
    int64_t broken_ns; /* 0: it is not */
    int64_t resumed;   /* how often it came back */
    char *device;      /* "has", "waits" or "idle" */
    int64_t device_ns; /* for how long it has it, or waits */
    int64_t used_bytes;
    int64_t objects;
    int64_t queued; /* commands that are not done */
    int64_t done;
    struct vg_proxy_note refused;
    struct vg_proxy_note failed;
};

struct vg_proxy_shown {
    struct vg_proxy_socket socket;
    char *identity; /* by what the VM is known, in words */
    bool listens;   /* whether programs can come */
    struct vg_proxy_limits limits;
    struct vg_proxy_window window;
    GPtrArray *programs;          /* struct vg_proxy_program; owned */
    struct vg_proxy_note refused; /* of all programs by now: what they may not have */
    struct vg_proxy_note failed;  /* what gave an error, but for questions */
};

/* Where the VM's programs could go on. */
struct vg_proxy_place {
    char *place; /* as after --to of vgpuctl proxy move */
    char *why;   /* what says that it is one */
};

typedef struct vg_proxy_show {
    char *vm;
    char *uuid;        /* empty: it is not here */
    GPtrArray *items;  /* struct vg_proxy_shown; owned */
    GPtrArray *places; /* struct vg_proxy_place; owned */
    GPtrArray *guests; /* struct vg_proxy_guest, of this VM; owned */
} vg_proxy_show;

extern const struct vg_record_type vg_proxy_program_record;
extern const struct vg_record_type vg_proxy_shown_record;
extern const struct vg_record_type vg_proxy_place_record;
extern const struct vg_record_type vg_proxy_show_record;

void vg_proxy_show_free(void *show); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_proxy_show, vg_proxy_show_free)

#endif
