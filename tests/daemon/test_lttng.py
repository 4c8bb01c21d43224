# SPDX-License-Identifier: Apache-2.0
"""A live session of LTTng, read by the daemon from a real relay daemon: the counts of a known
script, the figures of what the relay daemon has written, interruptions."""
import os
import signal
import socket
import subprocess
import time

import pytest

import lttng
import vgpuctl
from settings import seed
from vgpud import BusyVm, Daemon, pause, wait_for

NS = 10**9
SUMS = ("observed_ns", "run_ns", "entries", "guest_ns", "hyp_ns", "preempt_ns", "preemptions",
        "wake_wait_ns", "wakeups", "blocked_ns", "blocks", "switches_out", "unseen_migrations",
        "exits")
COUNTS = ("entries", "preemptions", "wakeups", "blocks", "switches_out")


def live_session(test):
    """Marks what needs LTTng's daemons to hand on in time what happens. One after the other:
    tests/daemon/test_trace.py says why."""
    for mark in (pytest.mark.skipif(lttng.missing() is not None, reason=str(lttng.missing())),
                 pytest.mark.skipif(not {0, 1} <= os.sched_getaffinity(0), reason="needs CPUs 0 and 1"),
                 pytest.mark.xdist_group("lttng"), pytest.mark.host):
        test = mark(test)
    return test


ALONE = "[live]\nuse=no\n"


def config(lt, session="lv", more=ALONE, keys=""):
    return f"{more}[lttng]\nurl={lt.url(session)}\n{keys}"


def part(daemon):
    return daemon.part("collector:lttng")


def measurement(daemon):
    return daemon.get("/v1/host")["measurement"]


def wait_for_windows(daemon, n):
    """Until n more windows are closed."""
    enough = measurement(daemon)["windows"] + n
    wait_for(lambda: measurement(daemon)["windows"] >= enough)


def wait_until_read(daemon):
    return wait_for(lambda: part(daemon)["state"] in ("ok", "degraded") and part(daemon))


def play_and_wait(player, host, n, daemon):
    """Plays n events, and what else happens until all sleep; waits until it is in a window."""
    player.write(*host.events(n), *host.rest())
    player.ask("sync")
    until_ns = time.time_ns()
    wait_for(lambda: (measurement(daemon)["newest_begin_ns"] or 0) > until_ns)


def read_view(daemon):
    """VMs by name, and of when they are."""
    while True:
        told = measurement(daemon)
        vms = {vm["name"]: vm for vm in daemon.get("/v1/vms")["items"]}
        if measurement(daemon)["seq"] == told["seq"]:
            return vms, told


def check_counts(host, vms):
    for tid, want in host.vms.items():
        got = vms[f"qemu-{tid}"]
        assert {key: got[key] for key in COUNTS} == {key: want["counts"][key] for key in COUNTS}
        assert {k: v for k, v in got["exits"].items() if v} == dict(want["exits"])
        assert {lost["aggressor"]: lost["count"] for lost in got["lost_to"] if lost["count"]} == \
               dict(want["lost_to"])
        assert got["run_ns"] + got["preempt_ns"] + got["wake_wait_ns"] + got["blocked_ns"] == \
               got["observed_ns"]


@live_session
def test_counts_of_the_script_and_figures_of_the_recording(tmp_path):
    host = lttng.Host(seed())
    with lttng.Lttng() as lt:
        lt.create("lv")
        player = lt.play()
        player.ask("wait")
        with Daemon(tmp_path, config=config(lt)) as daemon:
            wait_until_read(daemon)
            player.write(*host.events(4000), *host.rest())
            player.ask("sync")
            played_ns = time.time_ns()
            # A host that wrote nothing at all would not be believed to be watched: this one lives
            # on, for longer than is looked at.
            player.write(*300 * pulse())
            wait_for(lambda: (measurement(daemon)["newest_begin_ns"] or 0) > played_ns)
            vms, told = read_view(daemon)
            check_counts(host, vms)
            assert (told["source"], told["series"], told["confidence"]) == ("lttng", "live", 1)
            assert told["waits_split"] and told["aggressors_known"] and told["missed"] == 0
            assert {measure["source"] for measure in told["measures"].values()} == {"lttng"}
            assert 0 < told["collector_cost_ns"] < NS // 2
            assert part(daemon)["state"] == "ok"
            daemon.stop()
        player.ask("sync")
        lt.lttng("destroy", "lv")
        begin_ns, end_ns = (told[key] - told["clock_offset_ns"] for key in ("begin_ns", "end_ns"))
        assert begin_ns % NS == 0 and end_ns % NS == 0
        doc = vgpuctl.analyze(lt.output(), "--begin", begin_ns, "--end", end_ns).doc()
        assert doc["trace"]["problems"] == [] and doc["trace"]["discontinuities"] == 0
        assert {vm["name"]: {key: vm[key] for key in (*SUMS, "lost_to")} for vm in doc["vms"]} == \
               {name: {key: vm[key] for key in (*SUMS, "lost_to")} for name, vm in vms.items()}


