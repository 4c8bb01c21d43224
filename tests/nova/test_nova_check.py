# SPDX-License-Identifier: Apache-2.0
"""vgpuctl nova check: against vgpud itself, against fakes that do what is wrong, and against what the
filter and the weigher make of the same answers."""
import json
import os
import signal
import subprocess

import novashim
import pytest
import vgpuctl
from certs import Authority
from fakevgpud import right
from novashim import HostState, Spec
from settings import HANG_S
from test_nova import veto_of
from test_nova_away import WRONG
from tlsserver import loopback
from vgpud import LTTNG, VM_MAP, Daemon, pause

from vgpud_nova import conf

HOST = "node-a.example.org"
SCHEDULER = """available_filters = nova.scheduler.filters.all_filters
available_filters = vgpud_nova.filters.VgpudFilter
# The last one, on a line of its own.
enabled_filters = ComputeFilter,
    VgpudFilter
weight_classes = nova.scheduler.weights.all_weighers, vgpud_nova.weighers.VgpudWeigher
"""


def nova_conf(directory, scheduler=SCHEDULER, **options):
    """However busy the machine is, an answer that comes is in time, unless a test says otherwise."""
    path = directory / "nova.conf"
    vgpud = {"timeout_ms": 60_000, **options}
    path.write_text("[DEFAULT]\ndebug = true\n[filter_scheduler]\n" + scheduler + "[vgpud]\n" +
                    "".join(f"{key} = {value}\n" for key, value in vgpud.items() if value is not None))
    return path


def check(*args, code=0, env=None):
    done = subprocess.run([vgpuctl.program(), "nova", "check", *map(str, args)], capture_output=True,
                          text=True, timeout=HANG_S, check=False, env={**os.environ, **(env or {})})
    assert done.returncode == code, (args, done.returncode, done.stdout, done.stderr)
    return done


def document(*args, code=0, **more):
    done = check(*args, "-o", "json", code=code, **more)
    result = json.loads(done.stdout)
    assert result["works"] == (code == 0)
    return result, done.stderr


class Node:
    """vgpud with a recording, on TLS, and a token for nova."""

    def __init__(self, directory, authority):
        self.host, self.port = loopback()
        self.url = f"https://{self.host}:{self.port}"
        pem, key = authority.issue("node", f'ip_address = "{self.host}"')
        self.daemon = Daemon(directory, "--speed", "max", "--vm-map", VM_MAP, "--host", HOST, replay=LTTNG,
                             config=f"[api]\nlisten={self.host}:{self.port}\ntls_certificate={pem}\n"
                                    f"tls_key={key}\n").replayed()
        made = self.daemon.post("/v1/tokens", {"name": "nova", "role": "reader"})[2]
        self.token = directory / "token"
        self.token.write_text(made["token"] + "\n")
        self.token.chmod(0o600)
        self.options = {"endpoints": self.url, "cafile": authority.certificate, "token_file": self.token}


@pytest.fixture(scope="module")
def node(tmp_path_factory, authority):
    node = Node(tmp_path_factory.mktemp("node"), authority)
    yield node
    node.daemon.stop()


@pytest.mark.smoke
def test_it_works(node, tmp_path):
    path = nova_conf(tmp_path, **node.options)
    got, messages = document("--config", path)
    assert not messages
    assert got["filter"] and got["weigher"] and not got["fail_open"] and got["timeout_ms"] == 60_000
    endpoint, = got["endpoints"]
    assert endpoint["state"] == "answers" and endpoint["taken"] and got["taken"] == node.url
    assert 0 < endpoint["time_ms"] < endpoint["limit_ms"] == 60_000
    host, = got["hosts"]
    assert host["name"] == HOST and host["verdict"] == "pass" and host["passes"]
    assert host["score"] == host["weight"] and host["age_ms"] >= 0 and "VMs pinned to CPU 0 leave 1.00 of 2 CPUs" in host["reason"]
    table = check("--config", path, "--hosts", f"nobody, {HOST}").stdout
    for word in ("enabled_filters", "VgpudFilter", "weight_classes", node.url, "answers", HOST, "unknown"):
        assert word in table
    # What nobody knows is in the middle, and behind a host one of whose CPUs is free.
    rows = [line.split()[:3] for line in table.splitlines() if line[:2] in ("1 ", "2 ")]
    assert rows == [["1", HOST, "pass"], ["2", "nobody", "unknown"]]
    assert "works: true" in check("--config", path, "-o", "yaml").stdout


