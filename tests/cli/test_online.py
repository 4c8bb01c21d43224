# SPDX-License-Identifier: Apache-2.0
"""vgpuctl against a running vgpud, and against what is none."""
import contextlib
import csv
import io
import json
import os
import re
import socket
import subprocess
import threading
import time

import pytest
import vgpuctl
import yaml
from settings import HANG_S, sample
from unixhttp import Server
from vgpud import LTTNG, ROOT, VM_MAP, Daemon, wait_for

NODE = os.path.join(ROOT, "data", "demo", "node.xml")
UUID = "7d0c1a5e-5f0b-4c0e-9a39-0a6f3d1e0001"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    with Daemon(tmp_path_factory.mktemp("online"), "--speed", "max", "--vm-map", VM_MAP, "--host",
                "demo-host", replay=LTTNG, config=f"[libvirt]\nuri=test://{NODE}\n") as running:
        yield running.replayed()


SCENARIO = {"duration_ms": 1200, "engines": ["rcs0", "vcs0"], "vms": [
    {"name": "a", "start_priority": False, "jobs": [
        {"size_us": {"dist": "fixed", "value": 2000}, "depth": 2},
        {"engine": "vcs0", "size_us": {"dist": "fixed", "value": 3000}}]},
    {"name": "b", "start_priority": False, "jobs": [{"size_us": {"dist": "fixed", "value": 3000}}]}]}


@pytest.fixture(scope="module")
def gpu_daemon(tmp_path_factory):
    directory = tmp_path_factory.mktemp("gpu")
    trace = directory / "trace"
    subprocess.run([vgpuctl.program(), "simulate", "-", "--trace-out", str(trace)],
                   input=json.dumps(SCENARIO), capture_output=True, text=True, timeout=HANG_S, check=True)
    with Daemon(directory, "--speed", "max", replay=trace) as running:
        yield running.replayed()


def run(daemon, *args, code=0, env=None):
    where = {"VGPUCTL_SOCKET": daemon.socket} if daemon else {}
    done = subprocess.run([vgpuctl.program(), *args], capture_output=True, text=True, timeout=HANG_S,
                          env={**os.environ, **where, **(env or {})})
    assert done.returncode == code, (done.returncode, done.stderr, done.stdout[:500])
    assert code == 0 or done.stdout == ""
    return done


def doc(daemon, *args):
    return json.loads(run(daemon, *args, "-o", "json").stdout)


@pytest.mark.smoke
def test_vm_list_is_that_of_the_api_in_every_format(daemon):
    items = daemon.get("/v1/vms")["items"]
    assert [vm["name"] for vm in items] == ["vm-busy", "vm-duty", "vm-idle"]
    assert doc(daemon, "vm", "list") == items
    assert yaml.safe_load(run(daemon, "vm", "list", "-o", "yaml").stdout) == items
    rows = list(csv.DictReader(io.StringIO(run(daemon, "vm", "list", "-o", "csv").stdout)))
    assert [row["name"] for row in rows] == ["vm-busy", "vm-duty", "vm-idle"]
    assert rows[0]["uuid"] == UUID and rows[0]["newest.culprit"] == "vm-duty"
    # A recording without GPU events says nothing about the GPU, not that it is idle.
    assert {row["gpu_intensity"] for row in rows} == {""} and float(rows[0]["cpu_intensity"]) > 0
    table = run(daemon, "vm", "list").stdout
    assert "LOST MOST TO" in table and "UUID" not in table
    assert UUID in run(daemon, "vm", "list", "-o", "wide").stdout


