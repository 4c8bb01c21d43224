# SPDX-License-Identifier: Apache-2.0
"""HTTP to one vgpud: over TLS, or a unix socket, within a deadline, on connections that are kept.

Plain sockets only, and no lock is held while one is waited for, so that it works the same in native
threads and in eventlet's green ones.
"""
import http.client
import io
import os
import random
import socket
import ssl
import threading
import time
import urllib.parse

DEFAULT_PORT = 8447
# How much of an answer is read. One about 2000 hosts has half a MiB.
BODY_MAX = 8 << 20
# Connections kept for the next request. More than these at once are made, and closed after use.
IDLE_MAX = 8
# For so long a host's name is not looked up again: the resolver keeps to no deadline of ours.
ADDRESSES_S = 300


class Deadline:
    """A point in time that all waiting ends at."""

    def __init__(self, seconds):
        self.end = time.monotonic() + seconds

    def left(self):
        """Seconds, more than 0; raises TimeoutError where there are none left."""
        left = self.end - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        return left


class _Wire:
    """What http.client needs of a socket. TLS runs in memory on top of the plain socket, as the
    timeouts of Python's and eventlet's TLS sockets hold for each piece, not for the whole."""

    def __init__(self, sock, deadline, context=None, name=None):
        self.sock = sock
        self.deadline = deadline
        self.tls = None
        if context is not None:
            self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname=name)
            self._drive(self.tls.do_handshake)

    def _send(self, data):
        view = memoryview(data)
        while view:
            self.sock.settimeout(self.deadline.left())
            view = view[self.sock.send(view):]

    def _drive(self, step, *args):
        """Does a step of TLS, with what that wants to have read and sent."""
        while True:
            try:
                result = step(*args)
            except ssl.SSLWantReadError:
                self._send(self.outgoing.read())
                self.sock.settimeout(self.deadline.left())
                data = self.sock.recv(1 << 16)
                if data:
                    self.incoming.write(data)
                else:
                    self.incoming.write_eof()
                continue
            self._send(self.outgoing.read())
            return result

    def sendall(self, data):
        if self.tls is None:
            self._send(data)
            return
        view = memoryview(data)
        while view:
            view = view[self._drive(self.tls.write, view):]

    def recv_into(self, buffer):
        if self.tls is None:
            self.sock.settimeout(self.deadline.left())
            return self.sock.recv_into(buffer)
        try:
            return self._drive(self.tls.read, len(buffer), buffer)
        except ssl.SSLZeroReturnError:
            return 0

    def makefile(self, *_args, **_kwargs):
        return io.BufferedReader(_Reader(self))

    def close(self):
        """http.client does this while the answer's body is still to be read: shut() closes."""

    def shut(self):
        self.sock.close()


class _Reader(io.RawIOBase):
    def __init__(self, wire):
        super().__init__()
        self.wire = wire

    def readable(self):
        return True

    def readinto(self, buffer):
        return self.wire.recv_into(buffer)


class Breaker:
    """After some failures in a row nobody is let through for a while, then one to try, and after that
    everybody or, for twice as long, nobody. Its owner's lock is held around each call."""

    def __init__(self, failures_max, pause, pause_max):
        self.failures_max = failures_max
        self.pause_min = pause
        self.pause_max = pause_max
        self.ok()

    def ok(self):
        self.failures = 0
        self.pause = self.pause_min
        self.closed_until = 0

    def lets_through(self, now):
        return now >= self.closed_until

    def try_now(self, now):
        """Is it my turn? Then I have to tell how it went."""
        if not self.lets_through(now):
            return False
        if self.failures >= self.failures_max:
            # Who asks while this one tries is not let through.
            self.closed_until = now + self.pause
        return True

    def failed(self, now):
        self.failures += 1
        if self.failures >= self.failures_max:
            # Not all schedulers are to come back at the same time.
            self.closed_until = now + self.pause * random.uniform(0.75, 1.25)
            self.pause = min(self.pause * 2, self.pause_max)


