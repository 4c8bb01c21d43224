# SPDX-License-Identifier: Apache-2.0
"""vgpuctl migrate, migration and plan apply, against tests/tools/api-server, whose moves go one step
further at each look; and through a relay that makes its answers late, broken or other ones."""
import csv
import http.server
import io
import json
import os
import re
import signal
import socketserver
import subprocess
import threading
import time

import pytest
import vgpuctl
import yaml
from settings import HANG_S, sample
from terminal import Terminal
from unixhttp import Server, wait_for
from vgpud import ROOT

FIRST = "move-0000000000000001"
UUID = "5c9e2c3a-0d8f-4f0a-9d64-1f3c1c7c0000"
VERBS = ["precheck", "reserve", "quiesce", "detach", "migrate", "attach", "resume", "verify"]


@pytest.fixture
def server(tmp_path):
    running = Server(tmp_path)
    yield running
    running.stop()


class Relay(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """Hands requests on to a server and notes them. change(method, path, answer) may return another
    (status, headers, document), or None to close the connection without an answer."""
    daemon_threads = True

    def __init__(self, path, behind, change=None):
        self.behind, self.change, self.seen = behind, change, []
        super().__init__(path, Handler)
        self.path = path
        self.thread = threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.shutdown()
        self.thread.join()
        self.server_close()
        os.unlink(self.path)

    def posts(self):
        return [(path, body, headers) for method, path, headers, body in self.seen
                if method == "POST"]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *unused):
        pass

    def address_string(self):
        return "unix"

    def relay(self):
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        self.server.seen.append((self.command, self.path, dict(self.headers),
                                 json.loads(body) if body else None))
        headers = {name: value for name, value in self.headers.items()
                   if name in ("Content-Type", "Idempotency-Key")}
        got = self.server.behind.request(self.command, self.path, body or None, headers)
        answer = (got.status, {"Location": got.headers.get("Location")}, got.json())
        if self.server.change:
            answer = self.server.change(self.command, self.path, answer)
        self.close_connection = True
        if answer is None:
            return
        status, headers, document = answer
        text = json.dumps(document).encode()
        self.send_response(status)
        for name, value in headers.items():
            if value:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = relay


def run(where, *args, code=0, stdin=None):
    done = subprocess.run([vgpuctl.program(), *args, "--socket", where.path], capture_output=True,
                          text=True, timeout=HANG_S, input=stdin)
    assert done.returncode == code, (done.returncode, done.stderr, done.stdout)
    return done


def read(where, *args, code=0):
    return json.loads(run(where, *args, "-o", "json", code=code).stdout)


def terminal(where, *args):
    return Terminal(vgpuctl.program(), *args, "--socket", where.path, columns=80, rows=40)


def make_done(server):
    """A move that has ended."""
    run(server, "migrate", "alpha", "--to", "host-b")
    wait_for(lambda: server.get(f"/v1/migrations/{FIRST}").json()["state"] == "done")


def move_at(state, **other):
    """Whatever the server says, a look finds the move so."""
    def change(method, path, answer):
        status, headers, document = answer
        if method == "GET" and "/v1/migrations/" in path:
            document = {**document, "state": state, **other}
        return status, headers, document
    return change


# ---- migrate ----

@pytest.mark.smoke
def test_without_wait_it_says_how_to_watch_it(server):
    done = run(server, "migrate", "alpha", "--to", "host-b")
    assert done.stderr == "" and done.stdout.splitlines() == [
        f"{FIRST}: alpha from test-host to host-b",
        f"to watch it:      vgpuctl migration watch {FIRST}",
        f"to cancel it:     vgpuctl migration abort {FIRST}"]
    document = read(server, "migrate", "alpha", "--to", "host-c", "--no-agent")
    assert (document["to"], document["state"], document["no_agent"]) == ("host-c", "pending", True)
    row, = csv.DictReader(io.StringIO(run(
        server, "migrate", "alpha", "--to", "d", "-o", "csv").stdout))
    assert (row["vm"], row["uuid"], row["state"]) == ("alpha", UUID, "pending")


def test_what_is_sent(server, tmp_path):
    with Relay(str(tmp_path / "relay"), server) as relay:
        run(relay, "migrate", "alpha", "--to", "host-b")
        run(relay, "migrate", "alpha", "--to", "host-b", "--no-agent")
        (path, first, head), (_, second, other) = relay.posts()
    assert path == "/v1/migrations"
    assert first == {"vm": "alpha", "to": "host-b", "forward": True}
    assert second == {**first, "no_agent": True}
    assert len(head["Idempotency-Key"]) == 36
    assert head["Idempotency-Key"] != other["Idempotency-Key"]


def test_wait_tells_a_line_for_each_step(server):
    done = run(server, "migrate", "alpha", "--to", "host-b", "--wait")
    lines = done.stdout.splitlines()
    assert lines[0] == f"{FIRST}: alpha from test-host to host-b"
    assert [line.split()[0] for line in lines[1:-2]] == VERBS
    assert lines[5] == "migrate          1.0 s  768 MiB copied"
    assert lines[-2:] == ["Done after 9.0 s: alpha is on host-b and has its GPUs; GPU programs were paused",
                          "for 5.0 s; downtime 80 ms."]
    assert done.stderr == "" and "\033" not in done.stdout and "\r" not in done.stdout


def test_a_vm_without_a_gpu_misses_none(server):
    done = run(server, "migrate", "alpha", "--to", "bare", "--wait")
    assert re.search(r"Done after 9\.0 s: alpha is on bare[;,.]", done.stdout), done.stdout
    assert "no GPU" not in done.stdout


def test_documents_are_alone_on_stdout(server):
    done = run(server, "migrate", "alpha", "--to", "host-b", "--wait", "-o", "json")
    assert json.loads(done.stdout)["state"] == "done"
    assert "verify" in done.stderr and "Done after 9.0 s" in done.stderr
    done = run(server, "migration", "watch", FIRST, "-o", "yaml")
    assert yaml.safe_load(done.stdout)["state"] == "done"


