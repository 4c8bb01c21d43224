/* SPDX-License-Identifier: Apache-2.0
 *
 * The clocks of base/clock.h, in place of base/clock.c. While a collector that waits with
 * vg_clock_poll() runs on the fake one, time stands still until the test waits for a report, so
 * that nothing depends on how busy the machine is. Before and after that they are the real ones.
 */
#ifndef VG_TESTS_FAKE_CLOCK_H
#define VG_TESTS_FAKE_CLOCK_H

#include <stdint.h>

#include "tests/unit/collector-run.h"

struct collector_run *fake_clock_run(vg_collector *take_collector);
void fake_clock_end(struct collector_run *run);

/* Waits until the collector waits; then it becomes the time that it waits for. Returns when it
 * waits again. */
void fake_clock_step(void);

/* The same for a test without a collector. */
void fake_clock_start(void);
void fake_clock_stop(void);

/* Time that passes while the collector does something else than wait; by any thread. */
void fake_clock_pass(int64_t ns);

#endif
