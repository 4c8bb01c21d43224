/* SPDX-License-Identifier: Apache-2.0
 *
 * The verbs for libvirt hosts: detach GPUs from a domain, attach them, move the domain, and query
 * their state. No decision depends on libvirt's error codes: after a failure, the caller queries
 * the state.
 */
#ifndef VG_ACTUATORS_VIRT_MOVE_H
#define VG_ACTUATORS_VIRT_MOVE_H

#include "actuators/verb.h"
#include "actuators/virt-reboots.h"
#include "base/clock.h"

/* A link to a host's libvirt: a connection for reading and writing, and the thread that uses it.
 * No call waits longer for libvirt than its limits allow. If libvirt hangs, the call ends with
 * VG_E_TIMEOUT, while its request may still have an effect. The next call reopens a lost
 * connection. After a verb has ended, it reports no more progress. One thread at a time.
 * actuators/virt-hang.h lists hanging calls. */
typedef struct vg_virt_link vg_virt_link;

/* Connects. Fails with VG_E_UNREACHABLE if libvirt does not listen, or with VG_E_TIMEOUT if it
 * hangs. Starts libvirt's event loop (host/virt-event.h), which the process stops at its end. */
vg_virt_link *vg_virt_link_open(const char *uri, GError **err);
/* Does the same, and records reboots of this domain's guest: orders to its agent then wait until it
 * has booted. The links to both hosts share reboots (actuators/virt-reboots.h). */
vg_virt_link *vg_virt_link_open_for(const char *uri, vg_virt_reboots *reboots, GError **err);
void vg_virt_link_close(vg_virt_link *link); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_virt_link, vg_virt_link_close)

/* Ends all calls of the process: waiting calls and all later ones fail immediately. */
void vg_virt_links_end(void);

/* Sets a directory other than "/" that contains sys and proc, for tests. */
void vg_virt_link_set_root(vg_virt_link *link, const char *root);

/* A device named by the operator: [gpu NAME]. */
struct vg_named_device {
    const char *name;
    const char *xml; /* an element with a user alias ("ua-..."), which identifies it */
    int64_t slots;   /* the number of this host's domains that can have one at the same time */
};

/* ---- querying ---- */

struct vg_domain_look {
    enum vg_domain_place place;
    /* why the domain is paused, a constant; NULL if it is not */
    const char *stands;
    bool defined;         /* it has a persistent definition */
    unsigned present;     /* the number of these aliases in the live domain */
    bool runs;            /* its CPUs are running; false while it switches hosts */
    bool by_migration;    /* it is paused because a migration, or another program, has paused it */
    int64_t copied_bytes; /* by its outgoing migration until now */
    int64_t begin_ns;     /* the maximum time that libvirt may need before it starts to copy */
};

/* Queries a domain. aliases ends with NULL, or is NULL. A missing domain is not an error. Fails
 * with VG_E_UNREACHABLE if the host does not answer. */
int vg_virt_look(vg_virt_link *link, const char *uuid, const char *const *aliases,
                 struct vg_domain_look *ret, GError **err);

/* Lists the GPUs of a running domain as struct vg_move_device, with source_address and source_xml,
 * freed with the array. They are passed-through PCI functions (classes 03 and 12), other functions
 * of their cards, virtual functions of GPUs, mdevs, and devices with the alias of a named device.
 * guest_path identifies a device as docs/vgpud-guest.7 requires. Fails with VG_E_NOT_FOUND if the
 * domain does not exist, or with VG_E_CONFLICT if it is not running. */
GPtrArray *vg_virt_gpus(vg_virt_link *link, const char *uuid, const struct vg_named_device *named,
                        size_t n_named, GError **err);

/* ---- checks before any change ---- */

struct vg_precheck {
    const char *uuid;
    const char *peer_uri;     /* the URI of the target from the source's libvirtd */
    const GPtrArray *devices; /* struct vg_move_device, detached while the domain migrates */
    bool native; /* the devices are migrated instead of detached, because vg_virt_ask_native() found
                    this possible */
    int64_t memory_bytes; /* filled in: the memory of the domain */
    /* char *, gets a sentence for each possible obstacle; may be NULL */
    GPtrArray *doubts;
    /* struct vg_path_need, gets the paths that the domain needs on its host; may be NULL */
    GPtrArray *paths;
};

/* Appends a sentence (char *) to problems for each reason why the move would fail, as far as
 * libvirt can determine in advance:
 *
 * - an OpenStack domain, or a domain that is paused, has snapshots or another job;
 * - other devices that libvirt and QEMU cannot migrate;
 * - among these devices, one that cannot be unplugged, or be recognised afterwards;
 * - on the target, a domain with that name or UUID, another machine type, emulator or CPU, or too
 *   little memory.
 *
 * If target is NULL, the move could go to any host, and peer_uri is ignored. Returns 0 even if
 * there are problems; returns -1 and sets *err if a host cannot be queried. */
