# SPDX-License-Identifier: Apache-2.0
"""Programs whose proxy is on another machine, by TLS: who may come, what each side says to whom it does not take, and
that links break and come back as they do without. The certificates are certtool's."""
import contextlib
import itertools
import os
import re
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time

import pytest
import test_broken_link
from certs import Authority
from opencl import LINK, Proxy, built, native, need, need_pocl
from ports import free_port, knows_localhost
from relay import Relay
from settings import HANG_S
from test_broken_link import READER, Link
from test_opencl import FULL, output
from unixhttp import wait_for

CALLS = [built("tests/opencl/random-calls"), "2", "40"]
HAMMER = [built("tests/opencl/hammer"), "5", "4", "100"]
SHAKE_S = 10  # for which one may shake hands


@pytest.fixture(autouse=True)
def _needs():
    need_pocl()
    need("certtool")


class World:
    """A proxy by TLS, for a VM 'alpha', and what programs have to come there."""

    def __init__(self, folder, *options, words=",token={token}", server=('ip_address = "127.0.0.1"',)):
        self.folder, self.authority = folder, Authority(folder / "ca")
        self.port = free_port()
        self.token = folder / "token"
        self.token.write_text("a token of the tests\n")
        self.certificate, self.key = self.authority.issue("proxy", *server)
        self.proxy = Proxy(folder, "--allow-binaries", f"--ask={folder}/near.sock.ask",
                           f"--tls-certificate={self.certificate}", f"--tls-key={self.key}",
                           *[option.format(ca=self.authority.certificate) for option in options], sockets=(
                               f"tls:127.0.0.1:{self.port},vm=alpha" + words.format(token=self.token), "near.sock"))
        self.proxy.path = str(folder / "near.sock")

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.proxy.__exit__(*error)

    def environment(self, address=None, **more):
        return self.proxy.environment(**{
            "VGPU_OPENCL": "proxy:" + (address or f"tls:127.0.0.1:{self.port}"), "VGPU_OPENCL_TOKEN": str(self.token),
            "VGPU_OPENCL_CA": self.authority.certificate, **more})

    def run(self, *argv, address=None, **more):
        return subprocess.run(argv or CALLS, env=self.environment(address, **more), capture_output=True, text=True,
                              check=False, timeout=HANG_S)

    def refuses(self, what, **more):
        """A program gets no device, and is told why in one line."""
        done = self.run("clinfo", "-l", **more)
        assert not done.stdout and len(done.stderr.splitlines()) == 1 and re.search(what, done.stderr), done.stderr

    def said(self, what):
        """The proxy has said so, and counts it; the last one that it tells of may be one that hung up meanwhile."""
        wait_for(lambda: re.search(what, self.proxy.log.read_text()))
        told = self.proxy.ask(f"show tls:127.0.0.1:{self.port}")
        assert told["refused"]["times"] > 0 and told["refused"]["last"], told["refused"]

    def is_well(self):
        assert self.run(*HAMMER).stdout.endswith(" 0 wrong\n")


def test_results(tmp_path):
    """Equal to those without a proxy; what goes over the wire is not to be read; and no GnuTLS is in a program, or in a
    process that has the vendor's library, that does not need it."""
    seen = []

    class Ear(Relay):
        def _forward(self, one, other):
            with contextlib.suppress(OSError):
                seen.append(one.recv(65536, socket.MSG_PEEK))
            super()._forward(one, other)
    with World(tmp_path) as world, Ear(world.port) as ear:
        done = world.run(address=f"tls:127.0.0.1:{ear.port}")
        assert done.returncode == 0 and not done.stderr and done.stdout == output(CALLS, native())
        wire = b"".join(seen)
        assert len(wire) > 10000
        for secret in b"a token of the tests", b"VGPULNK1", b"VGPSESS1", b"__kernel", b"pthread":
            assert secret not in wire
        program = subprocess.Popen([CALLS[0], "2", "5000"], env=world.environment(), stdout=subprocess.DEVNULL)
        # The first program's may not have ended yet.
        [client] = wait_for(lambda: len(now := world.proxy.children()) == 1 and now)
        wait_for(lambda: "libpocl" in maps(client))
        assert "libgnutls" in maps(program.pid) and "libgnutls" not in maps(client)
        told = world.proxy.ask(f"show tls:127.0.0.1:{world.port}")
        assert told["identity"] == "a token, in TLS" and told["programs"][0]["transport"] == "tls"
        program.kill()
        program.wait()
        near = subprocess.Popen([CALLS[0], "2", "5000"], env=world.environment(address=world.proxy.path),
                                stdout=subprocess.DEVNULL)
        wait_for(lambda: "libvgpu-opencl" in maps(near.pid) and "vgpu-link" not in maps(near.pid))
        time.sleep(0.2)
        assert "libgnutls" not in maps(near.pid)
        near.kill()
        near.wait()
        assert "unencrypted" not in world.proxy.log.read_text()


