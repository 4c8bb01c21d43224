/* SPDX-License-Identifier: Apache-2.0
 *
 * From paths to recordings of whatever format: one for each clock found (LTTng kernel and user
 * space of one boot are one, a perf trace beside them is another).
 */
#ifndef VG_TRACE_OPEN_H
#define VG_TRACE_OPEN_H

#include <stddef.h>

#include <glib.h>

#include "trace/alias.h"

/* Opens every path: a directory tree with CTF traces, or a trace text file (may be packed); "-" is
 * standard input. Text recordings come first, in the order of their paths, then CTF in the order
 * found. A path that does not exist, or where nothing is readable at all, is an error. aliases may
 * be NULL. */
GPtrArray *vg_recordings_open(const char *const *paths, size_t n_paths, vg_aliases *aliases,
                              GError **err);

#endif
