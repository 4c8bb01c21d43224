/* SPDX-License-Identifier: Apache-2.0
 *
 * Carries events of a libvirt connection from the virt-ev thread to the thread that reads them.
 */
#ifndef VG_HOST_VIRT_LISTEN_H
#define VG_HOST_VIRT_LISTEN_H

#include <stdint.h>

#include <glib.h>
#include <libvirt/libvirt.h>

enum vg_virt_news_kind {
    VG_VIRT_NEWS_DOMAIN,  /* something happened to a domain */
    VG_VIRT_NEWS_DEVICES, /* something happened to a device of the host */
    VG_VIRT_NEWS_CLOSED,  /* the connection is closed */
};

typedef struct vg_virt_news vg_virt_news;
struct vg_virt_news {
    enum vg_virt_news_kind kind;
    /* for DOMAIN, "stopped: destroyed" or "device-removed: ua-gpu0"; for CLOSED, the reason */
    char *text;
    char *vm;
    char *uuid;
};

void vg_virt_news_free(vg_virt_news *news);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_virt_news, vg_virt_news_free)

/* Returns the text of a life-cycle event of libvirt: "started", "stopped: destroyed",
 * "migrated-out", ... A guest that arrives is "started: incoming" long before it is
 * "migrated-in". */
char *vg_virt_lifecycle_text(int event, int detail);

typedef struct vg_virt_ear vg_virt_ear;

/* Creates the receiver. It may be freed while callbacks are in progress. */
vg_virt_ear *vg_virt_ear_new(void);
void vg_virt_ear_free(vg_virt_ear *ear);

/* Registers for all events that the connection offers, which may be none. It has to be detached
 * before the connection is closed. Called by the thread that has the connection. */
void vg_virt_ear_attach(vg_virt_ear *ear, virConnectPtr connection);
void vg_virt_ear_detach(vg_virt_ear *ear, virConnectPtr connection);

/* Returns the next event, or NULL after the timeout or when closed. If too many arrive in a burst,
 * the newest are dropped, but a closed connection and the fact that something happened are never
 * lost. */
vg_virt_news *vg_virt_ear_get(vg_virt_ear *ear, int64_t timeout_ns);

/* Ends all waits permanently. Any thread. */
void vg_virt_ear_close(vg_virt_ear *ear);

#endif
