/* SPDX-License-Identifier: Apache-2.0
 *
 * Full-screen terminal access through curses: displays grids and reads keys. While it is open, it
 * handles the signals for termination, suspension and size changes, so that the terminal is
 * restored whenever the program ends or stops. Main thread; one at a time.
 */
#ifndef VG_CLI_SCREEN_H
#define VG_CLI_SCREEN_H

#include <stdbool.h>

#include <glib.h>

#include "cli/grid.h"
#include "cli/keys.h"

typedef struct vg_screen vg_screen;

/* Returns false if standard input or output is not a terminal, or the terminal cannot display a
 * screen (TERM is not set, dumb or unknown). */
bool vg_screen_can_open(void);

/* Call only if a screen can be opened. Returns NULL if curses fails nevertheless. */
vg_screen *vg_screen_open(void);

/* Restores the terminal. NULL is allowed. */
void vg_screen_close(vg_screen *screen);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_screen, vg_screen_close)

/* Returns a blank grid of the screen's size, in the locale's characters. */
vg_grid *vg_screen_grid(const vg_screen *screen);

/* Writes only the changes. */
void vg_screen_draw(vg_screen *screen, const vg_grid *grid);

/* Returns the next key pressed, a character or an enum vg_key, or VG_KEY_NONE if there are no
 * more. */
int vg_screen_key(vg_screen *screen);

/* Becomes readable when a signal arrives; owned by the screen. */
int vg_screen_signal_fd(const vg_screen *screen);

/* Handles signals: suspends the program if requested, and follows size changes. Returns the number
 * of a signal that ends the program, or 0. */
int vg_screen_take_signals(vg_screen *screen);

/* Closes the screen and ends the program with a signal, as if it had not been handled. */
_Noreturn void vg_screen_die(vg_screen *take_screen, int signal_number);

#endif
