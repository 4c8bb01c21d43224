# SPDX-License-Identifier: Apache-2.0
"""A host that hangs: requests that do not name it are answered, and what nobody waits for any more is not
carried out once the host goes on."""
import json
import re
import select
import socket
import ssl

import pytest
from settings import HANG_S
from tlsserver import TlsServer
from unixhttp import read_all, wait_for

OPERATOR = "operator-token"
# What worker.h says: jobs that run for one host at once, and those that wait for it.
RUN, WAIT = 4, 16


@pytest.fixture(name="hung")
def hung_fixture(tmp_path, start):  # pylint: disable=unused-argument; it ends before the servers do
    """While it is there, the host hangs."""
    path = tmp_path / "hung"
    path.touch()
    yield path
    path.unlink(missing_ok=True)  # or the server does not end


def request(path, document=None):
    body = json.dumps(document) if document else ""
    return (f"{'POST' if document else 'GET'} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {OPERATOR}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            f"{body}").encode()


def ask(server, path, document=None, tls=False):
    """Sends a request; its answer is read later, or never."""
    if tls:
        context = ssl.create_default_context(cafile=server.authority.certificate)
        sock = context.wrap_socket(socket.create_connection((server.host, server.port), HANG_S),
                                   server_hostname=server.host)
    else:
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(HANG_S)
        sock.connect(server.path)
    sock.sendall(request(path, document))
    return sock


def move(server, to, tls=False, **more):
    return ask(server, "/v1/migrations", {"vm": "alpha", "to": to, **more}, tls)


def accepted(server):
    return server.messages().count("write accepted")


def hanging(server):
    """How often a job came to a host that hangs."""
    return server.messages().count(" hangs\n")


def connections(server):
    """As the server counts them, with that of who asks."""
    return int(re.search(rb"^vgpud_http_connections (\d+)$", server.get("/metrics").body, re.M)[1])


def answer(sock):
    reply = read_all(sock)
    sock.close()
    head, body = reply.split(b"\r\n\r\n", 1)
    return int(head.split()[1]), json.loads(body)


def answered(socks):
    return select.select(socks, [], [], 0)[0]


def check_others(server):
    """Every kind of request that does not name the host."""
    assert answer(move(server, "node-b"))[0] == 201
    socks = [move(server, "node-b", forward=True), move(server, "full", dry_run=True),
             ask(server, "/v1/vms/alpha/movable"), ask(server, "/v1/migrations"), ask(server, "/v1/reservations"),
             ask(server, "/v1/plans", {"dry_run": True}), ask(server, "/v1/snapshot?peers=true"),
             ask(server, "/v1/migrations/move-0000000000000001"),
             ask(server, "/v1/migrations/move-0000000000000001?peer=node-b"), ask(server, "/v1/host")]
    for number, sock in enumerate(socks):
        status, document = answer(sock)
        assert status in (200, 201), (number, document)


def refused(socks, n, status):
    """Waits until n of them are answered with this status, which names the host. Returns the others."""
    early = wait_for(lambda: len(now := answered(socks)) >= n and now)
    replies = [answer(sock) for sock in early]
    assert [got for got, _ in replies] == [status] * n
    assert all("host 'hung'" in document["detail"] for _, document in replies)
    return [sock for sock in socks if sock not in early]


@pytest.mark.parametrize("forward", [False, True], ids=["here", "forward"])
def test_a_host_that_hangs_keeps_nobody_else(start, hung, forward):
    """More than may run and wait for it are refused at once."""
    server = start("--hung", hung, "--connections", 200)
    running = [move(server, "hung", forward=forward, dry_run=i % 2 == 0) for i in range(RUN)]
    wait_for(lambda: hanging(server) == RUN)
    waiting = [move(server, "hung", forward=forward, dry_run=i % 2 == 0) for i in range(WAIT + 5)]
    kept = running + refused(waiting, 5, 503)
    check_others(server)
    assert not answered(kept)
    hung.unlink()
    assert {answer(sock)[0] for sock in kept} <= {200, 201}


@pytest.mark.parametrize("forward", [False, True], ids=["here", "forward"])
def test_what_has_waited_for_too_long_is_refused(start, hung, forward):
    """What runs is not."""
    server = start("--hung", hung, "--connections", 200, "--job-wait-ms", 100)
    running = []

    def all_run():
        """One that a busy machine does not begin in time is asked for once more."""
        for sock in answered(running):
            running.remove(sock)
            sock.close()
        if len(running) == hanging(server) < RUN:
            running.append(move(server, "hung", forward=forward))
        return hanging(server) == RUN
    wait_for(all_run)
    assert not refused([move(server, "hung", forward=forward, dry_run=i % 2 == 0) for i in range(WAIT)], WAIT, 504)
    assert not answered(running)
    hung.unlink()
    assert {answer(sock)[0] for sock in running} == {201}


def test_readers_do_not_keep_moves_waiting(start, hung):
    """They ask whether a VM can be moved whose guest does not answer: as many as may run and wait, and more."""
    server = start("--hung", hung, "--connections", 200, "--job-wait-ms", 100000)
    socks = [ask(server, "/v1/vms/beta/movable") for _ in range(RUN + WAIT + 5)]
    # Half of what may run and wait is for readers; the first ones may not run yet when the last ones come.
    wait_for(lambda: len(answered(socks)) >= RUN // 2 + WAIT // 2 + 5)
    early = answered(socks)
    replies = [answer(sock) for sock in early]
    assert {status for status, _ in replies} == {503}
    assert all("8 requests from readers are already waiting for this host's libvirt" in document["detail"] for _, document in replies)
    moves = [move(server, "node-b") for _ in range(WAIT)]
    assert {answer(sock)[0] for sock in moves} == {201}
    hung.unlink()
    late = [answer(sock)[0] for sock in socks if sock not in early]
    assert late.count(200) >= WAIT // 2 and set(late) <= {200, 503}


def test_many_hosts_that_hang(start, hung):
    """Seven at once, each asked as often as may be: an eighth is answered."""
    server = start("--hung", hung, "--connections", 200)
    socks = [move(server, f"hung-{n}", forward=n % 2 == 0) for n in range(7) for _ in range(RUN)]
    wait_for(lambda: hanging(server) == len(socks))
    check_others(server)
    assert not answered(socks)
    hung.unlink()
    assert [answer(sock)[0] for sock in socks] == [201] * len(socks)


@pytest.mark.parametrize("tls", [False, True], ids=["unix", "tls"])
def test_what_nobody_waits_for_is_not_carried_out(tmp_path, hung, authority, tls):
    """Fifty times: the client gives up, and then the host goes on."""
    server = TlsServer(tmp_path, authority, "--hung", hung, "--connections", 200)
    done = 0
    for n in range(5):
        hung.touch()
        socks = [move(server, "hung", tls, forward=n % 2 == 0) for _ in range(10)]
        done += len(socks)
        wait_for(lambda done=done: accepted(server) == done)
        for sock in socks:
            sock.close()
        hung.unlink()
        wait_for(lambda: connections(server) == 1)
        assert server.get("/v1/migrations").json()["items"] == []
    # Who stays is served.
    hung.touch()
    kept = move(server, "hung", tls)
    wait_for(lambda: accepted(server) == done + 1)
    hung.unlink()
    assert answer(kept)[0] == 201
    assert len(server.get("/v1/migrations").json()["items"]) == 1
    server.stop()
