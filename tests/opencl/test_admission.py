# SPDX-License-Identifier: Apache-2.0
"""Whom vgpu-proxy takes: what comes by one VM's socket keeps no other VM out, whether it shows a token or not; and who
may come by TLS is decided by what is configured when hands are shaken."""
import contextlib
import os
import re
import signal
import socket
import ssl
import struct
import subprocess
import sys

import pytest
from certs import Authority
from opencl import LINK, Proxy, built, need, need_pocl
from ports import free_port
from settings import HANG_S, full
from test_proxy import ALLOCATE, WAITING
from unixhttp import wait_for

HAMMER = [built("tests/opencl/hammer"), "5", "1", "10"]
TOKEN = "a token of the tests"
MANY = 400 if full() else 100
SOCKET_MOST = 16  # connections of one socket that wait


@pytest.fixture(autouse=True)
def _pocl():
    need_pocl()


class Two:
    """A proxy for two VMs by TCP, which asks a token of each, and a socket to ask by."""

    def __init__(self, folder, *options, words=("", "")):
        self.ports = free_port(), free_port()
        (folder / "token").write_text(TOKEN + "\n")
        self.folder = folder
        lines = [f"tcp:127.0.0.1:{port},vm=vm{n},token={folder}/token{words[n]}" for n, port in enumerate(self.ports)]
        self.proxy = Proxy(folder, f"--ask={folder}/near.sock.ask", *options, sockets=(*lines, "near.sock"))
        self.proxy.path = str(folder / "near.sock")

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.proxy.__exit__(*error)

    def environment(self, n, **more):
        return self.proxy.environment(VGPU_OPENCL=f"proxy:tcp:127.0.0.1:{self.ports[n]}",
                                      VGPU_OPENCL_TOKEN=str(self.folder / "token"), **more)

    def run(self, n, argv=None):
        return subprocess.run(argv or HAMMER, env=self.environment(n), capture_output=True, text=True, check=False,
                              timeout=HANG_S)

    def waiting(self, n):
        """A program that has a client's process."""
        program = subprocess.Popen([sys.executable, "-c", WAITING], env=self.environment(n), stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        assert program.stdout.readline() == b"there\n", program.communicate(timeout=HANG_S)
        return program

    def refused(self, n):
        return self.proxy.ask(f"show tcp:127.0.0.1:{self.ports[n]}")["refused"]


def end(*programs):
    for program in programs:
        program.kill()
        program.communicate(timeout=HANG_S)


def test_connections_that_show_nothing(tmp_path):
    """Far more than the proxy has places for clients: no process is begun for any, only so many of a socket are kept, the
    oldest go, and are told why; another VM's programs and this VM's own get through; and the log stays short."""
    with Two(tmp_path, "--clients=8") as two, contextlib.ExitStack() as stack:
        held = [stack.enter_context(socket.create_connection(("127.0.0.1", two.ports[0]), HANG_S)) for _ in range(MANY)]
        assert two.run(1).stdout.endswith(" 0 wrong\n")
        assert two.run(0).stdout.endswith(" 0 wrong\n")
        told = [one.recv(192, socket.MSG_WAITALL).rstrip(b"\0") for one in held[:MANY - SOCKET_MOST]]
        assert set(told) == {b"VPREFUS1too many connections of this VM are waiting"}
        wait_for(lambda: not two.proxy.children())
        refused = two.refused(0)
        assert refused["times"] >= MANY - SOCKET_MOST, refused
        assert re.search("because more are arriving|a client that sent nothing", refused["last"]), refused
        assert not two.refused(1)["times"]
        lines = two.proxy.log.read_text().splitlines()
        assert len(lines) <= 130, len(lines)


@pytest.mark.drawn("half-minutes")
def test_one_that_says_nothing_for_long(tmp_path):
    """It goes after some seconds, and is told so."""
    with Two(tmp_path) as two, socket.create_connection(("127.0.0.1", two.ports[0]), HANG_S) as silent:
        silent.sendall(LINK[:3])
        assert silent.recv(192, socket.MSG_WAITALL).rstrip(b"\0") == b"VPREFUS1the program sent nothing in time"
        assert re.search(r"a client that sent nothing for 10 s, from 127\.0\.0\.1", two.refused(0)["last"])


def test_clients_of_a_vm(tmp_path):
    """A VM has so many programs at a time, by its own number or a quarter of all; more are told so; others get through."""
    with Two(tmp_path, "--clients=20", words=(",clients=2", "")) as two:
        programs = [two.waiting(0) for _ in range(2)]
        done = two.run(0)
        assert done.returncode != 0
        assert "it has reached its maximum of 2 clients for this VM" in done.stderr, done.stderr
        assert "clients for this VM" in two.refused(0)["last"]
        programs += [two.waiting(1) for _ in range(5)]
        assert "its maximum of 5 clients for this VM" in two.run(1).stderr
        assert two.proxy.ask(f"show tcp:127.0.0.1:{two.ports[0]}")["limits"]["vm_clients"] == 2
        end(programs[0])
        end(*programs[1:])


def test_memory_of_a_vm(tmp_path):
    """All programs of a VM have so much of the device's memory together; another VM's have their own; and what one gives
    back, or had when it was killed, the others may have."""
    with Two(tmp_path, words=(",vm-memory=64,memory=60", ",vm-memory=64")) as two:
        first = subprocess.Popen([sys.executable, "-u", "-c", ALLOCATE.split("print(size")[0] + "make(40)\ninput()\n"],
                                 env=two.environment(0), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert first.stdout.readline() == b"0\n"
        allocate = [sys.executable, "-c", ALLOCATE]
        # 40 are another's: there is room for 20 once the first and the second 40 were refused.
        assert two.run(0, allocate).stdout.split() == ["60", "-4", "-4", "0", "-38", "-4"]
        assert "more memory than the limit that its VM's programs share" in two.refused(0)["last"]
        assert two.run(1, allocate).stdout.split() == ["64", "0", "-4", "0", "0", "0"]
        shown = two.proxy.ask(f"show tcp:127.0.0.1:{two.ports[0]}")
        assert shown["socket"]["vm_memory_bytes"] == 64 << 20 and shown["socket"]["memory_bytes"] == 60 << 20
        os.kill(two.proxy.children()[0], signal.SIGKILL)
        wait_for(lambda: not two.proxy.children())
        assert two.run(0, allocate).stdout.split() == ["60", "0", "-4", "0", "0", "0"]
        end(first)


@pytest.mark.parametrize("word", ["clients=0", "clients=4097", "clients=x", "vm-memory=0", "vm-memory=-1",
                                  "vm=" + "x" * 256])
def test_what_is_no_limit(tmp_path, word):
    done = subprocess.run([built("vgpu-proxy"), f"{tmp_path}/p.sock,{word}"], capture_output=True, text=True, check=False,
                          timeout=HANG_S)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stderr


def test_programs_that_begin_at_once(tmp_path):
    """More processes than a socket may begin at once: they are begun a little later, and each program is served."""
    with Two(tmp_path) as two:
        for _ in range(100):
            with socket.create_connection(("127.0.0.1", two.ports[0]), HANG_S) as one:
                one.sendall(LINK + struct.pack("<QQ", 3, 0) + TOKEN.encode().ljust(64, b"\0") + bytes(24))
                assert one.recv(8, socket.MSG_WAITALL) in (b"VGPSESS1", b"VPREFUS1")
        said = two.proxy.log.read_text()
        assert "clients for this VM" in said and "signal" not in said


# ---- by TLS ----


class Shaking:
    """A program's side of a handshake, whose last message is sent when it is told to."""

    def __init__(self, port, pair=None):
        self.connection = socket.create_connection(("127.0.0.1", port), HANG_S)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if pair:
            context.load_cert_chain(*pair)
        self.come, self.go = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.come, self.go)
        while not self.step():
            self.connection.sendall(self.go.read())
            self.come.write(self.connection.recv(65536))

    def step(self):
        try:
            self.tls.do_handshake()
            return True
        except ssl.SSLWantReadError:
            return False

    def finish(self, data):
        """Sends it with DATA behind it, and returns what is answered first."""
        self.tls.write(data)
        self.connection.sendall(self.go.read())
        answer = b""
        while True:
            try:
                answer += self.tls.read(4096)
                return answer.rstrip(b"\0")
            except ssl.SSLWantReadError:
                more = self.connection.recv(65536)
                if not more:
                    return answer
                self.come.write(more)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()


class ByTls:
    def __init__(self, folder, line):
        need("certtool")
        self.folder, self.port, self.authority = folder, free_port(), Authority(folder / "ca")
        (folder / "token").write_text(TOKEN + "\n")
        (folder / "sockets").mkdir()
        pair = self.authority.issue("proxy", 'ip_address = "127.0.0.1"')
        self.write(line)
        self.proxy = Proxy(folder, f"--sockets={folder}/sockets", f"--tls-certificate={pair[0]}", f"--tls-key={pair[1]}",
                           f"--tls-client-ca={self.authority.certificate}", sockets=("near.sock",))

    def write(self, line):
        (self.folder / "sockets" / "a.conf").write_text(f"tls:127.0.0.1:{self.port},{line}\n")

    def change(self, line):
        said = self.proxy.log.read_text().count("reloaded the sockets")
        self.write(line)
        self.proxy.process.send_signal(signal.SIGHUP)
        wait_for(lambda: self.proxy.log.read_text().count("reloaded the sockets") > said)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.proxy.__exit__(*error)


WAYS = [LINK + struct.pack("<QQ", 0, 0), LINK + struct.pack("<QQ", 1, 0), LINK + struct.pack("<QQ", 2, 0) + bytes(64),
        LINK + struct.pack("<QQ", 3, 0) + bytes(64 + 24)]


def test_the_token_goes_during_the_handshake(tmp_path):
    """A program without any credential is not taken when the operator goes over to certificates meanwhile, whichever way
    it wants to be served."""
    line = f"vm=guest0,token={tmp_path}/token"
    with ByTls(tmp_path, line) as by_tls:
        for way in WAYS:
            with Shaking(by_tls.port) as program:
                by_tls.change("vm=guest0")
                assert program.finish(way).startswith(b"VPREFUS1the program did not present a certificate of VM 'guest0'")
            by_tls.change(line)
            with Shaking(by_tls.port) as program:
                # Its hands are shaken, and it has not said yet how it wants to be served.
                program.connection.sendall(program.go.read())
                wait_for(lambda: "vgpu-proxy-tls" in names(by_tls.proxy))
                by_tls.change("vm=guest0")
                assert program.finish(way).startswith((b"VPREFUS1it requires a certificate of its VM",
                                                       b"VPREFUS1the program did not present a certificate"))
            by_tls.change(line)
        assert not by_tls.proxy.children()


def names(proxy):
    with open(f"/proc/{proxy.process.pid}/task/{proxy.process.pid}/children", encoding="ascii") as file:
        return [proxy.name(int(pid)) for pid in file.read().split()]


def test_the_vm_changes_during_the_handshake(tmp_path):
    """A certificate of the VM of before is none of the one that the socket has now."""
    with ByTls(tmp_path, "vm=guest0") as by_tls:
        pair = by_tls.authority.issue("guest0", server=False)
        with Shaking(by_tls.port, pair) as program:
            by_tls.change("vm=guest1")
            answer = program.finish(WAYS[3])
            assert answer.startswith(b"VPREFUS1the program's certificate is for 'guest0', not for 'guest1'"), answer
        by_tls.change("vm=guest0")
        with Shaking(by_tls.port, pair) as program:
            assert program.finish(WAYS[3]).startswith(b"VGPSESS1")


# What a certificate says that it is for, and whether either side is warned of it.
USES = {"both": (["tls_www_server", "tls_www_client"], False, False), "none": ([], False, False),
        "server": (["tls_www_server"], False, True), "client": (["tls_www_client"], True, False),
        "any": (["key_purpose_oid = 2.5.29.37.0"], False, False)}


@pytest.mark.parametrize("use", USES)
def test_what_a_certificate_is_for(tmp_path, use):
    """One that is for the other side alone is taken with a warning, of each side; one that does not say is for both."""
    uses, is_no_server, is_no_client = USES[use]
    with ByTls(tmp_path, "vm=guest0") as by_tls:
        authority = by_tls.authority
        pair = authority.issue("guest0", uses=uses)
        environment = by_tls.proxy.environment(
            VGPU_OPENCL=f"proxy:tls:127.0.0.1:{by_tls.port}", VGPU_OPENCL_CA=authority.certificate,
            VGPU_OPENCL_CERT=pair[0], VGPU_OPENCL_KEY=pair[1])
        # The files are read for each client.
        authority.issue("proxy", 'ip_address = "127.0.0.1"', uses=uses)
        done = subprocess.run(HAMMER, env=environment, capture_output=True, text=True, check=False, timeout=HANG_S)
        assert done.stdout.endswith(" 0 wrong\n"), done.stderr
        said = by_tls.proxy.log.read_text()
    assert ("not valid for TLS servers (extended key usage); a future version" in done.stderr) == is_no_server, done.stderr
    assert ("'guest0', from" in said and "not valid for TLS clients (extended key usage); a future version" in said) == is_no_client, said
