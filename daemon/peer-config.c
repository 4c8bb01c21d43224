/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "daemon/peer-config.h"

#include <string.h>

#define AT_PEER(member) offsetof(struct vg_peer_config, member)

const struct vg_conf_key vg_peer_keys[VG_PEER_N_KEYS] = {
    {"peer", "url", VG_CONF_STRING, AT_PEER(url), "", 0, 1000, NULL,
     "URL of the peer's API: https://HOST:PORT."},
    {"peer", "token_file", VG_CONF_STRING, AT_PEER(token_file), "", 0, 4000, NULL,
     "File with a token of the peer, with at least the role reader; vgpud reads it for each "
     "request."},
    {"peer", "cert", VG_CONF_STRING, AT_PEER(cert), "", 0, 4000, NULL,
     "Instead of a token: PEM file with a client certificate that the peer accepts."},
    {"peer", "key", VG_CONF_STRING, AT_PEER(key), "", 0, 4000, NULL,
     "PEM file with the private key of cert; empty if cert contains it."},
    {"peer", "cacert", VG_CONF_STRING, AT_PEER(cacert), "", 0, 4000, NULL,
     "PEM file with the CA of the peer's certificate; empty for this machine's trusted CAs."},
    {"peer", "libvirt_uri", VG_CONF_STRING, AT_PEER(libvirt_uri), "", 0, 1000, NULL,
     "URI that this host's libvirt uses to reach the peer's libvirt, such as "
     "qemu+tls://HOST/system."},
    {"peer", "host", VG_CONF_STRING, AT_PEER(host), "", 0, 255, NULL,
     "Host name that the peer reports, if it differs from NAME and from the peer's certificate."},
    {"peer", "nova_host", VG_CONF_STRING, AT_PEER(nova_host), "", 0, 255, NULL,
     "nova's name for that host; empty for the hypervisor with the host's name."},
};

/* Returns the error in a group, or NULL. The caller frees it. */
static char *
peer_config_fault(const struct vg_peer_config *peer)
{
    const struct {
        const char *key, *path;
    } paths[] = {{"token_file", peer->token_file},
                 {"cert", peer->cert},
                 {"key", peer->key},
                 {"cacert", peer->cacert}};
    static const char scheme[] = "https://";

    if (!peer->url[0])
        return g_strdup("url, the address of this peer's API, is missing");
    /* The URL may contain a password, which no message may show. */
    if (strchr(peer->url, '@'))
        return g_strdup("url contains a user or password; use token_file or cert instead");
    if (!g_str_has_prefix(peer->url, scheme) || strlen(peer->url) == strlen(scheme) ||
        strpbrk(peer->url, "?# \t"))
        return g_strdup_printf("url: '%s' is not https://HOST:PORT", peer->url);
    for (size_t i = 0; i < G_N_ELEMENTS(paths); i++) {
        if (paths[i].path[0] && !g_path_is_absolute(paths[i].path))
            return g_strdup_printf("%s: '%s' is not an absolute path", paths[i].key, paths[i].path);
    }
    if (!peer->token_file[0] && !peer->cert[0])
        return g_strdup(
            "token_file and cert are both missing; a peer answers only clients that it knows");
    if (peer->key[0] && !peer->cert[0])
        return g_strdup("key needs cert");
    return NULL;
}

void
vg_peer_config_check(const struct vg_daemon_config *config, GString *errors)
{
    for (guint i = 0; i < config->peers->len; i++) {
        const struct vg_peer_config *peer = config->peers->pdata[i];
        g_autofree char *fault = peer_config_fault(peer);
        if (fault)
            g_string_append_printf(errors, "%s%s:%u: [peer %s] %s", errors->len > 0 ? "\n" : "",
                                   peer->item.file, peer->item.line, peer->item.name, fault);
    }
}

void
vg_peer_config_options(const struct vg_daemon_config *config, const char *own_host,
                       struct vg_peers_options *ret)
{
    struct vg_peer_options *peers = g_new0(struct vg_peer_options, config->peers->len);

    for (guint i = 0; i < config->peers->len; i++) {
        const struct vg_peer_config *peer = config->peers->pdata[i];
        peers[i] = (struct vg_peer_options){
            .name = peer->item.name,
            .url = peer->url,
            .token_file = peer->token_file,
            .cert = peer->cert,
            .key = peer->key,
            .cacert = peer->cacert,
            .libvirt_uri = peer->libvirt_uri,
            .host = peer->host,
        };
    }
    *ret = (struct vg_peers_options){
        .peers = peers,
        .n_peers = config->peers->len,
        .own_host = own_host,
        .refresh_ns = config->peers_refresh_ns,
        .deadline_ns = config->peers_deadline_ns,
    };
}
