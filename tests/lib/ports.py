# SPDX-License-Identifier: Apache-2.0
"""Ports that nobody else takes before the program that is to listen there does: they lie outside the
range from which the kernel draws, and each process of tests has a block of its own."""
import functools
import itertools
import socket

BLOCK = 100
FIRST, LAST = 10000, 60999


def _blocks():
    """The first port of each block: of those that the kernel leaves alone, if it leaves any."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
        low, high = map(int, file.read().split())
    every = range(FIRST, LAST, BLOCK)
    return [at for at in every if at + BLOCK <= low or at > high] or every


class _Block:
    """A block is taken by an abstract name, which goes with the process."""

    def __init__(self):
        for first in _blocks():
            self.lock = socket.socket(socket.AF_UNIX)
            try:
                self.lock.bind(f"\0vgpud-test-ports-{first}")
            except OSError:
                self.lock.close()
                continue
            self.ports = itertools.cycle(range(first, first + BLOCK))
            return
        raise RuntimeError("all blocks of ports are taken: too many tests run on this machine")


_TAKEN = []


def free_port(address="127.0.0.1"):
    """One on which nobody listens. It comes again after all others of the block."""
    if not _TAKEN:
        _TAKEN.append(_Block())
    for port in itertools.islice(_TAKEN[0].ports, BLOCK):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address, port))
                return port
            except OSError:
                continue
    raise RuntimeError(f"somebody listens on each of the {BLOCK} ports of this process's block")


def free_ports(n, address="127.0.0.1"):
    return [free_port(address) for _ in range(n)]


@functools.cache
def knows_localhost():
    """A root that debootstrap has just made has no /etc/hosts."""
    try:
        return bool(socket.getaddrinfo("localhost", 1, socket.AF_INET))
    except OSError:
        return False
