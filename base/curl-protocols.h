/* SPDX-License-Identifier: Apache-2.0
 *
 * Restricts the protocols of a libcurl handle, including with libcurl versions before 7.85. Any
 * thread, for a handle of its own. For files that include <curl/curl.h> and <string.h>.
 */
#ifndef VG_BASE_CURL_PROTOCOLS_H
#define VG_BASE_CURL_PROTOCOLS_H

/* protocols: "https" or "http,https". */
#if defined(LIBCURL_VERSION_NUM) && LIBCURL_VERSION_NUM >= 0x075500
# define vg_curl_set_protocols(curl, protocols)                                                    \
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, protocols)
#else
# define vg_curl_set_protocols(curl, protocols)                                                    \
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS,                                                        \
                   (long)(strcmp(protocols, "https") == 0 ? CURLPROTO_HTTPS                        \
                                                          : CURLPROTO_HTTPS | CURLPROTO_HTTP))
#endif

#endif
