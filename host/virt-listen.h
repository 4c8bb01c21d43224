/* SPDX-License-Identifier: Apache-2.0
 *
 * Events of a libvirt connection, carried from the virt-ev thread to the one that reads them.
 */
#ifndef VG_HOST_VIRT_LISTEN_H
#define VG_HOST_VIRT_LISTEN_H

#include <stdint.h>

#include <glib.h>
#include <libvirt/libvirt.h>

enum vg_virt_news_kind {
    VG_VIRT_NEWS_DOMAIN,  /* something happened to a domain */
    VG_VIRT_NEWS_DEVICES, /* to a device of the host */
    VG_VIRT_NEWS_CLOSED,  /* the connection is gone */
};

typedef struct vg_virt_news vg_virt_news;
struct vg_virt_news {
    enum vg_virt_news_kind kind;
    char *text; /* DOMAIN: "stopped: destroyed", "device-removed: ua-gpu0"; CLOSED: why */
    char *vm;
    char *uuid;
};

void vg_virt_news_free(vg_virt_news *news);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_virt_news, vg_virt_news_free)

/* "started", "stopped: destroyed", "migrated-out", ... of a life-cycle event of libvirt. A guest
 * that arrives is "started: incoming" long before it is "migrated-in". */
char *vg_virt_lifecycle_text(int event, int detail);

typedef struct vg_virt_ear vg_virt_ear;

/* May be freed while callbacks are under way. */
vg_virt_ear *vg_virt_ear_new(void);
void vg_virt_ear_free(vg_virt_ear *ear);

/* Registers for all that the connection offers, which may be nothing. detach before it is
 * closed. By the thread that has the connection. */
void vg_virt_ear_attach(vg_virt_ear *ear, virConnectPtr connection);
void vg_virt_ear_detach(vg_virt_ear *ear, virConnectPtr connection);

/* What came, or NULL after the time or when closed. When too much came at once the newest is lost,
 * but never that the connection is gone, nor that something came. */
vg_virt_news *vg_virt_ear_get(vg_virt_ear *ear, int64_t timeout_ns);

/* Ends waiting for ever. Any thread. */
void vg_virt_ear_close(vg_virt_ear *ear);

#endif
