# SPDX-License-Identifier: Apache-2.0
"""Streams and polls of events: order, resume, gaps, limits, heartbeats, the end."""
import json
import os
import signal
import threading
import time

import pytest
from unixhttp import wait_for

BOOT = "0b7e2d1c-55aa-4c3e-9d54-2f1f6a3c9e01"
OTHER_BOOT = "1b7e2d1c-55aa-4c3e-9d54-2f1f6a3c9e01"


def last(seq, boot=BOOT):
    return {"Last-Event-ID": f"{boot}-{seq}"}


def test_from_now(start):
    server = start("--events", 3)
    stream = server.stream()
    assert stream.status == 200
    assert stream.response.headers["Content-Type"] == "text/event-stream"
    assert stream.next() == {"": "connected"}
    server.event()
    event = stream.next_event()
    assert event["id"] == BOOT + "-4"
    data = json.loads(event["data"])
    assert (data["seq"], data["type"], event["event"]) == (4, "vm", "vm")
    stream.close()


@pytest.mark.smoke
def test_order_and_resume(start):
    server = start("--events", 10)
    stream = server.stream(last(4))
    got = [stream.next_event()["id"] for _ in range(6)]
    assert got == [f"{BOOT}-{n}" for n in range(5, 11)]
    server.event()
    assert stream.next_event()["id"] == BOOT + "-11"
    stream.close()


def test_types(start):
    server = start("--events", 9)
    stream = server.stream(last(0), "?types=vm,plan")
    assert [stream.next_event()["id"] for _ in range(2)] == [BOOT + "-4", BOOT + "-8"]
    stream.close()
    answer = server.get("/v1/events?after=0&types=vm").json()
    assert [e["seq"] for e in answer["items"]] == [4, 8]
    assert answer["next"] == 9


def test_gap_after_overrun(start):
    server = start("--events", 4196)
    stream = server.stream(last(1))
    gap = stream.next_event()
    assert (gap["event"], gap["id"]) == ("gap", BOOT + "-100")
    assert json.loads(gap["data"]) == {"reason": "overrun", "lost": 99}
    assert stream.next_event()["id"] == BOOT + "-101"
    stream.close()
    answer = server.get("/v1/events?after=1").json()
    assert (answer["lost"], answer["items"][0]["seq"], len(answer["items"])) == (99, 101, 1000)
    assert answer["next"] == 1100


@pytest.mark.parametrize("header, reason", [
    (f"{OTHER_BOOT}-2", "restart"), ("x", "invalid"), (f"{BOOT}-", "invalid"),
    (f"{BOOT}-1x", "invalid"), (f"{BOOT}-7", "invalid"), ("7", "invalid"), ("-7", "invalid"),
    (f"{BOOT}-99999999999999999999", "invalid")])
def test_gap_of_a_foreign_id(start, header, reason):
    server = start("--events", 6)
    stream = server.stream({"Last-Event-ID": header})
    gap = stream.next_event()
    # All of this run is news for who comes from another one.
    newest = 0 if reason == "restart" else 6
    assert (gap["event"], gap["id"]) == ("gap", f"{BOOT}-{newest}")
    assert json.loads(gap["data"]) == {"reason": reason, "lost": None}
    server.event()
    for seq in range(newest + 1, 8):
        assert stream.next_event()["id"] == f"{BOOT}-{seq}"
    stream.close()


def test_heartbeat(start):
    server = start("--heartbeat-ms", 500)
    stream = server.stream()
    assert stream.next() == {"": "connected"}
    begin = time.monotonic()
    assert [stream.next() for _ in range(3)] == [{"": "alive"}] * 3
    # The first one may be on its way already.
    assert time.monotonic() - begin > 0.9
    stream.close()


