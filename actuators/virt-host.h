/* SPDX-License-Identifier: Apache-2.0
 *
 * A connection to a host's libvirt, which belongs to the thread of a link (actuators/virt-link.h),
 * and helpers that the verbs share. Every call here may hang as long as libvirt does.
 */
#ifndef VG_ACTUATORS_VIRT_HOST_H
#define VG_ACTUATORS_VIRT_HOST_H

#include <stdbool.h>

#include <libvirt/libvirt.h>

#include "actuators/virt-move.h"
#include "host/device-xml.h"
#include "host/node-device.h"

G_DEFINE_AUTOPTR_CLEANUP_FUNC(virDomain, virDomainFree)

typedef struct vg_virt_host vg_virt_host;
struct vg_virt_host {
    char *uri;
    char *root;                  /* the parent directory of sys and proc: "/", except in tests */
    vg_virt_reboots *reboots;    /* the domain's reboots, if they are recorded; may be NULL */
    virConnectPtr connection;    /* NULL if it was lost or not opened yet */
    int reboots_id;              /* the connection's callback for reboots, or -1 */
    bool is_cut;                 /* the connection is open, but virtproxyd lost virtqemud */
    atomic_int_fast64_t beat_ns; /* CLOCK_MONOTONIC, when libvirt last answered */
    atomic_bool connecting;      /* the thread is in virConnectOpen() */
    atomic_bool given_up;        /* the caller is no longer waiting: make no change, and return */
    _Atomic(GError *) hopeless;  /* why the caller should stop waiting, or NULL; owned */
};

/* Records that libvirt has answered. Returns false if the caller is no longer waiting. */
bool vg_virt_host_goes_on(vg_virt_host *host);

/* Returns the reason in words, a constant, if the domain is paused; otherwise NULL. */
const char *vg_virt_host_pause(virDomainPtr domain);

/* Makes the caller abandon the current job, which fails with this error. */
void vg_virt_host_despair(vg_virt_host *host, const GError *why);

/* Sets *err to the text, followed by libvirt's last error on this thread. The code is
 * VG_E_UNREACHABLE if the connection is lost. Returns -1. The error is read before the arguments
 * are evaluated, because virDomainGetName() and similar functions clear it. */
#define vg_virt_host_failed(host, err, ...)                                                        \
 (vg_virt_host_read_error(), vg_virt_host_fail(host, err, __VA_ARGS__))

/* The two parts of vg_virt_host_failed(). */
void vg_virt_host_read_error(void);
int vg_virt_host_fail(vg_virt_host *host, GError **err, const char *fmt, ...) G_GNUC_PRINTF(3, 4);

/* Reopens the connection if it is lost. Every public verb starts with this. */
int vg_virt_host_connect(vg_virt_host *host, GError **err);

/* Queries libvirt. Returns false if the connection is lost. virtproxyd keeps a client's connection
 * after virtqemud was restarted, but every call through it fails. */
bool vg_virt_host_answers(vg_virt_host *host);

/* Closes the connection, if there is one. */
void vg_virt_host_close(vg_virt_host *host);

/* Finds a domain. Fails with VG_E_NOT_FOUND if no domain has this UUID. */
virDomainPtr vg_virt_host_domain(vg_virt_host *host, const char *uuid, GError **err);

/* Returns the XML of a domain. flags: virDomainXMLFlags; 0 means the live XML of a running
 * domain. */
char *vg_virt_host_xml(vg_virt_host *host, virDomainPtr domain, unsigned flags, GError **err);

/* Lists the devices of a domain, as vg_domain_devices() does. */
GPtrArray *vg_virt_host_devices(vg_virt_host *host, virDomainPtr domain, unsigned flags,
                                GError **err);

/* Lists the host's devices, as vg_virt_devices_list() does. */
GPtrArray *vg_virt_host_node_devices(vg_virt_host *host, GError **err);

/* Returns whether the host has the PCI device bound to plain vfio-pci, which cannot migrate it.
 * Other kernel drivers can migrate devices. */
