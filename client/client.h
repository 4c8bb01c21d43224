/* SPDX-License-Identifier: Apache-2.0
 *
 * Asks a running vgpud, over its unix socket or over the network with TLS. Errors of the daemon
 * keep their meaning (VG_E_NOT_FOUND for 404 and so on); a daemon that cannot be reached is
 * VG_E_UNREACHABLE, and one that does not let us in VG_E_REFUSED, with what to do about it. One
 * thread at a time, where nothing else is said.
 */
#ifndef VG_CLIENT_CLIENT_H
#define VG_CLIENT_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

#include <glib.h>
#include <json-c/json.h>

#include "client/remote-names.h"

#define VG_CLIENT_LIMIT_S 60 /* for an answer, where nothing else is set */

typedef struct vg_client vg_client;

/* Asks nothing yet. NULL: the settings contradict each other, or a file of theirs is no good. */
vg_client *vg_client_new(const struct vg_remote_args *args, GError **err);
void vg_client_free(vg_client *client);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_client, vg_client_free)

/* For answers from now on, and for connecting where that is less than its own limit. Not for
 * streams. */
void vg_client_set_limit(vg_client *client, int limit_s);

/* Any thread: the request that is under way ends within a second, and all later ones at once, with
 * VG_E_UNREACHABLE. Not for streams. */
void vg_client_interrupt(vg_client *client);

/* path begins with '/' and holds the query. VG_E_EXTERNAL if the answer is no object, or one of the
 * `lists` (ends with NULL) is no array of objects in it. The caller puts *ret. */
int vg_client_get(vg_client *client, const char *path, const char *const *lists, json_object **ret,
                  GError **err) G_GNUC_WARN_UNUSED_RESULT;
int vg_client_post(vg_client *client, const char *path, json_object *body, json_object **ret,
                   GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* A POST that must not be done twice, so that it can be tried again. */
struct vg_client_once {
    const char *key; /* Idempotency-Key */
    bool sent;       /* out: vgpud may have heard it, also where there is no answer */
    char *location;  /* out: Location of the answer, or NULL; the caller frees it */
};
int vg_client_post_once(vg_client *client, const char *path, json_object *body,
                        struct vg_client_once *once, json_object **ret,
                        GError **err) G_GNUC_WARN_UNUSED_RESULT;

int vg_client_delete(vg_client *client, const char *path, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* The text of the answer; the caller frees *ret. */
int vg_client_get_text(vg_client *client, const char *path, char **ret, size_t *ret_size,
                       GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* All items of a list, page after page; the caller puts *ret, an array of objects. path has no
 * marker yet. */
int vg_client_list(vg_client *client, const char *path, json_object **ret,
                   GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* The same, but no more than the first `limit`. */
int vg_client_list_some(vg_client *client, const char *path, size_t limit, json_object **ret,
                        GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* start ("/v1/gpus/") and the id, escaped, and rest; the caller frees it. */
char *vg_client_path(const char *start, const char *id, const char *rest);

/* The same with "/v1/vms/". */
char *vg_client_vm_path(const char *id, const char *rest);

/* Reads server-sent events until on_event returns false or the daemon ends the stream. Comments are
 * left out; `data` is the event's text. */
struct vg_client_event {
    const char *id; /* or NULL */
    const char *type;
    const char *data;
};
int vg_client_stream(vg_client *client, const char *path, const char *last_id,
                     bool (*on_event)(void *data, const struct vg_client_event *event), void *data,
                     GError **err) G_GNUC_WARN_UNUSED_RESULT;

#endif