def test_now_is_the_newest_window_and_means_are_called_means(tmp_path):
    """A server whose newest window is worked out by hand from tests/tools/api-server.c: VM i ran
    0.6 * (i + 1) cores and lost 0.25 * (i + 1); its means are others, in another order."""
    server = Server(tmp_path, "--vms", 3)
    try:
        env = {"VGPUCTL_SOCKET": server.path}
        rows = list(csv.DictReader(io.StringIO(
            run(None, "vm", "list", "--sort", "lost", "-o", "csv", env=env).stdout)))
        assert [row["name"][:5] for row in rows] == ["gamma", "beta", "alpha"]
        assert [float(row["newest.rates.run_share"]) for row in rows] == [
            pytest.approx(cores) for cores in (1.8, 1.2, 0.6)]
        assert [float(row["newest.lost_share"]) for row in rows] == [
            pytest.approx(cores) for cores in (0.75, 0.5, 0.25)]
        assert [float(row["newest.rates.preemptions_per_s"]) for row in rows] == [1500, 1000, 500]
        assert [float(row["newest.cpu_intensity"]) for row in rows] == [pytest.approx(0.85)] * 3
        assert [row["newest.gpu_intensity"] for row in rows] == ["", "", "0.4"]
        assert [float(row["rates.run_share"]) for row in rows] == [0.6] * 3
        # Equally intensive now, so by name; by the mean it were the other way round.
        assert [vm["name"][:5] for vm in json.loads(run(
            None, "vm", "list", "--sort", "cpu", "-o", "json", env=env).stdout)] == [
                "alpha", "beta", "gamma"]
        table = run(None, "vm", "list", env=env).stdout.splitlines()
        assert "MEAN" not in table[0]
        assert re.split(r" {2,}", table[2])[0] == "beta" and " 1.20 " in table[2]
        assert run(None, "vm", "list", "-o", "wide", env=env).stdout.count("MEAN") == 5
        assert run(None, "top", "-n", "1", env=env).stdout.splitlines()[1].startswith("gamma")
        # 0.15 cores of beta's time were gamma's, seven times; the mean is 0.15, too, for all.
        pairs = json.loads(run(None, "preemptions", "beta", "-o", "json", env=env).stdout)
        newest = {pair["aggressor"]: pair["newest"] for pair in pairs}
        assert newest['gamma/"x" \u00e4'] == {"ns": 300000000, "count": 7,
                                              "share": pytest.approx(0.3), "count_per_s": 7}
        assert newest["host:kernel"]["share"] == pytest.approx(0.04)
        matrix = run(None, "preemptions", "--matrix", env=env).stdout
        assert re.search(r"(?m)^beta .* 300\.00 ", matrix), matrix
    finally:
        server.stop()


def test_programs_of_the_host(tmp_path):
    """tests/tools/fake-view.c has two programs that used 12 s and 0.5 s in 10 s; the past has one."""
    server = Server(tmp_path, "--vms", 3)
    try:
        env = {"VGPUCTL_SOCKET": server.path}
        host = json.loads(run(None, "host", "show", "-o", "json", env=env).stdout)
        programs = host["measurement"]["programs"]
        assert [(one["ns"], one["pids"]) for one in programs["newest"]["items"]] == [(12 * 10**9, 3), (5 * 10**8, 1)]
        assert programs["newest"]["end_ns"] - programs["newest"]["begin_ns"] == 10**10
        assert programs["items"][0]["ns"] * 10 == programs["length_ns"] * 12
        now, start = re.findall(r"(?m)^CPU time of the host's programs(.*)\n(?:.*\n)(.*)\n(.*)$",
                                run(None, "host", "show", env=env).stdout)
        assert now[0] == ", in the last 10 s" and start[0] == " since vgpud started"
        assert re.fullmatch(r"ma.*ke +1\.20 +12\.000 +- +3 /user\.slice", now[1]), now
        assert re.search(r" 0\.05 +0\.500 +- +1 -", now[2]), now
        assert re.match(r"ma.*ke +1\.20 ", start[1]), start
        where = ["--since", "-15min"]
        for command in (["preemptions"], ["vm", "list"]):
            text = run(None, *command, *where, env=env).stdout
            assert re.search(r"CPU time of the host's programs, at least\nPROGRAM .*\nma.*ke +0\.00 +0\.900 /user\.slice",
                             text), text
        rows = list(csv.DictReader(io.StringIO(
            run(None, "host", "history", *where, "--step", "1min", "-o", "csv", env=env).stdout)))
        tops = {row["top_program"][-5:] for row in rows}
        assert tops == {" 0.10", ""} and all(row["top_program"] == row["top_programs"] for row in rows)
    finally:
        server.stop()


