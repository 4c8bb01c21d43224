/* SPDX-License-Identifier: Apache-2.0
 *
 * The verbs on libvirt hosts: detach GPUs from a domain, attach them, move the domain, and find out
 * where everything is. No decision depends on libvirt's error codes: after a failure, the caller
 * looks.
 */
#ifndef VG_ACTUATORS_VIRT_MOVE_H
#define VG_ACTUATORS_VIRT_MOVE_H

#include "actuators/verb.h"
#include "actuators/virt-reboots.h"
#include "base/clock.h"

/* A link to a host's libvirt: a connection for reading and writing, and the thread that uses it. No
 * call waits longer for libvirt than its limits say: if libvirt hangs, the call ends with
 * VG_E_TIMEOUT, while its request may still have an effect. The next call re-establishes a lost
 * connection. After its end, a verb reports no more progress. One thread at a time.
 * actuators/virt-hang.h tells which calls hang. */
typedef struct vg_virt_link vg_virt_link;

/* Connects. Fails with VG_E_UNREACHABLE if nobody is there, or with VG_E_TIMEOUT if libvirt hangs.
 * Starts libvirt's event loop (host/virt-event.h), which the process stops at its end. */
vg_virt_link *vg_virt_link_open(const char *uri, GError **err);
/* The same, and notes when the guest of this domain reboots: orders to its agent then wait until it
 * has booted. The links of both hosts share reboots (actuators/virt-reboots.h). */
vg_virt_link *vg_virt_link_open_for(const char *uri, vg_virt_reboots *reboots, GError **err);
void vg_virt_link_close(vg_virt_link *link); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_virt_link, vg_virt_link_close)

/* Ends all calls of the process: those that wait, and all later ones, fail at once. */
void vg_virt_links_end(void);

/* Sets a directory other than "/" that contains sys and proc, for tests. */
void vg_virt_link_set_root(vg_virt_link *link, const char *root);

/* A device that the operator has named: [gpu NAME]. */
struct vg_named_device {
    const char *name;
    const char *xml; /* one element with a user alias ("ua-..."), by which it is recognised */
    int64_t slots;   /* the number of domains of this host that can have one at the same time */
};

/* ---- looking ---- */

struct vg_domain_look {
    enum vg_domain_place place;
    /* the reason in words if the domain stands still, a constant; otherwise NULL */
    const char *stands;
    bool defined;         /* it has a persistent definition */
    unsigned present;     /* the number of the aliases that the live domain has */
    bool runs;            /* its CPUs run; false while it switches hosts */
    bool by_migration;    /* it stands still since a migration, or somebody, has paused it */
    int64_t copied_bytes; /* by its outgoing migration, up to now */
    int64_t begin_ns;     /* the longest time that libvirt may need before it copies something */
};

/* Looks at a domain. aliases ends with NULL, or is NULL. A missing domain is no error. Fails with
 * VG_E_UNREACHABLE if the host does not answer. */
int vg_virt_look(vg_virt_link *link, const char *uuid, const char *const *aliases,
                 struct vg_domain_look *ret, GError **err);

/* Lists the GPUs of a running domain as struct vg_move_device, with source_address and source_xml;
 * they are freed with the array. The GPUs are passed-through PCI functions (classes 03 and 12),
 * with other functions of their cards, virtual functions of GPUs, and mdevs; and devices with the
 * alias of a named device. guest_path names a device as docs/vgpud-guest.7 requires. Fails with
 * VG_E_NOT_FOUND if there is no such domain, or with VG_E_CONFLICT if it does not run. */
GPtrArray *vg_virt_gpus(vg_virt_link *link, const char *uuid, const struct vg_named_device *named,
                        size_t n_named, GError **err);

/* ---- checks before anything is touched ---- */

struct vg_precheck {
    const char *uuid;
    const char *peer_uri;     /* the URI by which the source's libvirtd reaches the target's */
    const GPtrArray *devices; /* struct vg_move_device, detached while the domain migrates */
    bool native;          /* or not detached: they are migrated, as vg_virt_ask_native() found */
    int64_t memory_bytes; /* filled in: the memory of the domain */
    /* char *, gets a sentence for each doubt that cannot be settled and may make the move fail; may
     * be NULL */
    GPtrArray *doubts;
    /* struct vg_path_need, gets what the domain needs of its host; may be NULL */
    GPtrArray *paths;
};

/* Appends a sentence (char *) to problems for each reason why the move would fail, as far as
 * libvirt can tell beforehand: a domain of OpenStack, or one that is paused, has snapshots or
 * another job; other devices with which libvirt and QEMU migrate no VM, and among these devices one
 * that cannot be unplugged, or be recognised afterwards; on the target, a domain of that name or
 * UUID, another machine type, emulator or CPU, too little memory. If target is NULL, the move could
 * go to any host, and peer_uri is ignored. Returns 0 also with problems; returns -1 and sets *err
 * if a host cannot be asked. */
