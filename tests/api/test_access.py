# SPDX-License-Identifier: Apache-2.0
"""Who may do what: every operation of the contract, for every role, over every way in."""
import http.client
import json
import os
import socket
import ssl
import subprocess
import tempfile
from contextlib import closing

import pytest
from certs import Authority
from contract import Contract
from settings import HANG_S
from tlsserver import TlsServer
from unixhttp import Answer, build_dir, read_all, wait_for

ROLES = ("none", "reader", "operator", "admin")
# What operations want, by hand: that the contract says so is tested, too. Those not named here read,
# and are a reader's.
WANTED = {("GET", "/healthz"): "none",
          ("GET", "/ui"): "none", ("GET", "/ui/app.js"): "none", ("GET", "/ui/app.css"): "none",
          ("POST", "/v1/hosts/{id}/drain"): "operator", ("DELETE", "/v1/hosts/{id}/drain"): "operator",
          ("POST", "/v1/nova/placement"): "reader", ("POST", "/scheduler/nova/external"): "reader",
          ("POST", "/v1/vms/{id}/vulkan"): "operator", ("POST", "/v1/vms/{id}/proxy"): "operator",
          ("POST", "/v1/vms/{id}/proxy/move"): "operator", ("POST", "/v1/proxies/reservations"): "peer",
          ("DELETE", "/v1/proxies/reservations/{id}"): "peer",
          ("POST", "/v1/vms/{id}/policy"): "operator", ("POST", "/v1/policy/pause"): "operator",
          ("POST", "/v1/policy/resume"): "operator",
          ("POST", "/v1/plans"): "operator",
          ("POST", "/v1/migrations"): "operator", ("POST", "/v1/migrations/{id}/abort"): "operator",
          ("POST", "/v1/migrations/{id}/retry"): "operator",
          ("POST", "/v1/reservations"): "peer", ("POST", "/v1/reservations/{id}"): "peer",
          ("DELETE", "/v1/reservations/{id}"): "peer",
          ("POST", "/v1/paths"): "peer",
          ("GET", "/v1/tokens"): "admin", ("POST", "/v1/tokens"): "admin",
          ("DELETE", "/v1/tokens/{id}"): "admin", ("GET", "/v1/audit"): "admin"}
# What the vgpud of another host needs besides, whatever role of persons that wants.
PEERS_TOO = {("GET", "/"), ("GET", "/v1/snapshot"), ("GET", "/v1/nova/approvals"), ("GET", "/v1/proxies"),
             ("GET", "/v1/migrations"), ("POST", "/v1/migrations"), ("GET", "/v1/migrations/{id}"),
             ("POST", "/v1/migrations/{id}/abort"), ("POST", "/v1/migrations/{id}/retry"),
             ("GET", "/v1/hosts/{id}/drain"), ("POST", "/v1/hosts/{id}/drain"),
             ("DELETE", "/v1/hosts/{id}/drain"), ("GET", "/v1/vms/{id}/samples"),
             ("GET", "/v1/host/history")}
# Tokens that tests/tools/api-server has from the start are NAME-token.
TOKENS = ("reader", "operator", "admin", "peer")
BODIES = {("POST", "/v1/plans"): b'{"dry_run": true}',
          ("POST", "/v1/migrations"): b'{"vm": "alpha", "to": "node-b"}',
          ("POST", "/v1/migrations/{id}/abort"): b"{}",
          ("POST", "/v1/migrations/{id}/retry"): b"{}",
          ("POST", "/v1/nova/placement"): b'{"instance": {}, "hosts": []}',
          ("POST", "/scheduler/nova/external"): b'{"hosts": []}',
          ("POST", "/v1/reservations"): b'{"move_id": "m", "vm": "v", "uuid": "u", "from": "f", '
                                        b'"lease_s": 60, "devices": []}',
          ("POST", "/v1/reservations/{id}"): b'{"lease_s": 60}',
          ("POST", "/v1/hosts/{id}/drain"): b"{}",
          ("POST", "/v1/vms/{id}/vulkan"): b'{"enabled": true}', ("POST", "/v1/vms/{id}/proxy"): b'{"weight": 3}',
          ("POST", "/v1/vms/{id}/proxy/move"): b'{"to": "direct"}',
          ("POST", "/v1/vms/{id}/policy"): b'{"mode": "propose"}',
          ("POST", "/v1/proxies/reservations"): b'{"id": "i", "socket": "s", "seconds": 1, "memory_bytes": 1}',
          ("POST", "/v1/paths"): b'{"paths": ["/gone"]}',
          ("POST", "/v1/tokens"): b'{"name": "another", "role": "reader"}'}