@pytest.mark.smoke
def test_wait_on_a_terminal_draws_bars(server):
    seen = []
    with terminal(server, "migrate", "alpha", "--to", "host-b", "--wait") as screen:
        for verb in VERBS:
            # What is drawn may come in two pieces.
            screen.wait(lambda now, verb=verb: any(line.startswith(verb) for line in now.lines()) and
                        (verb != "migrate" or "ETA" in now.text()))
            seen.append(screen.screen.text())
        assert screen.end() == 0
        lines = [line for line in screen.screen.lines() if line]
    copying = next(text for text in seen if "migrate" in text).splitlines()
    at = next(i for i, line in enumerate(copying) if line.startswith("migrate"))
    assert copying[at].startswith("migrate    [" + "#" * 30 + " " * 10 + "]")
    assert copying[at].endswith(" s   75 %")
    assert copying[at + 1].strip() == \
        "768 MiB of 1.00 GiB, 128 MiB/s, dirty 1 MiB/s, iter. 2, ETA 2.0 s"
    assert lines[1:9] == [f"{verb:11}[{'#' * 40}]       1.0 s" +
                          ("  768 MiB" if verb == "migrate" else "") for verb in VERBS]
    assert lines[9:] == ["Done after 9.0 s: alpha is on host-b and has its GPUs; GPU programs were paused",
                         "for 5.0 s; downtime 80 ms."]


def test_a_narrow_terminal_and_one_that_cannot_draw(server):
    with Terminal(vgpuctl.program(), "migrate", "alpha", "--to", "b", "--wait", "--socket",
                  server.path, columns=40, rows=40) as screen:
        assert screen.end() == 0
        assert screen.screen.text().count("precheck") == 1
    with Terminal(vgpuctl.program(), "migration", "watch", FIRST, "--socket", server.path,
                  columns=80, rows=40, env={"TERM": "dumb"}) as screen:
        assert screen.end() == 0
        assert b"\033" not in screen.raw and b"#" not in screen.raw


REFUSALS = [("beta", "x", 3, "'beta'"), ("alpha", "off", 4, "actions are disabled"),
            ("alpha", "full", 5, "no GPU left")]


@pytest.mark.parametrize("vm, to, code, words", REFUSALS)
def test_what_is_refused(server, vm, to, code, words):
    done = run(server, "migrate", vm, "--to", to, "--wait", code=code)
    assert words in done.stderr and done.stdout == ""


def test_wrong_usage(server):
    for args, words in ((["migrate", "alpha"], "--to"), (["migrate", "--to", "b"], "specify the VM"),
                        (["migrate", "alpha", "--to", ""], "--to"),
                        (["migrate", "a", "--to", "b", "--timeout=5"], "--wait"),
                        (["migrate", "a", "--to", "b", "--wait", "--timeout=x"], "--timeout"),
                        (["migrate", "a", "--to", "b", "--wait", "--dry-run"], "--dry-run"),
                        (["migrate", "a", "--to", "b", "--watch"], "--watch"),
                        (["migration", "lose"], "list, show, watch, abort, retry, undo"),
                        (["migration", "show"], "specify a move"),
                        (["migration", "show", "m", "--active"], "--active"),
                        (["migration", "show", "m", "--wait"], "--wait"),
                        (["migration", "abort", "m", "--watch"], "--watch"),
                        (["migration", "list", "--peer=b"], "--peer"),
                        (["plan", "apply"], "specify a plan"), (["plan", "undo"], "specify a plan"),
                        (["plan", "list", "--yes"], "--yes"),
                        (["plan", "apply", "p"], "--yes")):
        done = run(server, *args, code=2, stdin="")
        assert words in done.stderr, (args, done.stderr)


@pytest.mark.smoke
def test_dry_run(server):
    done = run(server, "migrate", "alpha", "--to", "host-b", "--dry-run")
    assert "No obstacles found.\n" in done.stdout and done.stderr == ""
    assert "Not checked:\n- only vgpud's own connection was tried\n" in done.stdout
    assert "GPU programs are expected to be paused for 2.5 s: release, unplug, " in done.stdout
    rows = [line.split() for line in done.stdout.splitlines()]
    assert "quiesce 0.5 30.0 makes the guest release its GPUs".split() in rows
    assert ["all", "steps", "4.0", "-", "-"] in rows
    done = run(server, "migrate", "alpha", "--to", "full", "--dry-run", code=4)
    assert "Obstacles:\n- host 'full' has no GPU left\n" in done.stdout
    assert "alpha cannot be moved to full: 1 problem\n" in done.stderr
    check = read(server, "migrate", "alpha", "--to", "full", "--dry-run", code=4)
    assert check["problems"] == ["host 'full' has no GPU left"]
    rows = list(csv.DictReader(io.StringIO(run(
        server, "migrate", "alpha", "--to", "b", "--dry-run", "-o", "csv").stdout)))
    assert [row["verb"] for row in rows] == VERBS
    assert read(server, "migration", "list") == []


# ---- connections that break ----

def test_the_same_key_when_the_connection_broke(server, tmp_path):
    """The server has heard the first two, but their answers are lost."""
    lost = []

    def change(method, path, answer):
        if method == "POST" and len(lost) < 2:
            lost.append(path)
            return None
        return answer

    with Relay(str(tmp_path / "relay"), server, change) as relay:
        done = run(relay, "migrate", "alpha", "--to", "host-b")
        posts = relay.posts()
    assert len(posts) == 3 and len({head["Idempotency-Key"] for _, _, head in posts}) == 1
    assert posts[0][1] == posts[1][1] == posts[2][1]
    assert done.stderr.count("; retrying") == 2


def test_the_key_of_a_request_whose_answer_is_lost(server, tmp_path):
    """vgpuctl gives up, and says how to ask again; nothing is begun twice."""
    with Relay(str(tmp_path / "relay"), server, lambda method, path, answer: None) as relay:
        began = subprocess.Popen([vgpuctl.program(), "--socket", relay.path, "migrate", "alpha", "--to", "host-b"],
                                 stderr=subprocess.PIPE, text=True)
        wait_for(relay.posts)
        began.send_signal(signal.SIGINT)
        _, told = began.communicate(timeout=HANG_S)
        [key] = {head["Idempotency-Key"] for _, _, head in relay.posts()}
    assert f"Idempotency-Key {key} (`vgpuctl migrate --idempotency-key`), which does not start a second move" in told
    with Relay(str(tmp_path / "relay2"), server, lambda method, path, answer: answer) as relay:
        run(relay, "migrate", "alpha", "--to", "host-b", "--idempotency-key", key)
        assert [head["Idempotency-Key"] for _, _, head in relay.posts()] == [key]


