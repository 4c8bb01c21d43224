/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "client/remote.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/printable.h"
#include "base/secret-file.h"
#include "client/contexts.h"
#include "client/remote-address.h"
#include "model/identity.h"

#define FILE_MAX_BYTES (4 * 1024 * 1024)

/* ---- precedence ---- */

/* The settings from one source. If several sources have a value, the first one is used. */
struct remote_layer {
    const char *values[VG_REMOTE_MAX];
    const char *from[VG_REMOTE_MAX];
};

static void
remote_set(struct vg_remote *remote, enum vg_remote_key key, const char *value, const char *from)
{
    g_free(remote->settings[key].value);
    g_free(remote->settings[key].from);
    remote->settings[key] =
        (struct vg_remote_setting){.value = g_strdup(value), .from = g_strdup(from)};
}

static bool
remote_layer_has_where(const struct remote_layer *layer)
{
    return layer->values[VG_REMOTE_SOCKET] || layer->values[VG_REMOTE_SERVER];
}

static void
remote_take(struct vg_remote *remote, const struct remote_layer *layer, enum vg_remote_key key)
{
    if (layer->values[key])
        remote_set(remote, key, layer->values[key], layer->from[key]);
}

/* A certificate and its key must come from the same source. */
static int
remote_take_files(struct vg_remote *remote, const struct remote_layer *const *layers, GError **err)
{
    for (; *layers; layers++) {
        const struct remote_layer *layer = *layers;
        if (!vg_remote_value(remote, VG_REMOTE_TOKEN_FILE))
            remote_take(remote, layer, VG_REMOTE_TOKEN_FILE);
        if (!vg_remote_value(remote, VG_REMOTE_CACERT))
            remote_take(remote, layer, VG_REMOTE_CACERT);
        if (vg_remote_value(remote, VG_REMOTE_CERT))
            continue;
        if (layer->values[VG_REMOTE_KEY] && !layer->values[VG_REMOTE_CERT])
            return vg_error(err, VG_E_INVALID,
                            "%s specifies a private key, but no certificate is specified",
                            layer->from[VG_REMOTE_KEY]);
        remote_take(remote, layer, VG_REMOTE_CERT);
        remote_take(remote, layer, VG_REMOTE_KEY);
    }
    return 0;
}

/* Fills *layer with values that are borrowed from the context. */
static void
remote_layer_of_context(const struct vg_context *context, const char *from,
                        struct remote_layer *layer)
{
    for (int i = 0; i < VG_REMOTE_MAX; i++) {
        layer->values[i] = context->values[i];
        layer->from[i] = from;
    }
}

/* *ret_context stays NULL if the current context is this machine, or if there is none. */
static int
remote_find_context(const struct vg_remote_args *args, const vg_contexts *contexts,
                    const struct vg_context **ret, GError **err)
{
    const char *name = args->context ? args->context : vg_contexts_current(contexts);

    if (!name || strcmp(name, VG_REMOTE_LOCAL) == 0)
        return 0;
    *ret = vg_contexts_find(contexts, name, err);
    return *ret ? 0 : -1;
}

static int
remote_check_where(struct vg_remote *remote, const struct remote_layer *options, GError **err)
{
    const struct vg_remote_setting *server = &remote->settings[VG_REMOTE_SERVER];
    GError *error = NULL;

    if (!server->value) {
        for (int i = VG_REMOTE_TOKEN_FILE; i < VG_REMOTE_MAX; i++) {
            if (options->values[i])
                return vg_error(err, VG_E_INVALID,
                                "%s applies only to a vgpud on the network (--server or "
                                "--context); this vgpud is at the socket '%s'",
                                options->from[i], vg_remote_value(remote, VG_REMOTE_SOCKET));
        }
        return 0;
    }
    if (vg_remote_parse_server(server->value, &remote->host, &remote->port, &error) == 0)
        return 0;
    g_propagate_prefixed_error(err, error, "%s: ", server->from);
    return -1;
}

static int
remote_put_together(const struct vg_remote_args *args, const struct remote_layer *options,
                    const struct remote_layer *environment, struct vg_remote *remote, GError **err)
{
    bool told =
        remote_layer_has_where(options) || (!args->context && remote_layer_has_where(environment));
    g_autoptr(vg_contexts) contexts = told ? NULL : vg_contexts_read(err);
    const struct vg_context *context = NULL;
    struct remote_layer named = {0};

    if (!told && (!contexts || remote_find_context(args, contexts, &context, err) < 0))
        return -1;
    g_autofree char *from = context ? g_strdup_printf("context '%s'", context->name) : NULL;
    if (context) {
        remote_layer_of_context(context, from, &named);
        remote->context = g_strdup(context->name);
    }
    /* With --context local, the environment still sets the path of this machine's socket. */
    struct remote_layer here = *environment;
    if (args->context && !context)
        here.values[VG_REMOTE_SERVER] = NULL;
    const struct remote_layer *where = remote_layer_has_where(options) ? options
                                       : context                       ? &named
                                                                       : &here;
    if (where->values[VG_REMOTE_SERVER] && where->values[VG_REMOTE_SOCKET])
        return vg_error(err, VG_E_INVALID, "%s and %s both name a vgpud; unset one of them",
                        where->from[VG_REMOTE_SERVER], where->from[VG_REMOTE_SOCKET]);
    remote_take(remote, where, VG_REMOTE_SERVER);
    remote_take(remote, where, VG_REMOTE_SOCKET);
    if (!vg_remote_value(remote, VG_REMOTE_SERVER) && !vg_remote_value(remote, VG_REMOTE_SOCKET))
        remote_set(remote, VG_REMOTE_SOCKET, VG_REMOTE_DEFAULT_SOCKET, "default");
    if (remote_check_where(remote, options, err) < 0)
        return -1;
    if (!vg_remote_value(remote, VG_REMOTE_SERVER))
        return 0;
    /* A context given by name takes precedence over the environment, like an option. */
    const struct remote_layer *const order[2][4] = {{options, environment, &named, NULL},
                                                    {options, &named, environment, NULL}};
    return remote_take_files(remote, order[args->context != NULL], err);
}