NOBODY = {"nothing": {}, "unknown": {"Authorization": "Bearer unknown-token"},
          "expired": {"Authorization": "Bearer expired-token"},
          "revoked": {"Authorization": "Bearer revoked-token"},
          "basic": {"Authorization": "Basic cmVhZGVyOnJlYWRlcg=="},
          "empty": {"Authorization": "Bearer "}, "odd": {"Authorization": "reader-token"}}
NOWHERE = (("GET", "/nothing"), ("GET", "/v1/vms/nobody"), ("DELETE", "/v1/vms"), ("HEAD", "/v1/vms"),
           ("OPTIONS", "/v1/vms"), ("OPTIONS", "/nothing"), ("POST", "/v1/nothing"),
           ("GET", "/v1/vms?x=1"), ("GET", "/v1/vms/%00"), ("PUT", "/healthz/x"))


@pytest.fixture(scope="module")
def clients(authority):
    """By name: certificates of clients. The server knows the operator's subject."""
    return {"operator": authority.issue("ops", server=False),
            "stranger": authority.issue("stranger", server=False)}


def start_tls(directory, authority, *options):
    """One that knows a certificate, and a token that has been revoked."""
    server = TlsServer(directory, authority, "--client-ca", authority.certificate, "--operator",
                       "CN=ops", *options)
    assert server.post("/v1/tokens", {"name": "revoked", "role": "admin"}).status == 201
    assert server.over_tls("GET", "/v1/audit", NOBODY["revoked"]).status == 200
    assert server.request("DELETE", "/v1/tokens/revoked").status == 204
    return server


@pytest.fixture(scope="module")
def tls(tmp_path_factory, authority):
    server = start_tls(tmp_path_factory.mktemp("tls"), authority)
    yield server
    server.stop()


# ---- every operation for everybody ----

def wanted(path, method):
    return WANTED.get((method, path), "reader")


def call(path, method):
    """The URL, header fields and body of a good call, of something that is there if it is to be read."""
    headers = {"Content-Type": "application/json"} if (method, path) in BODIES else {}
    known = "nobody" if path.startswith("/v1/tokens") else "test-host" if path.startswith("/v1/hosts") else "alpha"
    url = path.replace("{id}", known)
    if path == "/v1/events":
        url += "?after=99999&wait=0"
    return url, headers, BODIES.get((method, path))


def allowed(answer):
    return answer.status not in (401, 403)


def may_use(role, path, method):
    """An operator may still do what only peers need."""
    if role == "peer":
        return wanted(path, method) in ("none", "peer") or (method, path) in PEERS_TOO
    want = "operator" if wanted(path, method) == "peer" else wanted(path, method)
    return ROLES.index(role) >= ROLES.index(want)


def check_document(_, contract):
    """The contract names the role of each operation, which is what was meant."""
    named = {(method, path): operation.get("x-role")
             for path, method, operation in contract.operations()}
    assert len(named) > 20 and set(WANTED) <= set(named)
    assert PEERS_TOO == {(method, path) for path, method, operation in contract.operations()
                         if operation.get("x-peer")}
    for (method, path), role in named.items():
        assert role == wanted(path, method), (path, method, role)
        assert method == "GET" or (method, path) in WANTED, (path, method)


