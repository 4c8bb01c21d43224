/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cluster/uri.h"

#include <stdbool.h>
#include <string.h>

#include "base/error.h"

#define MARK "%h"

static const char uri_scheme[] = "https://";

/* The characters that end an authority. */
static const char uri_ends[] = "/?#";

/* Returns whether a host contains only characters without a special meaning in URIs and command
 * lines. */
static bool
uri_is_host(const char *host, size_t size)
{
    static const char in_names[] = G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS ".-_";
    static const char in_addresses[] = G_CSET_DIGITS "abcdefABCDEF:.";

    if (size > 2 && host[0] == '[')
        return strspn(host + 1, in_addresses) == size - 2 && host[size - 1] == ']';
    return size > 0 && g_ascii_isalnum(host[0]) && strspn(host, in_names) >= size;
}

char *
vg_uri_host(const char *url, GError **err)
{
    const char *host = url + strlen(uri_scheme);
    size_t size;

    if (!g_str_has_prefix(url, uri_scheme) || strpbrk(url, "?#@\\ \t\r\n")) {
        vg_error(err, VG_E_INVALID, "it is not https://HOST:PORT");
        return NULL;
    }
    const size_t whole = strcspn(host, uri_ends);
    const char *bracket = host[0] == '[' ? memchr(host, ']', whole) : NULL;
    size = bracket ? (size_t)(bracket - host) + 1 : strcspn(host, ":/");
    const char *port = host + size;
    if (!uri_is_host(host, size) ||
        (*port == ':' ? strspn(port + 1, G_CSET_DIGITS) + 1 : 0) != whole - size) {
        vg_error(err, VG_E_INVALID, "its host is neither a name nor an address");
        return NULL;
    }
    return g_strndup(host, size);
}

/* Finds the host in a libvirt URI. Returns its start, or NULL if the URI has none. */
static const char *
uri_find_host(const char *uri, size_t *ret_size)
{
    const char *host = strstr(uri, "://");

    if (!host)
        return NULL;
    host += strlen("://");
    const char *end = host + strcspn(host, uri_ends);
    const char *user_end = memchr(host, '@', (size_t)(end - host));
    host = user_end ? user_end + 1 : host;
    const char *bracket = *host == '[' ? memchr(host, ']', (size_t)(end - host)) : NULL;
    *ret_size =
        bracket ? (size_t)(bracket - host) + 1 : MIN(strcspn(host, ":"), (size_t)(end - host));
    return *ret_size > 0 ? host : NULL;
}

int
vg_uri_template_check(const char *uri, GError **err)
{
    size_t size = 0;
    const char *host = uri_find_host(uri, &size);
    const char *mark = strstr(uri, MARK);

    if (!host || mark != host || size != strlen(MARK) || strstr(mark + 1, MARK))
        return vg_error(
            err, VG_E_INVALID,
            "'%s' does not contain %%h exactly once, as its host, as in qemu+tls://%%h/system",
            uri);
    return 0;
}

/* Returns whether a URI uses a transport that starts no program other than ssh. A QEMU URI with a
 * host and without a transport uses libvirt's TLS. */
static bool
uri_is_plain(const char *uri)
{
    static const char *const transports[] = {"tls", "ssh", "tcp"};
    const char *end = strstr(uri, "://");
    const char *plus = end ? memchr(uri, '+', (size_t)(end - uri)) : NULL;

    if (!end || strpbrk(uri, "?#"))
        return false;
    for (size_t i = 0; plus && i < G_N_ELEMENTS(transports); i++) {
        const size_t size = strlen(transports[i]);
        if ((size_t)(end - plus - 1) == size && memcmp(plus + 1, transports[i], size) == 0)
            return true;
    }
    return !plus;
}

char *
vg_uri_template_of(const char *libvirt_uri, GError **err)
{
    size_t size = 0;
    const char *host = uri_find_host(libvirt_uri, &size);

    if (!host || !uri_is_plain(libvirt_uri) || strstr(libvirt_uri, MARK)) {
        vg_error(err, VG_E_INVALID,
                 "'%s' is not DRIVER+TRANSPORT://HOST/PATH with the transport tls, ssh or tcp and "
                 "without parameters",
                 libvirt_uri);
        return NULL;
    }
    return g_strdup_printf("%.*s%s%s", (int)(host - libvirt_uri), libvirt_uri, MARK, host + size);
}

char *
vg_uri_template_fill(const char *uri_template, const char *host)
{
    const char *mark = strstr(uri_template, MARK);

    return g_strdup_printf("%.*s%s%s", (int)(mark - uri_template), uri_template, host,
                           mark + strlen(MARK));
}
