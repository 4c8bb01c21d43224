# SPDX-License-Identifier: Apache-2.0
"""Threads that fault while memory of their process is away are held, and repeat the access when it is back; all
that is the program's own passes as ever (guest/hold.h). The program is tests/guest/faulty.c."""
import contextlib
import os
import shutil
import signal
import subprocess

import pytest
from guestd import is_alive
from settings import HANG_S, sample
from unixhttp import build_dir, wait_for

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may trace any process")


def tool(name):
    return os.path.join(build_dir(), "tests/guest", name)


def number_of(pid, name):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        [line] = [line for line in file if line.startswith(name)]
    return int(line.split()[1])


def state_of(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        return file.read().rsplit(")", 1)[1].split()[0]


@contextlib.contextmanager
def debugging(command, pid):
    """Somebody's debugger, until the end of the block."""
    with subprocess.Popen([*command, str(pid)], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()
            process.wait()
            # It may have been stopped for a debugger that had not come to that.
            os.kill(pid, signal.SIGCONT)


class Faulty:
    """The program, and a directory in which who holds its threads says so."""

    def __init__(self, tmp_path, readers=2):
        self.root = str(tmp_path)
        os.makedirs(os.path.join(self.root, "run"), exist_ok=True)
        if not os.path.exists(os.path.join(self.root, "proc")):
            os.symlink("/proc", os.path.join(self.root, "proc"))
        self.readers = readers
        self.process = subprocess.Popen([tool("faulty"), str(readers)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)
        self.pid = self.process.pid
        assert self.process.stdout.readline() == "ready\n"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        for tracer in self.tracers:
            wait_for(lambda tracer=tracer: not is_alive(tracer))

    tracers = ()

    def write(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def ask(self, line):
        self.write(line)
        return self.process.stdout.readline().rstrip("\n")

    def tell(self, what):
        """What somebody who is there for no longer says to the tracer."""
        done = subprocess.run([tool("hold-one"), self.root, str(self.pid), what], capture_output=True, text=True,
                              timeout=HANG_S, check=True)
        return done.stdout.strip()

    def hold(self):
        assert self.tell("start") == "ready"
        self.tracers = (*self.tracers, self.told()[2])

    def told(self):
        """Of the file: pid, start, tracer, its start, how many are held, how many were, and whether that is over."""
        path = os.path.join(self.root, "run/vgpu-guestd-hold", str(self.pid))
        if not os.path.exists(path):
            return None
        with open(path, encoding="utf-8") as file:
            return [int(word) for word in file.read().split()]

    def held(self):
        return self.told()[4]

    def total(self):
        return self.told()[5]

    def count(self):
        passes, wrong = self.ask("count").split()
        assert int(wrong) == 0
        return int(passes)

    def goes_on(self):
        """All that was read was right, and more is read."""
        before = self.count()
        wait_for(lambda: self.count() > before + self.readers)
        return True

    def end(self):
        """The second time, it does not wait for threads that have faulted late."""
        self.tell("end")
        self.tell("end")
        wait_for(lambda: not is_alive(self.tracers[-1]))
        assert number_of(self.pid, "TracerPid:") == 0

    def take(self, how):
        said = self.ask(f"take {how}")
        if how == "bus" and said != "ok":
            pytest.skip(f"no userfaultfd: {said}")
        assert said == "ok"


@pytest.mark.parametrize("how", sample("memory taken", ["protect", "unmap", "bus"], 3))
def test_hold(tmp_path, how):
    """All who read wait, and read on; who gives the commands is another process each time."""
    with Faulty(tmp_path, 3) as faulty:
        for turn in range(2):
            faulty.hold()
            faulty.tell("locked")
            assert faulty.goes_on()
            faulty.take(how)
            wait_for(lambda: faulty.held() == 3)
            assert faulty.ask("give") == "ok"
            faulty.tell("repeat")
            assert faulty.goes_on()
            assert faulty.told()[4:] == [0, 3, 0]
            if turn == 0:
                faulty.tell("end")
                wait_for(lambda: not is_alive(faulty.tracers[0]))
            else:
                # The next stop need not wait for the end of this one.
                faulty.tell("end")
                faulty.hold()
                assert faulty.told()[4:] == [0, 0, 0]
        assert faulty.goes_on()


def test_no_hold(tmp_path):
    with Faulty(tmp_path) as faulty:
        faulty.write("take protect")
        assert faulty.process.wait(HANG_S) == -signal.SIGSEGV


def test_not_back(tmp_path):
    """Who faults again once all is over gets its signal."""
    with Faulty(tmp_path) as faulty:
        faulty.hold()
        faulty.take("protect")
        wait_for(lambda: faulty.held() == 2)
        # Before, the memory may be about to come back.
        faulty.tell("repeat")
        wait_for(lambda: faulty.held() == 2)
        assert is_alive(faulty.pid)
        faulty.tell("end")
        assert faulty.process.wait(HANG_S) == -signal.SIGSEGV
        wait_for(lambda: not is_alive(faulty.tracers[0]))


def test_tracer_is_killed(tmp_path):
    """Then threads that it holds get their signal, and else nothing happens."""
    with Faulty(tmp_path) as faulty:
        faulty.hold()
        os.kill(faulty.tracers[-1], signal.SIGKILL)
        wait_for(lambda: not is_alive(faulty.tracers[-1]))
        assert faulty.goes_on()
        faulty.hold()
        faulty.take("protect")
        wait_for(lambda: faulty.held() == 2)
        os.kill(faulty.tracers[-1], signal.SIGKILL)
        assert faulty.process.wait(HANG_S) == -signal.SIGSEGV


def test_program_is_killed(tmp_path):
    with Faulty(tmp_path) as faulty:
        faulty.hold()
        faulty.take("protect")
        wait_for(lambda: faulty.held() == 2)
        faulty.process.kill()
        assert faulty.process.wait(HANG_S) == -signal.SIGKILL
        wait_for(lambda: not is_alive(faulty.tracers[0]))


@pytest.mark.parametrize("how", ["guard", "readonly", "raise", "queue"])
def test_own_handler(tmp_path, how):
    """A program sees its own faults at once, also while others of its threads are held."""
    with Faulty(tmp_path) as faulty:
        assert faulty.ask(how) == "caught"
        faulty.hold()
        faulty.tell("locked")
        assert faulty.ask(how) == "caught"
        faulty.take("protect")
        wait_for(lambda: faulty.held() == 2)
        assert faulty.ask(how) == "caught"
        assert faulty.told()[4:] == [2, 2, 0]
        assert faulty.ask("give") == "ok"
        faulty.end()
        assert faulty.ask(how) == "caught" and faulty.goes_on()


def test_own_end(tmp_path):
    with Faulty(tmp_path) as faulty:
        faulty.hold()
        faulty.take("protect")
        wait_for(lambda: faulty.held() == 2)
        faulty.write("null")
        assert faulty.process.wait(HANG_S) == -signal.SIGSEGV


@pytest.mark.parametrize("kind", ["fork", "vfork", "clone"])
def test_children(tmp_path, kind):
    """They have no part in it."""
    with Faulty(tmp_path) as faulty:
        faulty.hold()
        assert faulty.ask(kind) == "TracerPid:\t0"
        faulty.take("unmap")
        wait_for(lambda: faulty.held() == 2)
        assert faulty.ask(kind) == "TracerPid:\t0"
        assert faulty.ask("give") == "ok"
        faulty.end()
        assert faulty.goes_on()


def test_threads(tmp_path):
    """Those that come meanwhile are held, too."""
    with Faulty(tmp_path, 200) as faulty:
        faulty.hold()
        assert faulty.ask("more 20") == "ok"
        faulty.take("protect")
        assert faulty.ask("more 20") == "ok"
        wait_for(lambda: faulty.held() == 240)
        assert faulty.ask("give") == "ok"
        faulty.tell("repeat")
        faulty.end()
        assert faulty.goes_on()


def test_first_thread_has_ended(tmp_path):
    with Faulty(tmp_path) as faulty:
        assert faulty.ask("leave") == "ok"
        wait_for(lambda: state_of(faulty.pid) == "Z")
        faulty.hold()
        faulty.tell("locked")
        faulty.take("protect")
        wait_for(lambda: faulty.held() == 2)
        assert faulty.ask("give") == "ok"
        faulty.end()
        assert faulty.goes_on()


def test_other_program(tmp_path):
    """With exec, there is nothing left to hold."""
    with Faulty(tmp_path) as faulty:
        faulty.hold()
        assert faulty.ask("exec") == "ready"
        wait_for(lambda: not is_alive(faulty.tracers[0]))
        assert number_of(faulty.pid, "TracerPid:") == 0 and faulty.goes_on()


def test_signals(tmp_path):
    """Also those that stop it, and have it go on."""
    with Faulty(tmp_path) as faulty:
        faulty.hold()
        os.kill(faulty.pid, signal.SIGUSR1)
        wait_for(lambda: faulty.ask("usr1") == "1")
        faulty.process.send_signal(signal.SIGSTOP)
        assert os.waitpid(faulty.pid, os.WUNTRACED)[1] == signal.SIGSTOP << 8 | 0x7f
        os.kill(faulty.pid, signal.SIGUSR1)
        faulty.process.send_signal(signal.SIGCONT)
        assert os.waitpid(faulty.pid, os.WCONTINUED)[1] == 0xffff
        wait_for(lambda: faulty.ask("usr1") == "2")
        assert faulty.goes_on()
        # The same while threads are held.
        faulty.take("protect")
        wait_for(lambda: faulty.held() == 2)
        faulty.process.send_signal(signal.SIGSTOP)
        os.kill(faulty.pid, signal.SIGUSR1)
        faulty.process.send_signal(signal.SIGCONT)
        wait_for(lambda: faulty.ask("usr1") == "3")
        assert faulty.held() == 2
        assert faulty.ask("give") == "ok"
        faulty.end()
        assert faulty.goes_on()


def test_stopped_before(tmp_path):
    """A program that SIGSTOP has stopped stays so."""
    with Faulty(tmp_path) as faulty:
        faulty.process.send_signal(signal.SIGSTOP)
        assert os.waitpid(faulty.pid, os.WUNTRACED)[1] == signal.SIGSTOP << 8 | 0x7f
        faulty.hold()
        faulty.end()
        # The kernel wakes it, and stops it again.
        wait_for(lambda: state_of(faulty.pid) == "T")
        faulty.process.send_signal(signal.SIGCONT)
        assert faulty.goes_on()


@pytest.mark.parametrize("command", [["strace", "-f", "-p"], ["gdb", "-nx", "-q", "-p"]])
def test_other_tracer(tmp_path, command):
    """Who traces it is named, and it goes on."""
    if not shutil.which(command[0]):
        pytest.skip(f"there is no {command[0]}")
    with Faulty(tmp_path) as faulty:
        with debugging(command, faulty.pid):
            wait_for(lambda: number_of(faulty.pid, "TracerPid:") > 0)
            by = number_of(faulty.pid, "TracerPid:")
            assert faulty.tell("start") == f"traced process {by} traces it"
            assert faulty.told() is None
        wait_for(lambda: number_of(faulty.pid, "TracerPid:") == 0)
        assert faulty.goes_on()
        faulty.hold()
        faulty.end()


def test_nowhere_to_say_so(tmp_path):
    """Nobody could end it after a restart of the agent, so it is not begun."""
    with Faulty(tmp_path) as faulty:
        os.rmdir(tmp_path / "run")
        said = faulty.tell("start")
        assert said == f"impossible cannot write a file in {tmp_path}/run/vgpu-guestd-hold: " \
                       "No such file or directory"
        wait_for(lambda: number_of(faulty.pid, "TracerPid:") == 0)
        assert faulty.goes_on()
