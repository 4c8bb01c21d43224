/* SPDX-License-Identifier: Apache-2.0
 *
 * Encodes requests to etcd v3's JSON gateway and decodes its answers. In its format, keys and
 * values are base64, 64-bit integers are strings, and members that are zero, false or empty are
 * omitted. Pure; any thread. Every reader fails with VG_E_EXTERNAL if an answer does not have the
 * expected form; it then uses no part of it.
 */
#ifndef VG_CLUSTER_ETCD_WIRE_H
#define VG_CLUSTER_ETCD_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>

#include "base/error.h"

/* The maximum size of an answer in bytes. */
#define VG_ETCD_ANSWER_MAX (8 * 1024 * 1024)

/* The maximum number of keys per answer; longer lists are requested page by page. */
#define VG_ETCD_PAGE 500

#define VG_ETCD_KEY_MAX   512
#define VG_ETCD_VALUE_MAX 65536

/* A key and its value, both text. A pair whose key is not text is dropped. */
struct vg_etcd_pair {
    char *key;
    char *value; /* empty if only keys were requested, or if it is not text or too long */
    int64_t create_revision;
    int64_t mod_revision;
    int64_t lease; /* 0 if none */
};

struct vg_etcd_answer {
    uint64_t cluster; /* the id of the cluster that answered */
    int64_t revision; /* its newest revision; for a transaction that wrote, the transaction's own */
    bool succeeded;   /* for a transaction: its conditions were true */
    GPtrArray *pairs; /* struct vg_etcd_pair, in the order of their keys */
    int64_t count;    /* for a range: the total number of keys in it */
    bool more;        /* for a range: it has more pairs than were returned */
};

typedef struct vg_etcd_answer vg_etcd_answer;

void vg_etcd_answer_clear(vg_etcd_answer *answer);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(vg_etcd_answer, vg_etcd_answer_clear)

/* A query for all keys with a prefix, or for one key. */
struct vg_etcd_range {
    const char *key;   /* the prefix, or the key */
    const char *after; /* only keys after this key; NULL for all */
    bool is_prefix;
    bool keys_only;
    bool serializable;        /* the queried member may answer from its local data */
    int64_t revision;         /* as of this revision; 0 for the newest */
    int64_t changed_revision; /* only pairs written at this revision or later; 0 for all */
};

/* A condition of a transaction: the key's create or mod revision has this value. 0 means that the
 * key does not exist. */
struct vg_etcd_condition {
    const char *key;
    bool created; /* compares the create revision */
    int64_t revision;
};

struct vg_etcd_write {
    const char *key;
    const char *value; /* NULL deletes the key */
    int64_t lease;
};

struct vg_etcd_txn {
    const struct vg_etcd_condition *conditions;
    size_t n_conditions;
    const struct vg_etcd_write *writes;
    size_t n_writes;
    const char *otherwise; /* key to read if the conditions are false; may be NULL */
};

/* These functions return the bodies of requests; the caller frees them. */
char *vg_etcd_write_range(const struct vg_etcd_range *range);
char *vg_etcd_write_txn(const struct vg_etcd_txn *txn);
char *vg_etcd_write_grant(int64_t ttl_s);
char *vg_etcd_write_lease(int64_t lease);
char *vg_etcd_write_login(const char *user, const char *password);

/* These functions parse answers. The caller clears *ret, even after a failure. */
int vg_etcd_read_range(const char *text, size_t size, struct vg_etcd_answer *ret, GError **err);
int vg_etcd_read_txn(const char *text, size_t size, struct vg_etcd_answer *ret, GError **err);

/* Reads the answer to a grant. */
int vg_etcd_read_grant(const char *text, size_t size, int64_t *ret_lease, int64_t *ret_ttl_s,
                       GError **err);

/* Reads the answer to a keep-alive. The answer for an expired lease also has status 200, but no
 * time to live: fails with VG_E_NOT_FOUND. */
int vg_etcd_read_keep_alive(const char *text, size_t size, int64_t *ret_ttl_s, GError **err);

/* Returns the token for later requests, which the caller frees, or NULL and *err. */
char *vg_etcd_read_token(const char *text, size_t size, GError **err);

/* The consequence of a refusal for the caller. */
enum vg_etcd_refusal {
    VG_ETCD_AGAIN,     /* the request may succeed on another member, or later */
    VG_ETCD_LOGIN,     /* the token is no longer valid */
    VG_ETCD_NO_LOGIN,  /* no login is needed: etcd has no users */
    VG_ETCD_COMPACTED, /* the requested revision is no longer stored */
    VG_ETCD_NEVER,     /* the request would fail again */
};

/* Reads an answer with a status other than 200: sets *err to a description. The code is
 * VG_E_NOT_FOUND for an expired lease, VG_E_DENIED for a missing permission, and VG_E_BUSY for
 * AGAIN. */
enum vg_etcd_refusal vg_etcd_read_refusal(long status, const char *text, size_t size, GError **err);

#endif
