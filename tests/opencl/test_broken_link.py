# SPDX-License-Identifier: Apache-2.0
"""Programs whose proxy is on another machine, and whose link to it breaks: they go on where it comes back, with the
results that they have without a proxy, and get an error where it does not."""
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

import pytest
from netns import Network, skip_without
from opencl import LINK, PREPARE, WITH_A_QUEUE, Proxy, Stopped, built, native, need_pocl
from ports import free_port, knows_localhost
from relay import Relay
from settings import HANG_S
from test_opencl import FULL, SEED, output
from test_proxy import HELLO, LARGE, head
from unixhttp import wait_for

some = pytest.mark.drawn("broken-link")

@pytest.fixture(autouse=True)
def _pocl():
    need_pocl()


class Link:
    """A proxy on TCP, and a relay before it."""
    tls = None  # an Authority: by TLS

    def __init__(self, folder, *options):
        token = folder / "token"
        token.write_text("a token of the tests\n")
        self.port = free_port()
        self.token = {"VGPU_OPENCL_TOKEN": str(token)}
        self.way = "tls" if self.tls else "tcp"
        if self.tls:
            certificate, key = self.tls.issue("proxy", 'ip_address = "127.0.0.1"')
            options += (f"--tls-certificate={certificate}", f"--tls-key={key}")
            self.token["VGPU_OPENCL_CA"] = self.tls.certificate
        sockets = (f"{self.way}:127.0.0.1:{self.port},token={token}", "near.sock")
        self.proxy = Proxy(folder, "--allow-binaries", *options, sockets=sockets)
        self.relay = Relay(self.port)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.relay.__exit__()
        self.proxy.__exit__(*error)

    def environment(self, **more):
        address = f"proxy:{self.way}:127.0.0.1:{self.relay.port}"
        return self.proxy.environment(**{"VGPU_OPENCL": address, **self.token, **more})

    def run(self, argv, **more):
        # Unbuffered, so that communicate() has what readline() has not taken.
        return subprocess.Popen(argv, bufsize=0, env=self.environment(**more), stdout=subprocess.PIPE, stderr=subprocess.PIPE)


CALLS = [built("tests/opencl/random-calls"), "2", "150"]


def test_cuts(tmp_path):
    """The link is cut again and again, at any byte."""
    chance = random.Random(SEED)
    most = 200 if FULL else 4
    # Who comes back finds a place where nobody else does.
    with Link(tmp_path, "--clients=1") as link:
        argv = [CALLS[0], str(SEED), str(most * 25)]
        program = link.run(argv)
        # What is cut before it has begun is not taken up again.
        first = program.stdout.readline()
        # It stays a client for as long as another one takes.
        program.send_signal(signal.SIGSTOP)
        refused = subprocess.run(CALLS, env=link.environment(), capture_output=True, timeout=HANG_S, check=False)
        assert refused.returncode != 0 and b"it has reached its maximum of 1 clients" in refused.stderr
        seen = link.relay.n_connections
        link.relay.cut_each([chance.randrange(1, 20000) for _ in range(most)])
        program.send_signal(signal.SIGCONT)
        told, said = program.communicate(timeout=2 * HANG_S)
        assert program.returncode == 0 and not said, said
        assert len(link.proxy.children()) <= 1
        assert link.relay.n_connections >= seen + most
    assert (first + told).decode() == output(argv, native())


ASKED_ONCE = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <string.h>
#include <unistd.h>

