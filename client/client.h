/* SPDX-License-Identifier: Apache-2.0
 *
 * Queries a running vgpud, over its unix socket, or over the network with TLS. The daemon's errors
 * are returned with the same meaning (VG_E_NOT_FOUND for 404 and so on). If the daemon cannot be
 * reached, the error is VG_E_UNREACHABLE. If it denies access, the error is VG_E_REFUSED, and its
 * message says what to do. One thread at a time, except where stated.
 */
#ifndef VG_CLIENT_CLIENT_H
#define VG_CLIENT_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

#include <glib.h>
#include <json-c/json.h>

#include "client/remote-names.h"

#define VG_CLIENT_LIMIT_S 60 /* default time limit for an answer */

typedef struct vg_client vg_client;

/* Creates a client without connecting. Returns NULL if the settings contradict each other, or one
 * of their files is invalid. */
vg_client *vg_client_new(const struct vg_remote_args *args, GError **err);
void vg_client_free(vg_client *client);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_client, vg_client_free)

/* Sets the time limit for later answers, and for connecting if it is less than the connection's own
 * limit. Not for streams. */
void vg_client_set_limit(vg_client *client, int limit_s);

/* Any thread: the current request ends within a second, and all later requests end immediately,
 * with VG_E_UNREACHABLE. Not for streams. */
void vg_client_interrupt(vg_client *client);

/* path starts with '/' and includes the query. Fails with VG_E_EXTERNAL if the answer is not an
 * object, or if one of the members in `lists`, which ends with NULL, is not an array of objects.
 * The caller releases *ret with json_object_put(). */
int vg_client_get(vg_client *client, const char *path, const char *const *lists, json_object **ret,
                  GError **err) G_GNUC_WARN_UNUSED_RESULT;
int vg_client_post(vg_client *client, const char *path, json_object *body, json_object **ret,
                   GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* A POST that must not be executed twice, so that it can safely be retried. */
struct vg_client_once {
    const char *key; /* Idempotency-Key */
    bool sent;       /* out: vgpud may have received it, even without an answer */
    char *location;  /* out: the answer's Location, or NULL; the caller frees it */
};
int vg_client_post_once(vg_client *client, const char *path, json_object *body,
                        struct vg_client_once *once, json_object **ret,
                        GError **err) G_GNUC_WARN_UNUSED_RESULT;

int vg_client_delete(vg_client *client, const char *path, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Returns the text of the answer; the caller frees *ret. */
int vg_client_get_text(vg_client *client, const char *path, char **ret, size_t *ret_size,
                       GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Returns all items of a list, page by page. The caller releases *ret, an array of objects. path
 * must not have a marker yet. */
int vg_client_list(vg_client *client, const char *path, json_object **ret,
                   GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* The same, but at most the first `limit` items. */
int vg_client_list_some(vg_client *client, const char *path, size_t limit, json_object **ret,
                        GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Returns start ("/v1/gpus/"), the escaped id and rest, joined to a path; the caller frees it. */
char *vg_client_path(const char *start, const char *id, const char *rest);

/* The same for "/v1/vms/". */
char *vg_client_vm_path(const char *id, const char *rest);

/* Reads server-sent events until on_event returns false or the daemon ends the stream. Comments are
 * skipped; `data` is the event's text. */
struct vg_client_event {
    const char *id; /* or NULL */
    const char *type;
    const char *data;
};
int vg_client_stream(vg_client *client, const char *path, const char *last_id,
                     bool (*on_event)(void *data, const struct vg_client_event *event), void *data,
                     GError **err) G_GNUC_WARN_UNUSED_RESULT;

#endif
