# SPDX-License-Identifier: Apache-2.0
"""vgpuctl plan apply of a proxy-move: programs go, and come back where more is waited for than before. vgpud, the agent,
the programs, the proxies and PoCL are real; libvirt's test driver gets a channel from tests/tools/guest-channel.c."""
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess

import pytest
from guestd import Agent, Connected, Guest
from opencl import built, need_pocl
from proxysite import CHANNEL, ELSEWHERE, UUID, VM, Site, domain_uri, ended
from settings import HANG_S
from test_proxy_plan import HOLD, OTHER, STEPS, proposed
from unixhttp import build_dir
from vgpud import BusyVm, pause, wait_for
import vgpuctl

pytestmark = pytest.mark.skipif(not shutil.which("certtool"), reason="certtool (package gnutls-bin) is not installed")

THIRD = "third"


@contextlib.contextmanager
def site_for(folder, where):
    """The VM's programs are at the first GPU of its host beside another VM's; it has a socket at one more GPU, where a
    third VM has one, too."""
    with contextlib.ExitStack() as stack:
        for vm in BusyVm(UUID, VM), BusyVm(name=OTHER), BusyVm(name=THIRD):
            stack.enter_context(vm)
        guest = stack.enter_context(Guest(folder / "guest"))
        os.makedirs(guest.path("run"))
        agent = stack.enter_context(Agent(guest))
        env = {"LD_PRELOAD": os.path.join(build_dir(), "tests", "tools", "guest-channel.so"), "GUEST_CHANNEL": agent.socket}
        both, alone = (VM, THIRD), (THIRD,)
        site = stack.enter_context(Site(folder, more=HOLD, far_prefix=ELSEWHERE, near_vms=(VM, OTHER), uri=domain_uri(folder, CHANNEL),
                                        other_vms=both if where == "here" else alone,
                                        far_vms=both if where == "far" else alone, env=env))
        site.agent = agent
        yield site


def there(program):
    assert program.stdout.readline() == b"there\n"
    return program


@contextlib.contextmanager
def its_programs(site):
    """Two of the VM's, which its guest's agent knows: one whose GPU always has something to do, and one that counts what it
    finds in 16 MiB, which tells in the end how many numbers were wrong."""
    reach, known = Connected(site.agent.guest), site.agent.log().count("OpenCL program connected")
    more = {"VGPU_OPENCL_AGENT": reach.path, "VGPU_OPENCL_NODES": site.agent.guest.path("dev")}
    counts = subprocess.Popen([built("tests/opencl/holder"), "hold", built("libvgpu-opencl.so"), "16"], pass_fds=[reach.dir],
                              env={**os.environ, **more, "VGPU_OPENCL": f"proxy:{site.basic.address[VM]}",
                                   "VGPU_OPENCL_TOKEN": str(site.basic.token)}, stdout=subprocess.PIPE, text=True)
    try:
        with ended(site.basic.backlogged(STEPS, inherit=[reach.dir], **more)) as [program]:
            there(program)
            assert counts.stdout.readline() == "ready\n"
            wait_for(lambda: site.agent.log().count("OpenCL program connected") >= known + 2)
            yield
            assert program.poll() is None
        counts.terminate()
        steps, wrong = re.match(r"steps (\d+) wrong (\d+) ", counts.stdout.readline()).groups()
        assert int(steps) > 0 and wrong == "0" and counts.wait(HANG_S) == 0
    finally:
        counts.kill()
        counts.communicate()
        reach.close()


def applied(site, plan, meanwhile):
    """What `vgpuctl plan apply` says that came of it, its errors, and its code; meanwhile() is done while it runs, until it is true."""
    with subprocess.Popen([vgpuctl.program(), "plan", "apply", plan["id"], "--yes", "-o", "json", "--socket",
                           site.near.daemon.socket], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_for(lambda: meanwhile() or process.poll() is not None)
            out, said = process.communicate(timeout=HANG_S)
        finally:
            process.kill()
    [change] = json.loads(out)["actions"]
    return change, said, process.returncode


# Whoever is measured has to compute all the time.
@pytest.mark.drawn("long")
@pytest.mark.parametrize("where, worse", [("here", True), ("here", False), ("far", True), ("far", False)])
def test_a_move(tmp_path, where, worse):
    """The VM waits for nobody before, and for the third one's program after that; or the other way round."""
    need_pocl()
    if os.geteuid() != 0:
        pytest.skip("only root makes namespaces of processes")
    with site_for(tmp_path, where) as site:
        gpu = site.pthread if where == "here" else site.there
        goes_and_stays(site, gpu, worse)


def goes_and_stays(site, gpu, worse):
    with its_programs(site), ended(site.basic.backlogged(STEPS, OTHER), gpu.backlogged(STEPS, THIRD)) as (other, third):
        pause(there(third).pid)
        plan, action = proposed(site, kind="proxy-move", vm=VM, to=f"proxy:{gpu.address[VM]}")
        assert [a["vm"] for a in plan["proxies"]] == [VM]
        if worse:
            pause(other.pid)

        def meanwhile():
            is_there = gpu.told()["clients"] == 2
            if is_there and worse:
                third.send_signal(signal.SIGCONT)
            return is_there
        change, said, code = applied(site, plan, meanwhile)
        print(change, said)
        assert change["to"] == action["to"] and change["from"] == action["from"]
        if worse:
            assert code != 0 and change["result"] == "undone" and "so the change was undone" in said
            assert change["waited_after"] > change["waited_before"] + 0.05
        else:
            assert code == 0 and change["result"] == "done" and change["waited_after"] < change["waited_before"]
        its = site.basic if worse else gpu
        wait_for(lambda: its.told()["clients"] == 2 and (gpu if worse else site.basic).told()["clients"] == 0)
        assert gpu.told()["reserved_bytes"] == 0
