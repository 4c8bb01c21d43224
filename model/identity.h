/* SPDX-License-Identifier: Apache-2.0
 *
 * Identities of clients, their roles, and the audit of what they did.
 */
#ifndef VG_MODEL_IDENTITY_H
#define VG_MODEL_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

/* Each role includes the rights of the roles before it. The exception is peer, which has only the
 * rights that it needs. */
enum vg_role {
    VG_ROLE_NONE,     /* may only check that vgpud is alive */
    VG_ROLE_READER,   /* may see everything that vgpud measures, plans and does */
    VG_ROLE_OPERATOR, /* plans, moves: everything that acts on VMs */
    VG_ROLE_ADMIN,    /* tokens, the audit log */
    VG_ROLE_PEER,     /* only what another host's vgpud needs for plans and moves */
    VG_ROLE_MAX
};

extern const char *const vg_role_names[]; /* "none", "reader", "operator", "admin", "peer" */

/* Returns whether a client that has one role may do what requires another role. An operator may
 * still do what only peers need, because vgpuds of the previous version use that role. */
bool vg_role_may(enum vg_role has, enum vg_role wanted);

/* Returns false if there is no such role. "none" cannot be assigned, so it is not accepted. */
bool vg_role_from_name(const char *name, enum vg_role *ret);

/* Why a client is unknown, if there is a specific reason. */
enum vg_refusal {
    VG_REFUSAL_NONE,
    VG_REFUSAL_NO_CERTIFICATE, /* it needs a valid certificate, and has presented none */
    VG_REFUSAL_NO_ROLE,        /* its certificate is valid, but no role includes its subject */
    VG_REFUSAL_MAX
};

extern const char *const vg_refusal_names[]; /* "certificate-required", ...; NULL for NONE */

#define VG_IDENTITY_MAX 128

/* How a client was identified. */
struct vg_identity {
    enum vg_role role;
    char name[VG_IDENTITY_MAX]; /* "uid:0", "token:NAME", "cert:SUBJECT"; "" if unknown */
};

struct vg_token {
    char *name;
    enum vg_role role;
    int64_t made_ns;
    int64_t expires_ns; /* 0 if it does not expire */
    int64_t used_ns;    /* 0 if it was never used */
};

void vg_token_free(void *token); /* struct vg_token */

/* Returns whether a name is valid for a token: 1 to VG_TOKEN_NAME_MAX characters of
 * [A-Za-z0-9._-]. */
#define VG_TOKEN_NAME_MAX 64
bool vg_token_is_name(const char *name);

/* Returns whether a text has the syntax of a token (RFC 6750) and does not exceed the maximum
 * length that vgpud accepts. */
bool vg_token_text_is_good(const char *text);

struct vg_audit_entry {
    int64_t seq; /* position in the audit log, assigned by the journal */
    int64_t at_ns;
    char *identity; /* "" if the request was refused */
    enum vg_role role;
    char *origin;     /* "unix", or the address of the client */
    char *method;     /* "POST" */
    char *route;      /* "/v1/plans" */
    char *object;     /* the object concerned, "plan-0123..." or a name; may be "" */
    unsigned status;  /* HTTP status */
    char *request_id; /* "" for an entry of several requests */
    uint64_t count;   /* number of refused requests in this minute; otherwise 1 */
};

struct vg_audit_entry *vg_audit_entry_copy(const struct vg_audit_entry *entry);
void vg_audit_entry_free(void *entry); /* struct vg_audit_entry */

#endif
