/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/wire/fault.h"

#include <stddef.h>

_Thread_local char vg_wire_fault[VG_WIRE_TLS_FAULT];

const char *
vg_wire_fault_text(void)
{
    return *vg_wire_fault ? vg_wire_fault : NULL;
}
