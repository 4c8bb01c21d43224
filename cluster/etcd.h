/* SPDX-License-Identifier: Apache-2.0
 *
 * A client of etcd v3 by its JSON gateway. Calls block, each up to a limit that the caller gives: a
 * member that does not answer within two seconds is left for the next one, and a call that failed
 * for now is made again until its limit. Calls may therefore be carried out twice, which those that
 * are offered here bear: a transaction is repeated with its conditions, so that a caller whose
 * conditions do not hold looks whether the keys are as it wanted them.
 *
 * Any thread may call; each call has a connection of its own, and connections are kept for the next
 * one. Errors: VG_E_TIMEOUT and VG_E_UNREACHABLE if no member answered, VG_E_BUSY if none can for
 * now, VG_E_DENIED, VG_E_NOT_FOUND for a lease that has ended, VG_E_EXTERNAL for answers that
 * cannot be used.
 */
#ifndef VG_CLUSTER_ETCD_H
#define VG_CLUSTER_ETCD_H

#include "cluster/etcd-wire.h"

#define VG_ETCD_ENDPOINTS_MAX 16

/* Strings are borrowed during vg_etcd_new(); NULL or empty where they are not configured. */
struct vg_etcd_options {
    const char *endpoints; /* "https://HOST:2379 ...", separated by blanks or commas */
    const char *cert;      /* PEM */
    const char *key;       /* PEM; the key may be in the file of cert */
    const char *cacert;    /* NULL for the CAs that this machine trusts */
    const char *user;
    const char *password_file; /* read again for each login */
};

typedef struct vg_etcd vg_etcd;

/* Checks the list of endpoints. */
int vg_etcd_check_endpoints(const char *endpoints, GError **err);

/* Makes a client, which connects at its first call. The endpoints must be good. */
vg_etcd *vg_etcd_new(const struct vg_etcd_options *options);

/* Frees the client once no thread calls it any more; NULL is fine. */
void vg_etcd_free(vg_etcd *etcd);

/* Has the calls that are under way fail within a second. Any thread. */
void vg_etcd_interrupt(vg_etcd *etcd);

/* Reads keys. A prefix is read to its end, page by page, all as of one revision. ret->pairs are
 * all that were read. */
int vg_etcd_range(vg_etcd *etcd, const struct vg_etcd_range *range, int64_t limit_ns,
                  struct vg_etcd_answer *ret, GError **err);
int vg_etcd_txn(vg_etcd *etcd, const struct vg_etcd_txn *txn, int64_t limit_ns,
                struct vg_etcd_answer *ret, GError **err);
int vg_etcd_grant(vg_etcd *etcd, int64_t ttl_s, int64_t limit_ns, int64_t *ret_lease,
                  int64_t *ret_ttl_s, GError **err);
int vg_etcd_keep(vg_etcd *etcd, int64_t lease, int64_t limit_ns, int64_t *ret_ttl_s, GError **err);
int vg_etcd_revoke(vg_etcd *etcd, int64_t lease, int64_t limit_ns, GError **err);

/* Returns the endpoint that is asked first; the caller frees it. */
char *vg_etcd_endpoint(vg_etcd *etcd);

#endif
