/* SPDX-License-Identifier: Apache-2.0
 *
 * What this vgpud knows about another vgpud, its peer. Plain data.
 */
#ifndef VG_MODEL_PEER_H
#define VG_MODEL_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/record.h"
#include "model/migration-tls.h"

enum vg_peer_state {
    VG_PEER_UNKNOWN,     /* not queried yet */
    VG_PEER_REACHABLE,   /* it answered the last query */
    VG_PEER_UNREACHABLE, /* it did not answer: see the reason */
    VG_PEER_STATE_MAX
};

/* Whether a peer is entitled to the host name that it reports. */
enum vg_host_proof {
    VG_PROOF_UNKNOWN,  /* it has never answered */
    VG_PROOF_PROVED,   /* its configuration or its certificate has this name */
    VG_PROOF_UNPROVED, /* nothing proves that it is that host */
    VG_PROOF_DISPUTED, /* another peer has a better, or equal, claim to the name */
    VG_PROOF_MAX
};

struct vg_peer_info {
    char *name; /* in the configuration */
    char *url;
    char *libvirt_uri;    /* NULL if none is configured, or for the reason in libvirt_reason */
    char *libvirt_reason; /* why a cluster member has no URI, or NULL */
    enum vg_peer_state state;
    char *reason; /* UNREACHABLE: one sentence; otherwise NULL */
    char *host;   /* its host name as reported; NULL if it has never answered */
    enum vg_host_proof host_proof;
    char *host_reason;               /* UNPROVED, DISPUTED: one sentence; otherwise NULL */
    char *version;                   /* its vgpud's version; NULL if it has never answered */
    enum vg_tls_certs migration_tls; /* its host's certificates for QEMU */
    bool clock_known;
    int64_t clock_difference_ns; /* its clock minus this host's clock; the error is at most half of
                                    round_trip_ns */
    int64_t round_trip_ns;       /* round trip of the request that compared the clocks */
    int64_t asked_ns;            /* epoch, end of the last attempt; 0 before the first */
    int64_t answered_ns;         /* epoch, end of the last successful attempt; 0 before the first */
    int64_t vms;                 /* in its newest snapshot */
};

extern const struct vg_record_type vg_peer_info_record;
extern const char *const vg_peer_state_names[]; /* "unknown", "reachable", "unreachable" */
extern const char *const vg_host_proof_names[]; /* "unknown", "proved", "unproved", "disputed" */

struct vg_peer_info *vg_peer_info_new(void);
void vg_peer_info_free(void *peer); /* NULL is fine */

#endif
