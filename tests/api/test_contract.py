# SPDX-License-Identifier: Apache-2.0
"""Answers against the contract: good calls, then every parameter with values that its schema
refuses."""
import json
import os
import re
import shutil
import subprocess
from urllib.parse import quote

import pytest
from contract import Contract
from settings import HANG_S
from unixhttp import ROOT, build_dir

PLAN = {"dry_run": True}
GPU = "0000:41:00.0"
GOOD = [
    "/", "/v1", "/v1/", "/v1/openapi.json", "/v1/host", "/v1/vms", "/v1/vms?limit=1",
    "/v1/vms?sort=lost&limit=10000", "/v1/vms?sort=cpu&class=mixed", "/v1/vms?sort=gpu",
    "/v1/vms/alpha", "/v1/vms/beta", "/v1/vms/5C9E2C3A-0D8F-4F0A-9D64-1F3C1C7C0000",
    "/v1/vms/alpha/samples", "/v1/vms/alpha/samples?since=2026-11-20T18:40:00Z&until=1795200010",
    "/v1/vms/alpha/samples?since=1795200000&until=1795200100.5&step=10s&source=procfs",
    "/v1/vms/alpha/gpu", "/v1/vms/beta/gpu", "/v1/gpus", "/v1/gpus?limit=1", "/v1/gpus?limit=10000",
    "/v1/gpus/0000:41:00.0", "/v1/gpus/0000%3A41%3A00.0", "/v1/gpus/gpu%2F%22x%22%20%c3%a4",
    "/v1/gpus/0000:41:00.0/requests", "/v1/gpus/gpu%2F%22x%22%20%c3%a4/requests?limit=1",
    "/v1/gpus/0000:41:00.0/requests?since=0&until=4611686018427387904&limit=3&vm=alpha",
    "/v1/gpus/0000:41:00.0/requests?since=-1s&until=-0s&vm=departed",
    "/v1/preemptions", "/v1/preemptions?vm=alpha&limit=2", "/v1/snapshot", "/v1/plans",
    "/v1/plans?limit=1", "/v1/events?after=0", "/v1/events?after=0&types=window&wait=0",
    "/v1/events?after=99999&wait=60", "/healthz", "/readyz", "/v1/peers", "/v1/alerts", "/v1/nova/approvals",
    "/v1/cluster/migrations", "/v1/cluster/migrations?limit=1&active=true",
    "/v1/snapshot?peers=false", "/v1/migrations", "/v1/migrations?limit=1&active=true",
    "/v1/events?since=-12h", "/v1/events?limit=1&types=vm,alert", "/v1/events?until=-1min",
    "/v1/events?from=5f6c0c1e-9a0b-4b57-8b0e-000000000000-1",
    "/v1/host/history", "/v1/host/history?since=1795200000&until=1795203601.5&step=10min&source=live",
    "/v1/host/history?since=-7d&until=-1d", "/v1/reservations", "/v1/vms?since=-12h", "/v1/vms?until=-1min&sort=name&limit=1",
    "/v1/preemptions?since=-7d&until=-12h", "/v1/preemptions?since=-1d&vm=alpha&limit=1",
]


@pytest.fixture(scope="module")
def contract(server):
    return Contract(server.get("/v1/openapi.json").json())


@pytest.mark.smoke
@pytest.mark.parametrize("url", GOOD)
def test_good(server, contract, url):
    answer = server.get(url)
    assert answer.status == 200, answer.body
    contract.check("GET", url, answer)
    head = server.request("HEAD", url)
    assert (head.status, head.body) == (200, b"")
    assert head.type == answer.type