int
vg_remote_resolve(const struct vg_remote_args *args, struct vg_remote *ret, GError **err)
{
    struct remote_layer options = {0}, environment = {0};
    char *names[VG_REMOTE_MAX];
    struct vg_remote remote = {0};

    for (int i = 0; i < VG_REMOTE_MAX; i++) {
        const char *value = getenv(vg_remote_names[i].variable);
        names[i] = g_strconcat("--", vg_remote_names[i].option, NULL);
        options.values[i] = args->values[i];
        options.from[i] = names[i];
        environment.values[i] = value && value[0] ? value : NULL;
        environment.from[i] = vg_remote_names[i].variable;
    }
    int status = remote_put_together(args, &options, &environment, &remote, err);
    for (int i = 0; i < VG_REMOTE_MAX; i++)
        g_free(names[i]);
    if (status < 0)
        vg_remote_clear(&remote);
    else
        *ret = remote;
    return status;
}

void
vg_remote_clear(struct vg_remote *remote)
{
    for (int i = 0; i < VG_REMOTE_MAX; i++) {
        g_free(remote->settings[i].value);
        g_free(remote->settings[i].from);
    }
    g_free(remote->context);
    g_free(remote->host);
    g_free(remote->port);
    *remote = (struct vg_remote){0};
}

/* ---- files ---- */

void
vg_remote_warn_if_open(const char *path, const char *what)
{
    g_autofree char *fault = vg_secret_file_fault(path, what);
    g_autofree char *shown = fault ? vg_printable_text(fault) : NULL;

    if (shown)
        fprintf(stderr, "vgpuctl: warning: %s\n", shown);
}

static int
remote_file_error(const struct vg_remote *remote, enum vg_remote_key key, const char *why,
                  GError **err)
{
    return vg_error(err, VG_E_UNREACHABLE, "cannot reach vgpud at '%s': %s: %s",
                    vg_remote_value(remote, VG_REMOTE_SERVER), remote->settings[key].from, why);
}

/* Returns NULL if the file cannot be read. */
static char *
remote_read_file(const struct vg_remote *remote, enum vg_remote_key key, GError **err)
{
    g_autoptr(GError) error = NULL;
    char *text = NULL;
    size_t size;

    if (vg_file_read(vg_remote_value(remote, key), FILE_MAX_BYTES, &text, &size, &error) == 0)
        return text;
    remote_file_error(remote, key, error->message, err);
    return NULL;
}

static int
remote_read_token(const struct vg_remote *remote, char **ret, GError **err)
{
    g_autofree char *text = remote_read_file(remote, VG_REMOTE_TOKEN_FILE, err);

    if (!text)
        return -1;
    g_strstrip(text);
    if (vg_token_text_is_good(text)) {
        vg_remote_warn_if_open(vg_remote_value(remote, VG_REMOTE_TOKEN_FILE), "a token");
        *ret = g_steal_pointer(&text);
        return 0;
    }
    g_autofree char *why =
        g_strdup_printf("'%s' does not contain a token; the file must contain one line, as "
                        "`vgpuctl token create` prints it",
                        vg_remote_value(remote, VG_REMOTE_TOKEN_FILE));
    return remote_file_error(remote, VG_REMOTE_TOKEN_FILE, why, err);
}

/* The TLS library would otherwise prompt for a password on the terminal. */
static int
remote_check_key(const struct vg_remote *remote, enum vg_remote_key key, const char *text,
                 GError **err)
{
    const char *path = vg_remote_value(remote, key);
    g_autofree char *why = NULL;

    if (!strstr(text, "PRIVATE KEY-----"))
        why = g_strdup_printf("'%s' does not contain a private key in PEM format", path);
    else if (strstr(text, "ENCRYPTED"))
        why = g_strdup_printf("the private key in '%s' has a password; use a key without a "
                              "password, in a file that only you can read",
                              path);
    if (why)
        return remote_file_error(remote, key, why, err);
    vg_remote_warn_if_open(path, "a private key");
    return 0;
}

static int
remote_check_pem(const struct vg_remote *remote, enum vg_remote_key key, GError **err)
{
    if (!vg_remote_value(remote, key))
        return 0;
    g_autofree char *text = remote_read_file(remote, key, err);
    if (!text)
        return -1;
    if (key == VG_REMOTE_KEY)
        return remote_check_key(remote, key, text, err);
    if (!strstr(text, "-----BEGIN") || !strstr(text, "CERTIFICATE-----")) {
        g_autofree char *why = g_strdup_printf("'%s' does not contain a certificate in PEM format",
                                               vg_remote_value(remote, key));
        return remote_file_error(remote, key, why, err);
    }
    bool is_alone = key == VG_REMOTE_CERT && !vg_remote_value(remote, VG_REMOTE_KEY);
    return is_alone ? remote_check_key(remote, key, text, err) : 0;
}

int
vg_remote_read_files(const struct vg_remote *remote, char **ret_token, GError **err)
{
    *ret_token = NULL;
    if (remote_check_pem(remote, VG_REMOTE_CACERT, err) < 0 ||
        remote_check_pem(remote, VG_REMOTE_CERT, err) < 0 ||
        remote_check_pem(remote, VG_REMOTE_KEY, err) < 0)
        return -1;
    return vg_remote_value(remote, VG_REMOTE_TOKEN_FILE) ? remote_read_token(remote, ret_token, err)
                                                         : 0;
}
