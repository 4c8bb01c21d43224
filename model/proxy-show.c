/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "model/proxy-show.h"

#define PROXY_TEXT_MAX 4096
#define COUNT(name)    VG_ROW_INT(name, 0, 0, 0x1p62)
#define TEXT(name)     VG_ROW_STRING(name, 0, 0, PROXY_TEXT_MAX)

#define THIS vg_proxy_note
static const struct vg_field note_fields[] = {COUNT(times), COUNT(ago_ns), TEXT(last)};
static const struct vg_record_type note_record = VG_ROW_TYPE(note_fields);
#undef THIS

#define THIS vg_proxy_quantiles
static const struct vg_field quantiles_fields[] = {COUNT(p50_ns), COUNT(p95_ns), COUNT(p99_ns)};
static const struct vg_record_type quantiles_record = VG_ROW_TYPE(quantiles_fields);
#undef THIS

#define THIS vg_proxy_window
static const struct vg_field window_fields[] = {
    COUNT(span_ns),
    COUNT(held_ns),
    COUNT(all_held_ns),
    COUNT(weights),
    COUNT(done),
    VG_ROW_PART(wait, 0, &quantiles_record),
    VG_ROW_PART(run, 0, &quantiles_record),
    VG_ROW_PART(took, 0, &quantiles_record),
};
static const struct vg_record_type window_record = VG_ROW_TYPE(window_fields);
#undef THIS

#define THIS vg_proxy_limits
static const struct vg_field limits_fields[] = {
    COUNT(clients), COUNT(vm_clients),    COUNT(objects),      COUNT(pending_bytes),
    COUNT(depth),   COUNT(staging_bytes), COUNT(max_kernel_s), COUNT(linger_s),
};
static const struct vg_record_type limits_record = VG_ROW_TYPE(limits_fields);
#undef THIS

#define THIS vg_proxy_program
static const struct vg_field program_fields[] = {
    COUNT(pid),
    TEXT(from),
    TEXT(transport),
    TEXT(link),
    COUNT(since_ns),
    COUNT(broken_ns),
    COUNT(resumed),
    TEXT(device),
    COUNT(device_ns),
    COUNT(used_bytes),
    COUNT(objects),
    COUNT(queued),
    COUNT(done),
    VG_ROW_PART(refused, 0, &note_record),
    VG_ROW_PART(failed, 0, &note_record),
};
const struct vg_record_type vg_proxy_program_record = VG_ROW_TYPE(program_fields);
#undef THIS

#define THIS vg_proxy_shown
static const struct vg_field shown_fields[] = {
    VG_ROW_PART(socket, VG_FIELD_REQUIRED, &vg_proxy_socket_record),
    TEXT(identity),
    VG_ROW_BOOL(listens, 0),
    VG_ROW_PART(limits, 0, &limits_record),
    VG_ROW_PART(window, 0, &window_record),
    VG_ROW_LIST(programs, 0, VG_PROXY_PROGRAMS_MAX, &vg_proxy_program_record),
    VG_ROW_PART(refused, 0, &note_record),
    VG_ROW_PART(failed, 0, &note_record),
};
const struct vg_record_type vg_proxy_shown_record = VG_ROW_TYPE(shown_fields);
#undef THIS

#define THIS vg_proxy_place
static const struct vg_field place_fields[] = {TEXT(place), TEXT(why)};
const struct vg_record_type vg_proxy_place_record = VG_ROW_TYPE(place_fields);
#undef THIS

#define THIS vg_proxy_show
static const struct vg_field show_fields[] = {
    TEXT(vm),
    TEXT(uuid),
    VG_ROW_LIST(items, 0, VG_PROXY_SOCKETS_MAX, &vg_proxy_shown_record),
    VG_ROW_LIST(places, 0, VG_PROXY_SOCKETS_MAX, &vg_proxy_place_record),
    VG_ROW_LIST(guests, 0, VG_PROXY_SOCKETS_MAX, &vg_proxy_guest_record),
};
const struct vg_record_type vg_proxy_show_record = VG_ROW_TYPE(show_fields);
#undef THIS

void
vg_proxy_show_free(void *show)
{
    if (show)
        vg_record_free(&vg_proxy_show_record, show);
}
