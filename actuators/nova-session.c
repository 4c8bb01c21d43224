/* SPDX-License-Identifier: Apache-2.0
 *
 * Authenticates with Keystone, finds the compute API, and negotiates the microversion.
 */
#include "config.h"

#include "actuators/nova-session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"

/* Since 2.30, the scheduler checks the host given to os-migrateLive. Since 2.84, an action includes
 * the reason for its failure. vgpud needs nothing newer. */
#define MINOR_MIN 30
#define MINOR_MAX 84

/* A token is not used in the last quarter or the last minute of its lifetime. */
#define MARGIN_NS    (60 * VG_NS_PER_S)
#define MARGIN_PART  4
#define LIFE_DEFAULT (5 * 60 * VG_NS_PER_S)

/* ---- life ---- */

vg_nova *
vg_nova_new(vg_nova_cloud *take_cloud, int64_t limit_ns, int64_t poll_ns, const atomic_bool *leave)
{
    vg_nova *nova = g_new0(vg_nova, 1);

    nova->cloud = take_cloud;
    nova->limit_ns = limit_ns;
    nova->poll_ns = poll_ns;
    nova->leave = leave;
    nova->curl = curl_easy_init();
    if (!nova->curl)
        vg_bug("libcurl cannot start");
    return nova;
}

static void
session_forget_token(vg_nova *nova)
{
    if (nova->token)
        explicit_bzero(nova->token, strlen(nova->token));
    g_clear_pointer(&nova->token, g_free);
}

void
vg_nova_free(vg_nova *nova)
{
    if (!nova)
        return;
    session_forget_token(nova);
    curl_easy_cleanup(nova->curl);
    vg_nova_cloud_free(nova->cloud);
    g_free(nova->compute);
    g_free(nova);
}

/* ---- Keystone: the login ---- */

/* Creates {"name": ...} or {"id": ...}. */
static json_object *
session_named(const char *name, const char *id)
{
    json_object *object = json_object_new_object();

    vg_json_add_string(object, id ? "id" : "name", id ? id : name);
    return object;
}

static json_object *
session_in_domain(const char *name, const char *id, const char *domain, const char *domain_id)
{
    json_object *object = session_named(name, id);

    if (!id)
        vg_json_add(object, "domain", session_named(domain, domain_id));
    return object;
}

static json_object *
session_identity(const vg_nova_cloud *cloud)
{
    const bool is_user = !cloud->application_credential_id;
    const char *method = is_user ? "password" : "application_credential";
    json_object *identity = json_object_new_object(), *methods = json_object_new_array();
    json_object *how = json_object_new_object();

    vg_json_append(methods, vg_json_new_string(method));
    vg_json_add(identity, "methods", methods);
    if (is_user) {
        json_object *user = session_in_domain(cloud->username, cloud->user_id,
                                              cloud->user_domain_name, cloud->user_domain_id);
        vg_json_add_string(user, "password", cloud->password);
        vg_json_add(how, "user", user);
    } else {
        vg_json_add_string(how, "id", cloud->application_credential_id);
        vg_json_add_string(how, "secret", cloud->application_credential_secret);
    }
    vg_json_add(identity, method, how);
    return identity;
}

static char *
session_login(const vg_nova_cloud *cloud)
{
    g_autoptr(json_object) body = json_object_new_object();
    json_object *auth = json_object_new_object();

    vg_json_add(auth, "identity", session_identity(cloud));
    /* An application credential implies its project. */
    if (!cloud->application_credential_id) {
        json_object *scope = json_object_new_object();
        vg_json_add(scope, "project",
                    session_in_domain(cloud->project_name, cloud->project_id,
                                      cloud->project_domain_name, cloud->project_domain_id));
        vg_json_add(auth, "scope", scope);
    }
    vg_json_add(body, "auth", auth);
    return vg_json_to_text(body, false);
}

/* ---- Keystone: the address of nova ---- */

static bool
session_is_region(const vg_nova_cloud *cloud, json_object *endpoint)
{
    const char *name = vg_nova_text(endpoint, "region_id");

    if (!name)
        name = vg_nova_text(endpoint, "region");
    return !cloud->region || g_strcmp0(name, cloud->region) == 0;
}

/* Lists the compute endpoints for this region and interface, as an array of borrowed objects. */
static GPtrArray *
session_endpoints(const vg_nova_cloud *cloud, json_object *catalog)
{
    GPtrArray *found = g_ptr_array_new();
    const size_t n =
        json_object_is_type(catalog, json_type_array) ? json_object_array_length(catalog) : 0;

    for (size_t i = 0; i < n; i++) {
        json_object *service = json_object_array_get_idx(catalog, i);
        json_object *list = vg_nova_member(service, "endpoints");
        if (g_strcmp0(vg_nova_text(service, "type"), "compute") != 0 ||
            !json_object_is_type(list, json_type_array))
            continue;
        for (size_t k = 0; k < json_object_array_length(list); k++) {
            json_object *endpoint = json_object_array_get_idx(list, k);
            if (g_strcmp0(vg_nova_text(endpoint, "interface"), cloud->interface) == 0 &&
                session_is_region(cloud, endpoint) && vg_nova_text(endpoint, "url"))
                g_ptr_array_add(found, endpoint);
        }
    }
    return found;
}

