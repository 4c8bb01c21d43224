/* SPDX-License-Identifier: Apache-2.0
 *
 * Advice about a move that has not ended as intended. Pure; the caller frees all texts.
 */
#ifndef VG_CLI_MOVE_ADVICE_H
#define VG_CLI_MOVE_ADVICE_H

#include "model/migration.h"

/* Returns "vgpuctl migration VERB ID", with --peer if needed. peer is the peer whose vgpud runs
 * the move; NULL if the queried vgpud does. */
char *vg_move_advice_command(const vg_migration *move, const char *peer, const char *verb);

/* Returns what to do now, with the exact command, as text that can be part of a longer line.
 * Returns NULL if the move is running without waiting, is done, or was reversed on request. */
char *vg_move_advice(const vg_migration *move, const char *peer);

#endif
