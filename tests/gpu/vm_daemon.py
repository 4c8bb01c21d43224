# SPDX-License-Identifier: Apache-2.0
"""The part `daemon` of try-vm: vgpud beside nvidia-smi, with BPF, the management library and a proxy as its sources, while a
VM's program uses the GPU through the proxy, and another process uses it itself."""
import json
import os
import re
import shutil
import statistics
import subprocess
import time

import vm_lab
from unixhttp import wait_for
from vgpud import Daemon
from vm_lab import Failed, native, ours

WATCH_S = 180
WARM_S = 4
PORT = 7100
# Of 100.
POINTS = 2


class Dmon:
    """nvidia-smi dmon for some seconds; nothing where there is none."""

    def __init__(self, seconds):
        self.process = None
        if shutil.which("nvidia-smi"):
            self.process = subprocess.Popen(["nvidia-smi", "dmon", "-i", "0", "-s", "um", "-c", str(seconds)],
                                            stdout=subprocess.PIPE, text=True)

    def rows(self):
        """Columns by name, of each second."""
        if not self.process:
            return []
        out = self.process.communicate()[0]
        names = next(line.lstrip("# ").split() for line in out.splitlines() if line.startswith("#"))
        return [dict(zip(names, line.split())) for line in out.splitlines() if re.match(r"\s+\d", line)]

    def end(self):
        rows = self.rows()
        if not rows:
            return "there is no nvidia-smi"
        return {name: round(statistics.mean(float(row[name]) for row in rows), 1)
                for name in ("sm", "fb") if name in rows[0] and rows[0][name] != "-"}


class Pmon(Dmon):
    """The same of processes: mean per cent of the multiprocessors' time, by pid."""

    def __init__(self, seconds):
        super().__init__(0)
        if self.process:
            self.process.kill()
            self.process.communicate()
            self.process = subprocess.Popen(["nvidia-smi", "pmon", "-i", "0", "-s", "u", "-c", str(seconds)],
                                            stdout=subprocess.PIPE, text=True)

    def end(self):
        if not self.process:
            return {}
        by_pid = {}
        for pid, sm in re.findall(r"^\s*0\s+(\d+)\s+\S+\s+(\d+|-)", self.process.communicate()[0], re.M):
            by_pid.setdefault(int(pid), []).append(0 if sm == "-" else int(sm))
        return {pid: round(statistics.mean(values), 1) for pid, values in by_pid.items()}


