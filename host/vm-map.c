/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "host/vm-map.h"

#include <string.h>

#include "base/error.h"

#define BLANKS    " \t\r"
#define WORDS_MAX 3

/* Splits the line in place. Returns the number of words, or WORDS_MAX + 1 if there are more. */
static size_t
split(char *line, char *words[WORDS_MAX])
{
    size_t n = 0;
    char *save = NULL;

    for (char *word = strtok_r(line, BLANKS, &save); word; word = strtok_r(NULL, BLANKS, &save)) {
        if (n == WORDS_MAX)
            return WORDS_MAX + 1;
        words[n++] = word;
    }
    return n;
}

static int
apply_line(char *line, vg_topology *topology, GError **err)
{
    char *words[WORDS_MAX] = {NULL};
    size_t n = split(line, words);
    guint64 pid;

    if (n == 0 || words[0][0] == '#')
        return 0;
    if (n < 2 || n > WORDS_MAX)
        return vg_error(err, VG_E_INVALID, "expected `pid name [uuid]`");
    if (!g_ascii_string_to_unsigned(words[0], 10, 1, VG_TID_LIMIT, &pid, NULL))
        return vg_error(err, VG_E_INVALID, "'%s' is not a process ID (1..%d)", words[0],
                        VG_TID_LIMIT);
    return vg_topology_name_vm(topology, (int32_t)pid, words[1], words[2], err);
}

int
vg_vm_map_apply(const char *label, const char *text, size_t size, vg_topology *topology,
                GError **err)
{
    size_t number = 0;

    if (size > VG_VM_MAP_TEXT_MAX)
        return vg_error(err, VG_E_INVALID, "%s: a VM map can have at most %d bytes", label,
                        VG_VM_MAP_TEXT_MAX);
    if (memchr(text, '\0', size) || !g_utf8_validate(text, (gssize)size, NULL))
        return vg_error(err, VG_E_INVALID, "%s: a VM map must be UTF-8 text", label);
    for (const char *at = text, *end = text + size; at < end; number++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *line_end = newline ? newline : end;
        g_autofree char *line = g_strndup(at, (size_t)(line_end - at));
        if (number == VG_VM_MAP_LINES_MAX)
            return vg_error(err, VG_E_INVALID, "%s: a VM map can have at most %d lines", label,
                            VG_VM_MAP_LINES_MAX);
        if (apply_line(line, topology, err) < 0) {
            g_prefix_error(err, "%s:%zu: ", label, number + 1);
            return -1;
        }
        at = newline ? newline + 1 : end;
    }
    return 0;
}

int
vg_vm_map_append(GString *map, int32_t pid, const char *name, const char *uuid, GError **err)
{
    g_autoptr(vg_topology) unused = vg_topology_new();
    bool has_uuid = uuid && uuid[0];

    if (strpbrk(name, BLANKS "\n"))
        return vg_error(err, VG_E_INVALID,
                        "the name '%s' contains blanks, which a VM map cannot "
                        "represent",
                        name);
    if (vg_topology_name_vm(unused, pid, name, has_uuid ? uuid : NULL, err) < 0)
        return -1;
    g_string_append_printf(map, "%d %s%s%s\n", pid, name, has_uuid ? " " : "",
                           has_uuid ? uuid : "");
    return 0;
}
