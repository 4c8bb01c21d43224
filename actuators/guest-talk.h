/* SPDX-License-Identifier: Apache-2.0
 *
 * Speaks the protocol of a guest's channel (docs/vgpud-guest.7): makes lines for the agent, and
 * reads its answers, whose bytes come in pieces of any size. The guest is not trusted: whatever it
 * sends takes bounded memory. Pure; one thread.
 */
#ifndef VG_ACTUATORS_GUEST_TALK_H
#define VG_ACTUATORS_GUEST_TALK_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "model/migration.h"

#define VG_GUEST_VERSION 1
/* The maximum sizes, in bytes, of one line without its newline, and of everything that comes over
 * one channel. */
#define VG_GUEST_LINE_MAX     131072
#define VG_GUEST_BYTES_MAX    (1 << 20)
#define VG_GUEST_MESSAGES_MAX 1000
/* The maximum size, in bytes, of a text that is made from the guest's words. */
#define VG_GUEST_TEXT_MAX 2048

enum vg_guest_message_kind {
    VG_GUEST_PROGRESS,
    VG_GUEST_HELLO,
    VG_GUEST_PREPARED,
    VG_GUEST_RESUMED,
    VG_GUEST_STATUS,
    VG_GUEST_SWITCHED,
    VG_GUEST_PROXY,
    VG_GUEST_BUSY,  /* an error: the agent works on another request */
    VG_GUEST_ERROR, /* any other error */
};

struct vg_guest_message {
    enum vg_guest_message_kind kind;
    char *text;    /* one sentence, printable */
    int64_t minor; /* of a HELLO: what the agent can say beyond its version */
    int64_t ram_bytes;
    /* whether the guest is as it was before; set for an ERROR */
    bool undone;
    bool unknown; /* set for an ERROR: the agent is too old to know such a request */
    struct vg_guest_programs *programs; /* owned; NULL if the message has none */
    /* for a STATUS, true if nothing that the agent sees keeps it from releasing its GPUs; otherwise
     * text has the reason */
    bool releasable;
    char
        *doubt; /* owned; for a STATUS, what may keep it from releasing its GPUs; NULL if nothing */
};
void vg_guest_message_clear(struct vg_guest_message *message);

typedef struct vg_guest_talk vg_guest_talk;

vg_guest_talk *vg_guest_talk_new(void);
void vg_guest_talk_free(vg_guest_talk *talk); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_guest_talk, vg_guest_talk_free)

/* Make lines to send, with their newline. The next answers must have the id of the line; no id may
 * be used twice for one guest. devices: struct vg_move_device, named by guest_path, or by type for
 * PCI devices without one; a device with neither is VG_E_INVALID. */
char *vg_guest_talk_hello(vg_guest_talk *talk, int64_t id);
char *vg_guest_talk_order(vg_guest_talk *talk, int64_t id, const char *type, int64_t deadline_ms,
                          const GPtrArray *devices, GError **err);
/* Has programs of OpenCL go on at this place after a `prepare` or `switch` that is made from now
 * on.
 */
void vg_guest_talk_set_place(vg_guest_talk *talk, const char *opencl_at);

/* Makes the line that asks for the agent's view of these devices. */
char *vg_guest_talk_status(vg_guest_talk *talk, int64_t id, const GPtrArray *devices, GError **err);
char *vg_guest_talk_cancel(int64_t id);

/* Makes the line that tells where programs of OpenCL find a GPU, and what they show there; at is
 * NULL where they find none. From VG_GUEST_MINOR_PROXY on, agents know it. */
#define VG_GUEST_MINOR_PROXY 4
char *vg_guest_talk_proxy(vg_guest_talk *talk, int64_t id, const char *at, const char *token);

/* Takes bytes. Returns -1 with VG_E_EXTERNAL if a line is too long, or there are too many bytes. */
int vg_guest_talk_feed(vg_guest_talk *talk, const char *data, size_t size, GError **err);

/* Returns 1 and the next message for the id, or 0 if more bytes have to come. Returns -1 with
 * VG_E_EXTERNAL if the guest breaks the protocol. An answer that does not name every device that
 * was to be released is an ERROR, and not undone. Until the hello is answered, everything else is
 * dropped, as it may be meant for an earlier host. */
int vg_guest_talk_next(vg_guest_talk *talk, struct vg_guest_message *ret, GError **err);

#endif
