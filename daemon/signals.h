/* SPDX-License-Identifier: Apache-2.0
 *
 * The signals of the daemon.
 */
#ifndef VG_DAEMON_SIGNALS_H
#define VG_DAEMON_SIGNALS_H

/* Blocks the signals that the main loop handles, and ignores SIGPIPE. Called before any other
 * thread is started; threads inherit this. */
void vg_signals_block(void);

#endif
