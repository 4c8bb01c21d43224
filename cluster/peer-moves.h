/* SPDX-License-Identifier: Apache-2.0
 *
 * Asks another vgpud about moves: to keep GPUs, to run a move of a VM that is there, and what came
 * of one. All calls block up to their limit. VG_E_NOT_FOUND: there is no such peer, or it says that
 * there is no such thing; VG_E_UNREACHABLE, VG_E_TIMEOUT; else as the peer answered, in its words.
 * Any thread but "peers".
 */
#ifndef VG_CLUSTER_PEER_MOVES_H
#define VG_CLUSTER_PEER_MOVES_H

#include <json-c/json.h>

#include "cluster/peers.h"
#include "model/migration.h"
#include "model/reservation.h"

/* Has the peer keep GPUs for a move. Returns what it keeps, with its id and its devices, as many as
 * the move has and in that order; the caller frees it. */
struct vg_reservation *vg_peer_reserve(vg_peers *peers, const char *peer,
                                       const struct vg_migration *move, int64_t lease_s,
                                       int64_t limit_ns, GError **err);
int vg_peer_renew(vg_peers *peers, const char *peer, const char *reservation, int64_t lease_s,
                  int64_t limit_ns, GError **err);
/* That the peer keeps nothing of this id is no error. */
int vg_peer_release(vg_peers *peers, const char *peer, const char *reservation, int64_t limit_ns,
                    GError **err);

/* Has the peer move a VM of its own. to: the name of the target's host, as that calls itself, or
 * NULL if the request has it. Whether a plan holds has been looked at by whoever asks. */
struct vg_migration *vg_peer_start_move(vg_peers *peers, const char *peer,
                                        const struct vg_migration_request *request, const char *to,
                                        int64_t limit_ns, GError **err);
/* The same, as a dry run. Returns its document, which the caller puts. */
json_object *vg_peer_check_move(vg_peers *peers, const char *peer,
                                const struct vg_migration_request *request, const char *to,
                                int64_t limit_ns, GError **err);
struct vg_migration *vg_peer_read_move(vg_peers *peers, const char *peer, const char *id,
                                       int64_t limit_ns, GError **err);
struct vg_migration *vg_peer_abort_move(vg_peers *peers, const char *peer, const char *id,
                                        int64_t limit_ns, GError **err);

/* A measured second of a VM. */
struct vg_peer_sample {
    int64_t begin_ns, end_ns;
    int64_t preempt_ns, wake_wait_ns;
};

/* Reads what the peer measured of a VM, between two times in seconds since the epoch. Returns an
 * array of struct vg_peer_sample, which the caller unrefs. */
GArray *vg_peer_samples(vg_peers *peers, const char *peer, const char *uuid, int64_t since_s,
                        int64_t until_s, int64_t limit_ns, GError **err);

#endif
