/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "actuators/nova-cloud.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <yaml.h>

#include "base/error.h"
#include "base/secret-file.h"

#define SECRET_MAX 4096
#define CLOUDS_MAX (1024 * 1024)

static bool
cloud_given(const char *text)
{
    return text && *text;
}

static void
cloud_wipe(char *take_secret)
{
    if (take_secret)
        explicit_bzero(take_secret, strlen(take_secret));
    g_free(take_secret);
}

void
vg_nova_cloud_free(vg_nova_cloud *cloud)
{
    if (!cloud)
        return;
    g_free(cloud->auth_url);
    g_free(cloud->username);
    g_free(cloud->user_id);
    cloud_wipe(cloud->password);
    g_free(cloud->user_domain_name);
    g_free(cloud->user_domain_id);
    g_free(cloud->project_name);
    g_free(cloud->project_id);
    g_free(cloud->project_domain_name);
    g_free(cloud->project_domain_id);
    g_free(cloud->application_credential_id);
    cloud_wipe(cloud->application_credential_secret);
    g_free(cloud->region);
    g_free(cloud->interface);
    g_free(cloud->cacert);
    g_free(cloud);
}

bool
vg_nova_is_configured(const struct vg_nova_options *options)
{
    return cloud_given(options->cloud) || cloud_given(options->auth_url);
}

/* ---- files with secrets ---- */

/* Reads a file. Refuses a file that all users may read. */
static char *
cloud_read_file(const char *key, const char *path, size_t max, GError **err)
{
    g_autoptr(GError) bad = NULL;
    g_autofree char *text = NULL;
    struct stat st;
    size_t size;

    if (!g_path_is_absolute(path)) {
        vg_error(err, VG_E_INVALID, "%s: '%s' is not an absolute path", key, path);
        return NULL;
    }
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
        vg_error(err, VG_E_INVALID, "%s: '%s' is not a file", key, path);
        return NULL;
    }
    if (!g_file_get_contents(path, &text, &size, &bad)) {
        vg_error(err, VG_E_INVALID, "%s: %s", key, bad->message);
        return NULL;
    }
    g_autofree char *fault = vg_secret_file_fault(path, "a secret");
    if (fault) {
        vg_error(err, VG_E_INVALID, "%s: %s", key, fault);
        return NULL;
    }
    if (size > max || strlen(text) != size || !g_utf8_validate(text, -1, NULL)) {
        vg_error(err, VG_E_INVALID, "%s: '%s' is not a text file of at most %zu bytes", key, path,
                 max);
        return NULL;
    }
    return g_steal_pointer(&text);
}

static char *
cloud_read_secret(const char *key, const char *path, GError **err)
{
    char *text = cloud_read_file(key, path, SECRET_MAX, err);

    if (!text)
        return NULL;
    text[strcspn(text, "\r\n")] = '\0';
    if (*text)
        return text;
    g_free(text);
    vg_error(err, VG_E_INVALID, "%s: the first line of '%s' is empty", key, path);
    return NULL;
}

/* ---- clouds.yaml ---- */

/* Finds a member of a mapping. Returns NULL if there is none. */
static yaml_node_t *
cloud_member(yaml_document_t *document, const yaml_node_t *map, const char *name)
{
    if (!map || map->type != YAML_MAPPING_NODE)
        return NULL;
    for (const yaml_node_pair_t *pair = map->data.mapping.pairs.start;
         pair < map->data.mapping.pairs.top; pair++) {
        const yaml_node_t *key = yaml_document_get_node(document, pair->key);
        if (key && key->type == YAML_SCALAR_NODE &&
            strcmp((const char *)key->data.scalar.value, name) == 0)
            return yaml_document_get_node(document, pair->value);
    }
    return NULL;
}

static const char *
cloud_scalar(yaml_document_t *document, const yaml_node_t *map, const char *name)
{
    const yaml_node_t *node = cloud_member(document, map, name);

    return node && node->type == YAML_SCALAR_NODE && node->data.scalar.value[0]
               ? (const char *)node->data.scalar.value
               : NULL;
}

static void
cloud_take(char **member, yaml_document_t *document, const yaml_node_t *map, const char *name)
{
    const char *text = cloud_scalar(document, map, name);

    if (!text)
        return;
    g_free(*member);
    *member = g_strdup(text);
}

