# SPDX-License-Identifier: Apache-2.0
"""Several vgpuds that know each other: plans over the hosts of all of them, and what is said of those
that cannot be asked."""
import http.server
import json
import os
import shutil
import signal
import ssl
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import vgpuctl
from certs import Authority
from netns import Network, skip_without
from settings import HANG_S
from vgpud import LTTNG, VM_MAP, Daemon, pause, wait_for

pytestmark = [pytest.mark.xdist_group("peers"),
              pytest.mark.skipif(not shutil.which("certtool"),
                                 reason="certtool (package gnutls-bin) is not installed")]

PORT = 8443
# The longest deadline that there is, and one for peers that are not to answer.
QUIET = "[peers]\nrefresh=1h\ndeadline=10s\n"
HASTY = "[peers]\nrefresh=1h\ndeadline=2s\n"


def idle_recording(directory, name, pid):
    """Text of a host with four CPUs and a VM that hardly does anything, and its names."""
    rows = ["# tracer: nop", "#", "#           TASK-PID    TGID   CPU#  |||||  TIMESTAMP  FUNCTION"]
    switch = ("{who:>16}-{tid:<7} ({tgid:>7}) [{cpu:03d}] d...   {at:.6f}: sched_switch: prev_comm={who} prev_pid={tid} "
              "prev_prio=120 prev_state={state} ==> next_comm={to} next_pid={next} next_prio=120")
    for n in range(1000):
        at = 100 + n / 50
        steps = []
        for cpu in range(4):
            task, tid = ("CPU 0/KVM", pid + 1) if cpu == 0 else (f"ksoftirqd/{cpu}", 10 + cpu)
            idle = {"who": f"swapper/{cpu}", "tid": 0, "tgid": "-------"}
            steps.append((at + cpu / 1e5, {**idle, "cpu": cpu, "state": "R", "to": task, "next": tid}))
            steps.append((at + cpu / 1e5 + 0.001, {"who": task, "tid": tid, "cpu": cpu, "state": "S",
                                                   "tgid": pid if cpu == 0 else tid,
                                                   "to": f"swapper/{cpu}", "next": 0}))
        rows += [switch.format(at=when, **values) for when, values in sorted(steps, key=lambda s: s[0])]
    trace, names = directory / f"{name}.txt", directory / f"{name}.map"
    trace.write_text("\n".join(rows) + "\n")
    names.write_text(f"{pid} vm-{name}\n")
    return trace, names


class Node:
    """One vgpud with TLS in a namespace of its own."""

    def __init__(self, net, directory, name, recording, certificate, authority, more=""):
        self.name, self.address = name, net.address[name]
        self.url = f"https://{self.address}:{PORT}"
        self.directory = directory / name
        self.directory.mkdir()
        trace, names = recording
        pem, key = certificate
        self.config = (f"[api]\nlisten={self.address}:{PORT}\ntls_certificate={pem}\ntls_key={key}\n"
                       f"tls_client_ca={authority.certificate}\n[role reader]\nsubject=CN=planner\n" + more)
        self.daemon = Daemon(self.directory, "--speed", "max", "--vm-map", names, "--host",
                             f"host-{name}", replay=trace, config=self.config, prefix=net.prefix(name))
        self.daemon.replayed()

    def ctl(self, *args, code=0):
        done = subprocess.run([vgpuctl.program(), *map(str, args)], capture_output=True, text=True,
                              timeout=HANG_S, check=False,
                              env={**os.environ, "VGPUCTL_SOCKET": self.daemon.socket})
        assert done.returncode == code, (args, done.returncode, done.stdout, done.stderr)
        return done.stdout

    def token(self, role="reader"):
        path = self.directory / "token"
        path.write_text(self.ctl("token", "create", "planner", "--role", role))
        return path

    def snapshot(self):
        path = self.directory / "snapshot.json"
        path.write_text(self.ctl("snapshot"))
        return path

    def peers(self):
        return {p["name"]: p for p in json.loads(self.ctl("peer", "list", "-o", "json"))}

    def plan(self):
        return json.loads(self.ctl("placement", "--dry-run", "-o", "json"))

    def reload(self, more):
        before = self.daemon.log().count("configuration reloaded")
        self.daemon.write_config(self.config + more)
        self.daemon.process.send_signal(signal.SIGHUP)
        wait_for(lambda: self.daemon.log().count("configuration reloaded") > before)


