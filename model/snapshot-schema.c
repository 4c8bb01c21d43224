/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of a snapshot: JSON name, type, range, and whether a member is a fact (part of the
 * hash that detects drift) or a measurement.
 */
#include "config.h"

#include "model/event.h"
#include "model/snapshot.h"

#define REQ  VG_FIELD_REQUIRED
#define OMIT VG_FIELD_OMIT
#define FACT VG_FIELD_FACT

#define BYTES_MAX ((double)(INT64_C(1) << 50)) /* 1 PiB: sums over a VM's devices fit easily */
#define TIME_MAX  ((double)VG_JSON_INT_MAX)
#define COUNT_MAX 1e6

#define NAME(member, flags)        VG_ROW_STRING(member, flags, 1, VG_SNAPSHOT_NAME_MAX)
#define TEXT(member, flags)        VG_ROW_STRING(member, flags, 0, VG_SNAPSHOT_TEXT_FIELD_MAX)
#define AMOUNT(member, flags, max) VG_ROW_DOUBLE(member, flags, 0, max)

const char *const vg_snapshot_source_names[] = {
    [VG_SOURCE_TRACE] = "trace",   [VG_SOURCE_LIVE] = "live", [VG_SOURCE_EXAMPLE] = "example",
    [VG_SOURCE_MERGED] = "merged", [VG_SOURCE_MAX] = NULL,
};

const char *const vg_profiles_names[] = {
    [VG_PROFILES_UNKNOWN] = "unknown",
    [VG_PROFILES_HOMOGENEOUS] = "homogeneous",
    [VG_PROFILES_MIXED] = "mixed",
    [VG_PROFILES_MAX] = NULL,
};

#define THIS vg_snap_vgpu_type
static const struct vg_field vgpu_type_fields[] = {
    NAME(type, REQ | FACT),
    VG_ROW_INT(free, REQ | FACT, 0, COUNT_MAX),
    VG_ROW_INT(made, OMIT, 0, COUNT_MAX),
    VG_ROW_INT(memory_bytes, OMIT, 0, BYTES_MAX),
    VG_ROW_BOOL(mig, OMIT),
};
const struct vg_record_type vg_snap_vgpu_type_record = VG_ROW_TYPE(vgpu_type_fields);
#undef THIS

#define THIS vg_snap_engine
static const struct vg_field engine_fields[] = {
    NAME(engine, REQ),
    AMOUNT(share, REQ, VG_SNAPSHOT_SHARE_MAX),
};
const struct vg_record_type vg_snap_engine_record = VG_ROW_TYPE(engine_fields);
#undef THIS

#define THIS vg_snap_gpu
static const struct vg_field gpu_fields[] = {
    NAME(device, REQ | FACT),
    VG_ROW_ENUM("profiles", profiles, OMIT, vg_profiles_names),
    VG_ROW_INT(memory_bytes, FACT, 0, BYTES_MAX),
    VG_ROW_INT(memory_free_bytes, 0, 0, BYTES_MAX),
    VG_ROW_LIST(vgpu_types, FACT, VG_SNAPSHOT_VGPU_TYPES_MAX, &vg_snap_vgpu_type_record),
    VG_ROW_LIST(engines, 0, VG_SNAPSHOT_ENGINES_MAX, &vg_snap_engine_record),
};
const struct vg_record_type vg_snap_gpu_record = VG_ROW_TYPE(gpu_fields);
#undef THIS

#define THIS vg_snap_gpu_use
static const struct vg_field gpu_use_fields[] = {
    NAME(device, REQ),
    NAME(engine, REQ),
    NAME(vgpu_type, 0),
    AMOUNT(share, REQ, VG_SNAPSHOT_SHARE_MAX),
    AMOUNT(wait_share, 0, VG_SNAPSHOT_SHARE_MAX),
    VG_ROW_INT(memory_bytes, 0, 0, BYTES_MAX),
};
const struct vg_record_type vg_snap_gpu_use_record = VG_ROW_TYPE(gpu_use_fields);
#undef THIS

#define THIS vg_snap_loss
static const struct vg_field loss_fields[] = {
    NAME(aggressor, REQ),
    AMOUNT(share, REQ, VG_SNAPSHOT_SHARE_MAX),
    AMOUNT(count_per_s, 0, 1e12),
};
const struct vg_record_type vg_snap_loss_record = VG_ROW_TYPE(loss_fields);
#undef THIS