def test_who_was_never_reached_is_not_asked_again(tmp_path):
    class Nobody:
        path = str(tmp_path / "nobody")
    for args in (["migrate", "a", "--to", "b"], ["migration", "list"], ["migration", "show", "m"],
                 ["migration", "watch", "m"], ["migration", "abort", "m"],
                 ["migration", "retry", "m"], ["migration", "undo", "m"], ["plan", "apply", "p", "--yes"]):
        assert "is vgpud running" in run(Nobody, *args, code=7).stderr


def test_watching_outlives_a_vgpud_that_does_not_answer(server, tmp_path):
    looks = []

    def change(method, path, answer):
        looks.append(path)
        if method == "GET" and len(looks) in (3, 4):
            return None
        if method == "GET" and len(looks) == 6:
            return 502, {}, {"detail": "peer 'b' does not answer"}
        return answer

    with Relay(str(tmp_path / "relay"), server, change) as relay:
        done = run(relay, "migrate", "alpha", "--to", "host-b", "--wait")
    assert "\nDone after" in done.stdout
    assert done.stderr.count("retrying for a minute") == 2


def test_a_terminal_says_that_there_is_no_news(server, tmp_path):
    silent = threading.Event()

    def change(method, _, answer):
        return None if silent.is_set() and method == "GET" else answer

    with Relay(str(tmp_path / "relay"), server, change) as relay, \
            terminal(relay, "migrate", "alpha", "--to", "host-b", "--wait") as screen:
        screen.wait("reserve")
        silent.set()
        screen.wait("no update for")
        silent.clear()
        assert screen.end() == 0
        assert "no update" not in screen.screen.text() and "Done after" in screen.screen.text()


def test_the_location_is_followed(server, tmp_path):
    def change(method, path, answer):
        status, headers, document = answer
        if method == "POST" and path == "/v1/migrations":
            headers = {"Location": f"/v1/migrations/{FIRST}?peer=host%20c"}
        return status, headers, document

    with Relay(str(tmp_path / "relay"), server, change) as relay:
        done = run(relay, "migrate", "alpha", "--to", "host-b")
        assert f"vgpuctl migration abort {FIRST} --peer=" in done.stdout
        assert "host c" in done.stdout
        run(relay, "migration", "show", FIRST, "--peer", "host c")
        run(relay, "migrate", "alpha", "--to", "host-b", "--wait")
        run(relay, "migration", "abort", FIRST, "--peer", "host c", code=5)
        paths = {path for _, path, _, _ in relay.seen}
    assert paths == {"/v1/migrations", f"/v1/migrations/{FIRST}?peer=host%20c",
                     f"/v1/migrations/{FIRST}/abort?peer=host%20c"}


def test_a_location_elsewhere_is_not_followed(server, tmp_path):
    def change(method, _, answer):
        status, headers, document = answer
        return status, {"Location": "http://elsewhere/"} if method == "POST" else headers, document

    with Relay(str(tmp_path / "relay"), server, change) as relay:
        assert "elsewhere" in run(relay, "migrate", "alpha", "--to", "b", code=1).stderr


ODD = [{}, [], 7, {"id": 3}, {"id": "m", "state": "done"}, {"problems": 3}, {"steps": [7]}]


@pytest.mark.parametrize("document", sample("odd answers", ODD, 2), ids=json.dumps)
def test_whoever_says_something_else_is_an_error(server, tmp_path, document):
    with Relay(str(tmp_path / "relay"), server, lambda *_: (200, {}, document)) as relay:
        for args in (["migrate", "a", "--to", "b"], ["migrate", "a", "--to", "b", "--dry-run"],
                     ["migration", "list"], ["migration", "show", "m"], ["migration", "abort", "m"],
                     ["plan", "apply", "p", "--yes"]):
            if args[-1] != "--dry-run" or document != {"problems": 3}:
                done = run(relay, *args, code=1)
                assert done.stderr.startswith("vgpuctl: ") and done.stdout == ""


# ---- how it ends ----

ENDS = [
    ("rolled_back", {"vm_on": "source", "gpu": "attached", "cause": "the guest keeps ua-gpu0"},
     "Rolled back after", "alpha is on test-host and has its GPUs",
     "there is nothing to clean up; fix the cause, then start a new move with `vgpuctl migrate alpha --to host-b`"),
    ("failed", {"vm_on": "target", "gpu": "detached", "cause": "no such device"},
     "Failed after", "alpha is on host-b WITHOUT its GPUs",
     f"`vgpuctl migration retry {FIRST}` plugs in a GPU of host-b, or brings the VM back to test-host"),
    ("failed", {"vm_on": "source", "gpu": "partly", "cause": "no such device"},
     "Failed after", "alpha is on test-host with only SOME of its GPUs",
     f"`vgpuctl migration retry {FIRST}` gives the VM its GPUs back"),
    ("failed", {"vm_on": "source", "gpu": "attached", "cause": "the hook fails", "steps": [
        {"verb": "quiesce", "began_ns": 1}, {"verb": "revive", "began_ns": 2}]},
     "Failed after", "alpha is on test-host and has its GPUs",
     f"`vgpuctl migration retry {FIRST}` makes the guest use its GPUs again"),
    ("failed", {"vm_on": "source", "gpu": "attached", "cause": "it is paused", "stands": "paused by a user", "steps": [
        {"verb": "quiesce", "began_ns": 1}]},
     "Failed after", "alpha is on test-host, paused by a user, and has its GPUs",
     f"`virsh resume alpha` on test-host lets the VM continue; then `vgpuctl migration retry {FIRST}` makes the guest"),
    ("failed", {"vm_on": "source", "gpu": "attached", "cause": "no GPU is free", "no_agent": True,
                "steps": [{"verb": "precheck", "began_ns": 1}]},
     "Failed after", "alpha is on test-host and has its GPUs",
     "start a new move with `vgpuctl migrate alpha --to host-b --no-agent`"),
    ("failed", {"vm_on": "target", "gpu": "attached", "cause": "the hook fails"},
     "Failed after", "alpha is on host-b and has its GPUs",
     f"`vgpuctl migration retry {FIRST}` completes the remaining steps; `vgpuctl migration undo {FIRST}` moves the VM back"),
    ("failed", {"vm_on": "unknown", "gpu": "unknown", "cause": "nobody answers"},
     "Failed after", "it is unknown whether alpha is on test-host or on host-b",
     f"`vgpuctl migration retry {FIRST}` checks the hosts again"),
    ("failed", {"vm_on": "both", "gpu": "unknown", "cause": "started twice"},
     "Failed after", "alpha is running TWICE, on test-host and on host-b", "`virsh destroy alpha`"),
    ("failed", {"vm_on": "nowhere", "gpu": "unknown", "cause": None},
     "Failed after", "alpha is running NEITHER on test-host NOR on host-b", "`virsh start alpha`"),
    ("aborted", {"vm_on": "source", "gpu": "partly", "cause": "somebody asked for it"},
     "Aborted after", "with only SOME of its GPUs", ""),
]


