# SPDX-License-Identifier: Apache-2.0
"""What plans propose for programs at proxies, with real proxies on PoCL and two vgpuds: another GPU where that is free,
another weight where a light VM waits, and nothing, with the reason, where figures are not known."""
import contextlib
import json
import os
import shutil
import signal

import pytest
from opencl import Holder, need_pocl
from proxysite import ELSEWHERE, UUID, VM, Site, domain_uri, ended
from vgpud import BusyVm, wait_for

pytestmark = pytest.mark.skipif(not shutil.which("certtool"), reason="certtool (package gnutls-bin) is not installed")

OTHER = "other"
HOLD = "[policy]\nhold=2s\n"
STEPS = 200000


def plan_of(host):
    """A dry run; nothing before the first window."""
    status, _, plan = host.daemon.post("/v1/plans", {"dry_run": True})
    return plan if status in (200, 201) else {}


def proposed(site, **what):
    """The newest plan that has such a change for the VM."""
    def look():
        plan = plan_of(site.near)
        return [(plan, a) for a in plan.get("proxies", []) if all(a[k] == v for k, v in what.items())]
    return wait_for(look, pause=0.5)[0]


@pytest.fixture(scope="module", name="site")
def _site(tmp_path_factory):
    need_pocl()
    if os.geteuid() != 0:
        pytest.skip("only root makes namespaces of processes")
    folder = tmp_path_factory.mktemp("plan")
    with BusyVm(UUID, VM), BusyVm(name=OTHER), Site(folder, more=HOLD, near_vms=(VM, OTHER), far_prefix=ELSEWHERE,
                                                   uri=domain_uri(folder)) as site:
        yield site


@pytest.mark.drawn("proxy-plan")
def test_another_gpu(site):
    """The free one of this host, or that of the other one, of which both are told; applying it asks the guest, whose
    driver has none, and says so."""
    names = {gpu: gpu.name() for gpu in (site.basic, site.pthread, site.there)}
    with ended(site.basic.backlogged(STEPS), site.basic.backlogged(STEPS, OTHER)):
        # Not while the memory there is kept, as the other host tells its peers, too.
        with holding(site.basic, 8), kept(site.pthread) as mib, kept(site.there) as far_mib:
            full = f"'{VM}' cannot move to GPU '{names[site.pthread]}' of host 'near': the GPU has too little free memory: of "
            wait_for(lambda: any(full in why and f" arriving programs have reserved {mib}, while these programs need 8" in why
                                 for why in plan_of(site.near).get("why", [])), pause=0.5)
            wait_for(lambda: told_peers(site.far) == [far_mib << 20, 0])
        plan, action = proposed(site, kind="proxy-move", vm=VM)
        assert plan["verdict"] == "changes"
        assert (action["host"], action["from"], action["from_gpu"]) == (
            "near", f"proxy:{site.basic.address[VM]}", names[site.basic])
        assert action["to"] in (f"proxy:{g.address[VM]}" for g in (site.pthread, site.there)) and action["price"] == "live"
        assert 0.05 <= action["gain"]["gpu_wait_ns_per_s"] / 1e9 <= 1 and "waits" in action["reason"]["text"]
        inputs = {i["name"]: i["value"] for i in action["reason"]["inputs"]}
        assert inputs["standstill_measured"] == 0 and inputs["vm_lacked_share"] >= 0.05
        shown = site.near.ctl("plan", "show", plan["id"])
        assert f"Move {VM}'s programs to GPU" in shown and "GPU engines of waiting avoided" in shown, shown
        checked = json.loads(site.near.ctl("plan", "apply", plan["id"], "--dry-run", "-o", "json"))
        assert checked["actions"][0]["result"] == "possible" and checked["actions"][0]["to"] == action["to"]
        said = site.near.ctl("plan", "apply", plan["id"], "--yes", code=3)
        assert f"proxy-move of {VM}: " in said and "has no channel" in said, said
    # Its programs are gone, and with them what the plan was made for.
    wait_for(lambda: site.basic.told()["clients"] == 0)
    wait_for(lambda: "no program in" in subprocess_said(site, plan))