static void
cloud_take_auth(vg_nova_cloud *cloud, yaml_document_t *document, const yaml_node_t *auth)
{
    cloud_take(&cloud->auth_url, document, auth, "auth_url");
    cloud_take(&cloud->username, document, auth, "username");
    cloud_take(&cloud->user_id, document, auth, "user_id");
    cloud_take(&cloud->password, document, auth, "password");
    cloud_take(&cloud->user_domain_name, document, auth, "user_domain_name");
    cloud_take(&cloud->user_domain_id, document, auth, "user_domain_id");
    cloud_take(&cloud->project_name, document, auth, "project_name");
    cloud_take(&cloud->project_id, document, auth, "project_id");
    cloud_take(&cloud->project_domain_name, document, auth, "project_domain_name");
    cloud_take(&cloud->project_domain_id, document, auth, "project_domain_id");
    cloud_take(&cloud->application_credential_id, document, auth, "application_credential_id");
    cloud_take(&cloud->application_credential_secret, document, auth,
               "application_credential_secret");
}

/* Reads one entry. Returns 0 if an optional entry is missing. */
static int
cloud_take_document(vg_nova_cloud *cloud, yaml_document_t *document, const char *name,
                    bool optional, GError **err)
{
    const yaml_node_t *clouds =
        cloud_member(document, yaml_document_get_root_node(document), "clouds");
    const yaml_node_t *entry = cloud_member(document, clouds, name);
    const char *verify = cloud_scalar(document, entry, "verify");

    if (!entry || entry->type != YAML_MAPPING_NODE)
        return optional ? 0 : vg_error(err, VG_E_INVALID, "it has no cloud '%s'", name);
    if (verify && (g_ascii_strcasecmp(verify, "false") == 0 || strcmp(verify, "no") == 0))
        return vg_error(err, VG_E_INVALID,
                        "cloud '%s' has verify: %s, but vgpud sends its password only to a server "
                        "that it has verified; specify the CA with cacert",
                        name, verify);
    cloud_take_auth(cloud, document, cloud_member(document, entry, "auth"));
    cloud_take(&cloud->region, document, entry, "region_name");
    cloud_take(&cloud->interface, document, entry, "endpoint_type");
    cloud_take(&cloud->interface, document, entry, "interface");
    cloud_take(&cloud->cacert, document, entry, "cacert");
    return 0;
}

static int
cloud_parse(vg_nova_cloud *cloud, const char *text, const char *name, bool optional, GError **err)
{
    yaml_parser_t parser;
    yaml_document_t document;

    if (!yaml_parser_initialize(&parser))
        vg_bug("libyaml cannot start");
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, strlen(text));
    if (!yaml_parser_load(&parser, &document)) {
        vg_error(err, VG_E_INVALID, "line %zu is not YAML: %s", parser.problem_mark.line + 1,
                 parser.problem ? parser.problem : "it cannot be read");
        yaml_parser_delete(&parser);
        return -1;
    }
    int status = cloud_take_document(cloud, &document, name, optional, err);
    yaml_document_delete(&document);
    yaml_parser_delete(&parser);
    return status;
}

static int
cloud_read_yaml(vg_nova_cloud *cloud, const char *path, const char *name, bool optional,
                GError **err)
{
    char *text = cloud_read_file("clouds", path, CLOUDS_MAX, err);

    if (!text)
        return -1;
    int status = cloud_parse(cloud, text, name, optional, err);
    cloud_wipe(text);
    if (status < 0)
        g_prefix_error(err, "clouds: '%s': ", path);
    return status;
}

static int
cloud_read_clouds(vg_nova_cloud *cloud, const struct vg_nova_options *options, GError **err)
{
    g_autofree char *directory = g_path_get_dirname(options->clouds);
    g_autofree char *secure = g_build_filename(directory, "secure.yaml", NULL);

    if (cloud_read_yaml(cloud, options->clouds, options->cloud, false, err) < 0)
        return -1;
    if (!g_file_test(secure, G_FILE_TEST_EXISTS))
        return 0;
    return cloud_read_yaml(cloud, secure, options->cloud, true, err);
}

/* ---- the configuration itself ---- */

static char *
cloud_own(const char *text)
{
    return cloud_given(text) ? g_strdup(text) : NULL;
}

static int
cloud_read_keys(vg_nova_cloud *cloud, const struct vg_nova_options *options, GError **err)
{
    cloud->auth_url = cloud_own(options->auth_url);
    cloud->username = cloud_own(options->username);
    cloud->user_domain_name = cloud_own(options->user_domain_name);
    cloud->project_name = cloud_own(options->project_name);
    cloud->project_domain_name = cloud_own(options->project_domain_name);
    cloud->application_credential_id = cloud_own(options->application_credential_id);
    if (cloud_given(options->password_file)) {
        cloud->password = cloud_read_secret("password_file", options->password_file, err);
        if (!cloud->password)
            return -1;
    }
    if (cloud_given(options->application_credential_secret_file)) {
        cloud->application_credential_secret = cloud_read_secret(
            "application_credential_secret_file", options->application_credential_secret_file, err);
        if (!cloud->application_credential_secret)
            return -1;
    }
    return 0;
}

