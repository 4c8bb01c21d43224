/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "model/path.h"

#include <string.h>

#include "base/json.h"

#define THIS vg_path_need
static const struct vg_field path_need_fields[] = {
    VG_ROW_STRING(path, VG_FIELD_REQUIRED, 1, VG_PATH_BYTES_MAX),
    VG_ROW_STRING(use, VG_FIELD_REQUIRED, 1, VG_PATH_TEXT_MAX),
    VG_ROW_BOOL(writable, 0),
    VG_ROW_BOOL(is_device, 0),
    VG_ROW_BOOL(is_storage, 0),
    VG_ROW_BOOL(optional, 0),
};
const struct vg_record_type vg_path_need_record = VG_ROW_TYPE(path_need_fields);
#undef THIS

const char *const vg_path_state_names[] = {
    [VG_PATH_UNKNOWN] = "unknown", [VG_PATH_THERE] = "there",  [VG_PATH_MISSING] = "missing",
    [VG_PATH_FAILING] = "failing", [VG_PATH_STATE_MAX] = NULL,
};

const char *const vg_path_kind_names[] = {
    [VG_PATH_OTHER] = "other",         [VG_PATH_FILE] = "file",   [VG_PATH_DEVICE] = "device",
    [VG_PATH_DIRECTORY] = "directory", [VG_PATH_KIND_MAX] = NULL,
};

#define THIS vg_path_seen
static const struct vg_field path_seen_fields[] = {
    VG_ROW_STRING(path, VG_FIELD_REQUIRED, 1, VG_PATH_BYTES_MAX),
    VG_ROW_ENUM("state", state, VG_FIELD_REQUIRED, vg_path_state_names),
    VG_ROW_STRING(why, 0, 0, VG_PATH_TEXT_MAX + VG_PATH_BYTES_MAX),
    VG_ROW_ENUM("kind", kind, 0, vg_path_kind_names),
    VG_ROW_STRING(file_system, 0, 0, VG_PATH_TEXT_MAX),
    VG_ROW_BOOL(shared, 0),
    VG_ROW_BOOL(read_only, 0),
    VG_ROW_INT(size_bytes, 0, 0, (double)VG_JSON_INT_MAX),
    VG_ROW_STRING(identity, 0, 0, VG_PATH_TEXT_MAX),
};
const struct vg_record_type vg_path_seen_record = VG_ROW_TYPE(path_seen_fields);
#undef THIS

#define THIS vg_paths_question
static const struct vg_field paths_question_fields[] = {
    VG_ROW_STRINGS(paths, VG_FIELD_REQUIRED, VG_PATH_BYTES_MAX, VG_PATHS_MAX),
};
const struct vg_record_type vg_paths_question_record = VG_ROW_TYPE(paths_question_fields);
#undef THIS

#define THIS vg_paths_answer
static const struct vg_field paths_answer_fields[] = {
    VG_ROW_LIST(items, VG_FIELD_REQUIRED, VG_PATHS_MAX, &vg_path_seen_record),
};
const struct vg_record_type vg_paths_answer_record = VG_ROW_TYPE(paths_answer_fields);
#undef THIS

void
vg_paths_question_free(void *question)
{
    if (question)
        vg_record_free(&vg_paths_question_record, question);
}

void
vg_path_seen_free(void *seen)
{
    if (seen)
        vg_record_free(&vg_path_seen_record, seen);
}

bool
vg_path_is_shared(const char *file_system)
{
    static const char *const types[] = {
        "nfs",  "nfs4",   "cifs", "smb3",      "ceph", "gfs2",   "ocfs2",  "afs",      "gpfs",
        "fuse", "lustre", "9p",   "glusterfs", "aufs", "vboxsf", "beegfs", "virtiofs", "orangefs",
    };

    if (!file_system)
        return false;
    for (size_t i = 0; i < G_N_ELEMENTS(types); i++)
        if (strcmp(types[i], file_system) == 0)
            return true;
    return g_str_has_prefix(file_system, "fuse.");
}

void
vg_path_need_free(void *need)
{
    if (need)
        vg_record_free(&vg_path_need_record, need);
}
