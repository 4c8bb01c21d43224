/* SPDX-License-Identifier: Apache-2.0
 *
 * Verbs on libvirt hosts: taking GPUs off a domain, putting them on, moving it, and looking where
 * everything is. Error codes of libvirt decide nothing: after a failure the caller looks.
 */
#ifndef VG_ACTUATORS_VIRT_MOVE_H
#define VG_ACTUATORS_VIRT_MOVE_H

#include "actuators/verb.h"

/* A connection for reading and writing, with keepalive: a libvirtd that falls silent fails what
 * waits for it after some seconds. One that was lost is made again by the next verb. One thread at
 * a time. */
typedef struct vg_virt_host vg_virt_host;

/* VG_E_UNREACHABLE: nobody answers. Starts libvirt's event loop (host/virt-event.h), which the
 * process stops at its end. Connecting to an address that swallows everything takes as long as the
 * kernel tries. */

vg_virt_host *vg_virt_host_open(const char *uri, GError **err);
void vg_virt_host_close(vg_virt_host *host); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_virt_host, vg_virt_host_close)

/* For tests: another directory than "/" in which there are sys and proc. */
void vg_virt_host_set_root(vg_virt_host *host, const char *root);

/* A device that the operator names: [gpu NAME]. */
struct vg_named_device {
    const char *name;
    const char *xml; /* one element that has a user alias ("ua-..."), by which it is recognised */
    int64_t slots;   /* domains of this host that can have one at the same time */
};

/* ---- looking ---- */

struct vg_domain_look {
    enum vg_domain_place place;
    bool defined;     /* there is a persistent definition */
    unsigned present; /* of the aliases asked for: in the live domain */
};

/* VG_E_UNREACHABLE: the host does not answer. aliases: NULL-terminated, or NULL. That a domain is
 * gone is no error. */
int vg_virt_look(vg_virt_host *host, const char *uuid, const char *const *aliases,
                 struct vg_domain_look *ret, GError **err);

/* The GPUs of a running domain, struct vg_move_device (freed with the array), with source_address
 * and source_xml filled: PCI functions that are GPUs (classes 03 and 12), with other functions of
 * their cards, virtual functions of GPUs, and mdevs, where they are passed through; and devices
 * with the alias of one of the named. guest_path is filled as docs/vgpud-guest.7 wants devices
 * named. VG_E_NOT_FOUND: no such domain; VG_E_CONFLICT: it does not run. */
GPtrArray *vg_virt_gpus(vg_virt_host *host, const char *uuid, const struct vg_named_device *named,
                        size_t n_named, GError **err);

/* ---- what may go wrong, before anything is touched ---- */

struct vg_precheck {
    const char *uuid;
    const char *peer_uri;     /* as the source's libvirtd reaches the target's */
    const GPtrArray *devices; /* struct vg_move_device, which will be off while it migrates */
    int64_t memory_bytes;     /* filled: of the domain */
    GPtrArray *doubts;        /* char *, gets what may make it fail, and cannot be told; NULL: not
                               * asked */
};

/* Appends a sentence (char *) to problems for each thing that would make the move fail, as far as
 * libvirt can tell beforehand: a domain of OpenStack, one that is paused, has snapshots or another
 * job; devices apart from these with which libvirt and QEMU migrate no VM, and of these one that
 * cannot be unplugged, or be recognised after; on the target a domain of that name or UUID, another
 * machine, emulator or CPU, too little memory; disks of this host alone. target NULL: of any host,
 * and peer_uri is not looked at. 0, also with problems, or -1 and *err if a host cannot be asked.
 */
int vg_virt_precheck(vg_virt_host *source, vg_virt_host *target, struct vg_precheck *check,
                     GPtrArray *problems, GError **err);

/* ---- reserving ---- */

/* Finds for each of the devices (struct vg_move_device) one of its kind and type on the host that
 * is free (model/gpu-part.h), apart from what is in taken (char *: addresses, or once per
 * reservation the name of a named device). An mdev may be made for it. Functions of a GPU's card
 * are found on that of their GPU's. Fills target_address and target_xml, keeping alias and guest
 * address. VG_E_CONFLICT: there is none, why. */