def peer(name, url, **keys):
    return f"[peer {name}]\nurl={url}\n" + "".join(f"{k}={v}\n" for k, v in keys.items())


BUSY = "5c9e2c3a-0d8f-4f0a-9d64-1f3c1c7c5a01"


class Site:
    """Host a is contended, the others are idle; a knows b by a token and c by a certificate."""

    def __init__(self, directory):
        self.ca = Authority(directory / "ca")
        other = Authority(directory / "other", "other CA")
        names = "abcde"
        self.net = Network(*names)
        self.nodes = {}
        for n, name in enumerate(names):
            recording = idle_recording(directory, name, 5000 + 100 * n)
            if name == "a":
                names_of_a = directory / "a.map"
                with open(VM_MAP, encoding="utf-8") as file:
                    names_of_a.write_text(file.read().replace("vm-busy", f"vm-busy {BUSY}"))
                recording = LTTNG, names_of_a
            authority = other if name == "e" else self.ca
            certificate = authority.issue(name, f'ip_address = "{self.net.address[name]}"')
            self.nodes[name] = Node(self.net, directory, name, recording, certificate, self.ca)
        cert, key = self.ca.issue("planner", server=False)
        a = self.nodes["a"]
        trust = {"cacert": self.ca.certificate}
        self.known = {n: peer(n, self.nodes[n].url, cert=cert, key=key, host=f"host-{n}", **trust)
                      for n in "acde"}
        self.known["b"] = peer("b", self.nodes["b"].url, token_file=self.nodes["b"].token(), host="host-b",
                               **trust)
        a.reload(QUIET + self.known["b"] + self.known["c"])
        self.a = a


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    skip_without()
    site = Site(tmp_path_factory.mktemp("site"))
    yield site
    for node in site.nodes.values():
        node.daemon.kill()
    site.net.close()


def named(plan, name):
    """The note about a peer."""
    found = [n for n in plan["notes"] if f"peer '{name}'" in n]
    assert len(found) == 1, plan["notes"]
    return found[0]


def test_a_plan_over_all_hosts(site):
    """The same as of the snapshots of all, which somebody has carried together."""
    plan = site.a.plan()
    assert plan["verdict"] == "changes"
    action = plan["actions"][0]
    assert action["vm"] == "vm-busy" and action["from"] == "host-a" and action["to"] == "host-b"
    assert not any("peer" in note for note in plan["notes"])
    states = [arg for n in "abc" for arg in ("--state", site.nodes[n].snapshot())]
    offline = json.loads(site.a.ctl("placement", "--dry-run", "-o", "json", *states))
    assert offline["input_hash"] == plan["input_hash"] and offline["id"] == plan["id"]
    # In a file, figures are rounded to six digits.
    proposed = [[(a["vm"], a["from"], a["to"], {k: round(v, -5) for k, v in a["gain"].items()}, a["facts"])
                 for a in p["actions"]] for p in (offline, plan)]
    assert proposed[0] == proposed[1]
    assert json.loads(site.a.ctl("plan", "show", plan["id"], "-o", "json"))["actions"] == plan["actions"]
    everywhere = json.loads(site.a.ctl("snapshot", "--peers"))
    assert [h["name"] for h in everywhere["hosts"]] == ["host-a", "host-b", "host-c"]
    why = json.loads(site.a.ctl("placement", "--explain", "vm-busy", "-o", "json"))
    assert [c["host"] for c in why["candidates"]] == ["host-a", "host-b", "host-c"]


