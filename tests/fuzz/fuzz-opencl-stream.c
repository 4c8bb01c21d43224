/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as the stream of a program's state. No crash; nothing that is read lies outside of it.
 */
#include "config.h"

#include <stdint.h>
#include <stdlib.h>

#include "opencl/track/state.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_inside(const uint8_t *data, size_t size, const void *place, uint64_t n)
{
    const uint8_t *at = place;

    if (n && (at < data || at > data + size || n > (uint64_t)(data + size - at)))
        abort();
}

static void
read_mem(const uint8_t *data, size_t size, struct vg_cl_reader *reader)
{
    struct vg_cl_state_mem mem;

    if (vg_cl_state_get_mem(reader, &mem))
        check_inside(data, size, mem.content, mem.n_content);
}

static void
read_program(const uint8_t *data, size_t size, struct vg_cl_reader *reader)
{
    struct vg_cl_state_program program;

    if (!vg_cl_state_get_program(reader, &program))
        return;
    check_inside(data, size, program.devices.bytes, program.devices.n * 8);
    check_inside(data, size, program.inputs.bytes, program.inputs.n * 8);
    for (uint64_t i = 0; i < program.n_binaries && !reader->failed; i++) {
        uint64_t n;
        const void *bytes = vg_cl_get_bytes(reader, &n);
        check_inside(data, size, bytes, n);
    }
}

static void
read_kernel(const uint8_t *data, size_t size, struct vg_cl_reader *reader)
{
    struct vg_cl_state_kernel kernel;
    struct vg_cl_state_arg arg;

    if (!vg_cl_state_get_kernel(reader, &kernel))
        return;
    for (uint64_t i = 0; i < kernel.n_args && vg_cl_state_get_arg(reader, &arg); i++)
        if (arg.kind == VG_CL_ARG_BYTES)
            check_inside(data, size, arg.bytes, arg.size);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct vg_cl_reader reader;
    struct vg_cl_record record;
    struct vg_cl_state_event event;

    if (!vg_cl_reader_open(&reader, data, size))
        return 0;
    while (vg_cl_reader_next(&reader, &record)) {
        check_inside(data, size, record.content.at,
                     (uint64_t)(record.content.end - record.content.at));
        if (record.type == VG_CL_MEM)
            read_mem(data, size, &record.content);
        else if (record.type == VG_CL_PROGRAM)
            read_program(data, size, &record.content);
        else if (record.type == VG_CL_KERNEL)
            read_kernel(data, size, &record.content);
        else if (record.type == VG_CL_EVENT)
            vg_cl_state_get_event(&record.content, &event);
    }
    return 0;
}
