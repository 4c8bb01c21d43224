# SPDX-License-Identifier: Apache-2.0
"""What the programs of the matrix that are in Python share: how many steps they make, and what they say: "step N" now
and then, and in the end how many there were and the SHA-256 of what they came to."""
import hashlib
import signal

# Where a program may end.
MULTIPLE = 10


def turns(steps, agree=bool):
    """So many numbers; or, if that is 0, numbers until SIGTERM, a multiple of MULTIPLE. Processes that work together
    agree about the end."""
    ended = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
    n = 0
    while n % MULTIPLE != 0 or (n < steps if steps else not agree(bool(ended))):
        yield n
        n += 1


def tell(n):
    print("step", n, flush=True)


def tell_end(n, pieces, *more):
    """Pieces are of bytes."""
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    print("end steps", n, *more, "sha256", digest.hexdigest(), flush=True)
