/* SPDX-License-Identifier: Apache-2.0
 *
 * What is kept: figures of the past, plans, and how the keeping goes. The store fills these, the
 * API shows them. Times are nanoseconds since the epoch.
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

/* Rows that one query may return. */
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
    int64_t windows; /* that it is made of */
    struct vg_cpu_figures cpu;
    bool guest_known; /* in any of them */
    bool gpu_known;
    unsigned int lacks; /* enum vg_cpu_lack, but NO_GUEST: of any of them */
    int64_t gpu_active_ns;
    uint64_t lost_events;
    GArray *lost_to; /* struct vg_history_loss, most ns first, which owns its names; never NULL */
};

/* Sums of what a host did over windows. Each *_of_ns is the time of those in which what follows it
 * was told. */
struct vg_host_figures {
    int64_t own_of_ns;
    int64_t own_ns; /* CPU time of all that is no vCPU */
    int64_t idle_of_ns;
    int64_t idle_ns;
    int64_t steal_ns;
    int64_t load_of_ns;
    int64_t load_us; /* the load of one minute times the time */
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

/* Who measured for how long. */
struct vg_history_measured {
    char *by; /* "bpf", "procfs", "replay:NAME" */
    int64_t ns;
    int64_t who_ns; /* of it: that in which it was known who took CPU time */
};

/* An empty array of struct vg_history_measured that frees what its entries hold. */
GArray *vg_history_measured_new(void);
void vg_history_add_measured(GArray *measured, const char *by, int64_t ns, int64_t who_ns);

/* Sums of a whole host over begin < t <= end, where the first window begins and the last one
 * ends. */
struct vg_history_step {
    int64_t begin_ns;
    int64_t end_ns;
    int64_t windows;
    int64_t length_ns;  /* of these windows together */
    int64_t vm_windows; /* the sum over the windows of the number of VMs */
    uint64_t lost_events;
    /* Of all VMs. */
    int64_t run_ns;
    int64_t preempt_ns;
    int64_t wake_wait_ns;
    int64_t preemptions;
    unsigned int lacks; /* enum vg_cpu_lack that make these unknown, of any VM in any window */
    struct vg_host_figures host;
    GArray *measured; /* struct vg_history_measured, longest first; owned */
    /* struct vg_history_process without count: programs of the host with most CPU time, at most
     * VG_HISTORY_PROGRAMS_MAX; of whole minutes; owned */
    GArray *programs;
};
#define VG_HISTORY_PROGRAMS_MAX 8

/* An empty array of struct vg_history_step that frees what its steps hold. */
GArray *vg_history_steps_new(void);

/* A process behind host:user, as far as it is stored: at least so much. */
#define VG_HISTORY_PROCESSES_MAX 24 /* of a VM, or of the host */
struct vg_history_process {
    char comm[VG_COMM_LEN];     /* raw bytes */
    char cgroup[VG_CGROUP_LEN]; /* empty: it was gone before anybody could look */
    int64_t ns;
    uint64_t count;
};

/* One VM in the sums of a host. */
struct vg_history_vm {
    char *key;                 /* UUID, or name where it has none */
    char *name;                /* the newest in that time */
    struct vg_history_row row; /* its windows; begin, end and lost_events are those of the host */
    GArray *processes;         /* struct vg_history_process, most ns first; of whole minutes */
};

/* Sums of all VMs of a host over since < t <= until. */
typedef struct vg_history_host {
    char *source;     /* whose windows; NULL: there are none */
    int64_t begin_ns; /* of the first window, and end of the last; 0: there are none */
    int64_t end_ns;
    int64_t windows;
    int64_t length_ns; /* of these windows together: less than end - begin where there are gaps */
    uint64_t lost_events;
    GPtrArray *vms;    /* struct vg_history_vm, by first appearance */
    GArray *processes; /* struct vg_history_process, which took of all VMs together; likewise */
    GArray *programs;  /* those of the host with most CPU time, without count; likewise */
} vg_history_host;

vg_history_host *vg_history_host_new(void);
void vg_history_host_free(vg_history_host *host); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_history_host, vg_history_host_free)

struct vg_history_query {
    const char *vm;      /* UUID, or name where it has none; NULL: all, of a host */
    const char *source;  /* NULL: whoever stored the newest window of this VM in the period */
    int64_t since_ns;    /* rows that end after since ... */
    int64_t until_ns;    /* ... and not after until */
    int64_t step_ns;     /* 0: windows as they were measured; else sums over multiples of step since
                          * the epoch, >= 1 s; from minutes at whole minutes, from hours at whole hours,
                          * what these do not cover yet from what is finer */
    int64_t deadline_ns; /* CLOCK_MONOTONIC, after which it is given up; 0: none */
    GPtrArray *left_out; /* char *: gets a sentence for each file that may have had rows and could
                          * not be read; NULL: not wanted */
};

/* An empty array of struct vg_history_row that frees what its rows hold. */
GArray *vg_history_rows_new(void);

/* An empty lost_to. */
GArray *vg_history_losses_new(void);

/* Adds to the entry of an aggressor, which is made with a reference of its own if need be. (Names
 * are not interned: GLib 2.74 frees an interned string that another thread is just taking.) */
void vg_history_add_loss(GArray *losses, GRefString *aggressor, int64_t ns, uint64_t count);

struct vg_saved_plan {
    char *id;
    int64_t made_ns; /* epoch; of the first time this plan was made */
    char *verdict;
    char *text; /* JSON document, one line; NULL in lists */
};

struct vg_saved_plan *vg_saved_plan_copy(const struct vg_saved_plan *plan, bool with_text);
void vg_saved_plan_free(void *plan); /* struct vg_saved_plan */

enum vg_store_state {
    VG_STORE_OPENING,
    VG_STORE_OK,
    VG_STORE_FAILING, /* `reason` says what and where; tried again once a second */
    VG_STORE_STATE_MAX
};

/* What is stored, from the finest to the coarsest. */
enum vg_stored { VG_STORED_WINDOWS, VG_STORED_MINUTES, VG_STORED_HOURS, VG_STORED_MAX };

extern const char *const vg_stored_names[]; /* "windows", "minutes", "hours" */

struct vg_store_health {
    enum vg_store_state state;
    enum vg_trouble trouble; /* the code of that */
    char reason[512];        /* of FAILING */
    uint64_t committed;      /* windows, since the start */
    uint64_t pending;        /* windows in memory that are not on disk */
    uint64_t dropped;        /* windows lost because memory_windows was reached */
    uint64_t failures;       /* of transactions */
    int64_t newest_ns;       /* end of the newest window committed; 0: none */
    int64_t bytes;           /* of all files, as of the last minute */
    int64_t free_bytes; /* of the file system, for vgpud, as of the last minute; -1: not known */
    /* until when they were removed as they were old, since the start; epoch, 0: none was */
    int64_t expired_ns[VG_STORED_MAX];
};

extern const char *const vg_store_state_names[]; /* "opening", "ok", "failing" */

#endif
