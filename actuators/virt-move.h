/* SPDX-License-Identifier: Apache-2.0
 *
 * Verbs on libvirt hosts: taking GPUs off a domain, putting them on, moving it, and looking where
 * everything is. Error codes of libvirt decide nothing: after a failure the caller looks.
 */
#ifndef VG_ACTUATORS_VIRT_MOVE_H
#define VG_ACTUATORS_VIRT_MOVE_H

#include "actuators/verb.h"

/* A connection for reading and writing, with keepalive; one thread at a time. */
typedef struct vg_virt_host vg_virt_host;

vg_virt_host *vg_virt_host_open(const char *uri, GError **err);
void vg_virt_host_close(vg_virt_host *host); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_virt_host, vg_virt_host_close)

/* A device that the operator names: [gpu NAME]. */
struct vg_named_device {
    const char *name;
    const char *xml; /* one element that has a user alias ("ua-..."), by which it is recognised */
    int64_t slots;   /* domains of this host that can have one at the same time */
};

/* ---- looking ---- */

enum vg_domain_place {
    VG_DOMAIN_ABSENT,   /* no such domain, or it does not run */
    VG_DOMAIN_HERE,     /* it runs, or is paused by somebody */
    VG_DOMAIN_LEAVING,  /* it runs, and a migration to elsewhere is under way */
    VG_DOMAIN_INCOMING, /* it is being migrated to here, and does not run yet */
};

struct vg_domain_look {
    enum vg_domain_place place;
    bool defined;     /* there is a persistent definition */
    unsigned present; /* of the aliases asked for: in the live domain */
};

/* VG_E_UNREACHABLE: the host does not answer. aliases: NULL-terminated, or NULL. */
int vg_virt_look(vg_virt_host *host, const char *uuid, const char *const *aliases,
                 struct vg_domain_look *ret, GError **err);

/* The GPUs of a running domain, struct vg_move_device, with source_address and source_xml filled:
 * PCI display devices (class 03) and mdevs that are passed through, and devices with the alias of
 * one of the named. guest_path is filled as docs/vgpud-guest.7 wants devices named. */
GPtrArray *vg_virt_gpus(vg_virt_host *host, const char *uuid, const struct vg_named_device *named,
                        size_t n_named, GError **err);

/* ---- what may go wrong, before anything is touched ---- */

struct vg_precheck {
    const char *uuid;
    const char *peer_uri;     /* as the source's libvirtd reaches the target's */
    const GPtrArray *devices; /* struct vg_move_device, which will be off while it migrates */
    const struct vg_named_device *named; /* of the source */
    size_t n_named;
    int64_t memory_bytes; /* filled: of the domain */
};

/* Appends a sentence (char *) to problems for each thing that would make the move fail: versions,
 * CPU model, what QEMU says blocks migration apart from these devices, a domain of that name or
 * UUID on the target, disks that are not shared, memory, no free PCI port for the device on ... 0,
 * or -1 and *err if a host cannot be asked. */
int vg_virt_precheck(vg_virt_host *source, vg_virt_host *target, struct vg_precheck *check,
                     GPtrArray *problems, GError **err);

/* ---- reserving ---- */

/* Finds a device of this kind and type on the host that no running domain has, nor taken (char *:
 * addresses, or once per reservation the name of a named device). Fills target_address and
 * target_xml of device, keeping its alias and guest address. VG_E_CONFLICT: there is none, why. */
int vg_virt_pick(vg_virt_host *host, struct vg_move_device *device, const GPtrArray *taken,
                 const struct vg_named_device *named, size_t n_named, GError **err);

/* ---- changing ---- */

/* Takes the devices off the live domain (and its persistent definition where persistent). Returns 0
 * when all aliases are gone. */
int vg_virt_detach(vg_virt_host *host, const char *uuid, const GPtrArray *devices,
                   const struct vg_verb *verb, GError **err);

/* Puts a device on; xml: target_xml or source_xml of it. Already there: 0. */
int vg_virt_attach(vg_virt_host *host, const char *uuid, const struct vg_move_device *device,
                   const char *xml, const struct vg_verb *verb, GError **err);

struct vg_virt_migration {
    const char *uuid;
    const char *peer_uri;
    int64_t bandwidth_bytes_per_s; /* 0: libvirt's default */
    int64_t downtime_max_ns;       /* up to which the downtime limit is raised to converge */
};

/* Live, peer to peer, pre-copy only, keeping a persistent definition persistent on the other side,
 * and no longer here. Helps it to converge: auto-converge, then the downtime limit. Progress is
 * told every 250 ms; ret: the last one. */
int vg_virt_migrate(vg_virt_host *host, const struct vg_virt_migration *migration,
                    const struct vg_verb *verb, struct vg_migration_progress *ret, GError **err);

/* ---- the guest ---- */

/* What the agent said; strings are owned. */
struct vg_guest_answer {
    bool ok;
    char *text;        /* one sentence: hooks run, or the error and who holds the GPU */
    int64_t ram_bytes; /* prepared: guest memory taken for device memory */
    int64_t pause_ns;  /* resumed: the longest that the guest saw itself stand still; 0: unknown */
};
void vg_guest_answer_clear(struct vg_guest_answer *answer);

/* Asks the agent over the domain's channel org.vgpud.guest.0 (docs/vgpud-guest.7). -1 and *err:
 * there is no channel (VG_E_NOT_FOUND), nobody answers (VG_E_TIMEOUT), or what answers does not
 * keep to the protocol. An answer "error" is 0 with ok=false. */
int vg_guest_hello(vg_virt_host *host, const char *uuid, const struct vg_verb *verb,
                   struct vg_guest_answer *ret, GError **err);
int vg_guest_prepare(vg_virt_host *host, const char *uuid, const GPtrArray *devices,
                     const struct vg_verb *verb, struct vg_guest_answer *ret, GError **err);
int vg_guest_resume(vg_virt_host *host, const char *uuid, const GPtrArray *devices,
                    const struct vg_verb *verb, struct vg_guest_answer *ret, GError **err);

#endif
