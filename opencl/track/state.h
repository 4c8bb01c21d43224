/* SPDX-License-Identifier: Apache-2.0
 *
 * The records of a stream: the data to re-create each object. Objects are referred to by their
 * ids; 0 refers to no object. Data read are borrowed from the stream and not trusted: a reader
 * that has failed returns nothing.
 */
#ifndef VG_OPENCL_TRACK_STATE_H
#define VG_OPENCL_TRACK_STATE_H

#include <string.h>

#include "opencl/track/object.h"
#include "opencl/track/stream.h"

/* A list of numbers in a stream. Its elements may be unaligned. */
struct vg_cl_ids {
    const unsigned char *bytes;
    uint64_t n;
};

struct vg_cl_state_mem {
    uint64_t context, parent;
    uint64_t kind, flags, size, origin;
    bool is_sub, is_written;
    bool has_image;
    cl_image_format format;
    cl_image_desc desc;
    uint64_t n_content; /* bytes of contents; 0 if undefined or in the program's own memory */
    const void *content;
};

struct vg_cl_state_program {
    uint64_t context, kind, step;
    struct vg_cl_ids devices, inputs;
    const char *source, *options;
    uint64_t n_binaries; /* in the device's own format; 0 if none are available */
};

struct vg_cl_state_arg {
    uint64_t kind;
    uint64_t size, id;
    const void *bytes;
};

struct vg_cl_state_kernel {
    uint64_t program, n_args;
    const char *name;
};

struct vg_cl_state_event {
    uint64_t context, queue;
    uint64_t command;
    int64_t status;
    struct vg_cl_ids profile;
};

/* Writes the description of MEM. Its contents follow: N_CONTENT bytes. */
void vg_cl_state_put_mem(struct vg_cl_writer *writer, const struct vg_cl_object *mem,
                         uint64_t n_content);
bool vg_cl_state_get_mem(struct vg_cl_reader *reader, struct vg_cl_state_mem *state);

/* The binaries follow as bytes, one per device. */
void vg_cl_state_put_program(struct vg_cl_writer *writer, const struct vg_cl_object *program,
                             uint64_t n_binaries);
bool vg_cl_state_get_program(struct vg_cl_reader *reader, struct vg_cl_state_program *state);

/* The arguments follow. */
void vg_cl_state_put_kernel(struct vg_cl_writer *writer, const struct vg_cl_object *kernel);
bool vg_cl_state_get_kernel(struct vg_cl_reader *reader, struct vg_cl_state_kernel *state);
bool vg_cl_state_get_arg(struct vg_cl_reader *reader, struct vg_cl_state_arg *state);

void vg_cl_state_put_event(struct vg_cl_writer *writer, const struct vg_cl_object *event);
bool vg_cl_state_get_event(struct vg_cl_reader *reader, struct vg_cl_state_event *state);

/* Writes a context, a queue, a sampler, or a sub-device. They are restored from data in their own
 * process. */
void vg_cl_state_put_small(struct vg_cl_writer *writer, const struct vg_cl_object *object);

#endif
