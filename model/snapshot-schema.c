/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of a snapshot: JSON name, type, range, and whether a member is a fact (part of the
 * hash that drift is judged by) or a measurement.
 */
#include "config.h"

#include "base/error.h"
#include "model/event.h"
#include "model/snapshot.h"

#define REQ  VG_FIELD_REQUIRED
#define OMIT VG_FIELD_OMIT
#define FACT VG_FIELD_FACT

#define BYTES_MAX ((double)(INT64_C(1) << 56)) /* 64 PiB */
#define TIME_MAX  ((double)VG_JSON_INT_MAX)
#define COUNT_MAX 1e6

#define AT(member) offsetof(struct THIS, member)

#define NAME(member, flags)                                                                        \
 {                                                                                                 \
#  member, VG_FIELD_STRING, AT(member), flags, 1, VG_SNAPSHOT_NAME_MAX, NULL, NULL                 \
 }
#define TEXT(member, flags)                                                                        \
 {                                                                                                 \
#  member, VG_FIELD_STRING, AT(member), flags, 0, VG_SNAPSHOT_TEXT_FIELD_MAX, NULL, NULL           \
 }
#define INT(member, flags, min, max)                                                               \
 {                                                                                                 \
#  member, VG_FIELD_INT64, AT(member), flags, min, max, NULL, NULL                                 \
 }
#define DOUBLE(member, flags, max)                                                                 \
 {                                                                                                 \
#  member, VG_FIELD_DOUBLE, AT(member), flags, 0, max, NULL, NULL                                  \
 }
#define BOOL(member, flags)                                                                        \
 {                                                                                                 \
#  member, VG_FIELD_BOOL, AT(member), flags, 0, 0, NULL, NULL                                      \
 }
#define ENUM(name, member, flags, names)                                                           \
 {                                                                                                 \
  name, VG_FIELD_ENUM, AT(member), flags, 0, 0, names, NULL                                        \
 }
#define LIST(member, flags, max, record)                                                           \
 {                                                                                                 \
#  member, VG_FIELD_RECORDS, AT(member), flags, 0, max, NULL, record                               \
 }
#define TYPE(fields)                                                                               \
 {                                                                                                 \
  sizeof(struct THIS), fields, G_N_ELEMENTS(fields), NULL                                          \
 }

const char *const vg_snapshot_source_names[] = {
    [VG_SOURCE_TRACE] = "trace",   [VG_SOURCE_LIVE] = "live", [VG_SOURCE_EXAMPLE] = "example",
    [VG_SOURCE_MERGED] = "merged", [VG_SOURCE_MAX] = NULL,
};

#define THIS vg_snap_vgpu_type
static const struct vg_field vgpu_type_fields[] = {
    NAME(type, REQ | FACT),
    INT(free, REQ | FACT, 0, COUNT_MAX),
};
const struct vg_record_type vg_snap_vgpu_type_record = TYPE(vgpu_type_fields);
#undef THIS

#define THIS vg_snap_engine
static const struct vg_field engine_fields[] = {
    NAME(engine, REQ),
    DOUBLE(share, REQ, VG_SNAPSHOT_SHARE_MAX),
};
const struct vg_record_type vg_snap_engine_record = TYPE(engine_fields);
#undef THIS

#define THIS vg_snap_gpu
static const struct vg_field gpu_fields[] = {
    NAME(device, REQ | FACT),
    INT(memory_bytes, FACT, 0, BYTES_MAX),
    INT(memory_free_bytes, 0, 0, BYTES_MAX),
    LIST(vgpu_types, FACT, VG_SNAPSHOT_VGPU_TYPES_MAX, &vg_snap_vgpu_type_record),
    LIST(engines, 0, VG_SNAPSHOT_ENGINES_MAX, &vg_snap_engine_record),
};
const struct vg_record_type vg_snap_gpu_record = TYPE(gpu_fields);
#undef THIS

#define THIS vg_snap_gpu_use
static const struct vg_field gpu_use_fields[] = {
    NAME(device, REQ),
    NAME(engine, REQ),
    NAME(vgpu_type, 0),
    DOUBLE(share, REQ, VG_SNAPSHOT_SHARE_MAX),
    DOUBLE(wait_share, 0, VG_SNAPSHOT_SHARE_MAX),
    INT(memory_bytes, 0, 0, BYTES_MAX),
};
const struct vg_record_type vg_snap_gpu_use_record = TYPE(gpu_use_fields);
#undef THIS

#define THIS vg_snap_loss
static const struct vg_field loss_fields[] = {
    NAME(aggressor, REQ),
    DOUBLE(share, REQ, VG_SNAPSHOT_SHARE_MAX),
    DOUBLE(count_per_s, 0, 1e12),
};
const struct vg_record_type vg_snap_loss_record = TYPE(loss_fields);
#undef THIS

