/* SPDX-License-Identifier: Apache-2.0
 *
 * Everything that a vgpu-proxy reports about one of its sockets and the programs connected through
 * it. Plain data. A NAME_ns that is not a sum is an age or the duration of a state.
 */
#ifndef VG_MODEL_PROXY_SHOW_H
#define VG_MODEL_PROXY_SHOW_H

#include "model/proxy-socket.h"

#define VG_PROXY_PROGRAMS_MAX 8192 /* per socket */

/* A repeated event. */
struct vg_proxy_note {
    int64_t times;
    int64_t ago_ns; /* time since the last one; 0 if it never happened */
    char *last;     /* description of the last one; may be empty */
};

/* Median, 95th and 99th percentile over commands; 0 without commands. */
struct vg_proxy_quantiles {
    int64_t p50_ns;
    int64_t p95_ns;
    int64_t p99_ns;
};

/* The socket's activity in the last few seconds. */
struct vg_proxy_window {
    int64_t span_ns;     /* 0, and the others are unknown, if there was no recent earlier query */
    int64_t held_ns;     /* time during which its programs had the device */
    int64_t all_held_ns; /* time during which programs of any socket had it */
    int64_t weights;     /* sum for all sockets that had the device or wanted it */
    int64_t done;        /* commands */
    struct vg_proxy_quantiles wait;
    struct vg_proxy_quantiles run;
    struct vg_proxy_quantiles took; /* wait and run combined */
};

/* Limits for each program. The socket's memory limit applies in addition. */
struct vg_proxy_limits {
    int64_t clients;    /* of the whole proxy */
    int64_t vm_clients; /* of the socket; 0 for no limit */
    int64_t objects;
    int64_t pending_bytes; /* data of incomplete commands */
    int64_t depth;         /* commands that wait for a user event */
    int64_t staging_bytes; /* shared memory */
    int64_t max_kernel_s;  /* 0 for no limit */
    int64_t linger_s;
};

struct vg_proxy_program {
    int64_t pid; /* of the proxy's process that serves it */
    char *from;  /* the client's address */
    char *transport;
    char *link; /* "begins", "up" or "broken" */
    int64_t since_ns;
    int64_t broken_ns; /* 0 if it is not broken */
    int64_t resumed;   /* number of reconnections */
    char *device;      /* "has", "waits" or "idle" */
    int64_t device_ns; /* how long it has had the device, or has been waiting */
    int64_t used_bytes;
    int64_t objects;
    int64_t queued; /* incomplete commands */
    int64_t done;
    struct vg_proxy_note refused;
    struct vg_proxy_note failed;
};

struct vg_proxy_shown {
    struct vg_proxy_socket socket;
    char *identity; /* how the proxy identifies the VM, in words */
    bool listens;   /* programs can connect */
    struct vg_proxy_limits limits;
    struct vg_proxy_window window;
    GPtrArray *programs;          /* struct vg_proxy_program; owned */
    struct vg_proxy_note refused; /* refused requests of all programs */
    struct vg_proxy_note failed;  /* failed requests of all programs, except queries */
};

/* Where the VM's programs could continue. */
struct vg_proxy_place {
    char *place; /* for --to of vgpuctl proxy move */
    char *why;   /* how this place became known */
};

typedef struct vg_proxy_show {
    char *vm;
    char *uuid;        /* empty if the VM is not here */
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
