/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a program without a shell: its arguments are passed verbatim. Its output is captured, it
 * does not receive the terminal's signals, and it is killed when this program ends. One thread.
 */
#ifndef VG_CLI_CHILD_H
#define VG_CLI_CHILD_H

#include <stdbool.h>
#include <stddef.h>

#include <glib.h>

/* Captured output: the first bytes of stdout, the last bytes of stderr. */
#define VG_CHILD_OUTPUT_MAX (256 * 1024)
#define VG_CHILD_ERRORS_MAX 4096

typedef struct vg_child vg_child;

/* Starts argv[0], searched in PATH, in the C locale. keep_fds stay open in it under the same
 * numbers; its stdin is empty. Fails with VG_E_NOT_FOUND if the program does not exist. */
vg_child *vg_child_new(const char *const *argv, const int *keep_fds, size_t n_keep, GError **err);

/* Kills the program if it is running, and reaps it. NULL is allowed. */
void vg_child_free(vg_child *child);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_child, vg_child_free)

/* Reads the program's output for at most timeout_ms, or until other_fd, unless it is -1, is
 * readable. Returns true if it has ended. */
bool vg_child_poll(vg_child *child, int other_fd, int timeout_ms);

/* After it has ended: returns whether it succeeded. Fails with VG_E_EXTERNAL and the end of its
 * stderr otherwise. */
int vg_child_result(const vg_child *child, GError **err);

/* Returns its stdout until now; borrowed. */
const char *vg_child_output(const vg_child *child);

#endif