#define THIS vg_snap_profile
static const struct vg_field profile_fields[] = {
    INT(window_ns, 0, 0, TIME_MAX),
    {"cpu", VG_FIELD_DOUBLES, AT(cpu), 0, VG_SNAPSHOT_SHARE_MAX, VG_SNAPSHOT_PROFILE_MAX, NULL,
     NULL},
    {"gpu", VG_FIELD_DOUBLES, AT(gpu), 0, 1, VG_SNAPSHOT_PROFILE_MAX, NULL, NULL},
};
const struct vg_record_type vg_snap_profile_record = TYPE(profile_fields);
#undef THIS

#define THIS vg_snap_vm
static const struct vg_field vm_fields[] = {
    NAME(name, REQ | FACT),
    NAME(uuid, FACT),
    INT(pid, OMIT | FACT, 0, VG_TID_LIMIT),
    INT(vcpus, REQ | FACT, 0, COUNT_MAX),
    INT(memory_bytes, FACT, 0, BYTES_MAX),
    {"cpus", VG_FIELD_INTS, AT(cpus), 0, VG_CPU_LIMIT - 1, VG_CPU_LIMIT, NULL, NULL},
    BOOL(pinned, FACT),
    BOOL(never_move, FACT),
    {"affinity", VG_FIELD_STRINGS, AT(affinity), FACT, VG_SNAPSHOT_NAME_MAX, VG_SNAPSHOT_GROUPS_MAX,
     NULL, NULL},
    {"anti_affinity", VG_FIELD_STRINGS, AT(anti_affinity), FACT, VG_SNAPSHOT_NAME_MAX,
     VG_SNAPSHOT_GROUPS_MAX, NULL, NULL},
    NAME(cpu_model, FACT),
    ENUM("class", vm_class, REQ, vg_vm_class_names),
    DOUBLE(cpu_intensity, REQ, 1),
    DOUBLE(gpu_intensity, REQ, 1),
    BOOL(gpu_known, REQ),
    BOOL(guest_known, 0),
    DOUBLE(run_share, REQ, VG_SNAPSHOT_SHARE_MAX),
    DOUBLE(preempt_share, REQ, VG_SNAPSHOT_SHARE_MAX),
    DOUBLE(wake_wait_share, REQ, VG_SNAPSHOT_SHARE_MAX),
    DOUBLE(preemptions_per_s, REQ, 1e12),
    LIST(gpu, 0, VG_SNAPSHOT_GPU_USES_MAX, &vg_snap_gpu_use_record),
    {"profile", VG_FIELD_RECORD, AT(profile), OMIT, 0, 0, NULL, &vg_snap_profile_record},
    LIST(lost_to, 0, VG_SNAPSHOT_LOSSES_MAX, &vg_snap_loss_record),
    TEXT(problem, OMIT),
};
const struct vg_record_type vg_snap_vm_record = TYPE(vm_fields);
#undef THIS

#define THIS vg_snap_host
static const struct vg_field host_fields[] = {
    NAME(name, REQ | FACT),
    NAME(uuid, FACT),
    ENUM("source", source, 0, vg_snapshot_source_names),
    INT(begin_ns, 0, -TIME_MAX, TIME_MAX),
    INT(end_ns, 0, -TIME_MAX, TIME_MAX),
    INT(cpus, REQ | FACT, 1, VG_CPU_LIMIT),
    NAME(cpu_model, FACT),
    INT(memory_bytes, FACT, 0, BYTES_MAX),
    INT(memory_free_bytes, 0, 0, BYTES_MAX),
    BOOL(maintenance, FACT),
    INT(lost_events, OMIT, 0, TIME_MAX),
    LIST(gpus, FACT, VG_SNAPSHOT_GPUS_MAX, &vg_snap_gpu_record),
    LIST(vms, 0, VG_SNAPSHOT_VMS_MAX, &vg_snap_vm_record),
};
const struct vg_record_type vg_snap_host_record = TYPE(host_fields);
#undef THIS

#define THIS vg_snapshot
static const struct vg_field snapshot_fields[] = {
    ENUM("source", source, REQ, vg_snapshot_source_names),
    TEXT(note, OMIT),
    INT(begin_ns, 0, -TIME_MAX, TIME_MAX),
    INT(end_ns, 0, -TIME_MAX, TIME_MAX),
    INT(clock_offset_ns, 0, -TIME_MAX, TIME_MAX),
    LIST(hosts, REQ, VG_SNAPSHOT_HOSTS_MAX, &vg_snap_host_record),
};
const struct vg_record_type vg_snapshot_record = TYPE(snapshot_fields);
#undef THIS
