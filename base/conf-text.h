/* SPDX-License-Identifier: Apache-2.0
 *
 * Configuration values as text. The caller frees them.
 */
#ifndef VG_BASE_CONF_TEXT_H
#define VG_BASE_CONF_TEXT_H

#include <stdint.h>

#include <glib.h>

char *conf_number_text(double number);
char *conf_limit_text(double limit);

/* A VG_CONF_COUNT. */
char *conf_count_text(int64_t count);

#endif
