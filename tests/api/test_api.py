# SPDX-License-Identifier: Apache-2.0
"""HTTP itself: methods, limits, framing, conditional requests, permissions, clients that go away."""
import os
import re
import select
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time

import pytest
from settings import HANG_S
from unixhttp import Server, build_dir, read_all, wait_for

REQUEST_ID = re.compile(r"req-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
PLAN = {"dry_run": True}


def problem(answer, status, code):
    assert answer.status == status, answer.body
    assert answer.type == "application/problem+json"
    document = answer.json()
    assert document["status"] == status
    assert document["code"] == code
    assert document["type"] == "urn:vgpud:error:" + code
    assert document["request_id"] == answer.headers["X-Request-Id"]
    return document["detail"]


def metric(server, name):
    text = server.get("/metrics").body.decode()
    return float(re.search(rf"^{name} (\S+)$", text, re.M)[1])


def status_of(reply):
    """Of bytes; None: closed without a word."""
    return int(reply.split()[1]) if reply else None


def test_methods(server):
    for path, allow in (("/v1/vms", "GET, HEAD, OPTIONS"),
                        ("/v1/plans", "GET, HEAD, POST, OPTIONS")):
        answer = server.request("OPTIONS", path)
        assert (answer.status, answer.body, answer.headers["Allow"]) == (204, b"", allow)
        for method in ("PUT", "DELETE", "PATCH", "TRACE", "get", "X"):
            answer = server.request(method, path)
            problem(answer, 405, "method-not-allowed")
            assert answer.headers["Allow"] == allow
    problem(server.post("/v1/vms", PLAN), 405, "method-not-allowed")
    problem(server.request("OPTIONS", "/nothing"), 404, "not-found")


@pytest.mark.parametrize("without, there, paths", [
    ("plans", "/v1/migrations", ["/v1/plans", "/v1/plans/x", "/v1/nova/approvals"]),
    ("moves", "/v1/plans", ["/v1/migrations", "/v1/migrations/x", "/v1/reservations",
                            "/v1/vms/alpha/movable"])])
def test_parts_that_are_not_offered(start, without, there, paths):
    server = start("--without", without)
    for path in paths:
        assert "does not offer" in problem(server.get(path), 501, "not-offered")
        assert server.request("OPTIONS", path).status == 204
    assert server.get(there).status == 200
    assert server.get("/v1/snapshot").status == 200
    labels = 'route="' + paths[0] + '",method="GET",code="501"'
    assert metric(server, "vgpud_http_requests_total{" + labels + "}") == 1


@pytest.mark.parametrize("url", [
    "/nothing", "/v1/", "/v1//", "//", "/v1/vms/", "/v1/vms//samples", "/v1/vms/a/b",
    "/v1/vms/nobody", "/v1/vms/nobody/samples", "/v1/plans/plan-0000000000000000", "/v1/plans/x",
    "/V1/vms", "/v1/vms/alpha/samples/", "/v1/../v1/vms", "/v2", "/v1/preemptions?vm=nobody",
    "/v1/vms/nobody/gpu", "/v1/vms/alpha/gpu/", "/v1/gpus/", "/v1/gpus/card0", "/v1/gpus/0000:41:00",
    "/v1/gpus/gpu/%22x%22%20%c3%a4", "/v1/gpus/card0/requests", "/v1/gpus//requests",
    "/v1/gpus/..", "/v1/gpus/%2e%2e%2fvms", "/v1/gpus/%250a", "/v1/gpus/" + "%c3%a4" * 255,
    "/v1/gpus/0000:41:00.0/requests/", "/v1/gpus/0000:41:00.0/requests?vm=nobody"])
def test_unknown_paths(server, url):
    answer = server.get(url)
    if url == "/v1/":
        assert answer.status == 200
    else:
        problem(answer, 404, "not-found")


@pytest.mark.parametrize("url", ["/v1/vms/%00", "/v1/vms/a%00b", "/v1/vms/%zz", "/v1/vms/%f",
                                 "/v1/vms/%", "/v1/vms/%ff", "/v1/vms/%c0%af",
                                 "/v1/vms/" + "a" * 256, "/v1/vms/" + "%c3%a4" * 256, "/v1/vms?sort=na%00me",
                                 "/v1/vms?limit=1&limit=1", "/v1/vms?limit", "/v1/vms?limit=1&",
                                 "/healthz?a=1", "/v1/events?wait=1", "/v1/vms?marker=!!",
                                 "/v1/vms?marker=YQ", "/v1/plans?marker=YWJj",
                                 "/v1/vms/alpha/samples?since=now&until=-1h",
                                 "/v1/vms/alpha/samples?since=-7d&step=1s",
                                 "/v1/vms/alpha/samples?step=0s",
                                 "/v1/vms/alpha/samples?step=367d&since=-53000d",
                                 "/v1/vms/alpha/samples?since=4611686018.5",
                                 "/v1/vms/alpha/samples?since=-4611686018.999999999&step=1s",
                                 "/v1/vms/alpha/samples?source=" + "%c3%a4" * 256,
                                 "/v1/plans?marker=" + "cGxhbnMKMDAw" + "MDAw" * 600,
                                 "/v1/plans?marker=cGxhbnMKICs5OQ",        # plans, " +99"
                                 "/v1/plans?marker=cGxhbnMKOTk5OTk5OTk5OTk5OTk5OTk5OTk5",
                                 "/v1/vms?marker=MApuYW4KMQphYg",          # 0, nan, 1, ab
                                 "/v1/vms?marker=MAoweDEwCjEKYWI",         # 0, 0x10, 1, ab
                                 "/v1/vms?marker=MAoxCjMKYWI",             # 0, 1, 3, ab
                                 "/v1/gpus/%00", "/v1/gpus/%ff/requests", "/v1/gpus/" + "a" * 256,
                                 "/v1/gpus/card0/requests?since=1795200000.5",
                                 "/v1/gpus/card0/requests?since=now", "/v1/gpus?limit=0",
                                 "/v1/gpus/card0/requests?since=2&until=1",
                                 "/v1/gpus/card0/requests?since=4611686018427387905",
                                 "/v1/gpus/card0/requests?since=-53376d",
                                 "/v1/gpus/card0/requests?since=-1s&until=-2s",
                                 "/v1/gpus/card0/requests?since=1&since=1",
                                 "/v1/gpus/card0/requests?limit=10001",
                                 "/v1/gpus/card0/requests?vm=" + "%c3%a4" * 256,
                                 "/v1/gpus/0000:41:00.0?since=1", "/v1/vms/alpha/gpu?limit=1",
                                 "/v1/gpus?marker=YWJj",                   # abc
                                 "/v1/events?after=4611686018427387905",
                                 "/v1/events?after=99999999999999999999"])
def test_refused_urls(server, url):
    problem(server.get(url), 400, "invalid")


def test_names_are_decoded(server):
    answer = server.get("/v1/vms/gamma%2F%22x%22%20%c3%A4")
    assert answer.json()["name"] == 'gamma/"x" \u00e4'
    assert server.get("/v1/vms/%61lpha").json()["name"] == "alpha"
    assert server.get("/v1/vm%73/%61lpha?x=1").status == 400
    assert server.get("/%761/v%6ds").json() == server.get("/v1/vms").json()
    assert server.get("/v1/vms/" + "%c3%a4" * 255).status == 404
    assert server.get("/v1%2fvms").status == 404


def test_a_name_with_line_feeds_can_be_asked_for(start):
    server = start("--vms", 4)
    name = "del\nta\n2"
    assert name in [vm["id"] for vm in server.get("/v1/vms").json()["items"]]
    assert server.get("/v1/vms/del%0Ata%0a2").json()["name"] == name
    assert server.get("/v1/vms/del%0Ata%0a2/samples").status == 200
    victims = {p["victim"]["id"] for p in server.get("/v1/preemptions?vm=del%0Ata%0a2").json()["items"]}
    assert victims == {name}


def test_events_may_be_asked_for_after_any_number(server):
    for after in (10 ** 18, 2 ** 62 - 1, 2 ** 62):
        assert server.get(f"/v1/events?after={after}").json()["reset"] is True


def test_pages(start):
    server = start("--vms", 25)
    for sort in ("name", "lost", "cpu", "gpu"):
        whole = [vm["id"] for vm in server.get("/v1/vms?sort=" + sort).json()["items"]]
        assert len(whole) == len(set(whole)) == 25
        for limit in (1, 7):
            got, marker = [], ""
            while marker is not None:
                page = server.get(f"/v1/vms?limit={limit}&sort={sort}{marker}").json()
                got += [vm["id"] for vm in page["items"]]
                assert len(got) <= 25 and (page["next"] or len(got) == 25)
                marker = page["next"] and "&marker=" + page["next"]
            assert got == whole
    marker = server.get("/v1/vms?limit=1").json()["next"]
    problem(server.get("/v1/vms?sort=cpu&marker=" + marker), 400, "invalid")


def test_request_ids(server):
    mine = "req-01234567-89ab-cdef-0123-456789ABCDEF"
    assert REQUEST_ID.fullmatch(server.get("/healthz").headers["X-Request-Id"])
    assert server.get("/healthz", {"X-Request-Id": mine}).headers["X-Request-Id"] == mine
    other = server.get("/healthz", {"X-Request-Id": "x" + mine}).headers["X-Request-Id"]
    assert other != mine and REQUEST_ID.fullmatch(other)
    answer = server.get("/nothing", {"X-Openstack-Request-Id": mine})
    assert answer.headers["X-Request-Id"] == answer.headers["X-Openstack-Request-Id"] == mine
    assert answer.json()["request_id"] == mine
    assert "X-Openstack-Request-Id" not in server.get("/healthz").headers
    ids = {server.get("/healthz").headers["X-Request-Id"] for _ in range(50)}
    assert len(ids) == 50


@pytest.mark.parametrize("url", ["/v1/vms", "/v1/vms?limit=5", "/v1/snapshot", "/v1/host",
                                 "/v1/preemptions", "/v1/preemptions?vm=beta", "/v1/vms/alpha",
                                 "/v1/vms/alpha/gpu", "/v1/gpus", "/v1/gpus?limit=1",
                                 "/v1/gpus/0000:41:00.0", "/v1/gpus/0000:41:00.0/requests?limit=2"])
def test_conditional(server, url):
    tag = server.get(url).headers["ETag"]
    assert re.fullmatch(r'"[0-9a-f-]{36}-[0-9]+(\.[0-9a-f]{8})?"', tag)
    for header in (tag, "W/" + tag, f'"x", {tag}', f'"x",{tag} , "y"', "*"):
        answer = server.get(url, {"If-None-Match": header})
        assert (answer.status, answer.body, answer.headers["ETag"]) == (304, b"", tag), header
    for header in ('"x"', tag[:-1], tag + "x", tag.strip('"'), ""):
        assert server.get(url, {"If-None-Match": header}).status == 200, header


@pytest.mark.parametrize("vm", ["", "&vm=beta"])
def test_pages_of_preemptions(start, vm):
    server = start("--vms", 7)
    whole = server.get("/v1/preemptions?limit=10000" + vm).json()
    assert whole["next"] is None and len(whole["items"]) == (4 if vm else 28)
    times = [item["ns"] for item in whole["items"]]
    assert times == sorted(times, reverse=True)
    for limit in (1, 2, 5, 21):
        got, marker = [], ""
        while marker is not None:
            page = server.get(f"/v1/preemptions?limit={limit}{vm}{marker}").json()
            got += page["items"]
            assert len(page["items"]) <= limit and len(got) <= 28
            marker = page["next"] and "&marker=" + page["next"]
        assert got == whole["items"], limit
    of_vms = server.get("/v1/vms?limit=1").json()["next"]
    problem(server.get("/v1/preemptions?marker=" + of_vms), 400, "invalid")


GPU = "/v1/gpus/0000:41:00.0"
ODD_GPU = "/v1/gpus/gpu%2F%22x%22%20%C3%A4"


def test_gpus(server):
    whole = server.get("/v1/gpus").json()
    assert whole["next"] is None
    known, odd = whole["items"]
    assert (known["id"], odd["id"]) == ("0000:41:00.0", 'gpu/"x" \u00e4')
    assert server.get(GPU).json() == known and server.get(ODD_GPU).json() == odd
    assert known["inventory"]["mdevs"][0]["type"] == "i915-GVTg_V5_4" and not odd["inventory"]
    assert known["source"] == "lttng"
    assert [e["engine"] for e in known["engines"]] == ["rcs0"] and known["processes"] == []
    alpha = {"id": "5c9e2c3a-0d8f-4f0a-9d64-1f3c1c7c0000", "name": "alpha"}
    assert [v["vm"] for v in known["vms"]] == [alpha] == [v["vm"] for v in known["newest"]["vms"]]
    assert known["newest"]["vms"][0]["share"] == 0.3
    assert odd["vms"] == [] and [p["comm"] for p in odd["processes"]] == ["Xorg"]
    first = server.get("/v1/gpus?limit=1").json()
    second = server.get("/v1/gpus?limit=1&marker=" + first["next"]).json()
    assert first["items"] + second["items"] == whole["items"] and second["next"] is None
    of_vms = server.get("/v1/vms?limit=1").json()["next"]
    problem(server.get("/v1/gpus?marker=" + of_vms), 400, "invalid")


def test_users_of_a_gpu_are_limited(start):
    server = start("--vms", 600, "--gpu-vms", 300)
    gpu = server.get(GPU).json()
    assert (len(gpu["vms"]), gpu["vms_left_out"]) == (256, 44)
    busy = [row["busy_ns"] for row in gpu["vms"]]
    assert busy == sorted(busy, reverse=True)
    assert {row["vm"]["name"] for row in gpu["newest"]["vms"]} == \
           {row["vm"]["name"] for row in gpu["vms"]}


def test_gpu_of_a_vm(server):
    alpha = server.get("/v1/vms/alpha/gpu").json()
    vm = server.get("/v1/vms/alpha").json()
    assert alpha["vm"] == {"id": vm["id"], "name": "alpha"} and alpha["gpu_known"] is True
    assert alpha["gpu"] == vm["gpu"] and alpha["newest"]["gpu"] == vm["newest"]["gpu"]
    assert alpha["gpu_intensity"] == vm["gpu_intensity"] and alpha["gpu_active_ns"] > 0
    assert [d["kind"] for d in alpha["devices"]] == ["mdev"]
    beta = server.get("/v1/vms/beta/gpu").json()
    assert (beta["gpu_known"], beta["gpu"], beta["devices"]) == (False, [], [])


def key(request):
    return request["seqno"]


def test_requests_of_a_gpu(server):
    answer = server.get(GPU + "/requests").json()
    assert (answer["since_ns"], answer["until_ns"], answer["more"]) == (None, None, False)
    assert (answer["oldest_ns"], answer["newest_ns"], answer["next_since"]) == (0, 10**9, 10**9)
    assert answer["left_out"] == 2
    items = answer["items"]
    assert [i["seqno"] for i in items] == list(range(9))
    assert [i["at_ns"] - i["end_ns"] for i in items] == [0, 1] * 4 + [0]
    assert [i["vm"] and i["vm"]["name"] for i in items] == [None, "departed"] + ["alpha"] * 7
    assert items[3]["context"] == 2**64 - 1
    assert items[4]["queued_ns"] is None and items[0]["submitted_ns"] is None
    assert [i["coalesced"] for i in items] == [n == 2 for n in range(9)]
    assert server.get(ODD_GPU + "/requests").json()["items"][0]["seqno"] == 9
    # A VM that is gone is known by what it was called.
    for vm in ("departed", "5C9E2C3A-55AA-4C3E-9D54-2F1F6A3C9E02"):
        assert [key(i) for i in server.get(GPU + "/requests?vm=" + vm).json()["items"]] == [1]
    # One that is there may have none.
    none = server.get(GPU + "/requests?vm=beta").json()
    assert (none["items"], none["next_since"], none["more"]) == ([], 10**9, False)


def pages(server, query="", since=None):
    """All requests, page after page; the last answer."""
    got, answer = [], None
    while answer is None or answer["more"]:
        after = f"&since={since}" if since is not None else ""
        answer = server.get(f"{GPU}/requests?limit=2{query}{after}").json()
        assert len(answer["items"]) <= 2
        assert all(i["at_ns"] <= answer["next_since"] for i in answer["items"])
        got += answer["items"]
        since = answer["next_since"]
    return got, answer


def test_pages_of_requests(server):
    for query, want in (("", range(9)), ("&vm=alpha", range(2, 9)), ("&until=200000000", range(3))):
        got, _ = pages(server, query)
        assert [key(i) for i in got] == list(want), query
    _, last = pages(server, "&until=200000000")
    assert last["next_since"] == 200000000
    assert [key(i) for i in pages(server, "", last["next_since"])[0]] == list(range(3, 9))
    halves = server.get(GPU + "/requests?since=-1s&until=500000000").json()["items"]
    assert [key(i) for i in halves] == list(range(9))
    assert server.get(GPU + "/requests?since=-0s").json()["items"] == []
    far = server.get(GPU + "/requests?since=4611686018427387904").json()
    assert (far["items"], far["next_since"], far["left_out"]) == ([], 2**62, 0)


def test_requests_come_once_while_windows_are_closed(start):
    server = start("--view-ms", 5)
    got, since = [], 0
    while len(got) < 200:
        answer = server.get(f"{GPU}/requests?limit=5&since={since}").json()
        got += answer["items"]
        since = answer["next_since"]
    assert [key(i) for i in got] == [n for n in range(got[-1]["seqno"] + 1) if n % 10 != 9]


def test_losses_of_the_past(server):
    """Whoever is told by name took at least that, and at most that and all of rest; host:user has its processes."""
    items = server.get("/v1/preemptions?since=1795200000&until=1795200100").json()["items"]
    told = {(i["victim"]["name"], i["aggressor"]): i for i in items}
    assert {key: (i["ns"], i["at_most_ns"]) for key, i in told.items()} == {
        ("alpha", "beta"): (1000, 1500), ("alpha", "host:user"): (400, 900), ("alpha", "rest"): (500, 500),
        ("beta", "alpha"): (2000, 2000)}
    backup = {"comm": "back\033up", "cgroup": "/system.slice/backup.service", "ns": 300, "count": 2}
    user = told["alpha", "host:user"]
    assert (user["processes"], user["others"]) == ([backup], {"ns": 100, "count": 1})
    assert [key for key, i in told.items() if "processes" in i] == [("alpha", "host:user")]
    past = server.get("/v1/vms?since=1795200000&until=1795200100").json()
    for losses in (past["host"]["lost_to"], next(v for v in past["items"] if v["name"] == "alpha")["lost_to"]):
        assert next(loss for loss in losses if loss["aggressor"] == "host:user")["processes"] == [backup]


def test_steps_of_the_host(server):
    """Steps are whole, gaps are one item without figures, and alerts belong to the step in which they were raised."""
    past = server.get("/v1/host/history?since=1795200001&until=1795203599&step=10min").json()
    assert (past["since_ns"], past["until_ns"]) == (1795200000 * 10**9, 1795203600 * 10**9)
    items = past["items"]
    assert [(i["begin_ns"] // 10**9 - 1795200000, i["gap"], i["alerts"]) for i in items] == [
        (0, False, 1), (600, True, 1), (1200, False, 0), (1800, False, 0), (2400, True, 0), (3000, False, 0)]
    for item in items:
        figures = (item["vms"], item["run_ns"], item["own_share"], item["load"], item["idle_share"])
        assert figures == ((None,) * 5 if item["gap"] else (2, 5 * 10**8, 0.2, 2.5, None))
    at_ns = 1795200000 * 10**9
    clock = {"what": "clock-set", "at_ns": at_ns + 1800 * 10**9, "by_s": 3600.5}
    away = {"what": "away", "ended": "killed", "at_ns": at_ns + 1801 * 10**9, "for_s": 601,
            "since_ns": at_ns + 1200 * 10**9}
    # It was away from the end of the second step to the first second of the fourth.
    assert [i["happened"] for i in items] == [[], [away], [clock, away], [away], [], []]
    assert "alerts" not in "".join(past["left_out"]) and len(past["left_out"]) == 1
    for step in ("9s", "367d", "raw", "0s"):
        problem(server.get(f"/v1/host/history?step={step}"), 400, "invalid")
    problem(server.get("/v1/host/history?since=-7d&step=10s"), 400, "invalid")
    for since, step in (("-40min", 60), ("-4h", 300), ("-8h", 600), ("-1d", 3600), ("-7d", 21600), ("-30d", 86400),
                        ("-500d", 11 * 86400)):
        assert server.get(f"/v1/host/history?since={since}").json()["step_ns"] == step * 10**9, since


def test_samples_of_a_vm_that_is_gone_by_its_name(server):
    answer = server.get("/v1/vms/departed/samples?since=1795200000&until=1795200002").json()
    assert answer["vm"]["id"] == "5c9e2c3a-55aa-4c3e-9d54-2f1f6a3c9e02"
    assert len(answer["items"]) == 2
    problem(server.get("/v1/vms/nobody/samples"), 404, "not-found")


def test_new_views_have_new_tags(start):
    def changed(answer):
        return None if answer.status == 304 else answer
    server = start("--view-ms", 50)
    before = server.get("/v1/vms/alpha").json()["run_ns"]
    tag = server.get("/v1/vms").headers["ETag"]
    answer = wait_for(lambda: changed(server.get("/v1/vms", {"If-None-Match": tag})))
    assert answer.status == 200 and answer.headers["ETag"] != tag
    assert server.get("/v1/vms/alpha").json()["run_ns"] > before


def test_keep_alive_and_http10(server):
    connection = server.connect()
    for url in ("/healthz", "/nothing", "/v1/vms", "/v1/vms?x=1", "/healthz"):
        server.get(url, connection=connection)
    sock = connection.sock
    assert sock is not None
    connection.close()
    reply = server.raw(b"GET /healthz HTTP/1.0\r\n\r\n")
    assert status_of(reply) == 200 and reply.endswith(b'{"status":"ok"}\n')
    two = server.raw(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" + LAST)
    assert two.count(b'{"status":"ok"}') == 2


def test_forms_of_the_target(server):
    for target in (b"http://x/healthz", b"HTTP://x:80/healthz", b"http:///healthz"):
        reply = server.raw(b"GET " + target + CLOSE)
        assert status_of(reply) == 200 and b'"status":"ok"' in reply, reply
    for target in (b"http://x", b"http://x?"):
        reply = server.raw(b"GET " + target + CLOSE)
        assert status_of(reply) == 200 and b'"versions"' in reply, reply
    reply = server.raw(b"OPTIONS *" + CLOSE)
    assert status_of(reply) == 204 and b"\r\nAllow: GET, HEAD, POST, DELETE, OPTIONS\r\n" in reply, reply


def test_an_encoded_body_is_refused(server):
    coded = server.post("/v1/plans", {"dry_run": True}, {"Content-Encoding": "gzip"})
    assert "gzip" in problem(coded, 415, "wrong-type")
    assert server.post("/v1/plans", {"dry_run": True}, {"Content-Encoding": "identity"}).status < 300


def test_a_304_has_the_length_of_the_200(server):
    for path in ("/v1/host", "/v1/vms", "/v1/vms?limit=2", "/v1/vms/alpha", "/v1/preemptions",
                 "/v1/preemptions?vm=alpha", "/v1/snapshot"):
        whole = server.get(path)
        tag = whole.headers["ETag"].encode()
        # The second line counts, too, and nothing of a body comes before the next answer.
        reply = server.raw(b"GET " + path.encode() + b" HTTP/1.1\r\nHost: x\r\nIf-None-Match: \"no\""
                           b"\r\nIf-None-Match: " + tag + b"\r\n\r\n" + LAST)
        first, _, rest = reply.partition(b"\r\n\r\n")
        assert first.startswith(b"HTTP/1.1 304 ") and rest.startswith(b"HTTP/1.1 200 "), reply
        assert b"\r\nContent-Length: %d" % len(whole.body) in first, first
        assert b"Content-Type" not in first


# What follows on a method and a target, so that the connection ends with the answer; and a whole one.
CLOSE = b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
LAST = b"GET /healthz" + CLOSE
REFUSED = {
    "no host": b"GET /healthz HTTP/1.1\r\n\r\n",
    "two hosts": b"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "length and chunked": b"POST /v1/plans HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n"
                          b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /healthz HTTP/1.1\r\n"
                          b"Host: x\r\n\r\n",
    "chunked and length": b"GET /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
                          b"Content-Length: 5\r\n\r\n0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: x\r\n"
                          b"\r\n",
    "two lengths": b"POST /v1/plans HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n"
                   b"Content-Length: 40\r\n\r\n{}GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
    "the same length twice": b"POST /v1/plans HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n"
                             b"Content-Length: 2\r\n\r\n{}GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
    "list of lengths": b"POST /v1/plans HTTP/1.1\r\nHost: x\r\nContent-Length: 2, 2\r\n\r\n{}",
    "negative length": b"POST /v1/plans HTTP/1.1\r\nHost: x\r\nContent-Length: -2\r\n\r\n{}",
    "huge length": b"POST /v1/plans HTTP/1.1\r\nHost: x\r\nContent-Length: " + b"9" * 30 +
                   b"\r\n\r\n{}",
    "two encodings": b"POST /v1/plans HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
                     b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "other encoding": b"POST /v1/plans HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n{}",
    "list of encodings": b"POST /v1/plans HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked"
                         b"\r\n\r\n0\r\n\r\n",
    "chunked in 1.0": b"POST /v1/plans HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "blank before colon": b"GET /healthz HTTP/1.1\r\nHost : x\r\n\r\n",
    "no version": b"GET /healthz\r\n\r\n",
    "version 2": b"GET /healthz HTTP/2.0\r\nHost: x\r\n\r\n",
    "bad version": b"GET /healthz HTTX/1.1\r\nHost: x\r\n\r\n",
    "bad chunk": b"POST /v1/plans HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                 b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
    "binary": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)) + b"\r\n\r\n",
    "asterisk": b"GET *" + CLOSE,
    "other scheme": b"GET ftp://x/healthz" + CLOSE,
    "two types": b"POST /v1/plans HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                 b"Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}",
    "two authorizations": b"GET /v1/vms HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer a\r\n"
                          b"Authorization: Bearer b\r\n\r\n",
    "blank in the path": b"GET /healthz x HTTP/1.1\r\nHost: x\r\n\r\n",
    "two blanks later": b"GET /healthz  HTTP/1.1\r\nHost: x\r\n\r\n",
    "nul in the query": b"GET /v1/vms?sort=name\0x HTTP/1.1\r\nHost: x\r\n\r\n",
    "nul in the path": b"GET /healthz\0x HTTP/1.1\r\nHost: x\r\n\r\n",
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_framing(server, name):
    reply = server.raw(REFUSED[name])
    assert b'"status":"ok"' not in reply, reply
    status = status_of(reply)
    if name in ("list of lengths", "negative length", "huge length", "version 2", "no version",
                "bad version", "bad chunk"):
        # libmicrohttpd refuses these itself.
        assert status in (400, 413, 505) and b"\r\nConnection: close\r\n" in reply, reply
        return
    assert len(re.findall(rb"HTTP/1\.[01] \d{3} ", reply)) <= 1, reply
    if status is not None:
        assert 400 <= status < 500, reply
        # libmicrohttpd 1.0 refuses some more of these itself, in HTML.
        assert b"application/problem+json" in reply or re.search(rb"\r\n\r\n<html>", reply), reply
    assert server.get("/healthz").status == 200


def test_chunked_body(server):
    reply = server.raw(b"POST /v1/plans HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                       b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"dry\r\n", b"c\r\n_run\": true"
                       b"}\r\n0\r\n\r\n", pause_s=0.05)
    assert status_of(reply) in (200, 201), reply


def test_body_of_get_is_ignored(server):
    answer = server.request("GET", "/healthz", body=b"x" * 1024)
    assert answer.status == 200
    problem(server.request("GET", "/healthz", body=b"x" * 1025), 413, "body-too-long")


def test_body_limit(start):
    server = start("--body", 300)
    fits = b'{"dry_run":true' + b" " * (300 - 16) + b"}"
    assert len(fits) == 300
    assert server.post("/v1/plans", fits).status == 201
    problem(server.post("/v1/plans", fits + b" "), 413, "body-too-long")
    head = (b"POST /v1/plans HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n")
    reply = server.raw(head + b"12d\r\n" + b"x" * 301 + b"\r\n0\r\n\r\n")
    assert status_of(reply) == 413, reply
    reply = server.raw(head, *[b"10000\r\n" + b"x" * 65536 + b"\r\n"] * 300)
    assert status_of(reply) is None


def test_url_and_header_limits(server):
    path = "/v1/vms?marker="
    assert server.get(path + "x" * (8192 - len(path))).status == 400
    problem(server.get(path + "x" * (8193 - len(path))), 414, "url-too-long")
    problem(server.get(path + "x" * 50000), 414, "url-too-long")
    head = b" HTTP/1.1\r\nHost: x\r\n"
    assert status_of(server.raw(b"GET /" + b"x" * 1000000 + head + b"\r\n")) == 414
    some = {f"X-{i}": "y" for i in range(98)}  # and Host, Accept-Encoding
    assert server.get("/healthz", some).status == 200
    problem(server.get("/healthz", {**some, "X-One-More": "y"}), 431, "headers-too-long")
    size = 16384 - len("Host: localhost\r\nAccept-Encoding: identity\r\nX: \r\n")
    assert server.get("/healthz", {"X": "y" * size}).status == 200
    problem(server.get("/healthz", {"X": "y" * (size + 1)}), 431, "headers-too-long")
    assert status_of(server.raw(b"GET /" + head + b"X: " + b"y" * 1000000 + b"\r\n\r\n")) == 431


def test_content_type(server):
    for kind in ("text/plain", "application/x-www-form-urlencoded", "application/jsonx", ""):
        problem(server.post("/v1/plans", PLAN, {"Content-Type": kind}), 415, "wrong-type")
    for kind in ("application/json; charset=utf-8", "Application/JSON"):
        assert server.post("/v1/plans", PLAN, {"Content-Type": kind}).status in (200, 201)
    reply = server.raw(b"POST /v1/plans HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                       b"Content-Length: 2\r\n\r\n{}")
    assert status_of(reply) == 415


def test_only_dry(server):
    detail = problem(server.post("/v1/plans", {"dry_run": False}), 422, "refused")
    assert "dry_run" in detail


def test_writes_are_limited_and_logged(start):
    server = start("--writes", 3)
    statuses = [201]
    while statuses[-1] != 429:
        statuses.append(server.post("/v1/plans", PLAN).status)
    accepted = statuses[1:-1]
    # A third of a minute makes room for one more.
    assert accepted[:3] == [201, 200, 200] and len(accepted) < 10
    answer = server.post("/v1/plans", PLAN)
    problem(answer, 429, "too-many")
    assert 1 <= int(answer.headers["Retry-After"]) <= 60
    assert server.get("/v1/plans").status == 200
    lines = [line for line in server.messages().splitlines() if "write accepted" in line]
    assert len(lines) == len(accepted)
    assert re.search(r'by="uid:\d+" from="unix" route="POST /v1/plans" request=req-', lines[0])


AS_NOBODY = """
import os, sys
os.setgroups([int(g) for g in sys.argv[3:]])
os.setgid(65534)
os.setuid(65534)
sys.path.insert(0, sys.argv[2])
from unixhttp import Connection
def ask(method, body=None):
    connection = Connection(sys.argv[1])
    try:
        connection.request(method, "/v1/plans", body, {"Content-Type": "application/json"})
    except OSError as error:
        return type(error).__name__
    return connection.getresponse().status
print(ask("GET"), ask("POST", '{"dry_run": true}'))
"""


@pytest.fixture
def public():
    """A directory for all, with what nobody needs: pytest shuts its own, whenever one starts."""
    lib = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib")
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        for name in ("settings.py", "unixhttp.py"):
            shutil.copy(os.path.join(lib, name), directory)
        yield directory


def as_nobody(server, *groups):
    done = subprocess.run([sys.executable, "-B", "-c", AS_NOBODY, server.path,
                           os.path.dirname(server.path), *map(str, groups)],
                          capture_output=True, text=True, timeout=HANG_S, check=True)
    return done.stdout.split()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_permissions(public):
    server = Server(public, "--mode", "666")
    assert stat.S_IMODE(os.stat(server.path).st_mode) == 0o666
    assert as_nobody(server) == ["200", "403"]
    assert as_nobody(server, 0) == ["200", "201"]  # the socket's group is ours: root
    server.stop()
    server = Server(public, "--mode", "600")
    assert as_nobody(server) == ["PermissionError", "PermissionError"]
    server.stop()
    server = Server(public, "--mode", "666", "--group", "daemon")
    assert os.stat(server.path).st_gid == 1
    assert as_nobody(server, 0) == ["200", "403"]
    assert as_nobody(server, 1) == ["200", "201"]
    server.stop()


def refused_start(*options):
    program = os.path.join(build_dir(), "tests", "tools", "api-server")
    done = subprocess.run([program, *map(str, options)], capture_output=True, text=True,
                          timeout=HANG_S, check=False)
    return done.returncode, done.stderr


def test_socket(tmp_path, start):
    server = start()
    code, message = refused_start("--socket", server.path)
    assert code == 5 and server.path in message
    assert server.get("/healthz").status == 200
    server.process.kill()
    server.process.wait()
    assert os.path.exists(server.path)
    again = start()
    assert again.get("/healthz").status == 200
    os.unlink(again.path)
    with open(again.path, "w", encoding="utf-8") as other:
        other.write("not ours")
    again.process.terminate()
    assert again.process.wait(HANG_S) == 0
    assert os.path.exists(again.path)
    code, message = refused_start("--socket", again.path)
    assert code == 5 and "not a socket" in message
    code, message = refused_start("--socket", tmp_path / "nowhere" / "s")
    assert code == 1 and str(tmp_path / "nowhere") in message
    code, message = refused_start("--socket", "/tmp/" + "x" * 103)
    assert code == 1 and "107" in message
    code, message = refused_start("--socket", tmp_path / "s", "--group", "no-such-group")
    assert code == 1 and "no-such-group" in message


def test_readiness(start):
    server = start("--not-ready")
    answer = server.get("/readyz")
    assert (answer.status, answer.json()["ready"]) == (503, False)
    assert [p["reason"] for p in answer.json()["parts"]][:2] == [None, "the disk is full"]
    assert server.get("/healthz").status == 200


def test_slow_client_is_closed(start):
    server = start("--idle-ms", 1000)
    with socket.socket(socket.AF_UNIX) as silent, socket.socket(socket.AF_UNIX) as slow:
        for sock in (silent, slow):
            sock.connect(server.path)
            sock.settimeout(0.25)
        slow.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: ")

        def is_closed(sock):
            try:
                if sock is slow:
                    sock.sendall(b"a")
                # MHD says 408 or nothing at all.
                return sock.recv(100) == b""
            except TimeoutError:
                return False
            except OSError:
                return True
        wait_for(lambda: is_closed(silent))
        wait_for(lambda: is_closed(slow))
    wait_for(server.serves)


def test_client_gone_during_a_job(start):
    server = start("--job-ms", 200)
    for _ in range(5):
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(server.path)
        sock.sendall(b"GET /v1/vms/alpha/samples HTTP/1.1\r\nHost: x\r\n\r\n")
        wait_for(lambda: metric(server, "vgpud_http_connections") == 2)
        sock.close()
    assert server.get("/v1/vms/alpha/samples?since=1795200000&until=1795200002").status == 200


def ask_for_samples(server, n):
    """n clients, each of which waits for a job."""
    socks = [socket.socket(socket.AF_UNIX) for _ in range(n)]
    for sock in socks:
        sock.connect(server.path)
        sock.settimeout(HANG_S)
        sock.sendall(b"GET /v1/vms/fail-x/samples HTTP/1.0\r\n\r\n")
    return socks


def check_refused(socks, what):
    for sock in socks:
        reply = read_all(sock)
        assert status_of(reply) == 503 and b"\r\nRetry-After: " in reply and what in reply, reply
        sock.close()


def test_jobs_are_bounded_and_do_not_block(start):
    server = start("--job-ms", 3600000, "--connections", 200)
    socks = ask_for_samples(server, 80)
    # One runs and 64 wait, or not even the first one runs yet.
    wait_for(lambda: metric(server, "vgpud_http_jobs_refused_total") >= 15)
    busy = wait_for(lambda: len(now := select.select(socks, [], [], 0)[0]) >= 15 and now)
    assert len(busy) in (15, 16)
    check_refused(busy, b'"code":"busy"')
    assert server.get("/v1/vms").status == 200
    server.process.kill()
    server.process.wait()
    for sock in set(socks) - set(busy):
        sock.close()


def test_jobs_fail_one_by_one(start):
    check_refused(ask_for_samples(start("--connections", 200), 60), b"the disk is broken")


def test_end_while_jobs_wait(start):
    server = start("--job-ms", 1000)
    replies = []

    def ask():
        replies.append(server.get("/v1/vms/alpha/samples?since=1795200000&until=1795200002"))
    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    # And the one who asks for this.
    wait_for(lambda: replies or metric(server, "vgpud_http_connections") >= 4)
    server.stop()
    for thread in threads:
        thread.join()
    # Who runs ends, who waits is told.
    statuses = [reply.status for reply in replies]
    assert len(statuses) == 3 and set(statuses) <= {200, 503}, statuses


def test_end_while_a_client_is_half_way(start):
    server = start()
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(server.path)
        sock.sendall(b"POST /v1/plans HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n"
                     b"Content-Type: application/json\r\n\r\n{")
        wait_for(lambda: metric(server, "vgpud_http_connections") == 2)
        server.stop()


def test_many_at_once(start):
    server = start("--view-ms", 2, "--event-ms", 2, "--connections", 100, "--vms", 20)
    urls = ["/v1/gpus", GPU + "/requests", "/v1/vms/alpha/gpu", "/v1/vms", "/v1/snapshot", "/v1/preemptions", "/v1/vms/alpha", "/metrics", "/v1/host",
            "/v1/vms/alpha/samples?since=1795200000&until=1795200009", "/v1/events?after=0&wait=1"]
    failures = []

    def ask(n):
        connection = server.connect()
        for i in range(40):
            url = urls[(n + i) % len(urls)]
            answer = server.get(url, connection=connection)
            if answer.status not in ((200, 503) if "events" in url else (200,)):
                failures.append((url, answer.status, answer.body))
    threads = [threading.Thread(target=ask, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def counters(text):
    """{(VM's labels, aggressor, or None for all its waits): seconds}"""
    out = {}
    for line in text.splitlines():
        name, _, rest = line.partition("{")
        labels, _, value = rest.rpartition("} ")
        if name == "vgpud_vm_lost_seconds_total":
            vm, _, aggressor = labels.rpartition(",aggressor=")
            out[vm, aggressor] = float(value)
        elif name in ("vgpud_vm_preempt_seconds_total", "vgpud_vm_wake_wait_seconds_total"):
            out[labels, None] = out.get((labels, None), 0) + float(value)
    return out


def test_counters_while_vms_come_and_go(start):
    """Between two scrapes no label grows by more than the VM waited. What is less than before has begun
    anew, as Prometheus takes it."""
    server = start("--vms", 200, "--churn", "--view-ms", 1)
    before, names, ended = {}, set(), 0

    def grown(now, key):
        return now[key] - (before.get(key, 0) if before.get(key, 0) <= now[key] else 0)
    while len(names) <= 200 or not ended:
        now = counters(server.get("/metrics").body.decode())
        vms = {vm for vm, who in now if who is None}
        for vm, who in now:
            if who is not None and before:
                assert grown(now, (vm, who)) <= grown(now, (vm, None)) + 1e-6, (vm, who)
        names |= {who for _, who in now if who}
        ended += len({key for key in before if key[0] in vms and key not in now})
        before = now


@pytest.mark.smoke
def test_metrics(server):
    promtool = shutil.which("promtool")
    server.get("/v1/vms")
    answer = server.get("/metrics")
    text = answer.body.decode()
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    labels = 'vm="alpha",uuid="5c9e2c3a-0d8f-4f0a-9d64-1f3c1c7c0000"'
    assert f"\nvgpud_vm_run_seconds_total{{{labels}}} 0.6\n" in text
    assert f'\nvgpud_vm_lost_seconds_total{{{labels},aggressor="beta"}} 0.15\n' in text
    assert 'vm="gamma/\\"x\\" \u00e4"' in text
    engine = 'device="0000:41:00.0",engine="rcs0"'
    assert f"\nvgpud_vm_gpu_requests_total{{{labels},{engine}}} 120\n" in text
    for percentile, value in (("50", "0.001"), ("95", "0.002"), ("99", "0.003")):
        assert (f"\nvgpud_newest_window_vm_gpu_latency_seconds{{{labels},{engine},"
                f'percentile="{percentile}"}} {value}\n') in text
    assert f"\nvgpud_newest_window_vm_gpu_open_requests{{{labels},{engine}}} 2\n" in text
    assert f"\nvgpud_newest_window_vm_gpu_open_oldest_seconds{{{labels},{engine}}} 1.5\n" in text
    assert re.search(r'vgpud_http_requests_total\{route="/v1/vms",method="GET",code="200"\} \d', text)
    assert (r'vgpud_vm_without_gpu{vm="gamma/\"x\"",uuid="5c9e2c3a-0d8f-4f0a-9d64-1f3c1c7c0002",'
            'host="node-b",move="move-00000000000000ff"} 1') in text
    names = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(names) == len(set(names))
    series = [line.rsplit(" ", 1)[0] for line in text.splitlines() if not line.startswith("#")]
    assert len(series) == len(set(series))
    if not promtool:
        pytest.skip("promtool is not installed")
    done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True,
                          text=True, timeout=HANG_S, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
