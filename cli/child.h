/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that is run for us, without a shell: its words are taken as they are. What it prints is
 * kept, it does not get the terminal's signals, and it does not outlive this program. One thread.
 */
#ifndef VG_CLI_CHILD_H
#define VG_CLI_CHILD_H

#include <stdbool.h>
#include <stddef.h>

#include <glib.h>

/* Kept of what it prints: the first bytes of stdout, the last bytes of stderr. */
#define VG_CHILD_OUTPUT_MAX (256 * 1024)
#define VG_CHILD_ERRORS_MAX 4096

typedef struct vg_child vg_child;

/* Starts argv[0], looked for in PATH, in the locale C. keep_fds stay open in it under the same
 * numbers; its stdin is empty. VG_E_NOT_FOUND if there is no such program. */
vg_child *vg_child_new(const char *const *argv, const int *keep_fds, size_t n_keep, GError **err);

/* Kills it if it runs, and reaps it. NULL is fine. */
void vg_child_free(vg_child *child);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_child, vg_child_free)

/* Takes what it prints, for at most timeout_ms, which other_fd (or -1) having something to read
 * shortens; true: it has ended. */
bool vg_child_poll(vg_child *child, int other_fd, int timeout_ms);

/* Of one that has ended: whether it ended well. VG_E_EXTERNAL with its last words if not. */
int vg_child_result(const vg_child *child, GError **err);

/* What it has printed on stdout so far; borrowed. */
const char *vg_child_output(const vg_child *child);

#endif
