/* SPDX-License-Identifier: Apache-2.0
 *
 * Implements the protocol of a guest's channel (docs/vgpud-guest.7): creates lines for the agent,
 * and parses its answers, whose bytes arrive in pieces of any size. The guest is not trusted:
 * memory for its data is limited. Pure; one thread.
 */
#ifndef VG_ACTUATORS_GUEST_TALK_H
#define VG_ACTUATORS_GUEST_TALK_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "model/migration.h"

#define VG_GUEST_VERSION 1
/* The maximum sizes, in bytes, of one line without its newline, and of all data received over one
 * channel. */
#define VG_GUEST_LINE_MAX     131072
#define VG_GUEST_BYTES_MAX    (1 << 20)
#define VG_GUEST_MESSAGES_MAX 1000
/* The maximum size, in bytes, of a text that contains text from the guest. */
#define VG_GUEST_TEXT_MAX 2048

enum vg_guest_message_kind {
    VG_GUEST_PROGRESS,
    VG_GUEST_HELLO,
    VG_GUEST_PREPARED,
    VG_GUEST_RESUMED,
    VG_GUEST_STATUS,
    VG_GUEST_SWITCHED,
    VG_GUEST_PROXY,
    VG_GUEST_BUSY,  /* an error: the agent is working on another request */
    VG_GUEST_ERROR, /* any other error */
};

struct vg_guest_message {
    enum vg_guest_message_kind kind;
    char *text;    /* one sentence, printable */
    int64_t minor; /* for a HELLO: the minor version, which determines further features */
    int64_t ram_bytes;
    /* the guest is in its previous state; set for an ERROR */
    bool undone;
    bool unknown; /* set for an ERROR: the agent is too old to know the request */
    struct vg_guest_programs *programs; /* owned; NULL if the message has none */
    /* for a STATUS, true if the agent sees no obstacle to releasing its GPUs; otherwise text has
     * the reason */
    bool releasable;
    char *doubt; /* owned; for a STATUS, a possible obstacle to releasing its GPUs; may be NULL */
};
void vg_guest_message_clear(struct vg_guest_message *message);

typedef struct vg_guest_talk vg_guest_talk;

vg_guest_talk *vg_guest_talk_new(void);
void vg_guest_talk_free(vg_guest_talk *talk); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_guest_talk, vg_guest_talk_free)

/* Create lines to send, with their newline. The next answers must have the id of the line; an id
 * must not be reused for the same guest. devices: struct vg_move_device, identified by guest_path,
 * or by type for PCI devices without a path. A device with neither fails with VG_E_INVALID. */
char *vg_guest_talk_hello(vg_guest_talk *talk, int64_t id);
char *vg_guest_talk_order(vg_guest_talk *talk, int64_t id, const char *type, int64_t deadline_ms,
                          const GPtrArray *devices, GError **err);
/* Makes OpenCL programs run at this place after any `prepare` or `switch` created from now on. */
void vg_guest_talk_set_place(vg_guest_talk *talk, const char *opencl_at);

/* Creates the line that requests the agent's status of these devices. */
char *vg_guest_talk_status(vg_guest_talk *talk, int64_t id, const GPtrArray *devices, GError **err);
char *vg_guest_talk_cancel(int64_t id);

/* Creates the line that sets the place where OpenCL programs find a GPU, and the token for it; `at`
 * is NULL if the VM has no proxy. Agents support it from VG_GUEST_MINOR_PROXY on. */
#define VG_GUEST_MINOR_PROXY 4
char *vg_guest_talk_proxy(vg_guest_talk *talk, int64_t id, const char *at, const char *token);

/* Adds received bytes. Returns -1 with VG_E_EXTERNAL if a line is too long, or there are too many
 * bytes. */
int vg_guest_talk_feed(vg_guest_talk *talk, const char *data, size_t size, GError **err);

/* Returns 1 and the next message for the id, or 0 if more bytes are needed. Returns -1 with
 * VG_E_EXTERNAL if the guest violates the protocol. An answer that omits a device that was to be
 * released is an ERROR with undone false. Until the hello is answered, all other messages are
 * dropped, because they may be answers to an earlier host. */
int vg_guest_talk_next(vg_guest_talk *talk, struct vg_guest_message *ret, GError **err);

#endif
