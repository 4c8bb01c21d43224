# SPDX-License-Identifier: Apache-2.0
import logging
import os
import sys

import pytest
from certs import Authority
from fakevgpud import FakeVgpud
from settings import HANG_S, full

import novashim

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "integrations",
                                "nova"))

from vgpud_nova import conf, filters, weighers  # noqa: E402

collect_ignore = [] if full() else ["test_nova_real.py", "test_nova_move_real.py"]


class Scheduler:
    """The filter and the weigher with a configuration; a client of their own for each."""

    def __init__(self, endpoints, **options):
        # However busy the machine is, an answer that comes counts.
        usual = {"timeout_ms": HANG_S * 1000, "cache_ttl": HANG_S}
        for name, value in {**usual, **options, "endpoints": endpoints}.items():
            assert hasattr(conf.CONF.vgpud, name)
            setattr(conf.CONF.vgpud, name, value)
        conf._client = None
        self.filter = filters.VgpudFilter()
        self.weigher = weighers.VgpudWeigher()

    def schedule(self, states, spec, index=0):
        return novashim.schedule([self.filter], [self.weigher], states, spec, index)

    @property
    def endpoints(self):
        return conf.shared_client().endpoints


@pytest.fixture
def scheduler():
    before = dict(vars(conf.CONF.vgpud))
    yield Scheduler
    vars(conf.CONF.vgpud).update(before)
    conf._client = None


@pytest.fixture
def fake(tmp_path):
    """Makes fake vgpuds: on a unix socket, unless told otherwise."""
    made = []

    def make(address=None, **options):
        made.append(FakeVgpud(address or str(tmp_path / f"{len(made)}.sock"), **options))
        return made[-1]
    yield make
    for each in made:
        each.stop()


@pytest.fixture(scope="session")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture
def told(caplog):
    """What vgpud_nova has told the log so far, from INFO on."""
    caplog.set_level(logging.DEBUG, "vgpud_nova")
    return lambda: [record.getMessage() for record in caplog.records
                    if record.levelno >= logging.INFO and record.name.startswith("vgpud_nova")]
