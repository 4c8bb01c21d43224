/* SPDX-License-Identifier: Apache-2.0
 *
 * Paths of a host that a VM uses: its disks, their backing files, media, firmware and kernel.
 */
#ifndef VG_MODEL_PATH_H
#define VG_MODEL_PATH_H

#include "base/record.h"

#define VG_PATH_BYTES_MAX 4096
#define VG_PATH_TEXT_MAX  1024

/* The maximum number of paths of a VM that are looked at. */
#define VG_PATHS_MAX 128

/* What a VM needs a host to have at a path. */
struct vg_path_need {
    char *path;
    char *use;       /* in words, for a sentence: "disk 'vda'", "kernel" */
    bool writable;   /* the VM writes to it; otherwise, it only reads */
    bool is_device;  /* the definition calls it a block device */
    bool is_storage; /* its contents are the VM's own, and must be the same on every host */
    bool optional;   /* libvirt starts the VM also without it, or makes it */
};

enum vg_path_state {
    VG_PATH_UNKNOWN, /* it could not be looked at */
    VG_PATH_THERE,
    VG_PATH_MISSING,
    VG_PATH_FAILING, /* its file system does not answer, or with an error */
    VG_PATH_STATE_MAX
};

enum vg_path_kind {
    VG_PATH_OTHER,
    VG_PATH_FILE,
    VG_PATH_DEVICE, /* a block device */
    VG_PATH_DIRECTORY,
    VG_PATH_KIND_MAX
};

/* What a host has at a path, as far as its vgpud sees. */
struct vg_path_seen {
    char *path;
    enum vg_path_state state;
    char *why; /* of a state other than THERE; NULL if there is nothing to add */
    /* These are set if it is there. */
    enum vg_path_kind kind;
    char *file_system;  /* of a file: "nfs4"; NULL if unknown */
    bool shared;        /* other hosts can have that file system, too */
    bool read_only;     /* nobody on the host can write to it */
    int64_t size_bytes; /* of a file or device; 0 if unknown */
    /* what it is within its file system, or in its kernel; equal for one file on two hosts */
    char *identity;
};

/* What one vgpud asks another, and its answer: one item for each path, in the same order. */
struct vg_paths_question {
    GPtrArray *paths; /* char * */
};
struct vg_paths_answer {
    GPtrArray *items; /* struct vg_path_seen */
};

extern const struct vg_record_type vg_paths_question_record;
extern const struct vg_record_type vg_paths_answer_record;
extern const struct vg_record_type vg_path_need_record;
extern const struct vg_record_type vg_path_seen_record;
extern const char *const vg_path_state_names[]; /* "unknown", "there", "missing", "failing" */
extern const char *const vg_path_kind_names[];  /* "other", "file", "device", "directory" */

void vg_path_need_free(void *need);          /* NULL is fine */
void vg_path_seen_free(void *seen);          /* NULL is fine */
void vg_paths_question_free(void *question); /* NULL is fine */

/* Returns whether file systems of this type, as /proc has it, are ones that several hosts share, or
 * may be (FUSE). */
bool vg_path_is_shared(const char *file_system);

#endif