int
getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **found)
{
    static int n;
    int (*next)() = dlsym(RTLD_NEXT, "getaddrinfo");

    while (n > 0)
        pause();
    n += strcmp(name, "localhost") == 0;
    return next(name, service, hints, found);
}
"""


@pytest.mark.skipif(not shutil.which("cc"), reason="there is no compiler")
@pytest.mark.skipif(not knows_localhost(), reason="this machine has no name for 127.0.0.1 (/etc/hosts)")
def test_nobody_knows_its_name_any_more(tmp_path):
    """Who tells where the proxy is, is out of reach when the link to it breaks, as the network was: the program goes on."""
    (tmp_path / "once.c").write_text(ASKED_ONCE)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "once.so", tmp_path / "once.c"], check=True, timeout=HANG_S)
    with Link(tmp_path) as link:
        program = link.run(CALLS, VGPU_OPENCL=f"proxy:tcp:localhost:{link.relay.port}", LD_PRELOAD=str(tmp_path / "once.so"))
        for n in range(1, 3):
            wait_for(lambda: program.poll() is not None or link.relay.n_bytes > 20000 * n)
            link.relay.cut()
            wait_for(lambda: program.poll() is not None or link.relay.n_connections > n)
        told, said = program.communicate(timeout=HANG_S)
        assert program.returncode == 0 and not said, said
        assert link.relay.n_connections > 2
    assert told.decode() == output(CALLS, native())


@some
@pytest.mark.parametrize("seconds", [0, 6])
def test_silence(tmp_path, seconds):
    """The link is dead, and nobody is told: for a moment, and for so long that both sides notice."""
    with Link(tmp_path) as link:
        program = link.run(CALLS)
        wait_for(lambda: link.relay.n_bytes > 20000)
        link.relay.silence(True)
        time.sleep(seconds)
        if seconds:
            wait_for(lambda: link.relay.n_connections > 1)
        link.relay.silence(False)
        told, said = program.communicate(timeout=HANG_S)
        assert program.returncode == 0 and not said, said
    assert told.decode() == output(CALLS, native())


@some
def test_large(tmp_path):
    """The link is cut in the middle of much memory on its way, in both directions."""
    with Link(tmp_path, "--staging=0") as link:
        program = link.run([sys.executable, "-c", LARGE, "0"])
        for n in range(20):
            wait_for(lambda: program.poll() is not None or link.relay.n_connections > n)
            link.relay.cut_after(10 << 20)
        told, said = program.communicate(timeout=HANG_S)
        assert program.returncode == 0 and not said and not told, said
        assert link.relay.n_connections > 1


# Who is stopped while an answer is on its way is lost until it has come, which a busy machine makes likely.
@pytest.mark.host
def test_stops(tmp_path):
    """A program whose link is broken is not stopped, and says why in time; and is when the link is mended."""
    os.makedirs(tmp_path / "program")
    argv = [CALLS[0], "2", "200", "2"]
    with Link(tmp_path) as link, \
            Stopped(tmp_path / "program", argv, vendor=f"proxy:tcp:127.0.0.1:{link.relay.port}", **link.token) as stopped:
        for n in range(3):
            link.relay.silence(True)
            if n:
                link.relay.cut()
            begun = time.monotonic()
            assert stopped.say("prepare 3000") == "refused the connection to its proxy is broken"
            assert time.monotonic() - begun < 20
            link.relay.silence(False)
            for _ in range(3):
                assert stopped.say(PREPARE).startswith("released")
                assert stopped.say("resume").startswith("resumed")
        text = stopped.process.stdout.read().decode()
        assert stopped.process.wait() == 0
    assert text == output(argv[:3], native())


@some
@pytest.mark.parametrize("how", ["stopped", "silent"])
def test_a_return_to_who_does_not_answer(tmp_path, how):
    """A program that is to go on at a proxy which has stopped, though its machine takes what is sent, or that stops in the
    middle of it, is told to have failed, in time and why; it continues where it was, and nothing is lost."""
    os.makedirs(tmp_path / "program")
    argv = [built("tests/opencl/frames"), "16", "20", "5", str(tmp_path / "wait")]
    (tmp_path / "wait").touch()
    with Link(tmp_path) as link, Stopped(tmp_path / "program", argv, **link.token) as stopped:
        assert stopped.process.stdout.readline().startswith(b"frame 1 ")
        assert stopped.say(PREPARE).startswith("released")
        if how == "stopped":
            link.proxy.process.send_signal(signal.SIGSTOP)
        else:
            # Where half of its memory has been sent.
            threading.Thread(target=lambda: (wait_for(lambda: link.relay.n_bytes > 8 << 20),
                                             link.relay.silence(True)), daemon=True).start()
        begun = time.monotonic()
        said = stopped.say(f"resume at proxy:tcp:127.0.0.1:{link.relay.port}")
        if said.startswith("late "):
            assert said.startswith("late a call to the proxy does not return"), said
            said = stopped.lines.readline().strip()
        print(f"{said}, after {time.monotonic() - begun:.0f} s")
        why = {"stopped": "it does not answer", "silent": "it is no longer reachable"}[how]
        assert said == f"failed proxy:tcp:127.0.0.1:{link.relay.port}: {why}"
        link.relay.silence(False)
        link.proxy.process.send_signal(signal.SIGCONT)
        assert stopped.say("resume").startswith("resumed")
        os.unlink(tmp_path / "wait")
        last = stopped.process.stdout.read().decode().splitlines()[-1]
        assert stopped.process.wait() == 0
    n = last.split()[1]
    assert last == output([*argv[:2], n, "0"], native()).splitlines()[-1]


READER = WITH_A_QUEUE + """
size = int(sys.argv[1])
data = b"0123456789abcdef" * (size >> 4)
buffer = ctypes.c_void_p(cl.clCreateBuffer(context, ctypes.c_uint64(33), ctypes.c_size_t(size), data, ctypes.byref(error)))
to = [ctypes.create_string_buffer(size) for _ in range(4)]
print("there", flush=True)
sys.stdin.readline()
for one in to:
    assert cl.clEnqueueReadBuffer(queue, buffer, 0, ctypes.c_size_t(0), ctypes.c_size_t(size), one, 0, None, None) == 0