def test_peer_list(site):
    site.a.plan()
    peers = site.a.peers()
    assert set(peers) == {"b", "c"}
    for name, one in peers.items():
        assert one["state"] == "reachable" and one["reason"] is None
        assert one["host"] == f"host-{name}" and one["vms"] == 1 and one["url"] == site.nodes[name].url
        assert one["version"] == json.loads(site.a.ctl("host", "show", "-o", "json"))["daemon"]["version"]
        assert one["clock_known"] and abs(one["clock_difference_ns"]) <= one["round_trip_ns"]
        assert one["answered_ns"] > 0
    table = site.a.ctl("peer", "list")
    assert "host-b" in table and "reachable" in table and "same" in table
    assert site.a.daemon.part("peers")["state"] == "ok"
    assert json.loads(site.nodes["b"].ctl("peer", "list", "-o", "json")) == []
    assert "has no peers" in site.nodes["b"].ctl("peer", "list")


def rated(daemon, names, **instance):
    status, _, answer = daemon.post("/v1/nova/placement", {"instance": instance,
                                                           "hosts": [{"name": n} for n in names]})
    assert status == 200, answer
    assert [h["name"] for h in answer["hosts"]] == names
    return answer, {h["name"]: h for h in answer["hosts"]}


def test_what_a_scheduler_is_told(site):
    """A VM that wants CPUs fares better where there are some; nobody knows the last host."""
    site.a.plan()
    answer, hosts = rated(site.a.daemon, ["host-a", "host-b", "host-x"], vcpus=2, **{"class": "cpu"})
    assert answer["class"] == "cpu" and answer["class_from"] == "flavor"
    assert hosts["host-a"]["verdict"] == hosts["host-b"]["verdict"] == "pass"
    assert hosts["host-b"]["score"] > 0.9 > 0.5 > hosts["host-a"]["score"]
    assert hosts["host-b"]["age_ms"] >= 0
    assert (hosts["host-x"]["verdict"], hosts["host-x"]["score"], hosts["host-x"]["age_ms"]) == (
        "unknown", 0.5, None)
    _, hosts = rated(site.a.daemon, ["host-b", "host-c"], gpu_type="nvidia-63")
    assert {h["verdict"] for h in hosts.values()} == {"veto"} and "nvidia-63" in hosts["host-b"]["reason"]


def test_what_vgpud_wants_itself_is_not_refused_to_a_scheduler(site):
    """There is no such GPU on any host; where a plan has the VM go, it may go, and only there."""
    action = site.a.plan()["actions"][0]
    assert action["uuid"] == BUSY
    asked = {"uuid": BUSY.upper(), "gpu_type": "nvidia-63"}
    _, hosts = rated(site.a.daemon, ["host-a", "host-b", "host-c"], **asked)
    assert [h["verdict"] for h in hosts.values()] == ["veto", "pass", "veto"]
    assert hosts["host-b"]["score"] == 1 and "vgpud itself" in hosts["host-b"]["reason"]
    _, hosts = rated(site.a.daemon, ["host-b"], gpu_type="nvidia-63")
    assert hosts["host-b"]["verdict"] == "veto"
    assert {"uuid": BUSY, "to": "host-b", "moving": False, "queued": False} in site.a.daemon.get("/v1/nova/approvals")["items"]
    # Another vgpud that knows this one lets it pass, too, and asks whenever it asks for the snapshot.
    b = site.nodes["b"]
    b.reload(QUIET + site.known["a"])
    wait_for(lambda: b.peers()["a"]["state"] == "reachable")
    _, hosts = rated(b.daemon, ["host-a", "host-b"], **asked)
    assert [h["verdict"] for h in hosts.values()] == ["veto", "pass"] and hosts["host-b"]["score"] == 1
    b.reload("")
    _, hosts = rated(b.daemon, ["host-a", "host-b"], **asked)
    assert [h["verdict"] for h in hosts.values()] == ["unknown", "veto"]


