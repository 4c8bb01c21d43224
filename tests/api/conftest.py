# SPDX-License-Identifier: Apache-2.0
import pytest
from certs import Authority
from settings import full
from unixhttp import Server

collect_ignore = [] if full() else ["test_prometheus.py"]


def pytest_sessionfinish():
    """Tests that fail may leave servers."""
    for each in Server.made:
        each.process.kill()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """One for all tests of a file, with five events."""
    server = Server(tmp_path_factory.mktemp("api"), "--events", 5)
    yield server
    server.stop()


@pytest.fixture
def start(tmp_path):
    """Starts servers with options of the test's own; checks at the end how they ended."""
    servers = []

    def make(*options):
        servers.append(Server(tmp_path, *options))
        return servers[-1]
    yield make
    for each in servers:
        if each.process.poll() is None:
            each.stop()


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("ca"))
