/* SPDX-License-Identifier: Apache-2.0
 *
 * Stored data: past figures, plans, and the state of the store. The store fills these structs, and
 * the API shows them. Times are nanoseconds since the epoch.
 */
#ifndef VG_MODEL_HISTORY_H
#define VG_MODEL_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "model/cpu-figures.h"
#include "model/topology.h"
#include "model/trouble.h"
#include "model/window.h"

/* Maximum number of rows that one query returns. */
#define VG_HISTORY_ROWS_MAX 20000

#define VG_HISTORY_STEP_MAX_NS (INT64_C(366) * 86400 * 1000000000)

struct vg_history_loss {
    GRefString *aggressor; /* name of a VM, "self", "host:...", or "rest" */
    int64_t ns;
    uint64_t count;
};

/* Sums of one VM over begin < t <= end. */
struct vg_history_row {
    int64_t begin_ns;
    int64_t end_ns;
    int64_t windows; /* number of windows in this sum */
    struct vg_cpu_figures cpu;
    bool guest_known; /* in at least one of them */
    bool gpu_known;
    unsigned int lacks; /* enum vg_cpu_lack, except NO_GUEST: missing in at least one of them */
    int64_t gpu_active_ns;
    uint64_t lost_events;
    GArray *lost_to; /* struct vg_history_loss, most ns first; owns its names; never NULL */
};

/* Host figures summed over windows. Each *_of_ns is the total length of the windows that reported
 * the figures after it. */
struct vg_host_figures {
    int64_t own_of_ns;
    int64_t own_ns; /* CPU time of everything except vCPUs */
    int64_t idle_of_ns;
    int64_t idle_ns;
    int64_t steal_ns;
    int64_t load_of_ns;
    int64_t load_us; /* the one-minute load average multiplied by the time */
    int64_t pressure_of_ns;
    int64_t cpu_some_ns; /* PSI */
    int64_t memory_some_ns;
    int64_t memory_full_ns;
    int64_t io_some_ns;
    int64_t io_full_ns;
    int64_t gpu_of_ns;
    int64_t gpu_wait_ns; /* of the GPU requests of all VMs, summed up */
};

/* Adds more to sum. */
void vg_host_figures_add(struct vg_host_figures *sum, const struct vg_host_figures *more);

/* A source of measurements and how long it measured. */
struct vg_history_measured {
    char *by; /* "bpf", "procfs", "replay:NAME" */
    int64_t ns;
    int64_t who_ns; /* the part of this time during which it was known what used the CPUs */
};

/* Returns an empty array of struct vg_history_measured that frees what its entries own. */
GArray *vg_history_measured_new(void);
void vg_history_add_measured(GArray *measured, const char *by, int64_t ns, int64_t who_ns);

/* Sums of a whole host over begin < t <= end, from the start of the first window to the end of the
 * last. */
struct vg_history_step {
    int64_t begin_ns;
    int64_t end_ns;
    int64_t windows;
    int64_t length_ns;  /* total length of these windows */
    int64_t vm_windows; /* sum over the windows of the number of VMs */
    uint64_t lost_events;
    /* Of all VMs. */
    int64_t run_ns;
    int64_t preempt_ns;
    int64_t wake_wait_ns;
    int64_t preemptions;
    unsigned int
        lacks; /* every enum vg_cpu_lack of any VM in any window; they make these figures unknown */
    struct vg_host_figures host;
    GArray *measured; /* struct vg_history_measured, longest first; owned */
    /* struct vg_history_process without count: the host programs that used the most CPU time, at
     * most VG_HISTORY_PROGRAMS_MAX; only whole minutes; owned */
    GArray *programs;
};
#define VG_HISTORY_PROGRAMS_MAX 8

/* Returns an empty array of struct vg_history_step that frees what its steps own. */
GArray *vg_history_steps_new(void);

/* A process behind host:user, as far as its figures are stored. Its figures are lower bounds. */
#define VG_HISTORY_PROCESSES_MAX 24 /* of a VM, or of the host */
struct vg_history_process {
    char comm[VG_COMM_LEN];     /* raw bytes */
    char cgroup[VG_CGROUP_LEN]; /* empty if the process exited before it could be read */
    int64_t ns;
    uint64_t count;
};

