# SPDX-License-Identifier: Apache-2.0
"""Clients that are slow, on purpose or not, each from an address of its own; and what those who are
not slow see of it."""
import contextlib
import http.client
import os
import re
import resource
import selectors
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import closing

import pytest
from settings import HANG_S, is_instrumented
from tlsserver import TlsServer
from unixhttp import Server, wait_for

N = 1000
READER = {"Authorization": "Bearer reader-token"}
REQUEST = b"GET /v1/vms HTTP/1.1\r\nHost: x\r\nX-Slow: " + 1000 * b"a"


@pytest.fixture(scope="module", autouse=True)
def files():
    """Enough of them, here and for the server, which inherits it."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[1] < 4 * N:
        pytest.skip(f"a process may have only {before[1]} files open (ulimit -Hn)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


class SlowClients:
    """Connections from 127.251.0.1 on: half of them say nothing, some begin a handshake and stop, some
    send a byte of a request each second after one. They never close."""

    def __init__(self, server):
        self.server = server
        self.context = ssl.create_default_context(cafile=server.authority.certificate)
        self.open = selectors.DefaultSelector()
        self.made = 0
        self.next_byte = 0.0

    def connect(self, n):
        for _ in range(n):
            kind = self.made % 4
            sock = socket.create_connection(
                (self.server.host, self.server.port), timeout=HANG_S,
                source_address=(f"127.251.{self.made // 250 % 250}.{1 + self.made % 250}", 0))
            self.made += 1
            try:
                if kind == 2:
                    hello = self.hello()
                    sock.sendall(hello if self.made % 8 < 4 else hello[:100])
                elif kind == 3:
                    sock = self.context.wrap_socket(sock, server_hostname=self.server.host)
            except OSError:
                sock.close()
                continue
            sock.setblocking(False)
            self.open.register(sock, selectors.EVENT_READ, [kind == 3, 0])

    def hello(self):
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        with pytest.raises(ssl.SSLWantReadError):
            self.context.wrap_bio(incoming, outgoing, server_hostname=self.server.host).do_handshake()
        return outgoing.read()

    def go_on(self):
        """Forgets those that were ended; the others go on. How many there are."""
        now = time.monotonic()
        for key, _ in self.open.select(0):
            try:
                ended = key.fileobj.recv(4096) == b""
            except (BlockingIOError, ssl.SSLWantReadError):
                ended = False
            except OSError:
                ended = True
            if ended:
                self.forget(key.fileobj)
        if now >= self.next_byte:
            self.next_byte = now + 1
            for key in list(self.open.get_map().values()):
                self.send_byte(key.fileobj, key.data)
        return len(self.open.get_map())

    def send_byte(self, sock, data):
        if data[0]:
            try:
                sock.send(REQUEST[data[1] % len(REQUEST):][:1])
                data[1] += 1
            except OSError:
                self.forget(sock)

    def forget(self, sock):
        self.open.unregister(sock)
        sock.close()

    def close(self):
        for key in list(self.open.get_map().values()):
            self.forget(key.fileobj)
        self.open.close()


def connections(server):
    """As the server counts them, with that of who asks."""
    return int(re.search(rb"^vgpud_http_connections (\d+)$", server.get("/metrics").body, re.M)[1])


def process_figure(server, name, of="status"):
    with open(f"/proc/{server.process.pid}/{of}", encoding="ascii") as file:
        return int(re.search(rf"^{name}:\s+(\d+)", file.read(), re.M)[1])


def memory_kib(server):
    """What it has. In /proc/PID/status, it may be wrong by 128 KiB for each CPU."""
    return process_figure(server, "Rss", "smaps_rollup")


def check_honest(server, *kept):
    """Who comes now is answered; so are those who were there before."""
    assert server.over_tls("GET", "/v1/vms", READER).status == 200
    for connection in kept:
        assert server.request("GET", "/v1/vms", headers=READER, connection=connection).status == 200
    assert server.get("/v1/vms").status == 200


@pytest.mark.drawn("long")
def test_they_take_neither_threads_nor_memory(tmp_path, authority):
    """All at once, three times. What one of them costs is given back when it goes."""
    server = TlsServer(tmp_path, authority, "--connections", 2 * N)
    check_honest(server)
    threads, sizes = process_figure(server, "Threads"), [memory_kib(server)]
    for _ in range(3):
        with closing(SlowClients(server)) as slow:
            slow.connect(N)
            wait_for(lambda: connections(server) >= N + 1)
            assert slow.go_on() == N
            check_honest(server)
            assert process_figure(server, "Threads") == threads
            sizes.append(memory_kib(server))
        wait_for(lambda: connections(server) == 1)
    assert process_figure(server, "Threads") == threads
    if not is_instrumented(server.process.args[0]):
        # kB: what each takes, and what is left of 2000.
        assert sizes[1] - sizes[0] < 50 * N and sizes[3] - sizes[1] < 1024, sizes
    server.stop()


@pytest.mark.drawn("long")
def test_the_deadline_ends_them(tmp_path, authority):
    server = TlsServer(tmp_path, authority, "--connections", 2 * N, "--idle-ms", 1000)
    with closing(SlowClients(server)) as slow:
        slow.connect(N)

        def all_ended():
            # A busy machine may make an honest one as slow as them.
            with contextlib.suppress(http.client.HTTPException, OSError):
                check_honest(server)
            return slow.go_on() == 0
        wait_for(all_ended)
        wait_for(server.serves)
    wait_for(lambda: connections(server) == 1)
    server.stop()


@pytest.mark.drawn("long")
def test_more_than_there_is_room_for(tmp_path, authority):
    """Who has not said who he is makes room, who has keeps his place, and a new one comes in."""
    server = TlsServer(tmp_path, authority, "--connections", 256)
    with closing(server.connect_tls()) as kept, closing(SlowClients(server)) as slow:
        for _ in range(N // 50):
            slow.connect(50)
            check_honest(server, kept)
            assert connections(server) <= 256 + 2
        wait_for(lambda: 150 < slow.go_on() <= 192)
        ended = re.search(rb'reason="strangers"} (\d+)', server.get("/metrics").body)
        assert int(ended[1]) >= N - 192
    server.stop()


@pytest.mark.host
@pytest.mark.parametrize("room", [2 * N, 256])
def test_honest_clients_hardly_notice(tmp_path, authority, room):
    """p99 of a request with its handshake, while 1000 are slow and those that are ended come back."""
    server = TlsServer(tmp_path, authority, "--connections", room)
    stop = threading.Event()

    def be_slow():
        with closing(SlowClients(server)) as slow:
            slow.connect(N)
            started.set()
            while not stop.wait(0.1):
                slow.connect(min(N - slow.go_on(), 20))
    started, thread = threading.Event(), threading.Thread(target=be_slow)
    thread.start()
    try:
        assert started.wait(HANG_S)
        times = []
        for _ in range(500):
            began = time.monotonic()
            assert server.over_tls("GET", "/v1/vms", READER).status == 200
            times.append(time.monotonic() - began)
    finally:
        stop.set()
        thread.join()
    times.sort()
    print(f"room {room}: p50 {times[250] * 1e3:.1f} ms, p99 {times[495] * 1e3:.1f} ms, "
          f"max {times[-1] * 1e3:.1f} ms")
    assert times[495] < 0.1
    server.stop()


# ---- the socket ----

HALF_OPEN = """
import os, socket, sys
os.setgroups([])
os.setgid(65534)
os.setuid(int(sys.argv[3]))
held = []
for i in range(int(sys.argv[2])):
    held.append(socket.socket(socket.AF_UNIX))
    held[-1].connect(sys.argv[1])
    try:
        held[-1].send(b"GET /v1/vms HTTP/1.1\\r\\n"[:i % 24])
    except OSError:
        pass
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize("users, each", [(1, 270), (5, 60)])
def test_users_who_are_slow_do_not_lock_others_out(users, each):
    """With the limits that vgpud has unless it is configured otherwise: 256 in all, 64 of each user."""
    directory = tempfile.mkdtemp(prefix="vg-")
    os.chmod(directory, 0o755)
    server = Server(directory, "--mode", "666", "--connections", 256, "--client-connections", 64)
    threads = process_figure(server, "Threads")
    slow = [subprocess.Popen([sys.executable, "-c", HALF_OPEN, server.path, str(each), str(60000 + n)],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE) for n in range(users)]
    try:
        for process in slow:
            assert process.stdout.readline() == b"held\n"
        for _ in range(100):
            assert server.get("/v1/vms").status == 200
        # And somebody else who is not root.
        done = subprocess.run(["setpriv", "--reuid=65533", "--regid=65534", "--clear-groups", "curl",
                               "-sS", "-w", "%{http_code}", "-o", os.devnull, "--unix-socket",
                               server.path, "http://x/v1/vms"], capture_output=True, text=True,
                              timeout=HANG_S, check=True)
        assert done.stdout == "200"
        assert connections(server) <= 194 and process_figure(server, "Threads") == threads
    finally:
        for process in slow:
            process.communicate()
    server.stop()
    shutil.rmtree(directory)
