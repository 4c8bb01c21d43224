# SPDX-License-Identifier: Apache-2.0
"""A weigher that prefers hosts where vgpud expects the least contention for the instance."""
import logging

from nova.scheduler import utils
from nova.scheduler import weights

from vgpud_nova import client
from vgpud_nova import conf
from vgpud_nova import request

LOG = logging.getLogger(__name__)

# What an instance takes of a host of unknown size.
SHARE_UNKNOWN = 0.1


def _share(state, spec_obj):
    """The part of the host's CPUs or memory that an instance of this flavor takes, 0 to 1."""
    flavor = request.field(spec_obj, "flavor")
    shares = [wanted / there for wanted, there in (
        (request.field(flavor, "vcpus"), request.field(state, "vcpus_total")),
        (request.field(flavor, "memory_mb"), request.field(state, "total_usable_ram_mb")),
    ) if wanted and there]
    return min(max(shares, default=SHARE_UNKNOWN), 1.0)


class VgpudWeigher(weights.BaseHostWeigher):
    """Weights are vgpud's scores, 0 to 1; what vgpud knows nothing of is in the middle."""

    # Without them nova stretches the weights that occur to 0..1, however close they are.
    minval = 0
    maxval = 1

    def weight_multiplier(self, host_state):
        multiplier = conf.CONF.vgpud.weight_multiplier
        # Older releases of nova have none of aggregates.
        of_aggregate = getattr(utils, "get_weight_multiplier", None)
        if of_aggregate is None:
            return multiplier
        try:
            return of_aggregate(host_state, "vgpud_weight_multiplier", multiplier)
        except Exception as problem:  # nova would give up on the request
            conf.trouble(problem)
            return multiplier

    def weigh_objects(self, weighed_obj_list, weight_properties):
        states = [weighed.obj for weighed in weighed_obj_list]
        try:
            return self._weigh(states, weight_properties)
        except Exception as problem:  # nova would give up on the request
            conf.trouble(problem)
            return [client.NEUTRAL] * len(states)

    def _weigh_object(self, host_state, weight_properties):
        return self._weigh([host_state], weight_properties)[0]

    def _weigh(self, states, spec_obj):
        if not states or request.decided(spec_obj):
            return [client.NEUTRAL] * len(states)
        opinions = conf.shared_client().ask(request.instance(spec_obj),
                                            [request.host(state) for state in states])
        scores, reasons = [], {}
        for state, opinion in zip(states, opinions):
            score = opinion.score
            if opinion.pending:
                # Several at once: vgpud's answer is from before the first of them, and the best host
                # would get all.
                score = max(0.0, score - opinion.pending * _share(state, spec_obj))
            scores.append(score)
            reasons[state.host] = opinion.reason
        LOG.debug("what vgpud gives hosts their weights for: %s", reasons)
        return scores
