# SPDX-License-Identifier: Apache-2.0
import pytest
from labhost import a_host, lab
from movelab import MoveLab, has_gpu, remove_guest, running_on, start_guest
from patience import knows


@pytest.fixture(scope="session")
def host():
    """One for all tests, each of which leaves it as it was."""
    yield from a_host()


@pytest.fixture(scope="session")
def guest0(host):
    """A guest of the first host, which stays."""
    lab("guest", host, "guest0")


@pytest.fixture(scope="module")
def movelab(host, tmp_path_factory):
    """Both hosts with a vgpud."""
    made = MoveLab(tmp_path_factory.mktemp("move"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def guest(movelab, request):
    """The GUEST of the file, with a GPU. It stays; each test finds it on one of the hosts."""
    start_guest("h1", request.module.GUEST)
    yield request.module.GUEST
    remove_guest(request.module.GUEST)


@pytest.fixture
def way(movelab, guest):
    """Where it is, and where it is not; afterwards both hosts are as configured."""
    [source] = running_on(guest)
    assert has_gpu(source, guest)
    knows(movelab, source, guest)
    yield source, "h2" if source == "h1" else "h1"
    for node in movelab.nodes.values():
        node.reload("")