#define THIS vg_snap_profile
static const struct vg_field profile_fields[] = {
    VG_ROW_INT(window_ns, 0, 0, TIME_MAX),
    VG_ROW_DOUBLES(cpu, 0, VG_SNAPSHOT_SHARE_MAX, VG_SNAPSHOT_PROFILE_MAX),
    VG_ROW_DOUBLES(gpu, 0, 1, VG_SNAPSHOT_PROFILE_MAX),
};
const struct vg_record_type vg_snap_profile_record = VG_ROW_TYPE(profile_fields);
#undef THIS

#define THIS vg_snap_vm
static const struct vg_field vm_fields[] = {
    NAME(name, REQ | FACT),
    NAME(uuid, FACT),
    TEXT(display_name, OMIT),
    VG_ROW_INT(pid, OMIT | FACT, 0, VG_TID_LIMIT),
    VG_ROW_INT(vcpus, REQ | FACT, 0, COUNT_MAX),
    VG_ROW_INT(memory_bytes, FACT, 0, BYTES_MAX),
    VG_ROW_INTS(cpus, 0, VG_CPU_LIMIT - 1, VG_CPU_LIMIT),
    VG_ROW_BOOL(pinned, FACT),
    VG_ROW_BOOL(never_move, FACT),
    VG_ROW_ENUM("policy", policy, OMIT, vg_policy_mode_names),
    TEXT(only_cold, OMIT),
    NAME(manager, OMIT),
    VG_ROW_BOOL(unmanaged, OMIT),
    VG_ROW_STRINGS(affinity, FACT, VG_SNAPSHOT_NAME_MAX, VG_SNAPSHOT_GROUPS_MAX),
    VG_ROW_STRINGS(anti_affinity, FACT, VG_SNAPSHOT_NAME_MAX, VG_SNAPSHOT_GROUPS_MAX),
    NAME(cpu_model, FACT),
    AMOUNT(cpu_limit, OMIT | FACT, COUNT_MAX),
    VG_ROW_ENUM("class", vm_class, REQ, vg_vm_class_names),
    AMOUNT(cpu_intensity, REQ, 1),
    AMOUNT(gpu_intensity, REQ, 1),
    VG_ROW_BOOL(gpu_known, REQ),
    VG_ROW_BOOL(guest_known, 0),
    AMOUNT(run_share, REQ, VG_SNAPSHOT_SHARE_MAX),
    AMOUNT(preempt_share, REQ, VG_SNAPSHOT_SHARE_MAX),
    AMOUNT(wake_wait_share, REQ, VG_SNAPSHOT_SHARE_MAX),
    AMOUNT(preemptions_per_s, REQ, 1e12),
    VG_ROW_LIST(gpu, 0, VG_SNAPSHOT_GPU_USES_MAX, &vg_snap_gpu_use_record),
    VG_ROW_PART(profile, OMIT, &vg_snap_profile_record),
    VG_ROW_PART(day, OMIT, &vg_snap_profile_record),
    VG_ROW_LIST(lost_to, 0, VG_SNAPSHOT_LOSSES_MAX, &vg_snap_loss_record),
    VG_ROW_STRINGS(unknown, OMIT, VG_SNAPSHOT_NAME_MAX, VG_SNAPSHOT_FIGURES_MAX),
    VG_ROW_STRINGS(bounds, OMIT, VG_SNAPSHOT_NAME_MAX, VG_SNAPSHOT_FIGURES_MAX),
    TEXT(problem, OMIT),
};
const struct vg_record_type vg_snap_vm_record = VG_ROW_TYPE(vm_fields);
#undef THIS

#define THIS vg_snap_departed
static const struct vg_field departed_fields[] = {
    NAME(uuid, REQ),
    VG_ROW_INT(age_ns, REQ, 0, TIME_MAX),
    VG_ROW_PART(day, OMIT, &vg_snap_profile_record),
};
const struct vg_record_type vg_snap_departed_record = VG_ROW_TYPE(departed_fields);
#undef THIS

#define THIS vg_snap_proxy_socket
static const struct vg_field proxy_socket_fields[] = {
    NAME(socket, REQ),
    NAME(address, OMIT),
    NAME(vm, OMIT),
    VG_ROW_INT(weight, REQ, 1, VG_PROXY_WEIGHT_MAX),
    VG_ROW_INT(configured_weight, OMIT, 0, VG_PROXY_WEIGHT_MAX),
    VG_ROW_INT(memory_bytes, 0, 0, BYTES_MAX),
    VG_ROW_INT(used_bytes, 0, 0, BYTES_MAX),
    VG_ROW_INT(reserved_bytes, 0, 0, BYTES_MAX),
    VG_ROW_INT(clients, 0, 0, COUNT_MAX),
    VG_ROW_DOUBLES(run, REQ, 1, VG_SNAPSHOT_PROFILE_MAX),
    VG_ROW_DOUBLES(lacked, REQ, 1, VG_SNAPSHOT_PROFILE_MAX),
};
const struct vg_record_type vg_snap_proxy_socket_record = VG_ROW_TYPE(proxy_socket_fields);
#undef THIS