class Endpoint:
    """One vgpud. Raises ValueError for what is no URL of one."""

    def __init__(self, url, cafile=None, token_file=None, breaker=None):
        self.url = url
        self.cafile = cafile
        self.token_file = token_file
        self.breaker = breaker
        # Does it answer, as far as the log knows? None: it has not been queried yet.
        self.answers = None
        self.lock = threading.Lock()
        self.idle = []
        self.pid = os.getpid()
        self.addresses, self.addresses_until = [], 0
        self.context, self.context_of = None, None
        parts = urllib.parse.urlsplit(url)
        self.path = parts.path if parts.scheme == "unix" else None
        self.host = parts.hostname
        if parts.scheme == "unix":
            if parts.netloc or not self.path.startswith("/"):
                raise ValueError(f"'{url}': write a unix socket as unix:///PATH")
        elif parts.scheme != "https" or not self.host or parts.path.strip("/") or parts.query:
            raise ValueError(f"'{url}' is neither https://HOST[:PORT] nor unix:///PATH")
        elif parts.username is not None:
            raise ValueError("a URL with a user in it: who asks is told by token_file")
        try:
            self.port = parts.port or DEFAULT_PORT
        except ValueError as problem:
            raise ValueError(f"'{url}': {problem}") from problem
        # What the header Host says.
        self.name = (self.host, self.port) if self.host else ("vgpud", None)

    # ---- connections ----

    def _take(self):
        with self.lock:
            if self.pid != os.getpid():
                # A worker has no use for connections that its parent goes on with.
                self.idle, self.pid = [], os.getpid()
            return self.idle.pop() if self.idle else None

    def _keep(self, wire):
        with self.lock:
            if self.pid == os.getpid() and len(self.idle) < IDLE_MAX:
                self.idle.append(wire)
                return
        wire.shut()

    def drop_idle(self):
        with self.lock:
            idle, self.idle = self.idle, []
        for wire in idle:
            wire.shut()

    def _look_up(self):
        now = time.monotonic()
        if now >= self.addresses_until:
            # Without names of arguments: eventlet's has others.
            self.addresses = socket.getaddrinfo(self.host, self.port, 0, socket.SOCK_STREAM)
            self.addresses_until = now + ADDRESSES_S
        return self.addresses

    def _connect_to(self, family, address, deadline):
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.settimeout(deadline.left())
            sock.connect(address)
            if family == socket.AF_UNIX:
                return _Wire(sock, deadline)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return _Wire(sock, deadline, self._tls(), self.host)
        except BaseException:
            sock.close()
            raise

    def _connect(self, deadline):
        if self.path is not None:
            return self._connect_to(socket.AF_UNIX, self.path, deadline)
        problem = None
        for family, _, _, _, address in self._look_up():
            try:
                return self._connect_to(family, address, deadline)
            except OSError as each:
                problem = each
        self.addresses_until = 0
        raise problem or OSError(f"'{self.host}' has no address")

    def _tls(self):
        """The context; made again when the file of the CA has changed."""
        version = os.stat(self.cafile).st_mtime_ns if self.cafile else 0
        if self.context is None or self.context_of != version:
            self.context = ssl.create_default_context(cafile=self.cafile or None)
            self.context_of = version
        return self.context

    # ---- requests ----

    def _headers(self):
        headers = {"Content-Type": "application/json", "Accept": "application/json",
                   "User-Agent": "vgpud-nova"}
        if self.token_file:
            # Read each time, as tokens are replaced while nova-scheduler runs.
            with open(self.token_file, encoding="ascii") as file:
                token = file.read(4096).strip()
            if not token or not token.isprintable() or " " in token:
                raise ValueError(f"{self.token_file} holds no token")
            headers["Authorization"] = "Bearer " + token
        return headers

    def _exchange(self, wire, path, body, headers, deadline):
        kept = False
        try:
            wire.deadline = deadline
            connection = http.client.HTTPConnection(*self.name)
            connection.sock = wire
            connection.request("POST", path, body, headers)
            response = connection.getresponse()
            data = response.read(BODY_MAX + 1)
            if len(data) > BODY_MAX:
                raise ValueError(f"answer of more than {BODY_MAX} bytes")
            if response.isclosed() and not response.will_close:
                self._keep(wire)
                kept = True
            return response.status, data
        finally:
            if not kept:
                wire.shut()

    def post(self, path, body, deadline):
        """Status and body of the answer; raises OSError, ValueError or http.client.HTTPException."""
        headers = self._headers()
        wire = self._take()
        if wire is not None:
            try:
                return self._exchange(wire, path, body, headers, deadline)
            except TimeoutError:
                raise
            except (ConnectionError, ssl.SSLError):
                # vgpud has ended it meanwhile, and then probably the others, too.
                self.drop_idle()
        return self._exchange(self._connect(deadline), path, body, headers, deadline)