def check_token(server, contract, role):
    with closing(server.connect_tls()) as connection:
        for path, method, _ in contract.operations():
            url, headers, body = call(path, method)
            headers["Authorization"] = f"Bearer {role}-token"
            if role == "peer":
                headers["X-Vgpud-Person"] = "token:operator at node-b"
            answer = server.request(method, url, body, headers, connection)
            may = may_use(role, path, method)
            assert allowed(answer) == may, (path, method, role, answer.status)
            assert may or answer.status == 403
            contract.check(method, url, answer)


def check_nobody(server, contract, who):
    """Whoever does not say who he is learns nothing, not even what there is."""
    with closing(server.connect_tls()) as connection:
        for path, method, _ in contract.operations():
            url, headers, body = call(path, method)
            answer = server.request(method, url, body, {**headers, **NOBODY[who]}, connection)
            if wanted(path, method) == "none":
                assert answer.status == 200
                # Nothing of the host, and the page.
                assert path.startswith("/ui") or answer.json() == {"status": "ok"}
                continue
            assert answer.status == 401, (path, method, answer.status)
            assert answer.headers["WWW-Authenticate"].startswith("Bearer")
            contract.check(method, url, answer)
        for method, url in NOWHERE:
            answer = server.request(method, url, headers=NOBODY[who], connection=connection)
            assert answer.status == 401, (method, url, answer.status)


def check_certificates(server, contract, clients):
    """A certificate whose subject has no role is nobody's."""
    with closing(server.connect_tls(clients["operator"])) as operator, \
            closing(server.connect_tls(clients["stranger"])) as stranger:
        for path, method, _ in contract.operations():
            url, headers, body = call(path, method)
            answer = server.request(method, url, body, headers, operator)
            assert allowed(answer) == may_use("operator", path, method), (path, method, answer.status)
            answer = server.request(method, url, body, headers, stranger)
            assert (answer.status == 401) == (wanted(path, method) != "none"), (path, answer.status)


def statuses_on_socket(server, calls, uid, gid):
    """What a user of this machine is answered."""
    script = "\nnext\n".join(
        "\n".join([f'url = "http://x{url}"', f'request = "{method}"', f'output = "{os.devnull}"',
                   f'unix-socket = "{server.path}"', r'write-out = "%{http_code}\n"',
                   f"max-time = {HANG_S}",
                   *(f'header = "{name}: {value}"' for name, value in headers.items()),
                   *(["data = " + json.dumps(body.decode())] if body else [])])
        for method, url, headers, body in calls)
    done = subprocess.run(["setpriv", "--reuid", str(uid), "--regid", str(gid), "--clear-groups",
                           "curl", "-sS", "-K", "-"], input=script, capture_output=True, text=True,
                          timeout=HANG_S, check=True)
    return [int(line) for line in done.stdout.split()]


def check_socket(server, contract):
    """nobody reads, a member of the group operates, root is admin."""
    operations = [(path, method) for path, method, _ in contract.operations()]
    calls = [(method, *call(path, method)) for path, method in operations]
    for uid, gid, role in ((65534, 65534, "reader"), (65534, 1, "operator"), (0, 0, "admin")):
        statuses = statuses_on_socket(server, calls, uid, gid)
        assert len(statuses) == len(operations)
        for (path, method), status in zip(operations, statuses):
            assert (status != 403) == may_use(role, path, method), (path, method, role, status)
            assert status != 401


def table(clients):
    """All of it, as name -> check."""
    checks = {"document": check_document,
              "certificates": lambda *server: check_certificates(*server, clients)}
    for role in TOKENS:
        checks[f"token {role}"] = lambda *server, role=role: check_token(*server, role)
    for who in NOBODY:
        checks[f"nobody {who}"] = lambda *server, who=who: check_nobody(*server, who)
    if os.geteuid() == 0:
        checks["socket"] = check_socket
    return checks