@pytest.mark.parametrize("state, other, begins, where, advice", ENDS)
def test_what_is_not_done_is_1_and_says_why_and_what_now(server, tmp_path, state, other, begins, where, advice):
    with Relay(str(tmp_path / "relay"), server, move_at(state, **other)) as relay:
        done = run(relay, "migrate", "alpha", "--to", "host-b", "--wait", code=1)
    assert begins in done.stdout and where in " ".join(done.stdout.split())
    cause = other["cause"] or "the cause is unknown"
    assert cause in done.stderr and f"vgpuctl migration show {FIRST}" in done.stderr
    assert advice in done.stderr and ("what now: " in done.stderr) == bool(advice)
    with Relay(str(tmp_path / "relay"), server, move_at(state, **other)) as relay:
        show = " ".join(run(relay, "migration", "show", FIRST).stdout.split())
    assert advice in show and (" what now: " in show) == bool(advice)


def steps_of_a_failure():
    second = 10**9
    begin = 1795200000 * second

    def step(verb, at, took, ok=True, undoes=False, answer=None):
        return {"verb": verb, "began_ns": begin + at * second,
                "ended_ns": begin + (at + took) * second if took else 0, "ok": ok,
                "undoes": undoes, "asked": f"alpha on test-host: {verb}", "answer": answer}
    return [step("precheck", 0, 1),
            step("detach", 1, 40, ok=False,
                 answer="ua-gpu0 is still there: the guest has not let go of it, a process in it "
                        "(python3, 4711) has /dev/nvidia0 open\nand a second line"),
            step("reattach", 41, 2, undoes=True), step("release", 43, 0, undoes=True)]


def test_a_failed_step_tells_its_answer_and_the_way_back(server, tmp_path):
    change = move_at("rolled_back", vm_on="source", cause="ua-gpu0 is still there",
                     steps=steps_of_a_failure(), ended_ns=1795200043 * 10**9)
    with Relay(str(tmp_path / "relay"), server, change) as relay:
        text = run(relay, "migrate", "alpha", "--to", "host-b", "--wait", code=1).stdout
        assert "detach          40.0 s  failed: ua-gpu0 is still there" in text
        assert "Rolling back: the completed steps are being undone.\nreattach         2.0 s\n" in text
        with terminal(relay, "migration", "watch", FIRST) as screen:
            assert screen.end() == 1
            lines = screen.screen.lines()
        at = next(i for i, line in enumerate(lines) if line.startswith("detach"))
        assert lines[at] == "detach     [---------------- failed ----------------]      40.0 s"
        assert lines[at + 1] == \
            "           ua-gpu0 is still there: the guest has not let go of it, a process in"
        assert lines[at + 3] == "           and a second line"
        assert any("result unknown" in line for line in lines)
        show = run(relay, "migration", "show", FIRST).stdout
    assert max(len(line) for line in show.splitlines()) <= 80
    assert "cause:         ua-gpu0 is still there\n" in show
    assert "1.0 s     40.0 s   detach   alpha on test-host: detach\n" in show
    assert "-> FAILED: ua-gpu0 is still there" in show
    assert "41.0 s      2.0 s < reattach alpha on test-host: reattach\n" in show
    assert "(result unknown)" in show and show.endswith("< marks steps of the rollback\n")


def test_large_figures_fit_on_a_terminal(server, tmp_path):
    gib = 2**30
    change = move_at("migrating", steps=[{**steps_of_a_failure()[0], "verb": "migrate",
                                          "ended_ns": 0}],
                     progress={"total_bytes": 1500 * gib, "remaining_bytes": 300 * gib,
                               "processed_bytes": 2000 * gib, "dirty_bytes_per_s": 900 * 2**20,
                               "bytes_per_s": 2600 * 2**20, "iteration": 12,
                               "eta_ns": 400 * 10**9, "downtime_ns": 0, "elapsed_ns": 10**9})
    with Relay(str(tmp_path / "relay"), server, change) as relay, \
            terminal(relay, "migrate", "alpha", "--to", "host-b", "--wait") as screen:
        screen.wait("1.17 TiB of 1.46 TiB, 2.54 GiB/s, dirty 900 MiB/s, iter. 12, ETA 6 min 40 s")
        screen.press("\003")
        assert screen.end() == -signal.SIGINT


def test_names_from_outside_do_not_reach_a_terminal(server, tmp_path):
    evil = "al\033[2Jpha\n"
    change = move_at("failed", vm=evil, cause=evil, to=evil, vm_on="target", steps=[
        {**step, "verb": evil, "asked": evil, "answer": evil} for step in steps_of_a_failure()])
    with Relay(str(tmp_path / "relay"), server, change) as relay:
        run(server, "migrate", "alpha", "--to", "host-b")
        done = run(relay, "migration", "watch", FIRST, code=1)
        show = run(relay, "migration", "show", FIRST)
        with terminal(relay, "migration", "watch", FIRST) as screen:
            assert screen.end() == 1
            raw = screen.raw
    assert "\033" not in done.stdout + done.stderr + show.stdout and b"\033[2J" not in raw


