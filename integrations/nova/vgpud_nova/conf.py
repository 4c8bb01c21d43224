# SPDX-License-Identifier: Apache-2.0
"""The options of [vgpud] in nova.conf, and the client that they describe."""
import logging
import threading

import nova.conf
from oslo_config import cfg

from vgpud_nova import client

LOG = logging.getLogger(__name__)

GROUP = cfg.OptGroup("vgpud", title="vgpud", help="How vgpud is asked about hosts for instances.")

OPTIONS = [
    cfg.ListOpt("endpoints", default=["unix:///run/vgpud/vgpud.sock"],
                help="Where vgpud is asked: https://HOST[:PORT] or unix:///PATH. The first that "
                     "answers is taken."),
    cfg.StrOpt("cafile",
               help="File with the certificate of the CA that has signed vgpud's. Without it, the "
                    "CAs of the system are trusted."),
    cfg.StrOpt("token_file",
               help="File with a token of vgpud's with the role reader."),
    cfg.IntOpt("timeout_ms", default=250, min=1, max=60000,
               help="For so long a request waits for vgpud at most, connecting included, all "
                    "endpoints together."),
    cfg.FloatOpt("cache_ttl", default=2.0, min=0.0, max=60.0,
                 help="For so many seconds an answer is used again for the same request: by the "
                      "weigher after the filter."),
    cfg.FloatOpt("stale_limit", default=60.0, min=0.0,
                 help="Figures that are older than so many seconds count as none. Until then earlier "
                      "answers give weights, but no vetoes, while vgpud is away."),
    cfg.IntOpt("breaker_failures", default=3, min=1,
               help="After so many failures in a row an endpoint is left alone for a while."),
    cfg.FloatOpt("breaker_pause", default=5.0, min=0.0,
                 help="The first while, in seconds; each next one is twice as long, give or take a "
                      "quarter."),
    cfg.FloatOpt("breaker_pause_max", default=60.0, min=0.0,
                 help="The longest while, in seconds."),
    cfg.FloatOpt("weight_multiplier", default=1.0,
                 help="What the weights of VgpudWeigher are multiplied with. An aggregate's metadata "
                      "vgpud_weight_multiplier has precedence for its hosts."),
]

CONF = nova.conf.CONF
CONF.register_group(GROUP)
CONF.register_opts(OPTIONS, group=GROUP)

_client = None
_lock = threading.Lock()


def list_opts():
    """For oslo-config-generator."""
    return [(GROUP, OPTIONS)]


def shared_client():
    """That of this process; made when it is first used, by when nova has read its configuration."""
    global _client
    with _lock:
        if _client is None:
            conf = CONF.vgpud
            _client = client.Client(client.Settings(
                endpoints=tuple(conf.endpoints), cafile=conf.cafile, token_file=conf.token_file,
                timeout_s=conf.timeout_ms / 1000, cache_ttl=conf.cache_ttl,
                stale_limit=conf.stale_limit, breaker_failures=conf.breaker_failures,
                breaker_pause=conf.breaker_pause, breaker_pause_max=conf.breaker_pause_max))
        return _client


def trouble(problem):
    """An error of this package that must not become one of nova's."""
    try:
        shared_client().trouble(problem)
    except Exception as another:
        LOG.debug("vgpud_nova: %r after %r", another, problem)