def test_options_instead_of_a_file(node):
    got, _ = document("--socket", node.daemon.socket)
    assert got["config"] is None and got["taken"] == "unix://" + node.daemon.socket
    assert got["timeout_ms"] == 250
    got, _ = document("--server", node.url, "--token-file", node.token, "--cacert",
                      node.options["cafile"])
    assert got["taken"] == node.url
    check("--socket", node.daemon.socket, "--config", "/dev/null", code=2)
    check("--hosts", "a,,b", code=2)
    check("--config", "/nonexistent", code=3)


def test_the_environment_does_not_help(node, tmp_path):
    """Nova would not see it."""
    path = nova_conf(tmp_path, **{**node.options, "token_file": None})
    got, messages = document("--config", path, code=4, env={"VGPUCTL_TOKEN_FILE": str(node.token)})
    assert got["endpoints"][0]["state"] == "refused"


def test_wrong_token(node, tmp_path):
    wrong = tmp_path / "token"
    wrong.write_text("vgpud_" + "x" * 43)
    got, messages = document("--config", nova_conf(tmp_path, **{**node.options, "token_file": wrong}), code=4)
    assert got["fail_open"] and got["hosts"] == [] and got["taken"] is None
    assert got["endpoints"][0]["state"] == "refused"
    assert "the token is unknown" in messages and "as if there were no vgpud" in messages
    got, messages = document("--config",
                             nova_conf(tmp_path, **{**node.options, "token_file": tmp_path / "none"}), code=7)
    assert str(tmp_path / "none") in messages
    # The filter reads it for sockets, too.
    got, messages = document("--config", nova_conf(tmp_path, endpoints="unix://" + node.daemon.socket,
                                                   token_file=tmp_path / "none"), code=3)
    assert got["fail_open"] and "token_file" in messages


def test_wrong_ca(node, tmp_path):
    other = Authority(tmp_path, "other CA")
    path = nova_conf(tmp_path, **{**node.options, "cafile": other.certificate})
    got, messages = document("--config", path, code=7)
    assert got["endpoints"][0]["state"] == "unreachable" and got["fail_open"]
    assert "not signed by a CA" in messages


def test_nobody_listens_at_the_first(node, tmp_path):
    """The second one answers, and so it works."""
    host, port = loopback()
    gone = f"https://{host}:{port}"
    path = nova_conf(tmp_path, **{**node.options, "endpoints": f"http://x, {gone}, {node.url}"})
    got, messages = document("--config", path)
    assert [(each["url"], each["state"]) for each in got["endpoints"]] == [
        ("http://x", "invalid"), (gone, "unreachable"), (node.url, "answers")]
    assert got["taken"] == node.url and got["endpoints"][1]["limit_ms"] == 30_000
    assert "no process listens" in messages and "http://x" in messages
    got, messages = document("--config", nova_conf(tmp_path, **{**node.options, "endpoints": gone}), code=7)
    assert got["fail_open"]


def test_vgpud_is_stopped(node, tmp_path):
    """It hangs: TLS stands, or not even that."""
    path = nova_conf(tmp_path, **{**node.options, "timeout_ms": 250})
    pause(node.daemon.process.pid)
    try:
        got, messages = document("--config", path, code=7)
        assert got["endpoints"][0]["state"] == "unreachable" and "within 3 s" in messages
        assert got["endpoints"][0]["time_ms"] >= 3000
    finally:
        node.daemon.process.send_signal(signal.SIGCONT)


