/* SPDX-License-Identifier: Apache-2.0
 *
 * The internals of a vg_virt_link, which all verbs for libvirt use. A link has its own thread and
 * connection. A verb is a job for that thread. If libvirt does not answer in time, the caller
 * continues without the result. Thread, connection and job are then abandoned until the call
 * returns, and the next job gets new ones.
 */
#ifndef VG_ACTUATORS_VIRT_LINK_H
#define VG_ACTUATORS_VIRT_LINK_H

#include "actuators/virt-host.h"

/* The maximum duration of a libvirt call, unless a job has its own. */
#define VG_VIRT_CALL_NS (10 * VG_NS_PER_S)

/* A job owns everything that it needs, as it may outlive its caller. It is the first member of the
 * struct with its data. */
struct vg_virt_job {
    const char *what; /* a phrase for messages */
    /* Runs on the link's thread. Returns 0, or -1 and sets *err. */
    int (*run)(struct vg_virt_job *job, vg_virt_host *host, GError **err);
    void (*free)(struct vg_virt_job *job);
    int64_t call_ns; /* the maximum duration of a single libvirt call */
    /* the limits for run(), whose progress reaches the waiting caller */
    struct vg_verb verb;

    /* These are private. */
    const struct vg_verb *limits; /* the caller's limits, or NULL */
    struct virt_worker *worker;
    atomic_bool cancel;
    int status;
    GError *error;
};

/* Prepares a zeroed job. limits belong to the caller, who keeps them until vg_virt_call() has
 * returned; if NULL, the job only waits for libvirt's answers. */
void vg_virt_job_init(struct vg_virt_job *job, const char *what,
                      int (*run)(struct vg_virt_job *job, vg_virt_host *host, GError **err),
                      void (*free)(struct vg_virt_job *job), const struct vg_verb *limits);

/* Runs the job and returns its result. On success, the job belongs to the caller again; on failure,
 * it is freed. Fails with VG_E_TIMEOUT if libvirt hangs and the job was abandoned; its effects may
 * still happen. A job is abandoned immediately when vg_virt_links_end() is called, and soon when it
 * is cancelled while libvirt does not answer. */
int vg_virt_call(vg_virt_link *link, struct vg_virt_job *take_job, GError **err);

/* Copies struct vg_move_device. Returns NULL for NULL. */
GPtrArray *vg_virt_copy_devices(const GPtrArray *devices);

#endif