#define THIS vg_snap_proxy
static const struct vg_field proxy_fields[] = {
    NAME(at, REQ),
    NAME(gpu, OMIT),
    VG_ROW_INT(gpus, 0, 0, COUNT_MAX),
    VG_ROW_INT(memory_bytes, 0, 0, BYTES_MAX),
    TEXT(problem, OMIT),
    VG_ROW_INT(window_ns, REQ, 0, TIME_MAX),
    VG_ROW_INTS(known, REQ, 1, VG_SNAPSHOT_PROFILE_MAX),
    VG_ROW_LIST(sockets, REQ, VG_PROXY_SOCKETS_MAX, &vg_snap_proxy_socket_record),
};
const struct vg_record_type vg_snap_proxy_record = VG_ROW_TYPE(proxy_fields);
#undef THIS

#define THIS vg_snap_host
static const struct vg_field host_fields[] = {
    NAME(name, REQ | FACT),
    NAME(uuid, FACT),
    VG_ROW_ENUM("source", source, 0, vg_snapshot_source_names),
    VG_ROW_INT(begin_ns, 0, -TIME_MAX, TIME_MAX),
    VG_ROW_INT(end_ns, 0, -TIME_MAX, TIME_MAX),
    VG_ROW_INT(age_ns, OMIT, 0, TIME_MAX),
    VG_ROW_INT(cpus, REQ | FACT, 1, VG_CPU_LIMIT),
    AMOUNT(own_share, OMIT, VG_SNAPSHOT_SHARE_MAX),
    VG_ROW_BOOL(own_known, OMIT),
    VG_ROW_PART(own_profile, OMIT, &vg_snap_profile_record),
    NAME(cpu_model, FACT),
    VG_ROW_INT(memory_bytes, FACT, 0, BYTES_MAX),
    VG_ROW_INT(memory_free_bytes, 0, 0, BYTES_MAX),
    VG_ROW_BOOL(maintenance, FACT),
    VG_ROW_INT(lost_events, OMIT, 0, TIME_MAX),
    VG_ROW_LIST(gpus, FACT, VG_SNAPSHOT_GPUS_MAX, &vg_snap_gpu_record),
    VG_ROW_LIST(vms, 0, VG_SNAPSHOT_VMS_MAX, &vg_snap_vm_record),
    VG_ROW_LIST(proxies, OMIT, VG_SNAPSHOT_PROXIES_MAX, &vg_snap_proxy_record),
    VG_ROW_LIST(departed, OMIT, VG_SNAPSHOT_DEPARTED_MAX, &vg_snap_departed_record),
    VG_ROW_INT(proxy_stop_ns, OMIT, 0, TIME_MAX),
    VG_ROW_INT(store_bytes, OMIT, 0, BYTES_MAX),
    VG_ROW_BOOL(names_gpus, OMIT),
    VG_ROW_BOOL(takes_acts, OMIT),
};
const struct vg_record_type vg_snap_host_record = VG_ROW_TYPE_PRESENT(host_fields, present);
#undef THIS

#define THIS vg_snapshot
static const struct vg_field snapshot_fields[] = {
    NAME(schema, REQ | VG_FIELD_READ),
    VG_ROW_INT(version, REQ | VG_FIELD_READ, 1, VG_SNAPSHOT_VERSION),
    VG_ROW_ENUM("source", source, REQ, vg_snapshot_source_names),
    TEXT(note, OMIT),
    VG_ROW_INT(begin_ns, 0, -TIME_MAX, TIME_MAX),
    VG_ROW_INT(end_ns, 0, -TIME_MAX, TIME_MAX),
    VG_ROW_INT(clock_offset_ns, 0, -TIME_MAX, TIME_MAX),
    VG_ROW_LIST(hosts, REQ, VG_SNAPSHOT_HOSTS_MAX, &vg_snap_host_record),
};
const struct vg_record_type vg_snapshot_record = VG_ROW_TYPE(snapshot_fields);
#undef THIS