int vg_virt_precheck(vg_virt_link *source, vg_virt_link *target, struct vg_precheck *check,
                     GPtrArray *problems, GError **err);

/* Asks QEMU and the kernel whether the running domain could be migrated with these devices (struct
 * vg_move_device) in it. *ret_why: what speaks against it, one sentence, or NULL if nothing does.
 * libvirt calls the domain tainted ("custom-monitor") once QEMU was asked. */
int vg_virt_ask_native(vg_virt_link *link, const char *uuid, const GPtrArray *devices,
                       char **ret_why, GError **err);

/* Measures for a second how a running VM uses its memory: how much it has touched, and how fast it
 * rewrites that; 0 if unknown. */
int vg_virt_measure(vg_virt_link *link, const char *uuid, int64_t *ret_touched_bytes,
                    int64_t *ret_dirty_bytes_per_s, GError **err);

/* ---- reserving ---- */

/* Finds for each of the devices (struct vg_move_device) a free one of its kind and type on the host
 * (model/gpu-part.h) that is not in taken (char *: addresses, or once per reservation the name of a
 * named device). An mdev may be made for it, but not in a dry run, which takes it that
 * libvirt could. Other functions of a GPU's card are found on the card
 * picked for that GPU. Fills in target_address and target_xml, and keeps alias and guest address.
 * Fails with VG_E_CONFLICT and the reason if there is none. */
int vg_virt_pick(vg_virt_link *link, const GPtrArray *devices, const GPtrArray *taken, bool dry_run,
                 const struct vg_named_device *named, size_t n_named, GError **err);

/* Removes those mdevs among the devices (struct vg_move_device, by target_address) that a vgpud has
 * made, unless a domain has them, running or not, or they are in taken (as for vg_virt_pick()). */
int vg_virt_drop_mdevs(vg_virt_link *link, const GPtrArray *devices, const GPtrArray *taken,
                       GError **err);

/* Checks that no other running domain of the host has one of these devices, by source_address, or
 * the last slot of a named device. Fails with VG_E_CONFLICT and the other domain's name. */
int vg_virt_check_others(vg_virt_link *link, const char *uuid, const GPtrArray *devices,
                         const struct vg_named_device *named, size_t n_named, GError **err);

/* ---- changing ---- */

/* Detaches the devices from the live domain, all at once, and then removes those that are
 * persistent from its definition. Returns 0 when all are gone. Fails with VG_E_TIMEOUT if the guest
 * has not released one, which it may still do. */
int vg_virt_detach(vg_virt_link *link, const char *uuid, const GPtrArray *devices,
                   const struct vg_verb *verb, GError **err);

/* Attaches a device, and adds it to the definition if it is persistent; xml is its target_xml or
 * source_xml. Returns 0 if it is attached already. If another device has its guest address, it gets
 * a new one, which is reported as progress. */
int vg_virt_attach(vg_virt_link *link, const char *uuid, const struct vg_move_device *device,
                   const char *xml, const struct vg_verb *verb, GError **err);

/* Adds a persistent device to the persistent definition of a domain that has one, whether the
 * domain runs or not; xml is as for vg_virt_attach(). Returns 0 if the device is there already, or
 * is not persistent. */
int vg_virt_define_device(vg_virt_link *link, const char *uuid, const struct vg_move_device *device,
                          const char *xml, GError **err);

/* Ends a domain that is paused; any other one is left alone. */
int vg_virt_end_paused(vg_virt_link *link, const char *uuid, GError **err);

/* Ends a QEMU that waits for an incoming migration; any other domain is left alone. Of a QEMU that
 * hangs, libvirt needs 10 s for that. */
int vg_virt_end_incoming(vg_virt_link *link, const char *uuid, GError **err);

/* Removes the persistent definition of a domain that does not run, and keeps its files. */
int vg_virt_undefine(vg_virt_link *link, const char *uuid, GError **err);

/* A copy of which nothing more has got through for this time is called off. libvirt's keepalive
 * ends most of them earlier; but it waits without end for a QEMU that does not give up sending, or
 * that does not answer. */
#define VG_VIRT_STUCK_NS (60 * VG_NS_PER_S)

struct vg_virt_migration {
    const char *uuid;
    const char *peer_uri;
    /* asked at the end for the downtime, which is unknown if this is NULL */
    vg_virt_link *target;
    const GPtrArray *devices; /* detached struct vg_move_device, or NULL */
    /* The devices are not detached: QEMU takes them along, to their target_address. */
    bool native;
    bool tls;                      /* QEMU encrypts what it sends, or the migration fails */
    int64_t bandwidth_bytes_per_s; /* 0 for libvirt's default */
    /* the highest value to which the downtime limit is raised to converge */
    int64_t downtime_max_ns;
    /* set if it succeeds: somebody has paused the domain meanwhile, and libvirt lets it run; may be
     * NULL */
    bool *ret_paused;
};

