/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes a collector misbehave, for tests and demonstrations of what the rest does about it. Only
 * windows are touched, but for `silence` and `hang`, after which nothing comes any more.
 *
 *     drop:RATE          a window is lost
 *     duplicate:RATE     it comes twice
 *     delay:RATE:TIME    it comes later ("300ms", "2s"), and so does what follows it
 *     reorder:RATE       it comes after the next one
 *     silence:N          after N windows nothing comes any more; the thread lives
 *     hang:N             after N windows the thread hangs, without a heartbeat, until it is stopped
 *     seed:N             of the random numbers, 1 if not given
 *
 * Several are joined by commas: "drop:0.1,delay:0.2:300ms,seed:7". A rate is 0..1.
 */
#ifndef VG_COLLECTORS_FAULT_H
#define VG_COLLECTORS_FAULT_H

#include "collectors/collector.h"

/* The longest delay. */
#define VG_FAULT_DELAY_MAX_NS (INT64_C(60) * 1000000000)

/* Checks that the text is a list of faults; VG_E_INVALID: it is not. */
int vg_fault_check(const char *spec, GError **err);

/* Makes a collector with the name of the one it takes. NULL and VG_E_INVALID if the text is no list
 * of faults; take_inner is then freed. */
vg_collector *vg_fault_new(vg_collector *take_inner, const char *spec, GError **err);

#endif
