# SPDX-License-Identifier: Apache-2.0
"""All that vgpud does between start and end, in one run. VG_TEST_WRAP is put before the program: a
command such as valgrind that looks for errors and says so with its exit status."""
import os
import shlex
import signal
import threading

import pytest
from vgpud import LTTNG, VM_MAP, BusyVm, Daemon, Events, wait_for

UUID = "11111111-2222-4333-8444-555555555555"
NODE = f"""<node>
<domain type='test'><name>vm-busy</name><uuid>{UUID}</uuid><memory unit='MiB'>512</memory>
<vcpu>2</vcpu><os><type>hvm</type></os>
<seclabel type='static' model='dac' relabel='no'><label>+{os.geteuid()}:+0</label></seclabel></domain>
<device><name>pci_0000_41_00_0</name><parent>computer</parent><driver><name>nvidia</name></driver>
<capability type='pci'><class>0x030200</class><domain>0</domain><bus>65</bus><slot>0</slot>
<function>0</function><product id='0x1eb8'>Tesla T4</product><vendor id='0x10de'>NVIDIA</vendor>
<capability type='mdev_types'><type id='nvidia-230'><name>GRID T4-1Q</name>
<deviceAPI>vfio-pci</deviceAPI><availableInstances>15</availableInstances></type></capability>
</capability></device>
</node>
"""
CONFIG = """[daemon]
window=500ms
log_level=debug
[libvirt]
use=yes
uri=test://{node}
poll=1s
[api]
writes_per_min=100000
client_requests=1000000
"""
WRAPS = [(), tuple(shlex.split(os.environ.get("VG_TEST_WRAP", "")))]


def routes(daemon, vm):
    """Every path that the contract has, with what its holes can be filled with."""
    for path, methods in daemon.get("/v1/openapi.json")["paths"].items():
        if "get" not in methods or path == "/v1/events":
            continue
        if path.startswith("/v1/plans/"):
            ids = [plan["id"] for plan in daemon.get("/v1/plans")["items"]]
        elif path.startswith("/v1/migrations/"):
            ids = [move["id"] for move in daemon.get("/v1/migrations")["items"]]
        elif path.startswith("/v1/hosts/"):
            ids = [host["name"] for host in daemon.get("/v1/hosts")["items"]]
        elif path.startswith("/v1/gpus/"):
            ids = [gpu["id"] for gpu in daemon.get("/v1/gpus")["items"]]
        else:
            ids = [vm]
        for key in [*ids[:1], "no-such-thing"] if "{" in path else [""]:
            yield path.partition("{")[0] + key + path.partition("}")[2]


class Client(threading.Thread):
    """Asks for everything, until it is told to end."""

    def __init__(self, daemon, vm):
        super().__init__()
        self.vgpud, self.vm, self.ended, self.rounds, self.trouble = daemon, vm, False, 0, []

    def run(self):
        try:
            while not self.ended:
                self.look()
                self.rounds += 1
        except Exception as error:  # told by the test itself
            self.trouble.append(error)

    def look(self):
        daemon = self.vgpud
        for path in routes(daemon, self.vm):
            status, headers, body = daemon.request("GET", path)
            # A VM that is measured need not be libvirt's, nor at a proxy, and no host is drained.
            fine = (200, 404, 503) if path.endswith(("/movable", "/drain", "/proxy")) else (200, 503)
            assert status in ((404,) if "no-such-thing" in path else fine), (path, body)
            if "ETag" in headers:
                daemon.request("GET", path, headers={"If-None-Match": headers["ETag"]})
            assert daemon.request("HEAD", path)[0] in (200, 404, 503)
        for step in ("raw", "1s", "1min", "1h"):
            daemon.get(f"/v1/vms/{self.vm}/samples?since=-1h&step={step}")
        assert daemon.request("GET", "/v1/events?after=0&wait=0")[0] == 200
        assert daemon.request("GET", "/no/such/path")[0] == 404
        assert daemon.request("DELETE", "/v1/vms")[0] == 405
        assert daemon.request("GET", "/v1/vms?limit=nothing")[0] == 400
        assert daemon.request("POST", "/v1/plans", "{", {"Content-Type": "application/json"})[0] \
            == 400


