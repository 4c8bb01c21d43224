# SPDX-License-Identifier: Apache-2.0
import pytest
from labhost import a_host
from movelab import MoveLab


@pytest.fixture(scope="session")
def host():
    """One for all tests, each of which leaves it as it was."""
    yield from a_host()


@pytest.fixture(scope="module")
def movelab(host, tmp_path_factory):
    """Both hosts with a vgpud."""
    made = MoveLab(tmp_path_factory.mktemp("move"))
    yield made
    made.close()
