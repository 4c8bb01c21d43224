# SPDX-License-Identifier: Apache-2.0
"""The daemon as a whole: replay, signals, reload, sockets, clients, events, faults."""
import contextlib
import csv
import io
import itertools
import json
import os
import re
import shutil
import signal
import socket
import stat
import statistics
import subprocess
import threading
import time
import urllib.parse
import uuid

import pytest
import vgpuctl
from ctfgen import Dialect, write_trace
from hostsim import simulate
from settings import HANG_S, seed
from vgpud import (LTTNG, PERF, ROOT, VM_MAP, BusyVm, Daemon, Events, program, wait_for,
                   write_text_trace)

SUMS = ("observed_ns", "run_ns", "entries", "guest_ns", "hyp_ns", "preempt_ns", "preemptions",
        "wake_wait_ns", "wakeups", "blocked_ns", "blocks", "switches_out", "unseen_migrations",
        "exits", "clipped")


def analyze(*args):
    done = subprocess.run([vgpuctl.program(), "analyze", *map(str, args), "-o", "json"],
                          capture_output=True, text=True, timeout=HANG_S, check=True)
    return json.loads(done.stdout)


def replay_max(directory, trace, *args, **kwargs):
    return Daemon(directory, "--speed", "max", *args, replay=trace, **kwargs)


# ---- replay ----

@pytest.mark.smoke
@pytest.mark.parametrize("trace", [LTTNG, PERF], ids=["lttng", "perf"])
def test_replay_gives_the_figures_of_analyze(tmp_path, trace):
    want = analyze(trace, "--vm-map", VM_MAP)
    with replay_max(tmp_path, trace, "--vm-map", VM_MAP) as daemon:
        daemon.replayed()
        assert [vm["name"] for vm in daemon.get("/v1/vms")["items"]] == \
               [vm["name"] for vm in want["vms"]]
        for vm in want["vms"]:
            got = daemon.get(f"/v1/vms/{vm['name']}")
            for key in (*SUMS, "name", "uuid", "pid", "class", "cpu_intensity",
                        "guest_known", "gpu_known", "cpus", "lost_to", "gpu"):
                assert got[key] == vm[key], (vm["name"], key)
            assert got["gpu_intensity"] == (vm["gpu_intensity"] or 0)
            assert [{k: v[k] for k in (*SUMS, "tid")} for v in got["vcpus"]] == \
                   [{k: v[k] for k in (*SUMS, "tid")} for v in vm["vcpus"]]
        host = daemon.get("/v1/host")
        assert host["cpus"] == want["trace"]["cpus"]
        assert host["measurement"]["end_ns"] == \
               want["trace"]["end_ns"] + want["trace"]["clock_offset_ns"] or \
               want["trace"]["clock_offset_ns"] == 0


def test_replay_takes_the_names_that_the_trace_has(tmp_path):
    """The VM map goes before them."""
    dialect = Dialect(env=(("vm_200", "web"), ("vm_220", "db")))
    write_trace(str(tmp_path / "t"), dialect, simulate(seed=seed(), events=2000))
    (tmp_path / "map").write_text("220 mine\n", encoding="utf-8")
    with replay_max(tmp_path, tmp_path / "t", "--vm-map", tmp_path / "map") as daemon:
        daemon.replayed()
        by_pid = {vm["pid"]: vm["name"]
                  for vm in (daemon.get(f"/v1/vms/{v['name']}")
                             for v in daemon.get("/v1/vms")["items"])}
        assert by_pid[200] == "web" and by_pid[220] == "mine"


@pytest.mark.smoke
def test_replay_gives_the_snapshot_of_vgpuctl(tmp_path):
    done = subprocess.run([vgpuctl.program(), "snapshot", LTTNG, "--vm-map", VM_MAP],
                          capture_output=True, text=True, timeout=HANG_S, check=True)
    with replay_max(tmp_path, LTTNG, "--vm-map", VM_MAP) as daemon:
        daemon.replayed()
        assert daemon.get("/v1/snapshot") == json.loads(done.stdout)


def stored_sums(daemon, vm, period="since=-1h"):
    rows = daemon.get(f"/v1/vms/{vm}/samples?{period}&step=raw")["items"]
    for before, after in zip(rows, rows[1:]):
        assert before["end_ns"] <= after["begin_ns"]
    # Each window clips at its own edges.
    keys = [key for key in SUMS if key not in ("exits", "clipped")]
    return {key: sum(row[key] for row in rows) for key in keys}, len(rows)