@pytest.mark.smoke
def test_moves(server, contract):
    def post(url, document, status):
        answer = server.post(url, document)
        assert answer.status == status, answer.body
        contract.check("POST", url, answer)
        return answer

    made = post("/v1/migrations", {"vm": "alpha", "to": "node-b", "no_agent": True}, 201)
    url = made.headers["Location"]
    assert url == f"/v1/migrations/{made.json()['id']}"
    for _ in range(4):
        contract.check("GET", url, server.get(url))
    post(url + "/abort", {}, 202)
    while server.get(url).json()["ended_ns"] == 0:
        pass
    got = server.get(url)
    contract.check("GET", url, got)
    assert got.json()["state"] == "aborted" and b"shmem" not in got.body
    assert made.json()["id"] in [m["id"] for m in server.get("/v1/migrations").json()["items"]]
    of_all = server.get("/v1/cluster/migrations")
    contract.check("GET", "/v1/cluster/migrations", of_all)
    assert (made.json()["id"], None) in [(m["id"], m["peer"]) for m in of_all.json()["items"]]
    assert [u["host"] for u in of_all.json()["unknown"]] == ["node-b"]
    assert server.get("/v1/cluster/migrations?active=maybe").status == 400
    assert made.json()["id"] not in [m["id"] for m in
                                     server.get("/v1/migrations?active=true").json()["items"]]
    passed_on = {"vm": "alpha", "to": "node-b", "on_behalf_of": "uid:7 at node-a"}
    assert post("/v1/migrations", passed_on, 201).json()["asked_by"] == f"uid:7 at node-a, says uid:{os.getuid()}"
    again = post(url + "/retry", {}, 202).json()
    assert (again["state"], again["retries"], again["ended_ns"]) == ("pending", 1, 0)
    assert again["retried_by"] == again["asked_by"]
    post(url + "/retry", {}, 409)
    post("/v1/migrations/move-none/retry", {}, 404)
    check = post("/v1/migrations", {"vm": "alpha", "to": "full", "dry_run": True}, 200).json()
    assert check["dry_run"] and len(check["problems"]) == 1
    post("/v1/migrations", {"vm": "alpha", "to": "full"}, 409)
    post("/v1/migrations", {"vm": "alpha", "to": "off"}, 422)
    for dry_run in (False, True):
        away = post("/v1/migrations", {"vm": "alpha", "to": "away", "dry_run": dry_run}, 502).json()
        assert (away["code"], away["detail"]) == ("unreachable", "cannot connect to 'qemu+tls://away/system'")
    post("/v1/migrations", {"vm": "nobody", "to": "node-b"}, 404)
    for bad in ({}, {"vm": "alpha"}, {"vm": "", "to": "b"}, {"vm": 1, "to": "b"},
                {"vm": "alpha", "to": "b", "more": 1}, {"vm": "alpha", "to": "b", "dry_run": 1}):
        post("/v1/migrations", bad, 400)


@pytest.mark.smoke
def test_what_is_at_paths(server, contract):
    """As many as may be are asked for at once; it is no write."""
    before = len(server.get("/v1/audit").json()["items"])
    url, long = "/v1/paths", "/" + "x" * 4095
    many = ["/images/guest0", "/gone"] + [long] * 126
    answer = server.post(url, {"paths": many})
    contract.check("POST", url, answer)
    items = answer.json()["items"]
    assert [i["path"] for i in items] == many
    assert [i["state"] for i in items[:2]] == ["there", "missing"] and items[0]["file_system"] == "nfs4"
    assert server.post(url, {"paths": []}).json() == {"items": []}
    for bad in ({}, {"paths": "/a"}, {"paths": ["a"]}, {"paths": [""]}, {"paths": [1]}, {"paths": ["/a"], "x": 1},
                {"paths": [long + "x"]}, {"paths": ["/a"] * 129}):
        answer = server.post(url, bad)
        assert answer.status == 400, (bad, answer.body)
        contract.check("POST", url, answer)
    assert len(server.get("/v1/audit").json()["items"]) == before


