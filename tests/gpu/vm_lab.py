# SPDX-License-Identifier: Apache-2.0
"""The VMs of try-vm: guests of tests/lab/lab.sh without a GPU, each with a network to its host h1 and a disk with programs,
proxies on that host with the vendor's OpenCL, and its vgpud."""
import base64
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "lib"))
from labdaemon import LabDaemon, prefix  # noqa: E402
from labhost import BUILD, ROOT, lab, two_hosts  # noqa: E402
from movelab import console, remove_guest, start_guest, tell  # noqa: E402
from opencl import ask_proxy  # noqa: E402
from unixhttp import wait_for  # noqa: E402
import vgpuctl  # noqa: E402

NVIDIA, POCL = "libnvidia-opencl.so.1", "libpocl.so.2"
INSIDE = "/vgpud"  # where the guest's disk has these files
GUEST_MIB = 1024
LIMIT_S = 120  # of a program
WORK = os.path.join(tempfile.gettempdir(), "try-vm")


def ours(*names):
    return os.path.join(ROOT, *names)


def in_guest(path):
    """A path of this tree, as the guest has it."""
    return os.path.join(INSIDE, os.path.relpath(path, ROOT)) if path.startswith(ROOT + "/") else path


def make_disk(root):
    """The disk of all guests, of a folder that only then has something mounted in it."""
    path = os.path.join(WORK, "disk")
    os.makedirs(WORK, exist_ok=True)
    if os.path.exists(path):
        return path
    mounted = os.path.join(WORK, "mounted")
    os.makedirs(mounted, exist_ok=True)
    subprocess.run(["mount", "--bind", root, mounted], check=True)
    try:
        subprocess.run(["mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-m", "0", "-d", mounted, path, "400M"],
                       check=True, stdout=subprocess.DEVNULL)
    finally:
        subprocess.run(["umount", mounted], check=True)
    return path


class Failed(Exception):
    pass


class Program:
    """In a guest, with nothing but a home and a path, or what else is named."""

    def __init__(self, guest, name, argv, **more):
        self.guest, self.name, self.began = guest, name, time.monotonic()
        words = [f"{key}={value}" for key, value in more.items()] + [in_guest(word) for word in argv]
        guest.tell(f"opencl plain {name} {' '.join(words)}")

    def ask(self, what):
        return " ".join(self.guest.tell(f"opencl {what} {self.name}")[1:])

    def text(self):
        return base64.b64decode(self.ask("text")).decode()

    def complaint(self):
        return base64.b64decode(self.ask("errors")).decode()

    def has_ended(self):
        return self.ask("has-ended") == "yes"

    def end(self, limit=LIMIT_S):
        """Its status and what it has said; by then it has ended."""
        until = time.monotonic() + limit
        while not self.has_ended():
            if time.monotonic() > until:
                raise Failed(f"{self.name} has not ended after {limit} s: {self.complaint()[-300:]}")
            time.sleep(0.1)
        self.took_s = time.monotonic() - self.began
        return int(self.ask("end").rsplit(" ", 1)[1]), self.text()

    def kill(self):
        self.ask("kill")


def devices(disk, tap):
    """A disk that is only read, and a network card."""
    return (f"<disk type='file' device='disk'><driver name='qemu' type='raw'/><source file='{disk}'/>"
            "<target dev='vda' bus='virtio'/><readonly/>"
            "<address type='pci' domain='0x0000' bus='0x00' slot='0x05' function='0x0'/></disk>"
            f"<interface type='ethernet'><target dev='{tap}' managed='no'/><model type='virtio'/>"
            "<address type='pci' domain='0x0000' bus='0x00' slot='0x06' function='0x0'/></interface>")


class Guest:
    """A VM without a GPU, with a network to its host alone: number 0, 1 or 2."""

    def __init__(self, name, number, disk):
        net, tap = f"192.168.{231 + number}", f"tap-vm{number}"
        lab("exec", "h1", "sh", "-c", f"ip tuntap add dev {tap} mode tap; ip addr add {net}.1/24 dev {tap}; "
            f"ip link set {tap} up")
        self.start(name, disk, tap, net + ".1", net + ".2")

    def start(self, name, disk, tap, here, there):
        self.name, self.host, self.here, self.there = name, "h1", here, there
        began = time.monotonic()
        start_guest("h1", name, gpu=False, mib=GUEST_MIB, devices=devices(disk, tap))
        self.boot_s = time.monotonic() - began
        self.tell("opencl bare")
        self.tell(f"net {self.there}/24 {self.here}")

    def tell(self, line):
        return tell(self.host, self.name, line)

    def console(self):
        return console(self.host, self.name)

    def remove(self):
        remove_guest(self.name)


def network(host="h1"):
    """Precedes a command that uses the network of a host, and nothing else of it: a proxy answers only programs in its
    own process namespace."""
    return [*prefix(host)[:3], "-n", "--"]