def test_hosts_have_version_and_size_of_store(tmp_path):
    """tests/tools/fake-view.c has 2.5 GiB; a host that reports no size has none."""
    server = Server(tmp_path, "--vms", 3)
    try:
        env = {"VGPUCTL_SOCKET": server.path}
        hosts = json.loads(run(None, "host", "list", "--all", "-o", "json", env=env).stdout)
        rows = list(csv.DictReader(io.StringIO(
            run(None, "host", "list", "--all", "-o", "csv", "-c", "VERSION,STORE GiB", env=env).stdout)))
        assert [row["version"] for row in rows] == [host["version"] or "" for host in hosts]
        sizes = [(host["summary"] or {}).get("store_bytes") for host in hosts]
        assert [row["store_gib"] for row in rows] == ["2.50" if size else "" for size in sizes] and 5 << 29 in sizes
        assert re.search(r"VERSION +STORE GiB", run(None, "host", "list", "--all", env=env).stdout)
    finally:
        server.stop()


def test_history_says_which_files_are_missing(tmp_path):
    server = Server(tmp_path, "--vms", 3)
    try:
        env = {"VGPUCTL_SOCKET": server.path}
        where = ["--since", "2026-11-20T10:00:00Z", "--until", "2026-11-20T10:00:30Z"]
        done = run(None, "vm", "history", "beta", *where, "-o", "json", env=env)
        assert json.loads(done.stdout)["left_out"] == ["cannot read 'ts-20261119.db': it is made up"]
        assert done.stderr == ("vgpuctl: warning: rows are missing: cannot read 'ts-20261119.db': it "
                               "is made up\n")
        done = run(None, "vm", "history", "alpha", *where, "-o", "json", env=env)
        assert json.loads(done.stdout)["left_out"] == [] and done.stderr == ""
    finally:
        server.stop()


def test_vm_list_sorts_and_filters(daemon):
    assert [vm["name"] for vm in doc(daemon, "vm", "list", "--sort", "cpu")][-1] == "vm-idle"
    assert [vm["name"] for vm in doc(daemon, "vm", "list", "--class", "idle")] == ["vm-idle"]
    assert doc(daemon, "vm", "list", "--class", "gpu") == []
    assert run(daemon, "vm", "list", "--class", "gpu").stdout == "no VM has this class\n"


@pytest.mark.smoke
def test_vm_show_by_name_and_uuid(daemon):
    by_name, by_uuid = doc(daemon, "vm", "show", "vm-busy"), doc(daemon, "vm", "show", UUID.upper())
    assert by_name == by_uuid
    assert by_name["domain"]["state"] == "running"
    assert by_name["domain"]["memory_bytes"] == 80 * 2**20
    table = run(daemon, "vm", "show", "vm-busy").stdout
    assert "142" in table and "Who took its CPU time" in table and "vm-duty" in table


@pytest.mark.smoke
def test_vm_history(daemon):
    rows = doc(daemon, "vm", "history", "vm-busy", "--step", "raw")["items"]
    assert len(rows) == 7
    assert sum(row["run_ns"] for row in rows) == doc(daemon, "vm", "show", UUID)["run_ns"]
    table = run(daemon, "vm", "history", UUID, "--since", "-3s", "--step", "raw").stdout
    assert "2026-11-20 " in table and "local" in table and table.count("vm-duty") in (3, 4)
    assert "nothing is stored" in run(daemon, "vm", "history", UUID, "--since",
                                      "2020-01-01T00:00:00Z", "--until", "2020-01-02T00:00:00Z",
                                      "--step", "1h").stdout