/* Finds "/v2.1" in a URL. Returns NULL if it is not there. */
static const char *
session_find_v2(const char *url)
{
    const char *host = strstr(url, "://");
    const char *path = host ? strchr(host + 3, '/') : NULL;

    return path ? strstr(path, "/v2") : NULL;
}

/* Derives the URL of the compute API from the catalog, which has ".../v2.1", ".../v2.1/PROJECT", or
 * a URL without a version. */
static char *
session_compute_url(const char *url)
{
    GString *text = g_string_new(url);

    while (text->len > 0 && text->str[text->len - 1] == '/')
        g_string_truncate(text, text->len - 1);
    if (!session_find_v2(text->str))
        g_string_append(text, "/v2.1");
    return g_string_free(text, FALSE);
}

static int
session_take_catalog(vg_nova *nova, json_object *token, GError **err)
{
    const vg_nova_cloud *cloud = nova->cloud;
    g_autoptr(GPtrArray) found = session_endpoints(cloud, vg_nova_member(token, "catalog"));

    if (found->len == 0)
        return vg_error(err, VG_E_INVALID,
                        "Keystone's catalog has no %s endpoint for the compute service%s%s",
                        cloud->interface, cloud->region ? " in region " : "",
                        cloud->region ? cloud->region : "");
    const char *first = vg_nova_text(found->pdata[0], "url");
    for (guint i = 1; i < found->len; i++) {
        if (strcmp(vg_nova_text(found->pdata[i], "url"), first) != 0)
            return vg_error(
                err, VG_E_INVALID,
                "Keystone's catalog has several compute services: select one with region");
    }
    if (!g_str_has_prefix(first, "http://") && !g_str_has_prefix(first, "https://"))
        return vg_error(
            err, VG_E_INVALID,
            "'%s', the compute service in Keystone's catalog, is not an http:// or https:// URL",
            first);
    g_free(nova->compute);
    nova->compute = session_compute_url(first);
    return 0;
}

/* Returns the lifetime of a token. The clocks of both machines may differ, so only the difference
 * between the token's times is used. */
static int64_t
session_life_ns(json_object *token)
{
    const char *issued_at = vg_nova_text(token, "issued_at");
    const char *expires_at = vg_nova_text(token, "expires_at");
    g_autoptr(GTimeZone) utc = g_time_zone_new_utc();
    g_autoptr(GDateTime) issued = issued_at ? g_date_time_new_from_iso8601(issued_at, utc) : NULL;
    g_autoptr(GDateTime) expires =
        expires_at ? g_date_time_new_from_iso8601(expires_at, utc) : NULL;

    if (!issued || !expires)
        return LIFE_DEFAULT;
    return CLAMP(g_date_time_difference(expires, issued), 0, INT64_C(86400000000)) * VG_NS_PER_US;
}

static int
session_take_token(vg_nova *nova, const struct vg_nova_exchange *exchange, GError **err)
{
    json_object *token = vg_nova_member(exchange->document, "token");

    if (!exchange->token || !token)
        return vg_error(err, VG_E_EXTERNAL, "Keystone's answer contains no token");
    if (session_take_catalog(nova, token, err) < 0)
        return -1;
    const int64_t life_ns = session_life_ns(token);
    nova->token = g_strdup(exchange->token);
    nova->renew_ns = vg_clock_monotonic_ns() + life_ns - MIN(MARGIN_NS, life_ns / MARGIN_PART);
    return 0;
}

/* Requests a token and the URL of the compute API from Keystone, and replaces the old ones. */
static int
session_authenticate(vg_nova *nova, GError **err)
{
    g_autofree char *url = g_strconcat(nova->cloud->auth_url, "/auth/tokens", NULL);
    char *body = session_login(nova->cloud);
    struct vg_nova_exchange exchange = {
        .what = "Keystone", .method = "POST", .url = url, .body = body};

    session_forget_token(nova);
    int status = vg_nova_exchange_do(nova, &exchange, err);
    if (status == 0 && exchange.status == 401)
        status = vg_error(err, VG_E_DENIED,
                          "Keystone rejected vgpud's credentials (401); check the user or the "
                          "application credential in [nova]");
    else if (status == 0 && exchange.status != 200 && exchange.status != 201)
        status = vg_nova_exchange_refused(&exchange, err);
    if (status == 0)
        status = session_take_token(nova, &exchange, err);
    vg_nova_exchange_clear(&exchange);
    explicit_bzero(body, strlen(body));
    g_free(body);
    return status;
}

/* ---- nova: the version ---- */

/* Reads "2.90" as 90. Returns 0 if the version is malformed. */
static unsigned
session_minor(const char *version)
{
    char *end = NULL;

    if (!version || strncmp(version, "2.", 2) != 0)
        return 0;
    unsigned long minor = strtoul(version + 2, &end, 10);
    return *end || end == version + 2 || minor > 100000 ? 0 : (unsigned)minor;
}

