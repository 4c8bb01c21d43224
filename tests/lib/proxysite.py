# SPDX-License-Identifier: Apache-2.0
"""Two vgpuds that know each other, with real proxies on PoCL. The VM of the first one is that of libvirt's test driver
and has no guest; a process that looks like it is measured."""
import contextlib
import json
import os
import subprocess

from certs import Authority
from opencl import Proxy, ask_proxy
from ports import free_port
from settings import HANG_S
from vgpud import Daemon, wait_for
import vgpuctl

VM, UUID = "test", "6695eb01-f6a4-8304-79aa-97f2502e193f"
# 127.0.0.1 as vgpud does not know it, which takes no address for guests that is the host's alone.
LOOPBACK = "0x7f000001"
# Before a host's vgpud: without the processes that look like VMs, which are another host's.
ELSEWHERE = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")


class Gpu:
    """A proxy for one device of PoCL, which has two that differ by name: basic and pthread."""

    def __init__(self, stack, folder, device, vms=(VM,), **more):
        os.makedirs(folder)
        self.folder, self.device = folder, device
        self.token = folder / "token"
        self.token.write_text("a-token-of-this-vm\n")
        self.token.chmod(0o640)
        self.address = {vm: f"tcp:{LOOPBACK}:{free_port()}" for vm in vms}
        sockets = [f"{at},vm={vm},token={self.token}{more.get(vm, '')}" for vm, at in self.address.items()]
        before = os.environ.get("POCL_DEVICES")
        os.environ["POCL_DEVICES"] = device
        try:
            # A program that is killed is not to be waited for.
            self.proxy = stack.enter_context(Proxy(folder, f"--ask={folder}/ask", "--linger=0", *more.get("options", ()),
                                                   sockets=(*sockets, "nobody,vm=nobody")))
            # It comes after the others.
            wait_for(lambda: os.path.exists(f"{folder}/ask"))
        finally:
            del os.environ["POCL_DEVICES"]
            if before is not None:
                os.environ["POCL_DEVICES"] = before
        # Until the proxy has looked, it does not know the device's memory, and keeps none of it.
        self.name()

    def ask(self, line="list"):
        return ask_proxy(f"{self.folder}/ask", line)

    def name(self):
        """As OpenCL calls it, once the proxy has looked."""
        [device] = wait_for(lambda: self.ask()["devices"])
        return device["name"]

    def told(self, vm=VM):
        return next(s for s in self.ask()["sockets"] if s["vm"] == vm)

    def backlogged(self, steps, vm=VM, think=0, inherit=(), **more):
        """think: seconds for which it has nothing to do after each launch."""
        environment = self.proxy.environment(VGPU_OPENCL=f"proxy:{self.address[vm]}", VGPU_OPENCL_TOKEN=str(self.token), **more)
        return subprocess.Popen(["/usr/bin/python3", os.path.join(vgpuctl.ROOT, "tests", "opencl", "backlog.py"), str(steps), str(think)],
                                env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=inherit)


@contextlib.contextmanager
def ended(*programs):
    try:
        yield programs
    finally:
        for program in programs:
            program.kill()
            program.wait()
            for pipe in program.stdin, program.stdout, program.stderr:
                pipe.close()


class Host:
    """A vgpud that asks these proxies."""

    def __init__(self, directory, name, authority, gpus, more="", libvirt="use=no", env=None, prefix=()):
        os.makedirs(directory)
        self.name, self.directory, self.authority, self.port = name, directory, authority, free_port()
        pem, key = authority.issue(name, 'ip_address = "127.0.0.1"')
        proxies = ",".join(f"{gpu.folder}/ask" for gpu in gpus)
        self.config = (f"[libvirt]\n{libvirt}\n[daemon]\nwindow=200ms\n[live]\nbpf=no\nperf=no\n[actions]\nenabled=yes\n"
                       f"[api]\nlisten=127.0.0.1:{self.port}\ntls_certificate={pem}\ntls_key={key}\nclient_requests=1000000\n"
                       f"[gpu]\nnvml=no\nfdinfo=no\nvenus=no\ntracepoints=no\nbudget=0\nproxies={proxies}\n{more}")
        self.daemon = Daemon(directory, "--host", name, config=self.config, env=env, prefix=prefix)

    def ctl(self, *args, code=0):
        done = subprocess.run([vgpuctl.program(), *args, "--socket", self.daemon.socket], capture_output=True, text=True,
                              check=False, timeout=HANG_S)
        assert done.returncode == code, (args, done.returncode, done.stdout, done.stderr)
        return " ".join((done.stdout if code in (0, 10) else done.stderr).split())

    def peer(self):
        """The group by which others know this one."""
        token = self.directory / "token"
        if not token.exists():
            token.write_text(self.ctl("token", "create", "peer", "--role", "operator") + "\n")
        return (f"[peer {self.name}]\nurl=https://127.0.0.1:{self.port}\ncacert={self.authority.certificate}\n"
                f"token_file={token}\n[peers]\nrefresh=1s\ndeadline=5s\n")


DOMAIN = """<node><domain type="test"><name>{name}</name><uuid>{uuid}</uuid><memory>65536</memory><vcpu>1</vcpu>
<os><type>hvm</type></os><seclabel type="static" model="dac" relabel="no"><label>+{user}:+0</label></seclabel>
<devices>{devices}</devices></domain></node>"""
CHANNEL = '<channel type="unix"><target type="virtio" name="org.vgpud.guest.0"/></channel>'


def domain_uri(folder, devices=""):
    """libvirt's URI of a host with the VM, whose process is one of this user."""
    (folder / "node.xml").write_text(DOMAIN.format(name=VM, uuid=UUID, user=os.geteuid(), devices=devices))
    return f"test://{folder}/node.xml"


class Site:
    """near has the VM and GPUs basic and pthread, the latter for other_vms or near_vms; far has one more proxy. Both know
    the other's proxies. uri, env: of near's libvirt, and of its vgpud; far_prefix: what is before far's."""

    def __init__(self, directory, more="", far_prefix=(), far_vms=(VM,), near_vms=(VM,), other_vms=(), uri="test:///default", env=None, **options):
        self.stack = contextlib.ExitStack()
        try:
            authority = Authority(directory / "ca")
            self.basic = Gpu(self.stack, directory / "basic", "basic", near_vms, **options)
            self.pthread = Gpu(self.stack, directory / "pthread", "pthread", other_vms or near_vms, **options)
            self.there = Gpu(self.stack, directory / "there", "basic", far_vms, **options)
            self.far = Host(directory / "far", "far", authority, [self.there], more, prefix=far_prefix)
            self.stack.enter_context(self.far.daemon)
            self.near = Host(directory / "near", "near", authority, [self.basic, self.pthread], more + self.far.peer(),
                             f"use=yes\nuri={uri}", env)
            self.stack.enter_context(self.near.daemon)
            wait_for(lambda: [p for p in json.loads(self.near.ctl("peer", "list", "-o", "json")) if p["state"] == "reachable"])
            # Until libvirt has told of its VMs.
            wait_for(lambda: self.near.daemon.post(f"/v1/vms/{UUID}/proxy/move", {"to": "direct", "dry_run": True})[0] == 200)
        except BaseException:
            self.stack.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stack.close()
