/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "move/route.h"

enum vg_route
vg_route_choose(const struct vg_route_facts *facts, bool *ret_checks_plan)
{
    const bool is_new = !facts->is_known && !facts->was_passed_on;

    *ret_checks_plan = is_new && facts->is_of_plan;
    if (facts->is_known)
        return VG_ROUTE_ANSWER;
    if (facts->was_passed_on)
        return VG_ROUTE_AGAIN;
    return facts->is_here ? VG_ROUTE_HERE : VG_ROUTE_OWNER;
}