@pytest.mark.smoke
def test_what_schedulers_ask(server, contract):
    """It is answered, and neither counted as a write nor kept."""
    before = len(server.get("/v1/audit").json()["items"])
    names = ["other", "full", "nobody", "good"]
    ours = server.post("/v1/nova/placement", {
        "instance": {"vcpus": 4, "class": None, "gpu_type": "nvidia-63"},
        "hosts": [{"name": n} for n in names]})
    assert ours.status == 200, ours.body
    contract.check("POST", "/v1/nova/placement", ours)
    assert [(h["name"], h["verdict"], h["score"]) for h in ours.json()["hosts"]] == [
        ("other", "pass", 0.3), ("full", "veto", 0), ("nobody", "unknown", 0.5), ("good", "pass", 0.9)]
    url = "/scheduler/nova/external"
    hook = server.post(url, {"spec": {"nova_object.data": {"flavor": {"nova_object.data": {"vcpus": 2}}}},
                             "hosts": [{"host": n, "hypervisor_hostname": n} for n in names + ["third"]],
                             "weights": {"third": 2.0, "other": 1.0}})
    assert hook.status == 200 and hook.json() == {"hosts": ["good", "nobody", "third", "other"]}
    contract.check("POST", url, hook)
    assert server.post(url, {"hosts": [{"host": "full"}]}).json() == {"hosts": ["full"]}
    assert server.post(url, {"hosts": []}).json() == {"hosts": []}
    many = {"instance": {}, "hosts": [{"name": f"node-{i}.example.org", "uuid": "u" * 36} for i in range(2000)]}
    assert len(server.post("/v1/nova/placement", many).json()["hosts"]) == 2000
    for instance in ({"gpus": 2}, {"gpus": 0}, {"gpu_type": "nvidia-63", "gpus": 0}):
        assert server.post("/v1/nova/placement", {"instance": instance, "hosts": []}).status == 200
    for bad in ({}, {"instance": {}}, {"hosts": []}, {"instance": {"vcpus": 0}, "hosts": []},
                {"instance": {"gpus": 65}, "hosts": []}, {"instance": {"gpus": -1}, "hosts": []},
                {"instance": {"class": "x"}, "hosts": []}, {"instance": {}, "hosts": [{}]},
                {"instance": {}, "hosts": [{"name": "x"}] * 2001}, []):
        answer = server.post("/v1/nova/placement", bad)
        assert answer.status == 400, (bad, answer.body)
    assert len(server.get("/v1/audit").json()["items"]) == before


def test_proxies_of_a_host(server, contract):
    for host, status in ("node-b", 200), ("nowhere", 404), ("", 400), ("x" * 256, 400):
        answer = server.get(f"/v1/proxies?host={host}")
        assert answer.status == status, host
        contract.check("GET", "/v1/proxies", answer)


def test_memory_of_proxies(server, contract):
    want = {"id": "share-1", "socket": "tcp:192.168.122.1:7000", "seconds": 60, "memory_bytes": 1 << 30}
    kept = server.post("/v1/proxies/reservations", want)
    assert kept.status == 200 and kept.json() == want
    contract.check("POST", "/v1/proxies/reservations", kept)
    refused = server.post("/v1/proxies/reservations", {**want, "memory_bytes": (1 << 30) + 1})
    assert refused.status == 409
    contract.check("POST", "/v1/proxies/reservations", refused)
    for bad in ({}, {**want, "id": "a b"}, {**want, "id": ""}, {**want, "id": "a\n"}, {**want, "id": "x" * 64}, {**want, "seconds": 0},
                {**want, "seconds": 86401}, {**want, "memory_bytes": 0}, {**want, "x": 1}):
        assert server.post("/v1/proxies/reservations", bad).status == 400, bad
    assert server.request("DELETE", "/v1/proxies/reservations/kept").status == 204
    assert server.request("DELETE", "/v1/proxies/reservations/other").status == 404