@pytest.mark.parametrize("how", ["hang", "drip"])
def test_no_answer_ends(fake, tmp_path, how):
    vgpud = fake()
    vgpud.act = getattr(vgpud, how)
    path = nova_conf(tmp_path, endpoints=vgpud.url, timeout_ms=250)
    got, messages = document("--config", path, "--hosts", "node-1", code=6)
    assert got["endpoints"][0]["state"] == "silent" and got["fail_open"]
    assert "did not answer within 3 s" in messages


def test_an_answer_that_nova_does_not_wait_for(fake, tmp_path):
    """It comes, but 1 ms is over; what it says is for nobody."""
    vgpud = fake()
    vgpud.act = lambda handler, asked: (vgpud.released.wait(0.05), vgpud.answer(handler, asked))
    got, messages = document("--config", nova_conf(tmp_path, endpoints=vgpud.url, timeout_ms=1),
                             "--hosts", "node-1", code=6)
    endpoint, = got["endpoints"]
    assert endpoint["state"] == "slow" and endpoint["time_ms"] > endpoint["limit_ms"] == 1
    assert got["fail_open"] and got["hosts"] == [] and "within 1 ms" in messages


@pytest.mark.parametrize("name", [name for name in WRONG if name not in ("long", "deep")])
def test_garbage(scheduler, fake, tmp_path, name):
    """What the filter does not take is not taken here."""
    vgpud = fake(opinion=veto_of(0))
    vgpud.act = WRONG[name][0]
    done = check("--config", nova_conf(tmp_path, endpoints=vgpud.url), "--hosts", "node-0,node-1,node-2",
                 "-o", "json", code={"403": 4, "404": 3, "429": 5, "503": 5, "nothing": 7, "half": 7}.get(name, 1))
    got = json.loads(done.stdout)
    assert got["fail_open"] and not got["works"] and got["hosts"] == []
    assert got["endpoints"][0]["state"] not in ("answers", "slow")
    assert got["endpoints"][0]["reason"] in done.stderr


def test_it_does_as_the_filter_and_the_weigher_do(scheduler, fake, tmp_path):
    """The same request, the same hosts out, the same order and weights."""
    def opinion(instance, host):
        special = {"node-3": {"verdict": "unknown", "score": 0.5, "age_ms": None},
                   "node-4": {"verdict": "veto", "score": 0.0, "age_ms": 1_001_000},
                   "node-6": {"verdict": "pass", "score": 0.9, "age_ms": 900_000},
                   "node-7": {"verdict": "pass", "score": 7, "age_ms": 1}}
        return {**veto_of(1, 5)(instance, host), **special.get(host["name"], {})}
    vgpud = fake(opinion=opinion)
    got, _ = document("--config", nova_conf(tmp_path, endpoints=vgpud.url, weight_multiplier=2.5,
                                            stale_limit=1000),
                      "--hosts", ",".join(f"node-{n}" for n in range(8)))
    states = [HostState(n, uuid=None) for n in range(8)]
    spec = Spec(instance_uuid=None, num_instances=1,
                flavor=Spec(vcpus=2, memory_mb=4096, extra_specs={}))
    expected = scheduler([vgpud.url], weight_multiplier=2.5, stale_limit=1000).schedule(states, spec)
    assert [(host["name"], pytest.approx(host["weight"])) for host in got["hosts"] if host["passes"]] == expected
    assert {host["name"] for host in got["hosts"] if not host["passes"]} == {"node-1", "node-5"}
    ours, theirs = vgpud.requests
    assert ours == theirs
    table = check("--config", nova_conf(tmp_path, endpoints=vgpud.url), "--hosts", "node-1,node-2").stdout
    assert [line.split()[:3] for line in table.splitlines() if " node-" in line] == [
        ["1", "node-2", "pass"], ["out", "node-1", "veto"]]


