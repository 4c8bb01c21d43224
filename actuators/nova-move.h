/* SPDX-License-Identifier: Apache-2.0
 *
 * The verbs for OpenStack's nova, for VMs that nova manages: vgpud requests a live migration from
 * nova and monitors it. Such a VM is never changed without nova. Nova's name for a host may differ
 * from the machine's and from the hypervisor's.
 */
#ifndef VG_ACTUATORS_NOVA_MOVE_H
#define VG_ACTUATORS_NOVA_MOVE_H

#include <stdatomic.h>

#include "actuators/nova-cloud.h"
#include "actuators/verb.h"

/* A client of nova. It logs in at the first request, and again before its token expires or when
 * nova rejects the token. One thread at a time. */
typedef struct vg_nova vg_nova;

/* Creates a client. limit_ns is the limit for a request, poll_ns the interval between checks of a
 * migration. Once leave, which may be NULL, is true, every call soon ends with VG_E_CONFLICT, and
 * nova continues with its task. */
vg_nova *vg_nova_new(vg_nova_cloud *take_cloud, int64_t limit_ns, int64_t poll_ns,
                     const atomic_bool *leave);
void vg_nova_free(vg_nova *nova); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_nova, vg_nova_free)

/* Returns whether an error may be temporary. VG_E_UNREACHABLE, VG_E_TIMEOUT, VG_E_EXTERNAL and
 * VG_E_BUSY may be temporary, since Keystone or nova may answer later. VG_E_DENIED, VG_E_INVALID
 * and VG_E_REFUSED are permanent, since they are caused by the account, the configuration or the
 * version of nova (before microversion 2.30). */
bool vg_nova_may_pass(const GError *error);

/* ---- querying ---- */

/* An instance as nova describes it; strings are owned. */
struct vg_nova_server {
    bool known;   /* false if nova has no instance of this UUID, and all else is empty */
    char *status; /* "ACTIVE", "MIGRATING", "ERROR", ... */
    char *task;   /* "migrating", or NULL if nova is not performing a task */
    char *host;   /* nova's name of the host */
    char *node;   /* the hypervisor's name there */
    char *fault;  /* the reason for the status ERROR, or NULL */
};
void vg_nova_server_clear(struct vg_nova_server *server);

/* Queries an instance. Fails with VG_E_DENIED if vgpud's user may not see which host has the
 * instance. */
int vg_nova_look(vg_nova *nova, const char *uuid, struct vg_nova_server *ret, GError **err);

/* Returns whether the instance is being migrated live now. */
bool vg_nova_is_migrating(const struct vg_nova_server *server);

/* ---- checks before anything is touched ---- */

struct vg_nova_precheck {
    const char *uuid;
    const char *from; /* hosts, by vgpud's names */
    const char *to;
    const char *to_host; /* nova's name of the target; NULL to query nova for it */
    /* nova's names, which are filled in and owned; NULL if not known */
    char *ret_from;
    char *ret_to;
};

/* Appends a sentence (char *) to problems for each reason why the move would fail, as far as nova
 * can determine in advance. Returns 0 even if there are problems; returns -1 and sets *err if nova
 * cannot be queried. */
int vg_nova_precheck(vg_nova *nova, struct vg_nova_precheck *check, GPtrArray *problems,
                     GError **err);

/* ---- changing ---- */

struct vg_nova_migration {
    const char *uuid;
    const char *from; /* nova's names of hosts */
    const char *to;
};

/* Requests a live migration from nova, and waits until it has ended. Each check reports progress;
 * ret is the last progress, also on failure. After the deadline or when cancelled, requests an
 * abort, and returns when nova has aborted, after two minutes, or when nova becomes unresponsive;
 * if the migration had already finished, the result is 0. Nova may have accepted a request that it
 * did not answer, so its state is checked before the request counts as refused. */
int vg_nova_migrate(vg_nova *nova, const struct vg_nova_migration *migration,
                    const struct vg_verb *verb, struct vg_migration_progress *ret, GError **err);

/* Reads the progress of a live migration of the instance. Returns 0 if none is in progress, 1 if
 * *ret is filled except for times, or -1 and *err. */
int vg_nova_progress(vg_nova *nova, const char *uuid, struct vg_migration_progress *ret,
                     GError **err);

/* Requests that nova abort the live migration of the instance. Returns 1 if nova agrees, although a
 * migration that is too far along continues; 0 if none is in progress; or -1 and *err, for example
 * if nova cannot abort it now. */
int vg_nova_abort(vg_nova *nova, const char *uuid, GError **err);

#endif
