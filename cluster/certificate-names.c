/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cluster/certificate-names.h"

#include <string.h>

#include <glib.h>
#include <gnutls/x509.h>

/* The limits of names in a certificate. Further or longer names are ignored. */
#define NAMES_MAX      100
#define NAME_BYTES_MAX 255

/* Adds a name unless it is empty or contains a NUL. */
static void
names_add(GPtrArray *names, const char *name, size_t size)
{
    if (size > 0 && strnlen(name, size) == size)
        g_ptr_array_add(names, g_strndup(name, size));
}

static void
names_read_dns(gnutls_x509_crt_t certificate, GPtrArray *names)
{
    for (unsigned i = 0; i < NAMES_MAX; i++) {
        char name[NAME_BYTES_MAX + 1];
        size_t size = sizeof(name) - 1;
        const int kind = gnutls_x509_crt_get_subject_alt_name(certificate, i, name, &size, NULL);
        if (kind == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE)
            return;
        if (kind == GNUTLS_SAN_DNSNAME)
            names_add(names, name, size);
    }
}

static void
names_read_common(gnutls_x509_crt_t certificate, GPtrArray *names)
{
    for (unsigned i = 0; i < NAMES_MAX; i++) {
        char name[NAME_BYTES_MAX + 1];
        size_t size = sizeof(name);
        const int status = gnutls_x509_crt_get_dn_by_oid(certificate, GNUTLS_OID_X520_COMMON_NAME,
                                                         i, 0, name, &size);
        if (status == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE)
            return;
        if (status == 0)
            names_add(names, name, size);
    }
}

char **
vg_certificate_names(const char *pem)
{
    const gnutls_datum_t text = {(unsigned char *)pem, (unsigned)strlen(pem)};
    g_autoptr(GPtrArray) names = g_ptr_array_new();
    gnutls_x509_crt_t certificate;

    if (gnutls_x509_crt_init(&certificate) == 0) {
        if (gnutls_x509_crt_import(certificate, &text, GNUTLS_X509_FMT_PEM) == 0) {
            names_read_dns(certificate, names);
            names_read_common(certificate, names);
        }
        gnutls_x509_crt_deinit(certificate);
    }
    g_ptr_array_add(names, NULL);
    return (char **)g_ptr_array_free(g_steal_pointer(&names), FALSE);
}

bool
vg_certificate_is_of(char *const *names, const char *host)
{
    const size_t size = strlen(host);

    for (size_t i = 0; names && names[i]; i++) {
        const char *name = names[i];
        if (size > 0 && g_ascii_strncasecmp(name, host, size) == 0 &&
            (name[size] == '\0' || (name[size] == '.' && !memchr(host, '.', size))))
            return true;
    }
    return false;
}
