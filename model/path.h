/* SPDX-License-Identifier: Apache-2.0
 *
 * Paths of a host that a VM uses: its disks, their backing files, media, firmware and kernel.
 */
#ifndef VG_MODEL_PATH_H
#define VG_MODEL_PATH_H

#include "base/record.h"

#define VG_PATH_BYTES_MAX 4096
#define VG_PATH_TEXT_MAX  1024

/* Maximum number of a VM's paths that are checked. */
#define VG_PATHS_MAX 128

/* What a VM requires at a path on its host. */
struct vg_path_need {
    char *path;
    char *use;       /* for use in a sentence: "disk 'vda'", "kernel" */
    bool writable;   /* the VM writes to it; otherwise, it only reads */
    bool is_device;  /* the definition calls it a block device */
    bool is_storage; /* its contents are the VM's own, and must be the same on every host */
    bool optional;   /* libvirt starts the VM without it, or creates it */
};

enum vg_path_state {
    VG_PATH_UNKNOWN, /* the path could not be checked */
    VG_PATH_THERE,
    VG_PATH_MISSING,
    VG_PATH_FAILING, /* its file system does not respond, or reports an error */
    VG_PATH_STATE_MAX
};

enum vg_path_kind {
    VG_PATH_OTHER,
    VG_PATH_FILE,
    VG_PATH_DEVICE, /* a block device */
    VG_PATH_DIRECTORY,
    VG_PATH_KIND_MAX
};

/* What a host has at a path, as far as its vgpud can see. */
struct vg_path_seen {
    char *path;
    enum vg_path_state state;
    char *why; /* reason for a state other than THERE; may be NULL */
    /* Valid if state is THERE. */
    enum vg_path_kind kind;
    char *file_system;  /* of a file: "nfs4"; NULL if unknown */
    bool shared;        /* other hosts may also mount that file system */
    bool read_only;     /* no process on the host can write to it */
    int64_t size_bytes; /* of a file or device; 0 if unknown */
    /* identity within the file system or the kernel; equal for the same file on two hosts */
    char *identity;
};

/* A query from one vgpud to another, and the answer: an item for each path, in the same order. */
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

/* Returns whether file systems of this type, as named in /proc, are shared by several hosts, or may
 * be (FUSE). */
bool vg_path_is_shared(const char *file_system);

#endif
