# SPDX-License-Identifier: Apache-2.0
"""An agent, and the host that talks to it, in the guest that a file of tests makes."""
import pytest
from guestd import Agent


@pytest.fixture(name="agent")
def an_agent(guest):
    with Agent(guest) as agent:
        yield agent


@pytest.fixture(name="host")
def a_host(agent):
    with agent.host() as host:
        yield host
