/* SPDX-License-Identifier: Apache-2.0
 *
 * The user for whom a request acts: the client itself, or a user of another host whose vgpud sends
 * the request. That vgpud may have been compromised. So its identity is always recorded, and one
 * with the role peer may act only for users who are allowed to do the same on this host.
 */
#ifndef VG_API_PERSON_H
#define VG_API_PERSON_H

#include "api/request.h"

/* The header field with the user's identity, for requests without a body for it. */
#define VG_PERSON_HEADER "X-Vgpud-Person"

/* Returns the requesting user in the form for the records: the client's identity, or "PERSON, says
 * IDENTITY". named is the user named in the body, or NULL to use the header field. The caller frees
 * the text. Returns NULL and sets *err if the client may not act for that user, or names none. */
char *vg_person_settle(const struct vg_request *request, const char *named, GError **err);

/* Checks that a client with the role peer does not request anything that this vgpud would forward
 * to another vgpud with its own rights. elsewhere: the request is of that kind. */
int vg_person_check_here(const struct vg_request *request, bool elsewhere, GError **err);

#endif