def maps(pid):
    with open(f"/proc/{pid}/maps", encoding="ascii") as file:
        return file.read()


@pytest.mark.drawn("tls")
def test_certificates_of_vms(tmp_path):
    """A certificate of the VM is as good as a token, by its name in any of its places; another VM's is not, nor one that
    has expired, or of another CA; nor none, where there is no token."""
    with World(tmp_path, "--tls-client-ca={ca}", words="") as world:
        other = Authority(tmp_path / "other", "another CA")

        def shows(certificate, key):
            return {"VGPU_OPENCL_CERT": certificate, "VGPU_OPENCL_KEY": key, "VGPU_OPENCL_TOKEN": "/nowhere"}
        for name, *lines in ("alpha",), ("by-dns", 'dns_name = "alpha"'), ("by-uri", 'uri = "urn:uuid:alpha"'):
            done = world.run(*HAMMER, **shows(*world.authority.issue(name, *lines, server=False)))
            assert done.stdout.endswith(" 0 wrong\n"), (name, done)
        assert world.proxy.ask(f"show tls:127.0.0.1:{world.port}")["identity"] == "a certificate of the VM, in TLS"
        past = ('activation_date = "2020-01-01 00:00:00 UTC"', 'expiration_date = "2021-01-01 00:00:00 UTC"')
        for pair, what in ((world.authority.issue("beta", server=False), "for 'beta', not for 'alpha'"),
                           (world.authority.issue("alpha", *past, server=False), "has expired"),
                           (other.issue("alpha", server=False), "issued by an unknown CA")):
            world.refuses("the program's certificate (is |was )?" + what, **shows(*pair))
            world.said("127.0.0.1:[0-9]+(: the| is refused: the) program's certificate (is |was )?" + what)
        world.refuses("did not present a certificate of VM 'alpha'")
        world.said("did not present a certificate of VM 'alpha'")
        world.refuses("cannot be used: No such file", **shows("/nowhere", "/nowhere"))
    os.mkdir(tmp_path / "both")
    with World(tmp_path / "both", "--tls-client-ca={ca}") as world:
        world.is_well()
        pair = world.authority.issue("alpha", server=False)
        assert world.run(*HAMMER, VGPU_OPENCL_CERT=pair[0], VGPU_OPENCL_KEY=pair[1],
                         VGPU_OPENCL_TOKEN="/nowhere").stdout.endswith(" 0 wrong\n")


def test_proxies_that_are_not(tmp_path):
    """A proxy whose certificate is of another CA, or another host's, or has expired, is not spoken to."""
    other = Authority(tmp_path / "other", "another CA")
    (tmp_path / "wrong").write_text("another one's token\n")
    with World(tmp_path) as world:
        world.refuses("proxy's certificate was issued by an unknown CA", VGPU_OPENCL_CA=other.certificate)
        world.said("the peer aborted the TLS handshake: .*CA")
        world.refuses("'/nowhere' contains no CA certificate: No such file", VGPU_OPENCL_CA="/nowhere")
        if knows_localhost():
            world.refuses("proxy's certificate is not for 'localhost'", address=f"tls:localhost:{world.port}")
        world.refuses("it expects another token", VGPU_OPENCL_TOKEN=str(tmp_path / "wrong"))
        world.said("a program with a wrong token, from 127.0.0.1")
        # The proxy reads its certificate again for each that comes.
        past = ('activation_date = "2020-01-01 00:00:00 UTC"', 'expiration_date = "2021-01-01 00:00:00 UTC"')
        world.authority.issue("proxy", 'ip_address = "127.0.0.1"', *past)
        world.refuses("proxy's certificate has expired")
        os.rename(world.certificate, world.certificate + ".away")
        world.refuses("disconnected during the TLS handshake")
        world.said("cannot be used: No such file")
        world.authority.issue("proxy", 'ip_address = "127.0.0.1"')
        world.is_well()


def test_in_clear_and_in_tls(tmp_path):
    """One that speaks in clear to an address of TLS, and the other way round, is told so."""
    with World(tmp_path) as world:
        world.refuses("it accepts only TLS: its address starts with tls:", address=f"tcp:127.0.0.1:{world.port}")
        world.said("it does not use TLS")
        world.is_well()
    os.makedirs(tmp_path / "clear")
    port = free_port()
    with Proxy(tmp_path / "clear", f"--ask={tmp_path}/clear/p.ask",
               sockets=(f"tcp:127.0.0.1:{port},token={world.token}", "p")) as clear:
        clear.path = str(tmp_path / "clear" / "p")
        world.proxy.log = clear.log
        world.refuses("does not use TLS|may not use TLS", address=f"tls:127.0.0.1:{port}")
        wait_for(lambda: "a TLS client" in clear.log.read_text())
        assert "TLS client" in clear.ask(f"show tcp:127.0.0.1:{port}")["refused"]["last"]


