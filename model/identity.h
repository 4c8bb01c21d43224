/* SPDX-License-Identifier: Apache-2.0
 *
 * Who asks, what he may do, and what is kept of what he did.
 */
#ifndef VG_MODEL_IDENTITY_H
#define VG_MODEL_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

/* Each may do what those before it may; but a peer may only do what it needs. */
enum vg_role {
    VG_ROLE_NONE,     /* nothing but to be told that vgpud is alive */
    VG_ROLE_READER,   /* see whatever is measured, planned and done */
    VG_ROLE_OPERATOR, /* plans, moves: whatever acts on VMs */
    VG_ROLE_ADMIN,    /* tokens, the audit */
    VG_ROLE_PEER,     /* what the vgpud of another host needs for plans and moves, and no more */
    VG_ROLE_MAX
};

extern const char *const vg_role_names[]; /* "none", "reader", "operator", "admin", "peer" */

/* Returns whether who has a role may do what wants another one. An operator may still do what only
 * peers need: vgpuds of the version before have that role. */
bool vg_role_may(enum vg_role has, enum vg_role wanted);

/* false: there is no such role; "none" is not one to give. */
bool vg_role_from_name(const char *name, enum vg_role *ret);

/* Why a client is not known, if more can be said than that. */
enum vg_refusal {
    VG_REFUSAL_NONE,
    VG_REFUSAL_NO_CERTIFICATE, /* it has shown none that is good, and needs one */
    VG_REFUSAL_NO_ROLE,        /* its certificate is good, and no role has its subject */
    VG_REFUSAL_MAX
};

extern const char *const vg_refusal_names[]; /* "certificate-required", ...; NULL for NONE */

#define VG_IDENTITY_MAX 128

/* How somebody was recognised. */
struct vg_identity {
    enum vg_role role;
    char name[VG_IDENTITY_MAX]; /* "uid:0", "token:NAME", "cert:SUBJECT"; "": nobody */
};

struct vg_token {
    char *name;
    enum vg_role role;
    int64_t made_ns;
    int64_t expires_ns; /* 0: never */
    int64_t used_ns;    /* 0: never */
};

void vg_token_free(void *token); /* struct vg_token */

/* Is this a name for a token: 1 to VG_TOKEN_NAME_MAX characters of [A-Za-z0-9._-]? */
#define VG_TOKEN_NAME_MAX 64
bool vg_token_is_name(const char *name);

/* Can this be the text of a token (RFC 6750), not longer than vgpud takes one? */
bool vg_token_text_is_good(const char *text);

struct vg_audit_entry {
    int64_t seq; /* of the list; given by the journal */
    int64_t at_ns;
    char *identity; /* "": none, the request was refused */
    enum vg_role role;
    char *origin;     /* "unix", or the address of the client */
    char *method;     /* "POST" */
    char *route;      /* "/v1/plans" */
    char *object;     /* what it was about: "plan-0123...", a name; "": none */
    unsigned status;  /* of HTTP */
    char *request_id; /* "": of several requests */
    uint64_t count;   /* of refused requests in this minute; else 1 */
};

struct vg_audit_entry *vg_audit_entry_copy(const struct vg_audit_entry *entry);
void vg_audit_entry_free(void *entry); /* struct vg_audit_entry */

#endif