def cost_of(pid):
    """CPU seconds, and MiB that are its own."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        kib = int(re.search(r"RssAnon:\s+(\d+)", file.read())[1])
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), kib / 1024


def newest(daemon):
    """What it knows of the GPU: busy seconds and MiB of the GPU, processes and VMs."""
    for document in daemon.get("/v1/gpus")["items"]:
        if document.get("newest"):
            return document
    return {}


def busy(document):
    rows = {"GPU": engine["busy_ns"] for engine in document.get("engines", []) if engine["engine"] == "sm"}
    rows.update({row["pid"]: row["busy_ns"] for row in document.get("processes", []) if row["engine"] == "sm"})
    return rows, document.get("newest", {}).get("end_ns")


def of_vm(daemon, name):
    rows = [row for row in daemon.get(f"/v1/vms/{name}/gpu")["gpu"] if row["engine"] == "opencl"]
    return sum(row["exec_ns"] for row in rows) / 1e9 if rows else None


def compare(lab_, daemon, proxy, guest, seconds):
    report = lab_.report
    time.sleep(WARM_S)
    cost, began = cost_of(daemon.process.pid), time.monotonic()
    dmon, pmon = Dmon(seconds), Pmon(seconds)
    before, begin_ns = busy(newest(daemon))
    vm_before, ran = of_vm(daemon, guest.name), proxy.told()[0]["run_ns"]
    time.sleep(seconds)
    after, end_ns = busy(newest(daemon))
    vm_after, ran = of_vm(daemon, guest.name), (proxy.told()[0]["run_ns"] - ran) / 1e9
    took = time.monotonic() - began
    spent = cost_of(daemon.process.pid)
    theirs, by_pid = dmon.end(), pmon.end()
    report.head("busy", "vgpud", "nvidia-smi or the proxy")
    if "GPU" in after and end_ns:
        ours_of = {who: 100 * (after[who] - before.get(who, 0)) / (end_ns - begin_ns) for who in after}
        for who, percent in ours_of.items():
            report.row(f"process {who}" if who != "GPU" else "the GPU, % (sm)", f"{percent:.1f}",
                       by_pid.get(who, "-") if who != "GPU" else theirs.get("sm"))
        report.judge(abs(ours_of["GPU"] - theirs["sm"]) <= POINTS, "the GPU's use by vgpud and nvidia-smi dmon, points",
                     f"{ours_of['GPU'] - theirs['sm']:+.1f}")
        memory = [engine["mem_bytes"] / (1 << 20) for engine in newest(daemon)["newest"]["engines"] if engine.get("mem_bytes")]
        report.row("memory of the GPU, MiB", memory[:1], theirs.get("fb"))
    else:
        report.judge(not lab_.is_gpu, "the GPU's use", "vgpud knows nothing of a GPU")
    if vm_before is None or vm_after is None:
        report.judge(False, "the VM's commands by the proxy", "vgpud knows nothing of them")
    else:
        report.row("the VM's commands, s", f"{vm_after - vm_before:.2f}", f"{ran:.2f}")
        # vgpud reads the proxy once in a while, so that the two times begin and end apart.
        report.judge(abs(vm_after - vm_before - ran) <= 0.02 * ran + 1, "the VM's commands by vgpud and by the proxy")
    report.say(f"vgpud took {100 * (spent[0] - cost[0]) / took:.2f} % of a core in {took:.0f} s; {spent[1]:.1f} MiB are its own")


def told_of_vm(daemon, guest):
    """Whether the VM is known with its CPU times."""
    for vm in daemon.get("/v1/vms")["items"]:
        if vm["name"] == guest.name:
            return vm
    return None


def part(lab_, load, ready):
    [guest] = lab_.guests("vm1")
    address = f"tcp:{guest.here}:{PORT}"
    proxy = lab_.proxy("proxy", [("vm1", address, "")])
    # The vgpud of the VM's host, which tells the guest of its proxy.
    lab_.node([proxy], [guest], [address])
    folder = os.path.join(vm_lab.WORK, "outside")
    os.makedirs(folder)
    config = ("[live]\nbpf=yes\nperf=yes\n[gpu]\n" + ("" if lab_.is_gpu else "nvml_library=\n") +
              f"budget=0\nproxies={proxy.asked}\n")
    # Outside of the host's namespaces: BPF knows processes by the machine's own numbers.
    with Daemon(folder, config=config) as daemon:
        own = None
        try:
            wait_for(lambda: told_of_vm(daemon, guest), 60, pause=0.2)
            program = load(guest, lab_.steps(), "0.02")
            ready(program)
            own = subprocess.Popen(["/usr/bin/python3", ours("tests/opencl/backlog.py"), lab_.steps(), "0.05"],
                                   env=native(lab_.vendor), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            if own.stdout.readline() != b"there\n":
                raise Failed("the host's own program did not begin")
            time.sleep(WARM_S)
            for part_ in json.loads(daemon.request("GET", "/readyz")[2])["parts"]:
                lab_.report.say(f"{part_['name']}: {part_['state']}; {part_['reason']}")
            lab_.report.say(f"the host's own program is process {own.pid}")
            compare(lab_, daemon, proxy, guest, WATCH_S if lab_.is_gpu else 15)
            vm = told_of_vm(daemon, guest)
            lab_.report.say("the VM:", json.dumps(vm)[:1500])
            program.kill()
        finally:
            if own:
                own.kill()
                own.communicate()
    lab_.report.say(daemon.tail(25))