class Proxy:
    """vgpu-proxy on the host. Its sockets are (VM, address, more options)."""

    def __init__(self, name, vendor, sockets, *options, host="h1"):
        self.folder = os.path.join(WORK, name)
        os.makedirs(os.path.join(self.folder, "vendors"), exist_ok=True)
        with open(os.path.join(self.folder, "vendors", "vendor.icd"), "w", encoding="utf-8") as file:
            file.write(vendor + "\n")
        self.asked, self.log = os.path.join(self.folder, "ask.sock"), os.path.join(self.folder, "log")
        words = [f"{address},vm={vm},token={token_of(vm)}{more}" if ":" in address else f"{address},vm={vm}{more}"
                 for vm, address, more in sockets]
        argv = [os.path.join(BUILD, "vgpu-proxy"), "--drain=1", f"--vendors={self.folder}/vendors", f"--ask={self.asked}",
                *options, *words]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([*network(host), *argv], stderr=log, cwd=self.folder, env=clean())
        wait_for(lambda: self.process.poll() is not None or os.path.exists(self.asked))
        if self.process.poll() is not None:
            raise Failed("the proxy did not begin: " + self.said())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(30)
        if os.path.exists(self.asked):
            os.unlink(self.asked)

    def said(self):
        with open(self.log, encoding="utf-8") as log:
            return log.read()

    def told(self):
        """What it says of each of its sockets, in their order."""
        return ask_proxy(self.asked)["sockets"]


def token_of(vm):
    """A file; the same for all proxies of a VM."""
    path = os.path.join(WORK, f"token-{vm}")
    if not os.path.exists(path):
        with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "w", encoding="ascii") as file:
            file.write(f"token-of-{vm}-{os.urandom(8).hex()}\n")
    return path


def clean():
    """An environment without what would choose an OpenCL."""
    return {key: value for key, value in os.environ.items() if not key.startswith(("OCL_ICD", "VGPU_"))}


def native(vendor):
    return {**clean(), "OCL_ICD_VENDORS": vendor}


def remote(address, vm="vm1"):
    """Of a program on the host that uses a proxy."""
    return {**clean(), "OCL_ICD_VENDORS": os.path.join(BUILD, "libvgpu-opencl.so"), "VGPU_OPENCL_AGENT": "/nowhere",
            "VGPU_OPENCL": "proxy:" + address, "VGPU_OPENCL_TOKEN": token_of(vm)}


def on_host(argv, environment, limit=LIMIT_S):
    """Status, what it says, and seconds."""
    began = time.monotonic()
    done = subprocess.run([*network(), *argv], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=limit, cwd=WORK, check=False)
    text = done.stdout.decode(errors="replace")
    if done.returncode:
        text += f"\nended with {done.returncode}: {done.stderr.decode(errors='replace')[-400:]}"
    return done.returncode, text, time.monotonic() - began


class Node:
    """vgpud on the VMs' host."""

    def __init__(self, proxies, guests, addresses, nvml):
        self.folder = os.path.join(WORK, "vgpud")
        os.makedirs(self.folder, exist_ok=True)
        groups = "".join(f"[proxy {guest.name}]\naddress={address}\ntoken_file={token_of(guest.name)}\n"
                         for guest, address in zip(guests, addresses))
        config = ("[libvirt]\nuse=yes\npoll=1s\n[live]\nbpf=no\nperf=no\n[actions]\nenabled=yes\n"
                  f"[gpu]\nfdinfo=no\nvenus=no\n{'' if nvml else 'nvml_library='}\ntracepoints=no\nbudget=0\n"
                  f"proxies={','.join(proxy.asked for proxy in proxies)}\n" + groups)
        self.daemon = LabDaemon(self.folder, host="h1", config=config)
        for guest, address in zip(guests, addresses):
            self.knows(guest, address)

    def knows(self, guest, address):
        """Until the guest has been told."""
        def there():
            return [g for g in self.daemon.get("/v1/proxies")["guests"]
                    if g["vm"] == guest.name and g["told"] and g["address"] == address]
        try:
            wait_for(there, 60, pause=0.1)
        except AssertionError as error:
            raise Failed(f"{guest.name} does not know {address}: {self.daemon.get('/v1/proxies')['guests']}\n"
                         f"{self.daemon.tail(40)}") from error

    def run(self, *args, code=0):
        done = subprocess.run([vgpuctl.program(), *args, "--socket", self.daemon.socket], capture_output=True, text=True,
                              timeout=LIMIT_S, check=False)
        if done.returncode != code:
            raise Failed(f"vgpuctl {shlex.join(args)}: {done.stdout}{done.stderr}")
        return done.stdout

    def move(self, guest, address):
        """The programs of the VM go to another proxy. What each of them says."""
        return json.loads(self.run("proxy", "move", guest.name, "--to", address, "-o", "json"))["guest"]["programs"]

    def stop(self):
        self.daemon.stop()


def smi(what, fields):
    """Rows of nvidia-smi's; none where there is none."""
    try:
        out = subprocess.run(["nvidia-smi", f"--query-{what}={fields}", "--format=csv,noheader,nounits"],
                             capture_output=True, text=True, check=True, timeout=60).stdout
    except (FileNotFoundError, subprocess.CalledProcessError):
        return []
    return [[cell.strip() for cell in line.split(",")] for line in out.splitlines()]


def machine():
    """What a report begins with."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        text = file.read()
    lines = ["GPU " + ", ".join(row) for row in smi("gpu", "name,driver_version,memory.total")] or ["no NVIDIA GPU: PoCL"]
    lines.append(f"kernel {os.uname().release}, {os.cpu_count()} CPUs, {re.search('model name.*: (.*)', text)[1]}")
    lines.append(f"VMs by QEMU's emulation; /dev/kvm: {'there' if os.path.exists('/dev/kvm') else 'none'}; "
                 f"/dev/vhost-vsock: {'there' if os.path.exists('/dev/vhost-vsock') else 'none'}")
    return lines


__all__ = ["BUILD", "ROOT", "WORK", "Failed", "Guest", "NVIDIA", "Node", "POCL", "Program", "Proxy", "in_guest", "lab",
           "machine", "make_disk", "native", "on_host", "ours", "prefix", "remote", "smi", "token_of", "two_hosts"]