int vg_virt_precheck(vg_virt_link *source, vg_virt_link *target, struct vg_precheck *check,
                     GPtrArray *problems, GError **err);

/* Queries QEMU and the kernel to determine whether the running domain could be migrated with these
 * devices (struct vg_move_device). *ret_why: the obstacle in one sentence, or NULL if there is no
 * obstacle. libvirt marks the domain as tainted ("custom-monitor") after a query to QEMU. */
int vg_virt_ask_native(vg_virt_link *link, const char *uuid, const GPtrArray *devices,
                       char **ret_why, GError **err);

/* Measures for a second how a running VM uses its memory: the amount touched, and the rate of
 * rewriting it; 0 if unknown. */
int vg_virt_measure(vg_virt_link *link, const char *uuid, int64_t *ret_touched_bytes,
                    int64_t *ret_dirty_bytes_per_s, GError **err);

/* ---- reserving ---- */

/* Finds for each device (struct vg_move_device) a free device of its kind and type on the host
 * (model/gpu-part.h) that is not in taken (char *: addresses, or once per reservation the name of
 * a named device). An mdev may be created for it; a dry run only assumes that libvirt could. Other
 * functions of a GPU's card are searched on the card chosen for that GPU. If no GPU is named
 * (target_gpu), one with the most vGPUs is preferred if packs is true, otherwise one with the
 * fewest. Fills in target_address and target_xml, and keeps alias and guest address. Fails with
 * VG_E_CONFLICT and the reason if no device is free. */
int vg_virt_pick(vg_virt_link *link, const GPtrArray *devices, const GPtrArray *taken, bool dry_run,
                 bool packs, const struct vg_named_device *named, size_t n_named, GError **err);

/* Removes those mdevs among the devices (struct vg_move_device, by target_address) that a vgpud
 * has created, unless a domain has them, running or not, or they are in taken (as for
 * vg_virt_pick()). */
int vg_virt_drop_mdevs(vg_virt_link *link, const GPtrArray *devices, const GPtrArray *taken,
                       GError **err);

/* Checks that no other running domain on the host has one of these devices, by source_address, or
 * the last slot of a named device. Fails with VG_E_CONFLICT and the other domain's name. */
int vg_virt_check_others(vg_virt_link *link, const char *uuid, const GPtrArray *devices,
                         const struct vg_named_device *named, size_t n_named, GError **err);

/* ---- changing ---- */

/* Detaches the devices from the live domain, all together, and then removes the persistent ones
 * from its definition. Returns 0 when all are detached. Fails with VG_E_TIMEOUT if the guest has
 * not released a device; it may still release it later. */
int vg_virt_detach(vg_virt_link *link, const char *uuid, const GPtrArray *devices,
                   const struct vg_verb *verb, GError **err);

/* Attaches a device, and adds it to the definition if it is persistent; xml is its target_xml or
 * source_xml. Returns 0 if it is already attached. If another device has its guest address, it
 * gets a new address, which is reported as progress. */
int vg_virt_attach(vg_virt_link *link, const char *uuid, const struct vg_move_device *device,
                   const char *xml, const struct vg_verb *verb, GError **err);

/* Adds a persistent device to the persistent definition of a domain, if it has such a definition,
 * whether the domain is running or not; xml is as for vg_virt_attach(). Returns 0 if the definition
 * already has the device, or if the device is not persistent. */
int vg_virt_define_device(vg_virt_link *link, const char *uuid, const struct vg_move_device *device,
                          const char *xml, GError **err);

/* Ends a domain if it is paused; otherwise does nothing. */
int vg_virt_end_paused(vg_virt_link *link, const char *uuid, GError **err);

/* Ends a QEMU that is waiting for an incoming migration; does not change any other domain. If QEMU
 * hangs, libvirt needs 10 s for that. */
int vg_virt_end_incoming(vg_virt_link *link, const char *uuid, GError **err);

/* Removes the persistent definition of a domain that is not running. Its files are kept. */
int vg_virt_undefine(vg_virt_link *link, const char *uuid, GError **err);

/* A copy without any progress for this time is cancelled. libvirt's keepalive ends most of them
 * earlier, but it waits indefinitely for a QEMU that keeps trying to send, or that does not
 * answer. */
#define VG_VIRT_STUCK_NS (60 * VG_NS_PER_S)

struct vg_virt_migration {
    const char *uuid;
    const char *peer_uri;
    /* queried at the end for the downtime, which is unknown if this is NULL */
    vg_virt_link *target;
    const GPtrArray *devices; /* detached struct vg_move_device, or NULL */
    /* The devices are not detached; QEMU migrates them to their target_address. */
    bool native;
    bool tls;                      /* QEMU encrypts the migration, which fails otherwise */
    int64_t bandwidth_bytes_per_s; /* 0 for libvirt's default */
    /* the maximum of the downtime limit, which is raised to converge */
    int64_t downtime_max_ns;
    /* set if it succeeds: the domain was paused by others during the migration, and libvirt
     * resumes it; may be NULL */
    bool *ret_paused;
};

