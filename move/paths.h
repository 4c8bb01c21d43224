/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides whether a host has what a VM needs at its paths. The rule for what is on a file system of
 * one host alone is libvirt's, whose check of a migration looks at the source only: it refuses
 * writable files there, and takes block devices and what is only read on trust. Pure.
 */
#ifndef VG_MOVE_PATHS_H
#define VG_MOVE_PATHS_H

#include "model/path.h"

enum vg_path_verdict {
    VG_PATH_UNTRIED, /* it cannot be told */
    VG_PATH_OK,
    VG_PATH_REFUSED,
    VG_PATH_VERDICT_MAX
};

struct vg_path_check {
    char *path;
    char *use;
    bool writable; /* the VM writes to it */
    enum vg_path_verdict verdict;
    char *text; /* one sentence about it */
};

extern const struct vg_record_type vg_path_check_record;
extern const char *const vg_path_verdict_names[]; /* "untried", "ok", "refused" */

void vg_path_check_free(void *check); /* NULL is fine */

/* Judges a path for a VM on `from` that is to move to `to`. here and there are what these hosts
 * have, NULL if they were not asked. The caller frees the result. */
struct vg_path_check *vg_path_judge(const struct vg_path_need *need,
                                    const struct vg_path_seen *here,
                                    const struct vg_path_seen *there, const char *from,
                                    const char *to);

/* Judges whether a path allows that the VM leaves its host, wherever it goes. Returns a sentence
 * that the caller frees, or NULL if it does, or if that is not known. */
char *vg_path_judge_source(const struct vg_path_need *need, const struct vg_path_seen *here,
                           const char *from);

#endif