@pytest.fixture(scope="module")
def open_directory():
    """Whose socket everybody can get to: pytest shuts its own."""
    with tempfile.TemporaryDirectory(prefix="vg-") as directory:
        os.chmod(directory, 0o755)
        yield directory


PUBLIC = ("--mode", "666", "--group", "daemon") if os.geteuid() == 0 else ()


def contract_of(server):
    return Contract(server.get("/v1/openapi.json").json())


def failed(clients, server):
    """Checks of the table that do not hold, with what they say."""
    contract = contract_of(server)
    found = {}
    for name, check in table(clients).items():
        try:
            check(server, contract)
        except AssertionError as error:
            found[name] = str(error)
    return found


def test_every_operation_for_everybody(open_directory, authority, clients):
    server = start_tls(open_directory, authority, *PUBLIC)
    assert failed(clients, server) == {}
    server.stop()


# Of faults that api-server has: which checks of the table find them.
FAULTS = {"no-role-read": {"document", "certificates", "token reader", "token operator", "token peer",
                          "socket"},
          "weak-role": {"document", "token reader", "socket"},
          "expired": {"nobody expired"}, "revoked": {"nobody revoked"},
          "not-found": {f"nobody {who}" for who in NOBODY}}


@pytest.mark.drawn("access-faults")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(open_directory, authority, clients, fault):
    server = start_tls(open_directory, authority, *PUBLIC, "--fault", fault)
    found = failed(clients, server)
    assert set(found) == FAULTS[fault] & set(table(clients)), found
    server.stop()


def test_without_a_role_in_the_contract_there_is_no_start(tmp_path):
    program = os.path.join(build_dir(), "tests", "tools", "api-server")
    done = subprocess.run([program, "--socket", tmp_path / "s", "--fault", "no-role"], text=True,
                          capture_output=True, timeout=HANG_S, check=False)
    assert done.returncode == 1 and "names no role for /v1/audit get" in done.stderr


def test_of_certificate_and_token_the_token_counts(tls, clients):
    headers = {"Authorization": "Bearer admin-token"}
    assert tls.over_tls("GET", "/v1/tokens", headers, client=clients["stranger"]).status == 200


def test_a_foreign_certificate(tls, tmp_path):
    """The subject is right, and another CA says so: refused in the handshake, or as nobody."""
    other = Authority(tmp_path / "other", "other CA").issue("ops", server=False)
    try:
        assert tls.over_tls("GET", "/v1/vms", client=other).status == 401
    except (ssl.SSLError, ConnectionError):
        pass


def test_certificate_required(tmp_path, authority, clients):
    server = TlsServer(tmp_path, authority, "--client-ca", authority.certificate,
                       "--client-required", "--operator", "CN=ops")
    token = {"Authorization": "Bearer admin-token"}
    assert server.over_tls("GET", "/v1/vms", token).status == 401
    assert server.over_tls("GET", "/v1/vms", token, client=clients["stranger"]).status == 200
    assert server.over_tls("GET", "/v1/vms", client=clients["operator"]).status == 200
    server.stop()


def test_what_a_certificate_is_for(tls, authority, tmp_path):
    """The subject has a role; the usages must let it be a client's, but for a peer's, which is made out to its host."""
    def status(file, uses, *lines):
        client = authority.issue("ops", *lines, uses=uses, file=file)
        return tls.over_tls("GET", "/v1/vms", client=client).status

    web, peer = 'dns_name = "web.example"', 'dns_name = "peer.example"'
    assert status("none", []) == status("client", ["tls_www_client"]) == 200
    assert status("both", ["tls_www_server", "tls_www_client"], web) == 200
    assert status("web", ["tls_www_server"], web) == status("mail", ["email_protection_key"]) == 401
    assert "peer.example" not in tls.messages()
    assert status("peer", ["tls_www_server"], peer) == 200
    assert "a peer's certificate is valid only for servers" in tls.messages() and 'peer="peer.example"' in tls.messages()


