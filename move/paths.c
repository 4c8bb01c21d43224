/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "move/paths.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#define SENTENCE_BYTES_MAX (4 * VG_PATH_BYTES_MAX)

const char *const vg_path_verdict_names[] = {
    [VG_PATH_UNTRIED] = "untried",
    [VG_PATH_OK] = "ok",
    [VG_PATH_REFUSED] = "refused",
    [VG_PATH_VERDICT_MAX] = NULL,
};

#define THIS vg_path_check
static const struct vg_field path_check_fields[] = {
    VG_ROW_STRING(path, VG_FIELD_REQUIRED, 1, VG_PATH_BYTES_MAX),
    VG_ROW_STRING(use, VG_FIELD_REQUIRED, 1, VG_PATH_TEXT_MAX),
    VG_ROW_BOOL(writable, 0),
    VG_ROW_ENUM("verdict", verdict, VG_FIELD_REQUIRED, vg_path_verdict_names),
    VG_ROW_STRING(text, VG_FIELD_REQUIRED, 1, SENTENCE_BYTES_MAX),
};
const struct vg_record_type vg_path_check_record = VG_ROW_TYPE(path_check_fields);
#undef THIS

void
vg_path_check_free(void *check)
{
    if (check)
        vg_record_free(&vg_path_check_record, check);
}

/* ---- the verdicts ---- */

struct paths_case {
    const struct vg_path_need *need;
    const struct vg_path_seen *here; /* NULL if it is unknown whether the path exists */
    const struct vg_path_seen *there;
    const char *from, *to;
    struct vg_path_check *check;
};

static void paths_set(struct paths_case *one, enum vg_path_verdict verdict, const char *fmt, ...)
    G_GNUC_PRINTF(3, 4);

/* Records a verdict and its text, which replace earlier ones. */
static void
paths_set(struct paths_case *one, enum vg_path_verdict verdict, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    g_free(one->check->text);
    one->check->text = g_strdup_vprintf(fmt, args);
    va_end(args);
    one->check->verdict = verdict;
}

static bool
paths_differ(const char *a, const char *b)
{
    return a && b && strcmp(a, b) != 0;
}

static void
paths_judge_device(struct paths_case *one)
{
    const struct vg_path_need *need = one->need;
    const struct vg_path_seen *here = one->here, *there = one->there;
    const bool comparable = here && here->kind == VG_PATH_DEVICE;

    if (comparable && here->size_bytes > 0 && there->size_bytes > 0 &&
        here->size_bytes != there->size_bytes)
        paths_set(one, VG_PATH_REFUSED,
                  "%s, %s, is a different device on '%s': it has %" PRId64
                  " bytes there, and %" PRId64 " on '%s'",
                  need->path, need->use, one->to, there->size_bytes, here->size_bytes, one->from);
    else if (comparable && paths_differ(here->identity, there->identity))
        paths_set(one, VG_PATH_REFUSED,
                  "%s, %s, is a different device on '%s': it is %s there, and %s on '%s'",
                  need->path, need->use, one->to, there->identity, here->identity, one->from);
    else
        paths_set(one, VG_PATH_OK, "'%s' has the block device %s, %s", one->to, need->path,
                  need->use);
}

/* Judges a file on a local file system of the target. */
static void
paths_judge_local(struct paths_case *one)
{
    const struct vg_path_need *need = one->need;
    const struct vg_path_seen *here = one->here, *there = one->there;
    const char *type = there->file_system ? there->file_system : "unknown";
    const bool comparable = here && here->kind == VG_PATH_FILE;

    if (need->writable && need->is_storage && comparable && here->identity && there->identity &&
        strcmp(here->identity, there->identity) == 0 && here->shared)
        paths_set(one, VG_PATH_UNTRIED,
                  "%s, %s, is on a local file system (%s) of '%s': unless '%s' mounts it from "
                  "there, it is a different file",
                  need->path, need->use, type, one->to, one->from);
    else if (need->writable && need->is_storage)
        paths_set(one, VG_PATH_REFUSED,
                  "%s, %s, is on a local file system (%s) of '%s', so it is not the VM's file, and "
                  "libvirt would not notice: mount the same storage on both hosts",
                  need->path, need->use, type, one->to);
    else if (need->is_storage && comparable && here->size_bytes != there->size_bytes)
        paths_set(one, VG_PATH_REFUSED,
                  "%s, %s, is a different file on '%s': it has %" PRId64
                  " bytes there, and %" PRId64 " on '%s'",
                  need->path, need->use, one->to, there->size_bytes, here->size_bytes, one->from);
    else
        paths_set(one, VG_PATH_OK,
                  "'%s' has %s, %s: apparently not shared, on a local file system (%s)", one->to,
                  need->path, need->use, type);
}

