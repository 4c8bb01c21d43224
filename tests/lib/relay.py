# SPDX-License-Identifier: Apache-2.0
"""A relay between programs and a proxy on TCP, which breaks their links."""
import selectors
import socket
import struct
import threading

RESET = struct.pack("ii", 1, 0)  # of SO_LINGER: the other side sees a reset


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
        self.is_deaf = False  # to who connects
        self.n_connections = self.n_bytes = 0
        self.cut_at = None  # bytes
        self.cuts = iter(())  # bytes of each connection that comes from now on
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
        if self.is_closed or self.is_deaf:
            near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            near.close()
            return
        self.n_connections += 1
        cut = next(self.cuts, None)
        if cut is not None:
            self.cut_at = self.n_bytes + cut
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

    def cut_each(self, lengths):
        """The connection that there is, and those to come."""
        with self.lock:
            self.cuts = iter(lengths)
            self.cut_at = self.n_bytes + next(self.cuts)

    def close(self):
        """For good, or until reopen()."""
        with self.lock:
            self.is_closed = True
            self._drop()

    def reopen(self):
        with self.lock:
            self.is_closed = False

    def silence(self, is_silent):
        """Forwards nothing, and neither side is told; what is there then stays as it is."""
        with self.lock:
            self.is_silent = is_silent
