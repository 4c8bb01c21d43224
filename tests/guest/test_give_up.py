# SPDX-License-Identifier: Apache-2.0
"""Children that have a GPU's files from their parent give them up, and go on as if nothing had been: the
file is made up, the children are processes of all kinds (tests/guest/forked.c)."""
import os
import platform
import struct
import subprocess

import pytest
from guestd import is_alive
from settings import HANG_S, sample
from unixhttp import build_dir, wait_for

pytestmark = [
    pytest.mark.skipif(platform.machine() != "x86_64", reason="it is done on x86-64 only"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may stop any process"),
]

# What a child waits for when it is stopped, and gets all the same.
WAITS = ["read", "recv", "futex", "futex-time", "nanosleep", "poll", "poll-time", "ppoll", "pselect", "epoll",
         "epoll-time", "epoll-pwait", "ppoll-signal", "sigsuspend", "pause", "sigtimedwait", "pending",
         "message", "semaphore", "wait", "busy", "storm", "threads-come", "threads", "no-first", "seccomp",
         "stopped", "many-files"]


def tool(name):
    return os.path.join(build_dir(), "tests", name)


class Forked:
    """A program with a node, and children of these kinds."""

    def __init__(self, tmp_path, *kinds, program="guest/forked"):
        self.node = str(tmp_path / "node")
        with open(self.node, "w", encoding="utf-8") as file:
            file.write("x" * 4096)
        self.process = subprocess.Popen([tool(program), self.node, *kinds], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.pids = []
        for kind in kinds:
            said = self.process.stdout.readline().split()
            assert said[:2] == ["child", kind]
            self.pids.append(int(said[2]))
        assert self.process.stdout.readline() == "ready\n"

    def command(self, what):
        return [tool("guest/give-up"), what, self.node, str(self.process.pid), *map(str, self.pids)]

    def ask(self, what):
        """Of each child: how many descriptors and maps, and "ok", "ended" or why not."""
        done = subprocess.run(self.command(what), capture_output=True, text=True, check=True,
                              timeout=HANG_S)
        lines = [line.split(maxsplit=3) for line in done.stdout.splitlines()]
        assert [int(line[0]) for line in lines] == self.pids
        return [(int(line[1]), int(line[2]), line[3]) for line in lines]

    def go_on(self):
        """What each says in the end."""
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        said = []
        for pid in self.pids:
            _, child, what = self.process.stdout.readline().rstrip("\n").split(" ", 2)
            assert int(child) == pid
            said.append(what)
        assert self.process.wait(HANG_S) == 0
        return said

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def state_of(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        return file.read().rsplit(")", 1)[1].split()[0]


@pytest.mark.parametrize("program", sample("forked", ["guest/forked", "tools/forked-static"], 1))
def test_they_go_on_as_they_were(tmp_path, program):
    kinds = sample("what they wait for", WAITS, 14)
    with Forked(tmp_path, *kinds, program=program) as forked:
        want = [(102 if kind == "many-files" else 2, 1, "ok") for kind in kinds]
        assert forked.ask("look") == want
        assert forked.ask("do") == want
        assert forked.ask("look") == [(0, 0, "ok")] * len(kinds)
        assert all(state_of(pid) == "T" for pid, kind in zip(forked.pids, kinds) if kind == "stopped")
        assert dict(zip(kinds, forked.go_on())) == dict.fromkeys(kinds, "gone")


def test_nothing_to_give_up(tmp_path):
    """It is no harm to ask again."""
    with Forked(tmp_path, "read", "epoll") as forked:
        for _ in range(5):
            forked.ask("do")
        assert forked.ask("do") == [(0, 0, "ok")] * 2
        assert forked.go_on() == ["gone"] * 2


def test_maps_alone(tmp_path):
    """Those that the ancestor has at this place are its, others are not."""
    own = f"it has mapped {tmp_path}/node itself"
    with Forked(tmp_path, "closed", "own-map") as forked:
        assert forked.ask("look") == [(0, 1, "ok"), (0, 1, own)]
        assert forked.ask("do") == [(0, 1, "ok"), (0, 0, own)]
        assert forked.ask("look") == [(0, 0, "ok"), (0, 1, own)]


# Who is left alone, what is said of it before anything is done, and when it is stopped.
LEFT_ALONE = [
    ("own", "it has opened {node} itself", None),
    ("vfork", "it shares its memory with process {other}, like a child that has not executed its program yet",
     "its thread {pid} does not stop (it is in state D)"),
    ("shares-files", "it shares its file descriptors with process {other}", None),
    ("thread-files", "its thread {other} has its own file descriptors", None),
    ("traced", "process {parent} traces it", None),
    ("limit", "ok", "it cannot open /dev/null: Too many open files"),
    ("chroot={root}/none", "ok", "it cannot open /dev/null: No such file or directory"),
    ("chroot={root}/other", "ok", "its /dev/null is not the null device"),
]


def matches(text, pattern, **words):
    before, _, after = pattern.format(other="\n", **words).partition("\n")
    return text.startswith(before) and text.endswith(after)


def test_who_is_left_alone(tmp_path):
    """By name, with nothing changed in it."""
    for name in ("none", "other"):
        (tmp_path / name / "dev").mkdir(parents=True)
    (tmp_path / "other" / "dev" / "null").write_text("", encoding="utf-8")
    kinds = [kind.format(root=tmp_path) for kind, _, _ in LEFT_ALONE]
    with Forked(tmp_path, *kinds) as forked:
        looked, done = forked.ask("look"), forked.ask("do")
        for pid, (_, look, do), one, other in zip(forked.pids, LEFT_ALONE, looked, done):
            words = {"node": forked.node, "parent": forked.process.pid, "pid": pid}
            assert matches(one[2], look, **words), one
            assert other[:2] == (0, 0) and matches(other[2], do or look, **words), other
        assert forked.ask("look") == looked
        # Whoever traced one still does, and is told when it ends.
        assert forked.go_on() == ["kept"] * len(kinds)


def test_container(tmp_path):
    """With files of its own, /dev/null among them."""
    (tmp_path / "root" / "dev").mkdir(parents=True)
    os.mknod(tmp_path / "root" / "dev" / "null", 0o666 | 0o020000, os.makedev(1, 3))
    with Forked(tmp_path, f"chroot={tmp_path}/root") as forked:
        assert forked.ask("do") == [(2, 1, "ok")]
        assert forked.go_on() == ["gone"]


def program_of_32_bits(path):
    """Waits for ever: mov $29, %eax (pause); int $0x80; jmp back."""
    code = bytes.fromhex("b81d000000cd80ebf7")
    base, head = 0x08048000, 52 + 32
    path.write_bytes(
        b"\x7fELF" + bytes([1, 1, 1]) + bytes(9) +
        struct.pack("<HHIIIIIHHHHHH", 2, 3, 1, base + head, 52, 0, 0, 52, 32, 1, 0, 0, 0) +
        struct.pack("<IIIIIIII", 1, 0, base, base, head + len(code), head + len(code), 5, 4096) + code)
    path.chmod(0o755)
    return str(path)


def test_other_programs(tmp_path):
    """They were begun with one of the two descriptors, and no map; one of 32 bits keeps it."""
    old = program_of_32_bits(tmp_path / "old")
    with Forked(tmp_path, "exec=/bin/sleep", f"exec={old}") as forked:
        wait_for(lambda: all(one[:2] == (1, 0) or one[2] == "ended" for one in forked.ask("look")))
        if not is_alive(forked.pids[1]):
            pytest.skip("the kernel runs no programs of 32 bits")
        assert forked.ask("look") == [(1, 0, "ok"), (1, 0, "it is a 32-bit program")]
        assert forked.ask("do") == [(1, 0, "ok"), (0, 0, "it is a 32-bit program")]
        assert forked.ask("look") == [(0, 0, "ok"), (1, 0, "it is a 32-bit program")]


def test_who_has_ended(tmp_path):
    with Forked(tmp_path, "zombie", "read") as forked:
        assert forked.ask("look") == [(0, 0, "ended"), (2, 1, "ok")]
        assert forked.ask("do") == [(0, 0, "ended"), (2, 1, "ok")]


@pytest.mark.drawn("cuda-many")
def test_many(tmp_path):
    """Within seconds: 200 take half of one on two idle cores."""
    with Forked(tmp_path, *["read", "epoll", "futex", "ppoll"] * 50) as forked:
        assert forked.ask("do") == [(2, 1, "ok")] * 200
        assert forked.go_on() == ["gone"] * 200


def tracers(pids):
    found = set()
    for pid in pids:
        with open(f"/proc/{pid}/status", encoding="utf-8") as file:
            found.add(int(file.read().split("TracerPid:")[1].split()[0]))
    return found


@pytest.mark.parametrize("kind", sample("killed meanwhile", ["read", "storm"], 1))
def test_agent_is_killed_meanwhile(tmp_path, kind):
    """Who is stopped then goes on as well, and has given up all or nothing."""
    with Forked(tmp_path, "busy", *[kind, "epoll", "ppoll"] * 8) as forked:
        with subprocess.Popen(forked.command("do"), stdout=subprocess.PIPE) as agent:
            wait_for(lambda: tracers(forked.pids) != {0} or agent.poll() is not None, pause=0)
            agent.kill()
            # Until those that it had begun have ended.
            agent.stdout.read()
        assert tracers(forked.pids) == {0}
        assert set(forked.go_on()) <= {"gone", "kept"}
