/* SPDX-License-Identifier: Apache-2.0
 *
 * Verbs on OpenStack's nova, for VMs that nova manages: vgpud asks nova to move them live, and
 * watches. Nothing is done to such a VM without nova. Nova's name of a host may differ from the
 * name of the machine and from that of its hypervisor.
 */
#ifndef VG_ACTUATORS_NOVA_MOVE_H
#define VG_ACTUATORS_NOVA_MOVE_H

#include <stdatomic.h>

#include "actuators/nova-cloud.h"
#include "actuators/verb.h"

/* A client of nova. It logs in at the first request, and again before its token expires or when
 * nova rejects the token. One thread at a time. */
typedef struct vg_nova vg_nova;

/* Makes a client. limit_ns: limit of one request; poll_ns: time between two looks at a migration.
 * leave (NULL: none): once it is true, every call ends soon with VG_E_CONFLICT, and nova goes on
 * with what it was asked. */
vg_nova *vg_nova_new(vg_nova_cloud *take_cloud, int64_t limit_ns, int64_t poll_ns,
                     const atomic_bool *leave);
void vg_nova_free(vg_nova *nova); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_nova, vg_nova_free)

/* Tells if an error may pass. VG_E_UNREACHABLE, VG_E_TIMEOUT, VG_E_EXTERNAL and VG_E_BUSY may:
 * Keystone or nova may answer later. VG_E_DENIED, VG_E_INVALID and VG_E_REFUSED do not (the
 * account, the configuration, a nova older than microversion 2.30). */
bool vg_nova_may_pass(const GError *error);

/* ---- looking ---- */

/* An instance as nova describes it; strings are owned. */
struct vg_nova_server {
    bool known;   /* false: nova has no instance of this UUID, and all else is empty */
    char *status; /* "ACTIVE", "MIGRATING", "ERROR", ... */
    char *task;   /* "migrating"; NULL: nova does nothing with it */
    char *host;   /* nova's name of the host */
    char *node;   /* the hypervisor's name there */
    char *fault;  /* reason of the status ERROR, or NULL */
};
void vg_nova_server_clear(struct vg_nova_server *server);

/* Looks at an instance. VG_E_DENIED: also if nova does not tell vgpud's user on which host it
 * is. */
int vg_nova_look(vg_nova *nova, const char *uuid, struct vg_nova_server *ret, GError **err);

/* Tells if the instance is being migrated live now. */
bool vg_nova_is_migrating(const struct vg_nova_server *server);

/* ---- what may go wrong, before anything is touched ---- */

struct vg_nova_precheck {
    const char *uuid;
    const char *from; /* hosts, as vgpud calls them */
    const char *to;
    const char *to_host; /* nova's name of the target; NULL: nova is asked */
    char *ret_from;      /* filled, owned: nova's names; NULL: not known */
    char *ret_to;
};

/* Appends a sentence (char *) to problems for each reason why the move would fail, as far as nova
 * can tell beforehand. Returns 0 also with problems; -1 and *err if nova cannot be asked. */
int vg_nova_precheck(vg_nova *nova, struct vg_nova_precheck *check, GPtrArray *problems,
                     GError **err);

/* ---- changing ---- */

struct vg_nova_migration {
    const char *uuid;
    const char *from; /* nova's names of hosts */
    const char *to;
};

/* Has nova move an instance live, and watches until it has ended. Progress is told with each look;
 * ret: the last progress, also on failure. After the deadline, or when cancelled, nova is asked to
 * abort, and this returns when nova has done so, after two minutes, or when nova falls silent; if
 * the migration had already finished by then, the result is 0. Nova may have taken a request that
 * it did not answer, so its state is looked at before the request counts as refused. */
int vg_nova_migrate(vg_nova *nova, const struct vg_nova_migration *migration,
                    const struct vg_verb *verb, struct vg_migration_progress *ret, GError **err);

/* Reads how far a live migration of the instance is. 0: none is under way; 1: *ret is filled except
 * for times; -1: *err. */
int vg_nova_progress(vg_nova *nova, const char *uuid, struct vg_migration_progress *ret,
                     GError **err);

/* Asks nova to abort the live migration of the instance. 1: nova accepts, but a migration that has
 * come too far goes on; 0: none is under way yet or any more; -1: *err, also if nova cannot abort
 * it now. */
int vg_nova_abort(vg_nova *nova, const char *uuid, GError **err);

#endif
