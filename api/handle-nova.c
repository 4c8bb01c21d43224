/* SPDX-License-Identifier: Apache-2.0
 *
 * Handles the OpenStack scheduler's query for the hosts that could take an instance.
 */
#include "config.h"

#include <inttypes.h>
#include <string.h>

#include "api/nova-specs.h"
#include "api/route.h"
#include "base/json.h"
#include "model/score.h"

#define BODY_DEPTH 32
#define GPUS_MAX   64
#define HOST_BYTES 256 /* the approximate size of the answer for one host */

/* ---- the question ---- */

static int
nova_read_text(const struct vg_json_node *object, const char *name, enum vg_json_need need,
               const char **ret, GError **err)
{
    struct vg_json_node node;
    int found = vg_json_member(object, name, need, &node, err);

    return found == 1 ? vg_json_string(&node, VG_ARRIVAL_NAME_MAX, ret, err) : found;
}

static int
nova_read_int(const struct vg_json_node *object, const char *name, int64_t min, int64_t max,
              int64_t *ret, GError **err)
{
    struct vg_json_node node;
    int found = vg_json_member(object, name, VG_JSON_OPTIONAL, &node, err);

    return found == 1 ? vg_json_int64(&node, min, max, ret, err) : found;
}

static int
nova_read_class(const char *name, int *ret, GError **err)
{
    for (int i = 0; name && vg_vm_class_names[i]; i++) {
        if (strcmp(vg_vm_class_names[i], name) == 0) {
            *ret = i;
            return 0;
        }
    }
    return name ? vg_error(err, VG_E_INVALID, "instance.class: '%s' is no class of VMs", name) : 0;
}

static int
nova_read_instance(const struct vg_json_node *root, struct vg_arrival_query *query, GError **err)
{
    const char *uuid = NULL, *class_name = NULL, *gpu_type = NULL;
    struct vg_json_node instance, specs;

    if (vg_json_member(root, "instance", VG_JSON_REQUIRED, &instance, err) < 0 ||
        vg_json_object(&instance, err) < 0)
        return -1;
    /* Extra specs in the query take precedence over the flavor's. */
    int found = vg_json_member(&instance, "extra_specs", VG_JSON_OPTIONAL, &specs, err);
    if (found < 0 || (found == 1 && vg_json_object(&specs, err) < 0))
        return -1;
    if (found == 1)
        vg_nova_specs_read(specs.value, query);
    if (nova_read_text(&instance, "uuid", VG_JSON_OPTIONAL, &uuid, err) < 0 ||
        nova_read_text(&instance, "class", VG_JSON_OPTIONAL, &class_name, err) < 0 ||
        nova_read_text(&instance, "gpu_type", VG_JSON_OPTIONAL, &gpu_type, err) < 0 ||
        nova_read_int(&instance, "vcpus", 1, 4096, &query->vcpus, err) < 0 ||
        nova_read_class(class_name, &query->vm_class, err) < 0)
        return -1;
    query->uuid = uuid ? g_ascii_strdown(uuid, -1) : NULL;
    if (gpu_type && *gpu_type) {
        g_free(query->gpu_type);
        query->gpu_type = g_strdup(gpu_type);
        query->gpus = MAX(query->gpus, 1);
    }
    return nova_read_int(&instance, "gpus", 0, GPUS_MAX, &query->gpus, err);
}

static int
nova_read_hosts(const struct vg_json_node *root, const char *name_member, const char *other_member,
                struct vg_arrival_query *query, GError **err)
{
    struct vg_json_node hosts;

    if (vg_json_member(root, "hosts", VG_JSON_REQUIRED, &hosts, err) < 0 ||
        vg_json_array(&hosts, VG_ARRIVAL_HOSTS_MAX, err) < 0)
        return -1;
    for (size_t i = 0; i < vg_json_length(&hosts); i++) {
        const struct vg_json_node item = vg_json_item(&hosts, i);
        const char *name = NULL, *other = NULL;
        if (vg_json_object(&item, err) < 0 ||
            nova_read_text(&item, name_member, VG_JSON_REQUIRED, &name, err) < 0 ||
            nova_read_text(&item, other_member, VG_JSON_OPTIONAL, &other, err) < 0)
            return -1;
        g_autofree char *lower = other ? g_ascii_strdown(other, -1) : NULL;
        vg_arrival_add_host(query, name, lower);
    }
    return 0;
}