def test_defaults_are_those_of_the_package(tmp_path):
    path = tmp_path / "nova.conf"
    path.write_text("[filter_scheduler]\n" + SCHEDULER)
    fresh = novashim._Config()
    fresh.register_group(conf.GROUP)
    fresh.register_opts(conf.OPTIONS, conf.GROUP)
    # Whether a vgpud listens there is this machine's business.
    done = subprocess.run([vgpuctl.program(), "nova", "check", "--config", path, "--hosts", "x", "-o", "json"],
                          capture_output=True, text=True, timeout=HANG_S, check=False)
    got = json.loads(done.stdout)
    assert [each["url"] for each in got["endpoints"]] == fresh.vgpud.endpoints
    assert got["timeout_ms"] == fresh.vgpud.timeout_ms
    assert got["weight_multiplier"] == fresh.vgpud.weight_multiplier


@pytest.mark.parametrize("scheduler, why", [
    ("", "nova does not query vgpud"),
    (SCHEDULER.replace("    VgpudFilter", "    OtherFilter"), "VgpudFilter is not in enabled_filters"),
    (SCHEDULER.replace(", vgpud_nova.weighers.VgpudWeigher", ""), "VgpudWeigher is not in weight_classes"),
    (SCHEDULER.replace("available_filters = vgpud_nova.filters.VgpudFilter\n", ""), "does not start"),
], ids=["neither", "filter", "weigher", "available"])
def test_what_is_not_enabled(fake, tmp_path, scheduler, why):
    vgpud = fake(opinion=veto_of(1))
    got, messages = document("--config", nova_conf(tmp_path, scheduler, endpoints=vgpud.url), "--hosts",
                             "node-1,node-2", code=1)
    assert why in messages and not got["fail_open"]
    if "VgpudFilter" not in scheduler:
        assert not got["filter"] and all(host["passes"] for host in got["hosts"])


def test_hosts_that_vgpud_does_not_know(node, tmp_path):
    got, messages = document("--config", nova_conf(tmp_path, **node.options), "--hosts", "short-name", code=3)
    assert not got["fail_open"] and "openstack hypervisor list" in messages


@pytest.mark.parametrize("text, why", [
    ("endpoints = unix:///x\n", ":1: a [GROUP] must precede"),
    ("[vgpud\n", ":1: '[vgpud' is not a group of the form [GROUP]"),
    ("[vgpud]\nendpoints\n", ":2: 'endpoints' does not have the form KEY = VALUE"),
    ("[vgpud]\n\ntimeout-ms = 0\n", ":3: [vgpud] timeout_ms: it must be a number from 1 to 60000, not '0'"),
    ("[vgpud]\nstale_limit: -1\n", ":2: [vgpud] stale_limit: it must be a number of at least 0"),
    ("[vgpud]\nweight_multiplier = much\n", "weight_multiplier: it must be a number, not 'much'"),
    ("[vgpud]\ncafile = $state_path/ca.pem\n", "does not expand $NAME"),
    ("[vgpud]\nendpoints =\n", "names no vgpud"),
], ids=range(8))
def test_files_that_are_no_good(tmp_path, text, why):
    path = tmp_path / "nova.conf"
    path.write_text(text)
    assert why in check("--config", path, code=1).stderr


def test_as_oslo_reads_it(fake, tmp_path):
    """Groups in any case, quotes, a colon, a dash; the last value counts, and blanks do not."""
    vgpud, other = fake(opinion=right), fake()
    path = tmp_path / "nova.conf"
    path.write_text("[Filter_Scheduler]\n" + SCHEDULER + f"[VGPUD]\nendpoints = {other.url}\ntimeout-ms: 50000\n"
                    f"[other]\nendpoints = unix:///none\n; endpoints = no\n[vgpud]\nendpoints = '{vgpud.url}'\n"
                    "cafile =\n")
    got, _ = document("--config", path, "--hosts", "node-7")
    assert got["timeout_ms"] == 50_000 and [each["url"] for each in got["endpoints"]] == [vgpud.url]
    assert len(vgpud.requests) == 1 and not other.requests
    assert vgpud.requests[0][1]["instance"]["uuid"] is None
