/* SPDX-License-Identifier: Apache-2.0
 *
 * Which calls submit work to a device. Any thread.
 */
#ifndef VG_OPENCL_WIRE_COMMANDS_H
#define VG_OPENCL_WIRE_COMMANDS_H

#include <stdbool.h>

#include "opencl/wire/ops.h"

/* Returns whether OP may submit work to the device. */
static inline bool
vg_wire_is_command(unsigned op)
{
    switch (op) {
    case VG_WIRE_OP_EnqueueReadBuffer:
    case VG_WIRE_OP_EnqueueWriteBuffer:
    case VG_WIRE_OP_EnqueueCopyBuffer:
    case VG_WIRE_OP_EnqueueReadImage:
    case VG_WIRE_OP_EnqueueWriteImage:
    case VG_WIRE_OP_EnqueueCopyImage:
    case VG_WIRE_OP_EnqueueCopyImageToBuffer:
    case VG_WIRE_OP_EnqueueCopyBufferToImage:
    case VG_WIRE_OP_EnqueueMapBuffer:
    case VG_WIRE_OP_EnqueueMapImage:
    case VG_WIRE_OP_EnqueueUnmapMemObject:
    case VG_WIRE_OP_EnqueueNDRangeKernel:
    case VG_WIRE_OP_EnqueueTask:
    case VG_WIRE_OP_EnqueueReadBufferRect:
    case VG_WIRE_OP_EnqueueWriteBufferRect:
    case VG_WIRE_OP_EnqueueCopyBufferRect:
    case VG_WIRE_OP_EnqueueFillBuffer:
    case VG_WIRE_OP_EnqueueFillImage:
    case VG_WIRE_OP_EnqueueMigrateMemObjects:
    case VG_WIRE_OP_SetUserEventStatus:
        return true;
    default:
        return false;
    }
}

#endif
