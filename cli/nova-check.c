/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/nova-check.h"

#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/output.h"
#include "client/client.h"
#include "client/remote-address.h"
#include "model/arrival.h"

#define DEFAULT_PORT "8447"
#define TOKEN_BYTES  4096

/* The weigher's value for an unknown host. */
#define NEUTRAL 0.5

/* A small unknown instance, as the filter describes it. */
#define VCPUS     2
#define MEMORY_MB 4096

enum nova_state {
    NOVA_ANSWERS,
    NOVA_SLOW,   /* it answers, but after nova's time limit */
    NOVA_SILENT, /* no answer within VG_NOVA_CHECK_LIMIT_S */
    NOVA_UNREACHABLE,
    NOVA_REFUSED,
    NOVA_WRONG,  /* the answer is an error, or differs from the API description */
    NOVA_INVALID /* it is not a valid endpoint, and the filter excludes it */
};

static const char *const nova_state_names[] = {"answers", "slow",  "silent", "unreachable",
                                               "refused", "wrong", "invalid"};

struct nova_endpoint {
    const char *url;
    enum nova_state state;
    double time_ms;
    double limit_ms; /* nova's time limit after the previous endpoints, or 0 if it is not queried */
    json_object *answer;
    GError *error; /* the reason if the state is neither ANSWERS nor SLOW */
};

struct nova_check_run {
    const struct vg_nova_conf *conf;
    const struct vg_remote_args *remote; /* may be NULL */
    GPtrArray *hosts;                    /* char *, or NULL before the hosts are known */
    GArray *endpoints;                   /* struct nova_endpoint */
    /* the endpoint whose answer nova uses, or NULL if it gets none */
    const struct nova_endpoint *taken;
};

/* ---- an endpoint ---- */

/* Parses the URL like transport.py. args borrows *ret_text. */
static int
nova_read_url(const struct vg_nova_conf *conf, const char *text, struct vg_remote_args *args,
              char **ret_text, GError **err)
{
    if (g_str_has_prefix(text, "unix://")) {
        if (text[strlen("unix://")] != '/')
            return vg_error(err, VG_E_INVALID, "a unix socket must be written as unix:///PATH");
        *ret_text = g_uri_unescape_string(text + strlen("unix://"), NULL);
        if (!*ret_text)
            return vg_error(err, VG_E_INVALID, "a unix socket must be written as unix:///PATH");
        args->values[VG_REMOTE_SOCKET] = *ret_text;
        return 0;
    }
    if (vg_remote_check_server(text, err) < 0)
        return -1;
    g_autofree char *base = g_strdup(text);
    if (g_str_has_suffix(base, "/"))
        base[strlen(base) - 1] = '\0';
    *ret_text =
        vg_remote_names_port(text) ? g_strdup(base) : g_strconcat(base, ":" DEFAULT_PORT, NULL);
    args->values[VG_REMOTE_SERVER] = *ret_text;
    args->values[VG_REMOTE_CACERT] = conf->cafile;
    args->values[VG_REMOTE_TOKEN_FILE] = conf->token_file;
    return 0;
}

/* The filter reads its token for each request, even if a socket needs none. */
static int
nova_check_token(const struct vg_nova_conf *conf, const struct vg_remote_args *args, GError **err)
{
    g_autofree char *text = NULL;
    size_t size;

    if (!conf->token_file || !args->values[VG_REMOTE_SOCKET] ||
        vg_file_read(conf->token_file, TOKEN_BYTES, &text, &size, err) == 0)
        return 0;
    g_prefix_error(err, "[vgpud] token_file: ");
    return -1;
}

static vg_client *
nova_connect(const struct nova_check_run *check, const char *url, GError **err)
{
    struct vg_remote_args args = {0};
    g_autofree char *text = NULL;

    if (check->remote)
        args = *check->remote;
    else if (nova_read_url(check->conf, url, &args, &text, err) < 0 ||
             nova_check_token(check->conf, &args, err) < 0)
        return NULL;
    vg_client *client = vg_client_new(&args, err);
    if (client)
        vg_client_set_limit(
            client, MAX(VG_NOVA_CHECK_LIMIT_S, (int)((check->conf->timeout_ms + 999) / 1000)));
    return client;
}