def pulse(comm="stress"):
    tid = lttng.FIRST_TID - 1
    return [(0, "switch", 0, "swapper/0", 0, tid, comm), (0, "switch", tid, comm, 1, 0, "swapper/0"),
            (0, "sleep", 20000)]


@live_session
def test_events_that_found_no_room_are_counted(tmp_path):
    with lttng.Lttng() as lt:
        lt.create("lv", "--discard", "--subbuf-size=4096", "--num-subbuf=2")
        player = lt.play()
        player.ask("wait")
        with Daemon(tmp_path, config=config(lt)) as daemon:
            wait_until_read(daemon)
            events = pulse("CPU 0/KVM")
            # Who empties the buffers could otherwise be as fast as they are filled.
            pause(consumer_of(lt))
            try:
                player.write(*20000 * events[:2])
                player.ask("sync")
            finally:
                os.kill(consumer_of(lt), signal.SIGCONT)
            player.write(*100 * events)
            player.ask("sync")
            played_ns = time.time_ns()
            wait_for(lambda: (measurement(daemon)["newest_begin_ns"] or 0) > played_ns)
            name = f"qemu-{lttng.FIRST_TID - 1}"
            rows = daemon.get(f"/v1/vms/{name}/samples?since=-1h&step=raw")["items"]
            daemon.stop()
        lt.lttng("destroy", "lv")
        doc = vgpuctl.analyze(lt.output()).doc()
        assert sum(row["lost_events"] for row in rows) == doc["trace"]["lost"] > 0


@live_session
def test_an_interruption_is_a_gap_that_is_told(tmp_path):
    host = lttng.Host(seed())
    with lttng.Lttng() as lt:
        lt.create("lv")
        player = lt.play()
        player.ask("wait")
        with Daemon(tmp_path, config=config(lt)) as daemon:
            wait_until_read(daemon)
            play_and_wait(player, host, 1000, daemon)
            check_counts(host, read_view(daemon)[0])
            passed_ns = measurement(daemon)["end_ns"]
            lt.kill_relay()
            wait_for(lambda: part(daemon)["state"] == "failed")
            assert lt.url("lv") in part(daemon)["reason"]
            wait_for(lambda: "Connection refused" in part(daemon)["reason"])
            # Nobody may hear of what happens now.
            player.write(*lttng.Host(seed() + 1).events(200))
            lt.lttng("destroy", "lv", check=False)
            time.sleep(2)
            lt.start_relay()
            lt.create("lv")
            wait_until_read(daemon)
            told = measurement(daemon)
            assert told["missed"] >= 2
            assert f"{told['missed']} windows were missed in 1 gaps" in part(daemon)["reason"]
            # A VM of which nothing is told, is gone: its sums begin anew.
            host.forget()
            play_and_wait(player, host, 1000, daemon)
            vms, told = read_view(daemon)
            check_counts(host, vms)
            assert told["windows"] + told["missed"] == (told["end_ns"] - told["begin_ns"]) // NS
            assert passed_ns < told["end_ns"]
            daemon.stop()


@live_session
def test_a_relay_daemon_that_hangs_keeps_nobody(tmp_path):
    with lttng.Lttng() as lt:
        lt.create("lv")
        lt.play().ask("wait")
        with Daemon(tmp_path, config=config(lt)) as daemon:
            wait_until_read(daemon)
            pause(lt.relay.pid)
            wait_for(lambda: part(daemon)["state"] == "failed")
            assert "has not answered for 10 s" in part(daemon)["reason"]
            daemon.stop()


