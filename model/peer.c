/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "model/peer.h"

const char *const vg_peer_state_names[] = {"unknown", "reachable", "unreachable", NULL};

const char *const vg_host_proof_names[] = {"unknown", "proved", "unproved", "disputed", NULL};

#define TEXT_MAX 65536

#define THIS vg_peer_info
static const struct vg_field peer_fields[] = {
    VG_ROW_STRING(name, VG_FIELD_REQUIRED, 1, TEXT_MAX),
    VG_ROW_STRING(url, VG_FIELD_REQUIRED, 1, TEXT_MAX),
    VG_ROW_STRING(libvirt_uri, 0, 0, TEXT_MAX),
    VG_ROW_STRING(libvirt_reason, 0, 0, TEXT_MAX),
    VG_ROW_ENUM("state", state, VG_FIELD_REQUIRED, vg_peer_state_names),
    VG_ROW_STRING(reason, 0, 0, TEXT_MAX),
    VG_ROW_STRING(host, 0, 0, TEXT_MAX),
    VG_ROW_ENUM("host_proof", host_proof, 0, vg_host_proof_names),
    VG_ROW_STRING(host_reason, 0, 0, TEXT_MAX),
    VG_ROW_STRING(version, 0, 0, TEXT_MAX),
    VG_ROW_ENUM("migration_tls", migration_tls, 0, vg_tls_certs_names),
    VG_ROW_BOOL(clock_known, 0),
    VG_ROW_INT(clock_difference_ns, 0, -(double)VG_JSON_INT_MAX, (double)VG_JSON_INT_MAX),
    VG_ROW_INT(round_trip_ns, 0, 0, (double)VG_JSON_INT_MAX),
    VG_ROW_INT(asked_ns, 0, 0, (double)VG_JSON_INT_MAX),
    VG_ROW_INT(answered_ns, 0, 0, (double)VG_JSON_INT_MAX),
    VG_ROW_INT(vms, 0, 0, (double)VG_JSON_INT_MAX),
};
const struct vg_record_type vg_peer_info_record = VG_ROW_TYPE(peer_fields);
#undef THIS

struct vg_peer_info *
vg_peer_info_new(void)
{
    return vg_record_new(&vg_peer_info_record);
}

void
vg_peer_info_free(void *peer)
{
    if (peer)
        vg_record_free(&vg_peer_info_record, peer);
}
