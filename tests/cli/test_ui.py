# SPDX-License-Identifier: Apache-2.0
"""vgpuctl ui: what a browser gets through it, and that nobody else on the machine gets anything."""
import gzip
import json
import re
import socket
import subprocess
import urllib.request

import pytest
import vgpuctl
from settings import HANG_S
from unixhttp import Server, read_all


class Ui:
    def __init__(self, path, *args):
        self.process = subprocess.Popen([vgpuctl.program(), "ui", "--socket", path, *args], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        link = re.fullmatch(r"http://(127\.0\.0\.1:(\d+))/#token=([0-9a-f]{48})\n", self.process.stdout.readline())
        assert link, self.process.stderr.read()
        self.host, self.port, self.token = link[1], int(link[2]), link[3]

    def raw(self, request):
        with socket.create_connection(("127.0.0.1", self.port), timeout=HANG_S) as sock:
            sock.sendall(request)
            return read_all(sock)

    def ask(self, line, *fields, host=None):
        head = "\r\n".join([f"{line} HTTP/1.1", f"Host: {host or self.host}", *fields, "", ""])
        reply = self.raw(head.encode())
        head, _, body = reply.partition(b"\r\n\r\n")
        return int(head.split()[1]) if head else None, head, body

    def stop(self):
        self.process.terminate()
        self.process.communicate(timeout=HANG_S)


@pytest.fixture(name="server", scope="module")
def server_fixture(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("ui"), "--event-ms", "50")
    yield server
    server.stop()


@pytest.fixture(name="ui", scope="module")
def ui_fixture(server):
    ui = Ui(server.path)
    yield ui
    ui.stop()


@pytest.mark.smoke
def test_a_browser_gets_the_page_and_figures(ui):
    status, head, body = ui.ask("GET /", "Accept: text/html")
    assert status == 200 and b"Content-Security-Policy" in head and b"<main" in gzip.decompress(body)
    request = urllib.request.Request(f"http://{ui.host}/v1/vms", headers={"Authorization": f"Bearer {ui.token}"})
    with urllib.request.urlopen(request, timeout=HANG_S) as answer:
        assert json.load(answer)["items"]
    body = b'{"dry_run": true}'
    status, _, answer = ui.ask("POST /v1/plans", f"Authorization: Bearer {ui.token}", "Content-Type: application/json",
                               f"Content-Length: {len(body)}", "", body.decode())
    assert status == 201, answer


def test_others_get_nothing(ui):
    for fields in ([], ["Authorization: Bearer x"], [f"Authorization: Bearer {ui.token}x"], [f"Authorization: {ui.token}"],
                   [f"Authorization: Bearer {ui.token}"] * 2, [f"Cookie: token={ui.token}"]):
        assert ui.ask("GET /v1/vms", *fields)[0] == 401, fields
        assert ui.ask("GET /ui/../v1/vms", *fields)[0] == 401, fields
    good = f"Authorization: Bearer {ui.token}"
    for host in ("evil.example", f"evil.example:{ui.port}", "127.0.0.1", f"[::1]:{ui.port}"):
        assert ui.ask("GET /v1/vms", good, host=host)[0] == 400
    assert ui.ask("GET /v1/vms", good, host=f"localhost:{ui.port}")[0] == 200


@pytest.mark.parametrize("line_end", [b"\n", b"\r", b"\x00", b"\x0b", b"\r\r\n"])
def test_no_second_request_hides_in_the_first(ui, line_end):
    """A request for the page needs no token; nothing that is not one may come along with it."""
    second = b"GET /v1/vms HTTP/1.1\r\nHost: x\r\n\r\n"
    host = b"Host: " + ui.host.encode() + b"\r\n"
    hidden = ui.raw(b"GET /ui HTTP/1.1\r\n" + host + b"X: y" + line_end + line_end + second + b"\r\n")
    assert hidden.split()[1] == b"400" and b'"items"' not in hidden
    after = ui.raw(b"GET /ui HTTP/1.1\r\n" + host + b"Connection: keep-alive\r\n\r\n" + second)
    # vgpud closes the connection after the first answer, which what is left unread may take with it.
    assert after.count(b"HTTP/1.1 ") <= 1 and b'"items"' not in after
    body = ui.raw(b"GET /ui HTTP/1.1\r\n" + host + b"Content-Length: 3\r\n\r\nabc" + second)
    assert body.count(b"HTTP/1.1 ") <= 1 and b'"items"' not in body


def test_events_come_through_as_they_happen(ui):
    with socket.create_connection(("127.0.0.1", ui.port), timeout=HANG_S) as sock:
        sock.sendall(f"GET /v1/events HTTP/1.1\r\nHost: {ui.host}\r\nAuthorization: Bearer {ui.token}\r\n"
                     "Accept: text/event-stream\r\n\r\n".encode())
        text = b""
        while text.count(b"event: ") < 3:
            part = sock.recv(4096)
            assert part, text
            text += part


def test_a_vgpud_that_is_not_there(tmp_path):
    done = subprocess.run([vgpuctl.program(), "ui", "--socket", str(tmp_path / "none")], capture_output=True, text=True,
                          timeout=HANG_S, check=False)
    assert done.returncode == 7 and done.stdout == "" and "none" in done.stderr
    server = Server(tmp_path)
    ui = Ui(server.path)
    server.stop()
    assert ui.ask("GET /ui")[0] == 502
    ui.stop()


def test_a_port_that_is_taken(server, ui):
    done = subprocess.run([vgpuctl.program(), "ui", "--socket", server.path, "--port", str(ui.port)], capture_output=True,
                          text=True, timeout=HANG_S, check=False)
    assert done.returncode == 1 and str(ui.port) in done.stderr
    assert subprocess.run([vgpuctl.program(), "ui", "--port", "0"], capture_output=True, timeout=HANG_S,
                          check=False).returncode == 2
