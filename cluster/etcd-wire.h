/* SPDX-License-Identifier: Apache-2.0
 *
 * The language of etcd v3's JSON gateway: bodies of requests, and what answers say. In it, keys and
 * values are base64, 64-bit integers are strings, and members that are zero, false or empty are
 * left out. Pure; any thread. Every reader fails with VG_E_EXTERNAL if an answer is no such
 * document: it takes nothing of one that it does not understand.
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

/* The keys of one answer, at most; more are asked for page by page. */
#define VG_ETCD_PAGE 500

#define VG_ETCD_KEY_MAX   512
#define VG_ETCD_VALUE_MAX 65536

/* A key and its value, which are text. A pair whose key is none is left out. */
struct vg_etcd_pair {
    char *key;
    char *value; /* empty if only keys were asked for, or if it is no text that is short enough */
    int64_t create_revision;
    int64_t mod_revision;
    int64_t lease; /* 0: none */
};

struct vg_etcd_answer {
    uint64_t cluster; /* the id of the cluster that answers */
    int64_t revision; /* the newest one that it knows; of a transaction that wrote: its own */
    bool succeeded;   /* of a transaction: its conditions held */
    GPtrArray *pairs; /* struct vg_etcd_pair, in the order of their keys */
    int64_t count;    /* of a range: the number of keys in it, whichever were returned */
    bool more;        /* of a range: there are more pairs than were returned */
};

typedef struct vg_etcd_answer vg_etcd_answer;

void vg_etcd_answer_clear(vg_etcd_answer *answer);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(vg_etcd_answer, vg_etcd_answer_clear)

/* A question for all keys that begin with a prefix, or for one key. */
struct vg_etcd_range {
    const char *key;   /* the prefix, or the key */
    const char *after; /* only keys behind this one; NULL: all */
    bool is_prefix;
    bool keys_only;
    bool serializable;        /* the member that is asked may answer from what it has */
    int64_t revision;         /* as of this revision; 0: the newest */
    int64_t changed_revision; /* only pairs that were written at this revision or later; 0: all */
};

/* What must hold for a transaction: the revision that made a key, or that changed it last, is this
 * one. 0: there is no such key. */
struct vg_etcd_condition {
    const char *key;
    bool created; /* the revision is that which made it */
    int64_t revision;
};

struct vg_etcd_write {
    const char *key;
    const char *value; /* NULL: the key is deleted */
    int64_t lease;
};

struct vg_etcd_txn {
    const struct vg_etcd_condition *conditions;
    size_t n_conditions;
    const struct vg_etcd_write *writes;
    size_t n_writes;
    const char *otherwise; /* this key is read if the conditions do not hold; NULL: none */
};

/* These return bodies of requests; the caller frees them. */
char *vg_etcd_write_range(const struct vg_etcd_range *range);
char *vg_etcd_write_txn(const struct vg_etcd_txn *txn);
char *vg_etcd_write_grant(int64_t ttl_s);
char *vg_etcd_write_lease(int64_t lease);
char *vg_etcd_write_login(const char *user, const char *password);

/* These read answers. *ret is cleared by the caller, also after a failure. */
int vg_etcd_read_range(const char *text, size_t size, struct vg_etcd_answer *ret, GError **err);
int vg_etcd_read_txn(const char *text, size_t size, struct vg_etcd_answer *ret, GError **err);

/* Reads the answer to a grant. */
int vg_etcd_read_grant(const char *text, size_t size, int64_t *ret_lease, int64_t *ret_ttl_s,
                       GError **err);

/* Reads the answer to a keep-alive. A lease that has ended is answered with 200, too, and without a
 * time to live: VG_E_NOT_FOUND. */
int vg_etcd_read_kept(const char *text, size_t size, int64_t *ret_ttl_s, GError **err);

/* Returns the token for later requests, which the caller frees; NULL and *err if there is none. */
char *vg_etcd_read_token(const char *text, size_t size, GError **err);

/* What a refusal means for who asked. */
enum vg_etcd_refusal {
    VG_ETCD_AGAIN,     /* it may go well at another member, or later */
    VG_ETCD_LOGIN,     /* the token is not good any more */
    VG_ETCD_NO_LOGIN,  /* no login is needed: etcd has no users */
    VG_ETCD_COMPACTED, /* the revision that was asked for is not kept any more */
    VG_ETCD_NEVER,     /* the same answer would come again */
};

/* Reads an answer with a status other than 200: sets *err to it in words, with VG_E_NOT_FOUND for a
 * lease that is gone, VG_E_DENIED where a permission lacks, VG_E_BUSY for AGAIN. */
enum vg_etcd_refusal vg_etcd_read_refusal(long status, const char *text, size_t size, GError **err);

#endif