/* Derives the URL of the version document, without the project. */
static char *
session_version_url(const char *compute)
{
    const char *version = session_find_v2(compute);
    const char *end = version ? strchr(version + 1, '/') : NULL;

    return end ? g_strdup_printf("%.*s/", (int)(end - compute), compute)
               : g_strconcat(compute, "/", NULL);
}

static int
session_take_version(vg_nova *nova, json_object *document, GError **err)
{
    json_object *version = vg_nova_member(document, "version");
    const char *highest = vg_nova_text(version, "version");
    const char *lowest = vg_nova_text(version, "min_version");
    const unsigned max = session_minor(highest), min = session_minor(lowest);

    if (!version)
        return vg_error(err, VG_E_EXTERNAL, "the compute service at '%s' reports no version",
                        nova->compute);
    if (max == 0)
        return vg_error(err, VG_E_REFUSED,
                        "nova is too old: it has no microversions, and vgpud needs 2.%d",
                        MINOR_MIN);
    if (max < MINOR_MIN)
        return vg_error(err, VG_E_REFUSED,
                        "nova is too old: it supports microversions 2.%u to 2.%u, and vgpud needs "
                        "2.%d",
                        min, max, MINOR_MIN);
    if (min > MINOR_MAX)
        return vg_error(err, VG_E_REFUSED,
                        "nova is too new: its oldest microversion is 2.%u, and vgpud supports up "
                        "to 2.%d",
                        min, MINOR_MAX);
    nova->minor = MIN(max, MINOR_MAX);
    return 0;
}

/* ---- requests ---- */

static void
session_add_headers(const vg_nova *nova, struct vg_nova_exchange *exchange)
{
    g_autofree char *token = g_strconcat("X-Auth-Token: ", nova->token, NULL);

    exchange->headers = curl_slist_append(exchange->headers, token);
    explicit_bzero(token, strlen(token));
    if (nova->minor == 0)
        return;
    g_autofree char *version = g_strdup_printf("OpenStack-API-Version: compute 2.%u", nova->minor);
    g_autofree char *old = g_strdup_printf("X-OpenStack-Nova-API-Version: 2.%u", nova->minor);
    exchange->headers = curl_slist_append(exchange->headers, version);
    exchange->headers = curl_slist_append(exchange->headers, old);
}

static int
session_request_once(vg_nova *nova, struct vg_nova_exchange *exchange, GError **err)
{
    if ((!nova->token || vg_clock_monotonic_ns() >= nova->renew_ns) &&
        session_authenticate(nova, err) < 0) {
        exchange->unsent = true;
        return -1;
    }
    session_add_headers(nova, exchange);
    return vg_nova_exchange_do(nova, exchange, err);
}

/* Sends a request. If the token was revoked, gets a new one and repeats the request. */
static int
session_request(vg_nova *nova, struct vg_nova_exchange *exchange, GError **err)
{
    const struct vg_nova_exchange again = *exchange;

    if (session_request_once(nova, exchange, err) < 0)
        return -1;
    if (exchange->status == 401) {
        vg_nova_exchange_clear(exchange);
        *exchange = again;
        nova->renew_ns = 0;
        if (session_request_once(nova, exchange, err) < 0)
            return -1;
    }
    if (exchange->status < 200 || exchange->status > 299)
        return vg_nova_exchange_refused(exchange, err);
    return 0;
}

static int
session_find_version(vg_nova *nova, GError **err)
{
    struct vg_nova_exchange exchange = {.what = "nova", .method = "GET"};

    if (!nova->token && session_authenticate(nova, err) < 0)
        return -1;
    g_autofree char *url = session_version_url(nova->compute);
    exchange.url = url;
    int status = session_request(nova, &exchange, err);
    if (status == 0)
        status = session_take_version(nova, exchange.document, err);
    vg_nova_exchange_clear(&exchange);
    return status;
}

int
vg_nova_ask(vg_nova *nova, const char *method, const char *path, const char *body,
            struct vg_nova_exchange *ret, GError **err)
{
    *ret =
        (struct vg_nova_exchange){.what = "nova", .method = method, .body = body, .unsent = true};
    if (nova->minor == 0 && session_find_version(nova, err) < 0)
        return -1;
    g_autofree char *url = g_strconcat(nova->compute, path, NULL);
    ret->url = url;
    ret->unsent = false;
    int status = session_request(nova, ret, err);
    ret->url = NULL;
    return status;
}

int
vg_nova_get(vg_nova *nova, const char *path, json_object **ret, GError **err)
{
    struct vg_nova_exchange exchange;
    int status = vg_nova_ask(nova, "GET", path, NULL, &exchange, err);

    if (status == 0 && !json_object_is_type(exchange.document, json_type_object))
        status = vg_error(err, VG_E_EXTERNAL, "nova's answer is not a JSON object");
    if (status == 0)
        *ret = g_steal_pointer(&exchange.document);
    vg_nova_exchange_clear(&exchange);
    return status;
}
