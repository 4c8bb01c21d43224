/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides whether a host has what a VM needs at its paths. For file systems that only one host has,
 * libvirt's rule applies. libvirt's own check before a migration considers only the source: it
 * rejects writable files there, and does not check block devices and read-only files. Pure.
 */
#ifndef VG_MOVE_PATHS_H
#define VG_MOVE_PATHS_H

#include "model/path.h"

enum vg_path_verdict {
    VG_PATH_UNTRIED, /* it cannot be determined */
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

/* Checks a path of a VM on `from` that is to move to `to`. here and there are what these hosts have
 * at the path; NULL if they were not queried. The caller frees the result. */
struct vg_path_check *vg_path_judge(const struct vg_path_need *need,
                                    const struct vg_path_seen *here,
                                    const struct vg_path_seen *there, const char *from,
                                    const char *to);

/* Checks whether a path allows the VM to leave its host for any target. Returns the reason as a
 * sentence, which the caller frees, or NULL if the path allows it or this is unknown. */
char *vg_path_judge_source(const struct vg_path_need *need, const struct vg_path_seen *here,
                           const char *from);

#endif
