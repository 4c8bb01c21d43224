# SPDX-License-Identifier: Apache-2.0
"""vgpud reads how this host's GPUs are used, from a made-up library of NVIDIA's (fake-nvml.c says what
it can be told)."""
import os
import subprocess
import time

import pytest
import vgpuctl
from settings import HANG_S
from vgpud import BusyVm, Daemon, wait_for
from vgpuctl import ROOT

FAKE = os.path.join(os.environ.get("VG_BUILDDIR", os.path.join(ROOT, "build")), "tests", "tools",
                    "fake-nvml.so")
GPU = "0000:c1:00.0"


class Gpu:
    """What the library is told; the file is exchanged, never half written."""

    def __init__(self, directory):
        self.path = os.path.join(str(directory), "nvml")
        self.tell("")

    def tell(self, *lines):
        with open(self.path + ".new", "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        os.rename(self.path + ".new", self.path)

    def daemon(self, directory, more="", **keys):
        config = f"[daemon]\nwindow=200ms\n[gpu]\nnvml_library={FAKE}\nsample=40ms\n"
        return Daemon(directory, config=config + more, env={"VG_FAKE_NVML": self.path}, **keys)


@pytest.fixture(name="gpu")
def gpu_fixture(tmp_path):
    if not os.path.exists(FAKE):
        pytest.skip(f"{FAKE} is not built")
    return Gpu(tmp_path)


def is_well(daemon):
    """Or all that it lacks is time, as windows of 200 ms do on a busy machine."""
    part = daemon.part("collector:gpu")
    return part["state"] == "ok" or "windows are longer than configured" in (part["reason"] or "")


def reason(daemon):
    return daemon.part("collector:gpu")["reason"] or ""


def vm_of(daemon, vm):
    for known in daemon.get("/v1/vms")["items"]:
        if known["uuid"] == vm.uuid:
            return daemon.get(f"/v1/vms/{known['id']}")
    return None


def newest_gpu(daemon, vm, engine="sm"):
    """The figures of an engine in the newest window, or None."""
    known = vm_of(daemon, vm)
    if not known or not known["newest"]:
        return None
    return next((gpu for gpu in known["newest"]["gpu"] if gpu["engine"] == engine), None)


def metrics(daemon):
    return daemon.request("GET", "/metrics")[2].decode().splitlines()


def metric(lines, name, **labels):
    for line in lines:
        if line.startswith(name + "{") and all(f'{key}="{value}"' in line
                                               for key, value in labels.items()):
            return float(line.rsplit(" ", 1)[1])
    return None


NOT_TOLD = ("requests", "partial", "coalesced", "wait_ns", "vgpu_queue_ns", "dependency_ns", "driver_queue_ns",
            "latency_mean_ns", "latency_p50_ns", "latency_p95_ns", "latency_p99_ns", "latency_max_ns",
            "queue_len_avg", "queue_len_max", "suspended_ns")


def nobody_tells_of_requests(daemon, gpu):
    """They are null, no samples, and a dash, not zeros; memory is told."""
    for engine in gpu["engines"]:
        assert {name: engine[name] for name in NOT_TOLD} == dict.fromkeys(NOT_TOLD), engine
        assert engine["mem_bytes"] == 3000 << 20
    assert all(row["requests"] is None and row["wait_ns"] is None for row in gpu["vms"])
    text = metrics(daemon)
    assert metric(text, "vgpud_vm_gpu_requests_total") is None and metric(text, "vgpud_vm_gpu_wait_seconds_total") is None
    done = subprocess.run([vgpuctl.program(), "gpu", "show", gpu["id"], "--socket", daemon.socket],
                          capture_output=True, text=True, check=True, timeout=HANG_S)
    rows = done.stdout.split("Engines, since vgpud started\n")[1].splitlines()
    heads, sm = rows[0], next(row for row in rows if row.startswith("sm "))
    assert sm[:heads.index("REQUESTS") + len("REQUESTS")].split()[-1] == "-", done.stdout


def test_vgpus_are_told_of_their_vms(gpu, tmp_path):
    with BusyVm(name="alpha") as alpha, BusyVm(name="beta") as beta, BusyVm(name="gamma") as gamma:
        gpu.tell("gpu 0:C1:0 NVIDIA L40", "rates 65 10", "memory 3000 46068",
                 f"vgpu 1 {alpha.uuid} - 40 0 5 0 1024", f"vgpu 2 {beta.uuid} - 25 0 0 0 512")
        with gpu.daemon(tmp_path) as daemon:
            wait_for(lambda: (newest_gpu(daemon, alpha) or {}).get("busy_ns"))
            wait_for(lambda: (newest_gpu(daemon, beta) or {}).get("busy_ns"))
            assert newest_gpu(daemon, alpha)["device"] == GPU
            # In windows that no sample is late for.
            for vm, engine, share in ((alpha, "sm", 0.4), (alpha, "enc", 0.05), (beta, "sm", 0.25)):
                wait_for(lambda v=vm, e=engine, s=share: (g := newest_gpu(daemon, v, e)) and
                         s - 0.02 <= g["share"] <= s)
            wait_for(lambda: vm_of(daemon, alpha)["gpu_known"])
            # CPU figures are those of whoever measures CPUs.
            wait_for(lambda: (known := vm_of(daemon, alpha))["run_ns"] > 0 and
                     known["problem"] is None)
            measurement = daemon.get("/v1/host")["measurement"]
            assert measurement["source"] != "gpu" and measurement["confidence"] > 0
            assert not vm_of(daemon, gamma)["gpu_known"]
            name, labels = "vgpud_gpu_busy_seconds_total", {"device": GPU, "engine": "sm"}
            busy = metric(metrics(daemon), name, **labels)
            wait_for(lambda: metric(metrics(daemon), name, **labels) > busy + 0.2)
            assert metric(metrics(daemon), "vgpud_vm_gpu_busy_seconds_total", engine="sm") > 0
            wait_for(lambda: daemon.get(f"/v1/gpus/{GPU}")["source"] == "nvml")
            known = daemon.get(f"/v1/gpus/{GPU}")
            assert known["inventory"] is None
            assert {"sm", "enc"} <= {engine["engine"] for engine in known["engines"]}
            assert {row["vm"]["id"] for row in known["vms"]} >= {alpha.uuid, beta.uuid}
            # Polled counters know no requests.
            assert daemon.get(f"/v1/gpus/{GPU}/requests")["items"] == []
            nobody_tells_of_requests(daemon, known)
            assert {g["engine"] for g in daemon.get(f"/v1/vms/{alpha.uuid}/gpu")["gpu"]} >= {"sm", "enc"}
            part = daemon.part("collector:gpu")
            assert part["ready"] and is_well(daemon)
            assert f"nvml: {GPU} (NVIDIA L40): 2 vGPUs, scheduled best effort" in part["reason"]
            daemon.stop()


def test_a_program_of_the_host_is_told(gpu, tmp_path):
    """A process that is no VM keeps VMs waiting all the same."""
    with BusyVm() as vm:
        own = os.getpid()
        gpu.tell("gpu 0:C1:0 X", "rates 90 0", "memory 900 1000", f"process {own} 55 0 0 0 300",
                 f"process {vm.process.pid} 30 0 0 0 200")
        with gpu.daemon(tmp_path) as daemon:
            wait_for(lambda: (newest_gpu(daemon, vm) or {}).get("busy_ns"))
            # The window in which the first samples came may have begun before them.
            known = wait_for(lambda: next(
                (known for known in [daemon.get(f"/v1/gpus/{GPU}")]
                 if any(0.5 <= process["share"] <= 0.55
                        for process in (known["newest"] or {"processes": []})["processes"])), None))
            assert [row["vm"]["id"] for row in known["newest"]["vms"] if row["engine"] == "sm"] == \
                [vm.uuid]
            process, = known["newest"]["processes"]
            assert process["pid"] == own and process["engine"] == "sm"
            with open("/proc/self/comm", encoding="utf-8") as file:
                assert process["comm"] == file.read().rstrip("\n")
            assert process["mem_bytes"] == 300 << 20
            assert "2 processes, 1 of VMs" in reason(daemon)
            daemon.stop()


def test_only_gpu_use_is_known(gpu, tmp_path):
    """Nothing measures CPUs: there are windows all the same, and no plan takes zeros for figures."""
    with BusyVm() as vm:
        gpu.tell("gpu 0:C1:0 X", "rates 50 0", f"vgpu 1 {vm.uuid} - 50 0 0 0 9")
        with gpu.daemon(tmp_path, "[live]\nuse=no\n") as daemon:
            wait_for(lambda: (newest_gpu(daemon, vm) or {}).get("busy_ns"))
            known = vm_of(daemon, vm)
            assert known["gpu_known"] and known["problem"] == "only its GPU use is measured"
            measurement = daemon.get("/v1/host")["measurement"]
            assert measurement["source"] == "gpu" and measurement["confidence"] == 1
            assert all(measured["source"] is None for measured in measurement["measures"].values())
            daemon.stop()


def test_no_gpu(gpu, tmp_path):
    """Costs nothing, says so once, and leaves windows as they are."""
    with BusyVm() as vm, gpu.daemon(tmp_path, "nvml_library=libnot-there.so.1\n") as daemon:
        wait_for(lambda: daemon.get("/v1/host")["measurement"]["windows"] > 3)
        wait_for(lambda: vm_of(daemon, vm))
        part = daemon.part("collector:gpu")
        assert is_well(daemon) and "libnot-there.so.1" in part["reason"]
        assert not vm_of(daemon, vm)["gpu_known"] and vm_of(daemon, vm)["gpu"] == []
        assert daemon.log().count("name=gpu") == 2, daemon.log()
        daemon.stop()


def with_a_card(script):
    """What puts a daemon where /sys shows a GPU, and script has been run; or skips."""
    card = ("mount -t tmpfs none /sys/class && mkdir -p /sys/class/drm/renderD128 && "
            f"{script} && exec \"$@\"")
    prefix = ("unshare", "-m", "sh", "-c", card, "sh")
    if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting is not allowed")
    return prefix


@pytest.mark.parametrize("script,state,words", [
    ("mount -t tmpfs none /sys/kernel", "degraded", "mount -t tracefs none /sys/kernel/tracing"),
    # In a namespace of processes, it is something else that is told.
    pytest.param("mount -t tmpfs none /sys/kernel && mkdir -p /sys/kernel/tracing/events", "ok",
                 "no loaded GPU driver has tracepoints for requests", marks=pytest.mark.host),
])
def test_tracepoints(gpu, tmp_path, script, state, words):
    """A driver is there: why there are no requests is told, and the rest goes on."""
    with BusyVm() as vm:
        gpu.tell("gpu 0:C1:0 X", "rates 50 0", f"vgpu 1 {vm.uuid} - 50 0 0 0 9")
        with gpu.daemon(tmp_path, prefix=with_a_card(script)) as daemon:
            wait_for(lambda: "PID namespace" in reason(daemon) or (
                is_well(daemon) if state == "ok" else daemon.part("collector:gpu")["state"] == state))
            if "PID namespace" in reason(daemon):
                pytest.skip("tracepoints cannot be used in a pid namespace, as of a container")
            assert "tracepoints: " in reason(daemon) and words in reason(daemon)
            wait_for(lambda: (newest_gpu(daemon, vm) or {}).get("busy_ns"))
            daemon.stop()


def test_tracepoints_are_off(gpu, tmp_path):
    prefix = with_a_card("mount -t tmpfs none /sys/kernel")
    with gpu.daemon(tmp_path, "tracepoints=no\n", prefix=prefix) as daemon:
        wait_for(lambda: is_well(daemon))
        assert "tracepoints" not in reason(daemon)
        daemon.stop()


def test_nothing_is_asked_for(gpu, tmp_path):
    with gpu.daemon(tmp_path, "enable=no\n") as daemon:
        wait_for(lambda: daemon.get("/v1/host")["measurement"]["windows"] > 1)
        assert daemon.part("collector:gpu")["state"] is None
        daemon.stop()


def test_no_windows_of_nothing(gpu, tmp_path):
    """Neither CPUs nor GPUs are to be seen."""
    with gpu.daemon(tmp_path, "[live]\nuse=no\n") as daemon:
        wait_for(lambda: is_well(daemon))
        time.sleep(1)
        assert daemon.get("/v1/host")["measurement"]["windows"] == 0
        daemon.stop()


def test_library_fails(gpu, tmp_path):
    gpu.tell("error 9")
    with gpu.daemon(tmp_path) as daemon:
        part = wait_for(lambda: daemon.part("collector:gpu")["state"] == "degraded" and
                        daemon.part("collector:gpu"))
        assert part["ready"] and "NVML reports Driver Not Loaded" in part["reason"]
        daemon.stop()


def test_library_hangs(gpu, tmp_path):
    with BusyVm() as vm:
        gpu.tell("gpu 0:C1:0 X", "rates 50 0", f"vgpu 1 {vm.uuid} - 50 0 0 0 9")
        # Half of the time goes by until it is missed, the other half until it is given up at the end.
        with gpu.daemon(tmp_path, "[daemon]\nthread_limit=5s\n") as daemon:
            wait_for(lambda: (newest_gpu(daemon, vm) or {}).get("busy_ns"))
            gpu.tell("gpu 0:C1:0 X", "rates 50 0", "hang 3600")
            wait_for(lambda: daemon.part("collector:gpu")["state"] == "failed")
            assert "is unresponsive" in reason(daemon)
            wait_for(lambda: daemon.part("collector:live")["ready"])
            before = daemon.get("/v1/host")["measurement"]["windows"]
            wait_for(lambda: daemon.get("/v1/host")["measurement"]["windows"] > before + 5)
            assert not vm_of(daemon, vm)["newest"]["gpu_known"]
            assert "thread did not end" in daemon.stop()