bool vg_virt_host_is_plain_vfio(vg_virt_host *host, const char *address);

/* Queries QEMU for obstacles to the migration of a running domain. Returns QEMU's reasons, or why
 * it cannot be queried, or NULL. libvirt then marks the domain as tainted ("custom-monitor"). */
char *vg_virt_host_ask_qemu(virDomainPtr domain);

/* Creates an inventory of the GPUs among these node devices, and of all domains with their
 * devices; nothing else is filled in. */
vg_inventory *vg_virt_host_inventory(vg_virt_host *host, const GPtrArray *node_devices,
                                     GError **err);

/* ---- the verbs of actuators/virt-move.h, as they run on the thread of a link ---- */

int vg_virt_host_look(vg_virt_host *host, const char *uuid, const char *const *aliases,
                      struct vg_domain_look *ret, GError **err);
GPtrArray *vg_virt_host_gpus(vg_virt_host *host, const char *uuid,
                             const struct vg_named_device *named, size_t n_named, GError **err);
int vg_virt_host_pick(vg_virt_host *host, const GPtrArray *devices, const GPtrArray *taken,
                      bool dry_run, bool packs, const struct vg_named_device *named, size_t n_named,
                      GError **err);
int vg_virt_host_drop_mdevs(vg_virt_host *host, const GPtrArray *devices, const GPtrArray *taken,
                            GError **err);
int vg_virt_host_check_others(vg_virt_host *host, const char *uuid, const GPtrArray *devices,
                              const struct vg_named_device *named, size_t n_named, GError **err);
int vg_virt_host_detach(vg_virt_host *host, const char *uuid, const GPtrArray *devices,
                        const struct vg_verb *verb, GError **err);
int vg_virt_host_attach(vg_virt_host *host, const char *uuid, const struct vg_move_device *device,
                        const char *xml, const struct vg_verb *verb, GError **err);
int vg_virt_host_define_device(vg_virt_host *host, const char *uuid,
                               const struct vg_move_device *device, const char *xml, GError **err);
int vg_virt_host_end_paused(vg_virt_host *host, const char *uuid, GError **err);
int vg_virt_host_end_incoming(vg_virt_host *host, const char *uuid, GError **err);
int vg_virt_host_undefine(vg_virt_host *host, const char *uuid, GError **err);
int vg_virt_host_go_on(vg_virt_host *host, const char *uuid, GError **err);
int vg_virt_host_migrate(vg_virt_host *host, const struct vg_virt_migration *migration,
                         const struct vg_verb *verb, struct vg_migration_progress *ret,
                         GError **err);

/* Returns how long libvirt may need to start a migration of this domain. It is longer if the
 * target's QEMU must first allocate or pin all of its memory. */
int64_t vg_virt_host_begin_ns(vg_virt_host *host, virDomainPtr domain);
void vg_virt_host_abort(vg_virt_host *host, const char *uuid);

/* Reads libvirt's measurements of a migration that has arrived at this host. */
void vg_virt_host_read_arrival(vg_virt_host *host, const char *uuid,
                               struct vg_migration_progress *progress);

/* Sends a request to a domain's agent. type is an order's type, or "status"; NULL only says hello.
 * opencl_at: as for vg_guest_prepare(), or NULL. */
int vg_virt_host_ask_guest(vg_virt_host *host, const char *uuid, const char *type,
                           const GPtrArray *devices, const char *opencl_at,
                           const struct vg_verb *verb, struct vg_guest_answer *ret, GError **err);

/* Does the same as vg_guest_send_proxy(). */
int vg_virt_host_send_proxy(vg_virt_host *host, const char *uuid, const char *opencl_at,
                            const char *token, const struct vg_verb *verb,
                            struct vg_guest_answer *ret, GError **err);

/* Copies a text that libvirt allocated, so that g_free() can free it. */
char *vg_virt_own(char *take_text);

#endif