@pytest.mark.smoke
def test_host(daemon):
    host = doc(daemon, "host", "show")
    assert host["name"] == "demo-host" and host["vms"] == 3
    assert doc(daemon, "host", "list")[0]["name"] == "demo-host"
    assert doc(daemon, "host", "show", "demo-host")["name"] == "demo-host"
    assert "'other'" in run(daemon, "host", "show", "other", code=3).stderr
    text = run(daemon, "host", "show").stdout
    assert "collector:replay" in text and "collector:libvirt" in text


@pytest.mark.smoke
def test_preemptions(daemon):
    items = doc(daemon, "preemptions")
    assert doc(daemon, "preemptions", "--limit", "2") == items[:2]
    assert items == daemon.get("/v1/preemptions")["items"]
    assert {item["victim"]["name"] for item in doc(daemon, "preemptions", "vm-duty")} == {"vm-duty"}
    assert "vm-busy" in run(daemon, "preemptions").stdout


@pytest.mark.smoke
def test_gpus(gpu_daemon):
    items = gpu_daemon.get("/v1/gpus")["items"]
    assert doc(gpu_daemon, "gpu", "list") == items
    assert yaml.safe_load(run(gpu_daemon, "gpu", "list", "-o", "yaml").stdout) == items
    row, = csv.DictReader(io.StringIO(run(gpu_daemon, "gpu", "list", "-o", "csv").stdout))
    assert (row["id"], row["n_engines"], row["n_vms"], row["busiest"]) == ("card0", "2", "2", "rcs0")
    assert row["inventory.product"] == row["numa_node"] == ""
    assert "card0" in run(gpu_daemon, "gpu", "list").stdout
    assert doc(gpu_daemon, "gpu", "show", "card0") == items[0]
    text = run(gpu_daemon, "gpu", "show", "card0").stdout
    assert "vcs0" in text and "VMs, in the newest window" in text and "VMs that use this GPU" not in text
    assert "SUSPENDED" in run(gpu_daemon, "gpu", "show", "card0", "-o", "wide").stdout
    assert "'card1'" in run(gpu_daemon, "gpu", "show", "card1", code=3).stderr
    vm = run(gpu_daemon, "vm", "show", "a").stdout
    assert "GPUs, since vgpud started" in vm and "vcs0" in vm


def test_no_gpu(daemon):
    assert doc(daemon, "gpu", "list") == []
    assert run(daemon, "gpu", "list").stdout == "vgpud has found no GPU\n"
    assert "GPUs, since" not in run(daemon, "vm", "show", "vm-busy").stdout


@pytest.mark.smoke
def test_requests_of_a_gpu(gpu_daemon):
    whole = gpu_daemon.get("/v1/gpus/card0/requests?limit=10000")
    assert doc(gpu_daemon, "gpu", "requests", "card0", "--limit", "20000") == whole
    assert len(whole["items"]) > 300
    rows = list(csv.DictReader(io.StringIO(run(gpu_daemon, "gpu", "requests", "card0", "--limit", "5",
                                               "-o", "csv").stdout)))
    assert [int(row["seqno"]) for row in rows] == [item["seqno"] for item in whole["items"][:5]]
    for row in rows:
        assert int(row["wait_ns"]) == int(row["run_ns"]) - int(row["queued_ns"])
    first = doc(gpu_daemon, "gpu", "requests", "card0", "--limit", "7")
    assert first["items"] == whole["items"][:7] and first["more"] is True
    rest = doc(gpu_daemon, "gpu", "requests", "card0", "--since", str(first["next_since"]))
    assert first["items"] + rest["items"] == whole["items"]
    of_b = doc(gpu_daemon, "gpu", "requests", "card0", "--vm", "b", "--until", "600000000")["items"]
    assert of_b and {item["vm"]["name"] for item in of_b} == {"b"}
    late = doc(gpu_daemon, "gpu", "requests", "card0", "--since=-1s")["items"]
    assert late == [item for item in whole["items"] if item["at_ns"] > 200000000]
    text = run(gpu_daemon, "gpu", "requests", "card0", "--limit=3").stdout
    assert text.count("\n") == 4 and "LATENCY ms" in text
    none = run(gpu_daemon, "gpu", "requests", "card0", "--since=-0s").stdout
    assert none == "vgpud has stored no requests from that period\n"


