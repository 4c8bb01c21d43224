/* SPDX-License-Identifier: Apache-2.0
 *
 * The header Location of an HTTP response. Any thread.
 */
#ifndef VG_CLIENT_LOCATION_H
#define VG_CLIENT_LOCATION_H

#include <stddef.h>

/* Processes one header line, as a CURLOPT_HEADERFUNCTION. If it is Location, replaces *location,
 * which the caller frees; location may be NULL. Returns n * size. */
size_t vg_client_take_location(char *line, size_t size, size_t n, void *location);

#endif
