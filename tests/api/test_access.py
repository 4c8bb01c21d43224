# SPDX-License-Identifier: Apache-2.0
"""Who may do what: every operation of the contract, for every role, over every way in."""
import http.client
import os
import socket
import ssl
import subprocess
import tempfile

import pytest
from certs import Authority
from contract import Contract
from settings import HANG_S
from unixhttp import Answer, Server, read_all, wait_for

ROLES = ("none", "reader", "operator", "admin")
# Tokens that tests/tools/api-server has from the start are NAME-token.
TOKENS = {"reader": "reader", "operator": "operator", "admin": "admin"}
BODIES = {("POST", "/v1/plans"): b'{"dry_run": true}',
          ("POST", "/v1/tokens"): b'{"name": "another", "role": "reader"}'}
NOBODY = {"nothing": {}, "unknown": {"Authorization": "Bearer unknown-token"},
          "expired": {"Authorization": "Bearer expired-token"},
          "basic": {"Authorization": "Basic cmVhZGVyOnJlYWRlcg=="},
          "empty": {"Authorization": "Bearer "}, "odd": {"Authorization": "reader-token"}}


def loopback():
    """An address that no other process of a test uses, and a port on it."""
    pid = os.getpid()
    host = f"127.{1 + pid // 250 % 250}.{1 + pid % 250}.1"
    with socket.socket() as sock:
        sock.bind((host, 0))
        return host, sock.getsockname()[1]


class TlsServer(Server):
    def __init__(self, directory, authority, *options):
        self.host, self.port = loopback()
        self.authority = authority
        certificate, key = authority.issue("server", f'ip_address = "{self.host}"')
        super().__init__(directory, "--listen", f"{self.host}:{self.port}", "--certificate",
                         certificate, "--key", key, *options)

    def over_tls(self, method, url, headers=None, body=None, client=None):
        context = ssl.create_default_context(cafile=self.authority.certificate)
        if client:
            context.load_cert_chain(*client)
        connection = http.client.HTTPSConnection(self.host, self.port, context=context,
                                                 timeout=HANG_S)
        try:
            connection.request(method, url, body=body, headers=headers or {})
            response = connection.getresponse()
            return Answer(response, response.read())
        finally:
            connection.close()


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def clients(authority):
    """By name: certificates of clients. The server knows the operator's subject."""
    return {"operator": authority.issue("ops", server=False),
            "stranger": authority.issue("stranger", server=False)}


@pytest.fixture(scope="module")
def tls(tmp_path_factory, authority):
    server = TlsServer(tmp_path_factory.mktemp("tls"), authority, "--client-ca",
                       authority.certificate, "--operator", "CN=ops")
    yield server
    server.stop()


@pytest.fixture(scope="module")
def contract(tls):
    return Contract(tls.get("/v1/openapi.json").json())


def one_of(path):
    return path.replace("{id}", "nobody" if path.startswith("/v1/tokens") else "alpha")


def call(contract, path, method):
    headers = {"Content-Type": "application/json"} if (method, path) in BODIES else {}
    url = one_of(path)
    if path == "/v1/events":
        url += "?after=99999&wait=0"
    return url, headers, BODIES.get((method, path))


def allowed(answer):
    return answer.status not in (401, 403)


def test_every_operation_names_its_role(contract):
    for path, method, operation in contract.operations():
        assert operation["x-role"] in ROLES, (path, method)
        if method != "GET":
            assert ROLES.index(operation["x-role"]) >= ROLES.index("operator"), (path, method)


@pytest.mark.parametrize("role", TOKENS)
def test_tokens(tls, contract, role):
    n = 0
    for path, method, operation in contract.operations():
        url, headers, body = call(contract, path, method)
        headers["Authorization"] = f"Bearer {TOKENS[role]}-token"
        answer = tls.over_tls(method, url, headers, body)
        may = ROLES.index(role) >= ROLES.index(operation["x-role"])
        assert allowed(answer) == may, (path, method, role, answer.status)
        assert may or answer.status == 403
        contract.check(method, url, answer)
        n += 1
    assert n > 20