def test_a_required_certificate_is_a_clients(tmp_path, authority):
    server = TlsServer(tmp_path, authority, "--client-ca", authority.certificate, "--client-required", "--operator", "CN=ops")
    token = {"Authorization": "Bearer admin-token"}
    web = authority.issue("web", 'dns_name = "web.example"', uses=["tls_www_server"])
    answer = server.over_tls("GET", "/v1/vms", token, client=web)
    assert answer.status == 401 and "this is not a client certificate" in answer.json()["detail"]
    server.stop()


def test_tls_only(tls):
    """Nothing is served in the clear, nor with what is older than TLS 1.2."""
    with socket.create_connection((tls.host, tls.port), timeout=HANG_S) as sock:
        sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"HTTP" not in read_all(sock)
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    old.set_ciphers("ALL:@SECLEVEL=0")
    with socket.create_connection((tls.host, tls.port), timeout=HANG_S) as sock, \
            pytest.raises((ssl.SSLError, ConnectionError)):
        old.wrap_socket(sock)


def audit(server):
    return [{k: e[k] for k in ("identity", "role", "origin", "method", "route", "object", "status")}
            for e in server.get("/v1/audit").json()["items"]]


def test_writes_are_audited(tmp_path, authority):
    server = TlsServer(tmp_path, authority)
    made = server.post("/v1/plans", {"dry_run": True}).json()["id"]
    ops = {"Authorization": "Bearer operator-token", "Content-Type": "application/json"}
    reader = {**ops, "Authorization": "Bearer reader-token"}
    admin = {"Authorization": "Bearer admin-token", "Content-Type": "application/json"}
    assert server.over_tls("POST", "/v1/plans", ops, b"{}").status == 400
    assert server.over_tls("POST", "/v1/plans", reader, b'{"dry_run": true}').status == 403
    assert server.over_tls("POST", "/v1/tokens", admin, BODIES["POST", "/v1/tokens"]).status == 201
    assert server.over_tls("DELETE", "/v1/tokens/another", admin).status == 204
    assert server.over_tls("DELETE", "/v1/tokens/another", admin).status == 404
    assert server.over_tls("GET", "/v1/vms", reader).status == 200
    assert server.over_tls("GET", "/v1/tokens", reader).status == 403

    def entry(identity, role, method, route, thing, status, origin="127.0.0.1"):
        return {"identity": identity, "role": role, "origin": origin, "method": method,
                "route": route, "object": thing, "status": status}
    # The newest first; who only reads what that role may read is not in it.
    assert audit(server) == [
        entry("token:reader", "reader", "GET", "/v1/tokens", "", 403),
        entry("token:admin", "admin", "DELETE", "/v1/tokens/{id}", "another", 404),
        entry("token:admin", "admin", "DELETE", "/v1/tokens/{id}", "another", 204),
        entry("token:admin", "admin", "POST", "/v1/tokens", "another", 201),
        entry("token:reader", "reader", "POST", "/v1/plans", "", 403),
        entry("token:operator", "operator", "POST", "/v1/plans", "", 400),
        entry(f"uid:{os.geteuid()}", "admin", "POST", "/v1/plans", made, 201, "unix"),
    ]
    page = server.get("/v1/audit?limit=2").json()
    assert len(page["items"]) == 2
    rest = server.get("/v1/audit?limit=10&marker=" + page["next"]).json()
    assert [e["status"] for e in rest["items"]] == [204, 201, 403, 400, 201] and rest["next"] is None
    server.stop()


