/* SPDX-License-Identifier: Apache-2.0
 *
 * Verbs on OpenStack's nova, for VMs that it manages: it moves them live, and vgpud asks it to and
 * watches. Nothing is done to such a VM behind nova's back. What nova calls a host need be neither
 * the name of the machine nor that of its hypervisor.
 */
#ifndef VG_ACTUATORS_NOVA_MOVE_H
#define VG_ACTUATORS_NOVA_MOVE_H

#include <stdatomic.h>

#include "actuators/nova-cloud.h"
#include "actuators/verb.h"

/* One who asks nova: logs in at the first question, and again before the token's time is up or when
 * nova takes it no more. One thread at a time. */
typedef struct vg_nova vg_nova;

/* limit_ns: of one request; poll_ns: between two looks at a migration. leave (NULL: none): once it
 * is true, whatever runs ends soon with VG_E_CONFLICT, and nova goes on with what it was asked. */
vg_nova *vg_nova_new(vg_nova_cloud *take_cloud, int64_t limit_ns, int64_t poll_ns,
                     const atomic_bool *leave);
void vg_nova_free(vg_nova *nova); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_nova, vg_nova_free)

/* Errors of all verbs: VG_E_UNREACHABLE, VG_E_TIMEOUT, VG_E_EXTERNAL, VG_E_BUSY: Keystone or nova
 * may answer later; VG_E_DENIED, VG_E_INVALID, VG_E_REFUSED: they will not (who vgpud is, what is
 * configured, a nova older than microversion 2.30). */
bool vg_nova_may_pass(const GError *error);

/* ---- looking ---- */

/* An instance, as nova has it; strings are owned. */
struct vg_nova_server {
    bool known;   /* false: nova has none of this UUID, and all else is empty */
    char *status; /* "ACTIVE", "MIGRATING", "ERROR", ... */
    char *task;   /* "migrating"; NULL: nothing is done with it */
    char *host;   /* as nova calls it */
    char *node;   /* the hypervisor's name there */
    char *fault;  /* why it is in ERROR, or NULL */
};
void vg_nova_server_clear(struct vg_nova_server *server);

/* VG_E_DENIED: also if nova does not tell vgpud's user on which host it is. */
int vg_nova_look(vg_nova *nova, const char *uuid, struct vg_nova_server *ret, GError **err);

/* Is it being migrated live now? */
bool vg_nova_is_migrating(const struct vg_nova_server *server);

/* ---- what may go wrong, before anything is touched ---- */

struct vg_nova_precheck {
    const char *uuid;
    const char *from; /* hosts, as vgpud calls them */
    const char *to;
    const char *to_host; /* as nova calls the target; NULL: nova is asked */
    char *ret_from;      /* filled, owned: as nova calls them; NULL: it is not known */
    char *ret_to;
};

/* Appends a sentence (char *) to problems for each thing that would make the move fail, as far as
 * nova can tell beforehand. 0, also with problems, or -1 and *err if nova cannot be asked. */
int vg_nova_precheck(vg_nova *nova, struct vg_nova_precheck *check, GPtrArray *problems,
                     GError **err);

/* ---- changing ---- */

struct vg_nova_migration {
    const char *uuid;
    const char *from; /* as nova calls them */
    const char *to;
};

/* Has nova move an instance live, and watches until it has ended. Progress is told with each look;
 * ret: the last one, also on failure. After the deadline, or when cancelled, nova is asked to abort
 * it, and this returns when nova has, two minutes later, or when it falls silent; a migration that
 * was through by then is 0. A request without an answer may have been taken: so nova is looked at
 * before it counts as refused. */
int vg_nova_migrate(vg_nova *nova, const struct vg_nova_migration *migration,
                    const struct vg_verb *verb, struct vg_migration_progress *ret, GError **err);

/* How far a live migration of the instance is. 0: none is under way; 1: *ret is filled but for
 * times; -1: *err. */
int vg_nova_progress(vg_nova *nova, const char *uuid, struct vg_migration_progress *ret,
                     GError **err);

/* Asks nova to abort the live migration of the instance. 1: it takes that up, but one that has come
 * too far goes on; 0: none is under way, or not yet; -1: *err, also if nova does not abort it now.
 */
int vg_nova_abort(vg_nova *nova, const char *uuid, GError **err);

#endif