def test_a_second_replay_replaces_what_the_first_one_stored(tmp_path):
    counts = []
    for window in ("1s", "1s", "500ms", "2s"):
        with replay_max(tmp_path, LTTNG, "--vm-map", VM_MAP,
                        config=f"[daemon]\nwindow={window}\n") as daemon:
            daemon.replayed()
            vm = daemon.get("/v1/vms/vm-busy")
            end_s = daemon.get("/v1/host")["measurement"]["end_ns"] // 10**9
            daemon.stop()
        # One that has not measured anything yet, so that all comes from the disk.
        with Daemon(tmp_path, "--vm-map", VM_MAP, "--speed", "0.001", replay=LTTNG,
                    config="[daemon]\nwindow=60s\n") as daemon:
            sums, n = stored_sums(daemon, "vm-busy", f"since={end_s - 60}&until={end_s + 60}")
            counts.append(n)
            daemon.kill()
        assert sums == {key: vm[key] for key in sums}
    assert counts == [7, 7, 13, 4]


def test_the_host_tells_how_many_events_were_lost(tmp_path):
    trace = tmp_path / "trace.txt"
    write_text_trace(trace, 4)
    lines = trace.read_text().splitlines()
    for at, lost in ((8, 17), (25, 5)):
        lines.insert(at, f"CPU:0 [LOST {lost} EVENTS]")
    trace.write_text("\n".join(lines) + "\n")
    with replay_max(tmp_path, trace) as daemon:
        daemon.replayed()
        assert daemon.get("/v1/host")["measurement"]["lost_events"] == 17 + 5


def test_until_end_ends_by_itself_with_everything_stored(tmp_path):
    with replay_max(tmp_path, LTTNG, "--until-end", wait=False) as daemon:
        assert daemon.process.wait(HANG_S) == 0, daemon.tail()
        assert len(daemon.committed()) == 7


def test_until_end_fails_when_the_recording_cannot_be_read(tmp_path):
    trace = tmp_path / "trace.txt"
    trace.write_text("# tracer: nop\n#\n")
    with replay_max(tmp_path, trace, "--until-end", "--vm-map", VM_MAP, wait=False) as daemon:
        assert daemon.process.wait(HANG_S) == 1, daemon.tail()
        assert f"collector is failed name=replay reason=\"'{trace}' has no events\"" in daemon.log()


def test_a_recording_without_content_is_refused_at_start(tmp_path):
    trace = tmp_path / "trace"
    shutil.copytree(LTTNG, trace)
    for stream in trace.rglob("ch_?"):
        stream.write_bytes(b"")
    with replay_max(tmp_path, trace, wait=False) as daemon:
        assert daemon.process.wait(HANG_S) == 1, daemon.tail()
        # The first one in the order of the directory, which the file system decides.
        assert re.search(rf"{re.escape(str(trace))}/kernel/ch_\d: the stream file is empty", daemon.log()), daemon.tail()
        assert not os.path.exists(daemon.socket)