/* ---- hosts ---- */

static void
nova_add_host(GPtrArray *hosts, const char *name)
{
    if (name && hosts->len < VG_ARRIVAL_HOSTS_MAX &&
        !g_ptr_array_find_with_equal_func(hosts, name, g_str_equal, NULL))
        g_ptr_array_add(hosts, g_strdup(name));
}

/* Lists the hosts that vgpud knows: its own and its peers'. */
static int
nova_find_hosts(struct nova_check_run *check, vg_client *client, GError **err)
{
    static const char *const no_lists[] = {NULL}, *const lists[] = {"items", NULL};
    g_autoptr(json_object) host = NULL, peers = NULL;

    if (vg_client_get(client, "/v1/host", no_lists, &host, err) < 0 ||
        vg_client_get(client, "/v1/peers", lists, &peers, err) < 0)
        return -1;
    GPtrArray *hosts = g_ptr_array_new_with_free_func(g_free);
    nova_add_host(hosts, json_object_get_string(vg_output_member(host, "name")));
    json_object *items = vg_output_member(peers, "items");
    for (size_t i = 0; i < vg_output_length(items); i++)
        nova_add_host(hosts, json_object_get_string(
                                 vg_output_member(json_object_array_get_idx(items, i), "host")));
    if (hosts->len == 0) {
        g_ptr_array_unref(hosts);
        return vg_error(err, VG_E_EXTERNAL,
                        "the answer to /v1/host does not contain the host's name");
    }
    check->hosts = hosts;
    return 0;
}

/* ---- the request ---- */

static json_object *
nova_make_body(const GPtrArray *names)
{
    json_object *body = json_object_new_object(), *instance = json_object_new_object(),
                *hosts = json_object_new_array();

    vg_json_add(instance, "uuid", NULL);
    vg_json_add(instance, "extra_specs", json_object_new_object());
    vg_json_add_int64(instance, "vcpus", VCPUS);
    vg_json_add_int64(instance, "memory_mb", MEMORY_MB);
    for (guint i = 0; i < names->len; i++) {
        json_object *host = json_object_new_object();
        vg_json_add_string(host, "name", names->pdata[i]);
        vg_json_add(host, "uuid", NULL);
        vg_json_append(hosts, host);
    }
    vg_json_add(body, "instance", instance);
    vg_json_add(body, "hosts", hosts);
    return body;
}

static int
nova_check_host(const struct vg_json_node *node, const char *name, GError **err)
{
    struct vg_json_node member;
    const char *text = NULL;
    double number;
    bool known = false;

    if (vg_json_member(node, "name", VG_JSON_REQUIRED, &member, err) < 0 ||
        vg_json_string(&member, VG_ARRIVAL_NAME_MAX, &text, err) < 0)
        return -1;
    if (strcmp(text, name) != 0)
        return vg_error(err, VG_E_INVALID, "the answer is for '%s', but the request was for '%s'",
                        text, name);
    if (vg_json_member(node, "verdict", VG_JSON_REQUIRED, &member, err) < 0 ||
        vg_json_string(&member, VG_ARRIVAL_NAME_MAX, &text, err) < 0)
        return -1;
    for (int i = VG_ARRIVAL_UNKNOWN; i <= VG_ARRIVAL_VETO; i++)
        known = known || strcmp(text, vg_arrival_verdict_names[i]) == 0;
    if (!known)
        return vg_error(err, VG_E_INVALID, "'%s' is not a known verdict", text);
    if (vg_json_member(node, "score", VG_JSON_REQUIRED, &member, err) < 0 ||
        vg_json_double(&member, -1e9, 1e9, &number, err) < 0)
        return -1;
    int has_age = vg_json_member(node, "age_ms", VG_JSON_OPTIONAL, &member, err);
    return has_age == 1 ? vg_json_double(&member, 0, 1e15, &number, err) : has_age;
}

