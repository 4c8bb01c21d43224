/* SPDX-License-Identifier: Apache-2.0
 *
 * The whole terminal, by curses: grids out, keys in. While it is open, the signals that end or stop
 * a program, and those of a changed size, are taken here, so that the terminal is as it was
 * whenever the program is not there. Main thread; one at a time.
 */
#ifndef VG_CLI_SCREEN_H
#define VG_CLI_SCREEN_H

#include <stdbool.h>

#include <glib.h>

#include "cli/grid.h"
#include "cli/keys.h"

typedef struct vg_screen vg_screen;

/* false: standard input or output is no terminal, or it has no screen to draw on (TERM is not set,
 * dumb or unknown). */
bool vg_screen_can_open(void);

/* Where it can be opened; NULL: curses fails all the same. */
vg_screen *vg_screen_open(void);

/* The terminal is as it was. NULL is fine. */
void vg_screen_close(vg_screen *screen);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_screen, vg_screen_close)

/* A blank grid as large as the screen, in the characters of the locale. */
vg_grid *vg_screen_grid(const vg_screen *screen);

/* Only what has changed is written. */
void vg_screen_draw(vg_screen *screen, const vg_grid *grid);

/* The next key that was pressed: a character or an enum vg_key; VG_KEY_NONE: no more. */
int vg_screen_key(vg_screen *screen);

/* Readable when there is a signal; owned by the screen. */
int vg_screen_signal_fd(const vg_screen *screen);

/* Takes the signals: stops the program where it shall stop, follows a new size. The number of one
 * that ends the program, or 0. */
int vg_screen_take_signals(vg_screen *screen);

/* Closes the screen and ends the program by a signal, as if it had not been taken. */
_Noreturn void vg_screen_die(vg_screen *take_screen, int signal_number);

#endif