@pytest.mark.drawn("tls")
def test_who_says_nothing(tmp_path):
    """Those that connect and say nothing, or half of what they should, keep nobody else waiting, are ended after a while,
    and are told of; when there are too many, who came first goes."""
    with World(tmp_path, "--clients=2") as world, contextlib.ExitStack() as stack:
        silent = [stack.enter_context(socket.create_connection(("127.0.0.1", world.port), HANG_S)) for _ in range(70)]
        for one in silent[::2]:
            one.sendall(b"\x16\x03\x01\x02\x00\x01")
        world.is_well()
        # What the proxy has not read when it hangs up, makes a reset of it.
        with contextlib.suppress(ConnectionResetError):
            assert silent[0].recv(1) == b""
        assert "too many TLS handshakes are in progress" in world.proxy.log.read_text()
        for one in silent[1:]:
            with contextlib.suppress(ConnectionResetError):
                one.recv(1)
        world.said(f"it has sent nothing for {SHAKE_S} s|did not complete")
        assert "Connection timed out" in world.proxy.log.read_text()
        world.is_well()
    # And a proxy that says nothing.
    with socket.create_server(("127.0.0.1", 0)) as mute:
        threading.Thread(target=lambda: [one.close() for one in [mute.accept()[0]] if time.sleep(1)], daemon=True).start()
        world.refuses("disconnected during the TLS handshake", address=f"tls:127.0.0.1:{mute.getsockname()[1]}")


def test_no_library(tmp_path):
    """Where GnuTLS is missing, it is said what is; other ways go on as ever."""
    skip = shutil.which("unshare") is None or os.getuid() != 0
    if skip:
        pytest.skip("it needs unshare and root")
    with World(tmp_path) as world:
        hide = "for f in /usr/lib/*/libgnutls.so.30*; do mount --bind /dev/null $f; done; exec \"$@\""
        argv = ["unshare", "-m", "sh", "-c", hide, "sh"]
        done = world.run(*argv, "clinfo", "-l")
        assert re.search(r"a tls address needs GnuTLS \(package libgnutls30\): .*libgnutls\.so\.30", done.stderr), done
        done = world.run(*argv, *HAMMER, address=world.proxy.path)
        assert done.stdout.endswith(" 0 wrong\n"), done


def test_the_command_line(tmp_path):
    authority = Authority(tmp_path)
    certificate, key = authority.issue("proxy")
    past = ('activation_date = "2020-01-01 00:00:00 UTC"', 'expiration_date = "2021-01-01 00:00:00 UTC"')
    old, old_key = authority.issue("old", *past)
    (tmp_path / "token").write_text("a token of the tests\n")
    socket_ = f"tls:127.0.0.1:{free_port()}"
    token = f",token={tmp_path}/token"
    for argv, what in (([socket_ + token], "needs --tls-certificate and --tls-key"),
                       ([f"--tls-certificate={certificate}", socket_ + token], "--tls-client-ca needs both"),
                       ([f"--tls-client-ca={certificate}", socket_ + token], "--tls-client-ca needs both"),
                       ([f"--tls-certificate={certificate}", f"--tls-key={old_key}", socket_ + token], "cannot be used"),
                       ([f"--tls-certificate={certificate}", "--tls-key=/nowhere", socket_ + token], "No such file"),
                       ([f"--tls-certificate={certificate}", f"--tls-key={key}", socket_], "a token, or TLS with"),
                       ([f"--tls-certificate={certificate}", f"--tls-key={key}",
                         f"--tls-client-ca={authority.certificate}", socket_], "a token, or TLS with")):
        done = subprocess.run([built("vgpu-proxy"), *argv], capture_output=True, text=True, check=False, timeout=HANG_S)
        assert done.returncode == 2 and what in done.stderr, (argv, done.stderr)
    with Proxy(tmp_path, f"--tls-certificate={old}", f"--tls-key={old_key}", sockets=(socket_ + token, "near")) as proxy:
        wait_for(lambda: f"the certificate in '{old}' has expired" in proxy.log.read_text())


# ---- links that break ----

some = pytest.mark.drawn("tls-link")


@pytest.fixture(name="by_tls")
def _by_tls(tmp_path, monkeypatch):
    monkeypatch.setattr(Link, "tls", Authority(tmp_path / "ca"))


@some
@pytest.mark.usefixtures("by_tls")
def test_cuts(tmp_path):
    test_broken_link.test_cuts(tmp_path)


