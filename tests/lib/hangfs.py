#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""hangfs.py [--for-all] DIRECTORY COMMAND...: runs a command that sees a file system in the directory, which never
answers: who looks there waits until this has ended, whatever is sent to him. Without --for-all, nobody else sees
it. Needs root and FUSE."""
import ctypes
import os
import signal
import struct
import sys

CLONE_NEWNS, MS_REC, MS_PRIVATE, PR_SET_PDEATHSIG = 0x20000, 0x4000, 1 << 18, 1
FUSE_INIT = 26


def call(function, *args):
    if function(*args) != 0:
        number = ctypes.get_errno()
        sys.exit(f"{function.__name__}: {os.strerror(number)}")


def serve(fd):
    """Says what every file system of this kind says first, and nothing more."""
    while True:
        request = os.read(fd, 1 << 20)
        _, opcode, unique = struct.unpack_from("=IIQ", request)
        if opcode == FUSE_INIT:
            init = struct.pack("=IIIIHHI", 7, 31, 0, 0, 0, 0, 4096).ljust(64, b"\0")
            os.write(fd, struct.pack("=IiQ", 16 + len(init), 0, unique) + init)


def main():
    for_all = sys.argv[1] == "--for-all"
    directory, *command = sys.argv[2 if for_all else 1:]
    libc = ctypes.CDLL(None, use_errno=True)
    fd = os.open("/dev/fuse", os.O_RDWR)
    if not for_all:
        call(libc.unshare, CLONE_NEWNS)
        call(libc.mount, None, b"/", None, MS_REC | MS_PRIVATE, None)
    options = f"fd={fd},rootmode=40000,user_id=0,group_id=0"
    call(libc.mount, b"hang", directory.encode(), b"fuse", 0, options.encode())
    if os.fork() == 0:
        call(libc.prctl, PR_SET_PDEATHSIG, signal.SIGKILL)
        serve(fd)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
