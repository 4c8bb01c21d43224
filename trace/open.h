/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens recordings of any format at given paths, one for each clock found. LTTng kernel and
 * user-space traces of the same boot are one recording; a perf trace in the same directory is
 * another.
 */
#ifndef VG_TRACE_OPEN_H
#define VG_TRACE_OPEN_H

#include <stddef.h>

#include <glib.h>

#include "trace/alias.h"

/* Opens every path: a directory tree with CTF traces, or a trace text file (may be packed); "-" is
 * standard input. Text recordings come first, in the order of their paths, then CTF in the order
 * found. A path that does not exist, or where nothing is readable, is an error. aliases may be
 * NULL. */
GPtrArray *vg_recordings_open(const char *const *paths, size_t n_paths, vg_aliases *aliases,
                              GError **err);

#endif
