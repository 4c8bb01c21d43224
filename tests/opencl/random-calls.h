/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of random-calls share.
 */
#ifndef VG_TESTS_OPENCL_RANDOM_CALLS_H
#define VG_TESTS_OPENCL_RANDOM_CALLS_H

#define CL_TARGET_OPENCL_VERSION          300
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS 1
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS 1
#include <stdbool.h>
#include <stdint.h>

#include <CL/cl.h>

#define MEMS      12
#define QUEUES    2
#define PROGRAMS  4
#define KERNELS   8
#define EVENTS    8
#define SIZE_MAX_ 65536 /* bytes of a buffer */

struct mem {
    cl_mem mem;
    size_t size; /* bytes; of an image, of all its texels */
    bool is_image, is_sub;
    size_t width, height; /* of an image, in texels of four bytes */
    void *host;           /* memory of ours that it uses */
    void *map;            /* what is mapped, and how */
    size_t map_offset, map_size, map_pitch;
    cl_map_flags map_flags;
    int parent;
};

struct world {
    unsigned step;
    cl_device_id device;
    cl_context context;
    cl_command_queue queues[QUEUES];
    cl_sampler sampler;
    struct mem mems[MEMS];
    cl_program programs[PROGRAMS];
    cl_kernel kernels[KERNELS];
    int kernel_kinds[KERNELS];
    unsigned kernel_set[KERNELS]; /* a bit for each argument that is set */
    int kernel_mems[KERNELS][4];
    cl_event events[EVENTS];
};

extern struct world w;

uint32_t draw(uint32_t limit);
uint64_t hash(const void *bytes, size_t size);
void say(const char *what, int error, uint64_t more);
void fill_random(void *bytes, size_t size);
void mem_release(int i);
void event_release(int i);
cl_command_queue any_queue(void);
void done(cl_command_queue queue);

void step_buffer(void);
void step_sub(void);
void step_image(void);
void step_release(void);
void step_write(void);
void step_read(void);
void step_rect(void);
void step_copy(void);
void step_fill(void);
void step_map(void);
void step_unmap(void);
void step_texels(void);
void step_program(void);
void step_link(void);
void step_kernel(void);
void step_arg(void);
void step_launch(void);
void step_event(void);
void step_user(void);
void step_wait(void);
void step_ask(void);
void step_wrong(void);

#endif
