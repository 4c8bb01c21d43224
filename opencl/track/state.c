/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/track/state.h"

#include "opencl/track/program.h"

static uint64_t
state_id(const struct vg_cl_object *object)
{
    return object ? object->id : 0;
}

static void
state_put_ids(struct vg_cl_writer *writer, struct vg_cl_object *const *objects, cl_uint n)
{
    vg_cl_put_u64(writer, n);
    for (cl_uint i = 0; i < n; i++)
        vg_cl_put_u64(writer, objects[i]->id);
}

static struct vg_cl_ids
state_get_ids(struct vg_cl_reader *reader)
{
    struct vg_cl_ids ids = {.n = vg_cl_get_u64(reader), .bytes = reader->at};

    if (reader->failed || ids.n > (uint64_t)(reader->end - reader->at) / sizeof(uint64_t)) {
        reader->failed = true;
        ids.n = 0;
        return ids;
    }
    reader->at += ids.n * sizeof(uint64_t);
    return ids;
}

static void
state_get_fixed(struct vg_cl_reader *reader, void *to, size_t size)
{
    uint64_t got;
    const void *bytes = vg_cl_get_bytes(reader, &got);

    if (got == size)
        memcpy(to, bytes, size);
    else
        reader->failed = true;
}

/* ---- memory ---- */

void
vg_cl_state_put_mem(struct vg_cl_writer *writer, const struct vg_cl_object *object,
                    uint64_t n_content)
{
    const struct vg_cl_mem *mem = &object->mem;

    vg_cl_put_u64(writer, state_id(object->context));
    vg_cl_put_u64(writer, state_id(mem->parent));
    vg_cl_put_u64(writer, mem->kind);
    vg_cl_put_u64(writer, mem->flags);
    vg_cl_put_u64(writer, mem->size);
    vg_cl_put_u64(writer, mem->origin);
    vg_cl_put_u64(writer, mem->is_sub);
    vg_cl_put_u64(writer, mem->is_written);
    vg_cl_put_u64(writer, mem->image != NULL);
    if (mem->image) {
        cl_image_desc desc = mem->image->desc;
        desc.mem_object = NULL;
        vg_cl_put_bytes(writer, &mem->image->format, sizeof mem->image->format);
        vg_cl_put_bytes(writer, &desc, sizeof desc);
    }
    vg_cl_put_u64(writer, n_content);
}

bool
vg_cl_state_get_mem(struct vg_cl_reader *reader, struct vg_cl_state_mem *state)
{
    *state = (struct vg_cl_state_mem){.context = vg_cl_get_u64(reader)};
    state->parent = vg_cl_get_u64(reader);
    state->kind = vg_cl_get_u64(reader);
    state->flags = vg_cl_get_u64(reader);
    state->size = vg_cl_get_u64(reader);
    state->origin = vg_cl_get_u64(reader);
    state->is_sub = vg_cl_get_u64(reader);
    state->is_written = vg_cl_get_u64(reader);
    state->has_image = vg_cl_get_u64(reader);
    if (state->has_image) {
        state_get_fixed(reader, &state->format, sizeof state->format);
        state_get_fixed(reader, &state->desc, sizeof state->desc);
    }
    state->n_content = vg_cl_get_u64(reader);
    if (state->n_content)
        state->content = vg_cl_get_room(reader, state->n_content);
    return !reader->failed;
}

/* ---- programs and kernels ---- */

void
vg_cl_state_put_program(struct vg_cl_writer *writer, const struct vg_cl_object *object,
                        uint64_t n_binaries)
{
    const struct vg_cl_program *program = object->program;

    vg_cl_put_u64(writer, state_id(object->context));
    vg_cl_put_u64(writer, program->kind);
    vg_cl_put_u64(writer, program->step);
    state_put_ids(writer, program->devices, program->n_devices);
    state_put_ids(writer, program->inputs, program->n_inputs);
    vg_cl_put_text(writer, program->source);
    vg_cl_put_text(writer, program->options);
    vg_cl_put_u64(writer, n_binaries);
}

bool
vg_cl_state_get_program(struct vg_cl_reader *reader, struct vg_cl_state_program *state)
{
    *state = (struct vg_cl_state_program){.context = vg_cl_get_u64(reader)};
    state->kind = vg_cl_get_u64(reader);
    state->step = vg_cl_get_u64(reader);
    state->devices = state_get_ids(reader);
    state->inputs = state_get_ids(reader);
    state->source = vg_cl_get_text(reader);
    state->options = vg_cl_get_text(reader);
    state->n_binaries = vg_cl_get_u64(reader);
    return !reader->failed;
}

