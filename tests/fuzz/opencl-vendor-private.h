/* SPDX-License-Identifier: Apache-2.0
 *
 * What the vendor's files share.
 */
#ifndef VG_TESTS_FUZZ_OPENCL_VENDOR_PRIVATE_H
#define VG_TESTS_FUZZ_OPENCL_VENDOR_PRIVATE_H

#include "tests/fuzz/opencl-vendor.h"

struct fake_callback {
    struct fake_callback *next;
    void(CL_CALLBACK *call)(cl_event, cl_int, void *);
    cl_int type;
    void *data;
};

struct fake_destructor {
    struct fake_destructor *next;
    vg_cl_mem_notify call;
    void *data;
};

struct fake_object {
    const cl_icd_dispatch *dispatch; /* first */
    enum vg_cl_type type;
    unsigned refs;
    struct fake_object *next;
    struct fake_object *parent; /* a context, or a buffer of which this is a part */
    /* of memory */
    cl_mem_flags flags;
    cl_mem_object_type kind;
    cl_image_format format;
    size_t size, element, width, height, depth;
    unsigned char *bytes;
    bool is_own;
    struct fake_destructor *destructors;
    /* of a queue */
    bool is_out_of_order;
    /* of an event */
    bool is_user;
    cl_int status;
    struct fake_callback *callbacks;
    /* of programs and kernels */
    bool is_silent;
};

/* Returns the object at HANDLE; NULL: there is none. */
struct fake_object *fake_find(const void *handle);

/* Returns the object at HANDLE, which has to be there; NULL: it is NULL, or of another type. */
struct fake_object *fake_as(const void *handle, enum vg_cl_type type);

struct fake_object *fake_in_context(cl_context context, enum vg_cl_type type, cl_int *error);

/* Whether all N of a list are there. */
bool fake_are(const void *const *handles, cl_uint n, enum vg_cl_type type);

/* Makes an object; PARENT gets one more use. NULL: this call fails. */
struct fake_object *fake_new(enum vg_cl_type type, struct fake_object *parent, cl_int *error);
void fake_release(struct fake_object *object);

/* Returns an event of the program's that is not over; NULL: there is none. */
struct fake_object *fake_user_event(void);

bool fake_fails(void);
_Noreturn void fake_die(const char *why);

/* Every byte is written. */
void fake_write(void *bytes, size_t size);
cl_int fake_give(const void *value, size_t n, size_t size, void *to, size_t *size_ret);

enum fake_kind {
    FAKE_READ,
    FAKE_WRITE,
    FAKE_NOTHING,
};

/* Bytes of the program's that lie in rows, and those of a memory object. */
struct fake_rows {
    unsigned char *host, *mem;
    size_t row, rows, slices;
    size_t host_row, host_slice, mem_row, mem_slice;
};

/* Puts a command into QUEUE, whose event is put into *EVENT. COPY may be NULL. */
cl_int fake_add(cl_command_queue queue, struct fake_object *mem, enum fake_kind kind,
                const struct fake_rows *copy, bool is_blocking, cl_uint n, const cl_event *list,
                cl_event *event);

/* Put functions into the table. */
void fake_add_events(cl_icd_dispatch *table);
void fake_add_commands(cl_icd_dispatch *table);
void fake_add_memory(cl_icd_dispatch *table);
void fake_add_programs(cl_icd_dispatch *table);
void fake_add_commands(cl_icd_dispatch *table);

#endif