def test_requests_that_cannot_be_asked_for(gpu_daemon):
    for option in ("--limit=0", "--limit=x", "--limit=1000001"):
        assert "--limit" in run(gpu_daemon, "gpu", "requests", "card0", option, code=2).stderr
    for command in (["gpu", "list", "--since=1"], ["gpu", "show", "card0", "--limit=1"],
                    ["gpu", "requests"], ["gpu", "show"], ["gpu", "look"]):
        run(gpu_daemon, *command, code=2)
    for name, text, code in (("since", "1" * 30, 1), ("until", "1x", 2), ("vm", "", 1),
                             ("since", "tomorrow", 2), ("since", "2999-01-01", 2)):
        err = run(gpu_daemon, "gpu", "requests", "card0", f"--{name}={text}", code=code).stderr
        assert name in err
    # A time of the calendar is one of the raw clock, too.
    every = doc(gpu_daemon, "gpu", "requests", "card0")
    end = (every["newest_ns"] + every["clock_offset_ns"]) / 1e9
    # Which a replay may be somewhat ahead of.
    time.sleep(max(end + 2 - time.time(), 0))
    for since, n in (("2001-01-01", len(every["items"])), (f"@{end + 1:.0f}", 0)):
        assert len(doc(gpu_daemon, "gpu", "requests", "card0", "--since", since)["items"]) == n
    run(gpu_daemon, "gpu", "requests", "card0", "--vm=nobody", code=3)
    for gpu in ("..", "a/b", "card0/requests", "%"):
        run(gpu_daemon, "gpu", "requests", gpu, code=3)
    run(gpu_daemon, "gpu", "requests", "", code=2)


def test_no_end_of_requests(tmp_path):
    """What is no vgpud may say for ever that there are more."""
    page = json.dumps({"items": [], "more": True, "next_since": 5, "left_out": 1})
    done = ask_another(tmp_path, http_ok(page), "gpu", "requests", "x")
    assert done.returncode in (1, 7) and done.stdout == "" and "more" in done.stderr


@pytest.mark.smoke
def test_plans(daemon):
    plan = doc(daemon, "placement", "--dry-run")
    assert plan["verdict"] == "infeasible"
    assert [p["id"] for p in doc(daemon, "plan", "list")] == [plan["id"]]
    assert doc(daemon, "plan", "show", plan["id"])["id"] == plan["id"]
    assert plan["id"] in run(daemon, "plan", "show", plan["id"]).stdout
    assert "contains no other hosts" in run(daemon, "placement", "--dry-run").stdout
    paper = doc(daemon, "placement", "--dry-run", "--rule", "paper-threshold")
    assert paper["rule"] == "paper-threshold" and paper["id"] != plan["id"]
    assert run(daemon, "plan", "show", "plan-0000000000000000", code=3).stderr


@pytest.mark.smoke
def test_snapshot_and_explain(daemon, tmp_path):
    snapshot = json.loads(run(daemon, "snapshot").stdout)
    assert snapshot["hosts"][0]["vms"][0]["memory_bytes"] == 80 * 2**20
    path = tmp_path / "host.json"
    path.write_text(json.dumps(snapshot))
    example = os.path.join(ROOT, "data", "demo", "gpu-host.snapshot.json")
    plan = json.loads(run(None, "placement", "--dry-run", "--state", str(path), "--state", example,
                          "-o", "json").stdout)
    assert plan["verdict"] == "changes"
    assert doc(daemon, "explain", "vm-busy")["vm"] == "vm-busy"
    assert doc(daemon, "placement", "--explain", "vm-busy")["vm"] == "vm-busy"
    assert "'nobody'" in run(daemon, "explain", "nobody", code=3).stderr