def test_a_token_is_told_once(tmp_path, authority):
    server = TlsServer(tmp_path, authority)
    answer = server.post("/v1/tokens", {"name": "new", "role": "reader", "lifetime_s": 60})
    assert answer.status == 201 and answer.json()["token"] == "new-token"
    assert answer.json()["expires_ns"] - answer.json()["made_ns"] == 60 * 10**9
    listed = server.get("/v1/tokens")
    assert b"new-token" not in listed.body
    assert {t["name"]: t["role"] for t in listed.json()["items"]}["new"] == "reader"
    for bad in ({"name": "", "role": "reader"}, {"name": "a b", "role": "reader"},
                {"name": "x", "role": "none"}, {"name": "x", "role": "root"}, {"name": "x"},
                {"name": "x", "role": "reader", "lifetime_s": 0},
                {"name": "x", "role": "reader", "more": 1}, {"name": "x" * 65, "role": "reader"}):
        assert server.post("/v1/tokens", bad).status == 400, bad
    assert server.post("/v1/tokens", {"name": "new", "role": "admin"}).status == 409
    assert "new-token" not in server.messages()
    server.stop()


def test_a_revoked_token_ends_its_streams(tmp_path, authority):
    """And no others."""
    server = TlsServer(tmp_path, authority, "--events", 5)
    assert server.post("/v1/tokens", {"name": "gone", "role": "reader"}).status == 201
    with closing(server.connect_tls()) as gone, closing(server.connect_tls()) as kept:
        streams = []
        for connection, token in ((gone, "gone"), (kept, "reader")):
            connection.request("GET", "/v1/events", headers={"Authorization": f"Bearer {token}-token"})
            streams.append(connection.getresponse())
            assert streams[-1].readline() == b": connected\n"
        on_socket = server.stream()
        assert server.request("DELETE", "/v1/tokens/gone").status == 204
        assert b"event:" not in streams[0].read()
        server.event()
        while not streams[1].readline().startswith(b"event:"):
            pass
        assert on_socket.next_event()
        on_socket.close()
        streams[1].close()
    server.stop()


# ---- limits of one client ----

def test_connections_of_one_client(tmp_path, authority):
    """One address takes its share and no more; another one still comes in."""
    server = TlsServer(tmp_path, authority, "--client-connections", 3, "--connections", 100)
    held = [socket.create_connection((server.host, server.port), timeout=HANG_S) for _ in range(10)]
    wait_for(lambda: b'reason="connections"} 7' in server.get("/metrics").body)
    wait_for(lambda: sum(read_all_now(sock) == b"" for sock in held) == 7)
    assert server.get("/v1/vms").status == 200  # the socket, another client
    other = socket.create_connection((server.host, server.port), timeout=HANG_S,
                                     source_address=(server.host[:-1] + "9", 0))
    context = ssl.create_default_context(cafile=authority.certificate)
    with context.wrap_socket(other, server_hostname=server.host) as sock:
        sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert b"200 OK" in read_all(sock)
    for sock in held:
        sock.close()

    def lets_in():
        try:
            return server.over_tls("GET", "/healthz").status == 200
        except (ssl.SSLError, ConnectionError):
            return False
    wait_for(lets_in)
    server.stop()


def read_all_now(sock):
    """What comes from a connection that is closed, or None from one that is open."""
    sock.setblocking(False)
    try:
        return sock.recv(100)
    except BlockingIOError:
        return None
    except ConnectionError:
        return b""


def test_requests_of_one_client(tmp_path, authority):
    server = TlsServer(tmp_path, authority, "--client-requests", 2)
    token = {"Authorization": "Bearer reader-token"}
    answers = [server.over_tls("GET", "/v1", token) for _ in range(2)]
    # However slow it is, sooner or later one is too many: a connection takes more of them.
    context = ssl.create_default_context(cafile=authority.certificate)
    connection = http.client.HTTPSConnection(server.host, server.port, context=context,
                                             timeout=HANG_S)

    def refused():
        connection.request("GET", "/v1", headers=token)
        response = connection.getresponse()
        answers.append(Answer(response, response.read()))
        return answers[-1].status == 429
    wait_for(refused, pause=0)
    assert int(answers[-1].headers["Retry-After"]) >= 1
    connection.close()
    assert {a.status for a in answers} == {200, 429}
    server.stop()