assert cl.clFinish(queue) == 0
assert all(one.raw == data for one in to)
"""


@some
def test_others_go_on(tmp_path):
    """While a client's link is broken, in the middle of what is read for it, others have the device."""
    with Link(tmp_path, "--max-kernel=2") as link:
        reader = subprocess.Popen([sys.executable, "-c", READER, str(16 << 20)], env=link.environment(), stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert reader.stdout.readline() == b"there\n"
        link.relay.cut_after(20 << 20)
        before = link.relay.n_connections
        link.relay.is_deaf = True
        reader.stdin.write(b"\n")
        reader.stdin.flush()
        wait_for(lambda: link.relay.cut_at is None)
        for _ in range(3):
            lines = output([built("tests/opencl/hammer"), "5", "4", "100"],
                           link.proxy.environment(VGPU_OPENCL=f"proxy:{tmp_path}/near.sock"))
            assert lines.endswith(" 0 wrong\n")
        assert reader.poll() is None and link.relay.n_connections == before
        link.relay.is_deaf = False
        told, said = reader.communicate(timeout=HANG_S)
        assert reader.returncode == 0 and not said and not told, said


@pytest.mark.drawn("network")
@pytest.mark.parametrize("is_for_good", [False, True])
def test_a_cable(tmp_path, is_for_good):
    """Two machines, one of which has its network taken away, for a while or for good: nothing comes any more, and nobody
    is told."""
    skip_without()
    token = tmp_path / "token"
    token.write_text("a token of the tests\n")
    argv = [CALLS[0], "2", "400"]
    network = Network("gpu", "guest")
    try:
        address = f"tcp:{network.address['gpu']}:4000"
        with Proxy(tmp_path, "--allow-binaries", f"--linger={3 if is_for_good else 60}",
                   sockets=(f"{address},token={token}", "near.sock"), prefix=network.prefix("gpu")) as proxy:
            program = subprocess.Popen([*network.prefix("guest"), *argv], bufsize=0, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, env=proxy.environment(VGPU_OPENCL_TOKEN=str(token)))
            told = b""
            for seconds in (1, 8):
                told += b"".join(program.stdout.readline() for _ in range(20))
                network.plug("guest", False)
                if is_for_good:
                    assert "no longer reachable" in said_once(program)
                    return
                time.sleep(seconds)
                network.plug("guest", True)
            more, said = program.communicate(timeout=HANG_S)
            assert program.returncode == 0 and not said, said
    finally:
        network.close()
    assert (told + more).decode() == output(argv, native())


def begin(link):
    """A program that goes on for long."""
    program = link.run([CALLS[0], "2", "5000"])
    wait_for(lambda: link.relay.n_bytes > 20000)
    return program


def said_once(program):
    """It ends by itself, and has said one line."""
    _, said = program.communicate(timeout=HANG_S)
    lines = said.decode().splitlines()
    assert len(lines) == 1 and "the proxy has disappeared, as it " in lines[0], lines
    return lines[0]


@some
@pytest.mark.parametrize("how", ["cut", "killed", "another"])
def test_for_good(tmp_path, how):
    """A link that does not come back, a proxy's process that is killed, and a proxy that is another one now: the program
    gets errors, and is told why in one line; what it had is given up."""
    with Link(tmp_path, "--linger=2") as link:
        program = begin(link)
        if how == "cut":
            link.relay.close()
            assert "no longer reachable" in said_once(program)
            wait_for(lambda: not link.proxy.children())
            assert "it has not reconnected" in link.proxy.log.read_text()
            return
        if how == "killed":
            os.kill(link.proxy.children()[0], signal.SIGKILL)
        else:
            os.makedirs(tmp_path / "other")
            with Link(tmp_path / "other") as other:
                link.relay.target = other.relay.target
                link.relay.cut()
                assert "no longer knows this program" in said_once(program)
        if how == "killed":
            assert "its process crashed (signal 9)" in said_once(program)
        wait_for(lambda: not link.proxy.children())


ENDING = """
import ctypes, os, sys
cl = ctypes.CDLL("libOpenCL.so.1")
platform = ctypes.c_void_p()
assert cl.clGetPlatformIDs(1, ctypes.byref(platform), None) == 0
pid = os.fork()
if pid == 0:
    sys.exit(0)
os.waitpid(pid, 0)
assert cl.clGetPlatformInfo(platform, 0x902, ctypes.c_size_t(0), None, None) == 0
print("there", flush=True)
sys.stdin.read()
"""


@some
@pytest.mark.parametrize("how", ["ends", "killed"])
def test_a_program_ends(tmp_path, how):
    """One that ends is not waited for, and one that is killed is; a process that it has forked is nobody."""
    with Link(tmp_path, f"--linger={2 if how == 'killed' else 1000}") as link:
        # Python 3.12 warns of a fork beside the library's threads.
        program = subprocess.Popen([sys.executable, "-W", "ignore::DeprecationWarning", "-c", ENDING], env=link.environment(), stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert program.stdout.readline() == b"there\n"
        begun = time.monotonic()
        if how == "killed":
            program.kill()
        _, said = program.communicate(timeout=HANG_S)
        wait_for(lambda: not link.proxy.children())
        assert not said and (how == "ends" or time.monotonic() - begun > 1.5)


# ---- clients that lie ----

MAGIC = b"VGPSESS1"
# Requests the name of the first platform.
WHO = head(1, 0, 0, 0, struct.pack("<QQQ", 0x902, 1, 64))


class Raw:
    """The program's side of a session, by which to lie."""

    def __init__(self, port, token, session=bytes(16), taken=0):
        self.connection = socket.create_connection(("127.0.0.1", port), HANG_S)
        self.connection.sendall(LINK + struct.pack("<QQ", 3, 0) + token.ljust(64, b"\0") + session + struct.pack("<Q", taken))
        self.welcome = self.receive(40)
        self.session = self.welcome[8:24]
        self.taken = struct.unpack("<Q", self.welcome[24:32])[0] if self.welcome else 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()

    def receive(self, n):
        """Fewer: it has ended."""
        data = b""
        try:
            while len(data) < n:
                more = self.connection.recv(n - len(data))
                if not more:
                    break
                data += more
        except ConnectionResetError:
            pass
        return data

    def frame(self, body=b"", taken=0, size=None, flags=0):
        try:
            self.connection.sendall(struct.pack("<QII", taken, len(body) if size is None else size, flags) + body)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def answer(self):
        """The bytes of the next frame that has any."""
        while True:
            head = self.receive(16)
            size = struct.unpack("<QII", head)[1] if len(head) == 16 else 0
            if size or len(head) < 16:
                return self.receive(size)

    def has_ended(self):
        while self.receive(4096):
            pass
        return True


def drip(connection, data, most=HANG_S):
    """Sends a byte each second; whether the other side has hung up before it had all."""
    connection.settimeout(1)
    until = time.monotonic() + most
    for n in range(len(data)):
        assert time.monotonic() < until
        try:
            connection.sendall(data[n:n + 1])
            while connection.recv(4096):
                pass
            return True
        except TimeoutError:
            pass
        except (BrokenPipeError, ConnectionResetError):
            return True
    return False


@some
def test_a_proxy_that_drips(tmp_path):
    """A program that comes back waits for the whole welcome no longer than for its first byte, and finds its proxy then."""
    with Link(tmp_path) as link, socket.create_server(("127.0.0.1", 0)) as slow:
        program = link.run(CALLS)
        wait_for(lambda: link.relay.n_bytes > 20000)
        target, link.relay.target = link.relay.target, slow.getsockname()
        link.relay.cut()
        with slow.accept()[0] as one:
            assert drip(one, MAGIC + bytes(31))
            link.relay.target = target
        told, said = program.communicate(timeout=HANG_S)
        assert program.returncode == 0 and not said, said
    assert told.decode() == output(CALLS, native())


@pytest.mark.drawn("half-minutes")
def test_a_program_that_drips(tmp_path):
    """One that says who it is a byte a second keeps its place no longer than one that says nothing."""
    with Link(tmp_path) as link, socket.create_connection(("127.0.0.1", link.port), HANG_S) as one:
        assert drip(one, LINK + struct.pack("<QQ", 3, 0) + bytes(80))
        wait_for(lambda: "a client that sent nothing for 10 s" in link.proxy.log.read_text())


def test_whose_session_it_is(tmp_path):
    """Who comes back has to know the session's number and to show the token of its socket; then the first connection is
    not heard any more, and the new one goes on where that was."""
    tokens = [b"a token of the tests", b"another one's token"]
    ports = []
    for n, token in enumerate(tokens):
        (tmp_path / f"token{n}").write_bytes(token + b"\n")
        ports.append(free_port())
    sockets = tuple(f"tcp:127.0.0.1:{port},token={tmp_path}/token{n}" for n, port in enumerate(ports)) + ("near.sock",)
    with Proxy(tmp_path, sockets=sockets) as proxy, Raw(ports[0], tokens[0]) as first:
        assert first.welcome[:8] == MAGIC and first.session != bytes(16)
        first.frame(HELLO[:30])
        first.frame(HELLO[30:])
        answer = first.answer()
        assert len(answer) > 32
        with Raw(ports[1], tokens[1], first.session, len(answer)) as thief:
            assert thief.session == bytes(16)
        with Raw(ports[0], tokens[1], first.session, len(answer)) as thief:
            assert thief.welcome.startswith(b"VPREFUS1it expects another token")
        with Raw(ports[0], tokens[0], os.urandom(16), len(answer)) as thief:
            assert thief.session == bytes(16)
        for taken in (len(answer) + 1, (1 << 64) - 1):
            with Raw(ports[0], tokens[0], first.session, taken) as liar:
                assert not liar.welcome
        first.frame(WHO)
        name = first.answer()
        assert b"Portable Computing Language" in name
        with Raw(ports[0], tokens[0], first.session, len(answer)) as second:
            assert second.session == first.session and second.taken == len(HELLO) + len(WHO)
            assert first.has_ended()
            assert second.answer() == name  # the answer that was not taken comes again
            second.frame(flags=1)
            assert second.has_ended()
        wait_for(lambda: not proxy.children())


@some
@pytest.mark.parametrize("lie", ["taken", "much", "deaf", "half", "noise"])
def test_lies(tmp_path, lie):
    """What no session is ends who says it, and nobody else."""
    with Link(tmp_path, "--linger=1") as link:
        with Raw(link.port, b"a token of the tests") as liar:
            if lie == "taken":
                liar.frame(taken=1)
            elif lie == "much":
                liar.frame(HELLO, size=(1 << 32) - 1)
                for _ in range(100):
                    liar.frame(head(1, 0, 0, 0, bytes(1 << 16)))
            elif lie == "deaf":
                liar.frame(HELLO)
                for _ in range(4000):
                    liar.frame(WHO)
                    if len(link.proxy.children()) != 1:
                        break
            elif lie == "half":
                liar.connection.sendall(bytes(7))
            else:
                liar.connection.sendall(random.Random(SEED).randbytes(4096))
        wait_for(lambda: not link.proxy.children())
        lines = output([built("tests/opencl/hammer"), "5", "4", "100"], link.environment())
        assert lines.endswith(" 0 wrong\n")


class Liar(threading.Thread):
    """A proxy's side that welcomes whom it likes, and then says SAYS."""

    def __init__(self, says, *welcomes):
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.says, self.welcomes = says, list(welcomes)
        self.start()

    def run(self):
        while self.welcomes:
            connection, _ = self.listener.accept()
            with connection:
                connection.settimeout(HANG_S)
                try:
                    connection.recv(24 + 64 + 24, socket.MSG_WAITALL)
                    connection.sendall(self.welcomes.pop(0) + self.says)
                    connection.recv(65536)
                except OSError:
                    pass
        self.listener.close()


def welcome(session=b"s" * 16, taken=0, linger=2, magic=MAGIC):
    return magic + session + struct.pack("<QQ", taken, linger)


@some
@pytest.mark.parametrize("lie", ["taken", "much", "noise", "silence", "magic", "another", "ahead"])
def test_a_lying_proxy(tmp_path, lie):
    """A program bears what it is told, and gets an error."""
    token = tmp_path / "token"
    token.write_text("a token of the tests\n")
    answer = struct.pack("<IHHQQQ", 32, 0, 0, 1, 0, 0) + struct.pack("<qQQQ", 0, 8, 0, 1 << 20)
    frame = struct.pack("<QII", 0, len(answer), 0)
    says = {"taken": struct.pack("<QII", 1 << 40, 0, 0), "much": struct.pack("<QII", 0, (1 << 32) - 1, 0) + bytes(6 << 20),
            "noise": random.Random(SEED).randbytes(4096), "silence": b"", "magic": b"", "another": frame + answer,
            "ahead": frame + answer}[lie]
    welcomes = {"magic": [welcome(magic=b"12345678")], "another": [welcome(), welcome(b"x" * 16)],
                "ahead": [welcome(), welcome(taken=1 << 20)]}.get(lie, [welcome()])
    liar = Liar(says, *welcomes)
    environment = {**os.environ, "OCL_ICD_VENDORS": built("libvgpu-opencl.so"), "VGPU_OPENCL_AGENT": "/nowhere",
                   "VGPU_OPENCL_TOKEN": str(token), "VGPU_OPENCL": f"proxy:tcp:127.0.0.1:{liar.port}"}
    done = subprocess.run(CALLS, env=environment, capture_output=True, timeout=HANG_S, check=False)
    assert done.returncode > 0 and b"Sanitizer" not in done.stderr and b"prox" in done.stderr, done
