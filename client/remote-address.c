/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "client/remote-address.h"

#include <string.h>

#include <curl/curl.h>

#include "base/error.h"

static char *
remote_url_part(CURLU *url, CURLUPart part)
{
    char *text = NULL;

    if (curl_url_get(url, part, &text, part == CURLUPART_PORT ? CURLU_DEFAULT_PORT : 0) !=
        CURLUE_OK)
        return NULL;
    char *copy = g_strdup(text);
    curl_free(text);
    return copy;
}

int
vg_remote_parse_server(const char *server, char **ret_host, char **ret_port, GError **err)
{
    CURLU *url = curl_url();
    bool good = curl_url_set(url, CURLUPART_URL, server, 0) == CURLUE_OK;
    g_autofree char *scheme = remote_url_part(url, CURLUPART_SCHEME);
    g_autofree char *path = remote_url_part(url, CURLUPART_PATH);
    g_autofree char *host = remote_url_part(url, CURLUPART_HOST);
    g_autofree char *port = remote_url_part(url, CURLUPART_PORT);

    curl_url_cleanup(url);
    /* It may contain a password, which no message may show. */
    if (strchr(server, '@'))
        return vg_error(err, VG_E_INVALID,
                        "an address must not contain a user, password or token; specify a token "
                        "with --token-file");
    if (!good || g_strcmp0(scheme, "https") != 0 || g_strcmp0(path, "/") != 0 || !host || !port ||
        strpbrk(server, "?#"))
        return vg_error(err, VG_E_INVALID,
                        "'%s' does not have the form https://HOST:PORT; over the network, vgpud "
                        "accepts only TLS",
                        server);
    *ret_host = g_steal_pointer(&host);
    *ret_port = g_steal_pointer(&port);
    return 0;
}

bool
vg_remote_names_port(const char *server)
{
    CURLU *url = curl_url();
    char *port = NULL;
    const bool names = curl_url_set(url, CURLUPART_URL, server, 0) == CURLUE_OK &&
                       curl_url_get(url, CURLUPART_PORT, &port, 0) == CURLUE_OK;

    curl_free(port);
    curl_url_cleanup(url);
    return names;
}

int
vg_remote_check_server(const char *server, GError **err)
{
    g_autofree char *host = NULL;
    g_autofree char *port = NULL;

    return vg_remote_parse_server(server, &host, &port, err);
}