def test_a_plan_that_no_longer_holds(site):
    """A move that a plan proposes is refused once things are not as they were, and says what is not."""
    plan = site.a.plan()
    wanted = {"vm": plan["actions"][0]["vm"], "to": plan["actions"][0]["to"], "plan_id": plan["id"],
              "plan_hash": plan["input_hash"]}

    def refused(status, **more):
        got, _, problem = site.a.daemon.post("/v1/migrations", {**wanted, **more})
        assert got == status, problem
        return problem["detail"]
    # It holds; but these hosts are recordings, whose VMs nobody can move.
    assert "neither this host nor" in refused(404)
    assert "input_hash" in refused(409, plan_hash="0" * 64)
    assert "no plan" in refused(404, plan_id="plan-0000000000000000")
    assert "does not move" in refused(409, to="host-c")
    pause(site.nodes["b"].daemon.process.pid)
    try:
        site.a.reload(HASTY + site.known["b"] + site.known["c"])
        assert "host 'host-b' of plan" in refused(409)
    finally:
        site.nodes["b"].daemon.process.send_signal(signal.SIGCONT)
    site.a.reload(QUIET + site.known["b"] + site.known["c"])
    wait_for(lambda: "does not answer" not in site.a.daemon.post("/v1/migrations", wanted)[2]["detail"])


def test_peers_that_cannot_be_asked(site):
    """One has ended, one hangs, one shows a certificate of another CA; b answers."""
    a, nodes = site.a, site.nodes
    nodes["c"].daemon.stop()
    pause(nodes["d"].daemon.process.pid)
    try:
        a.reload(HASTY + site.known["b"] + site.known["c"] + site.known["d"] + site.known["e"])
        # Where the machine is busy, b does not answer in time either, at first.
        plan = wait_for(lambda: (p := a.plan()) and {x["to"] for x in p["actions"]} == {"host-b"} and p)
        assert "refused" in named(plan, "c")
        assert "did not answer" in named(plan, "d") or "has not answered" in named(plan, "d")
        assert "certificate" in named(plan, "e")
        # What is hanging was waited for once.
        wait_for(lambda: "did not answer" in (a.peers()["d"]["reason"] or ""))
        began = time.monotonic()
        assert "did not answer" in named(a.plan(), "d")
        assert time.monotonic() - began < HANG_S / 2
        wait_for(lambda: a.plan() and [p["state"] for p in a.peers().values()] == ["reachable"] + 3 * ["unreachable"])
        part = a.daemon.part("peers")
        assert part["state"] == "degraded" and part["ready"] and "3 of 4" in part["reason"]
        assert 'vgpud_peers{state="unreachable"} 3' in a.daemon.request("GET", "/metrics")[2].decode()
    finally:
        nodes["d"].daemon.process.send_signal(signal.SIGCONT)
    # It is found again.
    assert wait_for(lambda: not any("peer 'd'" in note for note in a.plan()["notes"]))


# ---- a server that plays peers ----

class Played(http.server.BaseHTTPRequestHandler):
    """Peer N is below /N: a host with one VM."""
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self):
        number, path = self.path[1:].split("/", 1)
        etag = f'"{number} {self.server.same_host.get(number, "")}"'
        if path == "":
            self.answer({"name": "vgpud", "version": self.server.versions.get(number, self.server.version),
                         "versions": []})
        elif path == "v1/nova/approvals" and number in self.server.approvals:
            self.answer({"items": self.server.approvals[number]})
        elif path != "v1/snapshot" or number in self.server.broken:
            self.send_error(500)
        elif self.headers.get("If-None-Match") == etag:
            self.server.not_modified += 1
            self.send_response(304)
            self.send_header("ETag", etag)
            self.end_headers()
        else:
            document = self.server.snapshot(number)
            self.server.asked.release()
            self.server.answers.wait(HANG_S)
            self.answer(document, etag)

    def answer(self, document, etag=None):
        body = json.dumps(document).encode()
        self.send_response(200)
        if etag:
            self.send_header("ETag", etag)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Players(http.server.ThreadingHTTPServer):
    request_queue_size = 256
    daemon_threads = True

    def __init__(self, authority, template, version):
        address = f"127.79.{os.getpid() >> 8 & 255}.{os.getpid() & 255}"
        super().__init__((address, 0), Played)
        self.template, self.version = template, version
        self.versions, self.broken, self.not_modified, self.same_host = {}, set(), 0, {}
        self.approvals = {}
        self.asked, self.answers = threading.Semaphore(0), threading.Event()
        self.answers.set()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*authority.issue("players", f'ip_address = "{address}"'))
        self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"https://{address}:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def snapshot(self, number):
        document = json.loads(self.template)
        host = document["hosts"][0]
        host["name"] = self.same_host.get(number, f"played-{number}")
        for vm in host["vms"]:
            vm["name"], vm["uuid"] = f"vm-{number}", None
        return document

    def handle_error(self, *_):
        pass