@pytest.mark.smoke
def test_events_after_the_first(daemon):
    boot = daemon.get("/v1/host")["daemon"]["boot_id"]
    lines = run(daemon, "events", "--after", f"{boot}-0", "--types", "all", "-n", "3", "-o", "json").stdout
    assert [json.loads(line)["seq"] for line in lines.splitlines()] == [1, 2, 3]
    text = run(daemon, "events", "--after", f"{boot}-0", "--types", "vm", "-n", "3").stdout
    assert "what=seen name=vm-busy" in text


@pytest.mark.parametrize("command", [["vm", "list"], ["top"], ["preemptions"], ["host", "list"],
                                     ["gpu", "list"]])
def test_watch_looks_again(daemon, command):
    once = run(daemon, *command, "-n", "1", *([] if command == ["top"] else ["--watch=0.1"])).stdout
    thrice = run(daemon, *command, "--watch=0.1", "-n", "3").stdout
    assert thrice == once * 3 and "\033" not in thrice


ONLINE = [["vm", "list"], ["vm", "show", "a"], ["vm", "history", "a"], ["host", "show"],
          ["preemptions"], ["top"], ["events"], ["plan", "list"], ["plan", "show", "a"],
          ["placement", "--dry-run"], ["placement", "--explain", "a"], ["snapshot"],
          ["host", "list"], ["gpu", "list"], ["gpu", "show", "a"], ["gpu", "requests", "a"],
          ["token", "list"], ["token", "create", "a", "--role", "reader"], ["audit"]]


@pytest.mark.parametrize("command", ONLINE, ids=" ".join)
def test_a_daemon_that_is_not_there_is_7_and_says_what_to_do(tmp_path, command):
    missing = str(tmp_path / "no.sock")
    err = run(None, *command, "--socket", missing, code=7).stderr
    assert missing in err and "is vgpud running" in err and "VGPUCTL_SOCKET" in err


def test_a_socket_without_a_listener(tmp_path):
    path = str(tmp_path / "dead")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(path)
    assert "refused" in run(None, "vm", "list", "--socket", path, code=7).stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")
def test_no_permission_says_who_has_it(daemon):
    os.chmod(daemon.socket, 0o600)
    done = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                           vgpuctl.program(), "vm", "list", "--socket", daemon.socket],
                          capture_output=True, text=True, timeout=HANG_S)
    os.chmod(daemon.socket, 0o660)
    assert done.returncode == 7 and "group" in done.stderr and daemon.socket in done.stderr


def http_ok(body):
    return (f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            f"{body}").encode()