def test_timeout_is_6_and_the_move_goes_on(server, tmp_path):
    with Relay(str(tmp_path / "relay"), server, move_at("migrating")) as relay:
        err = run(relay, "migrate", "alpha", "--to", "host-b", "--wait", "--timeout=1",
                  code=6).stderr
    assert "it is still running after 1 s; the move continues (migrating)" in err
    assert f"`vgpuctl migration watch {FIRST}`" in err
    assert f"`vgpuctl migration abort {FIRST}`" in err
    assert read(server, "migration", "list", "--active") != []


@pytest.mark.smoke
def test_interrupting_ends_the_watching_only(server, tmp_path):
    with Relay(str(tmp_path / "relay"), server, move_at("migrating")) as relay:
        with subprocess.Popen([vgpuctl.program(), "migrate", "alpha", "--to", "host-b", "--wait",
                               "--socket", relay.path], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as process:
            wait_for(lambda: len(relay.seen) >= 3)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=HANG_S)
        assert process.returncode == -signal.SIGINT
        assert "no longer watching; the move continues" in err
        assert f"`vgpuctl migration abort {FIRST}` cancels it" in err
        with terminal(relay, "migration", "watch", FIRST) as screen:
            screen.wait(FIRST)
            screen.press("\003")
            assert screen.end() == -signal.SIGINT
            assert "no longer watching" in screen.screen.text()
        assert not any("abort" in path for _, path, _, _ in relay.seen)


# ---- migration ----

@pytest.mark.smoke
def test_list_and_show(server):
    assert run(server, "migration", "list").stdout == "vgpud has not moved any VMs\n"
    make_done(server)
    assert run(server, "migration", "list", "--active").stdout == "no VM is being moved\n"
    run(server, "migrate", "alpha", "--to", "host-c")
    items = read(server, "migration", "list")
    assert [item["to"] for item in items] == ["host-c", "host-b"]
    assert [item["to"] for item in read(server, "migration", "list", "--active")] == ["host-c"]
    table = run(server, "migration", "list").stdout.splitlines()
    assert table[1].split() == ["move-0000000000000002", "alpha", "test-host", "host-c", "pending",
                                "2026-11-20", "18:40:00"]
    assert max(map(len, table)) <= 80
    show = run(server, "migration", "show", FIRST).stdout
    for line in (f"{FIRST}: done", f"VM:            alpha ({UUID})",
                 "from, to:      test-host, host-b",
                 "ended:         2026-11-20T18:40:09Z, after 9.0 s",
                 "now:           alpha is on host-b and has its GPUs",
                 "paused:        5.0 s (programs that use a GPU)",
                 "downtime:      80 ms, measured by libvirt",
                 "copied:        768 MiB for 1.00 GiB of memory, 2 iterations, 1.0 s",
                 "ua-gpu0        named standin",
                 "      5.0 s      1.0 s   migrate  alpha: migrate"):
        assert line in show.splitlines(), show
    assert read(server, "migration", "show", FIRST)["steps"][0]["verb"] == "precheck"
    run(server, "migration", "show", "move-none", code=3)


def test_show_tells_what_the_guest_saw(server, tmp_path):
    make_done(server)
    change = move_at("done", guest_pause_ns=120000000, plan_id="plan-1", undo_of="move-9",
                     devices=[{"kind": "mdev", "type": "nvidia-63", "alias": "ua-gpu0",
                               "guest_address": "0000:01:00.0", "source_address": "s",
                               "target_address": "t"}])
    with Relay(str(tmp_path / "relay"), server, change) as relay:
        show = run(relay, "migration", "show", FIRST).stdout
    assert "longest pause: 120 ms, measured in the guest\n" in show
    assert "plan:          plan-1\ntakes back:    move-9\n" in show
    assert "ua-gpu0        mdev nvidia-63; in the guest 0000:01:00.0; on test-host s; on" in show


@pytest.mark.smoke
def test_abort(server):
    run(server, "migrate", "alpha", "--to", "host-b")
    done = run(server, "migration", "abort", FIRST)
    assert f"{FIRST}: is being cancelled; vgpud undoes its steps, unless the VM has switched hosts by then\n" in done.stdout
    done = run(server, "migration", "abort", FIRST, "--wait")
    assert " ".join(done.stdout.splitlines()[-2:]) == \
        "Aborted after 2.0 s: alpha is on test-host and has its GPUs; GPU programs were paused for 1.0 s."
    done = run(server, "migration", "abort", FIRST, code=5)
    assert "too late" in done.stderr
    run(server, "migration", "abort", "move-none", code=3)


def test_watch_of_one_that_has_been_aborted_is_1(server):
    run(server, "migrate", "alpha", "--to", "host-b")
    run(server, "migration", "abort", FIRST, "--wait")
    done = run(server, "migration", "watch", FIRST, code=1)
    assert "Rolling back" in done.stdout and "aborted" in done.stderr


@pytest.mark.smoke
def test_retry(server, tmp_path):
    """What has failed begins again, at the vgpud that runs it, and is followed to a good end."""
    run(server, "migrate", "alpha", "--to", "host-b")
    assert "the move has not failed" in run(server, "migration", "retry", FIRST, code=5).stderr
    run(server, "migration", "abort", FIRST, "--wait")
    with Relay(str(tmp_path / "relay"), server) as relay:
        done = run(relay, "migration", "retry", FIRST, "--peer", "host c")
        (path, body, _), = relay.posts()
    assert (path, body) == (f"/v1/migrations/{FIRST}/retry?peer=host%20c", {})
    assert done.stdout.splitlines() == [
        f"{FIRST}: continues with the step that failed",
        f"to watch it:      vgpuctl migration watch {FIRST} --peer='host c'"]
    run(server, "migration", "abort", FIRST, "--wait")
    done = run(server, "migration", "retry", FIRST, "--wait")
    assert "Done after" in done.stdout and done.stderr == ""
    assert "retried:       2 times, last by " in run(server, "migration", "show", FIRST).stdout
    run(server, "migration", "retry", "move-none", code=3)


