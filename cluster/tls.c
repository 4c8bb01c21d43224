/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cluster/tls.h"

#include <stddef.h>
#include <string.h>

#include "base/curl-protocols.h"

static const char *
tls_or_null(const char *text)
{
    return text && *text ? text : NULL;
}

void
vg_tls_prepare(CURL *curl, const char *protocols, const char *cacert, const char *cert,
               const char *key)
{
    vg_curl_set_protocols(curl, protocols);
    curl_easy_setopt(curl, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 1L);
    curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 2L);
    if (tls_or_null(cacert)) {
        curl_easy_setopt(curl, CURLOPT_CAINFO, cacert);
        curl_easy_setopt(curl, CURLOPT_CAPATH, NULL);
    }
    curl_easy_setopt(curl, CURLOPT_SSLCERT, tls_or_null(cert));
    curl_easy_setopt(curl, CURLOPT_SSLKEY, tls_or_null(key));
    /* Otherwise, a key with a password would cause a prompt on a terminal. */
    curl_easy_setopt(curl, CURLOPT_KEYPASSWD, "");
}