def plan_again(daemon):
    status, headers, plan = daemon.post("/v1/plans", {"dry_run": True})
    assert status in (200, 201), plan
    if status == 201:
        assert headers["Location"] == f"/v1/plans/{plan['id']}"
    assert daemon.get(f"/v1/plans/{plan['id']}")["id"] == plan["id"]


def reload_both_ways(daemon, config):
    events = Events(daemon, "?types=config")
    for text, taken in ((config + "[score]\ncpu_enter=0.9\ncpu_leave=0.8\n", True),
                        (config + "[score]\ncpu_enter=2\n", False), (config, True)):
        daemon.write_config(text)
        daemon.process.send_signal(signal.SIGHUP)
        assert events.next()[2]["taken"] is taken
    events.close()


def drain_and_undrain(daemon):
    """The thread of the drain looks while it is told."""
    path = f"/v1/hosts/{daemon.get('/v1/host')['name']}/drain"
    for _ in range(2):
        status, _, drain = daemon.post(path, {})
        assert status == 200 and drain["asked_by"] == f"uid:{os.getuid()}", drain
        wait_for(lambda: daemon.get(path)["state"] != "running")
        assert daemon.request("DELETE", path)[0] == 204
        assert daemon.request("GET", path)[0] == 404


@pytest.fixture(params=WRAPS if WRAPS[1] else WRAPS[:1],
                ids=["plain", "wrapped"][:2 if WRAPS[1] else 1])
def wrap(request):
    return request.param


def config_with_node(tmp_path):
    node = tmp_path / "node.xml"
    node.write_text(NODE)
    return CONFIG.format(node=node)


def ask_reload_plan(daemon, config, vm, wait):
    """Two clients that ask for everything meanwhile, and until wait() returns."""
    # Not only libvirt knows it.
    wait_for(lambda: daemon.request("GET", f"/v1/vms/{vm}")[0] == 200 and
             daemon.get(f"/v1/vms/{vm}")["observed_ns"])
    clients = [Client(daemon, vm) for _ in range(2)]
    for client in clients:
        client.start()
    plan_again(daemon)
    reload_both_ways(daemon, config)
    wait()
    plan_again(daemon)
    wait_for(lambda: all(client.rounds >= 2 or client.trouble for client in clients))
    for client in clients:
        client.ended = True
        client.join()
        assert not client.trouble, client.trouble


def stop_with_stream(daemon, stream, want):
    types = set()
    while not types >= want:
        types.add(stream.next()[1])
    log = daemon.stop()
    stream.close()
    assert log.rstrip().endswith("stopped"), daemon.tail()
    assert os.path.exists(os.path.join(daemon.state, "state.db"))


def parts_of(host):
    return {part["name"]: part["state"] for part in host["parts"]}


def test_replay_from_start_to_stop(tmp_path, wrap):
    config = config_with_node(tmp_path)
    with Daemon(tmp_path, "--speed", "2", "--vm-map", VM_MAP, replay=LTTNG, config=config,
                prefix=wrap) as daemon:
        stream = Events(daemon)
        ask_reload_plan(daemon, config, "vm-busy", daemon.replayed)
        host = daemon.get("/v1/host")
        assert [gpu["device"] for gpu in host["gpus"]] == ["0000:41:00.0"]
        parts = parts_of(host)
        assert parts["collector:libvirt"] == "ok" and parts["collector:replay"] == "ended", parts
        assert parts["store"] == "ok", parts
        stop_with_stream(daemon, stream,
                         {"window", "vm", "collector", "plan", "config", "replay-end"})


def test_live_from_start_to_stop(tmp_path, wrap):
    config = config_with_node(tmp_path)
    with Daemon(tmp_path, config=config, prefix=wrap) as daemon:
        stream = Events(daemon)
        with BusyVm() as vm:
            ask_reload_plan(daemon, config, vm.uuid, lambda: drain_and_undrain(daemon))

        def measures():
            parts = parts_of(daemon.get("/v1/host"))
            return parts["collector:libvirt"] == "ok" and parts["collector:live"] in ("ok", "degraded")
        wait_for(measures)
        stop_with_stream(daemon, stream, {"window", "vm", "collector", "plan", "config"})