@pytest.fixture
def players(tmp_path):
    authority = Authority(tmp_path / "ca")
    trace, names = idle_recording(tmp_path, "played", 7000)
    template = subprocess.run([vgpuctl.program(), "snapshot", trace, "--vm-map", names], check=True,
                              capture_output=True, text=True, timeout=HANG_S).stdout
    version = subprocess.run([vgpuctl.program(), "version"], check=True, capture_output=True, text=True,
                             timeout=HANG_S).stdout.split()[-1]
    server = Players(authority, template, version)
    server.authority = authority
    (tmp_path / "token").write_text("a-token\n")
    server.known = lambda numbers: "".join(
        peer(f"p{n}", f"{server.url}/{n}", token_file=tmp_path / "token", cacert=authority.certificate,
             host=f"played-{n}")
        for n in numbers)
    yield server
    server.shutdown()
    server.server_close()


def start(directory, players, numbers, deadline=10):
    daemon = Daemon(directory, "--speed", "max", "--vm-map", VM_MAP, "--host", "host-a", replay=LTTNG,
                    config=f"[peers]\nrefresh=1h\ndeadline={deadline}s\n" + players.known(numbers))
    return daemon.replayed()


def planned(daemon):
    status, _, plan = daemon.post("/v1/plans", {"dry_run": True})
    assert status in (200, 201), plan
    return plan


@pytest.mark.drawn("long")
def test_five_hundred_peers(tmp_path, players):
    """A plan over all of them; the second time, no snapshot is sent again."""
    with start(tmp_path, players, range(500)) as daemon:
        def all_of_them():
            plan = planned(daemon)
            return not any("left out" in note for note in plan["notes"]) and plan
        plan = wait_for(all_of_them)
        assert plan["verdict"] == "changes" and plan["actions"][0]["to"].startswith("played-")
        before = players.not_modified
        # For one that answers too late, what it said before is taken.
        assert wait_for(lambda: (again := all_of_them()) and players.not_modified - before >= 500 and again)[
            "actions"] == plan["actions"]
        _, _, text = daemon.request("GET", "/v1/snapshot?peers=true")
        assert len(json.loads(text)["hosts"]) == 501
        _, hosts = rated(daemon, [f"played-{n}" for n in range(500)], vcpus=1)
        assert {h["verdict"] for h in hosts.values()} == {"pass"}
        assert daemon.stop()


def test_odd_peers(tmp_path, players):
    """Another minor version is planned with, and said; what contradicts others or is no snapshot is
    left out, and said."""
    major, minor = players.version.split(".")[:2]
    players.versions = {"1": f"{major}.{int(minor) + 1}.0", "2": f"{major}.{minor}.99"}
    players.same_host = {"3": "host-a", "4": "played-1"}
    players.broken = {"5"}
    with start(tmp_path, players, range(6)) as daemon:
        plan = planned(daemon)
        assert plan["verdict"] == "changes"
        assert f"runs vgpud {major}.{int(minor) + 1}.0" in named(plan, "p1")
        assert not any("'p2'" in note or "'p0'" in note for note in plan["notes"])
        assert "left out" in named(plan, "p3") and "host-a" in named(plan, "p3")
        assert "left out" in named(plan, "p4") and "played-1" in named(plan, "p4")
        assert "500" in named(plan, "p5")
        snapshot = json.loads(daemon.request("GET", "/v1/snapshot?peers=true")[2])
        assert [h["name"] for h in snapshot["hosts"]] == ["host-a", "played-0", "played-1", "played-2"]
        assert "'p5'" in snapshot["note"]
        assert daemon.request("GET", "/v1/snapshot?peers=yes")[0] == 400
        players.broken = set()
        assert wait_for(lambda: not any("'p5'" in note for note in planned(daemon)["notes"]))
        daemon.stop()


