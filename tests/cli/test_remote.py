# SPDX-License-Identifier: Apache-2.0
"""vgpuctl over the network: what lets it in, what does not and what it says then, and where it is told
to go. The vgpud is a real one; its certificates are made here."""
import json
import os
import shutil
import socket
import ssl
import subprocess
import threading
import time
import warnings

import pytest
import vgpuctl
from certs import Authority
from ports import free_port
from settings import HANG_S, sample
from terminal import Terminal
from vgpud import LTTNG, VM_MAP, Daemon, wait_for

# One after the other, so that the call which waits 10 s in vain does so beside the others.
pytestmark = [pytest.mark.xdist_group("remote"),
              pytest.mark.skipif(not shutil.which("certtool"),
                                 reason="certtool (package gnutls-bin) is not installed")]

# Of this process alone, so that no port of it is somebody else's.
ADDRESS = f"127.77.{os.getpid() >> 8 & 255}.{os.getpid() & 255}"
HERE = f'ip_address = "{ADDRESS}"'
ALWAYS = {"expired": ('activation_date = "2001-01-01 00:00:00"', 'expiration_date = "2002-01-01 00:00:00"'),
          "early": ('activation_date = "2190-01-01 00:00:00"', 'expiration_date = "2191-01-01 00:00:00"')}


