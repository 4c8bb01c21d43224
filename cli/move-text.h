/* SPDX-License-Identifier: Apache-2.0
 *
 * Descriptions of a VM move for people. The caller frees all texts. Names in them are unchanged.
 */
#ifndef VG_CLI_MOVE_TEXT_H
#define VG_CLI_MOVE_TEXT_H

#include <stdint.h>

#include <glib.h>

#include "model/migration.h"

/* "80 ms", "12.3 s", "3 min 20 s", "1 h 02 min". */
char *vg_move_text_time(int64_t ns);

/* The same, but with tenths of a second below one second ("0.1 s"), for columns and for increasing
 * values. */
char *vg_move_text_seconds(int64_t ns);

/* "512 MiB", "1.50 GiB", "1.17 TiB". */
char *vg_move_text_bytes(int64_t bytes);

/* "4 forked children with 8 descriptors and 4 mappings of the GPUs inherited from them". */
char *vg_move_text_forked(int64_t children, int64_t descriptors, int64_t maps);

/* A state: "rolled back". */
const char *vg_move_text_state(enum vg_migration_state state);

/* "alpha is on host-b and has its GPUs". */
char *vg_move_text_where(const vg_migration *move);

/* "downtime 80 ms", or "downtime 1.2 s, the target was 500 ms". NULL if unknown. */
char *vg_move_text_downtime(const vg_migration *move);

/* "512 MiB of 1.00 GiB (50 %), 128 MiB/s, ETA 4.0 s": for a running copy. */
char *vg_move_text_copy(const struct vg_migration_progress *progress);

/* "has waited since 2026-11-25T19:02:11Z for libvirtd of 'h1': ...". NULL if it is not waiting. */
char *vg_move_text_waits(const vg_migration *move);

/* Returns its duration until now or in total, or 0 if the times are inconsistent. */
int64_t vg_move_text_took_ns(const vg_migration *move);

/* Appends external text line by line, wrapped at blanks to `width` columns and indented by
 * `indent`. */
void vg_move_text_append_wrapped(GString *to, int indent, int width, const char *text);

/* Describes the whole move in lines that fit `width` columns if possible. advice: what to do now,
 * or NULL. */
char *vg_move_text_story(const vg_migration *move, const char *advice, int width);

/* Returns the figures behind a verdict, "all VMs of h1 and h2 lost 1.20 cores in the 300 s before",
 * and so on; NULL if nothing was measured. The caller frees it. */
char *vg_move_text_verdict_figures(const struct vg_move_verdict *verdict);

#endif
