# SPDX-License-Identifier: Apache-2.0
"""vgpu-proxy as a service of systemd, in an emulated host (README): as `make install-proxy` puts it there, with PoCL;
and a guest that uses it by vsock. Not named test_*: runs only when it is asked for (tools/check --vfio)."""
import functools
import re

import pytest
from vfiolab import need_image, wait_for
from vulkanlab import SystemLab

pytestmark = [pytest.mark.host, pytest.mark.xdist_group("vfio")]

FOLDER = "/etc/vgpud/proxy.d"
SOCKET = "/run/vgpu-proxy/here.sock"
OPENCL = "/opt/vgpud/opencl"
WORK = f"{OPENCL}/waves 32 10 0"
TOKEN = "of-the-guest-alone-0123456789"
CID, OTHER_CID = 42, 43
DRAIN_S = 900
# What `systemd-analyze security` says, 0 to 10, of which 10 is not confined at all.
EXPOSED_MOST = 2.5
HOST_MEMORY_MIB = 8192  # of each client, which is the usual number


class ProxyLab(SystemLab):
    def boot(self):
        super().boot()
        # A node of a GPU, which the proxy may open.
        self.host.run("modprobe vgem; modprobe vhost_vsock; /host-systemd start")
        # As the package does once it is unpacked.
        self.inside("sh -c 'systemd-sysusers vgpu-proxy.conf && systemd-tmpfiles --create vgpu-proxy.conf'")
        # Clients that are at work have more than half a minute, as all takes long in here.
        self.host.put("/etc/default/vgpu-proxy", f"OPTIONS=--drain={DRAIN_S}\n")
        self.host.put("/etc/systemd/system/vgpu-proxy.service.d/lab.conf", f"[Service]\nTimeoutStopSec={DRAIN_S + 60}\n")
        self.inside("systemctl daemon-reload")

    def inside(self, words, check=True):
        """Where systemd is."""
        return self.host.run(f"/host-systemd run {words}", check)

    def put_socket(self, name, line):
        self.host.put(f"{FOLDER}/{name}.conf", line + "\n")

    def state(self):
        shown = self.inside("systemctl show -p ActiveState -p SubState -p Result vgpu-proxy")
        return dict(line.split("=", 1) for line in shown.split())

    def journal(self):
        return self.inside("journalctl -b -u vgpu-proxy -o cat --no-pager")

    @functools.cached_property
    def alone(self):
        """The sum of PoCL itself."""
        return total(self.host.run(f"POCL_CACHE_DIR=/tmp/pocl {WORK}"))

    def client(self, work=WORK):
        """A shell command of a program that uses the proxy's socket, which is where systemd is."""
        return (f"/host-systemd run env OCL_ICD_VENDORS={OPENCL}/libvgpu-opencl.so VGPU_OPENCL=proxy:{SOCKET} "
                f"HOME=/tmp {work}")


def total(text):
    """The sum of all bits of what a program has computed."""
    return re.findall(r"sum (\w{16})", text)[-1]


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    need_image()
    made = ProxyLab(tmp_path_factory.mktemp("proxy"))
    try:
        made.boot()
        made.put_socket("here", f"{SOCKET},vm=here")
        made.inside("systemctl start vgpu-proxy")
        yield made
    finally:
        made.close()
        for why in made.retried:
            print("once more with", why)


def test_it_serves(lab):
    """What a program computes by it is what PoCL computes."""
    assert lab.state() == {"ActiveState": "active", "SubState": "running", "Result": "success"}, lab.journal()
    assert total(lab.host.run(lab.client())) == lab.alone


# What a process of the service, and so a client's, can do of these.
TRIES = {
    "the null device": ("head -c 0 /dev/null", True),
    "a GPU's node": ("true < /dev/dri/renderD128", True),
    "a disk": ("head -c 1 /dev/vda", False),
    "the kernel log": ("head -c 1 /dev/kmsg", False),
}


