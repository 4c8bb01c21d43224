# SPDX-License-Identifier: Apache-2.0
"""Events that outlive vgpud, and vgpuctl that follows them over a restart."""
import json
import os
import subprocess

import pytest
import vgpuctl
from settings import HANG_S
from vgpud import LTTNG, BusyVm, Daemon, Events, wait_for

LIVE = "[daemon]\nwindow=200ms\n[gpu]\nenable=no\n"


def run(daemon, *args, code=0):
    done = subprocess.run([vgpuctl.program(), "events", "--socket", daemon.socket, *args], capture_output=True,
                          text=True, timeout=HANG_S, check=False, env={**os.environ, "TZ": "Asia/Kolkata"})
    assert done.returncode == code, (done.returncode, done.stderr, done.stdout[:500])
    return done


def kept(daemon, *args):
    return [json.loads(line) for line in run(daemon, *args, "-o", "json").stdout.splitlines()]


def of(events, uuid, what):
    return [e for e in events if e["type"] == "vm" and e.get("uuid") == uuid and e["what"] == what]


@pytest.mark.smoke
def test_what_happened_is_there_after_a_restart(tmp_path):
    with Daemon(tmp_path, config=LIVE) as daemon:
        with BusyVm() as vm:
            wait_for(lambda: of(kept(daemon, "--since", "-1h"), vm.uuid, "seen"))
        wait_for(lambda: of(kept(daemon, "--since", "-1h"), vm.uuid, "gone"))
        log = daemon.stop()
    for what in ("seen", "gone"):
        assert f'VM {what} name="alpha" uuid={vm.uuid} pid={vm.process.pid}' in log
    with Daemon(tmp_path, config=LIVE) as daemon:
        events = kept(daemon, "--since", "-1h")
        assert len(of(events, vm.uuid, "seen")) == len(of(events, vm.uuid, "gone")) == 1
        assert "window" not in {e["type"] for e in events}
        assert {e["type"] for e in kept(daemon, "--since", "-1h", "--type", "vm")} == {"vm"}
        assert kept(daemon, "--since", "-2d", "--until", "-1d") == []
        assert "no events are stored for that period" in run(daemon, "--since", "-2d", "--until", "-1d").stdout
        # All from the first, and on with what comes: --after 0.
        assert [e["event_id"] for e in kept(daemon, "--after", "0", "-n", "5")] == \
            [e["event_id"] for e in events[:5]]
        # After one of a run before.
        ids = [e["event_id"] for e in events]
        assert [e["event_id"] for e in kept(daemon, "--after", ids[1], "-n", "3")] == ids[2:5]
        text = run(daemon, "--since", "-1h")
        assert text.stderr.count("times are local: IST, UTC+05:30") == 1 and "T" not in text.stdout.split()[1]
        assert daemon.stop()


def test_pages_and_where_the_stream_goes_on(tmp_path):
    with Daemon(tmp_path, "--speed", "max", replay=LTTNG) as daemon:
        daemon.replayed()
        wait_for(lambda: daemon.get("/v1/events?since=-1h&types=replay-end")["items"])
        whole = daemon.get("/v1/events?since=-30d")
        ids = [e["event_id"] for e in whole["items"]]
        assert whole["next"] is None and len(ids) == len(set(ids)) > 5
        pieces, url = [], "/v1/events?limit=2"
        while url:
            page = daemon.get(url)
            pieces += [e["event_id"] for e in page["items"]]
            url = page["next"] and f"/v1/events?limit=2&from={page['next']}"
        assert pieces == ids
        # Nothing twice, nothing missing: the next event is the first after `at`.
        stream = Events(daemon, "?types=plan", last_id=whole["at"])
        daemon.post("/v1/plans", {"dry_run": True})
        assert stream.next()[1] == "plan"
        stream.close()
        daemon.get("/v1/events?from=00000000-0000-4000-8000-000000000000-1", 404)
        for bad in ("since=-1h&after=0", "limit=1&wait=1", "from=x", "types=nothing&limit=1", "since=x",
                    "since=-1h&until=-2h"):
            daemon.get(f"/v1/events?{bad}", 400)
        assert "the types are alert, collector" in daemon.get("/v1/events?types=fun", 400)["detail"]
        assert "alert, collector" in run(daemon, "--types", "fun", code=2).stderr
        for bad in (["--types", ""], ["--since", "-1h", "--after", "0"], ["--until", "-1h", "--follow"],
                    ["--since", "never"]):
            run(daemon, *bad, code=2)
        windows = kept(daemon, "--types", "window", "--after", whole["boot_id"] + "-0", "-n", "2")
        assert [e["type"] for e in windows] == ["window"] * 2


def test_following_goes_on_over_a_restart(tmp_path):
    out, err = tmp_path / "out", tmp_path / "err"

    def seen():
        return [json.loads(line) for line in out.read_text().splitlines()]

    with Daemon(tmp_path, config=LIVE) as daemon:
        wait_for(lambda: daemon.get("/v1/host")["measurement"]["windows"] > 0)
        with open(out, "w", encoding="utf-8") as to, open(err, "w", encoding="utf-8") as errors:
            follower = subprocess.Popen([vgpuctl.program(), "events", "-o", "json", "--socket", daemon.socket],
                                        stdout=to, stderr=errors)
        try:
            with BusyVm() as vm:
                wait_for(lambda: of(seen(), vm.uuid, "seen"))
                daemon.stop()
                wait_for(lambda: "waiting for vgpud" in err.read_text())
            # Both runs tell of it; what the second one says before the follower is back is kept.
            with Daemon(tmp_path, config=LIVE) as again, BusyVm(name="beta") as other:
                wait_for(lambda: of(seen(), other.uuid, "seen"))
                wait_for(lambda: "is back, it was restarted" in err.read_text())
                ids = [e["event_id"] for e in seen()]
                assert follower.poll() is None and len(ids) == len(set(ids))
                since = [e["event_id"] for e in kept(again, "--after", ids[0], "-n", str(len(ids) - 1))]
                assert since == ids[1:]
                assert err.read_text().count("waiting for vgpud") == 1
                again.stop()
        finally:
            follower.kill()
            follower.wait()


def test_nothing_is_waited_for_that_never_was_there(tmp_path):
    done = subprocess.run([vgpuctl.program(), "events", "--socket", str(tmp_path / "nothing")],
                          capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.returncode == 7 and "cannot reach vgpud" in done.stderr
