#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How long work of Vulkan takes in an emulated host with lavapipe, and by Venus in a guest of it, in turns: lines
"NAME NATIVE_MS VENUS_MS", medians of all rounds. For tools/bench vulkan."""
import contextlib
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)),
                os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib")]

from vfiolab import IMAGE
from vulkanlab import HOSTMEM, LAVAPIPE, WORK, VulkanLab

GUEST = "vm-bench"
LIMIT_S = 900
# One for the guest, which looks again and again whether its work is done, and one for who does it.
CPUS = "2"


def figures(text):
    lines = [line.split() for line in text.replace("\r", "").splitlines() if line.startswith("FIGURE ")]
    return {name: float(ms) for _, name, ms, _ in lines}


def run_native(lab):
    return figures(lab.host.run(f"{LAVAPIPE} XDG_RUNTIME_DIR=/tmp MESA_SHADER_CACHE_DISABLE=1 {WORK} bench"))


def run_guest(lab):
    lab.start(GUEST, "DEVICE")
    end = time.monotonic() + LIMIT_S
    while "GUEST-DONE" not in (text := lab.told(GUEST)):
        assert time.monotonic() < end, text
        time.sleep(2)
    assert "DEVICE Virtio-GPU Venus" in text and "WORK-DONE" in text, text
    lab.host.virsh(f"destroy {GUEST}")
    return figures(text)


def main():
    rounds = int(sys.argv[1])
    os.environ.setdefault("VG_VFIO_CPUS", CPUS)
    if subprocess.run([IMAGE, "build"], stdout=sys.stderr, check=False).returncode != 0:
        return 1
    # What the lab says of hosts and guests that broke is no figure.
    with tempfile.TemporaryDirectory() as directory, contextlib.redirect_stdout(sys.stderr):
        lab = VulkanLab(pathlib.Path(directory))
        try:
            lab.boot()
            lab.start_vgpud()
            lab.define(GUEST, "bench")
            lab.host.vgpuctl(f"vulkan enable {GUEST} --hostmem {HOSTMEM} --loosen-sandbox --yes")
            lab.host.stop_vgpud()
            native, venus = [], []
            for _ in range(rounds):
                native.append(run_native(lab))
                venus.append(run_guest(lab))
        finally:
            lab.close()
    for name in native[0]:
        print(name, *(f"{statistics.median(one[name] for one in which):.3f}" for which in (native, venus)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