/* One VM in the sums of a host. */
struct vg_history_vm {
    char *key;  /* UUID, or the name of a VM without UUID */
    char *name; /* the newest name in that period */
    struct vg_history_row
        row;           /* the VM's windows; begin, end and lost_events are those of the host */
    GArray *processes; /* struct vg_history_process, most ns first; only whole minutes */
};

/* Sums of all VMs of a host over since < t <= until. */
typedef struct vg_history_host {
    char *source;     /* the source of the windows; NULL without windows */
    int64_t begin_ns; /* start of the first window, end of the last; 0 without windows */
    int64_t end_ns;
    int64_t windows;
    int64_t length_ns; /* total length of these windows: less than end - begin if there are gaps */
    uint64_t lost_events;
    GPtrArray *vms;    /* struct vg_history_vm, by first appearance */
    GArray *processes; /* struct vg_history_process, time taken from all VMs together; same order */
    GArray
        *programs; /* the host's programs that used the most CPU time, without count; same order */
} vg_history_host;

vg_history_host *vg_history_host_new(void);
void vg_history_host_free(vg_history_host *host); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_history_host, vg_history_host_free)

struct vg_history_query {
    const char *vm;     /* UUID, or the name of a VM without UUID; NULL for all VMs of a host */
    const char *source; /* NULL for the source of this VM's newest window in the period */
    int64_t since_ns;   /* rows that end after this time ... */
    int64_t until_ns;   /* ... and not after this moment */
    int64_t step_ns; /* 0 for windows as measured; otherwise the step of the sums, >= 1 s, aligned
                      * to multiples since the epoch. Steps of whole minutes are made from minute
                      * sums, steps of whole hours from hour sums, and the period that these do not
                      * cover yet from finer data */
    int64_t deadline_ns; /* CLOCK_MONOTONIC time when the query is abandoned; 0 for no deadline */
    GPtrArray *left_out; /* char *: receives a sentence for each file that may contain matching rows
                          * but could not be read; may be NULL */
};

/* Returns an empty array of struct vg_history_row that frees what its rows own. */
GArray *vg_history_rows_new(void);

/* Returns an empty lost_to array. */
GArray *vg_history_losses_new(void);

/* Adds a loss to the entry of an aggressor. A new entry takes its own reference to the name. (Names
 * are not interned: GLib 2.74 can free an interned string while another thread acquires it.) */
void vg_history_add_loss(GArray *losses, GRefString *aggressor, int64_t ns, uint64_t count);

struct vg_saved_plan {
    char *id;
    int64_t made_ns; /* epoch; when this plan was made for the first time */
    char *verdict;
    char *text; /* JSON document, one line; NULL in lists */
};

struct vg_saved_plan *vg_saved_plan_copy(const struct vg_saved_plan *plan, bool with_text);
void vg_saved_plan_free(void *plan); /* struct vg_saved_plan */

enum vg_store_state {
    VG_STORE_OPENING,
    VG_STORE_OK,
    VG_STORE_FAILING, /* `reason` describes what failed and where; retried once a second */
    VG_STORE_STATE_MAX
};

/* Stored series, from the finest to the coarsest. */
enum vg_stored { VG_STORED_WINDOWS, VG_STORED_MINUTES, VG_STORED_HOURS, VG_STORED_MAX };

extern const char *const vg_stored_names[]; /* "windows", "minutes", "hours" */

struct vg_store_health {
    enum vg_store_state state;
    enum vg_trouble trouble; /* the code for `reason` */
    char reason[512];        /* set if FAILING */
    uint64_t committed;      /* windows, since the start */
    uint64_t pending;        /* windows in memory that are not on disk */
    uint64_t dropped;        /* windows lost because the limit memory_windows was reached */
    uint64_t failures;       /* failed transactions */
    int64_t newest_ns;       /* end of the newest committed window, or 0 */
    int64_t bytes;           /* total of all files, as of the last minute */
    int64_t free_bytes; /* space that vgpud can use on the file system, as of the last minute; -1 if
                         * unknown */
    /* data up to this time expired and was deleted since the start; epoch, 0 if none was */
    int64_t expired_ns[VG_STORED_MAX];
};

extern const char *const vg_store_state_names[]; /* "opening", "ok", "failing" */

#endif