# An answer is waited for for 10 s, in which nothing is done.
@pytest.mark.parametrize("answers", [False, True], ids=["refused", "silent"])
def test_nobody_behind_the_url(tmp_path, answers):
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        if answers:
            one.listen()
        url = f"net://127.0.0.1:{one.getsockname()[1]}/host/{socket.gethostname()}/lv"
        with Daemon(tmp_path, config=f"{ALONE}[lttng]\nurl={url}\n") as daemon:
            wait_for(lambda: part(daemon)["state"] == "failed")
            assert url in part(daemon)["reason"]
            assert ("has not answered" if answers else "refused") in part(daemon)["reason"]
            assert not part(daemon)["ready"]
            daemon.stop()


@live_session
def test_a_session_is_waited_for_and_its_end_is_told(tmp_path):
    with lttng.Lttng() as lt:
        with Daemon(tmp_path, config=config(lt)) as daemon:
            wait_for(lambda: part(daemon)["state"] == "failed")
            assert "the live session" in part(daemon)["reason"]
            lt.create("lv")
            lt.play().ask("wait")
            # Whether the player's events are known is a matter of when they were looked at.
            told = wait_until_read(daemon)
            assert told["state"] == "ok" or "no sched_switch" in told["reason"]
            lt.lttng("destroy", "lv")
            wait_for(lambda: "has ended; waiting for a new one" in part(daemon)["reason"])
            daemon.stop()


@live_session
def test_a_session_that_is_stopped_is_silent(tmp_path):
    with lttng.Lttng() as lt:
        lt.create("lv")
        lt.play().ask("wait")
        with Daemon(tmp_path, config=config(lt, keys="lag=100ms\n")) as daemon:
            wait_until_read(daemon)
            pause(consumer_of(lt))
            try:
                wait_for(lambda: part(daemon)["state"] == "failed")
                assert "no data came" in part(daemon)["reason"]
            finally:
                os.kill(consumer_of(lt), signal.SIGCONT)
            wait_until_read(daemon)
            assert measurement(daemon)["missed"] == 0


def consumer_of(lt):
    done = subprocess.run(["pgrep", "-P", str(lt.sessiond.pid), "-f", "lttng-consumerd"],
                          capture_output=True, text=True, check=True)
    return int(done.stdout.split()[0])


@live_session
def test_another_host_is_measured_in_the_place_of_this_one(tmp_path):
    host, begun_ns = lttng.Host(seed()), time.time_ns()
    with lttng.Lttng() as lt:
        lt.create("lv")
        player = lt.play()
        player.ask("wait")
        with Daemon(tmp_path, config=config(lt, more="", keys="host=other\n")) as daemon:
            wait_until_read(daemon)
            play_and_wait(player, host, 1000, daemon)
            vms, told = read_view(daemon)
            check_counts(host, vms)
            shown = daemon.get("/v1/host")
            assert shown["name"] == socket.gethostname() and shown["memory_bytes"] in (0, None)
            assert told["series"] == "lttng"
            assert begun_ns < told["end_ns"] <= time.time_ns()
            assert daemon.part("collector:live")["state"] is None


@live_session
def test_this_host_is_polled_where_the_session_is_interrupted(tmp_path):
    with lttng.Lttng() as lt, BusyVm() as vm:
        lt.create("lv")
        player = lt.play()
        player.ask("wait")
        with Daemon(tmp_path, config=config(lt, more="")) as daemon:
            wait_for(lambda: measurement(daemon)["source"] == "lttng")
            # Nobody but a tracer sees a guest being entered.
            player.write((0, "switch", 0, "swapper/0", 0, vm.tid, "CPU 0/KVM"), (0, "entry", 0))
            wait_for(lambda: [one["name"] for one in read_view(daemon)[0].values()
                              if one["uuid"] == vm.uuid and one["entries"] == 1] == [vm.name])
            lt.kill_relay()
            wait_for(lambda: measurement(daemon)["source"] not in ("lttng", None))
            wait_for_windows(daemon, 3)
            told = measurement(daemon)
            assert told["missed"] == 0 and told["series"] == "live"


@pytest.mark.xdist_group("lttng")
def test_a_session_that_cannot_be_made_is_told(tmp_path):
    keys = "url=net://127.0.0.1\ncreate=yes\n"
    with Daemon(tmp_path, config=f"{ALONE}[lttng]\n{keys}",
                env={"LTTNG_HOME": str(tmp_path), "HOME": str(tmp_path)}) as daemon:
        wait_for(lambda: part(daemon)["state"] in ("failed", "ok", "degraded"))
        if part(daemon)["state"] != "failed":
            pytest.skip("the kernel tracer of LTTng works here")
        assert "LTTng cannot" in part(daemon)["reason"]
        assert "trying again" in part(daemon)["reason"]
        daemon.stop()
