/* SPDX-License-Identifier: Apache-2.0
 *
 * A request to free slots for vGPUs, as text: "TYPE", "TYPE:N", or "nova" for the newest request
 * of nova that found no host. A whole GPU has its PCI ID as type: "10de:2331", "10de:2331:2".
 */
#ifndef VG_MODEL_FREE_UP_H
#define VG_MODEL_FREE_UP_H

#include <stdint.h>

#include <glib.h>

#define VG_FREE_UP_RULE "free-up"
#define VG_FREE_UP_NOVA "nova"

/* Maximum number of slots, which is also the maximum number of GPUs in a request of nova. */
#define VG_FREE_UP_MAX 64

/* Maximum length of the text in bytes. */
#define VG_FREE_UP_TEXT_MAX 255

/* Parses "TYPE" or "TYPE:N"; the caller frees *ret_type. Fails with VG_E_INVALID. */
int vg_free_up_parse(const char *text, char **ret_type, int64_t *ret_n,
                     GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Returns "TYPE:N"; the caller frees it. */
char *vg_free_up_text(const char *type, int64_t n);

#endif
