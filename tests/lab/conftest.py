# SPDX-License-Identifier: Apache-2.0
import pytest
from labhost import a_host


@pytest.fixture(scope="session")
def host():
    """One for all tests, each of which leaves it as it was."""
    yield from a_host()
