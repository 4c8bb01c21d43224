/* SPDX-License-Identifier: Apache-2.0
 *
 * A client of etcd v3 through its JSON gateway. Calls block, each up to a limit set by the caller.
 * If a member does not answer within two seconds, the next member is tried. A call that failed
 * temporarily is retried until its limit. Calls may therefore be executed twice, which all calls
 * here tolerate. A transaction is repeated with its conditions, so if its conditions fail, the
 * caller must check whether the keys already have the desired values.
 *
 * Any thread may call. Each call has a separate connection; connections are kept for reuse. Errors:
 * VG_E_TIMEOUT and VG_E_UNREACHABLE if no member answered, VG_E_BUSY if none can answer now,
 * VG_E_DENIED, VG_E_NOT_FOUND for an expired lease, VG_E_EXTERNAL for unusable answers.
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
    const char *password_file; /* reread for each login */
};

typedef struct vg_etcd vg_etcd;

/* Checks the list of endpoints. */
int vg_etcd_check_endpoints(const char *endpoints, GError **err);

/* Creates a client, which connects at its first call. The endpoints must have been checked. */
vg_etcd *vg_etcd_new(const struct vg_etcd_options *options);

/* Frees the client after the last call of any thread; NULL is allowed. */
void vg_etcd_free(vg_etcd *etcd);

/* Makes the calls in progress fail within a second. Any thread. */
void vg_etcd_interrupt(vg_etcd *etcd);

/* Reads keys. A prefix is read completely, page by page, as of a single revision. ret->pairs has
 * all pairs. */
int vg_etcd_range(vg_etcd *etcd, const struct vg_etcd_range *range, int64_t limit_ns,
                  struct vg_etcd_answer *ret, GError **err);
int vg_etcd_txn(vg_etcd *etcd, const struct vg_etcd_txn *txn, int64_t limit_ns,
                struct vg_etcd_answer *ret, GError **err);
int vg_etcd_grant(vg_etcd *etcd, int64_t ttl_s, int64_t limit_ns, int64_t *ret_lease,
                  int64_t *ret_ttl_s, GError **err);
int vg_etcd_keep(vg_etcd *etcd, int64_t lease, int64_t limit_ns, int64_t *ret_ttl_s, GError **err);
int vg_etcd_revoke(vg_etcd *etcd, int64_t lease, int64_t limit_ns, GError **err);

/* Returns the endpoint that is tried first; the caller frees it. */
char *vg_etcd_endpoint(vg_etcd *etcd);

#endif
