/* SPDX-License-Identifier: Apache-2.0
 *
 * Why a link could not be opened.
 */
#ifndef VG_OPENCL_WIRE_FAULT_H
#define VG_OPENCL_WIRE_FAULT_H

#include "opencl/wire/tls.h"

/* What a link that this thread opened last found wrong; empty: errno says it all. */
extern _Thread_local char vg_wire_fault[VG_WIRE_TLS_FAULT];

/* Returns that text, or NULL if there is none. It holds until the thread opens the next link. */
const char *vg_wire_fault_text(void);

#endif