@pytest.mark.parametrize("state, code", [("rolled_back", 0), ("failed", 1)])
def test_retry_is_0_where_the_vm_has_its_gpus(server, tmp_path, state, code):
    run(server, "migrate", "alpha", "--to", "host-b")
    run(server, "migration", "abort", FIRST, "--wait")
    with Relay(str(tmp_path / "relay"), server, move_at(state)) as relay:
        run(relay, "migration", "retry", FIRST, "--wait", code=code)


def test_undo_of_a_failed_move_whose_vm_has_arrived(server, tmp_path):
    """The guest did not take its GPUs up: the VM can go back. One without its GPUs cannot."""
    run(server, "migrate", "alpha", "--to", "host-b")
    for vm_on, gpu in (("target", "detached"), ("source", "attached"), ("nowhere", "unknown")):
        with Relay(str(tmp_path / "relay"), server, move_at("failed", vm_on=vm_on, gpu=gpu)) as relay:
            run(relay, "migration", "undo", FIRST, code=4)
            assert relay.posts() == []
    change = move_at("failed", vm_on="target", gpu="attached", vm="alpha", uuid="alpha")
    with Relay(str(tmp_path / "relay"), server, change) as relay:
        run(relay, "migration", "undo", FIRST)
        (_, body, _), = relay.posts()
    assert body == {"vm": "alpha", "to": "test-host", "forward": True, "undo_of": FIRST}


RUNNING = {"total_bytes": 1 << 30, "remaining_bytes": 3 << 28, "bytes_per_s": 64 << 20, "eta_ns": 12 * 10**9,
           "downtime_ns": 0}


@pytest.mark.smoke
def test_how_far_a_move_is(server, tmp_path):
    """In the list, and in what is shown of one: bytes, per cent, the rest; and for how long programs with a
    GPU have stood still."""
    run(server, "migrate", "alpha", "--to", "host-b")

    def change(method, path, answer):
        status, headers, document = answer
        now = {"state": "migrating", "step": "migrate", "progress": RUNNING, "standstill_began_ns": 1795200000 * 10**9}
        if path == "/v1/migrations":
            return status, headers, {**document, "items": [{**item, **now} for item in document["items"]]}
        return status, headers, {**document, **now, "steps": []}
    with Relay(str(tmp_path / "relay"), server, change) as relay:
        listed = run(relay, "migration", "list").stdout.splitlines()
        assert " migrating: 256 MiB of 1.00 GiB (25 %), 64 MiB/s, ETA 12.0 s " in listed[1]
        shown = run(relay, "migration", "show", FIRST).stdout
    assert "copying:       256 MiB of 1.00 GiB (25 %), 64 MiB/s, ETA 12.0 s\n" in shown
    assert "paused:        since 2026-11-20T18:40:00Z (programs that use a GPU)\n" in shown, shown
    run(server, "migration", "watch", FIRST)
    shown = run(server, "migration", "show", FIRST).stdout
    assert shown.index("paused:        5.0 s (programs that use a GPU)\n") < shown.index("downtime:      80 ms,")
    assert " 5.0 s " in run(server, "migration", "list", "-o", "wide").stdout


def test_a_downtime_that_is_longer_than_was_wanted(server, tmp_path):
    make_done(server)
    change = move_at("done", downtime_limit_ns=50000000)
    with Relay(str(tmp_path / "relay"), server, change) as relay:
        for told in (run(relay, "migration", "watch", FIRST), run(relay, "migration", "show", FIRST)):
            assert "80 ms, the target was 50 ms" in " ".join(told.stdout.split())


def test_a_move_that_waits(server, tmp_path):
    run(server, "migrate", "alpha", "--to", "host-b")
    waits = {"waits_for": "libvirtd of 'host-b': no route", "waits_since_ns": 1795200000 * 10**9}
    looks = []

    def change(method, path, answer):
        status, headers, document = answer
        looks.append(path)
        if method == "GET" and len(looks) < 4:
            document = {**document, **waits}
            if "items" in document:
                document["items"] = [{**item, **waits} for item in document["items"]]
        return status, headers, document
    with Relay(str(tmp_path / "relay"), server, change) as relay:
        assert "waits for libvirtd of 'host-b': no route" in run(relay, "migration", "list").stdout
        told = run(relay, "migration", "watch", FIRST).stdout
    assert "has waited since 2026-11-20T18:40:00Z for libvirtd of 'host-b': no route\n" in told and "Done after" in told


def test_undo(server, tmp_path):
    run(server, "migrate", "alpha", "--to", "host-c")
    assert "a move can be undone only if " in run(server, "migration", "undo", FIRST, code=4).stderr
    make_done(server)

    with Relay(str(tmp_path / "relay"), server, lambda method, path, answer: answer) as relay:
        done = run(relay, "migration", "undo", FIRST, "--wait")
        assert "Done after 9.0 s: alpha is on test-host" in done.stdout
        (_, body, head), = relay.posts()
    assert body == {"vm": UUID, "to": "test-host", "forward": True, "undo_of": FIRST}
    assert len(head["Idempotency-Key"]) == 36


# ---- plan undo ----

def worse(plan, **more):
    """The finished move is one of a plan, and made things worse."""
    def change(_method, path, answer):
        status, headers, document = answer
        if path.startswith("/v1/plans/"):
            return 200, headers, {"id": plan}
        if path.startswith("/v1/cluster/migrations"):
            (item,) = [item for item in document["items"] if item["id"] == FIRST]
            item.update(plan_id=plan, verdict={**item["verdict"], "result": "worse", "why": "it is crowded"})
            document["items"] = [item] + ([{**item, "id": "move-other", **more}] if more else [])
        return status, headers, document
    return change


