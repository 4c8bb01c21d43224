/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps memory use constant, regardless of the number of streams in a trace.
 */
#ifndef VG_TRACE_CTF_MEMORY_H
#define VG_TRACE_CTF_MEMORY_H

#include <glib.h>

/* babeltrace2 maps each stream file in windows of 8 MiB and keeps what it has read of a window
 * until it moves on, which on a host with many CPUs is most of the program's memory. This function
 * gives the pages of all mapped files below these directories (char *) back to the kernel; data
 * that are read again come from the page cache. */
void ctf_memory_release(const GPtrArray *dirs);

#endif
