# SPDX-License-Identifier: Apache-2.0
"""The filter and the weigher against the API of vgpud itself (tests/tools/api-server, which makes up
what it knows of hosts)."""
import pytest
from novashim import HostState
from test_nova import spec
from tlsserver import TlsServer
from unixhttp import Server

EXPECTED = [("good", 0.9), ("nobody", 0.5), ("other", 0.3)]


def states():
    return [HostState(0, hypervisor_hostname=name) for name in ("other", "full", "nobody", "good")]


@pytest.fixture(scope="module")
def server(tmp_path_factory, authority):
    server = TlsServer(tmp_path_factory.mktemp("nova-api"), authority)
    yield server
    server.stop()


@pytest.mark.smoke
def test_over_tls_with_a_token(scheduler, server, tmp_path, told):
    made = server.post("/v1/tokens", {"name": "nova", "role": "reader"})
    assert made.status == 201, made.body
    (tmp_path / "token").write_text(made.json()["token"])
    url = f"https://{server.host}:{server.port}"
    options = {"cafile": server.authority.certificate, "token_file": str(tmp_path / "token")}
    assert scheduler([url], **options).schedule(states(), spec()) == EXPECTED
    # Revoked: it passes all, and says why.
    assert server.request("DELETE", "/v1/tokens/nova").status == 204
    assert len(scheduler([url], **options).schedule(states(), spec())) == 4
    assert "HTTP status 401: " in told()[-1]


@pytest.mark.parametrize("extra_specs", [
    {}, {"resources:VGPU": "0"}, {"resources:VGPU": "1"}, {"resources:VGPU": "1000"},
    {"vgpud:class": "nothing"}, {"vgpud:class": "alternating", "vgpud:gpu_type": "nvidia-63"},
    {"vgpud:gpu_type": "GRID V100D-8Q", "resources1:VGPU": "2"},
    {"vgpud:gpu_type": "i915-GVTg_V5_4", "resources:VGPU": "9999999999999999999999"},
], ids=str)
def test_whatever_a_flavor_says_is_a_good_request(scheduler, server, extra_specs):
    nova = scheduler(["unix://" + server.path])
    assert nova.schedule(states(), spec(extra_specs)) == EXPECTED


def test_whatever_a_request_lacks(scheduler, server):
    nova = scheduler(["unix://" + server.path])
    for fields in ({"flavor": None}, {"instance_uuid": None}, {"num_instances": 3}):
        assert nova.schedule(states(), spec(**fields)) == EXPECTED


def test_vgpud_starts_again(scheduler, tmp_path):
    """Connections of the one before are of no use, and nobody notices."""
    first = Server(tmp_path)
    nova = scheduler(["unix://" + first.path], cache_ttl=0.0)
    assert nova.schedule(states(), spec()) == EXPECTED
    first.stop()
    second = Server(tmp_path)
    assert second.path == first.path
    assert nova.schedule(states(), spec()) == EXPECTED
    assert nova.endpoints[0].breaker.failures == 0
    second.stop()
