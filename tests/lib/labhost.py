# SPDX-License-Identifier: Apache-2.0
"""Hosts of tests/lab/lab.sh."""
import contextlib
import fcntl
import glob
import os
import shutil
import subprocess

import cpu
import pytest
from settings import HANG_S

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("VG_BUILDDIR", os.path.join(ROOT, "build")))
LAB = os.path.join(ROOT, "tests", "lab", "lab.sh")
VGPUD = os.environ.get("VGPUD", os.path.join(BUILD, "vgpud"))
GUESTD = os.path.join(BUILD, "vgpu-guestd")
DUMP = os.path.join(BUILD, "tests", "tools", "collector-dump")
# libvirt and what it uses are not built with ThreadSanitizer, which so sees their locks but not their
# atomic counters: here, where libvirt talks to a libvirtd, races within libraries are none of ours.
TSAN = {"TSAN_OPTIONS": os.environ.get("TSAN_OPTIONS", "") + ":ignore_noninstrumented_modules=1"}
# A lab by hand, and one of another build, have a state and a network of their own.
ENV = {**os.environ, **TSAN, "LAB_DIR": os.path.join(BUILD, "lab"), "LAB_GPUS": "2",
       "LAB_GUESTD": GUESTD,
       "LAB_NET": f"10.67.{os.getpid() % 250}"}
# Of each host. LAB_LIBVIRT names what tests/lab/modular-libvirt has made.
DAEMONS = ["virtnodedevd", "virtqemud", "virtproxyd"] if ENV.get("LAB_LIBVIRT") else ["libvirtd"]


def lab(*args, check=True):
    done = subprocess.run(["bash", LAB, *args], env=ENV, text=True, stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=HANG_S)
    if check:
        assert done.returncode == 0, f"{args}: {done.stdout}{done.stderr}"
    return done


def missing():
    if os.geteuid() != 0:
        return "the lab needs root"
    programs = [os.path.join(ENV.get("LAB_LIBVIRT", ""), "sbin", name) for name in DAEMONS]
    for command in (*(programs if ENV.get("LAB_LIBVIRT") else DAEMONS), "virsh", "qemu-system-x86_64", "busybox", "cpio", "ip", "nsenter",
                    "unshare", "apt-get", "xz"):
        if not shutil.which(command):
            return f"the lab needs {command}"
    for program in (VGPUD, DUMP, GUESTD):
        if not os.access(program, os.X_OK):
            return f"{program} is not built"
    probe = subprocess.run(["unshare", "--mount", "--uts", "--net", "--ipc", "--pid", "--fork",
                            "--mount-proc", "mount", "-t", "sysfs", "sysfs", "/sys"],
                           capture_output=True, text=True)
    if probe.returncode != 0:
        return f"the lab needs namespaces: {probe.stderr.strip()}"
    return None


def pids():
    """The first process of each host; lab.sh has left them to whoever takes orphans."""
    for path in glob.glob(os.path.join(ENV["LAB_DIR"], "h*", "pid")):
        with open(path, encoding="ascii") as file:
            yield int(file.read().split()[0])


@contextlib.contextmanager
def two_hosts():
    """h1 and h2, of a build one lab at a time; what lab.sh up has said, which may have failed."""
    with open(os.path.join(BUILD, "lab.lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lab("down", check=False)
        cpu.others.append(pids)
        try:
            yield lab("up", "2", check=False)
        finally:
            lab("down", check=False)


def a_host():
    """For a fixture: h1, and h2; skips where that cannot be."""
    why = missing()
    if why:
        pytest.skip(why)
    with two_hosts() as up:
        if up.returncode != 0:
            pytest.skip(f"the lab does not come up: {up.stderr.strip()}")
        yield "h1"


def set_instances(n):
    """Of a type of the second GPU. Nothing tells of it but the next look."""
    inside("echo %d > /sys/class/mdev_bus/0000:42:00.0/mdev_supported_types/nvidia-230/"
           "available_instances" % n)


def inside(command):
    return lab("exec", "h1", "sh", "-c", command).stdout


def vcpu_threads(pid):
    """index -> tid, as the host's /proc has them."""
    lines = inside(f"cd /proc/{pid}/task && for t in *; do echo $t $(cat $t/comm); done")
    out = {}
    for tid, *comm in (line.split() for line in lines.splitlines()):
        if comm[0] == "CPU" and comm[1].endswith(("/TCG", "/KVM")):
            out[int(comm[1].split("/")[0])] = int(tid)
    return out