@pytest.mark.smoke
def test_reservations(server, contract):
    want = {"move_id": "move-1", "vm": "guest0", "uuid": "5c9e2c3a-0d8f-4f0a-9d64-1f3c1c7c5a01",
            "from": "node-a", "lease_s": 60, "devices": [{"kind": "mdev", "type": "nvidia-63"}]}
    made = server.post("/v1/reservations", want)
    assert made.status == 201, made.body
    contract.check("POST", "/v1/reservations", made)
    url = made.headers["Location"]
    renewed = server.post(url, {"lease_s": 100})
    assert renewed.status == 200 and renewed.json()["lease_s"] == 100
    contract.check("POST", url, renewed)
    kept = len(server.get("/v1/reservations").json()["items"])
    could = server.post("/v1/reservations", {**want, "dry_run": True})
    assert could.status == 200 and could.json()["id"] is None and "Location" not in could.headers
    contract.check("POST", "/v1/reservations", could)
    listed = server.get("/v1/reservations")
    contract.check("GET", "/v1/reservations", listed)
    assert len(listed.json()["items"]) == kept
    assert made.json()["id"] in [r["id"] for r in listed.json()["items"]]
    for bad in ({}, {"lease_s": 1}, {"lease_s": 60, "x": 1}):
        assert server.post(url, bad).status == 400
    for bad in ({**want, "lease_s": 0}, {**want, "devices": 1}, {**want, "devices": [{"kind": "x"}]}):
        assert server.post("/v1/reservations", bad).status == 400, bad
    assert server.request("DELETE", url).status == 204
    assert server.request("DELETE", url).status == 404


@pytest.mark.smoke
def test_plan(server, contract):
    made = server.post("/v1/plans", PLAN)
    assert made.status == 201
    contract.check("POST", "/v1/plans", made)
    again = server.post("/v1/plans", PLAN)
    assert again.status == 200
    contract.check("POST", "/v1/plans", again)
    assert again.json() == made.json()
    assert again.headers["Location"] == made.headers["Location"]
    read = server.get(made.headers["Location"])
    contract.check("GET", made.headers["Location"], read)
    assert read.json() == made.json()
    other = server.post("/v1/plans", {"dry_run": True, "rule": "paper-threshold"})
    assert other.status == 201
    first = server.get("/v1/plans?limit=1").json()
    assert [p["id"] for p in first["items"]] == [other.json()["id"]]
    second = server.get("/v1/plans?limit=1&marker=" + first["next"])
    contract.check("GET", "/v1/plans", second)
    assert [p["id"] for p in second.json()["items"]] == [made.json()["id"]]
    assert second.json()["next"] is None


def one_of(path):
    """The path, with something that there is."""
    kinds = {"/v1/gpus/": GPU, "/v1/hosts/": "test-host"}
    return path.replace("{id}", next((known for start, known in kinds.items() if path.startswith(start)), "alpha"))


def bad_values(schema):
    """(name, text) that the schema refuses as a parameter."""
    kind = schema.get("type")
    if kind == "integer":
        yield from (("word", "x"), ("empty", ""), ("fraction", "1.5"), ("huge", "1" * 30),
                    ("exponent", "1e3"), ("blank", " 1"), ("sign", "+1"), ("hex", "0x1"))
        if "minimum" in schema:
            yield "below", str(schema["minimum"] - 1)
        if "maximum" in schema:
            yield "above", str(schema["maximum"] + 1)
    if "enum" in schema:
        yield from (("none of them", "nothing"), ("empty", ""), ("case", schema["enum"][0].upper()))
    if "pattern" in schema:
        for text in ("", "nothing at all", "-", "1x", "'", "2026-11-20", "a,,b", "99999999999999s", "9" * 20, "-1"):
            if not re.search(schema["pattern"], text):
                yield f"pattern {text}", text
    if schema.get("minLength"):
        yield "short", ""
    if "maxLength" in schema:
        yield "long", "x" * (schema["maxLength"] + 1)


def test_bad_parameters(server, contract):
    n = 0
    for path, method, operation in contract.operations():
        if method != "GET":
            continue
        base = one_of(path)
        for parameter in contract.parameters(operation, "query"):
            for name, text in bad_values(contract.deref(parameter["schema"])):
                url = f"{base}?{parameter['name']}={quote(text)}"
                answer = server.get(url)
                assert answer.status == 400, (url, name, answer.status, answer.body)
                contract.check("GET", url, answer)
                assert parameter["name"] in answer.json()["detail"], answer.json()
                n += 1
        for query in ("?nothing=1", "?%00=1", "?a%ff=1", "?=1", "?a%2=1", "?&", "?a%zz"):
            answer = server.get(base + query)
            assert answer.status == 400, (base + query, answer.status)
            contract.check("GET", base, answer)
            n += 1
    assert n > 100


