/* SPDX-License-Identifier: Apache-2.0
 *
 * A sample of vgpud's state: its answers at one point in time, as plain data. Immutable after
 * creation; one thread at a time.
 */
#ifndef VG_CLI_TOP_LOOK_H
#define VG_CLI_TOP_LOOK_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>
#include <json-c/json.h>

/* Sums of a VM or vCPU since vgpud started; 0..VG_JSON_INT_MAX. */
struct vg_top_sums {
    int64_t run_ns;
    int64_t guest_ns;
    int64_t preempt_ns;
    int64_t wake_wait_ns;
    int64_t preemptions;
    int64_t gpu_busy_ns;   /* all engines together */
    bool gpu_open_known;   /* for at least one engine; older versions of vgpud do not report it */
    int64_t gpu_open;      /* requests without an end at the end of the newest window */
    int64_t gpu_oldest_ns; /* age of the oldest of them */
    int64_t gpu_active_ns; /* time with waiting or running requests */
};

/* CPU time that one aggressor took from a VM since vgpud started. */
struct vg_top_loss {
    char *who;
    char *label; /* display name; NULL if the same */
    int64_t ns;
    int64_t count;
};

struct vg_top_vm {
    char *id;
    char *name;  /* display name */
    char *names; /* all its names, in lower case, one per line */
    char *state;
    char *vm_class; /* NULL if it was not measured */
    int64_t pid;
    struct vg_top_sums sums;
    bool guest_known;
    bool gpu_known;
    GPtrArray *lost_to; /* struct vg_top_loss */
};

struct vg_top_vcpu {
    int64_t vcpu; /* -1 if not known */
    int64_t tid;
    struct vg_top_sums sums;
};

/* The host's CPUs in the newest window, in cores; NAN if not reported. */
struct vg_top_host {
    bool known; /* false if nothing is known */
    double vms;
    double own;
    double idle;
    double steal;
    double load;        /* of the last minute */
    double pressure[3]; /* cpu, memory, io: fraction of the window in which some task waited */
};

/* A component of vgpud that does not work. */
struct vg_top_part {
    char *name;
    char *state;
    char *reason; /* may be NULL */
};

/* A host process that took CPU time from a VM. If name is NULL, all others together. */
struct vg_top_process {
    char *name;
    int64_t pid;
    double lost;  /* in cores */
    double per_s; /* preemptions */
};

/* Data that are queried for only one VM. */
struct vg_top_detail {
    char *id;
    int64_t begin_ns; /* of the sums, as in the sample */
    int64_t end_ns;
    bool gone;                  /* vgpud no longer knows the VM, and nothing else is known */
    GArray *vcpus;              /* struct vg_top_vcpu */
    GPtrArray *processes;       /* struct vg_top_process, of the newest window */
    GPtrArray *start_processes; /* the same since vgpud started */
    char *no_history;           /* why there is no history; NULL if there is */
    int64_t since_ns;           /* of the history, epoch */
    int64_t until_ns;           /* the same */
    GArray *used;               /* struct vg_spark_point, cores */
    GArray *lost;               /* the same */
};

struct vg_top_look {
    char *boot_id;
    char *host;
    char *source; /* NULL if nothing was measured yet */
    int64_t cpus; /* 0 if not known */
    bool replay;
    bool replay_ended;
    int64_t begin_ns; /* of the sums, epoch; equal to end_ns before the first window */
    int64_t end_ns;
    int64_t window_ns;
    double confidence;
    bool waits_split;
    bool aggressors_known;
    int64_t lost_events; /* since vgpud started */
    struct vg_top_host use;
    GPtrArray *troubles;          /* struct vg_top_part */
    int64_t alerts;               /* the number of active alerts */
    char *alert_names;            /* the first of them, with their VMs; may be NULL */
    GPtrArray *vms;               /* struct vg_top_vm */
    struct vg_top_detail *detail; /* NULL if not requested */
};
typedef struct vg_top_look vg_top_look;

/* Reads /v1/host and the items of /v1/vms. Values of an unexpected type become 0 or unknown. */
vg_top_look *vg_top_look_new(json_object *host, json_object *vms);
void vg_top_look_free(vg_top_look *look);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_top_look, vg_top_look_free)

/* Reads /v1/vms/{id}; vm is NULL if the VM no longer exists. look: the sample of the same time. */
struct vg_top_detail *vg_top_detail_new(const vg_top_look *look, const char *id, json_object *vm);
void vg_top_detail_free(struct vg_top_detail *detail);

/* Reads /v1/vms/{id}/samples. */
void vg_top_detail_set_history(struct vg_top_detail *detail, json_object *samples);

#endif
