/* SPDX-License-Identifier: Apache-2.0
 *
 * Handles other hosts: the list of peers, and the snapshots of this host or all hosts.
 */
#include "config.h"

#include <string.h>

#include "api/person.h"
#include "api/route.h"
#include "base/json.h"

void
vg_handle_peers(struct vg_request *request)
{
    const struct vg_backend *backend = request->backend;
    g_autoptr(GPtrArray) peers = backend->measurement->list_peers(backend->data);
    json_object *object = json_object_new_object();
    json_object *items = json_object_new_array(), *texts = json_object_new_array();
    g_autoptr(GPtrArray) doubts = backend->measurement->list_group_doubts(backend->data);

    for (guint i = 0; i < peers->len; i++)
        vg_json_append(items, vg_record_write(&vg_peer_info_record, peers->pdata[i]));
    for (guint i = 0; i < doubts->len; i++)
        vg_json_append(texts, vg_json_new_string(doubts->pdata[i]));
    vg_json_add(object, "items", items);
    vg_json_add(object, "host_group_warnings", texts);
    vg_answer_json(request, 200, object);
}

/* Adds doubts to the snapshot's note, up to its maximum size. */
static void
peers_add_notes(vg_snapshot *snapshot, GPtrArray *notes)
{
    if (snapshot->note)
        g_ptr_array_add(notes, g_strdup(snapshot->note));
    g_ptr_array_add(notes, NULL);
    g_autofree char *all = g_strjoinv("; ", (char **)notes->pdata);
    g_free(snapshot->note);
    /* The replacement of a truncated character has up to three bytes. */
    snapshot->note =
        g_utf8_make_valid(all, (gssize)MIN(strlen(all), VG_SNAPSHOT_TEXT_FIELD_MAX - 9));
}

static void
peers_run_snapshot(struct vg_request *request)
{
    const struct vg_backend *backend = request->backend;
    g_autoptr(vg_view) view = backend->measurement->view(backend->data);
    g_autoptr(GPtrArray) notes = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(vg_snapshot) snapshot = backend->measurement->gather(backend->data, view, notes);

    if (notes->len > 0)
        peers_add_notes(snapshot, notes);
    vg_answer_json(request, 200, vg_snapshot_to_json(snapshot));
}

void
vg_handle_snapshot(struct vg_request *request)
{
    const struct vg_backend *backend = request->backend;
    const char *peers = vg_query_get(&request->query, "peers");
    GError *err = NULL;

    request->lane = VG_LANE_ASK;
    if (vg_person_check_here(request, g_strcmp0(peers, "true") == 0, &err) < 0)
        vg_answer_error(request, err);
    else if (peers && strcmp(peers, "true") != 0 && strcmp(peers, "false") != 0)
        vg_answer_problem(request, VG_E_INVALID, "peers: '%s' is neither true nor false", peers);
    else if (peers && strcmp(peers, "true") == 0)
        request->job = peers_run_snapshot;
    else
        vg_answer_view(request, backend->measurement->view(backend->data), VG_BODY_SNAPSHOT);
}