@contextlib.contextmanager
def holding(gpu, mib):
    """One more program of the VM's, which has so much memory there."""
    with Holder(gpu.proxy.environment(VGPU_OPENCL=f"proxy:{gpu.address[VM]}", VGPU_OPENCL_TOKEN=str(gpu.token))) as holder:
        holder.hold(mib)
        yield


def told_peers(host):
    """What its proxy is told to keep by each socket."""
    [known] = host.daemon.get("/v1/snapshot")["hosts"]
    return [s["reserved_bytes"] for p in known.get("proxies", []) for s in p["sockets"]]


@contextlib.contextmanager
def kept(gpu):
    """Has the proxy keep all that is left of its GPU's memory, but less than 2 MiB."""
    told = wait_for(lambda: [t for t in [gpu.ask()] if t["devices"]])[0]
    left = told["devices"][0]["memory_bytes"] - sum(s["used_bytes"] + s["reserved_bytes"] for s in told["sockets"])
    assert gpu.ask(f"reserve operator 600 {(left >> 20) - 1} {gpu.address[VM]}") == "ok"
    yield (left >> 20) - 1
    assert gpu.ask("release operator") == "ok"


def subprocess_said(site, plan):
    answer = site.near.daemon.post(f"/v1/vms/{UUID}/proxy/move",
                                   {"to": plan["proxies"][0]["to"], "plan_id": plan["id"], "dry_run": True})
    return answer[2].get("detail", "")


@pytest.mark.drawn("proxy-plan")
def test_what_is_not_known(site):
    """A proxy that does not answer has nothing proposed for whoever is there, nor for who could go there."""
    with ended(site.basic.backlogged(STEPS), site.basic.backlogged(STEPS, OTHER)):
        proposed(site, kind="proxy-move", vm=VM)
        site.basic.proxy.process.send_signal(signal.SIGSTOP)
        try:
            plan = wait_for(lambda: [p for p in [plan_of(site.near)] if p and not p.get("proxies") and
                                     any("no proposal for VM" in why for why in p["why"])], pause=0.5)[0]
            # The VMs themselves may want another host, and there is none.
            assert plan["verdict"] != "changes"
        finally:
            site.basic.proxy.process.send_signal(signal.SIGCONT)


# What it wins is measured.
@pytest.mark.host
def test_a_weight(tmp_path):
    """A light VM beside a heavy one that has 20 times its weight, and no socket elsewhere; applying it has the VM wait
    less, and is kept."""
    need_pocl()
    more = HOLD + "[gpu-mode]\nmax_worsening=0.6\nmax_model_error=0.6\n"
    with BusyVm(UUID, VM), BusyVm(name=OTHER), Site(tmp_path, more=more, near_vms=(VM, OTHER), far_vms=(OTHER,),
                                                   other_vms=(OTHER,), far_prefix=ELSEWHERE, uri=domain_uri(tmp_path),
                                                   **{OTHER: ",weight=20"}) as site:
        with ended(site.basic.backlogged(STEPS, think=0.02), site.basic.backlogged(STEPS, OTHER)):
            plan, action = proposed(site, kind="proxy-weight", vm=VM)
            assert (action["weight_before"], action["price"], action.get("to")) == (1, "live", None)
            assert 1 < action["weight"] <= 40 and action["gain"]["gpu_wait_ns_per_s"] >= 0.05e9
            done = json.loads(site.near.ctl("plan", "apply", plan["id"], "--yes", "-o", "json"))
            [change] = [one for one in done["actions"] if "waited_after" in one]
            print(action, change)
            assert change["result"] == "done" and change["waited_after"] <= change["waited_before"] + 0.05
            assert site.basic.told()["weight"] == action["weight"] and site.basic.told()["configured_weight"] == 1