static json_object *
nova_parse(struct vg_request *request)
{
    const GByteArray *body = request->body;
    GError *err = NULL;
    json_object *document = vg_json_parse(body ? (const char *)body->data : "",
                                          body ? body->len : 0, VG_LARGE_BODY, BODY_DEPTH, &err);

    if (!document)
        vg_answer_error(request, err);
    return document;
}

/* ---- our own answer ---- */

static void
nova_append_string(GString *text, const char *value)
{
    const char *at = value;

    while (*at >= ' ' && *at <= '~' && *at != '"' && *at != '\\')
        at++;
    if (!*at) {
        g_string_append_c(text, '"');
        g_string_append_len(text, value, at - value);
        g_string_append_c(text, '"');
        return;
    }
    g_autoptr(json_object) string = vg_json_new_string(value);
    g_string_append(text, json_object_to_json_string_ext(string, JSON_C_TO_STRING_NOSLASHESCAPE));
}

/* Writes a host as text. For 1,000 hosts, a JSON object would take twice as long, mostly for memory
 * allocation. */
static void
nova_append_host(GString *text, const struct vg_arrival_host *host)
{
    char score[VG_JSON_DOUBLE_LEN];

    g_string_append(text, "{\"name\":");
    nova_append_string(text, host->name);
    g_string_append(text, ",\"verdict\":\"");
    g_string_append(text, vg_arrival_verdict_names[host->verdict]);
    g_string_append(text, "\",\"score\":");
    g_string_append(text, vg_json_format_double(score, host->score));
    g_string_append(text, ",\"reason\":");
    nova_append_string(text, host->text);
    if (host->age_ms < 0)
        g_string_append(text, ",\"age_ms\":null}");
    else
        g_string_append_printf(text, ",\"age_ms\":%" PRId64 "}", host->age_ms);
}

/* Creates {"hosts", "class", "class_from"}. Class names need no escaping. */
static char *
nova_answer_text(const struct vg_arrival_query *query)
{
    const int vm_class = query->expected_class;
    GString *text = g_string_sized_new(query->hosts->len * HOST_BYTES + HOST_BYTES);

    g_string_append(text, "{\"hosts\":[");
    for (guint i = 0; i < query->hosts->len; i++) {
        if (i > 0)
            g_string_append_c(text, ',');
        nova_append_host(text, query->hosts->pdata[i]);
    }
    g_string_append(text, "],\"class\":");
    if (vm_class >= 0)
        g_string_append_printf(text, "\"%s\"", vg_vm_class_names[vm_class]);
    else
        g_string_append(text, "null");
    g_string_append_printf(text, ",\"class_from\":\"%s\"}\n", vg_arrival_basis_names[query->basis]);
    return g_string_free(text, FALSE);
}

void
vg_handle_nova_placement(struct vg_request *request)
{
    g_autoptr(json_object) document = nova_parse(request);
    const struct vg_json_node root = vg_json_root(document);
    GError *err = NULL;

    if (!document)
        return;
    struct vg_arrival_query *query = vg_arrival_query_new();
    if (vg_json_object(&root, &err) < 0 || nova_read_instance(&root, query, &err) < 0 ||
        nova_read_hosts(&root, "name", "uuid", query, &err) < 0) {
        vg_answer_error(request, err);
        vg_arrival_query_free(query);
        return;
    }
    request->backend->plans->rate_arrival(request->backend->data, query);
    vg_answer_json_text(request, nova_answer_text(query));
    vg_arrival_query_free(query);
}

void
vg_handle_nova_approvals(struct vg_request *request)
{
    const struct vg_backend *backend = request->backend;
    g_autoptr(GPtrArray) list = backend->plans->list_approvals(backend->data);
    json_object *document = json_object_new_object(), *items = json_object_new_array();

    for (guint i = 0; i < list->len; i++) {
        const struct vg_approval *one = list->pdata[i];
        json_object *item = json_object_new_object();
        vg_json_add_string(item, "uuid", one->uuid);
        vg_json_add_string(item, "to", one->to);
        vg_json_add_bool(item, "moving", one->moving);
        vg_json_add_bool(item, "queued", one->queued);
        vg_json_append(items, item);
    }
    vg_json_add(document, "items", items);
    vg_answer_json(request, 200, document);
}

/* ---- SAP's hook: names in, names out ---- */

