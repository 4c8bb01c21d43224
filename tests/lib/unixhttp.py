# SPDX-License-Identifier: Apache-2.0
"""HTTP over a unix socket: http.client for what is well-formed, bytes for what is not."""
import http.client
import json
import os
import signal
import socket
import subprocess
import tempfile
import time

from settings import HANG_S

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def build_dir():
    """Where vgpuctl under test is, the other programs are, too."""
    if "VGPUCTL" in os.environ:
        return os.path.dirname(os.path.abspath(os.environ["VGPUCTL"]))
    return os.environ.get("VG_BUILDDIR", os.path.join(ROOT, "build"))


def wait_for(what, timeout=HANG_S, pause=0.01):
    """What a function returns, as soon as that is something."""
    until = time.monotonic() + timeout
    while True:
        result = what()
        if result:
            return result
        assert time.monotonic() < until, f"still waiting for {getattr(what, '__name__', what)}"
        time.sleep(pause)


class Connection(http.client.HTTPConnection):
    def __init__(self, path, timeout=HANG_S):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Answer:
    def __init__(self, response, body):
        self.status, self.headers, self.body = response.status, response.headers, body
        self.type = (response.headers.get("Content-Type") or "").split(";")[0]

    def json(self):
        return json.loads(self.body)


class Server:
    """tests/tools/api-server with these options, for one test or many."""
    made = []

    def __init__(self, directory, *options):
        self.path = os.path.join(str(directory), "api.sock")
        if len(self.path) > 100:  # the kernel takes 107 bytes
            self.path = os.path.join(tempfile.mkdtemp(prefix="vg-"), "api.sock")
        program = os.path.join(build_dir(), "tests", "tools", "api-server")
        self.log = os.path.join(str(directory), "log")
        with open(self.log, "ab") as log:
            # However busy the machine is, no client or host seems to hang unless a test wants that.
            self.process = subprocess.Popen(
                [program, "--socket", self.path, "--idle-ms", str(HANG_S * 1000), "--job-wait-ms", str(HANG_S * 1000),
                 *map(str, options)],
                stdout=subprocess.PIPE, stderr=log,
                # GLib's own allocator hides from ThreadSanitizer that memory changes hands.
                env={**os.environ, "G_SLICE": "always-malloc"})
        Server.made.append(self)
        assert self.process.stdout.readline() == b"ready\n", self.messages()

    def messages(self):
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return log.read()

    def newest(self):
        return self.get("/v1/events?after=0").json()["next"]

    def event(self):
        """One more. Two signals may become one, so it is waited for."""
        before = self.newest()
        self.process.send_signal(signal.SIGUSR1)
        wait_for(lambda: self.newest() > before)

    def stop(self):
        """The exit code; a sanitizer's report makes it differ from 0."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(HANG_S)
        assert code == 0, f"exit code {code}\n{self.messages()}"
        assert not os.path.exists(self.path)

    def connect(self):
        return Connection(self.path)

    def request(self, method, url, body=None, headers=None, connection=None):
        mine = connection or self.connect()
        try:
            mine.request(method, url, body=body, headers=headers or {})
            response = mine.getresponse()
            return Answer(response, response.read())
        finally:
            if not connection:
                mine.close()

    def get(self, url, headers=None, connection=None):
        return self.request("GET", url, headers=headers, connection=connection)

    def post(self, url, document, headers=None):
        body = document if isinstance(document, (bytes, str)) else json.dumps(document)
        return self.request("POST", url, body,
                            {"Content-Type": "application/json", **(headers or {})})

    def serves(self):
        """Whether it answers; with a short --idle-ms, a client that the machine holds up is closed, too."""
        try:
            return self.get("/healthz").status == 200
        except (http.client.HTTPException, OSError):
            return False

    def raw(self, *parts, pause_s=0.0):
        """Sends bytes and reads until the other side closes."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.connect(self.path)
            sock.settimeout(HANG_S)
            try:
                for part in parts:
                    sock.sendall(part)
                    time.sleep(pause_s)
            except OSError:
                pass
            return read_all(sock)

    def stream(self, headers=None, query=""):
        return Stream(self.path, headers or {}, query)


def read_all(sock):
    """Whatever comes before the end, or before a reset."""
    out = b""
    try:
        while more := sock.recv(65536):
            out += more
    except ConnectionError:
        pass
    return out


class Stream:
    """Server-sent events: blocks of lines, as dicts; comments have the key ''."""

    def __init__(self, path, headers, query):
        self.connection = Connection(path)
        self.connection.request("GET", "/v1/events" + query, headers=headers)
        self.response = self.connection.getresponse()
        self.status = self.response.status

    def next(self):
        block = {}
        while True:
            line = self.response.readline()
            if not line:
                return None
            line = line.decode("utf-8").rstrip("\n")
            if not line:
                if block:
                    return block
                continue
            name, _, value = line.partition(":")
            block[name] = value[1:] if value.startswith(" ") else value

    def next_event(self):
        while True:
            block = self.next()
            if block is None or "event" in block:
                return block

    def close(self):
        # http.client hands the socket over to the answer when that has no length.
        self.response.close()
        self.connection.close()
