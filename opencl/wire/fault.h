/* SPDX-License-Identifier: Apache-2.0
 *
 * Why a link could not be opened.
 */
#ifndef VG_OPENCL_WIRE_FAULT_H
#define VG_OPENCL_WIRE_FAULT_H

#include "opencl/wire/tls.h"

/* The error of the link that this thread opened last; empty if errno describes it fully. */
extern _Thread_local char vg_wire_fault[VG_WIRE_TLS_FAULT];

/* Returns that text, or NULL if it is empty. It is valid until the thread opens another link. */
const char *vg_wire_fault_text(void);

#endif
