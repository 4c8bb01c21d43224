/* SPDX-License-Identifier: Apache-2.0
 *
 * The data needed to re-create a program of kernels.
 */
#ifndef VG_OPENCL_TRACK_PROGRAM_H
#define VG_OPENCL_TRACK_PROGRAM_H

#include "opencl/track/object.h"

/* Why a program cannot go to a proxy. */
#define VG_CL_FOREIGN_BINARY                                                                       \
 "the proxy rejected a program binary: it accepts only those signed with its own --binary-key "    \
 "for the same VM, device and driver"

enum vg_cl_program_kind {
    VG_CL_PROGRAM_SOURCE,
    VG_CL_PROGRAM_BINARY,
    VG_CL_PROGRAM_IL,
    VG_CL_PROGRAM_BUILT_IN,
    VG_CL_PROGRAM_LINKED,
};

enum vg_cl_program_step {
    VG_CL_PROGRAM_MADE,
    VG_CL_PROGRAM_BUILT,
    VG_CL_PROGRAM_COMPILED,
};

/* The result of clGetKernelArgInfo() if only the program's own options are used. */
enum vg_cl_native {
    VG_CL_NATIVE_UNKNOWN,
    VG_CL_NATIVE_TELLS,
    VG_CL_NATIVE_SILENT,
};

/* A specialization constant that was set in an IL program. */
struct vg_cl_constant {
    struct vg_cl_constant *next;
    cl_uint id;
    size_t size;
    unsigned char value[8];
};

struct vg_cl_program {
    enum vg_cl_program_kind kind;
    enum vg_cl_program_step step; /* the last successful step */
    bool is_remade;     /* the vendor's object was re-created: some answers come from here */
    bool is_telling;    /* built with an option that the program did not give (tell.h) */
    bool is_alone;      /* nothing is added to the program's options */
    bool is_left_out;   /* the vendor's object is not re-created, because it may not be needed
                           (rebuild.h) */
    cl_uint n_takers;   /* programs that use it as an input, as counted there */
    atomic_uint native; /* enum vg_cl_native, of kernels from the last build */
    char *source;       /* of source; the names of built-in kernels; owned */
    char *whole; /* the source of the last build with the program's files inserted (include.h);
                    owned; NULL if it includes none */
    char *made;  /* the source that the vendor's object was created from, if it differs; owned; may
                    be NULL */
    void *il;    /* owned */
    size_t il_size;
    struct vg_cl_constant *constants; /* owned */
    struct vg_cl_object **devices;    /* devices it is for; owned; holds a use of each */
    cl_uint n_devices;
    size_t *sizes;               /* of the binaries, one per device; owned; may be NULL */
    unsigned char **binaries;    /* owned */
    char *options;               /* of the build, compilation or linking; owned; may be NULL */
    struct vg_cl_object **built; /* devices it was built for; owned; NULL for all */
    cl_uint n_built;
    /* headers of a compilation, or linked programs; owned; holds a use of each */
    struct vg_cl_object **inputs;
    char **names; /* of headers; owned */
    cl_uint n_inputs;
    cl_uint depth;          /* nesting depth of inputs */
    atomic_uint n_compiled; /* other programs that were compiled with it as a header */
    char **logs; /* build logs, one per device, after the vendor's object was released; owned */
    /* sizes of its binaries as last reported to the program; owned; may be NULL */
    size_t *told_sizes;
    /* binaries of these sizes, after the vendor's were released; owned (binaries.h) */
    unsigned char **told;
};

/* Frees PROGRAM, which may be NULL, and ends its uses of other objects. */
void vg_cl_program_free(struct vg_cl_program *program);

/* As the vendor's clCreateProgramWithBinary(). A vendor that is not a proxy gets the binaries
 * without a proxy's signature. */
cl_program vg_cl_program_load(const struct vg_cl_track *track, cl_context context, cl_uint n,
                              const cl_device_id *devices, const size_t *lengths,
                              const cl_uchar **binaries, cl_int *status, cl_int *error);

#endif
