# SPDX-License-Identifier: Apache-2.0
"""A filter that keeps out hosts which vgpud has a veto against."""
import logging

from nova.scheduler import filters

from vgpud_nova import conf
from vgpud_nova import request

LOG = logging.getLogger(__name__)


class VgpudFilter(filters.BaseHostFilter):
    """Asks vgpud about all hosts at once. Where vgpud knows nothing, hosts pass."""

    RUN_ON_REBUILD = False
    # vgpud has measured nothing of the instances that were placed just before in the same request.
    run_filter_once_per_request = True

    def filter_all(self, filter_obj_list, spec_obj):
        states = list(filter_obj_list)
        try:
            return self._passing(states, spec_obj)
        except Exception as problem:  # nova would give up on the request
            conf.trouble(problem)
            return states

    def host_passes(self, host_state, spec_obj):
        return bool(self.filter_all([host_state], spec_obj))

    def _passing(self, states, spec_obj):
        if not states or request.decided(spec_obj):
            return states
        opinions = conf.shared_client().ask(request.instance(spec_obj),
                                            [request.host(state) for state in states])
        passing, kept_out = [], {}
        for state, opinion in zip(states, opinions):
            if opinion.veto:
                kept_out[state.host] = opinion.reason
            else:
                passing.append(state)
        if kept_out:
            LOG.debug("vgpud has vetoes against hosts: %s", kept_out)
        if not passing:
            LOG.info("vgpud has a veto against each of %d hosts for instance %s; against %s: %s",
                     len(states), request.field(spec_obj, "instance_uuid"), *next(iter(kept_out.items())))
        return passing
