/* SPDX-License-Identifier: Apache-2.0
 *
 * Determines where a VM is, from the answers of two hosts, or of nova. Pure.
 */
#ifndef VG_MOVE_PLACE_H
#define VG_MOVE_PLACE_H

#include "move/move.h"

/* The answer of one host. */
struct vg_place_answer {
    bool known; /* false if the host did not answer */
    enum vg_domain_place place;
};

enum vg_migration_place vg_place_of_hosts(const struct vg_place_answer *source,
                                          const struct vg_place_answer *target);

/* Returns whether the target must also be queried to know where the VM is. */
bool vg_place_needs_target(const struct vg_place_answer *source);

/* Nova's answer about an instance. */
struct vg_place_nova {
    bool known; /* false if nova has no such instance */
    bool is_error;
    bool is_migrating;
    const char *host; /* NULL if nova does not report it */
};

/* Determines where an instance is. from and to are nova's names of the hosts. */
struct vg_move_facts vg_place_of_nova(const struct vg_place_nova *nova, const char *from,
                                      const char *to);

#endif
