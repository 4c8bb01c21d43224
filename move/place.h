/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides where a VM is, from what two hosts, or nova, say of it. Pure.
 */
#ifndef VG_MOVE_PLACE_H
#define VG_MOVE_PLACE_H

#include "move/move.h"

/* The answer of one host. */
struct vg_place_answer {
    bool known; /* false: the host did not answer */
    enum vg_domain_place place;
};

enum vg_migration_place vg_place_of_hosts(const struct vg_place_answer *source,
                                          const struct vg_place_answer *target);

/* What nova says of an instance. */
struct vg_place_nova {
    bool known; /* false: nova has no such instance */
    bool is_error;
    bool is_migrating;
    const char *host; /* NULL: nova does not say */
};

/* from, to: names of hosts, as nova has them. */
struct vg_move_facts vg_place_of_nova(const struct vg_place_nova *nova, const char *from,
                                      const char *to);

#endif
