# SPDX-License-Identifier: Apache-2.0
"""A client that vgpu-proxy has ended is not served any more, whichever way its messages come, and whatever it has sent
before."""
import os
import socket
import struct
import time

import pytest
from opencl import LINK, Proxy, need_pocl
from ports import free_port
from settings import HANG_S
from test_proxy import HELLO, Shared, head
from unixhttp import wait_for

# A release of nothing is no message; a flush of a queue that does not exist would be answered.
BAD = head(11, 0, 0, 0, struct.pack("<Q", 1 << 40))
MANY = 10000


@pytest.fixture(autouse=True)
def _pocl():
    need_pocl()


def is_over(proxy):
    """Waits for the client's process to end, and expects one line of log about it."""
    wait_for(lambda: not proxy.children())
    said = proxy.log.read_text()
    assert said.count("sent an invalid message") == 1 and "signal" not in said, said


def test_memory_in_common(tmp_path):
    """It goes on writing into the ring, with messages that are bad and such that are not, and wakes its process."""
    with Proxy(tmp_path) as proxy, Shared(proxy) as shared:
        shared.send(HELLO)
        wait_for(lambda: shared.get(128))
        wait_for(proxy.children)
        first = len(HELLO) + len(BAD)
        shared.send(BAD * 100)
        deadline = time.monotonic() + HANG_S
        while proxy.children():
            assert time.monotonic() < deadline
            if shared.written + len(BAD) < Shared.RING:
                shared.send(BAD)
        assert shared.get(64) == first
        is_over(proxy)


def test_socket(tmp_path):
    """What was in the socket before the end is not looked at."""
    with Proxy(tmp_path) as proxy, proxy.connect() as connection:
        connection.sendall(HELLO)
        assert connection.recv(32)
        connection.setblocking(False)
        # As much as the socket takes at once.
        connection.send(BAD * MANY)
        connection.settimeout(HANG_S)
        try:
            while connection.recv(65536):
                pass
        except ConnectionResetError:
            pass
        is_over(proxy)


def test_a_second_hello(tmp_path):
    """Only the first message says hello: another one ends the connection, and the log contains the reason."""
    with Proxy(tmp_path) as proxy, proxy.connect() as connection:
        connection.sendall(HELLO)
        assert connection.recv(32)
        connection.sendall(HELLO)
        try:
            while connection.recv(65536):
                pass
        except ConnectionResetError:
            pass
        is_over(proxy)


def test_session(tmp_path):
    """The same by TCP, where what has come is kept ahead of who takes it."""
    token, port = "a token of the tests", free_port()
    (tmp_path / "token").write_text(token + "\n")
    with Proxy(tmp_path, sockets=(f"tcp:127.0.0.1:{port},token={tmp_path}/token", "near.sock")) as proxy, \
            socket.create_connection(("127.0.0.1", port), HANG_S) as connection:
        connection.sendall(LINK + struct.pack("<QQ", 3, 0) + token.encode().ljust(64, b"\0") + bytes(24))
        assert connection.recv(40, socket.MSG_WAITALL)[:8] == b"VGPSESS1"
        messages = HELLO + BAD * 1000
        connection.sendall(struct.pack("<QII", 0, len(messages), 0) + messages)
        try:
            while connection.recv(65536):
                pass
        except ConnectionResetError:
            pass
        is_over(proxy)
        # It is not one that comes back either.
        assert os.path.exists(f"/proc/{proxy.process.pid}")
