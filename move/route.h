/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides which vgpud executes a request for a move. Pure.
 */
#ifndef VG_MOVE_ROUTE_H
#define VG_MOVE_ROUTE_H

#include <stdbool.h>

/* What is known about a request. */
struct vg_route_facts {
    bool is_known;      /* this vgpud has already started a move for the same request */
    bool was_passed_on; /* it has already forwarded the same request to a peer */
    bool is_here;       /* the VM is on this host */
    bool is_of_plan;    /* the move is part of a plan */
};

enum vg_route {
    VG_ROUTE_ANSWER, /* report the move that has been started */
    VG_ROUTE_AGAIN,  /* forward the request to the same peer, which knows the outcome */
    VG_ROUTE_HERE,   /* start the move */
    VG_ROUTE_OWNER,  /* find the peer that has the VM, and forward the request */
};

/* Returns the route. *ret_checks_plan: check that the plan is still valid before following the
 * request. */
enum vg_route vg_route_choose(const struct vg_route_facts *facts, bool *ret_checks_plan);

#endif
