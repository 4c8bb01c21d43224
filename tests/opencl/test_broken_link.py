# SPDX-License-Identifier: Apache-2.0
"""Programs whose proxy is on another machine, and whose link to it breaks: they go on where it comes back, with the
results that they have without a proxy, and get an error where it does not."""
import os
import random
import selectors
import signal
import socket
import struct
import subprocess
import threading
import time

import pytest
from opencl import Proxy, built, native, need_pocl
from test_opencl import FULL, SEED, output

RESET = struct.pack("ii", 1, 0)  # of SO_LINGER: the other side sees a reset


@pytest.fixture(autouse=True)
def _pocl():
    need_pocl()


class Relay(threading.Thread):
    """Between a program and its proxy: forwards what each sends to the other, until it is told otherwise."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.target = ("127.0.0.1", port)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.setblocking(False)
        self.port = self.listener.getsockname()[1]
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.lock = threading.Lock()
        self.pairs = []  # of two sockets each
        self.is_silent = self.is_closed = self.has_ended = False
        self.n_connections = self.n_bytes = 0
        self.cut_at = None  # bytes
        self.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.has_ended = True
        self.join()
        self._drop()
        self.listener.close()

    def run(self):
        while not self.has_ended:
            for key, _ in self.selector.select(0.02):
                with self.lock:
                    if key.fileobj is self.listener:
                        self._accept()
                    elif not self.is_silent:
                        self._forward(key.fileobj, key.data)

    def _accept(self):
        near, _ = self.listener.accept()
        if self.is_closed:
            near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            near.close()
            return
        self.n_connections += 1
        far = socket.create_connection(self.target)
        self.pairs.append((near, far))
        for one, other in ((near, far), (far, near)):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.selector.register(one, selectors.EVENT_READ, other)

    def _forward(self, one, other):
        if one.fileno() < 0:
            return
        try:
            data = one.recv(65536)
            if self.cut_at is not None and self.n_bytes + len(data) >= self.cut_at:
                other.sendall(data[:self.cut_at - self.n_bytes])
                self.cut_at = None
                self._drop()
                return
            self.n_bytes += len(data)
            if data:
                other.sendall(data)
                return
        except OSError:
            pass
        self._drop([pair for pair in self.pairs if one in pair], False)

    def _drop(self, pairs=None, with_reset=True):
        for pair in list(self.pairs if pairs is None else pairs):
            self.pairs.remove(pair)
            for one in pair:
                self.selector.unregister(one)
                if with_reset:
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                one.close()

    def cut(self):
        """Both sides see a reset."""
        with self.lock:
            self._drop()

    def cut_after(self, n):
        with self.lock:
            self.cut_at = self.n_bytes + n

    def close(self):
        """For good."""
        with self.lock:
            self.is_closed = True
            self._drop()

    def silence(self, is_silent):
        """Forwards nothing, and neither side is told; what is there then stays as it is."""
        with self.lock:
            self.is_silent = is_silent


class Link:
    """A proxy on TCP, and a relay before it."""

    def __init__(self, folder, *options):
        token = folder / "token"
        token.write_text("a token of the tests\n")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.token = {"VGPU_OPENCL_TOKEN": str(token)}
        sockets = (f"tcp:127.0.0.1:{self.port},token={token}", "near.sock")
        self.proxy = Proxy(folder, "--allow-binaries", *options, sockets=sockets)
        self.relay = Relay(self.port)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.relay.__exit__()
        self.proxy.__exit__(*error)

    def environment(self, **more):
        return self.proxy.environment(VGPU_OPENCL=f"proxy:tcp:127.0.0.1:{self.relay.port}", **self.token, **more)

    def run(self, argv, **more):
        return subprocess.Popen(argv, env=self.environment(**more), stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def wait_until(what, seconds=60):
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.005)


CALLS = [built("tests/opencl/random-calls"), "2", "300"]


def test_cuts(tmp_path):
    """The link is cut again and again, at any byte."""
    chance = random.Random(SEED)
    most = 200 if FULL else 12
    cuts = 0
    with Link(tmp_path) as link:
        argv = [CALLS[0], str(SEED), str(most * 25)]
        program = link.run(argv)
        seen = 0
        while program.poll() is None and cuts < most:
            if link.relay.n_connections > seen:
                seen = link.relay.n_connections
                link.relay.cut_after(chance.randrange(1, 20000))
                cuts += 1
            time.sleep(0.001)
        told, said = program.communicate(timeout=60)
        assert program.returncode == 0 and not said, said
        assert len(link.proxy.children()) <= 1
    print(f"{cuts} cuts")
    assert cuts > most // 2
    assert told.decode() == output(argv, native())


def begin(link):
    """A program that goes on for long."""
    program = link.run([CALLS[0], "2", "5000"])
    wait_until(lambda: link.relay.n_bytes > 20000)
    return program


def said_once(program):
    """It ends by itself, and has said one line."""
    _, said = program.communicate(timeout=120)
    lines = said.decode().splitlines()
    assert len(lines) == 1 and "the proxy is gone, as it " in lines[0], lines
    return lines[0]


@pytest.mark.parametrize("how", ["cut", "killed"])
def test_for_good(tmp_path, how):
    """A link that does not come back, and a proxy's process that is killed: the program gets errors, and is told why in
    one line; what it had is given up."""
    with Link(tmp_path, "--linger=2") as link:
        program = begin(link)
        if how == "cut":
            link.relay.close()
            assert "cannot be reached" in said_once(program)
        else:
            os.kill(link.proxy.children()[0], signal.SIGKILL)
            assert "does not know this program" in said_once(program)
        wait_until(lambda: not link.proxy.children())