def test_plan_undo(server, tmp_path):
    plan = "plan-0123456789abcdef"
    run(server, "migrate", "alpha", "--to", "host-c")
    make_done(server)
    listed = f"{FIRST}: move alpha from host-c back to test-host: it is crowded\n"
    with Relay(str(tmp_path / "relay"), server, worse(plan)) as relay:
        done = run(relay, "plan", "undo", "plan-other", "--yes")
        assert done.stdout == "none of the moves of plan-other is known to have made things worse\n"
        assert listed in run(relay, "plan", "undo", plan, "--dry-run").stdout
        assert [body.get("dry_run") for _, body, _ in relay.posts()] == [True]
        done = run(relay, "plan", "undo", plan, "--yes")
        assert listed in done.stdout and "alpha is on test-host" in done.stdout
        _, body, head = relay.posts()[-1]
        assert body == {"vm": UUID, "to": "test-host", "forward": True, "undo_of": FIRST}
        assert head["Idempotency-Key"] == "undo/" + FIRST


@pytest.mark.parametrize("more, why", [
    ({"state": "pending", "ended_ns": None}, "the VM is being moved"),
    ({"undo_of": "move-before", "made_ns": int(time.time() * 1e9) - 10**9}, "undone within the last day")])
def test_plan_undo_leaves_a_vm_alone(server, tmp_path, more, why):
    run(server, "migrate", "alpha", "--to", "host-c")
    make_done(server)
    with Relay(str(tmp_path / "relay"), server, worse("plan-1", plan_id=None, **more)) as relay:
        done = run(relay, "plan", "undo", "plan-1", "--yes")
        assert "leave alpha" in done.stdout and why in done.stdout and relay.posts() == []


# ---- plan apply ----

@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    """One of the demonstration, of two moves that the server can make."""
    example = os.path.join(ROOT, "data", "demo", "gpu-host.snapshot.json")
    trace = os.path.join(ROOT, "data", "demo", "inner-host-3vms", "lttng-kernel")
    path = tmp_path_factory.mktemp("plan") / "host.json"
    subprocess.run([vgpuctl.program(), "analyze", trace, "--vm-map",
                    os.path.join(ROOT, "data", "demo", "vm-map.txt"), "--host", "demo-host",
                    "--snapshot", str(path)], check=True, capture_output=True, timeout=HANG_S)
    made = subprocess.run([vgpuctl.program(), "placement", "--dry-run", "--state", str(path),
                           "--state", example, "-o", "json"], check=True, capture_output=True,
                          timeout=HANG_S)
    document = json.loads(made.stdout)
    action = {**document["actions"][0], "vm": "alpha", "uuid": None, "from": "test-host"}
    document["actions"] = [{**action, "to": "host-b"}, {**action, "to": "host-c"}]
    return document


def with_plan(plan, then=None):
    def change(method, path, answer):
        if path.startswith("/v1/plans/"):
            return 200, {}, plan
        return then(method, path, answer) if then else answer
    return change


@pytest.mark.smoke
def test_apply_makes_one_move_after_the_other(server, tmp_path, plan):
    with Relay(str(tmp_path / "relay"), server, with_plan(plan)) as relay:
        done = run(relay, "plan", "apply", plan["id"], "--yes")
        posts = relay.posts()
    assert [body for _, body, _ in posts] == [
        {"vm": "alpha", "to": to, "forward": True, "plan_id": plan["id"],
         "plan_hash": plan["input_hash"]} for to in ("host-b", "host-c")]
    assert [head["Idempotency-Key"] for _, _, head in posts] == [
        f"{plan['id']}/1", f"{plan['id']}/2"]
    assert done.stdout.count("Done after 9.0 s") == 2 and done.stderr == ""
    assert "\nMove 2 of 2\nmove-0000000000000002: alpha from test-host to host-c\n" in done.stdout
    assert [line.split()[3] for line in done.stdout.splitlines()[-2:]] == ["done", "done"]
    # The second begins when the first has ended.
    order = [(method, path) for method, path, _, _ in relay.seen]
    second = len(order) - 1 - order[::-1].index(("POST", "/v1/migrations"))
    assert order[second - 1] == ("GET", f"/v1/migrations/{FIRST}")


def test_apply_stops_at_the_first_that_is_not_done(server, tmp_path, plan):
    change = with_plan(plan, move_at("rolled_back", vm_on="source", cause="no room"))
    with Relay(str(tmp_path / "relay"), server, change) as relay:
        done = run(relay, "plan", "apply", plan["id"], "--yes", "-o", "json", code=1)
        assert len(relay.posts()) == 1
    document = json.loads(done.stdout)
    assert [entry["result"] for entry in document["actions"]] == ["rolled_back", "not-begun"]
    assert "no room" in document["actions"][0]["error"] and document["actions"][1]["move"] is None
    assert "move 1 of 2 (alpha to host-b): " in done.stderr and "no room" in done.stderr


def test_apply_of_what_is_refused(server, tmp_path, plan):
    full = {**plan, "actions": [plan["actions"][0], {**plan["actions"][1], "to": "full"},
                                plan["actions"][1]]}
    with Relay(str(tmp_path / "relay"), server, with_plan(full)) as relay:
        done = run(relay, "plan", "apply", plan["id"], "--yes", code=5)
        rows = [line.split()[3] for line in done.stdout.splitlines()[-3:]]
        assert rows == ["done", "refused", "not-begun"]
        assert "move 2 of 3 (alpha to full): host 'full' has no GPU left" in done.stderr
        done = run(relay, "plan", "apply", plan["id"], "--dry-run", code=4)
        assert done.stdout.count("No obstacles found") == 2
        document = read(relay, "plan", "apply", plan["id"], "--dry-run", code=4)
        assert [entry["result"] for entry in document["actions"]] == [
            "possible", "impossible", "possible"]
        assert document["actions"][1]["move"]["problems"] == ["host 'full' has no GPU left"]
        assert all(body.get("dry_run") for _, body, _ in relay.posts()[2:])


def test_apply_asks_on_a_terminal(server, tmp_path, plan):
    with Relay(str(tmp_path / "relay"), server, with_plan(plan)) as relay:
        for answer, code in (("n", 1), ("", 1), ("yes", 0)):
            with terminal(relay, "plan", "apply", plan["id"]) as screen:
                screen.wait(f"Carry out {plan['id']}: 2 moves? [y/N]")
                assert len(relay.posts()) == 0
                screen.press(answer + "\n")
                assert screen.end() == code
                assert ("nothing was done" in screen.screen.text()) == (code == 1)
        assert len(relay.posts()) == 2


