/* SPDX-License-Identifier: Apache-2.0
 *
 * Says what can be done about a move that has ended otherwise than somebody wanted. Pure; the
 * caller frees all texts.
 */
#ifndef VG_CLI_MOVE_ADVICE_H
#define VG_CLI_MOVE_ADVICE_H

#include "model/migration.h"

/* "vgpuctl migration VERB ID", with --peer where that is needed. peer: the one whose vgpud runs the
 * move; NULL: the vgpud that is asked does. */
char *vg_move_advice_command(const vg_migration *move, const char *peer, const char *verb);

/* Says what to do now, with the exact command, in words that go on a line with others; NULL: the
 * move goes on without waiting, is done, or was turned back as somebody wanted. */
char *vg_move_advice(const vg_migration *move, const char *peer);

#endif
