/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows whose figures follow from their times, for tests and benchmarks of the store; and a
 * directory to store in.
 */
#ifndef VG_TESTS_STORE_CASES_H
#define VG_TESTS_STORE_CASES_H

#include "base/clock.h"
#include "store/store.h"

#define S_NS    VG_NS_PER_S
#define MIN_NS  (60 * S_NS)
#define HOUR_NS (3600 * S_NS)
#define DAY_NS  (86400 * S_NS)

/* UTC midnight that begins 2026-11-20. */
#define MIDNIGHT_NS (INT64_C(20777) * DAY_NS)

/* Each VM loses CPU time to these: "vm-K" for the next ones, "self", "host:kernel". */
#define STORE_CASE_LOSSES 4

/* Options for a directory; a retry takes 5 ms, retention is for ever. */
struct vg_store_options store_case_options(const char *directory);

/* A new directory below TMPDIR; free with store_case_remove(), which deletes it. */
/* Hundreds of stores are made: the disk has nothing to do with what is tested. */
void store_case_use_memory(void);

char *store_case_directory(void);
void store_case_remove(char *take_directory);

/* Fills an uninitialised window: `vms` VMs, "vm-0" with UUID, "vm-1" without, and so on. */
void store_case_window(struct vg_window *ret, int64_t begin_ns, int64_t end_ns, guint vms);

/* What the host did in it, as the window tells it. */
struct vg_host_sample store_case_host(int64_t begin_ns, int64_t end_ns);

/* Who measured it: "bpf", which knows who took CPU time, in some windows, "procfs" in others. */
bool store_case_is_bpf(int64_t end_ns);

/* Puts a window that was measured by that one. */
void store_case_put_window(vg_store *store, const char *source, const struct vg_window *window,
                           int64_t clock_offset_ns);

/* Makes such a window, puts it, clears it. */
void store_case_put(vg_store *store, const char *source, int64_t begin_ns, int64_t end_ns,
                    guint vms);

/* The figures of VM number vm in the window that ends then; blocked_ns included. */
struct vg_cpu_figures store_case_figures(int64_t begin_ns, int64_t end_ns, guint vm);

/* What the key and the name of a VM are. buf of VG_VM_NAME_MAX. */
const char *store_case_key(guint vm, char *buf);
const char *store_case_name(guint vm, char *buf);

/* Of the window: ns lost to entry i of VM `vm`, and the name of that entry. */
int64_t store_case_lost_ns(int64_t end_ns, guint vm, guint i);

#endif
