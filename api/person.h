/* SPDX-License-Identifier: Apache-2.0
 *
 * For whom a request acts: whoever asks, or a person for whom the vgpud of another host asks. Such
 * a vgpud may have been taken over, so that what is recorded always has its identity, and one of
 * the role peer acts for persons only that this host lets do the same.
 */
#ifndef VG_API_PERSON_H
#define VG_API_PERSON_H

#include "api/request.h"

/* The header field that names the person, where a request has no body for it. */
#define VG_PERSON_HEADER "X-Vgpud-Person"

/* Returns who asks, as it is recorded: the identity of the client, or "PERSON, says IDENTITY".
 * named is the person that the body names, or NULL: the header field counts. The caller frees the
 * text. Returns NULL and sets *err if the client may not act for that person, or for nobody. */
char *vg_person_settle(const struct vg_request *request, const char *named, GError **err);

/* Checks that a client of the role peer asks for nothing that this vgpud would ask another one for:
 * it would lend its own rights. elsewhere: the request is of that kind. */
int vg_person_check_here(const struct vg_request *request, bool elsewhere, GError **err);

#endif