def run(*args, code=0, env=None, prefix=()):
    """With nothing of the environment that says where vgpud is."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("VGPUCTL_")}
    done = subprocess.run([*prefix, vgpuctl.program(), *map(str, args)], capture_output=True, text=True,
                          timeout=HANG_S, env={**plain, "XDG_CONFIG_HOME": "/nonexistent", **(env or {})},
                          stdin=subprocess.DEVNULL)
    assert done.returncode == code, (done.returncode, done.stderr, done.stdout[:500])
    assert code == 0 or done.stdout == ""
    return done


def message(done):
    """The one line that there is."""
    assert done.stderr.startswith("vgpuctl: ") and done.stderr.count("\n") == 1, done.stderr
    return done.stderr[len("vgpuctl: "):-1]


class Site:
    """A vgpud on the network, the certificates that it may show, and tokens of it."""

    def __init__(self, directory):
        self.directory = directory
        self.ca = Authority(directory / "ca")
        self.other_ca = Authority(directory / "other-ca", "test CA")
        self.shown = {name: self.ca.issue(name, HERE, *ALWAYS[name]) for name in ALWAYS}
        self.shown["good"] = self.ca.issue("good", HERE)
        self.shown["elsewhere"] = self.ca.issue("elsewhere", 'dns_name = "node-b"',
                                                'ip_address = "192.0.2.1"')
        self.shown["client-only"] = self.ca.issue("client-only", HERE, server=False)
        self.shown["self-signed"] = self.self_signed("self-signed"), self.shown["good"][1]
        self.port = free_port(ADDRESS)
        self.url = f"https://{ADDRESS}:{self.port}"
        self.put("good")
        self.daemon = Daemon(directory, "--speed", "max", "--vm-map", VM_MAP, "--host", "demo-host",
                             replay=LTTNG, config=self.config(self.port))
        self.daemon.replayed()
        self.now_shown = "good"
        self.tokens = {role: self.token(f"a-{role}", role) for role in ("reader", "operator", "admin")}
        self.tokens["short"] = self.token("short", "admin", "--lifetime", "1s")
        self.tokens["revoked"] = self.token("revoked", "admin")
        run("token", "revoke", "revoked", "--socket", self.daemon.socket)

    def self_signed(self, name):
        return self.ca.certtool("--generate-self-signed", "--load-privkey", self.shown["good"][1],
                                template=['cn = "alone"', HERE, "tls_www_server"], out=name + ".pem")

    def config(self, port, *more):
        return "\n".join(["[api]", f"listen={ADDRESS}:{port}", f"tls_certificate={self.directory}/shown.pem",
                          f"tls_key={self.directory}/shown.key", f"tls_client_ca={self.ca.certificate}",
                          *more, "[role reader]", "subject=CN=seer", ""])

    def put(self, name):
        for path, end in zip(self.shown[name], ("pem", "key")):
            shutil.copy(path, self.directory / f"shown.{end}")

    def show(self, name):
        """From the return on, it shows this certificate."""
        if name == self.now_shown:
            return
        self.put(name)
        before = self.daemon.log().count("configuration reloaded")
        self.daemon.process.send_signal(1)
        wait_for(lambda: self.daemon.log().count("configuration reloaded") > before)
        self.now_shown = name

    def token(self, name, role, *more):
        path = self.directory / f"{name}.token"
        done = run("token", "create", name, "--role", role, *more, "--socket", self.daemon.socket)
        path.write_text(done.stdout)
        path.chmod(0o600)
        return path

    def client(self, name, authority=None):
        return (authority or self.ca).issue(name, server=False)

    def options(self, token="admin", server=None):
        return ["--server", server or self.url, "--cacert", self.ca.certificate,
                "--token-file", self.tokens[token]]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    made = Site(tmp_path_factory.mktemp("site"))
    with made.daemon:
        yield made


@pytest.fixture(scope="module")
def silent():
    """A call of an address that takes connections and says nothing, which runs while others are made."""
    with socket.socket() as listener:
        listener.bind((ADDRESS, 0))
        listener.listen()
        port = listener.getsockname()[1]
        process = subprocess.Popen(
            [vgpuctl.program(), "vm", "list", "--server", f"https://{ADDRESS}:{port}"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        yield process, port
        process.kill()
        process.communicate()


@pytest.fixture
def good(site, silent):  # pylint: disable=unused-argument
    site.show("good")
    return site


# ---- what works ----

ONLINE = [["vm", "list"], ["vm", "list", "--watch=0.1", "-n", "3"], ["vm", "show", "vm-busy"],
          ["vm", "history", "vm-busy"], ["host", "list"], ["host", "show"], ["gpu", "list"],
          ["preemptions"], ["preemptions", "--matrix"], ["top", "-n", "1"],
          ["events", "-n", "3", "--types", "vm", "--after", "BOOT"], ["placement", "--dry-run"],
          ["placement", "--explain", "vm-busy"], ["explain", "vm-busy"], ["plan", "list"], ["snapshot"],
          ["token", "list", "-o", "csv"], ["audit"]]


@pytest.mark.parametrize("command", sample("as over the socket", ONLINE, 10), ids=" ".join)
def test_every_command_says_the_same_as_over_the_socket(good, command):
    boot = good.daemon.get("/v1/host")["daemon"]["boot_id"]
    command = [f"{boot}-0" if word == "BOOT" else word for word in command]
    if command[0] == "token":
        expired_token(good)  # or it expires between the two
    over_tls = run(*command, *good.options()).stdout
    over_socket = run(*command, "--socket", good.daemon.socket).stdout
    if command[0] == "token":  # the last column is when they were used
        over_tls, over_socket = ([line.rpartition(",")[0] for line in text.splitlines()]
                                 for text in (over_tls, over_socket))
    assert over_tls == over_socket and over_tls


def test_top_on_the_whole_screen(good):
    with Terminal(vgpuctl.program(), "top", *map(str, good.options()), columns=120) as terminal:
        terminal.wait("q quit")
        assert "vm-busy" in "\n".join(terminal.screen.lines())
        terminal.press("q")
        assert terminal.end() == 0


def test_a_client_certificate_lets_in(good):
    certificate, key = good.client("seer")
    where = ["--server", good.url, "--cacert", good.ca.certificate, "--cert"]
    assert "vm-busy" in run("vm", "list", *where, certificate, "--key", key).stdout
    both = good.directory / "both.pem"
    both.write_text(open(certificate).read() + open(key).read())
    both.chmod(0o600)
    assert "vm-busy" in run("vm", "list", *where, both).stdout


# ---- what does not ----

def no_tls(answer):
    """A listener that answers so; its port."""
    listener = socket.create_server((ADDRESS, 0))

    def serve():
        with listener:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)
    threading.Thread(target=serve, daemon=True).start()
    return listener.getsockname()[1]


def tls(site, context):
    """A listener with TLS of this kind, which begins it with one client; its port."""
    listener = socket.create_server((ADDRESS, 0))
    context.load_cert_chain(*site.shown["good"])

    def serve():
        with listener:
            connection, _ = listener.accept()
            try:
                with context.wrap_socket(connection, server_side=True) as secured:
                    secured.recv(65536)
            except (ssl.SSLError, OSError):
                connection.close()
    threading.Thread(target=serve, daemon=True).start()
    return listener.getsockname()[1]


def file_of(site, name, text):
    path = site.directory / name
    path.write_text(text)
    path.chmod(0o600)
    return path


def expired_token(site):
    """When its time has passed."""
    ends, = [token["expires_ns"] for token in site.daemon.get("/v1/tokens")["items"]
             if token["name"] == "short"]
    wait_for(lambda: time.time_ns() > ends)
    return site.tokens["short"]


def encrypted_key(site):
    return site.ca.certtool("--to-p8", "--load-privkey", site.shown["good"][1], "--password", "x",
                            out="locked.key")


PEM = "-----BEGIN CERTIFICATE-----\nbm90aGluZw==\n-----END CERTIFICATE-----\n"

# name: exit code, what the message has, and what is given instead of what is right. "" for no such
# option; a function makes the value.
REFUSALS = {
    # The server's certificate.
    "wrong-ca": (7, ["not signed by a CA in '{cacert}'", "the right machine"],
                 {"cacert": lambda site: site.other_ca.certificate}),
    "no-ca": (7, ["not signed by a CA that this machine trusts", "--cacert"], {"cacert": ""}),
    "expired": (7, ["has expired", "renew it", "clock, which says 20"], {"shown": "expired"}),
    "not-yet-valid": (7, ["not valid yet", "clock, which says 20"], {"shown": "early"}),
    "wrong-name": (7, ["is for DNS:node-b, IP Address:192.0.2.1, not for '" + ADDRESS + "'", "use one of these names"],
                   {"shown": "elsewhere"}),
    "self-signed": (7, ["self-signed", "is not in '{cacert}'"], {"shown": "self-signed"}),
    "self-signed-no-ca": (7, ["self-signed", "pass --cacert with a copy"],
                          {"shown": "self-signed", "cacert": ""}),
    "client-certificate-as-server": (7, ["is not a server certificate", "tls_www_server"], {"shown": "client-only"}),
    # The token.
    "no-token": (4, ["a token or a client certificate is required", "--token-file", "--cert and --key"],
                 {"token-file": ""}),
    "unknown-token": (4, ["is unknown or has expired", "'{token-file}'", "`vgpuctl token list`"],
                      {"token-file": lambda site: file_of(site, "unknown", "vgpud_" + 43 * "A")}),
    "expired-token": (4, ["has expired", "'{token-file}'", "`vgpuctl token list`"],
                      {"token-file": expired_token}),
    "revoked-token": (4, ["revoked", "'{token-file}'", "`vgpuctl token list`"],
                      {"token-file": lambda site: site.tokens["revoked"]}),
    "role-too-low": (4, ["'token:a-reader' has the role reader", "needs the role admin", "`vgpuctl token create"],
                     {"token-file": lambda site: site.tokens["reader"], "command": ["audit"]}),
    # Client certificates.
    "certificate-without-role": (4, ["no [role] in vgpud.conf lists the subject", "certtool -i --infile {cert}"],
                                 {"token-file": "", "client": lambda site: site.client("stranger")}),
    "certificate-of-another-ca": (4, ["does not accept the certificate in '{cert}'", "tls_client_ca"],
                                  {"token-file": "",
                                   "client": lambda site: site.client("seer", site.other_ca)}),
    "certificate-role-too-low": (4, ["'cert:CN=seer' has the role reader", "[role NAME]"],
                                 {"token-file": "", "client": lambda site: site.client("seer"),
                                  "command": ["token", "list"]}),
    # Files.
    "token-file-missing": (7, ["--token-file", "'/nowhere'", "No such file"], {"token-file": "/nowhere"}),
    "token-file-is-a-directory": (7, ["--token-file", "'/usr'", "Is a directory"], {"token-file": "/usr"}),
    "token-file-empty": (7, ["--token-file", "'/dev/null' does not contain a token", "vgpuctl token create"],
                         {"token-file": "/dev/null"}),
    "token-file-of-something-else": (7, ["does not contain a token"],
                                     {"token-file":
                                      lambda site: file_of(site, "odd", '{"token": "secret7"}')}),
    "ca-missing": (7, ["--cacert", "'/nowhere'", "No such file"], {"cacert": "/nowhere"}),
    "ca-of-something-else": (7, ["--cacert", "does not contain a certificate in PEM"],
                             {"cacert": lambda site: site.ca.key}),
    "ca-damaged": (7, ["'{cacert}' cannot be read", "PEM"],
                   {"cacert": lambda site: file_of(site, "bad.pem", PEM)}),
    "certificate-missing": (7, ["--cert", "'/nowhere'", "No such file"],
                            {"client": lambda site: ("/nowhere", site.ca.key)}),
    "certificate-of-something-else": (7, ["--cert", "'/usr/bin/env' does not contain a certificate in PEM"],
                                      {"client": lambda site: ("/usr/bin/env", site.ca.key)}),
    "key-missing": (7, ["--key", "'/nowhere'", "No such file"],
                    {"client": lambda site: (site.client("seer")[0], "/nowhere")}),
    "key-of-something-else": (7, ["--key", "does not contain a private key in PEM"],
                              {"client": lambda site: 2 * site.client("seer")[:1]}),
    "key-of-another": (7, ["'{cert}'", "'{key}'", "do not match"],
                       {"client": lambda site: (site.client("seer")[0], site.ca.key)}),
    "key-with-password": (7, ["--key", "has a password"],
                          {"client": lambda site: (site.shown["good"][0], encrypted_key(site))}),
    "certificate-without-key": (7, ["--cert", "does not contain a private key"],
                                {"client": lambda site: (site.client("seer")[0], "")}),
    # The way there.
    "closed-port": (7, ["no process listens on port", ADDRESS, "listen= in [api]"],
                    {"server": lambda site: f"https://{ADDRESS}:{free_port(ADDRESS)}"}),
    # Longer than a label may be, so that no server is asked.
    "unknown-host": (7, ["the name 'xxxx", "getent hosts xxxx"],
                     {"server": "https://" + 64 * "x" + ".invalid:8447"}),
    "plain-http": (7, ["TLS cannot be started", "supports TLS 1.2 or later", "listen= in [api]"],
                   {"server": lambda _: f"https://{ADDRESS}:" + str(no_tls(b"HTTP/1.1 400 Bad\r\n\r\n"))}),
    "hangs-up": (7, ["TLS cannot be started", "the port of listen= in [api]"],
                 {"server": lambda _: f"https://{ADDRESS}:" + str(no_tls(b""))}),
}


def given_of(site, changes):
    given = {"server": site.url, "cacert": site.ca.certificate, "token-file": site.tokens["admin"]}
    for name, value in changes.items():
        value = value(site) if callable(value) else value
        if name == "client":
            given["cert"], given["key"] = value
        elif name not in ("shown", "command"):
            given[name] = value
    return {name: str(value) for name, value in given.items() if value}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_is_in_the_way_has_a_message_of_its_own(site, silent, name):  # pylint: disable=unused-argument
    code, wanted, changes = REFUSALS[name]
    site.show(changes.get("shown", "good"))
    given = given_of(site, changes)
    options = [word for key, value in given.items() for word in ("--" + key, value)]
    text = message(run(*changes.get("command", ["vm", "list"]), *options, code=code))
    print(text)
    for words in wanted:
        assert words.format(**given) in text
    assert given["server"] in text
    for secret in ["secret7", *(path.read_text().strip() for path in site.tokens.values())]:
        assert secret not in text


def test_a_certificate_that_is_required(good, tmp_path):
    port = free_port(ADDRESS)
    with Daemon(tmp_path, config=good.config(port, "client_certificate=required")) as daemon:
        token = tmp_path / "token"
        token.write_text(run("token", "create", "a", "--role", "reader", "--socket", daemon.socket).stdout)
        token.chmod(0o600)
        where = ["vm", "list", "--server", f"https://{ADDRESS}:{port}", "--cacert", good.ca.certificate]
        text = message(run(*where, "--token-file", token, code=4))
        assert "a client certificate is required; specify a client certificate with --cert and --key" in text
        assert "a client certificate is required" in message(run(*where, code=4))
        certificate, key = good.client("seer")
        assert run(*where, "--cert", certificate, "--key", key).stdout == "vgpud has found no VM yet\n"


def test_nothing_older_than_tls_1_2(good):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    server = f"https://{ADDRESS}:{tls(good, context)}"
    assert "supports TLS 1.2 or later" in message(run("vm", "list", *good.options(server=server), code=7))


# ---- secrets ----

@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")
def test_a_token_that_may_not_be_read(good):
    text = message(run("vm", "list", "--server", good.url, "--token-file", "/etc/shadow", code=7,
                       prefix=["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]))
    assert "--token-file: cannot open '/etc/shadow': Permission denied" in text


def test_a_token_that_everybody_can_read_is_a_warning(good, tmp_path):
    path = tmp_path / "token"
    path.write_text(good.tokens["reader"].read_text())
    path.chmod(0o604)
    where = ["vm", "list", "--server", good.url, "--cacert", good.ca.certificate, "--token-file", path]
    done = run(*where)
    assert done.stderr == (f"vgpuctl: warning: all users of this machine can read '{path}', which holds a "
                           f"token; run `chmod o= {path}`\n")
    path.chmod(0o640)
    assert run(*where).stderr == ""


@pytest.mark.parametrize("server", ["http://a:8447", "a:8447", "https://", "https://a:x", "https://a:1/v1",
                                    "https://user:secret7@a:1", "https://a:1/?token=secret7"])
def test_an_address_that_is_none(server):
    done = run("vm", "list", "--server", server, code=2)
    assert "https://HOST:PORT" in done.stderr or "must not contain a user, password" in done.stderr
    assert "@" not in server or "secret7" not in done.stderr
    assert "VGPUCTL_SERVER: " in run("vm", "list", env={"VGPUCTL_SERVER": server}, code=1).stderr


# ---- tokens and the audit ----

def test_tokens(good, tmp_path):
    socket_of = ["--socket", good.daemon.socket]
    done = run("token", "create", "new", "--role", "operator", "--lifetime", "30d", *socket_of)
    assert done.stdout.startswith("vgpud_") and done.stdout.count("\n") == 1 and len(done.stdout) == 50
    assert "not shown again" in done.stderr and done.stdout.strip() not in done.stderr
    items = json.loads(run("token", "list", "-o", "json", *socket_of).stdout)
    listed = {token["name"]: token for token in items}
    assert listed["new"]["role"] == "operator" and listed["a-admin"]["expires_ns"] is None
    assert listed["new"]["expires_ns"] - listed["new"]["made_ns"] == pytest.approx(30 * 86400e9, rel=1e-3)
    table = run("token", "list", *socket_of).stdout
    assert "EXPIRES (UTC)" in table and done.stdout.strip() not in table
    assert "'new'" in run("token", "create", "new", "--role", "reader", *socket_of, code=5).stderr
    # An admin's token may make tokens, too.
    document = json.loads(run("token", "create", "by-net", "--role", "reader", "-o", "json",
                              *good.options()).stdout)
    assert document["name"] == "by-net" and document["token"].startswith("vgpud_")
    assert run("token", "revoke", "by-net", *good.options()).stdout == ""
    assert "'by-net'" in run("token", "revoke", "by-net", *socket_of, code=3).stderr
    with open(tmp_path / "open", "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), 0o644)
        done = subprocess.run([vgpuctl.program(), "token", "create", "open", "--role", "reader", *socket_of],
                              stdout=file, stderr=subprocess.PIPE, text=True, timeout=HANG_S, check=True)
    assert f"can read '{tmp_path}/open'" in done.stderr


@pytest.mark.parametrize("args", [["create"], ["create", "x"],
                                  ["create", "x", "--role", "reader", "--lifetime", "5"],
                                  ["create", "x", "--role", "reader", "--lifetime=36501d"],
                                  ["create", "x", "--role", "reader", "-o", "csv"],
                                  ["list", "--role", "reader"], ["revoke"], ["make"]], ids=" ".join)
def test_tokens_that_cannot_be_made(args):
    run("token", *args, code=2)


def test_a_name_and_a_role_that_there_are_not(good):
    for name, role, code in (("a b", "reader", 1), ("x", "king", 2)):
        assert run("token", "create", name, "--role", role, "--socket", good.daemon.socket, code=code).stderr


def test_the_audit_has_what_was_done(good):
    run("token", "create", "noted", "--role", "reader", *good.options())
    first, = json.loads(run("audit", "--limit", "1", "-o", "json", *good.options()).stdout)
    assert {key: first[key] for key in ("identity", "role", "method", "route", "object", "status")} == {
        "identity": "token:a-admin", "role": "admin", "method": "POST", "route": "/v1/tokens",
        "object": "noted", "status": 201}
    assert first["origin"].startswith("127.")
    assert "token:a-admin" in run("audit", *good.options()).stdout
    assert len(json.loads(run("audit", "--limit", "2", "-o", "json", *good.options()).stdout)) == 2
    assert run("audit", "--limit", "0", code=2).stderr


# ---- where to go ----

def contexts(tmp_path, text):
    directory = tmp_path / "vgpuctl"
    directory.mkdir()
    (directory / "config").write_text(text)
    return {"XDG_CONFIG_HOME": str(tmp_path)}


def shown(*args, env=None, code=0):
    """The settings that count: {name: (value, from)}."""
    document = json.loads(run("context", "show", *args, "-o", "json", env=env, code=code).stdout)
    return {setting["name"]: (setting["value"], setting["from"]) for setting in document["settings"]}


TWO = """# mine
[context a]
server=https://a:1
token-file=a.token
cacert=/ca/a.pem

