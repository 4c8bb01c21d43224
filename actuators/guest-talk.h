/* SPDX-License-Identifier: Apache-2.0
 *
 * What is said over a guest's channel (docs/vgpud-guest.7): lines for the agent, and what it
 * answers as bytes that come in any pieces. The guest is a stranger: whatever it sends takes
 * bounded memory. Pure; one thread.
 */
#ifndef VG_ACTUATORS_GUEST_TALK_H
#define VG_ACTUATORS_GUEST_TALK_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "model/migration.h"

#define VG_GUEST_VERSION 1
/* Of one line, without its newline; and of all that comes on one channel. */
#define VG_GUEST_LINE_MAX     131072
#define VG_GUEST_BYTES_MAX    (1 << 20)
#define VG_GUEST_MESSAGES_MAX 1000
/* Bytes of a text that is made of what the guest said. */
#define VG_GUEST_TEXT_MAX 1024

enum vg_guest_message_kind {
    VG_GUEST_PROGRESS,
    VG_GUEST_HELLO,
    VG_GUEST_PREPARED,
    VG_GUEST_RESUMED,
    VG_GUEST_STATUS,
    VG_GUEST_BUSY,  /* the error: it is at another request */
    VG_GUEST_ERROR, /* any other */
};

struct vg_guest_message {
    enum vg_guest_message_kind kind;
    char *text; /* one sentence, printable */
    int64_t ram_bytes;
    bool undone;                        /* ERROR: the guest is as it was before */
    struct vg_guest_programs *programs; /* owned; NULL: it tells of none */
    bool releasable; /* STATUS: nothing that the agent sees keeps it from releasing its GPUs; if
                      * false, text says what does */
};
void vg_guest_message_clear(struct vg_guest_message *message);

typedef struct vg_guest_talk vg_guest_talk;

vg_guest_talk *vg_guest_talk_new(void);
void vg_guest_talk_free(vg_guest_talk *talk); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_guest_talk, vg_guest_talk_free)

/* Lines to send, with their newline. Each has the id that answers are waited for from now on, of
 * which no two may ever be the same for a guest. devices: struct vg_move_device, whose guest_path
 * or, for PCI devices without, type says which it is; VG_E_INVALID if neither does. */
char *vg_guest_talk_hello(vg_guest_talk *talk, int64_t id);
char *vg_guest_talk_order(vg_guest_talk *talk, int64_t id, const char *type, int64_t deadline_ms,
                          const GPtrArray *devices, GError **err);
/* Asks what the agent sees of these devices. */
char *vg_guest_talk_status(vg_guest_talk *talk, int64_t id, const GPtrArray *devices, GError **err);
char *vg_guest_talk_cancel(int64_t id);

/* What came. -1 and VG_E_EXTERNAL: a line too long, or too much. */
int vg_guest_talk_feed(vg_guest_talk *talk, const char *data, size_t size, GError **err);

/* 1: the next message for the id; 0: more has to come; -1 and VG_E_EXTERNAL: it does not keep to
 * the protocol. Before the answer to the hello everything else is dropped, as it may be an earlier
 * host's. */
int vg_guest_talk_next(vg_guest_talk *talk, struct vg_guest_message *ret, GError **err);

#endif
