/* SPDX-License-Identifier: Apache-2.0
 *
 * What re-creates a program of kernels.
 */
#ifndef VG_OPENCL_TRACK_PROGRAM_H
#define VG_OPENCL_TRACK_PROGRAM_H

#include "opencl/track/object.h"

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

/* What clGetKernelArgInfo() says with the program's options alone. */
enum vg_cl_native {
    VG_CL_NATIVE_UNKNOWN,
    VG_CL_NATIVE_TELLS,
    VG_CL_NATIVE_SILENT,
};

/* A constant of a program in IL that was set. */
struct vg_cl_constant {
    struct vg_cl_constant *next;
    cl_uint id;
    size_t size;
    unsigned char value[8];
};

struct vg_cl_program {
    enum vg_cl_program_kind kind;
    enum vg_cl_program_step step; /* what was done to it last, and well */
    bool is_remade;     /* the vendor's object is not the first: some answers are kept here */
    bool is_telling;    /* it was built with an option that the program did not give (tell.h) */
    bool is_alone;      /* nothing is to be added to the program's options */
    bool is_left_out;   /* the vendor's object is not made again: nobody may need it (rebuild.h) */
    cl_uint n_takers;   /* uses of it as an input, as counted there */
    atomic_uint native; /* enum vg_cl_native, of kernels of what was built last */
    char *source;       /* of source; the names of built-in kernels; owned */
    char *whole; /* the source with the program's files in it (include.h), as of the last build;
                    owned; NULL: it includes none */
    char *made;  /* what the vendor's object was made of instead of the source; likewise */
    void *il;    /* owned */
    size_t il_size;
    struct vg_cl_constant *constants; /* owned */
    struct vg_cl_object **devices;    /* it is for; owned, each is in use */
    cl_uint n_devices;
    size_t *sizes;               /* of binaries, one per device; owned; NULL: none */
    unsigned char **binaries;    /* owned */
    char *options;               /* of the build, compilation or linking; owned; may be NULL */
    struct vg_cl_object **built; /* the devices it was built for; owned; NULL: all of them */
    cl_uint n_built;
    struct vg_cl_object **inputs; /* headers of a compilation, programs that were linked; owned,
                                     each is in use */
    char **names;                 /* of headers; owned */
    cl_uint n_inputs;
    cl_uint depth;          /* of inputs of inputs, and so on */
    atomic_uint n_compiled; /* other programs that were compiled with it as a header */
    char **logs;            /* of the build, one per device, once the vendor's is gone; owned */
    size_t *told_sizes;     /* of its binaries, as the program was told last; owned; may be NULL */
    unsigned char **told;   /* those of that size, once the vendor's are gone; owned (binaries.h) */
};

/* Frees PROGRAM, which may be NULL, and ends its uses of others. */
void vg_cl_program_free(struct vg_cl_program *program);

/* As clCreateProgramWithBinary() of the vendor, which gets binaries without a proxy's signature
 * unless it is a proxy. */
cl_program vg_cl_program_load(const struct vg_cl_track *track, cl_context context, cl_uint n,
                              const cl_device_id *devices, const size_t *lengths,
                              const cl_uchar **binaries, cl_int *status, cl_int *error);

#endif