def test_limit(start):
    server = start("--streams", 2)
    streams = [server.stream(), server.stream()]
    assert [s.status for s in streams] == [200, 200]
    for query in ("", "?after=0&wait=5"):
        answer = server.get("/v1/events" + query)
        assert (answer.status, answer.json()["code"]) == (503, "busy")
        assert int(answer.headers["Retry-After"]) >= 1
    assert server.request("HEAD", "/v1/events").status == 200
    streams[0].close()

    def another():
        # Who is gone is noticed when something is written to it.
        server.process.send_signal(signal.SIGUSR1)
        stream = server.stream()
        return stream.status == 200 and stream
    for stream in (streams[1], wait_for(another)):
        stream.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_one_user_leaves_streams_to_others(start, monkeypatch):
    server = start("--streams", 8, "--client-streams", 3)
    mine = [server.stream() for _ in range(3)]
    assert [s.status for s in mine] == [200] * 3
    refused = server.get("/v1/events")
    assert refused.status == 503 and "'uid:0' has 3 event streams" in refused.json()["detail"]
    assert int(refused.headers["Retry-After"]) >= 1
    assert server.get("/v1/events?after=0").status == 503
    # The directories above are root's alone.
    folder, name = os.path.split(server.path)
    os.chmod(folder, 0o711)
    os.chmod(server.path, 0o666)
    monkeypatch.chdir(folder)
    with monkeypatch.context() as patch:
        patch.setattr(server, "path", name)
        os.seteuid(65534)
        try:
            other = server.stream()
        finally:
            os.seteuid(0)
    assert other.status == 200
    for stream in (*mine, other):
        stream.close()


def test_poll_waits(start):
    server = start("--events", 2)
    assert server.get("/v1/events?after=2").json()["items"] == []
    begin = time.monotonic()
    answer = server.get("/v1/events?after=2&wait=1").json()
    assert (answer["items"], answer["next"]) == ([], 2)
    assert time.monotonic() - begin > 0.9
    timer = threading.Timer(0.3, server.event)
    timer.start()
    begin = time.monotonic()
    answer = server.get("/v1/events?after=2&wait=60").json()
    assert [e["seq"] for e in answer["items"]] == [3]
    assert time.monotonic() - begin < 60
    timer.join()


def test_poll_waits_for_its_types(start):
    server = start("--events", 0)

    def three():
        for _ in range(4):
            server.event()
    thread = threading.Thread(target=three)
    thread.start()
    answer = server.get("/v1/events?after=0&wait=60&types=vm").json()
    assert [e["seq"] for e in answer["items"]] == [4]
    thread.join()


def test_poll_of_another_run(start):
    server = start("--events", 2)
    begin = time.monotonic()
    answer = server.get("/v1/events?after=3&wait=60").json()
    assert (answer["reset"], answer["next"], answer["items"]) == (True, 2, [])
    assert time.monotonic() - begin < 60


def test_all_arrive(start):
    # 4096 are kept: who does not come for 80 s misses some.
    server = start("--event-ms", 20, "--streams", 16)
    streams = [server.stream(last(0)) for _ in range(8)]
    counts = []

    def read(stream):
        counts.append([int(stream.next_event()["id"].rsplit("-", 1)[1]) for _ in range(100)])
    threads = [threading.Thread(target=read, args=(s,)) for s in streams]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(c == list(range(1, 101)) for c in counts)
    for stream in streams:
        stream.close()


def test_end(start):
    server = start("--streams", 8)
    streams = [server.stream() for _ in range(3)]
    answers = []
    poll = threading.Thread(target=lambda: answers.append(server.get("/v1/events?after=0&wait=60")))
    poll.start()
    wait_for(lambda: b"\nvgpud_http_streams 4\n" in server.get("/metrics").body)
    begin = time.monotonic()
    server.stop()
    assert time.monotonic() - begin < 60
    for stream in streams:
        assert stream.next() == {"": "connected"}
        assert stream.next() is None
        stream.close()
    poll.join()
    assert answers[0].json()["items"] == []
