/* SPDX-License-Identifier: Apache-2.0
 *
 * What tests of the store do with one and ask about it. They fail the test if it is not so.
 */
#ifndef VG_TESTS_STORE_CHECKS_H
#define VG_TESTS_STORE_CHECKS_H

#include "store-cases.h"

#define STORE_LONG_NS (100 * S_NS) /* only what hangs takes as long */

/* A test's state is a new directory; only errors of the store are logged. */
int store_set_up(void **state);
int store_tear_down(void **state);

vg_store *store_open(const char *directory);

/* Windows of a second, first < t <= first + n, all on disk. */
void store_put_seconds(vg_store *store, const char *source, int64_t first_ns, int n, guint vms);

GArray *store_read_rows(vg_store *store, guint vm, int64_t since_ns, int64_t until_ns,
                        int64_t step_ns);
const struct vg_history_row *store_row_at(const GArray *rows, guint i);

/* What the row lost to this one, -1: he is not in it; to all of them. */
int64_t store_lost_to(const struct vg_history_row *row, const char *aggressor);
int64_t store_lost_to_all(const struct vg_history_row *row, uint64_t *ret_count);

/* The row is the sum of windows of a second, first < end <= last. */
void store_assert_sums(const struct vg_history_row *row, guint vm, int64_t first_ns,
                       int64_t last_ns);

/* So are the rows that a query with this step returns for the time. */
void store_assert_steps(vg_store *store, guint vm, int64_t first_ns, int64_t last_ns,
                        int64_t step_ns);

bool store_has_file(const char *directory, const char *name);

/* One number out of a file, past the store; INT64_MIN if there is none. */
int64_t store_ask(const char *directory, const char *name, const char *sql);

/* Until the state is that, or time is over. */
void store_wait_for_state(vg_store *store, enum vg_store_state state, struct vg_store_health *ret);

#endif
