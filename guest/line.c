/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "guest/line.h"

#include <stdlib.h>
#include <string.h>

#include "guest/util.h"

static void
line_add(struct vg_guest_line *line, const char *data, size_t size, vg_guest_line_fn *on_line,
         void *user)
{
    if (line->dropping)
        return;
    if (size > VG_GUEST_LINE_MAX - line->size) {
        line->dropping = true;
        line->size = 0;
        on_line(user, NULL, 0);
        return;
    }
    if (!line->data)
        line->data = vg_guest_alloc(VG_GUEST_LINE_MAX);
    memcpy(line->data + line->size, data, size);
    line->size += size;
}

void
vg_guest_line_feed(struct vg_guest_line *line, const char *data, size_t size,
                   vg_guest_line_fn *on_line, void *user)
{
    while (size > 0) {
        const char *end = memchr(data, '\n', size);
        size_t part = end ? (size_t)(end - data) : size;
        line_add(line, data, part, on_line, user);
        if (!end)
            return;
        if (!line->dropping) {
            size_t whole = line->size;
            if (whole > 0 && line->data[whole - 1] == '\r')
                whole--;
            if (whole > 0)
                on_line(user, line->data, whole);
        }
        vg_guest_line_reset(line);
        data += part + 1;
        size -= part + 1;
    }
}

void
vg_guest_line_reset(struct vg_guest_line *line)
{
    line->size = 0;
    line->dropping = false;
}

void
vg_guest_line_clear(struct vg_guest_line *line)
{
    free(line->data);
    *line = (struct vg_guest_line){0};
}