def test_bounds_of_integers(server, contract):
    for path, method, operation in contract.operations():
        for parameter in contract.parameters(operation, "query"):
            schema = contract.deref(parameter["schema"])
            if method != "GET" or schema.get("type") != "integer" or parameter["name"] == "wait":
                continue
            for number in (schema["minimum"], schema["maximum"]):
                url = f"{one_of(path)}?{parameter['name']}={number}"
                answer = server.get(url)
                assert answer.status == 200, (url, answer.body)
                contract.check("GET", url, answer)


BAD_BODIES = [
    b"", b" ", b"{", b"[1,", b"[]", b"null", b"1", b'"x"', b"\xff", b'{"dry_run":"true"}', b"{}",
    b'{"dry_run":1}', b'{"dry_run":null}', b'{"dry_run":true,"x":1}', b'{"dry_run":true}}',
    b'{"dry_run":true,"rule":null}', b'{"dry_run":true,"rule":7}', b'{"dry_run":true,"rule":""}',
    b'{"dry_run":true,"rule":"nothing"}', b'{"dry_run":true,}', b'/**/{"dry_run":true}',
    b'{"dry_run":true,"rule":"a\\u0000b"}', b'{"rule":"complement"}', b'{"dry_run":true}\0',
    b'{"x":' + b"[" * 200 + b"]" * 200 + b"}", b"'" * 1024,
]


@pytest.mark.parametrize("body", BAD_BODIES)
def test_bad_body(server, contract, body):
    answer = server.post("/v1/plans", body)
    assert answer.status == 400, (body, answer.status, answer.body)
    contract.check("POST", "/v1/plans", answer)


@pytest.mark.smoke
def test_routes_are_those_of_the_contract(contract):
    program = os.path.join(build_dir(), "tests", "tools", "api-server")
    lines = subprocess.run([program, "--list-routes"], stdout=subprocess.PIPE, check=True,
                           text=True).stdout.splitlines()
    ours = {}
    for line in lines:
        method, path, *rest = line.split()
        ours[(path, method)] = (sorted(w for w in rest if w.isdigit()),
                                sorted(w for w in rest if not w.isdigit()))
    theirs = {(path, method): (sorted(operation["responses"]),
                               sorted(p["name"] for p in contract.parameters(operation, "query")))
              for path, method, operation in contract.operations()}
    assert ours == theirs


def test_examples(contract):
    found = []

    def walk(node, where):
        if isinstance(node, dict):
            if "schema" in node and "example" in node and "in" not in node:
                found.extend((where, e) for e in contract.errors(node["schema"], node["example"]))
            for key, value in node.items():
                walk(value, f"{where}/{key}")
        elif isinstance(node, list):
            for i, value in enumerate(node):
                walk(value, f"{where}/{i}")
    walk(contract.document, "")
    assert not found


@pytest.mark.drawn("network")
def test_lint(tmp_path):
    npx = shutil.which("npx")
    if not npx:
        pytest.skip("npx is not installed")
    try:
        subprocess.run([npx, "--yes", "@redocly/cli", "--version"], cwd=tmp_path,
                       capture_output=True, timeout=HANG_S, check=True)
    except subprocess.SubprocessError:
        pytest.skip("npx cannot get @redocly/cli")
    done = subprocess.run(
        [npx, "--yes", "@redocly/cli", "lint", "--format", "json",
         os.path.join(ROOT, "schema", "api", "openapi.yaml")],
        cwd=tmp_path, capture_output=True, timeout=HANG_S, check=False)
    report = json.loads(done.stdout)
    assert report["problems"] == [], json.dumps(report["problems"], indent=1)[:4000]
