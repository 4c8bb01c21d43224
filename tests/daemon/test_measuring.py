# SPDX-License-Identifier: Apache-2.0
"""What happened to the measuring is told, and kept: vgpud was away, somebody set the clock."""
import os
import shutil
import subprocess
import time

import pytest
import vgpuctl
from settings import HANG_S
from vgpud import LTTNG, Daemon, wait_for

CONFIG = "[live]\nuse=no\n[gpu]\nenable=no\n"
ALIVE = "alive"

# The clock of the machine as it is, and what the file adds to it.
CLOCK = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int
clock_gettime(clockid_t id, struct timespec *time)
{
    char text[32] = "";
    int fd = id == CLOCK_REALTIME ? open(getenv("VG_TEST_CLOCK"), O_RDONLY | O_CLOEXEC) : -1;

    if (fd >= 0) {
        (void)!read(fd, text, sizeof(text) - 1);
        close(fd);
    }
    int status = (int)syscall(SYS_clock_gettime, id, time);
    time->tv_sec += atol(text);
    return status;
}
"""


def told(daemon, what):
    return [e for e in daemon.get("/v1/events?limit=1000&types=measuring")["items"] if e["what"] == what]


def test_away_is_told_with_how_it_ended(tmp_path):
    began_ns, ended_ns = [], []

    def run(n_away, stop):
        began_ns.append(time.time_ns())
        with Daemon(tmp_path, config=CONFIG) as daemon:
            assert len(wait_for(lambda: len(e := told(daemon, "away")) == n_away and (e or [None]))) >= 1
            stop(daemon)
            ended_ns.append(time.time_ns())
    run(0, Daemon.kill)
    run(1, Daemon.stop)
    run(2, Daemon.kill)
    # Another boot of the kernel.
    path = os.path.join(tmp_path, "state", ALIVE)
    mtime_ns = os.stat(path).st_mtime_ns
    with open(path, "r+", encoding="utf-8") as file:
        state, boot = file.read().split()
        assert state == "running"
        file.seek(0)
        file.write(f"{state} {boot[::-1]}\n")
    os.utime(path, ns=(mtime_ns, mtime_ns))
    with Daemon(tmp_path, config=CONFIG) as daemon:
        began_ns.append(time.time_ns())
        events = wait_for(lambda: len(e := told(daemon, "away")) == 3 and e)
        assert [e["ended"] for e in events] == ["killed", "stopped", "host rebooted"]
        for i, event in enumerate(events):
            assert began_ns[i] <= event["since_ns"] <= ended_ns[i]
            assert event["for_s"] > 0 and event["since_ns"] + event["for_s"] * 1e9 <= time.time_ns()
        text = subprocess.run([vgpuctl.program(), "events", "--socket", daemon.socket, "--since", "-1h"],
                              capture_output=True, text=True, timeout=HANG_S, check=True).stdout
        assert "measuring what=away ended=killed since=\"2" in text and "_ns=" not in text
        daemon.stop()
    # A recording is no measuring of this host.
    with Daemon(tmp_path, "--speed", "max", replay=LTTNG) as daemon:
        daemon.replayed()
        assert len(told(daemon, "away")) == 3
        daemon.stop()


def test_a_second_vgpud_does_not_write_for_the_first(tmp_path):
    """It neither tells that the first one was away nor how it ended; once it is alone, it tells the truth of itself."""
    path = os.path.join(tmp_path / "state", ALIVE)

    def state():
        with open(path, encoding="utf-8") as file:
            return file.read().split()[0]
    with Daemon(tmp_path, config=CONFIG) as first:
        for stops in (True, False):
            (tmp_path / "second").mkdir(exist_ok=True)
            with Daemon(tmp_path / "second", config=CONFIG, state=first.state) as second:
                assert "another vgpud is running in" in second.log() and "was not running" not in second.log()
                assert state() == "running"
                if stops:
                    second.stop()
                    assert state() == "running"
                    continue
                first.stop()
                assert state() == "stopped"
                wait_for(lambda: state() == "running")
                second.stop()
                assert state() == "stopped"


def test_the_past_of_the_host_says_who_was_away(tmp_path):
    """And who was not known since when: what /proc tells does not name those who took CPU time."""
    config = "[live]\nbpf=no\nperf=no\n[gpu]\nenable=no\n"
    with Daemon(tmp_path, config=config) as daemon:
        wait_for(lambda: daemon.get("/v1/host")["measurement"]["windows"] >= 2)
        unknown = told(daemon, "who-unknown")
        daemon.kill()
    with Daemon(tmp_path, config=config) as daemon:
        wait_for(lambda: daemon.get("/v1/host")["measurement"]["windows"] >= 1 and told(daemon, "away"))
        away = told(daemon, "away")[0]
        items = daemon.get("/v1/host/history?since=-1h&step=1h")["items"]
        happened = [event for item in items for event in item["happened"]]
        assert {"at_ns", "what", "ended", "since_ns", "for_s"} == \
            set(next(event for event in happened if event["what"] == "away"))
        assert any(event["what"] == "away" and event["since_ns"] == away["since_ns"] for event in happened)
        assert len(unknown) == 1 and unknown[0]["reason"]
        assert any(event["what"] == "who-unknown" and event["since_ns"] == unknown[0]["since_ns"]
                   for event in happened)
        text = subprocess.run([vgpuctl.program(), "host", "history", "--socket", daemon.socket, "--since", "-1h",
                               "--step", "1h"], capture_output=True, text=True, timeout=HANG_S, check=True).stdout
        assert "vgpud was killed" in " ".join(text.split())
        daemon.stop()


@pytest.mark.skipif(not shutil.which("cc"), reason="there is no compiler")
def test_a_clock_that_is_set_is_told(tmp_path):
    source, library, clock = tmp_path / "clock.c", tmp_path / "clock.so", tmp_path / "clock"
    source.write_text(CLOCK, encoding="utf-8")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True, timeout=HANG_S)

    def set_clock(seconds):
        (tmp_path / "next").write_text(str(seconds), encoding="utf-8")
        os.replace(tmp_path / "next", clock)
    set_clock(0)
    env = {"LD_PRELOAD": str(library), "VG_TEST_CLOCK": str(clock),
           "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"}
    with Daemon(tmp_path, config=CONFIG, env=env) as daemon:
        for i, (seconds, by_s) in enumerate([(3600, 3600), (3000, -600)]):
            set_clock(seconds)
            events = wait_for(lambda n=i: len(e := told(daemon, "clock-set")) > n and e)
            assert [e["by_s"] for e in events[i:]] == [pytest.approx(by_s, abs=60)]
        assert "the clock was set by_s=" in daemon.stop()
    with Daemon(tmp_path, config=CONFIG) as daemon:
        assert len(told(daemon, "clock-set")) == 2
        # What the clock said when vgpud ended is in the future now.
        assert told(daemon, "away")[0]["for_s"] is None
        daemon.stop()