/* Returns a member of a dumped nova object: from its "nova_object.data" or, in a plain dump, from
 * the object itself. Returns NULL if it is missing. */
static json_object *
nova_member(json_object *object, const char *name)
{
    json_object *data = NULL, *value = NULL;

    if (!json_object_is_type(object, json_type_object))
        return NULL;
    if (json_object_object_get_ex(object, "nova_object.data", &data))
        object = data;
    return json_object_is_type(object, json_type_object) &&
                   json_object_object_get_ex(object, name, &value)
               ? value
               : NULL;
}

static const char *
nova_text(json_object *value)
{
    return json_object_is_type(value, json_type_string) ? json_object_get_string(value) : NULL;
}

/* Reads the request. Unexpected parts are ignored: the hook must never stop a boot. */
static void
nova_read_spec(json_object *spec, struct vg_arrival_query *query)
{
    json_object *flavor = nova_member(spec, "flavor");
    json_object *extra = nova_member(flavor, "extra_specs");
    const char *uuid = nova_text(nova_member(spec, "instance_uuid"));
    const int64_t vcpus = json_object_get_int64(nova_member(flavor, "vcpus"));

    query->uuid = uuid ? g_ascii_strdown(uuid, -1) : NULL;
    query->vcpus = CLAMP(vcpus, 1, 4096);
    vg_nova_specs_read(extra, query);
}

static double
nova_weight(json_object *weights, const char *host)
{
    json_object *value = NULL;

    return json_object_is_type(weights, json_type_object) &&
                   json_object_object_get_ex(weights, host, &value)
               ? json_object_get_double(value)
               : 0;
}

/* A host of the query, for sorting. */
struct nova_ranked {
    const struct vg_arrival_host *host;
    const char *name;
    double weight;
    guint at;
};

static int
nova_compare(const void *a, const void *b)
{
    const struct nova_ranked *x = a, *y = b;

    if (x->host->score < y->host->score || x->host->score > y->host->score)
        return x->host->score > y->host->score ? -1 : 1;
    if (x->weight < y->weight || x->weight > y->weight)
        return x->weight > y->weight ? -1 : 1;
    return x->at < y->at ? -1 : 1;
}

/* Ranks the hosts, best first, without unsuitable ones. If none would remain, all are retained,
 * because nova would accept an empty list. */
static json_object *
nova_rank(const struct vg_arrival_query *query, json_object *document)
{
    json_object *weights = nova_member(document, "weights"),
                *asked = nova_member(document, "hosts");
    g_autoptr(GArray) ranked = g_array_new(FALSE, FALSE, sizeof(struct nova_ranked));
    json_object *names = json_object_new_array();

    for (guint i = 0; i < query->hosts->len; i++) {
        const struct vg_arrival_host *host = query->hosts->pdata[i];
        const char *name = nova_text(nova_member(json_object_array_get_idx(asked, i), "host"));
        const struct nova_ranked one = {host, name, nova_weight(weights, name), i};
        if (host->verdict != VG_ARRIVAL_VETO)
            g_array_append_val(ranked, one);
    }
    g_array_sort(ranked, nova_compare);
    for (guint i = 0; i < ranked->len; i++)
        vg_json_append(names,
                       vg_json_new_string(g_array_index(ranked, struct nova_ranked, i).name));
    for (guint i = 0; ranked->len == 0 && i < query->hosts->len; i++)
        vg_json_append(names,
                       json_object_get(nova_member(json_object_array_get_idx(asked, i), "host")));
    return names;
}

void
vg_handle_nova_external(struct vg_request *request)
{
    g_autoptr(json_object) document = nova_parse(request);
    const struct vg_json_node root = vg_json_root(document);
    GError *err = NULL;

    if (!document)
        return;
    struct vg_arrival_query *query = vg_arrival_query_new();
    if (vg_json_object(&root, &err) < 0 ||
        nova_read_hosts(&root, "host", "hypervisor_hostname", query, &err) < 0) {
        vg_answer_error(request, err);
        vg_arrival_query_free(query);
        return;
    }
    nova_read_spec(nova_member(document, "spec"), query);
    request->backend->plans->rate_arrival(request->backend->data, query);
    json_object *object = json_object_new_object();
    vg_json_add(object, "hosts", nova_rank(query, document));
    vg_answer_json(request, 200, object);
    vg_arrival_query_free(query);
}
