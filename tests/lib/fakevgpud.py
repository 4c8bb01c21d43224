# SPDX-License-Identifier: Apache-2.0
"""A vgpud that answers POST /v1/nova/placement as a test wants it: rightly, wrongly, late, never."""
import http.server
import json
import socketserver
import ssl
import threading
import time

from settings import HANG_S


def right(_instance, host):
    """The number at the end of a name, in hundredths, is the score."""
    number = int(host["name"].rsplit("-", 1)[1])
    return {"verdict": "pass", "score": number % 100 / 100, "reason": "", "age_ms": 100}


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = False

    def log_message(self, *args):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        fake = self.server.fake
        with fake.lock:
            fake.requests.append((self.path, json.loads(body)))
            fake.headers.append(dict(self.headers))
        if fake.token is not None and self.headers["Authorization"] != "Bearer " + fake.token:
            self.send(401, {"title": "Unauthorized", "status": 401, "detail": "this token is unknown"},
                      "application/problem+json")
            return
        fake.act(self, json.loads(body))

    def send(self, status, document, kind="application/json"):
        data = document if isinstance(document, bytes) else json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class _Tcp(socketserver.ThreadingMixIn, socketserver.TCPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def get_request(self):
        sock, address = super().get_request()
        with self.fake.lock:
            self.fake.connections += 1
            self.fake.sockets.append(sock)
        return sock, address

    def finish_request(self, request, client_address):
        if self.fake.context is not None:
            request = self.fake.context.wrap_socket(request, server_side=True)
            with self.fake.lock:
                self.fake.sockets.append(request)
        super().finish_request(request, client_address)

    def handle_error(self, request, client_address):
        """Clients go away; what they got is what counts."""


class _Unix(_Tcp):
    address_family = socketserver.UnixStreamServer.address_family

    def server_bind(self):
        self.socket.bind(self.server_address)


class FakeVgpud:
    """Listens on a path, or on (host, port) with the certificate and key. What it was asked is in
    requests; act is what it does with a request, one of the methods below or a test's own."""

    def __init__(self, address, certificate=None, token=None, opinion=right):
        self.address = address
        self.token = token
        self.opinion = opinion
        self.act = self.answer
        self.lock = threading.Lock()
        self.connections = 0
        self.requests, self.headers, self.sockets = [], [], []
        self.context = None
        if certificate is not None:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.load_cert_chain(*certificate)
        self.released = threading.Event()
        self.server = None
        self.start()

    @property
    def url(self):
        if isinstance(self.address, str):
            return "unix://" + self.address
        return "https://%s:%d" % self.address

    def start(self):
        kind = _Unix if isinstance(self.address, str) else _Tcp
        self.server = kind(self.address, _Handler, bind_and_activate=False)
        self.server.fake = self
        self.server.server_bind()
        self.server.server_activate()
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    def hang_up(self):
        """Ends all connections."""
        with self.lock:
            sockets, self.sockets = self.sockets, []
        for sock in sockets:
            try:
                sock.shutdown(2)
            except OSError:
                pass

    def stop(self):
        self.released.set()
        self.server.shutdown()
        self.server.server_close()
        self.hang_up()
        self.thread.join(HANG_S)

    # ---- what it does with a request ----

    def document(self, asked):
        return {"hosts": [{"name": host["name"], **self.opinion(asked["instance"], host)}
                          for host in asked["hosts"]], "class": "cpu", "class_from": "size"}

    def answer(self, handler, asked):
        assert 1 <= len(asked["hosts"]) <= 2000
        handler.send(200, self.document(asked))

    def hang(self, _handler, _asked):
        """Says nothing until it is stopped."""
        assert self.released.wait(HANG_S)

    def drip(self, handler, _asked):
        """An answer that goes on and on: each wait for a piece of it is a short one."""
        end = time.monotonic() + HANG_S
        handler.send_response(200)
        handler.send_header("Content-Length", "1000000")
        handler.end_headers()
        while not self.released.wait(0.01) and time.monotonic() < end:
            handler.wfile.write(b" ")
