/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers for keys that do not produce characters. Other keys are represented by their characters.
 */
#ifndef VG_CLI_KEYS_H
#define VG_CLI_KEYS_H

enum vg_key {
    VG_KEY_NONE = 0,
    VG_KEY_ENTER = '\n',
    VG_KEY_BACKSPACE = '\b',
    VG_KEY_ESCAPE = 033,
    VG_KEY_DELETE = 0177, /* sent by the backspace key on most terminals */
    VG_KEY_UP = 0x200000, /* above all characters */
    VG_KEY_DOWN,
    VG_KEY_PAGE_UP,
    VG_KEY_PAGE_DOWN,
    VG_KEY_HOME,
    VG_KEY_END,
    VG_KEY_OTHER
};

#endif