/* Performs a live, peer-to-peer, pre-copy migration of a domain. A persistent definition becomes
 * persistent on the other side, and is removed here. Helps the migration to converge through
 * auto-converge, then through the downtime limit.
 *
 * Progress is reported every 250 ms; a text without progress says what libvirt is waiting for
 * before it starts. ret is the last progress. After the deadline, when cancelled, or after a minute
 * without progress, the migration is cancelled. This function then returns when libvirt has ended
 * it, or fails to do so. If it had already finished by then, the result is 0.
 *
 * Fails with VG_E_IO if the copy made no progress, and with VG_E_TIMEOUT after the deadline or if
 * libvirt hangs, although it may continue the migration. If it fails while the domain switches
 * hosts, the domain remains paused, since it may run on the other host; vg_virt_go_on() resumes it.
 */
int vg_virt_migrate(vg_virt_link *link, const struct vg_virt_migration *migration,
                    const struct vg_verb *verb, struct vg_migration_progress *ret, GError **err);

/* Resumes a domain that a migration has left paused. */
int vg_virt_go_on(vg_virt_link *link, const char *uuid, GError **err);

/* Ends an outgoing migration of the domain, if one is in progress. */
void vg_virt_abort(vg_virt_link *link, const char *uuid);

/* ---- the guest ---- */

/* The agent's answer; everything in it is owned. */
struct vg_guest_answer {
    bool ok;
    char *text;   /* one sentence: the hooks that ran, or the error and the processes that hold the
                     GPU */
    bool undone;  /* the guest is in its previous state; set if not ok */
    bool unknown; /* the agent is too old to know the request; set if not ok */
    int64_t ram_bytes; /* the amount of guest memory that holds device memory; set by prepare */
    /* the longest pause that the guest noticed; set by resume; 0 if unknown, as with version 1 of
     * the protocol */
    int64_t pause_ns;
    struct vg_guest_programs *programs; /* NULL if the answer has none */
    char *doubt; /* a possible obstacle to releasing its GPUs; set by status; may be NULL */
};
void vg_guest_answer_clear(struct vg_guest_answer *answer);

/* Send a request to the agent over the domain's channel org.vgpud.guest.0 (docs/vgpud-guest.7).
 * Return -1 and set *err if there is no channel (VG_E_NOT_FOUND), the agent does not answer
 * (VG_E_TIMEOUT), or the answer violates the protocol. An answer "error" is 0 with ok=false. The
 * agent's progress is reported.
 *
 * prepare reserves half of the available time, at most 40 s, for the agent to undo an unfinished
 * order. An abandoned order is cancelled, and the next order waits until the agent has finished the
 * cancellation. Devices are found in the live domain by their aliases; guest_path is for those that
 * are not attached yet. */
int vg_guest_hello(vg_virt_link *link, const char *uuid, const struct vg_verb *verb,
                   struct vg_guest_answer *ret, GError **err);
/* Requests the status. ok is true if the agent sees no obstacle to releasing the devices now;
 * otherwise text has the reason. */
int vg_guest_status(vg_virt_link *link, const char *uuid, const GPtrArray *devices,
                    const struct vg_verb *verb, struct vg_guest_answer *ret, GError **err);
/* opencl_at: where OpenCL programs run until they have a GPU again, or NULL. */
int vg_guest_prepare(vg_virt_link *link, const char *uuid, const GPtrArray *devices,
                     const char *opencl_at, const struct vg_verb *verb, struct vg_guest_answer *ret,
                     GError **err);
int vg_guest_resume(vg_virt_link *link, const char *uuid, const GPtrArray *devices,
                    const struct vg_verb *verb, struct vg_guest_answer *ret, GError **err);
/* Moves OpenCL programs that use a vgpu-proxy to another place. If not ok, some programs were not
 * moved; those that are still running continue where they were. */
int vg_guest_switch(vg_virt_link *link, const char *uuid, const char *opencl_at,
                    const struct vg_verb *verb, struct vg_guest_answer *ret, GError **err);

/* Sends the guest the place where OpenCL programs find a GPU, and the token for it; opencl_at is
 * NULL if the VM has no proxy. Fails as vg_guest_status() if the agent does not listen or another
 * program has the channel. ok is false if the agent does not accept it; text has the reason. */
int vg_guest_send_proxy(vg_virt_link *link, const char *uuid, const char *opencl_at,
                        const char *token, const struct vg_verb *verb, struct vg_guest_answer *ret,
                        GError **err);

#endif