def test_until_end_fails_when_nothing_can_be_stored(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    with replay_max(tmp_path, LTTNG, "--until-end", wait=False, state=str(blocked)) as daemon:
        assert daemon.process.wait(HANG_S) == 1
        assert "not all windows could be stored" in daemon.log() and str(blocked) in daemon.log()
    assert blocked.read_text() == "in the way"


def test_what_waits_for_a_restart_is_told_until_it_is_taken_back(tmp_path):
    with Daemon(tmp_path, "--speed", "0.01", replay=LTTNG) as daemon:
        events = Events(daemon, "?types=config")
        for config, waiting in (("[daemon]\nwindow=2s\n", "[daemon] window"),
                                ("[daemon]\nwindow=2s\n", "[daemon] window"), ("", None)):
            daemon.write_config(config)
            daemon.process.send_signal(signal.SIGHUP)
            event = events.next()[2]
            assert event["taken"] is True and event["reason"] == waiting
        events.close()


def test_a_host_without_libvirt_is_ready_unless_it_must_have_it(tmp_path):
    missing = "[libvirt]\nuri=qemu+unix:///system?socket=/no/such/socket\n"
    for use, status in (("auto", 200), ("yes", 503)):
        with Daemon(tmp_path, config=f"{missing}use={use}\n[daemon]\nwindow=100ms\n") as daemon:
            wait_for(lambda: daemon.part("collector:libvirt")["state"] == "failed")
            wait_for(lambda: daemon.get("/v1/host")["measurement"]["windows"] > 0)
            wait_for(lambda: daemon.part("store")["ready"])
            wait_for(lambda: daemon.request("GET", "/readyz")[0] == status)
            reason = daemon.part("collector:libvirt")["reason"]
            assert "/no/such/socket" in reason, reason
            daemon.stop()


def test_speed_keeps_the_pace_of_the_recording(tmp_path):
    began = time.monotonic()
    with Daemon(tmp_path, "--speed", "4", replay=LTTNG) as daemon:
        daemon.replayed()
        assert time.monotonic() - began >= 6.2 / 4 - 0.05


def test_a_clock_without_epoch_begins_at_the_time_of_the_file(tmp_path):
    trace = tmp_path / "trace.txt"
    write_text_trace(trace, 3)
    os.utime(trace, (1_700_000_000, 1_700_000_000))
    with replay_max(tmp_path, trace) as daemon:
        daemon.replayed()
        measurement = daemon.get("/v1/host")["measurement"]
        assert measurement["begin_ns"] == 1_700_000_000 * 10**9
        daemon.stop()
    assert os.path.exists(tmp_path / "state" / "ts-20231114.db")


@pytest.mark.parametrize("args, words", [
    (["--replay", "/no/such/trace"], ["/no/such/trace", "No such file"]),
    (["--replay", os.path.dirname(LTTNG)], ["2 recordings", "specify one"]),
    (["--replay", LTTNG, "--vm-map", "/no/such/map"], ["/no/such/map"]),
    (["--socket", "/no/such/directory/sock"], ["/no/such/directory"]),
    (["--socket", "/" + "s" * 200], ["10"]),
])
def test_what_cannot_start_says_why(tmp_path, args, words):
    if args[0] == "--socket":
        args = [*args, "--replay", LTTNG]
    with Daemon(tmp_path, *args, wait=False) as daemon:
        assert daemon.process.wait(HANG_S) == 1
        for word in words:
            assert word in daemon.log()


def test_the_path_that_led_to_a_recording_does_not_matter(tmp_path):
    """It has no epoch, so that its time is that of the file."""
    parent = tmp_path / "parent"
    shutil.copytree(PERF, parent / "perf-ctf")
    (tmp_path / "link").symlink_to(parent / "perf-ctf")
    os.utime(parent, (1_700_000_000, 1_700_000_000))
    counts = []
    for path in (parent, parent / "perf-ctf", tmp_path / "link", f"{parent}/perf-ctf/"):
        with replay_max(tmp_path, path, "--vm-map", VM_MAP) as daemon:
            daemon.replayed()
            sums, n = stored_sums(daemon, "vm-busy", "since=-5h")
            counts.append((n, sums["run_ns"]))
            daemon.stop()
    assert len(set(counts)) == 1 and len(list((tmp_path / "state").glob("ts-*.db"))) == 1, counts


# ---- signals and configuration ----

@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_and_ends_with_0(tmp_path, signum):
    trace = tmp_path / "trace.txt"
    write_text_trace(trace, 20)
    with Daemon(tmp_path, "--speed", "10", replay=trace) as daemon:
        wait_for(lambda: len(daemon.committed()) >= 3)
        windows = daemon.get("/v1/host")["measurement"]["windows"]
        log = daemon.stop(signum)
        assert len(daemon.committed()) >= windows
        assert log.rstrip().endswith("stopped")
        assert not os.path.exists(daemon.socket)


def test_reload_takes_a_good_configuration_and_keeps_the_old_one_else(tmp_path):
    with Daemon(tmp_path, "--speed", "0.01", replay=LTTNG) as daemon:
        events = Events(daemon, "?types=config")
        daemon.write_config("[daemon]\nlog_level=debug\n[score]\ncpu_enter=0.9\ncpu_leave=0.8\n")
        daemon.process.send_signal(signal.SIGHUP)
        assert events.next()[2]["taken"] is True
        daemon.write_config("[score]\ncpu_enter=2\n")
        daemon.process.send_signal(signal.SIGHUP)
        refused = events.next()[2]
        assert refused["taken"] is False
        for word in ("vgpud.conf", "[score]", "cpu_enter", "out of range"):
            assert word in refused["reason"]
        daemon.write_config("[store]\ndirectory=/tmp\n[daemon]\nwindow=2s\n")
        daemon.process.send_signal(signal.SIGHUP)
        later = events.next()[2]
        # The directory is that of the command line, whatever the file says.
        assert later["taken"] is True and later["reason"] == "[daemon] window"
        events.close()
        assert "configuration remains unchanged" in daemon.log()
        metrics = daemon.request("GET", "/metrics")[2].decode()
        assert "reload" in metrics
        daemon.stop()


def test_a_pipe_among_the_files_is_refused_and_does_not_hang(tmp_path):
    with replay_max(tmp_path, LTTNG) as daemon:
        events = Events(daemon, "?types=config")
        (tmp_path / "conf.d").mkdir()
        os.mkfifo(tmp_path / "conf.d" / "x.conf")
        daemon.process.send_signal(signal.SIGHUP)
        refused = events.next()[2]
        assert refused["taken"] is False and "is a pipe" in refused["reason"]
        events.close()
        daemon.stop()


def test_a_signal_ends_a_start_that_waits_for_a_recording(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    writer = os.open(fifo, os.O_RDWR)  # who is there, and writes nothing
    with Daemon(tmp_path, replay="-", wait=False,
                prefix=["sh", "-c", f"exec \"$@\" < '{fifo}'", "-"]) as daemon:
        wait_for(lambda: os.path.basename(os.readlink(f"/proc/{daemon.process.pid}/exe")) == "vgpud")
        time.sleep(0.2)
        daemon.process.send_signal(signal.SIGTERM)
        daemon.process.wait(HANG_S)
    os.close(writer)


def test_a_log_that_nobody_reads_stops_nothing(tmp_path):
    trace = tmp_path / "trace.txt"
    write_text_trace(trace, 3600)
    read_end, write_end = os.pipe()
    with Daemon(tmp_path, "--speed", "max", replay=trace, stderr=write_end) as daemon:
        os.close(write_end)
        daemon.replayed()
        assert daemon.get("/v1/host")["measurement"]["windows"] == 3600
        os.set_blocking(read_end, False)
        log = bytearray()

        def told():
            with contextlib.suppress(BlockingIOError):
                while piece := os.read(read_end, 65536):
                    log.extend(piece)
            return b"left_out=" in log

        # The first line that has room again says how many had none.
        told()
        daemon.process.send_signal(signal.SIGHUP)
        wait_for(told)
        daemon.stop()
    os.close(read_end)


def test_reload_changes_what_is_planned_with(tmp_path):
    with replay_max(tmp_path, LTTNG, "--vm-map", VM_MAP) as daemon:
        daemon.replayed()
        before = daemon.post("/v1/plans", {"dry_run": True})[2]
        events = Events(daemon, "?types=config")
        daemon.write_config("[policy]\ncontention_threshold=50\n")
        daemon.process.send_signal(signal.SIGHUP)
        assert events.next()[2] is not None
        events.close()
        after = daemon.post("/v1/plans", {"dry_run": True})[2]
        assert before["config_hash"] != after["config_hash"], daemon.tail()
        ids = [plan["id"] for plan in daemon.get("/v1/plans")["items"]]
        assert set(ids) == {before["id"], after["id"]}


def test_plans_are_there_after_a_restart(tmp_path):
    with replay_max(tmp_path, LTTNG, "--vm-map", VM_MAP) as daemon:
        daemon.replayed()
        status, headers, plan = daemon.post("/v1/plans", {"dry_run": True})
        assert status == 201 and headers["Location"] == f"/v1/plans/{plan['id']}"
        daemon.kill()
    with replay_max(tmp_path, LTTNG, "--vm-map", VM_MAP) as daemon:
        assert daemon.get(f"/v1/plans/{plan['id']}")["id"] == plan["id"]
        daemon.replayed()
        before = daemon.get("/v1/events?after=0")["next"]
        assert daemon.post("/v1/plans", {"dry_run": True})[0] == 200
        assert daemon.get(f"/v1/events?after={before}&types=plan")["items"] == []


def test_no_plan_is_made_before_anything_is_measured(tmp_path):
    with Daemon(tmp_path, "--speed", "0.01", replay=LTTNG) as daemon:
        status, headers, problem = daemon.post("/v1/plans", {"dry_run": True})
        assert status == 503 and int(headers["Retry-After"]) > 0
        assert "nothing has been measured yet" in problem["detail"]
        assert daemon.get("/v1/plans")["items"] == []


# ---- the socket ----

@pytest.mark.parametrize("mode", ["0600", "0660", "0666"])
def test_the_socket_has_the_mode_that_is_configured(tmp_path, mode):
    with Daemon(tmp_path, "--speed", "max", replay=LTTNG,
                config=f"[api]\nsocket_mode={mode}\n") as daemon:
        assert stat.S_IMODE(os.stat(daemon.socket).st_mode) == int(mode, 8)


def test_a_second_daemon_does_not_take_the_socket(tmp_path):
    (tmp_path / "two").mkdir()
    with replay_max(tmp_path, LTTNG) as first:
        with Daemon(tmp_path / "two", "--socket", first.socket, "--replay", LTTNG,
                    wait=False) as second:
            assert second.process.wait(HANG_S) == 1
            assert first.socket in second.log()
        assert first.answers()
        # That comes before a directory is made.
        state = tmp_path / "state of nobody"
        done = subprocess.run([program(), "--socket", first.socket, "--state-dir", state, "--replay", LTTNG],
                              capture_output=True, text=True, timeout=HANG_S)
        assert done.returncode == 1 and "another process listens" in done.stderr and not state.exists()


def test_a_socket_that_a_dead_daemon_left_is_replaced(tmp_path):
    with replay_max(tmp_path, LTTNG) as daemon:
        daemon.kill()
        assert os.path.exists(daemon.socket)
    with replay_max(tmp_path, LTTNG) as daemon:
        assert daemon.answers()


def test_a_file_in_the_way_of_the_socket_stays(tmp_path):
    path = tmp_path / "sock"
    path.write_text("precious")
    with Daemon(tmp_path, replay=LTTNG, wait=False) as daemon:
        assert daemon.process.wait(HANG_S) == 1
        assert str(path) in daemon.log()
    assert path.read_text() == "precious"


# ---- clients ----

@pytest.mark.drawn("long")
def test_two_clients_for_hours_of_trace_time(tmp_path):
    """Each sees time go on only, and figures that belong together, however fast it goes."""
    trace = tmp_path / "trace.txt"
    run_ns = write_text_trace(trace, 2 * 3600)
    trouble, views = [], [0, 0]

    def look(n, daemon):
        newest, etag = 0, None
        try:
            while True:
                status, headers, body = daemon.request(
                    "GET", "/v1/vms", headers={"If-None-Match": etag} if etag else None)
                etag = headers["ETag"]
                host = daemon.get("/v1/host")
                assert host["measurement"]["windows"] >= newest
                newest = host["measurement"]["windows"]
                for vm in json.loads(body)["items"] if status == 200 else ():
                    parts = sum(vm[k] for k in ("run_ns", "preempt_ns", "wake_wait_ns",
                                                "blocked_ns"))
                    assert parts == vm["observed_ns"], vm
                    assert sum(e["ns"] for e in vm["lost_to"]) <= \
                        vm["preempt_ns"] + vm["wake_wait_ns"]
                views[n] += 1
                if host["daemon"]["replay_ended"]:
                    return
        except Exception as error:  # told by the test itself
            trouble.append(error)

    with replay_max(tmp_path, trace, config="[store]\nmemory_windows=10\n") as daemon:
        threads = [threading.Thread(target=look, args=(n, daemon)) for n in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not trouble, trouble
        assert min(views) >= 1, views
        vms = daemon.get("/v1/vms")["items"]
        assert sorted(vm["run_ns"] for vm in vms) == sorted(run_ns)
        hours = daemon.get(f"/v1/vms/{vms[0]['id']}/samples?since=-3h&step=1h")["items"]
        assert sum(row["run_ns"] for row in hours) == vms[0]["run_ns"]
        assert sum(row["windows"] for row in hours) == 2 * 3600
        daemon.stop()


def test_events_can_be_taken_up_again_without_loss(tmp_path):
    trace = tmp_path / "trace.txt"
    write_text_trace(trace, 40)
    with Daemon(tmp_path, "--speed", "20", replay=trace) as daemon:
        last = daemon.get("/v1/host")["daemon"]["boot_id"] + "-0"
        whole, pieces = Events(daemon, "?types=window,replay-end", last), []
        while not pieces or pieces[-1][1] != "replay-end":
            piece = Events(daemon, "?types=window,replay-end", last)
            for _ in range(5):
                event = piece.next()
                pieces.append(event)
                last = event[0]
                if event[1] == "replay-end":
                    break
            piece.close()
        want = []
        while not want or want[-1][1] != "replay-end":
            want.append(whole.next())
        whole.close()
        assert pieces == want
        windows = [event[2]["windows"] for event in pieces if event[1] == "window"]
        assert windows == sorted(windows) and windows[-1] == 40


def test_who_followed_another_run_gets_all_of_this_one(tmp_path):
    with replay_max(tmp_path, LTTNG) as daemon:
        daemon.replayed()
        events = Events(daemon, last_id="00000000-0000-4000-8000-000000000000-3")
        assert events.next()[1] == "gap"
        assert events.next()[2]["seq"] == 1
        events.close()


# ---- libvirt's own word ----

@pytest.mark.parametrize("uri, names", [
    ("test:///default", ["test"]),
    (f"test://{os.path.join(ROOT, 'data', 'demo', 'node.xml')}", ["vm-busy", "vm-duty", "vm-idle"])])
def test_vms_that_only_libvirt_knows_are_shown_live(tmp_path, uri, names):
    with Daemon(tmp_path, config=f"[libvirt]\nuri={uri}\n[daemon]\nwindow=200ms\n") as daemon:
        wait_for(lambda: daemon.request("GET", "/readyz")[0] == 200)
        items = wait_for(lambda: [vm for vm in daemon.get("/v1/vms")["items"] if not vm["pid"]])
        assert [vm["name"] for vm in items] == names
        assert all("no source measures it" in vm["problem"] for vm in items)
        host = daemon.get("/v1/host")
        assert host["memory_bytes"] >= host["memory_free_bytes"] >= 0
        vm = daemon.get(f"/v1/vms/{names[0]}")
        assert vm["domain"]["state"] == "running"
        # It is there, and nothing is stored of it.
        assert daemon.get(f"/v1/vms/{names[0]}/samples")["items"] == []
        assert f'vgpud_vm_cpu_intensity_ratio{{vm="{names[0]}"' not in \
            daemon.request("GET", "/metrics")[2].decode()
        rows = subprocess.run([vgpuctl.program(), "vm", "list", "-o", "csv", "--socket", daemon.socket],
                              capture_output=True, text=True, timeout=HANG_S, check=True).stdout
        row = next(r for r in csv.DictReader(io.StringIO(rows)) if r["name"] == names[0])
        assert (row["class"], row["cpu_intensity"], row["gpu_intensity"]) == ("", "", "")
        assert "left out of the snapshot" not in daemon.log()
        daemon.stop()


NODE_VM = """<domain type='test'><name>{name}</name><uuid>{uuid}</uuid><memory unit='MiB'>64</memory><vcpu>1</vcpu>
<os><type>hvm</type></os><seclabel type='static' model='dac' relabel='no'><label>+{uid}:+{uid}</label></seclabel></domain>"""
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_user_of_the_host_is_no_vm_of_libvirt(tmp_path):
    """A process that only looks like a VM which libvirt knows gives it neither figures nor a pid, whether the VM's own
    process is there or not."""
    ids = {name: str(uuid.uuid4()) for name in ("real", "alone")}
    (tmp_path / "node.xml").write_text("<node>" + "".join(
        NODE_VM.format(name=name, uuid=number, uid=0) for name, number in ids.items()) + "</node>")
    config = f"[libvirt]\nuri=test://{tmp_path}/node.xml\n[daemon]\nwindow=200ms\n"
    with BusyVm(ids["real"], "real", wrap=NOBODY) as twin, BusyVm(ids["alone"], "alone", wrap=NOBODY) as liar, \
            BusyVm("", "alone", wrap=NOBODY) as named, BusyVm(ids["real"], "real") as real, \
            Daemon(tmp_path, config=config) as daemon:
        liars = (twin, liar, named)

        def measured():
            items = {vm["pid"]: vm for vm in daemon.get("/v1/vms")["items"]}
            ours = [items.get(vm.process.pid) for vm in (real, *liars)]
            return all(vm and vm["newest"] for vm in ours) and ours[0]["libvirt"] and ours
        mine, *others = wait_for(measured)
        assert (mine["id"], mine["name"], mine["problem"]) == (ids["real"], "real", None)
        for vm, process in zip(others, liars):
            assert vm["id"] == vm["name"] == f"{process.name}#{process.process.pid}"
            assert vm["libvirt"] is False and vm["uuid"] is None and vm["state"] == "unknown"
            assert vm["problem"].startswith("not libvirt's")
        real_one = daemon.get(f"/v1/vms/{ids['real']}")
        assert real_one["pid"] == real_one["domain"]["pid"] == real.process.pid
        alone = daemon.get(f"/v1/vms/{ids['alone']}")
        assert alone["pid"] == alone["domain"].get("pid", 0) == 0 and alone["libvirt"] and alone["newest"] is None
        assert daemon.get(f"/v1/vms/{ids['alone']}/samples?since=-1h&step=raw")["items"] == []
        snapshot = daemon.get("/v1/snapshot")
        unmanaged = {vm["name"] for vm in snapshot["hosts"][0]["vms"] if vm.get("unmanaged")}
        assert {vm["name"] for vm in others} <= unmanaged and not {"real", "alone"} & unmanaged
        assert "a process resembles a libvirt VM but does not belong to libvirt" in daemon.log()
        daemon.stop()


def test_the_past_of_a_vm_that_is_gone_by_its_name(tmp_path):
    uuid = "5c9e2c3a-0d8f-4f0a-9d64-1f3c1c7c5a01"
    vm_map = tmp_path / "map"
    vm_map.write_text(f"120 vm-busy {uuid}\n")
    with replay_max(tmp_path, LTTNG, "--vm-map", vm_map) as daemon:
        daemon.replayed()
        assert daemon.get("/v1/vms/vm-busy")["uuid"] == uuid
        begin = daemon.get("/v1/host")["measurement"]["begin_ns"] // 10**9 - 1
        daemon.stop()
    with Daemon(tmp_path) as daemon:
        wait_for(lambda: daemon.request("GET", "/v1/vms")[0] == 200)
        period = f"samples?since={begin}&until={begin + 60}&step=raw"
        by_name = daemon.get(f"/v1/vms/vm-busy/{period}")
        by_uuid = daemon.get(f"/v1/vms/{uuid}/{period}")
        assert by_name == by_uuid and len(by_name["items"]) == 7
        assert by_name["vm"]["id"] == uuid
        daemon.get(f"/v1/vms/vm-nobody/{period}", 404)
        daemon.stop()


def test_a_stream_ends_with_the_daemon(tmp_path):
    with replay_max(tmp_path, LTTNG) as daemon:
        daemon.replayed()
        events = Events(daemon, "?types=alert")
        daemon.process.send_signal(signal.SIGTERM)
        assert events.next() is None
        assert daemon.process.wait(HANG_S) == 0


# ---- faults ----

def test_dropped_windows_are_gaps_and_nothing_is_invented(tmp_path):
    trace = tmp_path / "trace.txt"
    write_text_trace(trace, 60)
    with replay_max(tmp_path, trace, config="[fault]\nwindows=drop:0.3,seed:7\n") as daemon:
        daemon.replayed()
        measurement = daemon.get("/v1/host")["measurement"]
        assert 0 < measurement["windows"] < 60
        vm = daemon.get("/v1/vms")["items"][0]
        assert vm["observed_ns"] == measurement["windows"] * 10**9
        sums, n = stored_sums(daemon, vm["id"])
        assert n == measurement["windows"] and sums["run_ns"] == vm["run_ns"]


def test_windows_that_come_twice_count_once(tmp_path):
    trace = tmp_path / "trace.txt"
    run_ns = write_text_trace(trace, 60)
    with replay_max(tmp_path, trace, config="[fault]\nwindows=duplicate:0.5,seed:3\n") as daemon:
        daemon.replayed()
        assert daemon.get("/v1/host")["measurement"]["duplicates"] > 10
        assert sorted(vm["run_ns"] for vm in daemon.get("/v1/vms")["items"]) == sorted(run_ns)


def test_windows_out_of_order_are_late_not_wrong(tmp_path):
    trace = tmp_path / "trace.txt"
    write_text_trace(trace, 60)
    with replay_max(tmp_path, trace, config="[fault]\nwindows=reorder:0.3,seed:5\n") as daemon:
        daemon.replayed()
        measurement = daemon.get("/v1/host")["measurement"]
        assert measurement["late"] > 3
        assert measurement["windows"] + measurement["late"] == 60
        sums, n = stored_sums(daemon, daemon.get("/v1/vms")["items"][0]["id"])
        assert n == measurement["windows"]


def test_a_collector_that_hangs_is_told_and_the_rest_goes_on(tmp_path):
    trace = tmp_path / "trace.txt"
    write_text_trace(trace, 20)
    with Daemon(tmp_path, "--speed", "10", replay=trace,
                config="[fault]\nwindows=hang:3\n[daemon]\nthread_limit=5s\n") as daemon:
        events = Events(daemon, "?types=collector")
        told = events.next()[2]
        while (told["part"], told["state"]) != ("collector:replay", "failed"):
            told = events.next()[2]
        assert "is unresponsive" in told["reason"]
        events.close()
        part = wait_for(lambda: (p := daemon.part("collector:replay"))["state"] == "failed" and p)
        assert not part["ready"] and "is unresponsive" in part["reason"]
        assert daemon.request("GET", "/readyz")[0] == 503
        assert daemon.request("GET", "/healthz")[0] == 200
        assert daemon.get("/v1/host")["measurement"]["windows"] == 3
        daemon.stop()


# ---- live ----

def test_live_a_vm_is_seen_measured_stored_and_gone(tmp_path):
    with Daemon(tmp_path, config="[daemon]\nwindow=200ms\nlog_level=debug\n"
                "[score]\nhalf_life=2s\n") as daemon:
        events = Events(daemon, "?types=vm")
        with BusyVm(sleeps=False) as vm:
            uuid = vm.uuid
            event = events.next()[2]
            while event["uuid"] != uuid:
                event = events.next()[2]
            assert event["what"] == "seen" and event["name"] == "alpha"
            got = wait_for(lambda: (v := daemon.get(f"/v1/vms/{uuid}"))["observed_ns"] > 10**9
                           and v)
            assert got["pid"] == vm.process.pid
            assert [v["tid"] for v in got["vcpus"]] == [vm.tid]
            # Its first moments may have been a wait for the interpreter's lock.
            wait_for(lambda: (v := daemon.get(f"/v1/vms/{uuid}"))["cpu_intensity"] > 0.5 and
                     v["class"] == "cpu")
            rows = daemon.get(f"/v1/vms/{uuid}/samples?since=-1h&step=raw")["items"]
            # Its process may have been seen in windows before its vCPU was.
            rows = list(itertools.dropwhile(lambda row: row["observed_ns"] == 0, rows))
            assert rows and all(row["observed_ns"] > 0 for row in rows)
            wait_for(lambda: daemon.request("GET", "/readyz")[0] == 200)
        event = events.next()[2]
        while event["uuid"] != uuid or event["what"] != "gone":
            event = events.next()[2]
        events.close()
        wait_for(lambda: daemon.request("GET", f"/v1/vms/{uuid}")[0] == 404)
        assert daemon.get(f"/v1/vms/{uuid}/samples?since=-1h&step=raw")["items"]
        daemon.stop()


def test_a_second_process_with_the_uuid_of_a_vm_does_not_take_its_place(tmp_path):
    with Daemon(tmp_path, config="[daemon]\nwindow=200ms\n") as daemon, BusyVm() as vm:
        first = wait_for(lambda: daemon.request("GET", f"/v1/vms/{vm.uuid}")[0] == 200
                         and daemon.get(f"/v1/vms/{vm.uuid}"))
        with BusyVm(vm.uuid) as twin:
            def both():
                pids = [v["pid"] for v in daemon.get("/v1/vms")["items"]]
                return vm.process.pid in pids and twin.process.pid in pids
            wait_for(both)
            known = daemon.get(f"/v1/vms/{vm.uuid}")
            assert known["pid"] == vm.process.pid and known["run_ns"] >= first["run_ns"]
            other = daemon.get(f"/v1/vms/alpha%23{twin.process.pid}")
            assert other["pid"] == twin.process.pid and other["uuid"] is None
            assert "two processes claim to be the same VM" in daemon.log()
        daemon.stop()


def test_a_vm_cannot_take_the_name_of_something_else(tmp_path):
    mark = f"n{os.getpid()}"
    with BusyVm(name="victim") as victim, BusyVm("", victim.uuid) as liar, \
            BusyVm("", victim.uuid.upper()) as second, BusyVm("", "rest") as rest, \
            BusyVm(name="host:kernel") as host, BusyVm("", mark) as one, BusyVm("", mark) as two, \
            BusyVm("", f"{mark}\nb\nc") as lines, \
            Daemon(tmp_path, config="[daemon]\nwindow=200ms\n") as daemon:
        mine = {vm.process.pid: vm for vm in (victim, liar, second, rest, host, one, two, lines)}

        def all_seen():
            items = [v for v in daemon.get("/v1/vms")["items"] if v["pid"] in mine]
            return len(items) == len(mine) and items
        ids = {vm["pid"]: vm["id"] for vm in wait_for(all_seen)}
        names = {vm["pid"]: vm["name"] for vm in all_seen()}
        assert ids[victim.process.pid] == victim.uuid and names[victim.process.pid] == "victim"
        for vm, name in ((liar, liar.name), (second, second.name), (rest, "rest")):
            assert ids[vm.process.pid] == f"{name}#{vm.process.pid}"
        assert ids[host.process.pid] == host.uuid
        assert names[host.process.pid] == f"host:kernel#{host.process.pid}"
        assert {ids[one.process.pid], ids[two.process.pid]} in [
            {mark, f"{mark}#{vm.process.pid}"} for vm in (one, two)]
        for pid, vm_id in ids.items():
            assert daemon.get("/v1/vms/" + urllib.parse.quote(vm_id, safe=""))["pid"] == pid
        # One page after the other shows each of them, also the one whose name has line feeds.
        paged, marker = [], ""
        while marker is not None:
            page = daemon.get("/v1/vms?limit=1" + marker)
            paged += [vm["id"] for vm in page["items"]]
            marker = page["next"] and "&marker=" + page["next"]
            assert len(paged) < 1000
        assert set(ids.values()) <= set(paged)
        # Nobody adds to what is known and stored of the victim: it has one vCPU. What is looked at
        # late has more time in one window, and less in the next one.
        wait_for(lambda: [v["tid"] for v in daemon.get(f"/v1/vms/{victim.uuid}")["vcpus"]] ==
                 [victim.tid])
        rows = wait_for(lambda: (r := daemon.get(
            f"/v1/vms/{victim.uuid}/samples?since=-1h&step=raw")["items"]) and len(r) > 4 and r)
        assert statistics.median(row["observed_ns"] / (row["end_ns"] - row["begin_ns"])
                                 for row in rows) < 1.5
        assert "a VM has a reserved name" in daemon.log()
        daemon.stop()


def notify_socket(path):
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sock.bind(path)
    sock.settimeout(HANG_S)
    return sock


def test_systemd_is_told(tmp_path):
    path = str(tmp_path / "notify")
    with notify_socket(path) as sock:
        with replay_max(tmp_path, LTTNG, env={"NOTIFY_SOCKET": path}, wait=False) as daemon:
            messages = [sock.recv(4096).decode()]
            while "WATCHDOG=1" not in messages[-1]:
                messages.append(sock.recv(4096).decode())
            assert messages[0] == "READY=1"
            assert "STATUS=" in messages[-1]
            daemon.process.send_signal(signal.SIGHUP)
            while not messages[-1].startswith("RELOADING=1"):
                messages.append(sock.recv(4096).decode())
            assert "MONOTONIC_USEC=" in messages[-1]
            while messages[-1] != "READY=1":
                messages.append(sock.recv(4096).decode())
            daemon.process.send_signal(signal.SIGTERM)
            while messages[-1] != "STOPPING=1":
                messages.append(sock.recv(4096).decode())
            assert daemon.process.wait(HANG_S) == 0