def test_a_peer_with_other_hosts(tmp_path, players):
    """Its snapshot has another host beside its own one: it is left out as a whole."""
    plain = players.snapshot

    def with_another(number):
        document = plain(number)
        document["hosts"].append({**document["hosts"][0], "name": "another"})
        return document
    players.snapshot = with_another
    with start(tmp_path, players, range(1)) as daemon:
        assert "a peer may report only its own" in named(planned(daemon), "p0")
        assert [host["name"] for host in daemon.get("/v1/snapshot?peers=true")["hosts"]] == ["host-a"]
        daemon.stop()


def test_an_answer_that_is_older_than_the_question(tmp_path, players):
    """A peer that is being asked already is asked once more: its VMs may have changed since."""
    players.answers.clear()
    with start(tmp_path, players, range(1)) as daemon, ThreadPoolExecutor(1) as pool:
        assert players.asked.acquire(timeout=HANG_S)
        players.same_host = {"0": "renamed"}
        snapshot = pool.submit(daemon.request, "GET", "/v1/snapshot?peers=true")
        time.sleep(0.5)  # until it waits; if it does not yet, the peer is asked after it anyway
        players.answers.set()
        hosts = json.loads(snapshot.result(HANG_S)[2])["hosts"]
        assert [host["name"] for host in hosts] == ["host-a", "renamed"]
        daemon.stop()


def test_moves_of_peers_to_the_same_host(tmp_path, players):
    """What another host moves there counts; what it only proposes or has queued does not, nor what it moves
    elsewhere."""
    other = "11111111-2222-4333-8444-555555555555"
    proposed = [{"uuid": other, "to": "played-0", "moving": False}, {"uuid": other, "to": "played-0"},
                {"uuid": other, "to": "played-0", "moving": False, "queued": True},
                {"uuid": other, "to": "played-2", "moving": True}]
    moving = [{"uuid": other, "to": "played-0", "moving": True}]
    known = players.known(range(3)).replace("url=", "libvirt_uri=test:///default\nurl=")
    config = ("[libvirt]\nuse=yes\nuri=test:///default\n[live]\nbpf=no\nperf=no\n[gpu]\nenable=no\n"
              "[peers]\nrefresh=1s\ndeadline=10s\n[actions]\nenabled=yes\nmoves=1\n" + known)
    players.approvals = {"1": moving, "2": proposed}
    with Daemon(tmp_path, "--host", "host-a", config=config) as daemon:
        wait_for(lambda: {p["state"] for p in daemon.get("/v1/peers")["items"]} == {"reachable"})
        wait_for(lambda: daemon.request("GET", "/v1/vms/test")[0] == 200)

        def now(move):
            return daemon.get("/v1/migrations/" + move["id"])

        def ask():
            status, _, move = daemon.post("/v1/migrations", {"vm": "test", "to": "played-0"})
            assert status == 201, move
            return move
        move = ask()
        assert move["state"] == "pending" and "1 of them from other hosts" in move["waits_for"], move
        players.approvals = {"1": proposed, "2": []}
        wait_for(lambda: now(move)["ended_ns"])
        assert now(move)["steps"], now(move)
        # This host has just had a place there, and the other one has not.
        move = ask()
        assert move["state"] == "pending", move
        wait_for(lambda: "another host has queued moves to 'played-0'" in (now(move)["waits_for"] or ""))
        players.approvals = {"1": [], "2": []}
        wait_for(lambda: now(move)["ended_ns"])
        daemon.stop()


def test_no_token(tmp_path, players):
    with start(tmp_path, players, range(1)) as daemon:
        (tmp_path / "token").write_text("no token\n")
        assert "contains no token" in named(planned(daemon), "p0")
        (tmp_path / "token").unlink()
        assert "cannot read the peer's token_file" in named(planned(daemon), "p0")
        (tmp_path / "token").write_text("another\n")
        assert not any("'p0'" in note for note in planned(daemon)["notes"])
        daemon.stop()
