/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums of all VMs over many windows, for minutes, hours and answers about the whole host. One
 * thread at a time.
 */
#ifndef VG_STORE_STORE_TOTAL_H
#define VG_STORE_STORE_TOTAL_H

#include "store/store-host.h"
#include "store/store-row.h"
#include "store/store-window.h"

struct vg_store_total_vm {
    char *key;
    char *name;       /* the newest name */
    int64_t named_ns; /* time when it had this name */
    struct vg_store_sample sample;
    GArray *losses;    /* struct vg_store_loss, whose aggressors are numbers of the total */
    GArray *processes; /* the same, with keys of host:user processes as names */
    int64_t processes_floor_ns; /* maximum time taken by a process without a row */
};

struct vg_store_total {
    struct vg_store_win win; /* begin, end, windows and lost_events of the whole period */
    int64_t length_ns;       /* total length of the rows */
    struct vg_store_host host;
    GPtrArray *vms;      /* struct vg_store_total_vm, in the order of appearance */
    GHashTable *by_key;  /* key -> struct vg_store_total_vm */
    GPtrArray *names;    /* names of aggressors by their number here; 0 is "rest" */
    GHashTable *numbers; /* name -> number */
    GArray *processes;   /* struct vg_store_loss, of all VMs together */
    int64_t processes_floor_ns;
    GArray *programs; /* struct vg_store_loss: CPU time of host programs */
    int64_t programs_floor_ns;
};

void vg_store_total_init(struct vg_store_total *total);
void vg_store_total_clear(struct vg_store_total *total);

/* Returns the number of a name, assigned if necessary. */
uint32_t vg_store_total_number(struct vg_store_total *total, const char *name);

/* Returns the VM with a key, created if necessary. Sets its name, unless it already has a name from
 * a time after at_ns. */
struct vg_store_total_vm *vg_store_total_need_vm(struct vg_store_total *total, const char *key,
                                                 const char *name, int64_t at_ns);

/* A file that is being added. Its numbers are valid only in this file. total and file are borrowed.
 */
struct vg_store_total_reader {
    struct vg_store_total *total;
    struct vg_store_file *file;
    GHashTable *vms;        /* id -> struct vg_store_total_vm */
    GHashTable *aggressors; /* id -> number in the total */
};

void vg_store_total_reader_init(struct vg_store_total_reader *reader, struct vg_store_total *total,
                                struct vg_store_file *file);
void vg_store_total_reader_clear(struct vg_store_total_reader *reader);

/* Adds only the row of `win` itself. */
void vg_store_total_add_period(struct vg_store_total *total, const struct vg_store_win *win);

/* Adds a row of `win` from the file, with everything that belongs to it. Returns 0 or -1. */
int vg_store_total_add_win(struct vg_store_total_reader *reader, const struct vg_store_win *win,
                           GError **err);

/* Adds a window in memory. */
void vg_store_total_add_window(struct vg_store_total *total, const struct vg_store_window *window);

#endif
