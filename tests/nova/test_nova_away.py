# SPDX-License-Identifier: Apache-2.0
"""The filter and the weigher for nova's scheduler where vgpud is away, slow or wrong: instances are
placed as if there were no vgpud, and nobody waits for longer than told."""
import json
import socket
import threading
import time

import pytest
from certs import Authority
from fakevgpud import right
from novashim import Spec
from settings import HANG_S, full, random_of
from test_nova import spec, states, veto_of
from tlsserver import loopback
from unixhttp import wait_for
from vgpud_nova import client, conf

EQUAL = [("node-0", 0.5), ("node-1", 0.5), ("node-2", 0.5)]


def raw(data):
    def act(handler, _asked):
        handler.close_connection = True
        handler.wfile.write(data)
    return act


def answer(change):
    """A right answer after this change to it."""
    def act(handler, asked):
        document = handler.server.fake.document(asked)
        document = change(document) or document
        handler.send(200, document)
    return act


def problem(status):
    def act(handler, _asked):
        handler.send(status, {"title": "x", "status": status, "detail": "for a reason"},
                     "application/problem+json")
    return act


WRONG = {
    "no HTTP": (raw(b"\0\1\2\3 what?\r\n\r\n"), "what"),
    "nothing": (raw(b""), "Remote end closed"),
    "half": (raw(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"hosts\": ["), "Expecting value"),
    "no JSON": (answer(lambda _: b"<html>"), "Expecting value"),
    "no text": (answer(lambda _: b"\xff\xfe{"), "decode"),
    "deep": (answer(lambda _: b"[" * 100_000), "recursion"),
    "long": (answer(lambda _: b" " * ((8 << 20) + 1)), "8388608 bytes"),
    "list": (answer(lambda _: [1]), "no list of hosts"),
    "no hosts": (answer(lambda d: d.pop("hosts") and None), "no list of hosts"),
    "one missing": (answer(lambda d: d["hosts"].pop() and None), "2 hosts for 3"),
    "another order": (answer(lambda d: d["hosts"].reverse()), "hosts[0] is not 'node-0'"),
    "no verdict": (answer(lambda d: d["hosts"][1].pop("verdict") and None), "hosts[1] has no verdict"),
    "odd verdict": (answer(lambda d: d["hosts"][1].update(verdict="maybe")), "hosts[1] has no verdict"),
    "no score": (answer(lambda d: d["hosts"][2].pop("score") and None), "hosts[2].score is no number"),
    "true": (answer(lambda d: d["hosts"][0].update(score=True)), "hosts[0].score is no number"),
    "NaN": (answer(lambda d: d["hosts"][0].update(score=float("nan"))), "hosts[0].score is no number"),
    "age": (answer(lambda d: d["hosts"][0].update(age_ms="old")), "hosts[0].age_ms is no number"),
    "400": (problem(400), "HTTP status 400: for a reason"),
    "403": (problem(403), "HTTP status 403: for a reason"),
    "404": (problem(404), "HTTP status 404: for a reason"),
    "empty": (lambda handler, _: handler.send(200, b""), "Expecting value"),
    "429": (problem(429), "HTTP status 429: for a reason"),
    "500": (lambda handler, _: handler.send(500, b"oops"), "HTTP status 500"),
    "503": (problem(503), "HTTP status 503: for a reason"),
    "redirect": (lambda handler, _: handler.send(302, b""), "HTTP status 302"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_answers(scheduler, fake, told, name):
    act, why = WRONG[name]
    vgpud = fake(opinion=veto_of(0))
    vgpud.act = act
    nova = scheduler([vgpud.url])
    assert nova.schedule(states(3), spec()) == EQUAL
    # The weigher knows from the filter that there is no answer.
    assert len(vgpud.requests) == 1
    line, = told()
    assert line.startswith(f"vgpud at {vgpud.url} does not answer: ") and why in line
    # Two more are no news; that it answers again is.
    nova.schedule(states(3), spec({"vgpud:class": "cpu"}))
    assert len(told()) == 1
    vgpud.act = vgpud.answer
    assert nova.schedule(states(3), spec({"vgpud:class": "gpu"})) == [("node-2", 0.02), ("node-1", 0.01)]
    assert told()[1:] == [f"vgpud at {vgpud.url} answers"]


@pytest.mark.parametrize("tls", [False, True], ids=["unix", "tls"])
@pytest.mark.parametrize("how", ["hang", "drip"])
def test_no_answer_in_time(scheduler, fake, authority, how, tls):
    """vgpud would go on until it is stopped: that nova goes on is because it has not waited."""
    if tls:
        host, port = loopback()
        vgpud = fake((host, port), certificate=authority.issue("slow", f'ip_address = "{host}"'))
    else:
        vgpud = fake()
    vgpud.act = getattr(vgpud, how)
    nova = scheduler([vgpud.url], timeout_ms=250, cafile=authority.certificate)
    began = time.monotonic()
    assert nova.schedule(states(3), spec()) == EQUAL
    assert time.monotonic() - began < 0.25 + HANG_S / 4
    assert vgpud.connections <= 1


def test_answer_that_comes_too_late(scheduler, fake, told):
    """Two seconds, say; what comes then is for nobody, also not for the next request."""
    vgpud = fake(opinion=veto_of(0))
    late = threading.Event()

    def act(handler, asked):
        assert late.wait(HANG_S)
        vgpud.answer(handler, asked)
    vgpud.act = act
    nova = scheduler([vgpud.url], timeout_ms=250)
    assert nova.schedule(states(3), spec()) == EQUAL
    assert told() == [f"vgpud at {vgpud.url} does not answer: timed out; where no other does, all hosts "
                      "pass with equal weight"]
    late.set()
    conf.CONF.vgpud.timeout_ms = HANG_S * 1000
    conf._client = None
    assert nova.schedule(states(3), spec({"vgpud:class": "cpu"})) == [
        ("node-2", 0.02), ("node-1", 0.01)]


@pytest.mark.parametrize("tls", [False, True], ids=["unix", "tls"])
def test_nobody_accepts(scheduler, tmp_path, tls):
    """The kernel has taken the connection; TLS waits for the other's first word then."""
    address = loopback() if tls else str(tmp_path / "deaf.sock")
    with socket.socket(socket.AF_INET if tls else socket.AF_UNIX) as deaf:
        deaf.bind(address)
        deaf.listen(5)
        url = "https://%s:%d" % address if tls else "unix://" + address
        nova = scheduler([url], timeout_ms=250)
        assert nova.schedule(states(3), spec()) == EQUAL


def test_nobody_listens(scheduler, tmp_path, told):
    (tmp_path / "old.sock").touch()
    host, port = loopback()
    for url, why in ((f"unix://{tmp_path}/none.sock", "No such file"),
                     (f"unix://{tmp_path}/old.sock", "refused"),
                     (f"https://{host}:{port}", "refused")):
        assert scheduler([url]).schedule(states(3), spec()) == EQUAL
        assert why in told()[-1] and url in told()[-1]
    assert len(told()) == 3


def test_wrong_certificate_gets_no_token(scheduler, fake, authority, tmp_path, told):
    host, port = loopback()
    other = Authority(tmp_path / "other", "another CA")
    (tmp_path / "token").write_text("secret")
    options = {"cafile": authority.certificate, "token_file": str(tmp_path / "token")}
    for made_by, name, why in ((other, host, "verify failed"), (authority, "127.0.0.9", "mismatch")):
        vgpud = fake((host, port), certificate=made_by.issue("wrong", f'ip_address = "{name}"'))
        assert scheduler([vgpud.url], **options).schedule(states(3), spec()) == EQUAL
        assert why in told()[-1]
        assert not vgpud.requests
        vgpud.stop()
        vgpud = None


@pytest.mark.parametrize("token, why", [
    ("another", "HTTP status 401: this token is unknown"), ("", "holds no token"),
    ("two words", "holds no token"), ("schl\u00fcssel", "can't decode"), (None, "No such file")])
def test_wrong_token(scheduler, fake, tmp_path, told, token, why):
    vgpud = fake(token="right")
    if token is not None:
        (tmp_path / "token").write_text(token, encoding="utf-8")
    nova = scheduler([vgpud.url], token_file=str(tmp_path / "token"))
    assert nova.schedule(states(3), spec()) == EQUAL
    assert why in told()[-1]


def test_wrong_ca_file(scheduler, fake, authority, tmp_path, told):
    host, port = loopback()
    vgpud = fake((host, port), certificate=authority.issue("ok", f'ip_address = "{host}"'))
    cafile = tmp_path / "ca.pem"
    nova = scheduler([vgpud.url], cafile=str(cafile))
    assert nova.schedule(states(3), spec()) == EQUAL
    assert str(cafile) in told()[-1]
    cafile.write_text("no certificate")
    assert nova.schedule(states(3), spec({"vgpud:class": "cpu"})) == EQUAL
    # Repaired, and nova-scheduler is not started again for it.
    with open(authority.certificate, encoding="ascii") as file:
        cafile.write_text(file.read())
    assert nova.schedule(states(3), spec({"vgpud:class": "gpu"}))[0] == ("node-2", 0.02)


# ---- the breaker ----

def ask(nova, number):
    """A request that nobody has made before."""
    return nova.schedule(states(3), spec({"resources:VGPU": str(number)}))


def test_after_three_failures_nobody_connects(scheduler, fake, told):
    vgpud = fake()
    vgpud.act = problem(500)
    nova = scheduler([vgpud.url], breaker_pause=3600.0, breaker_pause_max=10000.0)
    for number in range(50):
        assert ask(nova, number) == EQUAL
    assert len(vgpud.requests) == 3
    assert len(told()) == 1
    # The pause is over: one looks whether it goes again, and it does not.
    breaker = nova.endpoints[0].breaker
    breaker.closed_until = 0
    for number in range(50, 60):
        ask(nova, number)
    assert len(vgpud.requests) == 4
    assert breaker.closed_until - time.monotonic() > 3600
    # Now it does.
    vgpud.act = vgpud.answer
    breaker.closed_until = 0
    for number in range(60, 65):
        assert ask(nova, number)[0] == ("node-2", 0.02)
    assert len(vgpud.requests) == 9
    assert len(told()) == 2


def test_only_one_looks_whether_it_goes_again(scheduler, fake):
    vgpud = fake()
    vgpud.act = problem(500)
    nova = scheduler([vgpud.url], breaker_pause=3600.0)
    for number in range(3):
        ask(nova, number)
    held = threading.Event()

    def act(handler, asked):
        assert held.wait(HANG_S)
        vgpud.answer(handler, asked)
    vgpud.act = act
    nova.endpoints[0].breaker.closed_until = 0
    thread = threading.Thread(target=ask, args=(nova, 10))
    thread.start()
    wait_for(lambda: len(vgpud.requests) >= 4)
    for number in range(20, 25):
        assert ask(nova, number) == EQUAL
    assert len(vgpud.requests) == 4
    held.set()
    thread.join(HANG_S)
    assert ask(nova, 30)[0] == ("node-2", 0.02)


def test_pauses_differ_and_grow():
    pauses = []
    for _ in range(20):
        breaker = client.transport.Breaker(1, 8.0, 20.0)
        breaker.failed(0)
        assert 6 <= breaker.closed_until <= 10
        pauses.append(breaker.closed_until)
        breaker.failed(0)
        assert 12 <= breaker.closed_until <= 20
        breaker.failed(0)
        assert 15 <= breaker.closed_until <= 25
    assert len(set(pauses)) > 1


# ---- several endpoints ----

def test_the_next_one_is_asked(scheduler, fake, tmp_path, told):
    first, second = fake(), fake(opinion=veto_of(1))
    first.act = problem(503)
    nova = scheduler([f"unix://{tmp_path}/none", first.url, second.url])
    for number in range(5):
        assert ask(nova, number) == [("node-2", 0.02), ("node-0", 0.0)]
    assert len(first.requests) == 3
    assert len(second.requests) == 5
    assert [line.split()[2] for line in told()] == [f"unix://{tmp_path}/none", first.url, second.url]


def test_one_that_hangs_leaves_time_for_the_next(scheduler, monkeypatch):
    nova = scheduler(["unix:///first", "unix:///second", "unix:///third"], timeout_ms=60_000)
    began, given = time.monotonic(), []

    def post(_path, _body, deadline):
        given.append(deadline.end - began)
        raise TimeoutError("timed out")
    for endpoint in nova.endpoints:
        monkeypatch.setattr(endpoint, "post", post)
    assert ask(nova, 1) == EQUAL
    # A third, half of the rest, the rest: as no time has passed, these are the same points in time
    # as if the ones before had not been there.
    assert given[0] < given[1] < given[2]
    assert given[0] < 20 + HANG_S / 10 and given[2] >= 60


# ---- earlier answers ----

def test_earlier_answers_give_weights_but_no_vetoes(scheduler, fake):
    vgpud = fake(opinion=veto_of(1))
    nova = scheduler([vgpud.url], stale_limit=HANG_S)
    assert nova.schedule(states(3), spec()) == [("node-2", 0.02), ("node-0", 0.0)]
    vgpud.act = problem(503)
    # Another instance of the same kind, and a host that nobody was asked about.
    other = spec(instance_uuid="99999999-2222-4333-8444-555555555555")
    assert nova.schedule(states(4), other) == [
        ("node-3", 0.5), ("node-2", 0.02), ("node-1", 0.01), ("node-0", 0.0)]
    assert nova.schedule(states(3), spec({"vgpud:class": "cpu"})) == EQUAL


def test_earlier_answers_from_the_history_of_an_instance_are_for_it_alone(scheduler, fake):
    vgpud = fake()
    vgpud.act = answer(lambda document: document.update(class_from="history"))
    nova = scheduler([vgpud.url], cache_ttl=0.0)
    nova.schedule(states(3), spec())
    vgpud.act = problem(503)
    assert nova.schedule(states(3), spec())[0] == ("node-2", 0.02)
    assert nova.schedule(states(3), spec(instance_uuid="9" * 8)) == EQUAL


def test_earlier_answers_that_are_too_old(scheduler, fake):
    vgpud = fake(opinion=lambda instance, host: {**right(instance, host), "age_ms": 0})
    nova = scheduler([vgpud.url], cache_ttl=0.0, stale_limit=0.0)
    nova.schedule(states(3), spec())
    vgpud.act = problem(503)
    assert nova.schedule(states(3), spec()) == EQUAL


# ---- errors of our own ----

def test_a_request_that_nothing_can_be_read_of(scheduler, fake):
    nova = scheduler([fake().url])
    assert nova.schedule(states(3), Spec()) == [("node-2", 0.02), ("node-1", 0.01), ("node-0", 0.0)]


@pytest.mark.parametrize("where", ["vgpud_nova.request.decided", "vgpud_nova.request.host",
                                   "vgpud_nova.conf.shared_client", "vgpud_nova.client.json.dumps"])
def test_our_own_errors_are_not_novas(scheduler, fake, told, monkeypatch, where):
    vgpud = fake(opinion=veto_of(0))
    nova = scheduler([vgpud.url])
    # The fake uses json, too.
    monkeypatch.setattr(where, lambda *args, **kwargs: 1 / 0)
    assert nova.schedule(states(3), spec()) == EQUAL
    if "conf" not in where:
        assert told() == ["vgpud_nova: all hosts pass with equal weight because of an error of its own: "
                          "ZeroDivisionError('division by zero')"]
    monkeypatch.undo()
    assert nova.schedule(states(3), spec())[0] == ("node-2", 0.02)


def test_damaged_answers(scheduler, monkeypatch):
    """Whatever comes, hosts come out, with weights in range."""
    nova = scheduler(["unix:///none"], cache_ttl=0.0, breaker_pause=0.0, breaker_pause_max=0.0)
    chance = random_of("nova-damage")
    used = 0
    good = json.dumps({"hosts": [{"name": f"node-{n}", "verdict": "pass", "score": 0.25, "reason": "r",
                                  "age_ms": 5} for n in range(3)], "class": "cpu",
                       "class_from": "size"}).encode()
    for _ in range(3000 if full() else 300):
        data = bytearray(good)
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(data))
            data[at:at + chance.randint(0, 6)] = chance.choice(
                [b"", b"null", b"-1", b"1e999", b"{}", b"[", b"\"", b"\xff", b"veto", b"9" * 5000])
        monkeypatch.setattr(nova.endpoints[0], "post", lambda *_, data=data: (200, bytes(data)))
        weighed = nova.schedule(states(3), spec())
        # Only a whole word in the place of "pass" can leave a host out.
        hosts = {"node-0", "node-1", "node-2"}
        assert {name for name, _ in weighed} == hosts or b'"veto"' in data
        assert all(0 <= weight <= 1 for _, weight in weighed)
        used += bool(weighed) and weighed[0][1] != 0.5
    assert used