# ---- the vgpud of another host ----

def as_peer(server, method, path, body=None, person=None):
    headers = {"Authorization": "Bearer peer-token", "Content-Type": "application/json"}
    if person:
        headers["X-Vgpud-Person"] = person
    return server.over_tls(method, path, headers, None if body is None else json.dumps(body).encode())


def test_a_peer_acts_for_persons_only(tls):
    """And for those only that may do the same here; what is recorded has both, whoever says so."""
    asked = {"vm": "alpha", "to": "node-b"}
    for person in ("token:operator at h1", "token:admin at h1", "cert:CN=ops at h1", "uid:0 at h1", "uid:0"):
        answer = as_peer(tls, "POST", "/v1/migrations", {**asked, "on_behalf_of": person})
        assert answer.status == 201 and answer.json()["asked_by"] == f"{person}, says token:peer", answer.body
    for person in ("token:reader at h1", "token:expired at h1", "token:peer at h1", "token:nobody at h1",
                   "cert:CN=stranger at h1", "uid:4242 at h1", "uid:0x0 at h1", "uid: at h1", "operator", "x:y",
                   "uid:0 at h1, says token:operator at h2"):
        answer = as_peer(tls, "POST", "/v1/migrations", {**asked, "on_behalf_of": person})
        assert answer.status == 403 and "is not an operator here" in answer.json()["detail"], (person, answer.body)
    answer = as_peer(tls, "POST", "/v1/migrations", asked)
    assert answer.status == 403 and "only for a person" in answer.json()["detail"]
    move = as_peer(tls, "POST", "/v1/migrations", asked, "uid:0 at h1").json()["id"]
    for verb in ("abort", "retry"):
        assert as_peer(tls, "POST", f"/v1/migrations/{move}/{verb}", {}).status == 403
    assert as_peer(tls, "POST", f"/v1/migrations/{move}/abort", {}, "uid:0 at h1").status == 202
    assert as_peer(tls, "POST", f"/v1/migrations/{move}/retry", {}, "uid:0 at h1").status in (202, 409)
    assert as_peer(tls, "DELETE", "/v1/hosts/test-host/drain").status == 403
    assert as_peer(tls, "DELETE", "/v1/hosts/test-host/drain", person="uid:0 at h1").status == 204


def test_a_peer_is_answered_for_this_host_only(tls):
    """It does not have this vgpud ask others, by whom that has more rights."""
    person = "uid:0 at h1"
    for method, path, body in (("POST", "/v1/migrations", {"vm": "alpha", "to": "node-b", "forward": True}),
                               ("GET", "/v1/migrations/move-1?peer=node-b", None),
                               ("POST", "/v1/migrations/move-1/abort?peer=node-b", {}),
                               ("POST", "/v1/migrations/move-1/retry?peer=node-b", {}),
                               ("GET", "/v1/hosts/away/drain", None), ("POST", "/v1/hosts/away/drain", {}),
                               ("DELETE", "/v1/hosts/away/drain", None), ("GET", "/v1/proxies?host=away", None),
                               ("GET", "/v1/snapshot?peers=true", None)):
        answer = as_peer(tls, method, path, body, person)
        assert answer.status == 403 and "does not forward its requests" in answer.json()["detail"], (method, path, answer.body)


def test_a_peer_reads_the_past_without_programs(tls):
    """It needs the figures of the host for verdicts; programs and alerts are for readers."""
    path = "/v1/host/history?since=-1h&step=1min"
    whole, part = (tls.over_tls("GET", path, {"Authorization": f"Bearer {role}-token"}, None).json()["items"]
                   for role in ("reader", "peer"))
    assert len(part) == len(whole)
    assert any(step.get("programs") for step in whole) and any(step.get("alerts") is not None for step in whole)
    assert not any(step.get("programs") or step.get("alerts") is not None or step.get("happened") for step in part)
    assert [step.get("run_ns") for step in part] == [step.get("run_ns") for step in whole]