def test_it_is_confined(lab):
    """Its processes have no capability, another user, a system that they only read, and of devices only those of
    GPUs."""
    pid = lab.inside("systemctl show -p MainPID --value vgpu-proxy").strip()
    status = dict(re.findall(r"^(\w+):\t(.*)$", lab.inside(f"cat /proc/{pid}/status"), re.M))
    assert (status["CapEff"], status["CapBnd"], status["NoNewPrivs"], status["Seccomp"]) == (
        "0" * 16, "0" * 16, "1", "2"), status
    uid = lab.inside("id -u vgpu-proxy").strip()
    assert int(uid) > 0 and set(status["Uid"].split()) == {uid}, status["Uid"]
    root = [line.split() for line in lab.inside(f"cat /proc/{pid}/mounts").splitlines() if line.split()[1] == "/"]
    assert root and "ro" in root[-1][3].split(","), root
    # A root who is in its control group has what the devices' rule leaves, and nothing else keeps him.
    group = lab.inside("systemctl show -p ControlGroup --value vgpu-proxy").strip()
    for what, (command, may) in TRIES.items():
        said = lab.inside(f"sh -c 'echo $$ > /sys/fs/cgroup{group}/cgroup.procs; {command} > /tmp/tried 2>&1 && echo may || "
                          "{ cat /tmp/tried; echo may not; }'")
        assert said.strip().splitlines()[-1] == ("may" if may else "may not"), (what, said)
        assert may or "Operation not permitted" in said, (what, said)
    found = re.search(r"Overall exposure level for vgpu-proxy.service: ([\d.]+)",
                      lab.inside("systemd-analyze security --no-pager vgpu-proxy.service"))
    print(f"systemd-analyze security: {found[1]}")
    assert float(found[1]) <= EXPOSED_MOST


def test_a_guest_by_vsock(lab):
    """It has a card of vsock and no network; a proxy's socket for another VM's number refuses it, and a wrong token
    does."""
    lab.host.put(f"{FOLDER}/guest.token", TOKEN + "\n")
    lab.host.put(f"{FOLDER}/other.token", "other-" + TOKEN + "\n")
    lab.host.run(f"cd {FOLDER} && chown root:$(/host-systemd run id -g vgpu-proxy) *.token && chmod 640 *.token")
    lab.put_socket("guest", "\n".join((f"vsock:7000,vm=vm-vsock,token={FOLDER}/guest.token,cid={CID}",
                                       f"vsock:7001,vm=other,token={FOLDER}/guest.token,cid={OTHER_CID}",
                                       f"vsock:7002,vm=another,token={FOLDER}/other.token")))
    lab.inside("systemctl reload vgpu-proxy")
    proxies = ",".join(f"vsock:2:{port}" for port in (7000, 7001, 7002, 7003))
    lab.define("vm-vsock", "opencl", words=f"proxies={proxies} token={TOKEN}",
               devices=f"<vsock model='virtio'><cid auto='no' address='{CID}'/></vsock>")
    lab.start("vm-vsock", "GUEST-DONE")
    told = lab.told("vm-vsock").replace("\r", "")
    lab.host.virsh("destroy vm-vsock")
    said = {at.split("\n", 1)[0]: at for at in told.split("AT vsock:2:")[1:]}
    print(told)
    assert total(said["7000"]) == lab.alone and "ENDED 0" in said["7000"]
    for port in ("7001", "7002", "7003"):
        assert "sum" not in said[port] and "ENDED 1" in said[port], said[port]
    assert "it serves another VM" in said["7001"] and "it expects another token" in said["7002"], said
    journal = lab.journal()
    assert f"a client of a VM other than {OTHER_CID}" in journal and "a program with a wrong token, from" in journal, journal


def service_group(lab):
    """Control groups and numbers of processes are those inside: systemd there has namespaces of its own."""
    return "/sys/fs/cgroup" + lab.inside("systemctl show -p ControlGroup --value vgpu-proxy").strip()


def client_groups(lab):
    return lab.inside(f"sh -c 'ls -d {service_group(lab)}/client-* 2> /dev/null || true'").split()