/* Migrates a domain live, peer to peer, pre-copy only. A persistent definition becomes persistent
 * on the other side, and is removed here. Helps the migration to converge by auto-converge, then by
 * the downtime limit. Progress is reported every 250 ms; a text
 * without progress says for whom libvirt waits before it begins; ret is the last progress. After
 * the deadline, when cancelled, or if nothing gets through for a minute, the migration is called
 * off, and this returns when libvirt has ended it, or does not end it; if it had already finished
 * by then, the result is 0. Fails with VG_E_IO if nothing got through, and with VG_E_TIMEOUT
 * after the deadline or if libvirt hangs, though it may go on with the migration. If it fails while
 * the domain switches hosts, the
 * domain is left paused, since it may run on the other host; vg_virt_go_on() has it go on. */
int vg_virt_migrate(vg_virt_link *link, const struct vg_virt_migration *migration,
                    const struct vg_verb *verb, struct vg_migration_progress *ret, GError **err);

/* Has a domain that a migration has left paused go on. */
int vg_virt_go_on(vg_virt_link *link, const char *uuid, GError **err);

/* Ends an outgoing migration of the domain, if one is under way. */
void vg_virt_abort(vg_virt_link *link, const char *uuid);

/* ---- the guest ---- */

/* The agent's answer; everything in it is owned. */
struct vg_guest_answer {
    bool ok;
    char *text;        /* one sentence: the hooks that ran, or the error and who holds the GPU */
    bool undone;       /* whether the guest is as it was before; set if not ok */
    bool unknown;      /* the agent is too old to know such a request; set if not ok */
    int64_t ram_bytes; /* the guest memory that holds device memory; set by prepare */
    /* the longest pause that the guest noticed; set by resume; 0 if unknown, as with version 1 of
     * the protocol */
    int64_t pause_ns;
    struct vg_guest_programs *programs; /* NULL if the answer has none */
    char *doubt; /* what may keep it from releasing its GPUs; set by status; NULL: nothing */
};
void vg_guest_answer_clear(struct vg_guest_answer *answer);

/* Ask the agent over the domain's channel org.vgpud.guest.0 (docs/vgpud-guest.7). Return -1 and set
 * *err if there is no channel (VG_E_NOT_FOUND), nobody answers (VG_E_TIMEOUT), or the answer breaks
 * the protocol. An answer "error" is 0 with ok=false. The agent's progress is reported. Of the
 * available time, prepare leaves half, and at most 40 s, for the agent to undo an unfinished order;
 * an order that was given up is cancelled, and the next one waits until the agent is done with
 * that. Devices are found in the live domain by their aliases; guest_path is for those that are not
 * attached yet. */
int vg_guest_hello(vg_virt_link *link, const char *uuid, const struct vg_verb *verb,
                   struct vg_guest_answer *ret, GError **err);
/* Asks for the status. ok is true if the devices could be released now, as far as the agent sees;
 * otherwise text has the reason. */
int vg_guest_status(vg_virt_link *link, const char *uuid, const GPtrArray *devices,
                    const struct vg_verb *verb, struct vg_guest_answer *ret, GError **err);
/* opencl_at: where programs of OpenCL go on until they have a GPU again, or NULL. */
int vg_guest_prepare(vg_virt_link *link, const char *uuid, const GPtrArray *devices,
                     const char *opencl_at, const struct vg_verb *verb, struct vg_guest_answer *ret,
                     GError **err);
int vg_guest_resume(vg_virt_link *link, const char *uuid, const GPtrArray *devices,
                    const struct vg_verb *verb, struct vg_guest_answer *ret, GError **err);
/* Has programs of OpenCL that are at a vgpu-proxy go on at another place. Not ok: some are not
 * there; those that go on, do so where they were. */
int vg_guest_switch(vg_virt_link *link, const char *uuid, const char *opencl_at,
                    const struct vg_verb *verb, struct vg_guest_answer *ret, GError **err);

/* Tells where programs of OpenCL find a GPU, and the token that they show there; opencl_at is NULL
 * where they find none. Fails as vg_guest_status() does where nobody listens or another one has the
 * channel; ok is false if the agent cannot be told, and text says why. */
int vg_guest_tell_proxy(vg_virt_link *link, const char *uuid, const char *opencl_at,
                        const char *token, const struct vg_verb *verb, struct vg_guest_answer *ret,
                        GError **err);

#endif