[context b]
server=https://b:2
cert=b.pem
key=b.key
"""


def test_contexts(good, tmp_path):
    env = contexts(tmp_path, f"# mine\n[context site]\nserver={good.url}\ntoken-file=t\n"
                             f"cacert={good.ca.certificate}\n[context other]\nserver=https://b:2\n")
    (tmp_path / "vgpuctl" / "t").write_text(good.tokens["reader"].read_text())
    (tmp_path / "vgpuctl" / "t").chmod(0o600)
    assert "vm-busy" in run("vm", "list", "--context", "site", env=env).stdout
    assert run("context", "use", "site", env=env).stdout == ""
    assert "vm-busy" in run("vm", "list", env=env).stdout
    assert "vm-busy" in run("top", "-n", "1", env=env).stdout
    text = (tmp_path / "vgpuctl" / "config").read_text()
    assert "# mine\n" in text and "[vgpuctl]\ncontext=site\n" in text and "server=https://b:2" in text
    listed = json.loads(run("context", "list", "-o", "json", env=env).stdout)
    assert [(item["name"], item["current"]) for item in listed] == [
        ("local", False), ("site", True), ("other", False)]
    lines = run("context", "list", env=env).stdout.splitlines()
    assert ["*", "site"] in [line.split()[:2] for line in lines]
    run("context", "use", "local", env=env)
    assert shown(env=env) == {"socket": ("/run/vgpud/vgpud.sock", "default")}
    err = run("context", "use", "nowhere", env=env, code=3).stderr
    assert "'nowhere'" in err and "local, site, other" in err
    run("vm", "list", "--context", "nowhere", env=env, code=3)


def test_options_come_before_the_environment_and_that_before_contexts(tmp_path):
    env = contexts(tmp_path, TWO + "[vgpuctl]\ncontext=a\n")
    own = str(tmp_path / "vgpuctl")
    a = {"server": ("https://a:1", "context 'a'"), "token-file": (f"{own}/a.token", "context 'a'"),
         "cacert": ("/ca/a.pem", "context 'a'")}
    assert shown(env=env) == a and shown("a", env=env) == a and shown("--context", "a", env=env) == a
    # Single values of the environment, and of options before them.
    by_env = {**env, "VGPUCTL_TOKEN_FILE": "/e", "VGPUCTL_CACERT": "/ec"}
    assert shown(env=by_env) == {**a, "token-file": ("/e", "VGPUCTL_TOKEN_FILE"),
                                  "cacert": ("/ec", "VGPUCTL_CACERT")}
    assert shown("--token-file", "/o", env=by_env)["token-file"] == ("/o", "--token-file")
    # A context that is named counts as an option.
    assert shown("--context", "a", env=by_env) == a
    assert shown("--context", "a", env={**env, "VGPUCTL_SERVER": "https://e:3"}) == a
    # What a context names is shown to its own server only.
    assert shown("--server", "https://o:4", env=by_env) == {
        "server": ("https://o:4", "--server"), "token-file": ("/e", "VGPUCTL_TOKEN_FILE"),
        "cacert": ("/ec", "VGPUCTL_CACERT")}
    assert shown("--server", "https://o:4", env=env) == {"server": ("https://o:4", "--server")}
    assert shown(env={**env, "VGPUCTL_SOCKET": "/s"}) == {"socket": ("/s", "VGPUCTL_SOCKET")}
    assert shown(env={**env, "VGPUCTL_SERVER": "https://e:3"}) == {
        "server": ("https://e:3", "VGPUCTL_SERVER")}
    # This machine, whatever else there is.
    assert shown("local", env={**by_env, "VGPUCTL_SERVER": "https://e:3"}) == {
        "socket": ("/run/vgpud/vgpud.sock", "default")}
    # A certificate and its key belong together.
    assert shown("b", env=env)["key"] == (f"{own}/b.key", "context 'b'")
    pair = shown("--context", "b", "--cert", "/o.pem", env=env)
    assert pair["cert"] == ("/o.pem", "--cert") and "key" not in pair


CONTRADICTIONS = {
    "two places": (2, ["--socket", "/s", "--server", "https://a:1"], {}),
    "context and server": (2, ["--context", "a", "--server", "https://a:1"], {}),
    "key alone": (2, ["--server", "https://a:1", "--key", "/k"], {}),
    "token for a socket": (2, ["--socket", "/s", "--token-file", "/t"], {}),
    "token for the default": (1, ["--token-file", "/t"], {}),
    "both in the environment": (1, [], {"VGPUCTL_SOCKET": "/s", "VGPUCTL_SERVER": "https://a:1"}),
    "key alone in the environment": (1, [], {"VGPUCTL_KEY": "/k", "VGPUCTL_SERVER": "https://a:1"}),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_settings_that_contradict_each_other(name):
    code, options, env = CONTRADICTIONS[name]
    done = run("vm", "list", *options, env=env, code=code)
    assert done.stderr.startswith("vgpuctl")


@pytest.mark.parametrize("text", ["[context a]\n", "[context a]\nserver=https://a:1\ntoken=x\n",
                                  "[contexts]\n",
                                  "[context local]\nserver=https://a:1\n", "server\n",
                                  "[context ]\nserver=https://a:1\n", "[vgpuctl]\ncontext=c\n",
                                  "[vgpuctl]\ncontext=a\n[context a]\nserver=http://a\n"])
def test_a_file_of_contexts_that_is_not_right(tmp_path, text):
    env = contexts(tmp_path, text)
    err = run("vm", "list", env=env, code=3 if text == "[vgpuctl]\ncontext=c\n" else 1).stderr
    assert "/vgpuctl/config" in err or "context 'a': 'http://a'" in err
    # Who says where to go needs no such file.
    run("vm", "list", "--socket", "/nowhere", env=env, code=7)


# Last, as it takes as long as vgpuctl waits.
def test_nobody_answers(silent):
    process, port = silent
    out, err = process.communicate(timeout=HANG_S)
    assert process.returncode == 7 and out == ""
    assert "no answer within 10 s" in err and f"port {port}" in err and "firewall" in err