@pytest.mark.parametrize("who", NOBODY)
def test_nobody_over_tls(tls, contract, who):
    """Whoever does not say who he is learns nothing, not even what there is."""
    for path, method, operation in contract.operations():
        url, headers, body = call(contract, path, method)
        answer = tls.over_tls(method, url, {**headers, **NOBODY[who]}, body)
        if operation["x-role"] == "none":
            assert answer.status == 200
            assert answer.json() == {"status": "ok"}
            continue
        assert answer.status == 401, (path, method, answer.status)
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")
        contract.check(method, url, answer)
    for method, url in (("GET", "/nothing"), ("GET", "/v1/vms/nobody"), ("DELETE", "/v1/vms"),
                        ("OPTIONS", "/v1/vms"), ("POST", "/v1/nothing"), ("GET", "/v1/vms?x=1"),
                        ("GET", "/v1/vms/%00"), ("PUT", "/healthz/x")):
        assert tls.over_tls(method, url, NOBODY[who]).status == 401, (method, url)


def test_client_certificates(tls, contract, clients):
    for path, method, operation in contract.operations():
        url, headers, body = call(contract, path, method)
        answer = tls.over_tls(method, url, headers, body, clients["operator"])
        may = operation["x-role"] != "admin"
        assert allowed(answer) == may, (path, method, answer.status)
        # A certificate whose subject has no role is nobody's.
        stranger = tls.over_tls(method, url, headers, body, clients["stranger"])
        assert (stranger.status == 401) == (operation["x-role"] != "none"), (path, stranger.status)
    # With a token beside it, the token counts.
    url, headers = "/v1/tokens", {"Authorization": "Bearer admin-token"}
    assert tls.over_tls("GET", url, headers, client=clients["stranger"]).status == 200


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


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_the_socket(contract):
    """nobody reads, a member of the group operates, root is admin."""
    with tempfile.TemporaryDirectory(prefix="vg-") as directory:
        os.chmod(directory, 0o755)
        check_the_socket(directory, contract)


def check_the_socket(directory, contract):
    server = Server(directory, "--mode", "666", "--group", "daemon")
    for uid, gid, role in ((65534, 65534, "reader"), (65534, 1, "operator"), (0, 0, "admin")):
        for path, method, operation in contract.operations():
            url, headers, body = call(contract, path, method)
            args = ["curl", "-sS", "-o", os.devnull, "-w", "%{http_code}", "--max-time", str(HANG_S),
                    "-X", method, "--unix-socket", server.path, "http://x" + url]
            if body:
                args += ["-H", "Content-Type: application/json", "-d", body.decode()]
            status = subprocess.run(["setpriv", "--reuid", str(uid), "--regid", str(gid),
                                     "--clear-groups", *args], capture_output=True, text=True,
                                    timeout=HANG_S, check=True).stdout
            may = ROLES.index(role) >= ROLES.index(operation["x-role"])
            assert (status != "403") == may, (path, method, role, status)
            assert status != "401"
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

    def entry(identity, role, method, route, thing, status, origin="127.0.0.1"):
        return {"identity": identity, "role": role, "origin": origin, "method": method,
                "route": route, "object": thing, "status": status}
    # The newest first; who only reads is not in it.
    assert audit(server) == [
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
    assert [e["status"] for e in rest["items"]] == [201, 403, 400, 201] and rest["next"] is None
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


# ---- limits of one client ----

def test_connections_of_one_client(tmp_path, authority):
    """One address takes its share and no more; another one still comes in."""
    server = TlsServer(tmp_path, authority, "--client-connections", 3, "--connections", 100)
    held = [socket.create_connection((server.host, server.port), timeout=HANG_S) for _ in range(10)]
    wait_for(lambda: b'reason="connections"} 7' in server.get("/metrics").body)
    assert sum(read_all_now(sock) == b"" for sock in held) == 7
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
