/* SPDX-License-Identifier: Apache-2.0
 *
 * Talks to another vgpud about moves: has it reserve GPUs, or move a VM of its own, and reads the
 * outcome. All calls block up to their limit. They fail with VG_E_NOT_FOUND if there is no such
 * peer, or if the peer says that there is no such thing; with VG_E_UNREACHABLE or VG_E_TIMEOUT if
 * it does not answer; otherwise with the peer's own code and words. Any thread but "peers".
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

/* Has the peer reserve GPUs for a move. Returns the reservation, with its id and its devices, as
 * many as the move has and in the same order; the caller frees it. */
struct vg_reservation *vg_peer_reserve(vg_peers *peers, const char *peer,
                                       const struct vg_migration *move, int64_t lease_s,
                                       int64_t limit_ns, GError **err);
/* Checks that the peer could reserve GPUs for a move now. */
int vg_peer_check_gpus(vg_peers *peers, const char *peer, const struct vg_migration *move,
                       int64_t limit_ns, GError **err);
int vg_peer_renew(vg_peers *peers, const char *peer, const char *reservation, int64_t lease_s,
                  int64_t limit_ns, GError **err);
/* Ends a reservation. It is no error if the peer has none of this id. */
int vg_peer_release(vg_peers *peers, const char *peer, const char *reservation, int64_t limit_ns,
                    GError **err);

/* Has the peer look at paths (char *) of its host, as many of them as it looks at. Returns struct
 * vg_path_seen, in the same order, freed with the array. */
GPtrArray *vg_peer_look_at_paths(vg_peers *peers, const char *peer, const GPtrArray *paths,
                                 int64_t limit_ns, GError **err);

/* Lists the sockets of the peer's proxies (struct vg_proxy_socket), which the caller frees. */
GPtrArray *vg_peer_list_proxies(vg_peers *peers, const char *peer, int64_t limit_ns, GError **err);

/* Has the peer's proxy that has a socket keep GPU memory. Fails as vg_backend_moves.reserve_room.
 */
int vg_peer_reserve_room(vg_peers *peers, const char *peer, const struct vg_proxy_room *room,
                         int64_t limit_ns, GError **err);
int vg_peer_release_room(vg_peers *peers, const char *peer, const char *id, int64_t limit_ns,
                         GError **err);

/* A request that is passed on to the vgpud that has the VM. */
struct vg_peer_order {
    const struct vg_migration_request *request;
    /* the name that the target's host has for itself, or NULL if the request has it */
    const char *to;
    const char *on_behalf_of; /* the person who asked */
    /* the prediction of the plan, for vg_peer_start_move(), or NULL */
    const vg_move_forecast *forecast;
};

/* Has the peer move a VM of its own. The caller has checked that the plan holds. */
struct vg_migration *vg_peer_start_move(vg_peers *peers, const char *peer,
                                        const struct vg_peer_order *order, int64_t limit_ns,
                                        GError **err);
/* Does the same as a dry run. Returns the peer's document, which the caller puts. */
json_object *vg_peer_check_move(vg_peers *peers, const char *peer,
                                const struct vg_peer_order *order, int64_t limit_ns, GError **err);
struct vg_migration *vg_peer_read_move(vg_peers *peers, const char *peer, const char *id,
                                       int64_t limit_ns, GError **err);
/* Reads, of the peer's newest moves, those that went to a host and are done, with their steps:
 * struct vg_migration, newest first, freed with the array. most limits the moves that are looked
 * at. */
GPtrArray *vg_peer_moves_to(vg_peers *peers, const char *peer, const char *to, unsigned most,
                            int64_t limit_ns, GError **err);
/* Aborts or retries a move for a person; verb is "abort" or "retry". */
struct vg_migration *vg_peer_change_move(vg_peers *peers, const char *peer, const char *id,
                                         const char *verb, const char *person, int64_t limit_ns,
                                         GError **err);

/* Asks all peers side by side for their newest moves, up to `limit` of each; active: only those
 * that have not ended. Returns struct vg_host_moves for each peer; the caller frees the list.
 * Blocks up to 18 s. */
GPtrArray *vg_peer_all_moves(vg_peers *peers, bool active, size_t limit);

/* What is asked of a host that is to be emptied. */
struct vg_peer_drain_order {
    const char *host;   /* what the peer calls it */
    const char *method; /* "GET": how far it is; "POST": begin, or say what would be done */
    bool dry_run;
    const char *on_behalf_of; /* the person who asked; NULL in a dry run */
};

/* Asks the peer about its own host. The caller frees the answer. VG_E_NOT_FOUND: it is not being
 * emptied. */
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
