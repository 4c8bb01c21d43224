/* SPDX-License-Identifier: Apache-2.0
 *
 * Describes, for status, the providers, the GPUs and the processes that hold them.
 */
#include "config.h"

#include <string.h>

#include "guest/node.h"
#include "guest/provider.h"
#include "guest/util.h"
#include "guest/work-private.h"

static json_object *
look_providers(const struct vg_guest_work *work)
{
    json_object *list = json_object_new_array();

    for (size_t i = 0; vg_guest_providers[i]; i++) {
        json_object *about = json_object_new_object();
        json_object_object_add(about, "name", json_object_new_string(vg_guest_providers[i]->name));
        vg_guest_providers[i]->status(work, about);
        json_object_array_add(list, about);
    }
    return list;
}

/* Finds the functions that the request names, or all GPUs. Appends names that match nothing to the
 * list missing. */
static void
look_find(struct vg_guest_work *work, json_object *missing)
{
    const struct vg_guest_request *request = &work->order->request;
    size_t n;
    vg_guest_auto struct vg_guest_device *all = vg_guest_devices_read(work->config->root, &n);

    for (size_t i = 0; i < n && work->n_devices < VG_GUEST_DEVICES_MAX; i++) {
        struct vg_guest_device ignored;
        bool wanted = request->n_devices == 0 && vg_guest_device_is_gpu(&all[i]);
        for (size_t j = 0; j < request->n_devices && !wanted; j++)
            wanted = vg_guest_devices_match(&all[i], 1, &request->devices[j], &ignored) > 0;
        if (wanted)
            work->devices[work->n_devices++] = all[i];
    }
    for (size_t j = 0; j < request->n_devices; j++) {
        struct vg_guest_device ignored;
        char text[VG_GUEST_MESSAGE_MAX];
        if (vg_guest_devices_match(all, n, &request->devices[j], &ignored) > 0)
            continue;
        vg_guest_match_text(&request->devices[j], text, sizeof text);
        json_object_array_add(missing, json_object_new_string(text));
    }
}

static json_object *
look_device(const struct vg_guest_work *work, size_t i, const struct vg_guest_nodes *nodes)
{
    json_object *object = vg_guest_device_json(&work->devices[i]);
    json_object *paths = json_object_new_array(), *list = json_object_new_array();
    struct vg_guest_holder holders[VG_GUEST_STATUS_HOLDERS_MAX];
    struct vg_guest_nodes own = {.nodes = nodes->nodes};
    char class[16];

    /* The nodes of a function are adjacent. */
    while (own.nodes < nodes->nodes + nodes->n && own.nodes->device != i)
        own.nodes++;
    while (own.nodes + own.n < nodes->nodes + nodes->n && own.nodes[own.n].device == i)
        own.n++;
    for (size_t j = 0; j < own.n && j < VG_GUEST_STATUS_NODES_MAX; j++)
        json_object_array_add(paths, json_object_new_string(own.nodes[j].path));
    size_t total =
        vg_guest_holders_find(work->config->root, &own, holders, VG_GUEST_STATUS_HOLDERS_MAX);
    for (size_t j = 0; j < total && j < VG_GUEST_STATUS_HOLDERS_MAX; j++)
        json_object_array_add(list, vg_guest_holder_json(&holders[j]));
    vg_guest_put(class, sizeof class, "0x%06x", (unsigned int)work->devices[i].class);
    json_object_object_add(object, "class", json_object_new_string(class));
    json_object_object_add(object, "nodes", paths);
    json_object_object_add(object, "holders", list);
    json_object_object_add(object, "holders_total", json_object_new_int64((int64_t)total));
    return object;
}

json_object *
vg_guest_look_json(const struct vg_guest_config *config, const struct vg_guest_order *order)
{
    struct vg_guest_work work = {.config = config, .order = order};
    json_object *object = json_object_new_object(), *devices = json_object_new_array();
    json_object *missing = json_object_new_array();
    struct vg_guest_nodes nodes;

    look_find(&work, missing);
    vg_guest_nodes_read(config->root, work.devices, work.n_devices, &nodes);
    for (size_t i = 0; i < work.n_devices; i++)
        json_object_array_add(devices, look_device(&work, i, &nodes));
    vg_guest_nodes_clear(&nodes);
    json_object_object_add(object, "providers", look_providers(&work));
    json_object_object_add(object, "devices", devices);
    json_object_object_add(object, "missing", missing);
    return object;
}
