# SPDX-License-Identifier: Apache-2.0
"""tools/demo-migration and tools/demo-opencl as they are: what they show, and that nothing is left over, however
they end."""
import os
import re
import signal
import subprocess
import tempfile

import pytest
from labhost import missing
from settings import HANG_S, full
from vgpuctl import ROOT

# One at a time; not that of the other tests, for it has a lab of its own.
pytestmark = [pytest.mark.xdist_group("demo"), pytest.mark.drawn("lab")]
NET = f"10.69.{os.getpid() % 250}"
BRIDGE = "vlab" + NET.split(".", 1)[1].replace(".", "-")


class Demo:
    def __init__(self, name="demo-migration"):
        # Short, for sockets are in it; and by its name all that the demo starts is known.
        self.directory = tempfile.mkdtemp(prefix="vgd")
        self.process = subprocess.Popen(
            [os.path.join(ROOT, "tools", name)], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
            env={**os.environ, "TMPDIR": self.directory, "LAB_NET": NET})

    def read_to(self, words):
        """What it says until then."""
        text = ""
        for line in self.process.stdout:
            text += line
            if words in line:
                return text
        self.check_kernel(text)
        raise AssertionError(f"it ended without '{words}':\n{text}")

    def end(self, limit=HANG_S):
        """What it has still to say."""
        text, _ = self.process.communicate(timeout=limit)
        self.check_kernel(text)
        return text

    @staticmethod
    def check_kernel(text):
        if "cannot fetch" in text or "apt-cache knows no" in text:
            pytest.skip("the kernel of the lab's guest cannot be fetched")

    def left(self):
        """Processes, network, files."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    if f"TMPDIR={self.directory}".encode() in file.read():
                        found.append(pid)
            except OSError:
                pass  # it has ended
        found += [name for name in os.listdir("/sys/class/net") if name.startswith(BRIDGE)]
        found += os.listdir(self.directory)
        os.rmdir(self.directory)
        return found


@pytest.fixture
def demo(request):
    why = missing()
    if why:
        pytest.skip(why)
    running = Demo(getattr(request, "param", "demo-migration"))
    yield running
    running.process.kill()


def check_moved(text):
    """Up to the fifth part."""
    assert "$ vgpuctl peer list\nPEER HOST STATE" in text
    assert "$ vgpuctl migrate demo-vm --to h2 --dry-run\n" in text
    assert "No obstacles found." in text
    assert "$ vgpuctl migrate demo-vm --to h2 --wait\n" in text
    assert re.search(r"^Done after .*: demo-vm is on h2 and has its GPUs; GPU\s+programs", text, re.M)
    assert re.search(r"^\$ vgpuctl migration show (\S+)\n\1: done$", text, re.M)


def check_rolled_back(text):
    """The fifth part and what is after it."""
    assert "$ vgpuctl migrate demo-vm --to h1 --wait\n" in text
    assert re.search(r"^attach .* failed: 'ua-gpu0' cannot be attached", text, re.M)
    assert re.search(r"^Rolled back after .*: demo-vm is on h2 and has its GPUs", text, re.M)
    assert re.search(r"^\$ vgpuctl migration show (\S+) --peer h2\n\1: rolled back$", text, re.M)
    assert re.search(r"^ +[0-9.]+ s +[0-9.]+ s < reattach ", text, re.M)
    # libvirt of h1 has nothing, that of h2 the VM.
    lists = text.split("Both hosts' libvirt:")[1].split("$ virsh ")[1:]
    assert ["demo-vm   running" in of_host for of_host in lists] == [False, True]
    assert text.endswith("Both hosts are stopped, and no process of theirs remains.\n")


# Where it is stopped, and how; None: it is not.
ENDS = [("== 5.", signal.SIGINT), (None, None), ("Starting two", signal.SIGINT), ("== 2.", signal.SIGINT),
        ("reserve ", signal.SIGINT), ("reserve ", signal.SIGTERM)]


# 15 s, and 25 to the end: the VM is copied slowly enough to be watched.
@pytest.mark.parametrize("words, signum", ENDS if full() else ENDS[:1])
def test_demo(demo, words, signum):
    text = ""
    if words:
        text = demo.read_to(words)
        # Ctrl-C is for all of the foreground.
        os.killpg(demo.process.pid, signum)
    text += demo.end()
    assert demo.process.returncode == (128 + signum if signum else 0), text
    assert demo.left() == []
    gone, *back = text.split("== 5.")
    if not words or back:
        check_moved(gone)
    if words:
        assert "Stopping both hosts." in text
    else:
        check_rolled_back(back[0])


# Six minutes, most of which an emulated x264 takes, and one and a half more where its disk is not made yet.
# For full runs.
@pytest.mark.drawn("lab-many")
@pytest.mark.parametrize("demo", ["demo-opencl"], indirect=True)
def test_opencl(demo):
    text = demo.end(limit=20 * HANG_S)
    if "cannot fetch" in text:
        pytest.skip(text)
    assert demo.process.returncode == 0, text
    assert demo.left() == []
    assert re.search(r"in the guest: 2 programs with \d+ MiB of GPU memory", text)
    assert re.search(r"^Done after .*: demo-opencl is on h1 and has its GPUs", text, re.M)
    assert len(re.findall(r"^\d+ +(?:x264|waves): running; .*was paused for", text, re.M)) == 2
    assert len(re.findall(r"encoded 40 frames, .* status 0$", text, re.M)) == 5
    sums = re.findall(r"steps 150 sum (\w+) status 0", text)
    assert len(sums) == 3 and len(set(sums)) == 1