int vg_virt_pick(vg_virt_host *host, const GPtrArray *devices, const GPtrArray *taken,
                 const struct vg_named_device *named, size_t n_named, GError **err);

/* ---- changing ---- */

/* Takes the devices off the live domain, all at once, then off its persistent definition where
 * persistent. Returns 0 when all are gone. VG_E_TIMEOUT: the guest has not released one, and may
 * still do. */
int vg_virt_detach(vg_virt_host *host, const char *uuid, const GPtrArray *devices,
                   const struct vg_verb *verb, GError **err);

/* Puts a device on, and into the persistent definition where persistent; xml: target_xml or
 * source_xml of it. Already there: 0. Where its guest address is taken it gets another, which is
 * told. */
int vg_virt_attach(vg_virt_host *host, const char *uuid, const struct vg_move_device *device,
                   const char *xml, const struct vg_verb *verb, GError **err);

struct vg_virt_migration {
    const char *uuid;
    const char *peer_uri;
    vg_virt_host *target;          /* tells how it went, in the end; NULL: that stays unknown */
    const GPtrArray *devices;      /* struct vg_move_device that are off; or NULL */
    int64_t bandwidth_bytes_per_s; /* 0: libvirt's default */
    int64_t downtime_max_ns;       /* up to which the downtime limit is raised to converge */
};

/* Live, peer to peer, pre-copy only, keeping a persistent definition persistent on the other side,
 * and no longer here. Helps it to converge: auto-converge, then the downtime limit. Progress is
 * told every 250 ms; ret: the last one, also on failure. After the deadline, or when cancelled, it
 * is called off, and this returns when libvirt has; a migration that was through by then is 0. */
int vg_virt_migrate(vg_virt_host *host, const struct vg_virt_migration *migration,
                    const struct vg_verb *verb, struct vg_migration_progress *ret, GError **err);

/* Ends a migration of the domain from here to elsewhere, if one is under way. */
void vg_virt_abort(vg_virt_host *host, const char *uuid);

/* ---- the guest ---- */

/* What the agent said; all is owned. */
struct vg_guest_answer {
    bool ok;
    char *text;        /* one sentence: hooks run, or the error and who holds the GPU */
    bool undone;       /* not ok: the guest is as it was before */
    int64_t ram_bytes; /* prepared: guest memory taken for device memory */
    int64_t pause_ns;  /* resumed: the longest that the guest saw itself stand still; 0: unknown,
                        * as it is with version 1 of the protocol */
    struct vg_guest_programs *programs; /* NULL: it tells of none */
};
void vg_guest_answer_clear(struct vg_guest_answer *answer);

/* Asks the agent over the domain's channel org.vgpud.guest.0 (docs/vgpud-guest.7). -1 and *err:
 * there is no channel (VG_E_NOT_FOUND), nobody answers (VG_E_TIMEOUT), or what answers does not
 * keep to the protocol. An answer "error" is 0 with ok=false. What the agent is at is told. Of the
 * time that there is, prepare leaves half, and at most 40 s, for the agent to undo what it could
 * not finish; an order that was given up is cancelled, and the next waits until the agent is done
 * with that. Devices are looked for in the live domain by their aliases; guest_path is for those
 * that are not on yet. */
int vg_guest_hello(vg_virt_host *host, const char *uuid, const struct vg_verb *verb,
                   struct vg_guest_answer *ret, GError **err);
/* ok: the devices could be released now, as far as the agent sees; else text says why not. */
int vg_guest_status(vg_virt_host *host, const char *uuid, const GPtrArray *devices,
                    const struct vg_verb *verb, struct vg_guest_answer *ret, GError **err);
int vg_guest_prepare(vg_virt_host *host, const char *uuid, const GPtrArray *devices,
                     const struct vg_verb *verb, struct vg_guest_answer *ret, GError **err);
int vg_guest_resume(vg_virt_host *host, const char *uuid, const GPtrArray *devices,
                    const struct vg_verb *verb, struct vg_guest_answer *ret, GError **err);

#endif