static void
state_put_arg(struct vg_cl_writer *writer, const struct vg_cl_arg *arg)
{
    const void *bytes = arg->size > sizeof arg->small ? arg->bytes : arg->small;
    bool is_gone = arg->kind == VG_CL_ARG_OBJECT && arg->object->id != arg->id;

    vg_cl_put_u64(writer, is_gone ? VG_CL_ARG_UNSET : arg->kind);
    vg_cl_put_u64(writer, arg->size);
    vg_cl_put_u64(writer, arg->kind == VG_CL_ARG_OBJECT ? arg->id : 0);
    vg_cl_put_bytes(writer, bytes, arg->kind == VG_CL_ARG_BYTES ? arg->size : 0);
}

bool
vg_cl_state_get_arg(struct vg_cl_reader *reader, struct vg_cl_state_arg *state)
{
    uint64_t n;

    *state = (struct vg_cl_state_arg){.kind = vg_cl_get_u64(reader)};
    state->size = vg_cl_get_u64(reader);
    state->id = vg_cl_get_u64(reader);
    state->bytes = vg_cl_get_bytes(reader, &n);
    if (state->kind == VG_CL_ARG_BYTES && n != state->size)
        reader->failed = true;
    return !reader->failed;
}

void
vg_cl_state_put_kernel(struct vg_cl_writer *writer, const struct vg_cl_object *object)
{
    const struct vg_cl_kernel *kernel = &object->kernel;

    vg_cl_put_u64(writer, state_id(kernel->program));
    vg_cl_put_text(writer, kernel->name);
    vg_cl_put_u64(writer, kernel->n_args);
    for (cl_uint i = 0; i < kernel->n_args; i++)
        state_put_arg(writer, &kernel->args[i]);
}

bool
vg_cl_state_get_kernel(struct vg_cl_reader *reader, struct vg_cl_state_kernel *state)
{
    *state = (struct vg_cl_state_kernel){.program = vg_cl_get_u64(reader)};
    state->name = vg_cl_get_text(reader);
    state->n_args = vg_cl_get_u64(reader);
    return !reader->failed && state->name;
}

/* ---- events ---- */

void
vg_cl_state_put_event(struct vg_cl_writer *writer, const struct vg_cl_object *object)
{
    const struct vg_cl_event *event = &object->event;

    vg_cl_put_u64(writer, state_id(object->context));
    vg_cl_put_u64(writer, state_id(event->queue));
    vg_cl_put_u64(writer, event->command);
    vg_cl_put_u64(writer, (uint64_t)(int64_t)event->status);
    vg_cl_put_u64(writer, event->profile ? 5 : 0);
    for (int i = 0; event->profile && i < 5; i++)
        vg_cl_put_u64(writer, event->profile[i]);
}

bool
vg_cl_state_get_event(struct vg_cl_reader *reader, struct vg_cl_state_event *state)
{
    *state = (struct vg_cl_state_event){.context = vg_cl_get_u64(reader)};
    state->queue = vg_cl_get_u64(reader);
    state->command = vg_cl_get_u64(reader);
    state->status = (int64_t)vg_cl_get_u64(reader);
    state->profile = state_get_ids(reader);
    return !reader->failed && (state->profile.n == 0 || state->profile.n == 5);
}

/* ---- the rest ---- */

void
vg_cl_state_put_small(struct vg_cl_writer *writer, const struct vg_cl_object *object)
{
    switch ((enum vg_cl_type)object->type) {
    case VG_CL_DEVICE:
        vg_cl_put_u64(writer, state_id(object->device.parent));
        vg_cl_put_u64(writer, object->device.index);
        break;
    case VG_CL_CONTEXT:
        state_put_ids(writer, object->ctx.devices, object->ctx.n_devices);
        vg_cl_put_bytes(writer, object->ctx.properties,
                        object->ctx.n_properties * sizeof *object->ctx.properties);
        break;
    case VG_CL_QUEUE:
        vg_cl_put_u64(writer, state_id(object->context));
        vg_cl_put_u64(writer, state_id(object->queue.device));
        vg_cl_put_u64(writer, object->queue.is_old);
        vg_cl_put_u64(writer, object->queue.bits);
        vg_cl_put_bytes(writer, object->queue.properties,
                        object->queue.n_properties * sizeof *object->queue.properties);
        break;
    case VG_CL_SAMPLER:
        vg_cl_put_u64(writer, state_id(object->context));
        vg_cl_put_u64(writer, object->sampler.is_old);
        vg_cl_put_u64(writer, object->sampler.normalized);
        vg_cl_put_u64(writer, object->sampler.addressing);
        vg_cl_put_u64(writer, object->sampler.filter);
        vg_cl_put_bytes(writer, object->sampler.properties,
                        object->sampler.n_properties * sizeof *object->sampler.properties);
        break;
    case VG_CL_NONE:
    case VG_CL_PLATFORM:
    case VG_CL_MEM:
    case VG_CL_PROGRAM:
    case VG_CL_KERNEL:
    case VG_CL_EVENT:
        break;
    }
}