ANSWERS = {
    "not-http": b"SSH-2.0-OpenSSH_9.2\r\n",
    "nothing": b"",
    "not-json": http_ok("hello"),
    "cut": b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\nConnection: close\r\n\r\n{\"items\": [",
    "no-items": http_ok("{}"),
    "no-problem": b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
    "deep": b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + b"[" * 5000,
}


def ask_another(tmp_path, answer, *command):
    """What vgpuctl does about a listener that answers so."""
    path = str(tmp_path / "odd")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen(4)

        def serve():
            # Some commands ask more than once.
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection, contextlib.suppress(ConnectionError):
                        connection.recv(65536)
                        connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        done = subprocess.run([vgpuctl.program(), *command, "--socket", path],
                              capture_output=True, text=True, timeout=HANG_S)
        server.shutdown(socket.SHUT_RDWR)
        thread.join(10)
    os.unlink(path)
    return done


@pytest.mark.parametrize("answer", sorted(ANSWERS))
def test_whoever_else_listens_there_is_an_error(tmp_path, answer):
    done = ask_another(tmp_path, ANSWERS[answer], "vm", "list")
    assert done.returncode in (1, 7) and done.stdout == "" and done.stderr.startswith("vgpuctl: ")


LISTS = ("items", "gpus", "parts", "vcpus", "lost_to", "hosts", "actions", "gpu", "engines", "vms",
         "processes", "assigned")
ODD = ["{}", "[]", "7", json.dumps({name: 3 for name in LISTS}),
       json.dumps({name: [3] for name in LISTS})]


@pytest.mark.parametrize("command", sample("odd answers", ONLINE, 8), ids=" ".join)
def test_json_that_vgpud_does_not_say_is_an_error(tmp_path, command):
    for body in ODD:
        done = ask_another(tmp_path, http_ok(body), *command)
        assert done.returncode in (1, 7), (body, done)
        assert done.stdout == "" and done.stderr.startswith("vgpuctl: "), (body, done)


@pytest.mark.parametrize("command", sample("empty objects", ONLINE, 8), ids=" ".join)
def test_lists_of_empty_objects_do_no_harm(tmp_path, command):
    body = json.dumps({name: [{}] for name in LISTS})
    done = ask_another(tmp_path, http_ok(body), *command,
                       *(["-n", "1"] if command == ["top"] else []))
    assert done.returncode in (0, 1, 7), done


def test_a_name_of_dots_and_an_empty_socket(daemon):
    for command in (["vm", "show", ".."], ["vm", "history", "."], ["plan", "show", ".."]):
        assert f"'{command[2]}'" in run(daemon, *command, code=3).stderr
    assert "empty" in run(daemon, "vm", "list", "--socket", "", code=1).stderr


def test_events_have_ids_to_go_on_after(daemon):
    boot = daemon.get("/v1/host")["daemon"]["boot_id"]
    first = json.loads(run(daemon, "events", "--after", f"{boot}-0", "--types", "all", "-n", "1", "-o", "json").stdout)
    assert first["event_id"] == f"{boot}-1" and first["seq"] == 1
    second = run(daemon, "events", "--after", first["event_id"], "--types", "all", "-n", "1", "-o", "wide").stdout
    assert second.endswith(f" event_id={boot}-2\n")
    other = "00000000-0000-4000-8000-000000000000-5"
    gap = json.loads(run(daemon, "events", "--after", other, "-n", "1", "-o", "json").stdout)
    assert (gap["type"], gap["reason"]) == ("gap", "restart") and gap["event_id"] == f"{boot}-0"
    # The id of what an event is about is its own.
    plan = doc(daemon, "placement", "--dry-run")["id"]
    told = json.loads(run(daemon, "events", "--after", f"{boot}-0", "--types", "plan", "-n", "1",
                          "-o", "json").stdout)
    assert told["id"].startswith("plan-") and told["event_id"].startswith(boot)
    assert plan in [p["id"] for p in doc(daemon, "plan", "list")]


def test_watching_outlives_a_restart(tmp_path):
    out = tmp_path / "out"
    with Daemon(tmp_path, "--speed", "max", replay=LTTNG) as daemon, open(out, "w") as file:
        daemon.replayed()
        watch = subprocess.Popen(
            [vgpuctl.program(), "vm", "list", "--watch=0.1", "--socket", daemon.socket],
            stdout=file, stderr=subprocess.PIPE, text=True)
        try:
            wait_for(lambda: out.stat().st_size > 0)
            daemon.stop()
            line = watch.stderr.readline()
            assert "cannot reach vgpud" in line or "closed the connection" in line
            before = out.stat().st_size
            with Daemon(tmp_path, "--speed", "max", replay=LTTNG) as again:
                wait_for(lambda: out.stat().st_size > before)
                assert watch.poll() is None
                again.stop()
        finally:
            watch.kill()
            watch.communicate()
