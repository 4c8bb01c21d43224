# SPDX-License-Identifier: Apache-2.0
"""Real QEMU VMs whose vCPU works and idles in turns. The guest is a boot sector: it counts the ticks
of the PC's timer (18.2 a second), spins for some of them and halts for some."""
import os
import struct
import subprocess
import uuid

from vgpud import wait_for

TICKS_AT = 0x46C  # where the BIOS counts them


def boot_sector(busy_ticks, idle_ticks):
    code = bytes((
        0x31, 0xC0,                       # xor ax, ax
        0x8E, 0xD8,                       # mov ds, ax
        0xFB,                             # sti
        0x8B, 0x1E, 0x6C, 0x04,           # begin: mov bx, [TICKS_AT]
        0xA1, 0x6C, 0x04,                 # busy: mov ax, [TICKS_AT]
        0x29, 0xD8,                       # sub ax, bx
        0x3D, *struct.pack("<H", busy_ticks),  # cmp ax, busy_ticks
        0x72, 0xF6,                       # jb busy
        0xF4,                             # idle: hlt
        0xA1, 0x6C, 0x04,                 # mov ax, [TICKS_AT]
        0x29, 0xD8,                       # sub ax, bx
        0x3D, *struct.pack("<H", busy_ticks + idle_ticks),
        0x72, 0xF5,                       # jb idle
        0xEB, 0xE5))                      # jmp begin
    assert TICKS_AT == 0x046C
    return code.ljust(510, b"\0") + b"\x55\xAA"


def threads_named(pid, prefix):
    found = {}
    for tid in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{tid}/comm", encoding="utf-8") as file:
            comm = file.read().strip()
        if comm.startswith(prefix):
            found[int(tid)] = comm
    return found


class DutyVm:
    """accel: tcg or kvm. The vCPU threads are in `tids` once the guest has been booting."""

    def __init__(self, directory, name, busy_ticks, idle_ticks, cpu, vcpus=1, accel="tcg"):
        self.name = name
        self.uuid = str(uuid.uuid4())
        image = os.path.join(str(directory), name + ".img")
        with open(image, "wb") as file:
            file.write(boot_sector(busy_ticks, idle_ticks).ljust(1474560, b"\0"))
        self.process = subprocess.Popen(
            ["taskset", "-c", str(cpu), "qemu-system-x86_64", "-name",
             f"guest={name},debug-threads=on", "-uuid", self.uuid, "-accel",
             accel + (",thread=multi" if accel == "tcg" else ""), "-smp", str(vcpus),
             "-m", "32", "-nodefaults", "-no-user-config", "-display", "none", "-monitor", "none",
             "-drive", f"file={image},format=raw,if=floppy", "-boot", "a"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.tids = sorted(wait_for(lambda: self._vcpus(vcpus)))

    def _vcpus(self, vcpus):
        assert self.process.poll() is None, self.process.stderr.read()
        try:
            found = threads_named(self.process.pid, "CPU ")
        except OSError:
            return None
        return found if len(found) >= vcpus else None

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.process.kill()
        self.process.wait()
        self.process.stderr.close()

    def schedstat(self):
        """tid -> (ns it ran, ns it waited for a CPU), by the kernel's own account."""
        told = {}
        for tid in self.tids:
            with open(f"/proc/{self.process.pid}/task/{tid}/schedstat", encoding="ascii") as file:
                told[tid] = tuple(int(word) for word in file.read().split()[:2])
        return told
