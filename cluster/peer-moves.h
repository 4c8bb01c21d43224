/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests to another vgpud about moves: reserves GPUs there, starts moves of its VMs, and reads
 * the outcome. All calls block up to their limit. They fail with VG_E_NOT_FOUND if the peer does
 * not exist, or reports that the object does not exist; with VG_E_UNREACHABLE or VG_E_TIMEOUT if
 * it does not answer; otherwise with the peer's own code and text. Any thread except "peers".
 */
#ifndef VG_CLUSTER_PEER_MOVES_H
#define VG_CLUSTER_PEER_MOVES_H

#include <json-c/json.h>

#include "cluster/peers.h"
#include "model/drain.h"
#include "model/migration.h"
#include "model/path.h"
#include "model/proxy-socket.h"
#include "model/reservation.h"

/* Reserves GPUs on the peer's host for a move. Returns the reservation, with its id and its
 * devices. The devices are as many as the move has, in the same order; the caller frees it. */
struct vg_reservation *vg_peer_reserve(vg_peers *peers, const char *peer,
                                       const struct vg_migration *move, int64_t lease_s,
                                       int64_t limit_ns, GError **err);
/* Checks that the peer could reserve GPUs for a move now. */
int vg_peer_check_gpus(vg_peers *peers, const char *peer, const struct vg_migration *move,
                       int64_t limit_ns, GError **err);
int vg_peer_renew(vg_peers *peers, const char *peer, const char *reservation, int64_t lease_s,
                  int64_t limit_ns, GError **err);
/* Ends a reservation. Succeeds if the peer has no reservation with this id. */
int vg_peer_release(vg_peers *peers, const char *peer, const char *reservation, int64_t limit_ns,
                    GError **err);

/* Requests that the peer check paths (char *) on its host, up to the peer's limit. Returns struct
 * vg_path_seen, in the same order, freed with the array. */
GPtrArray *vg_peer_look_at_paths(vg_peers *peers, const char *peer, const GPtrArray *paths,
                                 int64_t limit_ns, GError **err);

/* Lists the sockets of the peer's proxies (struct vg_proxy_socket), which the caller frees. */
GPtrArray *vg_peer_list_proxies(vg_peers *peers, const char *peer, int64_t limit_ns, GError **err);

/* Makes the peer's proxy with this socket reserve GPU memory. Fails as
 * vg_backend_moves.reserve_room. */
int vg_peer_reserve_room(vg_peers *peers, const char *peer, const struct vg_proxy_room *room,
                         int64_t limit_ns, GError **err);
int vg_peer_release_room(vg_peers *peers, const char *peer, const char *id, int64_t limit_ns,
                         GError **err);

/* A request that is forwarded to the vgpud on the VM's host. */
struct vg_peer_order {
    const struct vg_migration_request *request;
    /* the target host's own name, or NULL if the request already has that name */
    const char *to;
    const char *on_behalf_of; /* the person who sent the request */
    /* the prediction of the plan, for vg_peer_start_move(), or NULL */
    const vg_move_forecast *forecast;
};

/* Requests that the peer move a VM of its host. The caller has checked that the plan is still
 * valid. */
struct vg_migration *vg_peer_start_move(vg_peers *peers, const char *peer,
                                        const struct vg_peer_order *order, int64_t limit_ns,
                                        GError **err);
/* Does the same as a dry run. Returns the peer's document, which the caller puts. */
json_object *vg_peer_check_move(vg_peers *peers, const char *peer,
                                const struct vg_peer_order *order, int64_t limit_ns, GError **err);
struct vg_migration *vg_peer_read_move(vg_peers *peers, const char *peer, const char *id,
                                       int64_t limit_ns, GError **err);
/* Reads the peer's newest moves that are completed and went to this host, with their
 * steps: struct vg_migration, newest first, freed with the array. `most` limits the number of moves
 * examined. */
GPtrArray *vg_peer_moves_to(vg_peers *peers, const char *peer, const char *to, unsigned most,
                            int64_t limit_ns, GError **err);
/* Aborts or retries a move for a person; verb is "abort" or "retry". */
struct vg_migration *vg_peer_change_move(vg_peers *peers, const char *peer, const char *id,
                                         const char *verb, const char *person, int64_t limit_ns,
                                         GError **err);

/* Queries all peers concurrently for their newest moves, up to `limit` from each; active: only
 * moves that have not ended. Returns struct vg_host_moves for each peer; the caller frees the list.
 * Blocks up to 18 s. */
GPtrArray *vg_peer_all_moves(vg_peers *peers, bool active, size_t limit);

/* A request about draining a host. */
struct vg_peer_drain_order {
    const char *host; /* its name at the peer */
    const char
        *method; /* "GET" reads the progress; "POST" starts, or in a dry run describes, the drain */
    bool dry_run;
    const char *on_behalf_of; /* the person who sent the request; NULL in a dry run */
};

/* Sends a request to the peer about its own host. The caller frees the answer. Fails with
 * VG_E_NOT_FOUND if the host is not being drained. */
vg_drain *vg_peer_drain(vg_peers *peers, const char *peer, const struct vg_peer_drain_order *order,
                        int64_t limit_ns, GError **err);
int vg_peer_end_drain(vg_peers *peers, const char *peer, const char *host, const char *person,
                      int64_t limit_ns, GError **err);

/* One measured second of a VM. */
struct vg_peer_sample {
    int64_t begin_ns, end_ns;
    int64_t preempt_ns, wake_wait_ns;
};

/* Reads the peer's samples of a VM between two times in seconds since the epoch. Returns an array
 * of struct vg_peer_sample, which the caller unrefs. */
GArray *vg_peer_samples(vg_peers *peers, const char *peer, const char *uuid, int64_t since_s,
                        int64_t until_s, int64_t limit_ns, GError **err);

#endif