def test_apply_again_goes_on_where_it_stopped(server, tmp_path, plan):
    """A server that knows the first key has answered it with a move that is done."""
    make_done(server)
    known = server.get(f"/v1/migrations/{FIRST}").json()

    def change(method, path, answer):
        if method == "POST" and not change.asked:
            change.asked = True
            return 200, {"Location": f"/v1/migrations/{FIRST}"}, known
        return answer
    change.asked = False
    with Relay(str(tmp_path / "relay"), server, with_plan(plan, change)) as relay:
        done = run(relay, "plan", "apply", plan["id"], "--yes")
    assert "This move was already made, when the plan was applied before:" in done.stdout
    assert done.stdout.count("Done after 9.0 s") == 2


def test_interrupting_an_apply_says_what_was_not_begun(server, tmp_path, plan):
    change = with_plan(plan, move_at("migrating"))
    with Relay(str(tmp_path / "relay"), server, change) as relay:
        with subprocess.Popen([vgpuctl.program(), "plan", "apply", plan["id"], "--yes", "--socket",
                               relay.path], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) as process:
            wait_for(lambda: len(relay.seen) >= 4)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=HANG_S)
        assert len(relay.posts()) == 1
    assert process.returncode == -signal.SIGINT
    assert [line.split()[3] for line in out.splitlines()[-2:]] == ["migrating", "not-begun"]
    assert "the move continues" in err


def test_migrate_as_part_of_a_plan(server, tmp_path, plan):
    with Relay(str(tmp_path / "relay"), server, with_plan(plan)) as relay:
        run(relay, "migrate", "alpha", "--to", "host-b", "--plan", plan["id"])
        (_, body, _), = relay.posts()
    assert (body["plan_id"], body["plan_hash"]) == (plan["id"], plan["input_hash"])
    run(server, "migrate", "alpha", "--to", "host-b", "--plan", "plan-0000000000000000", code=3)


def test_a_plan_without_moves(server):
    made = server.post("/v1/plans", {"dry_run": True}).json()
    done = run(server, "plan", "apply", made["id"], "--yes")
    assert "nothing to do" in done.stdout and done.stderr == ""
    assert read(server, "plan", "apply", made["id"], "--yes")["actions"] == []
    run(server, "plan", "apply", "plan-0000000000000000", "--yes", code=3)


PROGRAMS = {"doing": None, "total": 2, "gpu_bytes": 1796 << 20, "forked": 4, "forked_descriptors": 124,
            "forked_maps": 1, "programs": [
    {"pid": 153, "comm": "python3", "state": "running", "why": None, "gpu_bytes": 1612 << 20,
     "lock_ns": 40000000, "checkpoint_ns": 900000000, "restore_ns": 500000000, "unlock_ns": 10000000,
     "stop_ns": 4200000000, "held_threads": 2},
    {"pid": 171, "comm": "solver", "state": "failed", "why": "cannot be restored: CUDA_ERROR_OUT_OF_MEMORY (2)",
     "gpu_bytes": 184 << 20, "lock_ns": 0, "checkpoint_ns": 100000000, "restore_ns": 0, "unlock_ns": 0,
     "stop_ns": 0}]}


def test_programs_of_the_guest(server, tmp_path):
    """What was stopped, how long, and what became of it."""
    make_done(server)
    with Relay(str(tmp_path / "relay"), server, move_at("done", guest=PROGRAMS)) as relay:
        lines = run(relay, "migration", "show", FIRST).stdout.splitlines()
        at = lines.index("Programs in the guest that use a GPU, by pid")
        assert lines[at + 1:at + 8] == [
            "153            python3: running; 1.57 GiB of GPU memory; was paused for 4.2 s;",
            "               released in 940 ms (1.75 GiB/s); brought back in 510 ms (3.15",
            "               GiB/s); 2 threads that faulted were held",
            "171            solver: failed; 184 MiB of GPU memory; released in 100 ms (1.80",
            "               GiB/s); cannot be restored: CUDA_ERROR_OUT_OF_MEMORY (2)",
            "and 4 forked children with 124 descriptors and 1 mapping of the GPUs inherited from them",
            ""]
        told = run(relay, "migration", "watch", FIRST).stdout
        assert "quiesce          1.0 s  2 programs, 1.75 GiB of GPU memory\n" in told, told


def test_what_the_guest_is_at(server, tmp_path):
    """Below the bar of the step that waits for it."""
    doing = "in the guest: checkpoint of process 153 (python3), 1612 MiB"

    def change(method, path, answer):
        status, headers, document = answer
        if method == "GET" and "/v1/migrations/" in path:
            document = {**document, "guest": {**PROGRAMS, "doing": doing}}
        return status, headers, document
    with Relay(str(tmp_path / "relay"), server, change) as relay:
        with terminal(relay, "migrate", "alpha", "--to", "host-b", "--wait") as screen:
            screen.wait(lambda now: any(line.strip() == doing for line in now.lines()))
            assert screen.end() == 0


def test_can_it_be_moved(server):
    """The last lines of `vm show`; a member of its document."""
    shown = run(server, "vm", "show", "alpha").stdout.splitlines()
    at = shown.index("movable: yes")
    assert shown[at + 1:at + 4] == [
        "- in the guest, NVIDIA's driver 570.10: warn: it fails (source)",
        "in the guest: 1 program with 1.57 GiB of GPU memory",
        "1 forked child with 31 descriptors and 30 mappings of the GPUs inherited from them, which they release"]
    shown = run(server, "vm", "show", "beta").stdout.splitlines()
    at = shown.index("movable: no, because")
    assert shown[at + 1:at + 4] == [
        "- the guest cannot release its GPUs now: 153 (python3): it uses the GPU without",
        "  CUDA", "- 'beta' has 2 snapshots"]
    assert read(server, "vm", "show", "beta")["movable"]["movable"] == "no"
