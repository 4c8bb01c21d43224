/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as what a guest sends to its host: no crash, and what is made of it can be shown: one
 * line, printable, bounded. A byte before each part of the input, which ends with its line, says
 * what happens before it: the host says hello, gives an order, or nothing; and whether the part
 * comes in one piece.
 */
#include "config.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "actuators/guest-talk.h"
#include "model/migration.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_text(const char *text)
{
    if (!text || strlen(text) > VG_GUEST_TEXT_MAX || !g_utf8_validate(text, -1, NULL))
        abort();
    for (const char *at = text; *at; at = g_utf8_next_char(at)) {
        if (!g_unichar_isprint(g_utf8_get_char(at)))
            abort();
    }
}

static void
check_program(const struct vg_guest_program *program)
{
    const char *const texts[] = {program->comm, program->state, program->why};

    for (size_t i = 0; i < G_N_ELEMENTS(texts); i++) {
        if (texts[i])
            check_text(texts[i]);
    }
    if (program->pid < 0 || program->gpu_bytes < 0 || program->stop_ns < 0)
        abort();
}

/* What the host says; its ids count from 1. */
static void
talk_say(vg_guest_talk *talk, uint8_t what, int64_t *id, const GPtrArray *devices)
{
    if (what % 4 == 0) {
        g_autofree char *line = vg_guest_talk_hello(talk, ++*id);
        if (!line)
            abort();
    } else if (what % 4 == 1) {
        g_autofree char *line = vg_guest_talk_order(talk, ++*id, "prepare", 1000, devices, NULL);
        if (!line)
            abort();
    }
}

/* false: the talk is over. */
static bool
talk_hear(vg_guest_talk *talk, const uint8_t *data, size_t size)
{
    struct vg_guest_message message = {0};
    int found = vg_guest_talk_feed(talk, (const char *)data, size, NULL);

    while (found == 0 && (found = vg_guest_talk_next(talk, &message, NULL)) == 1) {
        check_text(message.text);
        if (message.kind > VG_GUEST_ERROR || message.ram_bytes < 0)
            abort();
        for (guint i = 0; message.programs && i < message.programs->programs->len; i++)
            check_program(message.programs->programs->pdata[i]);
        vg_guest_message_clear(&message);
        found = 0;
    }
    return found == 0;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    g_autoptr(vg_guest_talk) talk = vg_guest_talk_new();
    g_autoptr(GPtrArray) devices = g_ptr_array_new();
    struct vg_move_device device = {.alias = (char *)"ua-gpu0",
                                    .guest_path = (char *)"0000:00/1.0"};
    int64_t id = 0;
    bool open = true;

    g_ptr_array_add(devices, &device);
    while (size > 0 && open) {
        uint8_t what = *data++;
        size--;
        const uint8_t *end = memchr(data, '\n', size);
        size_t part = end ? (size_t)(end + 1 - data) : size;
        size_t first = what & 8 ? part / 2 : part;
        talk_say(talk, what, &id, devices);
        open = talk_hear(talk, data, first) && talk_hear(talk, data + first, part - first);
        data += part;
        size -= part;
    }
    return 0;
}
