/* SPDX-License-Identifier: Apache-2.0
 *
 * One look at vgpud: what its answers say at one time, as plain data. A look is made once and then
 * only read; it belongs to one thread at a time.
 */
#ifndef VG_CLI_TOP_LOOK_H
#define VG_CLI_TOP_LOOK_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>
#include <json-c/json.h>

/* Sums since vgpud started, of a VM or vCPU; 0..VG_JSON_INT_MAX. */
struct vg_top_sums {
    int64_t run_ns;
    int64_t guest_ns;
    int64_t preempt_ns;
    int64_t wake_wait_ns;
    int64_t preemptions;
    int64_t gpu_busy_ns;   /* of all engines */
    bool gpu_open_known;   /* by one engine at least; older versions of vgpud do not tell */
    int64_t gpu_open;      /* requests without an end at the end of the newest window */
    int64_t gpu_oldest_ns; /* age of the oldest of these */
    int64_t gpu_active_ns; /* in which a request waited or ran */
};

/* What somebody took of a VM, since vgpud started. */
struct vg_top_loss {
    char *who;
    char *label; /* what people call it; NULL: the same */
    int64_t ns;
    int64_t count;
};

struct vg_top_vm {
    char *id;
    char *name;  /* what people call it */
    char *names; /* all that it is called, in lower case, a line each */
    char *state;
    char *vm_class; /* NULL: it was not measured */
    int64_t pid;
    struct vg_top_sums sums;
    bool guest_known;
    bool gpu_known;
    GPtrArray *lost_to; /* struct vg_top_loss */
};

struct vg_top_vcpu {
    int64_t vcpu; /* -1: not known */
    int64_t tid;
    struct vg_top_sums sums;
};

/* The CPUs of the host in the newest window, in cores; NAN: nobody tells. */
struct vg_top_host {
    bool known; /* false: nothing of it is */
    double vms;
    double own;
    double idle;
    double steal;
    double load;        /* of the last minute */
    double pressure[3]; /* cpu, memory, io: part of the window in which somebody waited */
};

/* A part of vgpud that does not work. */
struct vg_top_part {
    char *name;
    char *state;
    char *reason; /* may be NULL */
};

/* A process of the host that took CPU time of a VM; name NULL: all others together. */
struct vg_top_process {
    char *name;
    int64_t pid;
    double lost;  /* in cores */
    double per_s; /* preemptions */
};

/* What is only asked of one VM. */
struct vg_top_detail {
    char *id;
    int64_t begin_ns; /* of the sums, as in the look */
    int64_t end_ns;
    bool gone;                  /* vgpud does not know it any more; nothing else is known then */
    GArray *vcpus;              /* struct vg_top_vcpu */
    GPtrArray *processes;       /* struct vg_top_process, of the newest window */
    GPtrArray *start_processes; /* likewise since vgpud started */
    char *no_history;           /* why there is none; NULL: there is */
    int64_t since_ns;           /* of the history, epoch */
    int64_t until_ns;           /* likewise */
    GArray *used;               /* struct vg_spark_point, cores */
    GArray *lost;               /* likewise */
};

struct vg_top_look {
    char *boot_id;
    char *host;
    char *source; /* NULL: nothing was measured yet */
    int64_t cpus; /* 0: not known */
    bool replay;
    bool replay_ended;
    int64_t begin_ns; /* of the sums, epoch; begin == end: no window yet */
    int64_t end_ns;
    int64_t window_ns;
    double confidence;
    bool waits_split;
    bool aggressors_known;
    int64_t lost_events; /* since the start */
    struct vg_top_host use;
    GPtrArray *troubles;          /* struct vg_top_part */
    int64_t alerts;               /* the number of alerts that are raised */
    char *alert_names;            /* the first of them, with their VMs; NULL: none */
    GPtrArray *vms;               /* struct vg_top_vm */
    struct vg_top_detail *detail; /* NULL: not asked for */
};
typedef struct vg_top_look vg_top_look;

/* Of /v1/host, and of the items of /v1/vms. What has another type than it should is 0 or unknown.
 */
vg_top_look *vg_top_look_new(json_object *host, json_object *vms);
void vg_top_look_free(vg_top_look *look);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_top_look, vg_top_look_free)

/* Of /v1/vms/{id}, or NULL when it is gone; look: of the same time. */
struct vg_top_detail *vg_top_detail_new(const vg_top_look *look, const char *id, json_object *vm);
void vg_top_detail_free(struct vg_top_detail *detail);

/* Of /v1/vms/{id}/samples. */
void vg_top_detail_set_history(struct vg_top_detail *detail, json_object *samples);

#endif