static void
paths_judge_shared(struct paths_case *one)
{
    const struct vg_path_need *need = one->need;
    const struct vg_path_seen *here = one->here, *there = one->there;

    if (need->is_storage && here && here->kind == VG_PATH_FILE && here->shared &&
        paths_differ(here->identity, there->identity))
        paths_set(
            one, VG_PATH_UNTRIED,
            "%s, %s, may be a different file on '%s' (%s): its number is %s there, and %s on '%s'",
            need->path, need->use, one->to, there->file_system, there->identity, here->identity,
            one->from);
    else
        paths_set(one, VG_PATH_OK, "'%s' has %s, %s, on %s", one->to, need->path, need->use,
                  there->file_system);
}

static void
paths_judge_there(struct paths_case *one)
{
    const struct vg_path_need *need = one->need;
    const struct vg_path_seen *there = one->there;

    if (need->is_device && there->kind != VG_PATH_DEVICE)
        paths_set(one, VG_PATH_REFUSED, "%s, %s, is not a block device on '%s'", need->path,
                  need->use, one->to);
    else if (there->kind == VG_PATH_DIRECTORY)
        paths_set(one, VG_PATH_REFUSED, "%s, %s, is a directory on '%s'", need->path, need->use,
                  one->to);
    else if (need->writable && there->read_only)
        paths_set(one, VG_PATH_REFUSED, "'%s' cannot write to %s, %s: it is read-only there",
                  one->to, need->path, need->use);
    else if (there->kind == VG_PATH_DEVICE)
        paths_judge_device(one);
    else if (there->shared)
        paths_judge_shared(one);
    else
        paths_judge_local(one);
}

struct vg_path_check *
vg_path_judge(const struct vg_path_need *need, const struct vg_path_seen *here,
              const struct vg_path_seen *there, const char *from, const char *to)
{
    struct paths_case one = {
        .need = need,
        .here = here && here->state == VG_PATH_THERE ? here : NULL,
        .there = there,
        .from = from,
        .to = to,
        .check = vg_record_new(&vg_path_check_record),
    };

    one.check->path = g_strdup(need->path);
    one.check->use = g_strdup(need->use);
    one.check->writable = need->writable;
    const bool is_unknown = !there || there->state == VG_PATH_UNKNOWN;
    if (is_unknown && need->optional && !need->is_storage)
        paths_set(&one, VG_PATH_OK, "libvirt creates %s, %s, if '%s' has none", need->path,
                  need->use, to);
    else if (is_unknown)
        paths_set(&one, VG_PATH_UNTRIED, "it is unknown whether '%s' has %s, %s: %s", to,
                  need->path, need->use, there && there->why ? there->why : "it was not queried");
    else if (there->state == VG_PATH_FAILING)
        paths_set(&one, VG_PATH_REFUSED, "%s, %s, cannot be reached on '%s': %s", need->path,
                  need->use, to, there->why ? there->why : "it does not answer");
    else if (there->state == VG_PATH_THERE)
        paths_judge_there(&one);
    else if (need->optional)
        paths_set(&one, VG_PATH_OK,
                  "'%s' has no %s, %s: libvirt creates it, or leaves the drive empty", to,
                  need->path, need->use);
    else
        paths_set(&one, VG_PATH_REFUSED, "'%s' has no %s, %s", to, need->path, need->use);
    return one.check;
}

char *
vg_path_judge_source(const struct vg_path_need *need, const struct vg_path_seen *here,
                     const char *from)
{
    if (!here || here->state != VG_PATH_THERE || here->kind != VG_PATH_FILE || here->shared ||
        !need->is_storage || !need->writable)
        return NULL;
    return g_strdup_printf("%s, %s, is on a local file system (%s) of '%s', and libvirt migrates "
                           "no VM with such a disk: move it to storage that both hosts have",
                           need->path, need->use, here->file_system ? here->file_system : "unknown",
                           from);
}