/* Adds "/v3" to the URL, which users often omit. */
static int
cloud_settle_url(vg_nova_cloud *cloud, GError **err)
{
    const char *url = cloud->auth_url;

    if (!url)
        return vg_error(err, VG_E_INVALID, "auth_url, Keystone's URL, is missing");
    if (strchr(url, '@'))
        return vg_error(err, VG_E_INVALID, "auth_url contains a user or password");
    if ((!g_str_has_prefix(url, "https://") && !g_str_has_prefix(url, "http://")) ||
        strpbrk(url, "?# \t"))
        return vg_error(err, VG_E_INVALID, "auth_url: '%s' is not https://HOST[:PORT][/PATH]", url);
    g_autoptr(GString) text = g_string_new(url);
    while (text->len > 0 && text->str[text->len - 1] == '/')
        g_string_truncate(text, text->len - 1);
    if (g_str_has_suffix(text->str, "/v2.0"))
        return vg_error(err, VG_E_INVALID,
                        "auth_url: '%s' is version 2 of Keystone's API; vgpud needs version 3",
                        url);
    if (!g_str_has_suffix(text->str, "/v3"))
        g_string_append(text, "/v3");
    g_free(cloud->auth_url);
    cloud->auth_url = g_strdup(text->str);
    return 0;
}

static int
cloud_check(const vg_nova_cloud *cloud, GError **err)
{
    if (cloud->application_credential_id || cloud->application_credential_secret) {
        if (!cloud->application_credential_id || !cloud->application_credential_secret)
            return vg_error(err, VG_E_INVALID,
                            "an application credential needs an id and a secret; one is missing");
        return 0;
    }
    if (!cloud->username && !cloud->user_id)
        return vg_error(err, VG_E_INVALID, "a username or an application credential is missing");
    if (!cloud->password)
        return vg_error(err, VG_E_INVALID, "the user's password is missing");
    if (!cloud->project_name && !cloud->project_id)
        return vg_error(err, VG_E_INVALID, "project_name is missing");
    return 0;
}

static void
cloud_default(char **member, const char *other, const char *text)
{
    if (!*member && !other)
        *member = g_strdup(text);
}

static int
cloud_settle(vg_nova_cloud *cloud, const struct vg_nova_options *options, GError **err)
{
    static const char url[] = "URL";
    size_t length;

    /* Settings in vgpud.conf override those in clouds.yaml. */
    if (cloud_given(options->region)) {
        g_free(cloud->region);
        cloud->region = g_strdup(options->region);
    }
    if (cloud_given(options->cacert)) {
        g_free(cloud->cacert);
        cloud->cacert = g_strdup(options->cacert);
    }
    cloud_default(&cloud->interface, NULL, options->interface);
    /* Older files contain "publicURL". */
    length = strlen(cloud->interface);
    if (length > strlen(url) && g_str_has_suffix(cloud->interface, url))
        cloud->interface[length - strlen(url)] = '\0';
    cloud_default(&cloud->user_domain_name, cloud->user_domain_id, "Default");
    cloud_default(&cloud->project_domain_name, cloud->project_domain_id, "Default");
    if (cloud->cacert && !g_path_is_absolute(cloud->cacert))
        return vg_error(err, VG_E_INVALID, "cacert: '%s' is not an absolute path", cloud->cacert);
    return cloud_settle_url(cloud, err) < 0 || cloud_check(cloud, err) < 0 ? -1 : 0;
}

vg_nova_cloud *
vg_nova_cloud_read(const struct vg_nova_options *options, GError **err)
{
    g_autoptr(vg_nova_cloud) cloud = g_new0(vg_nova_cloud, 1);
    int status;

    if (cloud_given(options->cloud) && cloud_given(options->auth_url)) {
        vg_error(err, VG_E_INVALID,
                 "cloud and auth_url are both set; use either clouds.yaml or these keys");
        return NULL;
    }
    status = cloud_given(options->cloud) ? cloud_read_clouds(cloud, options, err)
                                         : cloud_read_keys(cloud, options, err);
    if (status < 0 || cloud_settle(cloud, options, err) < 0)
        return NULL;
    return g_steal_pointer(&cloud);
}
