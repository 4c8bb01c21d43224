/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a collector on a thread and keeps what it reports, for tests.
 */
#ifndef VG_TESTS_COLLECTOR_RUN_H
#define VG_TESTS_COLLECTOR_RUN_H

#include "collectors/collector.h"

struct collector_run;

struct collector_run *collector_run_start(vg_collector *take_collector);

/* Stops it, frees it and what it reported. */
void collector_run_stop(struct collector_run *run);

/* Its clock is one that stands still (tests/unit/fake-clock.h): while no report is there, step()
 * lets time pass. */
void collector_run_step_with(struct collector_run *run, void (*step)(void));

/* The next report; ends the test if none comes for as long as only a hanging thread takes. */
vg_report *collector_run_any(struct collector_run *run);

/* The next report of this kind; others before it are dropped. */
vg_report *collector_run_wait(struct collector_run *run, enum vg_report_kind kind);

/* The next status of this state. */
vg_report *collector_run_state(struct collector_run *run, enum vg_collector_state state);

/* The next report of any kind, or NULL if none comes in this time. */
vg_report *collector_run_next(struct collector_run *run, int64_t timeout_ns);

/* Waits until its heart has beaten that often. */
void collector_run_await_beats(const vg_thread *thread, unsigned n);

const vg_thread *collector_run_thread(const struct collector_run *run);

#endif
