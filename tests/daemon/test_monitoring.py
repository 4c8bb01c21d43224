# SPDX-License-Identifier: Apache-2.0
"""Alerts of [alert NAME], and the samples for Prometheus and Grafana."""
import glob
import json
import os
import re
import shutil
import sqlite3
import subprocess

import dashboard
import pytest
import vgpuctl
import yaml
from settings import HANG_S
from terminal import Terminal
from vgpud import LTTNG, ROOT, VM_MAP, Daemon, wait_for

RULES = os.path.join(ROOT, "data", "prometheus", "vgpud.rules.yml")
# In this recording vm-busy and vm-duty lose 0.55 to 0.58 cores each, vm-idle less.
LIVE = "[daemon]\nwindow=200ms\n[live]\nbpf=no\nperf=no\n[gpu]\nenable=no\n"
UNMEASURED = "[live]\nuse=no\n"
ALERTS = """[alert everyone]
lost_cores=0.9
for=2s
[alert pair]
lost_cores=0.5
for=1s
vm=vm-?u??
[alert never]
lost_cores=2
for=1s
"""


def alerts(daemon):
    done = subprocess.run([vgpuctl.program(), "events", "--socket", daemon.socket, "--since", "-1h", "--type",
                           "alert", "-o", "json"], capture_output=True, text=True, timeout=HANG_S, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.smoke
def test_alerts_are_events_that_are_kept(tmp_path):
    with Daemon(tmp_path, "--speed", "max", "--vm-map", VM_MAP, replay=LTTNG, config=ALERTS) as daemon:
        daemon.replayed()
        events = wait_for(lambda: (e := alerts(daemon)) and len(e) >= 3 and e)
        assert sorted((e["what"], e["alert"], e["vm"]) for e in events) == [
            ("raised", "everyone", None), ("raised", "pair", "vm-busy"), ("raised", "pair", "vm-duty")]
        for event in events:
            assert event["lost_cores"] >= event["limit"] and event["for_s"] in (1, 2)
        of_one = ctl(daemon, "events", "--since", "-1h", "--vm", "vm-busy", "-o", "json").splitlines()
        assert [(e["type"], e.get("vm") or e["name"]) for e in map(json.loads, of_one) if e["type"] == "alert"] == [("alert", "vm-busy")]
        assert all("vm-busy" in line for line in of_one)
        assert "no events are stored for that period" in ctl(daemon, "events", "--since", "-1h", "--vm", "vm-nobody")
        # Other rules: what was raised ends, and says why; the same ones change nothing.
        daemon.process.send_signal(1)
        wait_for(lambda: "configuration reloaded" in daemon.log())
        assert len(alerts(daemon)) == 3
        daemon.write_config(ALERTS.replace("lost_cores=0.9", "lost_cores=0.8"))
        daemon.process.send_signal(1)
        ended = wait_for(lambda: (e := alerts(daemon)) and len(e) >= 6 and e)[3:]
        assert {(e["what"], e["reason"]) for e in ended} == {("cleared", "the configuration has changed")}
        log = daemon.stop()
        assert 'alert raised alert=pair vm="vm-busy"' in log and "alert cleared alert=everyone" in log
    with Daemon(tmp_path, config=ALERTS + UNMEASURED) as daemon:
        assert len(alerts(daemon)) == 6
        daemon.stop()


def ctl(daemon, *args, codes=(0,)):
    done = subprocess.run([vgpuctl.program(), *args, "--socket", daemon.socket], capture_output=True, text=True,
                          timeout=HANG_S, check=False)
    assert done.returncode in codes, done.stderr
    return done.stdout


def active(daemon):
    text = daemon.request("GET", "/metrics")[2].decode()
    return sorted(re.findall(r'vgpud_alert_active\{rule="(\w+)",vm="([^"]*)",.*\} 1$', text, re.M))


def test_alerts_are_shown_and_outlive_vgpud(tmp_path):
    """Whoever asks sees what is raised, whether vgpud was killed meanwhile or not; it is not raised twice."""
    everything = [("everyone", None), ("pair", "vm-busy"), ("pair", "vm-duty")]
    with Daemon(tmp_path, "--speed", "max", "--vm-map", VM_MAP, replay=LTTNG, config=ALERTS) as daemon:
        assert "no alert is active" in ctl(daemon, "alert", "list") or len(alerts(daemon)) > 0
        daemon.replayed()
        wait_for(lambda: len(alerts(daemon)) == 3)
        before = wait_for(lambda: (a := daemon.get("/v1/alerts")) and len(a["items"]) == 3 and a)
        assert before["rules"] == 3 and [(a["alert"], a["vm"]) for a in before["items"]] == everything
        assert daemon.get("/v1/host")["alerts"] == before["items"]
        assert active(daemon) == [(rule, vm or "") for rule, vm in everything]
        # The annotations of the dashboard name those labels.
        notes = json.loads(open(dashboard.DASHBOARD, encoding="utf-8").read())["annotations"]["list"]
        shown = {label for note in notes if "alert_active" in note["expr"]
                 for label in re.findall(r"{{(\w+)}}", note["titleFormat"] + note["textFormat"])}
        text = daemon.request("GET", "/metrics")[2].decode()
        assert shown == {"rule", "vm", "instance"} and re.search('vgpud_alert_active{rule="pair",vm="', text)
        for where in (["alert", "list"], ["host", "show"]):
            text = ctl(daemon, *where)
            assert "everyone" in text and "vm-duty" in text, text
        with Terminal(vgpuctl.program(), "top", "--socket", daemon.socket, columns=80) as terminal:
            terminal.wait("3 alerts: everyone (all VMs), pair (vm-busy), pair (vm-duty)")
            terminal.press("q")
            assert terminal.end() == 0
        daemon.kill()
    # Nothing is measured: nothing can end.
    with Daemon(tmp_path, config=ALERTS + UNMEASURED) as daemon:
        after = daemon.get("/v1/alerts")["items"]
        assert [{**a, "lost_cores": 0} for a in after] == [{**a, "lost_cores": 0} for a in before["items"]]
        checks = json.loads(ctl(daemon, "doctor", "-o", "json", codes=(0, 1)))["checks"]
        assert [c["why"] for c in checks if c["what"] == "alerts"] == [
            "3 raised: everyone (all VMs), pair (vm-busy), pair (vm-duty)"]
        assert len(alerts(daemon)) == 3
        daemon.stop()
    # Another rule of that name is another alert.
    with Daemon(tmp_path, config=ALERTS.replace("vm-?u??", "vm-d*") + UNMEASURED) as daemon:
        assert [(a["alert"], a["vm"]) for a in daemon.get("/v1/alerts")["items"]] == [everything[0], everything[2]]
        ended = wait_for(lambda: (e := alerts(daemon)[3:]) and e)
        assert [(e["what"], e["vm"], e["reason"]) for e in ended] == [
            ("cleared", "vm-busy", "the configuration has changed")]
        daemon.stop()
    # Windows come, without these VMs: what is raised ends once, after its time.
    with Daemon(tmp_path, config=ALERTS.replace("vm-?u??", "vm-d*") + LIVE) as daemon:
        ended = wait_for(lambda: (e := alerts(daemon)[4:]) and len(e) >= 2 and e)
        assert {(e["what"], e["alert"], e["reason"]) for e in ended} == {
            ("cleared", "everyone", None), ("cleared", "pair", "the VM has left")}
        # An event is told while the window is worked on, the list follows at that window's end.
        wait_for(lambda: daemon.get("/v1/alerts")["items"] == [] and active(daemon) == [])
        daemon.stop()


def metric(daemon, name):
    return float(re.search(rf"^{name} (\S+)$", daemon.request("GET", "/metrics")[2].decode(), re.M)[1])


def write_script(path, text):
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


SCRIPT = """#!/usr/bin/python3 -ISs
import json, os, sys
status = dict(line.split(":\t", 1) for line in open("/proc/self/status"))
with open(sys.argv[1], "a") as out:
    print(json.dumps({"argv": sys.argv[2:], "event": json.loads(sys.stdin.read()), "environment": dict(os.environ),
                      "files": sorted(os.readlink("/proc/self/fd/" + f) for f in os.listdir("/proc/self/fd")
                                      if int(f) > 2 and f != str(out.fileno()) and os.path.exists("/proc/self/fd/" + f)),
                      "caps": [status[c].strip() for c in ("CapInh", "CapPrm", "CapEff", "CapAmb")],
                      "no_new_privs": status["NoNewPrivs"].strip(),
                      "session": os.getsid(0) == os.getpid()}), file=out)
if os.environ["VGPUD_ALERT_NAME"] == "everyone":
    sys.exit("nobody answers the phone")
"""


def children(pid):
    out = []
    for path in glob.glob(f"/proc/{pid}/task/*/children"):
        with open(path, encoding="utf-8") as file:
            out += file.read().split()
    return out


def test_a_program_is_run_for_alerts(tmp_path):
    """It knows what happened, and has none of what vgpud may do; where it fails, this is told and counted."""
    script, told = write_script(tmp_path / "tell", SCRIPT), tmp_path / "told"

    def runs():
        return [json.loads(line) for line in told.read_text(encoding="utf-8").splitlines()] if told.exists() else []
    config = ALERTS + f"[alerts]\ncommand={script} {told} \"night shift\" $HOME\n"
    with Daemon(tmp_path, "--speed", "max", "--vm-map", VM_MAP, replay=LTTNG, config=config) as daemon:
        # Afterwards, nothing is raised again by other rules.
        daemon.replayed()
        wait_for(lambda: metric(daemon, "vgpud_alert_commands_total") == 3 and len(runs()) == 3)
        daemon.write_config(config.replace("lost_cores=0.9", "lost_cores=0.8"))
        daemon.process.send_signal(1)
        wait_for(lambda: len(runs()) == 6 and metric(daemon, "vgpud_alert_command_failures_total") == 2)
        wait_for(lambda: not children(daemon.process.pid))
        daemon.stop()
        log = daemon.log()
    with Daemon(tmp_path, config=ALERTS + UNMEASURED) as daemon:
        assert [run["event"] | {"event_id": e["event_id"]} for run, e in zip(runs(), alerts(daemon), strict=True)] == \
            alerts(daemon)
        daemon.stop()
    for run in runs():
        event, environment = run["event"], run["environment"]
        assert run["argv"] == ["night shift", "$HOME"]
        assert run["caps"] == ["0000000000000000"] * 4 and run["no_new_privs"] == "1" and run["session"]
        assert run["files"] == []
        assert (environment["VGPUD_ALERT_NAME"], environment["VGPUD_ALERT_WHAT"], environment["VGPUD_ALERT_VM"]) == (
            event["alert"], event["what"], event["vm"] or "")
        assert float(environment["VGPUD_ALERT_LOST_CORES"]) == event["lost_cores"]
        assert "PATH" in environment and "HOME" not in environment
    failed = [line for line in log.splitlines() if "alert command failed" in line]
    assert len(failed) == 2 and all("exit code 1" in f and "nobody answers the phone" in f for f in failed), log


def ended(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_a_program_that_hangs_is_killed(tmp_path):
    """It and what it has started end at its limit or with vgpud, which goes on measuring meanwhile."""
    pids = tmp_path / "pids"
    script = write_script(tmp_path / "hang", f"""#!/bin/sh
sleep 100000 &
echo $! $$ >> {pids}
wait
""")

    def started():
        return [int(pid) for pid in pids.read_text(encoding="utf-8").split()] if pids.exists() else []
    config = ALERTS + f"[alerts]\ncommand={script}\ncommand_limit=1s\n"
    with Daemon(tmp_path, "--speed", "max", "--vm-map", VM_MAP, replay=LTTNG, config=config) as daemon:
        daemon.replayed()
        wait_for(lambda: metric(daemon, "vgpud_alert_command_failures_total") == 3)
        assert len(started()) == 6
        wait_for(lambda: all(ended(pid) for pid in started()))
        assert daemon.log().count(f"'{script}' took longer than 1 s and was killed") == 3
        daemon.write_config(config.replace("lost_cores=0.9", "lost_cores=0.8").replace("limit=1s", "limit=600s"))
        daemon.process.send_signal(1)
        wait_for(lambda: len(started()) == 8)
        assert not any(ended(pid) for pid in started()[6:])
        daemon.stop()
        wait_for(lambda: all(ended(pid) for pid in started()))
    assert len(started()) == 8


def owed(daemon):
    db = sqlite3.connect(os.path.join(daemon.state, "state.db"), timeout=HANG_S)
    count, = db.execute("SELECT count(*) FROM alert_owed").fetchone()
    db.close()
    return count


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_a_program_runs_for_alerts_of_an_earlier_run(tmp_path, ending):
    """What vgpud's end prevented or interrupted is made up for after the next start, in order and once."""
    told, hangs = tmp_path / "told", tmp_path / "hangs"
    tell = write_script(tmp_path / "tell", f"#!/bin/sh\ncat >> {told}\n")
    hang = write_script(tmp_path / "hang", f"#!/bin/sh\necho >> {hangs}\nexec sleep 100000\n")
    with Daemon(tmp_path, "--speed", "max", "--vm-map", VM_MAP, replay=LTTNG, config=ALERTS) as daemon:
        daemon.replayed()
        wait_for(lambda: len(alerts(daemon)) == 3)
        daemon.stop()
    # Other rules: at the start, the earlier alerts end.
    other = ALERTS.replace("lost_cores=0.9", "lost_cores=0.8").replace("lost_cores=0.5", "lost_cores=0.4") + UNMEASURED
    with Daemon(tmp_path, config=other + f"[alerts]\ncommand={hang}\ncommand_limit=600s\n") as daemon:
        wait_for(lambda: hangs.exists() and owed(daemon) == 3)
        if ending == "kill":
            daemon.kill()
        else:
            daemon.stop()
    assert owed(daemon) == 3
    with Daemon(tmp_path, config=other + f"[alerts]\ncommand={tell}\n") as daemon:
        runs = wait_for(lambda: told.exists() and (r := told.read_text(encoding="utf-8").splitlines()) and len(r) == 3 and r)
        ended = [e for e in alerts(daemon) if e["what"] == "cleared"]
        assert [json.loads(run) | {"event_id": e["event_id"]} for run, e in zip(runs, ended, strict=True)] == ended
        wait_for(lambda: owed(daemon) == 0)
        daemon.stop()
    with Daemon(tmp_path, config=other + f"[alerts]\ncommand={tell}\n") as daemon:
        assert metric(daemon, "vgpud_alert_commands_total") == 0
        daemon.stop()
    assert len(told.read_text(encoding="utf-8").splitlines()) == 3


def test_nothing_is_owed_without_a_program(tmp_path):
    """Whoever removes the program wants no runs of it, also not by a later one; a recording's alerts are over."""
    told, hangs = tmp_path / "told", tmp_path / "hangs"
    hang = write_script(tmp_path / "hang", f"#!/bin/sh\necho >> {hangs}\nexec sleep 100000\n")
    with Daemon(tmp_path, "--speed", "max", "--vm-map", VM_MAP, replay=LTTNG,
                config=ALERTS + f"[alerts]\ncommand={hang}\n") as daemon:
        daemon.replayed()
        wait_for(lambda: len(alerts(daemon)) == 3 and hangs.exists())
        assert owed(daemon) == 0
        daemon.stop()
    other = ALERTS.replace("lost_cores=0.9", "lost_cores=0.8").replace("lost_cores=0.5", "lost_cores=0.4") + UNMEASURED
    with Daemon(tmp_path, config=other + f"[alerts]\ncommand={hang}\ncommand_limit=600s\n") as daemon:
        wait_for(lambda: owed(daemon) == 3)
        daemon.stop()
    with Daemon(tmp_path, config=other) as daemon:
        wait_for(lambda: owed(daemon) == 0)
        daemon.stop()


def test_a_program_that_is_missing_is_told(tmp_path):
    config = ALERTS + f"[alerts]\ncommand={tmp_path}/nothing\n"
    with Daemon(tmp_path, "--speed", "max", "--vm-map", VM_MAP, replay=LTTNG, config=config) as daemon:
        wait_for(lambda: metric(daemon, "vgpud_alert_command_failures_total") == 3)
        assert f"cannot run '{tmp_path}/nothing': No such file or directory" in daemon.log()
        daemon.stop()


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    with Daemon(tmp_path_factory.mktemp("metrics"), "--speed", "max", replay=LTTNG) as daemon:
        daemon.replayed()
        return daemon.request("GET", "/metrics")[2].decode()


def expressions(path):
    if path == dashboard.DASHBOARD:
        yield from dashboard.expressions()
        return
    with open(path, encoding="utf-8") as file:
        document = yaml.safe_load(file)
    yield from (rule["expr"] for group in document["groups"] for rule in group["rules"])


@pytest.mark.parametrize("path", [RULES, dashboard.DASHBOARD], ids=["rules", "dashboard"])
def test_samples_use_only_metrics_that_there_are(exported, path):
    used = set()
    for expression in expressions(path):
        used |= set(re.findall(r"\b(?:vgpud|process)_\w+", expression))
    used -= {"vgpud_tls_certificate_expiry_timestamp_seconds"}  # exported with [api] listen only
    there = {line.split()[2] for line in exported.splitlines() if line.startswith("# TYPE")}
    assert len(used) >= 5 and used <= there, used - there


def test_queries_of_the_dashboard_find_samples(exported):
    """With the labels that they want; those of GPUs and proxies are in tests/daemon/test_gpu_proxy.py."""
    assert not dashboard.missing(exported, "^(?!.*(gpu|proxy)_)")
    assert dashboard.missing(exported, "proxy_")


def test_rules_of_prometheus():
    promtool = shutil.which("promtool")
    if not promtool:
        pytest.skip("promtool is not installed")
    done = subprocess.run([promtool, "check", "rules", RULES], capture_output=True, text=True, timeout=HANG_S,
                          check=False)
    assert done.returncode == 0 and "13 rules found" in done.stdout, done.stdout + done.stderr


def test_a_vm_without_its_gpu_is_an_alert(tmp_path):
    """At once, for the VM and the move that the sample names, until the sample is gone."""
    promtool = shutil.which("promtool")
    if not promtool:
        pytest.skip("promtool is not installed")
    labels = {"vm": "alpha", "uuid": "u", "host": "host-b", "move": "move-1", "instance": "host-a", "job": "vgpud"}
    series = "vgpud_vm_without_gpu{%s}" % ",".join(f'{name}="{value}"' for name, value in labels.items())
    raised = {"exp_labels": {**labels, "severity": "critical"}, "exp_annotations": {
        "summary": "VM alpha on host-b has had no GPU since move-1",
        "description": "`vgpuctl migration show move-1` on host-a shows why, and "
                       "`vgpuctl migration retry move-1` finishes the move."}}
    test = {"rule_files": [RULES], "evaluation_interval": "1m", "tests": [{
        "interval": "1m", "input_series": [{"series": series, "values": "_ 1 1 stale"}],
        "alert_rule_test": [{"eval_time": at, "alertname": "VgpudVmWithoutGpu", "exp_alerts": alerts}
                            for at, alerts in (("0m", []), ("1m", [raised]), ("3m", []))]}]}
    path = tmp_path / "test.yml"
    path.write_text(yaml.safe_dump(test))
    done = subprocess.run([promtool, "test", "rules", str(path)], capture_output=True, text=True, timeout=HANG_S,
                          check=False)
    assert done.returncode == 0, done.stdout + done.stderr