/* Checks the answer like client.py. */
static int
nova_check_answer(json_object *answer, const GPtrArray *names, GError **err)
{
    const struct vg_json_node root = vg_json_root(answer);
    struct vg_json_node hosts;

    if (vg_json_member(&root, "hosts", VG_JSON_REQUIRED, &hosts, err) < 0 ||
        vg_json_array(&hosts, VG_ARRIVAL_HOSTS_MAX, err) < 0)
        return -1;
    if (vg_json_length(&hosts) != names->len)
        return vg_error(err, VG_E_INVALID,
                        "the answer is for %zu hosts, but the request was for %u",
                        vg_json_length(&hosts), names->len);
    for (guint i = 0; i < names->len; i++) {
        const struct vg_json_node host = vg_json_item(&hosts, i);
        if (nova_check_host(&host, names->pdata[i], err) < 0)
            return -1;
    }
    return 0;
}

static enum nova_state
nova_state_of(const GError *error)
{
    switch (error->code) {
    case VG_E_UNREACHABLE:
        return NOVA_UNREACHABLE;
    case VG_E_REFUSED:
        return NOVA_REFUSED;
    case VG_E_TIMEOUT:
        return NOVA_SILENT;
    default:
        return NOVA_WRONG;
    }
}

static int
nova_post(const struct nova_check_run *check, struct nova_endpoint *endpoint, GError **err)
{
    g_autoptr(vg_client) client = nova_connect(check, endpoint->url, err);
    g_autoptr(json_object) body = nova_make_body(check->hosts);
    const int64_t began_ns = vg_clock_monotonic_ns();
    GError *wrong = NULL;
    int status =
        client ? vg_client_post(client, "/v1/nova/placement", body, &endpoint->answer, err) : -1;

    endpoint->time_ms = (double)(vg_clock_monotonic_ns() - began_ns) / VG_NS_PER_MS;
    if (status == 0 && nova_check_answer(endpoint->answer, check->hosts, &wrong) < 0) {
        g_clear_pointer(&endpoint->answer, json_object_put);
        g_propagate_prefixed_error(err, wrong, "the answer is not from vgpud: ");
        status = -1;
    }
    return status;
}

static void
nova_query(struct nova_check_run *check, struct nova_endpoint *endpoint)
{
    g_autoptr(vg_client) client = nova_connect(check, endpoint->url, &endpoint->error);
    const int64_t began_ns = vg_clock_monotonic_ns();

    if (!client) {
        endpoint->state = endpoint->error->code == VG_E_INVALID ? NOVA_INVALID : NOVA_UNREACHABLE;
        return;
    }
    int status = check->hosts ? 0 : nova_find_hosts(check, client, &endpoint->error);
    endpoint->time_ms = (double)(vg_clock_monotonic_ns() - began_ns) / VG_NS_PER_MS;
    /* Use a separate connection, like the first request of nova-scheduler. */
    if (status == 0)
        status = nova_post(check, endpoint, &endpoint->error);
    endpoint->state = status == 0 ? NOVA_ANSWERS : nova_state_of(endpoint->error);
}

/* Determines the answer that nova would use. An endpoint may use its share of the remaining
 * time. */
static void
nova_take(struct nova_check_run *check)
{
    double left_ms = (double)check->conf->timeout_ms;
    guint usable = 0;

    for (guint i = 0; i < check->endpoints->len; i++)
        usable += g_array_index(check->endpoints, struct nova_endpoint, i).state != NOVA_INVALID;
    for (guint i = 0; i < check->endpoints->len; i++) {
        struct nova_endpoint *one = &g_array_index(check->endpoints, struct nova_endpoint, i);
        if (one->state == NOVA_INVALID)
            continue;
        one->limit_ms = left_ms / usable--;
        if (one->state == NOVA_ANSWERS && one->time_ms > one->limit_ms)
            one->state = NOVA_SLOW;
        if (check->taken)
            continue;
        if (one->state == NOVA_ANSWERS)
            check->taken = one;
        else
            left_ms -= MIN(one->time_ms, one->limit_ms);
    }
}

/* ---- nova's evaluation ---- */

struct nova_rating {
    json_object *row; /* borrowed */
    bool counts;      /* whether vgpud has recent data for the host */
    bool passes;
    double weight;
    guint at;
};