def begin_work(lab, name):
    """A program that stays a client until its file is removed."""
    # A question takes from PoCL, which compiles, a second of the host's only CPU.
    lab.host.run(f"rm -f /tmp/{name}.*; touch /tmp/{name}; ({lab.client(f'{OPENCL}/waves 32 10 0 /tmp/{name}')} > /tmp/{name}.out 2>&1; "
                 f"echo $? > /tmp/{name}.status) < /dev/null > /dev/null 2>&1 &")
    wait_for(lambda: "ready" in lab.host.run(f"cat /tmp/{name}.out"), pause=5)


def end_work(lab, name):
    lab.host.run(f"rm /tmp/{name}; until [ -s /tmp/{name}.status ]; do sleep 0.2; done")
    return total(lab.host.run(f"cat /tmp/{name}.out"))


def test_groups(lab):
    """Each client has a control group of its own with its limits, which the proxy's user has made; the proxy is in another
    one; and a group goes with its client, whatever was in it."""
    group = service_group(lab)
    pid = lab.inside("systemctl show -p MainPID --value vgpu-proxy").strip()
    assert lab.inside(f"cat /proc/{pid}/cgroup").strip().endswith("/vgpu-proxy.service/main")
    begin_work(lab, "grouped")
    groups = client_groups(lab)
    assert len(groups) == 1, groups
    limits = {name: lab.inside(f"cat {groups[0]}/{name}").strip() for name in (
        "memory.max", "memory.oom.group", "pids.max")}
    assert limits == {"memory.max": str(HOST_MEMORY_MIB << 20), "memory.oom.group": "1", "pids.max": "4096"}
    # Only the client's process is there, and the proxy has no other one below its own group but its own.
    client = lab.inside(f"cat {groups[0]}/cgroup.procs").split()
    assert client and pid not in client
    assert pid in lab.inside(f"cat {group}/main/cgroup.procs").split()
    assert not lab.inside(f"cat {group}/cgroup.procs").split()
    # Another process of the same group ends with the client.
    lab.inside(f"sh -c 'echo $$ > {groups[0]}/cgroup.procs; exec sleep 100000' < /dev/null > /dev/null 2>&1 &")
    assert end_work(lab, "grouped") == lab.alone
    wait_for(lambda: not client_groups(lab))
    # A restart begins with a group that is empty.
    lab.inside("systemctl restart vgpu-proxy")
    assert total(lab.host.run(lab.client())) == lab.alone
    wait_for(lambda: not client_groups(lab))


def test_memory_of_the_host(lab):
    """A client that takes more than its group may have is ended, and the journal says so; the service goes on."""
    lab.host.put("/etc/default/vgpu-proxy", f"OPTIONS='--drain={DRAIN_S} --host-memory=24'\n")
    lab.inside("systemctl restart vgpu-proxy")
    try:
        assert "sum" not in lab.host.run(lab.client(), check=False)
        wait_for(lambda: "it exceeded its limit of 24 MiB of host memory" in lab.journal())
        assert lab.state() == {"ActiveState": "active", "SubState": "running", "Result": "success"}, lab.journal()
        wait_for(lambda: not client_groups(lab))
    finally:
        lab.host.put("/etc/default/vgpu-proxy", f"OPTIONS=--drain={DRAIN_S}\n")
        lab.inside("systemctl restart vgpu-proxy")
    assert total(lab.host.run(lab.client())) == lab.alone


def test_stop_drains(lab):
    """A program that is at work comes to its end, no other one is taken, and the service has ended well."""
    begin_work(lab, "go")
    lab.inside("systemctl stop --no-block vgpu-proxy")
    wait_for(lambda: lab.state()["ActiveState"] == "deactivating")
    late = lab.host.run(lab.client("timeout 60 " + WORK), check=False)
    assert "sum" not in late, late
    assert end_work(lab, "go") == lab.alone and lab.host.run("cat /tmp/go.status").strip() == "0"
    wait_for(lambda: lab.state() == {"ActiveState": "inactive", "SubState": "dead", "Result": "success"})
