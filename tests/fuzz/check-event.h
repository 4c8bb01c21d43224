/* SPDX-License-Identifier: Apache-2.0
 *
 * What every fuzz target of the trace readers demands of an event.
 */
#ifndef VG_TESTS_FUZZ_CHECK_EVENT_H
#define VG_TESTS_FUZZ_CHECK_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/event.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Aborts if a promise is broken. */
void require(bool promise);

/* The ranges that model/event.h promises. */
void check_event(const struct vg_event *event);

#endif
