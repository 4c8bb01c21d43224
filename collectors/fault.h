/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes a collector misbehave, for tests and demonstrations of how other components react. Only
 * windows are affected, except that `silence` and `hang` stop all reports.
 *
 *     drop:RATE          windows are lost
 *     duplicate:RATE     windows are delivered twice
 *     delay:RATE:TIME    it and all following ones are delayed ("300ms", "2s")
 *     reorder:RATE       it is delivered after the next one
 *     silence:N          nothing is delivered after N windows; the thread continues to run
 *     hang:N             after N windows the thread hangs, without a heartbeat, until it is
 *     stopped
 *     seed:N             of the random numbers, default 1
 *
 * Several faults are separated by commas: "drop:0.1,delay:0.2:300ms,seed:7". A rate is 0..1.
 */
#ifndef VG_COLLECTORS_FAULT_H
#define VG_COLLECTORS_FAULT_H

#include "collectors/collector.h"

/* The longest delay. */
#define VG_FAULT_DELAY_MAX_NS (INT64_C(60) * 1000000000)

/* Checks that the text is a list of faults. Fails with VG_E_INVALID otherwise. */
int vg_fault_check(const char *spec, GError **err);

/* Creates a collector with the name of take_inner, and takes ownership of take_inner. Returns NULL
 * and VG_E_INVALID if the text is not a list of faults; take_inner is then freed. */
vg_collector *vg_fault_new(vg_collector *take_inner, const char *spec, GError **err);

#endif
