/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides which vgpud carries out a request for a move. Pure.
 */
#ifndef VG_MOVE_ROUTE_H
#define VG_MOVE_ROUTE_H

#include <stdbool.h>

/* What is known about a request. */
struct vg_route_facts {
    bool is_known;      /* this vgpud has begun a move for the same request before */
    bool was_passed_on; /* it has passed the same request on to a peer before */
    bool is_here;       /* the VM is on this host */
    bool is_of_plan;    /* the move is part of a plan */
};

enum vg_route {
    VG_ROUTE_ANSWER, /* report the move that has been begun */
    VG_ROUTE_AGAIN,  /* pass the request on to the same peer, which knows what became of it */
    VG_ROUTE_HERE,   /* begin the move */
    VG_ROUTE_OWNER,  /* find the peer that has the VM, and pass the request on */
};

/* Returns the route. *ret_checks_plan: the plan must still hold before the request is followed. */
enum vg_route vg_route_choose(const struct vg_route_facts *facts, bool *ret_checks_plan);

#endif