@some
@pytest.mark.usefixtures("by_tls")
def test_a_link_that_carries_little(tmp_path):
    """Connections that are cut soon after each handshake, in the middle of what they bring, bring a part of it each."""
    with Link(tmp_path) as link:
        reader = subprocess.Popen([sys.executable, "-c", READER, str(16 << 10)], env=link.environment(),
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert reader.stdout.readline() == b"there\n"
        # Less than the largest record has.
        link.relay.cuts = itertools.repeat(8000)
        link.relay.cut()
        told, said = reader.communicate(b"\n", timeout=HANG_S)
        assert reader.returncode == 0 and not said and not told, said
        assert link.relay.n_connections > 10


@some
@pytest.mark.usefixtures("by_tls")
@pytest.mark.parametrize("seconds", [0, 6])
def test_silence(tmp_path, seconds):
    test_broken_link.test_silence(tmp_path, seconds)


@some
@pytest.mark.usefixtures("by_tls")
def test_large(tmp_path):
    test_broken_link.test_large(tmp_path)


@some
@pytest.mark.usefixtures("by_tls")
def test_others_go_on(tmp_path):
    test_broken_link.test_others_go_on(tmp_path)


@some
@pytest.mark.usefixtures("by_tls")
@pytest.mark.parametrize("how", ["cut", "killed", "another"])
def test_for_good(tmp_path, how):
    test_broken_link.test_for_good(tmp_path, how)


@pytest.mark.usefixtures("by_tls")
@pytest.mark.parametrize("how", ["ends", "killed"])
def test_a_program_ends(tmp_path, how):
    test_broken_link.test_a_program_ends(tmp_path, how)


@some
def test_a_session_is_its_identitys(tmp_path):
    """A program goes on with the certificate that it began with, and not with another VM's, of which it is told."""
    with World(tmp_path, "--tls-client-ca={ca}") as world, Relay(world.port) as relay:
        certificate, key = world.authority.issue("alpha", server=False)
        shown = tmp_path / "shown.pem"
        shutil.copy(certificate, shown)
        argv = [CALLS[0], "2", "400" if FULL else "150"]
        program = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=world.environment(
            f"tls:127.0.0.1:{relay.port}", VGPU_OPENCL_CERT=str(shown), VGPU_OPENCL_KEY=key))
        wait_for(lambda: relay.n_bytes > 20000)
        relay.cut()
        told, said = program.communicate(timeout=HANG_S)
        assert program.returncode == 0 and not said and told.decode() == output(argv, native()), said
        assert relay.n_connections > 1
        # The certificate is another VM's now: it is not taken, and the program is told why at last.
        program = subprocess.Popen([CALLS[0], "2", "50000"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                   env=world.environment(f"tls:127.0.0.1:{relay.port}", VGPU_OPENCL_CERT=str(shown),
                                                         VGPU_OPENCL_KEY=key))
        before = relay.n_bytes
        wait_for(lambda: relay.n_bytes > before + 20000)
        other, _ = world.authority.issue("beta", server=False)
        shutil.copy(other, shown)
        shutil.copy(tmp_path / "ca" / "beta.key", key)
        relay.cut()
        _, said = program.communicate(timeout=HANG_S)
        assert b"is no longer reachable: the program's certificate is for 'beta', not for 'alpha'" in said, said


def raw(world, token, session=bytes(16), pair=None):
    """The program's side of a session, without the library; and what it is answered."""
    context = ssl.create_default_context(cafile=world.authority.certificate)
    if pair:
        context.load_cert_chain(*pair)
    connection = context.wrap_socket(socket.create_connection(("127.0.0.1", world.port), HANG_S), server_hostname="127.0.0.1")
    connection.sendall(LINK + struct.pack("<QQ", 3, 0) + token.ljust(64, b"\0") + session + struct.pack("<Q", 0))
    answer = b""
    while len(answer) < 40 and (more := connection.recv(40 - len(answer))):
        answer += more
    return connection, answer


def test_who_comes_back(tmp_path):
    """A session that was begun with a certificate does not go on with the token of the same socket, nor one that was begun
    with the token with a certificate; each does with its own."""
    token = b"a token of the tests"
    with World(tmp_path, "--tls-client-ca={ca}") as world, contextlib.ExitStack() as stack:
        alpha = world.authority.issue("alpha", server=False)
        for pair, other in (alpha, None), (None, alpha):
            first, welcome = raw(world, token, pair=pair)
            stack.enter_context(first)
            session = welcome[8:24]
            assert welcome[:8] == b"VGPSESS1" and any(session)
            for its, known in (other, bytes(16)), (pair, session):
                again, welcome = raw(world, token, session, its)
                stack.enter_context(again)
                assert welcome[:24] == b"VGPSESS1" + known, (pair, its)
        second, refusal = raw(world, token, session, world.authority.issue("beta", server=False))
        stack.enter_context(second)
        assert refusal[:8] == b"VPREFUS1"