static int
nova_compare(const void *a, const void *b)
{
    const struct nova_rating *x = a, *y = b;

    if (x->passes != y->passes)
        return x->passes ? -1 : 1;
    if (x->weight < y->weight || x->weight > y->weight)
        return x->weight > y->weight ? -1 : 1;
    return x->at < y->at ? -1 : 1;
}

/* Adds the results of filters.py and weighers.py to a host of the answer. */
static struct nova_rating
nova_judge(const struct nova_check_run *check, json_object *row, guint at)
{
    const struct vg_nova_conf *conf = check->conf;
    json_object *age = vg_output_member(row, "age_ms");
    const char *verdict = json_object_get_string(vg_output_member(row, "verdict"));
    const double elapsed_ms = check->taken->time_ms, age_ms = json_object_get_double(age);
    const bool known = strcmp(verdict, vg_arrival_verdict_names[VG_ARRIVAL_UNKNOWN]) != 0;
    const bool old = known && age_ms + elapsed_ms > conf->stale_limit_s * 1000;
    const double score = CLAMP(json_object_get_double(vg_output_member(row, "score")), 0, 1);
    struct nova_rating opinion = {.row = row, .passes = true, .at = at};

    opinion.counts = known && !old;
    if (old)
        vg_json_add_string(row, "reason", "vgpud's figures are older than stale_limit");
    else if (opinion.counts && conf->filter)
        opinion.passes = strcmp(verdict, vg_arrival_verdict_names[VG_ARRIVAL_VETO]) != 0;
    if (conf->weigher)
        opinion.weight = (opinion.counts ? score : NEUTRAL) * conf->weight_multiplier;
    vg_json_add_bool(row, "passes", opinion.passes);
    vg_json_add_double(row, "weight", opinion.weight);
    return opinion;
}

/* Lists the hosts in the order of nova's preference. *ret_known is the number of hosts with recent
 * data. */
static json_object *
nova_make_hosts(const struct nova_check_run *check, guint *ret_known)
{
    json_object *hosts = json_object_new_array();
    json_object *answered = check->taken ? vg_output_member(check->taken->answer, "hosts") : NULL;
    g_autoptr(GArray) opinions = g_array_new(FALSE, FALSE, sizeof(struct nova_rating));

    *ret_known = 0;
    for (guint i = 0; i < vg_output_length(answered); i++) {
        json_object *row = json_object_array_get_idx(answered, i);
        const struct nova_rating opinion = nova_judge(check, row, i);
        g_array_append_val(opinions, opinion);
        *ret_known += opinion.counts;
    }
    g_array_sort(opinions, nova_compare);
    for (guint i = 0; i < opinions->len; i++)
        vg_json_append(hosts, json_object_get(g_array_index(opinions, struct nova_rating, i).row));
    return hosts;
}

static json_object *
nova_make_endpoints(const struct nova_check_run *check)
{
    json_object *rows = json_object_new_array();

    for (guint i = 0; i < check->endpoints->len; i++) {
        const struct nova_endpoint *one = &g_array_index(check->endpoints, struct nova_endpoint, i);
        json_object *row = json_object_new_object();
        vg_json_add_string(row, "url", one->url);
        vg_json_add_string(row, "state", nova_state_names[one->state]);
        vg_json_add_double(row, "time_ms", one->time_ms);
        vg_json_add_double(row, "limit_ms", one->limit_ms);
        vg_json_add_bool(row, "taken", one == check->taken);
        vg_json_add_string(row, "reason", one->error ? one->error->message : NULL);
        vg_json_append(rows, row);
    }
    return rows;
}

/* ---- the outcome ---- */

/* Reports why nova gets no answer. */
static int
nova_report_silence(const struct nova_check_run *check, GError **err)
{
    const GArray *endpoints = check->endpoints;
    const struct nova_endpoint *first = NULL;

    for (guint i = 0; i < endpoints->len && !first; i++) {
        const struct nova_endpoint *one = &g_array_index(endpoints, struct nova_endpoint, i);
        first = one->state == NOVA_INVALID ? NULL : one;
    }
    if (!first)
        return vg_error(err, VG_E_INVALID,
                        "[vgpud] endpoints names no vgpud, so nova places instances as if there "
                        "were no vgpud");
    const enum vg_error_code code =
        first->error ? (enum vg_error_code)first->error->code : VG_E_TIMEOUT;
    return vg_error(err, code,
                    "no endpoint gave a valid answer within %d ms, so nova places instances as "
                    "if there were no vgpud",
                    (int)check->conf->timeout_ms);
}

static int
nova_report_outcome(const struct nova_check_run *check, guint known, GError **err)
{
    const struct vg_nova_conf *conf = check->conf;

    if (!check->taken)
        return nova_report_silence(check, err);
    if (conf->filter && !conf->available)
        return vg_error(err, VG_E_INVALID,
                        "nova-scheduler does not start with this configuration: VgpudFilter is "
                        "in enabled_filters, but vgpud_nova.filters.VgpudFilter is not in "
                        "available_filters");
    if (!conf->filter && !conf->weigher)
        return vg_error(err, VG_E_INVALID,
                        "nova does not query vgpud: [filter_scheduler] has neither VgpudFilter in "
                        "enabled_filters nor VgpudWeigher in weight_classes");
    if (!conf->filter)
        return vg_error(err, VG_E_INVALID,
                        "VgpudFilter is not in enabled_filters of [filter_scheduler]: nova does "
                        "not exclude hosts that vgpud vetoes");
    if (!conf->weigher)
        return vg_error(err, VG_E_INVALID,
                        "vgpud_nova.weighers.VgpudWeigher is not in weight_classes of "
                        "[filter_scheduler]: vgpud's preferences do not count");
    if (known == 0)
        return vg_error(err, VG_E_NOT_FOUND,
                        "vgpud knows none of these hosts, or has no recent figures from them; "
                        "specify hypervisor names (`openstack hypervisor list`), and configure "
                        "the other hosts' vgpuds with [peer NAME] in vgpud.conf");
    return 0;
}

static json_object *
nova_make_document(const struct nova_check_run *check, GError **err)
{
    const struct vg_nova_conf *conf = check->conf;
    json_object *document = json_object_new_object();
    guint known;
    json_object *hosts = nova_make_hosts(check, &known);
    const bool works = nova_report_outcome(check, known, err) == 0;

    vg_json_add_string(document, "config", conf->path);
    vg_json_add_int64(document, "timeout_ms", conf->timeout_ms);
    vg_json_add_bool(document, "filter", conf->filter && conf->available);
    vg_json_add_bool(document, "weigher", conf->weigher);
    vg_json_add_double(document, "weight_multiplier", conf->weight_multiplier);
    vg_json_add(document, "endpoints", nova_make_endpoints(check));
    vg_json_add_string(document, "taken", check->taken ? check->taken->url : NULL);
    vg_json_add_bool(document, "fail_open", !check->taken);
    vg_json_add(document, "hosts", hosts);
    vg_json_add_bool(document, "works", works);
    return document;
}

json_object *
vg_nova_check(const struct vg_nova_conf *conf, const struct vg_remote_args *remote, char **hosts,
              GError **err)
{
    struct nova_check_run check = {
        .conf = conf,
        .remote = remote,
        .endpoints = g_array_new(FALSE, FALSE, sizeof(struct nova_endpoint)),
    };

    if (hosts) {
        check.hosts = g_ptr_array_new_with_free_func(g_free);
        for (; *hosts; hosts++)
            nova_add_host(check.hosts, *hosts);
    }
    for (guint i = 0; i < conf->endpoints->len; i++) {
        struct nova_endpoint endpoint = {.url = conf->endpoints->pdata[i]};
        nova_query(&check, &endpoint);
        g_array_append_val(check.endpoints, endpoint);
    }
    nova_take(&check);
    json_object *document = nova_make_document(&check, err);
    for (guint i = 0; i < check.endpoints->len; i++) {
        struct nova_endpoint *one = &g_array_index(check.endpoints, struct nova_endpoint, i);
        json_object_put(one->answer);
        g_clear_error(&one->error);
    }
    g_array_unref(check.endpoints);
    if (check.hosts)
        g_ptr_array_unref(check.hosts);
    return document;
}
