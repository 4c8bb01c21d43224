# SPDX-License-Identifier: Apache-2.0
"""Two emulated hosts (README), each with its vgpud; guests there, and what is true of them."""
import base64
import json
import os
import re
import socket
import subprocess
import threading
import time
import uuid
from http.client import HTTPConnection

import pytest
from certs import Authority
import unixhttp
from unixhttp import build_dir

HERE = os.path.dirname(os.path.abspath(__file__))
HOST, IMAGE = os.path.join(HERE, "host.sh"), os.path.join(HERE, "image.sh")
HOSTS = ("h1", "h2")
PORT = 8447
CONFIG_DIR, STATE_DIR, LOG = "/run/vgpud-config", "/run/vgpud-state", "/var/log/vgpud.log"
RUN_VGPUD = f"env LD_LIBRARY_PATH=/opt/vgpud/lib /opt/vgpud/vgpud -c {CONFIG_DIR}/vgpud.conf --socket /run/vgpud.sock --state-dir {STATE_DIR}"
# As host-init starts it.
LIBVIRTD = "libvirtd --daemon --listen --config /etc/libvirt/libvirtd.conf --pid-file /run/libvirtd.pid"
# What hangs: in here all takes five times as long on a busy machine, and twenty times on a very busy one.
HANG_S = 900
# A host whose emulator computes less than its tick costs, for so long, stands still (README).
STILL_S, STILL_CPU_S = 30, 0.5
# A guest that has ended while it booted, or hangs, has met a fault of the emulator (README).
GUEST_S, GUEST_STARTS = 400, 3
EVENTS = "/var/log/libvirt/events"
BROKEN = "BUG:|Oops|panic|Unhandled|triple"
ALIAS = "ua-gpu0"
# As host-command ends an answer.
END = b"\n\004"
# In a guest, behind its first root port.
GUEST_ADDRESS = "<address type='pci' domain='0x0000' bus='0x01' slot='0x00' function='0x0'/>"


def need_image():
    """Builds what the hosts boot, unless it is there; skips the test where this machine cannot."""
    done = subprocess.run([IMAGE, "build"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode == 77:
        pytest.skip(done.stdout.splitlines()[-1])
    assert done.returncode == 0, done.stdout[-3000:]


def wait_for(what, pause=0.2):
    return unixhttp.wait_for(what, HANG_S, pause)


def free_ports(n, kind):
    """Of 127.0.0.1; held until all are found."""
    held = [socket.socket(socket.AF_INET, kind) for _ in range(n)]
    for one in held:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


class Host:
    """The emulator, and vgpud in it."""

    def __init__(self, name, directory, link, peer, iommu="on"):
        self.name, self.number, self.directory = name, int(name[1:]), str(directory)
        self.address = f"10.77.0.{self.number}"
        self.commands, self.api = free_ports(2, socket.SOCK_STREAM)
        self.console = os.path.join(self.directory, f"console-{self.number}")
        if os.path.exists(self.console):
            os.rename(self.console, f"{self.console}.{time.monotonic_ns()}")
        with open(os.path.join(self.directory, f"emulator-{self.number}"), "wb") as log:
            # bash becomes the emulator.
            self.process = subprocess.Popen(
                [HOST, "boot", str(self.number), self.directory, str(self.commands), str(self.api),
                 str(link), str(peer), iommu], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.woken = []  # what its CPUs stood at each time
        self.closing = threading.Event()
        self.watching = threading.Thread(target=self.watch, daemon=True)
        self.watching.start()

    def cpu_s(self):
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def watch(self):
        """Wakes the host by an NMI whenever it stands still."""
        before = self.cpu_s()
        while not self.closing.wait(STILL_S):
            now = self.cpu_s()
            if now - before < STILL_CPU_S and self.process.poll() is None:
                self.woken.append(self.cpus())
                print(f"{self.name} stood still and is woken: {self.woken[-1]}")
                self.monitor("nmi")
            before = now

    def is_up(self):
        assert self.process.poll() is None, f"the emulator of {self.name} has ended, see {self.directory}"
        if not os.path.exists(self.console):
            return False
        with open(self.console, "rb") as file:
            if b"HOST-UP" not in file.read():
                return False
        # It says so before what takes commands listens, and the emulator then resets the connection.
        try:
            return self.ask("true").endswith(END)
        except ConnectionError:
            return False

    def ask(self, script):
        with socket.create_connection(("127.0.0.1", self.commands), HANG_S) as sock:
            sock.sendall(script.encode() + b"\n")
            sock.shutdown(socket.SHUT_WR)
            answer = b""
            try:
                while not answer.endswith(END) and (more := sock.recv(65536)):
                    answer += more
            except TimeoutError:
                self.tell_of_hang(script)
        return answer

    def run(self, script, check=True):
        """What the script prints there."""
        answer = self.ask(script)
        text, found, code = answer.removesuffix(END).decode(errors="replace").rpartition("rc=")
        assert found, (self.name, script, text)
        assert not check or int(code) == 0, (self.name, script, text)
        return text

    def put(self, path, text):
        code = base64.b64encode(text.encode()).decode()
        self.run(f"mkdir -p {os.path.dirname(path)}; base64 -d > {path} << END\n{code}\nEND")

    def virsh(self, words, check=True):
        return self.run(f"virsh -q {words}", check)

    def monitor(self, *commands):
        """What the emulator answers to commands of its monitor."""
        told = b""
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(5)
            sock.connect(os.path.join(self.directory, f"monitor-{self.number}"))
            sock.sendall("".join(command + "\n" for command in commands).encode())
            try:
                while more := sock.recv(65536):
                    told += more
            except TimeoutError:
                pass
        return told.decode(errors="replace")

    def cpus(self):
        """What its CPUs stand at, and which interrupts wait for them."""
        told = self.monitor("info status", "info registers -a", "info lapic 0", "info lapic 1")
        return "; ".join(re.findall(r"VM status:[^\r\n]*|CPU#\d+|[ER]IP=[^\r\n]*|(?:ISR|IRR)\b[^\r\n]*", told))

    def tell_of_hang(self, what):
        raise AssertionError(f"{self.name} has not answered '{what}' for {HANG_S} s: {self.cpus()}")

    def why_ended(self):
        """The first word of its kernel about that, after which its emulator has ended."""
        with open(self.console, encoding="utf-8", errors="replace") as file:
            found = re.search("^.*(?:BUG:|Oops|panic).*$", file.read(), re.MULTILINE)
        return f"{self.name} has ended: {found[0].strip() if found else 'it gave no reason'}"

    def close(self):
        self.closing.set()
        self.watching.join()
        self.process.kill()
        self.process.wait()

    # ---- vgpud ----

    def start_vgpud(self):
        self.run(f"rm -f /run/vgpud.sock; setsid {RUN_VGPUD} >> {LOG} 2>&1 < /dev/null & echo $! > /run/vgpud.pid")
        wait_for(self.answers)

    def stop_vgpud(self, signal="TERM"):
        self.run(f"p=$(cat /run/vgpud.pid); kill -{signal} $p; while [ -d /proc/$p ]; do sleep 0.1; done")

    def answers(self):
        assert self.process.poll() is None, f"the emulator of {self.name} has ended, see {self.directory}"
        try:
            return self.request("GET", "/healthz")[0] == 200
        except OSError:
            return False

    def request(self, method, path, body=None):
        connection = HTTPConnection("127.0.0.1", self.api, timeout=HANG_S)
        try:
            connection.request(method, path, None if body is None else json.dumps(body),
                               {} if body is None else {"Content-Type": "application/json"})
            response = connection.getresponse()
            text = response.read()
            return response.status, text
        except TimeoutError:
            return self.tell_of_hang(f"{method} {path}")
        finally:
            connection.close()

    def get(self, path, status=200):
        got, text = self.request("GET", path)
        assert got == status, (path, got, text)
        return json.loads(text)

    def post(self, path, document, status=201):
        got, text = self.request("POST", path, document)
        assert got == status, (path, got, text)
        return json.loads(text)

    def doctor(self):
        """What it says of each GPU: address to row."""
        rows = json.loads(self.vgpuctl("doctor -o json", check=False))["checks"]
        return {row["what"].removeprefix("GPU "): row for row in rows if row["what"].startswith("GPU ")}

    def vgpuctl(self, words, check=True):
        return self.run(f"LD_LIBRARY_PATH=/opt/vgpud/lib /opt/vgpud/vgpuctl --socket /run/vgpud.sock {words}", check)

    def restart_libvirtd(self, signal):
        self.run(f"p=$(cat /run/libvirtd.pid); kill -{signal} $p; while [ -d /proc/$p ]; do sleep 0.1; done; "
                 + LIBVIRTD)

    # ---- moves ----

    def knows(self, guest):
        return self.request("GET", f"/v1/vms/{guest}")[0] == 200

    def move(self, guest, to, status=201, **more):
        return self.post("/v1/migrations", {"vm": guest, "to": to, **more}, status)

    def ended(self, move):
        def done():
            now = self.get("/v1/migrations/" + move["id"])
            return now if now["ended_ns"] else None
        return wait_for(done)

    def parts(self, address):
        """What is told of the parts of one GPU: kind to part, and type to room for mediated devices."""
        return {p["type"] if p["kind"] == "room" else p["kind"]: p for p in self.get(f"/v1/gpus/{address}")["parts"]}

    def plug_cable(self, way):
        """way: up or down; the network to the other host."""
        self.run(f"ip link set $(basename $(dirname $(grep -l 52:54:00:77 /sys/class/net/*/address))) {way}")

    def driver(self, address):
        return self.run(f"basename $(readlink /sys/bus/pci/devices/{address}/driver || echo none)").strip()

    def bind(self, address, driver):
        self.run(f"cd /sys/bus/pci/devices/{address}; echo {driver} > driver_override; "
                 f"[ ! -e driver ] || echo {address} > driver/unbind; echo {address} > /sys/bus/pci/drivers_probe")

    def mdevs(self):
        return self.run("ls /sys/bus/mdev/devices").split()

    def make_mdev(self, parent, kind):
        """By libvirt; its UUID."""
        number = str(uuid.uuid4())
        name = "pci_" + re.sub("[:.]", "_", parent)
        self.put("/tmp/mdev.xml", f"<device><parent>{name}</parent><capability type='mdev'><type id='{kind}'/>"
                                  f"<uuid>{number}</uuid></capability></device>")
        self.virsh("nodedev-create /tmp/mdev.xml")
        return number

    def remove_mdevs(self):
        self.run("for device in /sys/bus/mdev/devices/*/remove; do [ ! -e $device ] || echo 1 > $device; done")


class VfioLab:
    def __init__(self, directory):
        self.directory = directory
        self.retried = []  # of guests and hosts that broke, one sentence each
        subprocess.run([HOST, "pack", str(directory), build_dir()], check=True)
        self.hosts, self.woken = {}, []

    def boot(self):
        """Both hosts, or none of them."""
        for last in (False, True):
            cable = free_ports(2, socket.SOCK_DGRAM)
            try:
                for name, ports in zip(HOSTS, (cable, cable[::-1])):
                    self.hosts[name] = Host(name, self.directory, *ports)
                return self.wait_for_hosts()
            except BaseException:
                why = self.why_broken(None)
                self.close()
                if last or not why:
                    raise
                self.retry("a start", why)

    def wait_for_hosts(self):
        for host in self.hosts.values():
            wait_for(host.is_up, pause=0.5)
        for host in self.hosts.values():
            # The first call waits until libvirtd has looked at what QEMU can do.
            wait_for(lambda host=host: "kvm" in host.virsh("domcapabilities --virttype kvm", check=False), pause=1)

    def bare_host(self, iommu):
        """One more, without vgpud and guests; whoever asks closes it."""
        host = Host("h3", self.directory, *free_ports(2, socket.SOCK_DGRAM), iommu)
        try:
            wait_for(host.is_up, pause=0.5)
        except BaseException:
            host.close()
            raise
        return host

    def close(self):
        for host in self.hosts.values():
            host.close()
            self.woken += [f"{host.name}: {where}" for where in host.woken]
        self.hosts = {}

    def start_vgpuds(self):
        authority = Authority(self.directory / "ca")
        for host in self.hosts.values():
            pem, key = authority.issue(host.name, f'ip_address = "{host.address}"')
            for name, path in (("ca.pem", authority.certificate), ("host.pem", pem), ("host.key", key)):
                with open(path, encoding="ascii") as file:
                    host.put(f"{CONFIG_DIR}/{name}", file.read())
            self.write_config(host)
            host.start_vgpud()
        tokens = {name: host.post("/v1/tokens", {"name": "peer", "role": "operator"})["token"]
                  for name, host in self.hosts.items()}
        for name, host in self.hosts.items():
            [other] = [o for o in HOSTS if o != name]
            host.put(f"{CONFIG_DIR}/{other}.token", tokens[other] + "\n")
            host.stop_vgpud()
            self.write_config(host, other)
        for host in self.hosts.values():
            host.start_vgpud()
        self.meet()

    def write_config(self, host, other=None):
        text = (f"[api]\nlisten={host.address}:{PORT}\ntls_certificate={CONFIG_DIR}/host.pem\n"
                f"tls_key={CONFIG_DIR}/host.key\nwrites_per_min=100000\nclient_requests=1000000\n"
                "[libvirt]\nuse=yes\npoll=1s\n[live]\nbpf=no\nperf=no\n[gpu]\nenable=no\ncards=1234:11e8,1b36:0010\n"
                "[actions]\nenabled=yes\nguest_deadline=120s\nunplug_deadline=30s\n[peers]\nrefresh=1s\ndeadline=10s\n")
        if other:
            text += (f"[peer {other}]\nurl=https://{self.hosts[other].address}:{PORT}\n"
                     f"cacert={CONFIG_DIR}/ca.pem\ntoken_file={CONFIG_DIR}/{other}.token\n"
                     f"libvirt_uri=qemu+tcp://{other}/system\n")
        host.put(f"{CONFIG_DIR}/vgpud.conf", text)

    def meet(self):
        def known():
            return all(p["state"] == "reachable" for host in self.hosts.values()
                       for p in host.get("/v1/peers")["items"])
        wait_for(known, pause=0.5)

    # ---- guests ----

    def define_guest(self, host, guest, device, words="", override=""):
        """device: the XML of what it has from its host; words: more for its kernel; override: more for QEMU."""
        with open(os.path.join(HERE, "guest.xml.in"), encoding="utf-8") as file:
            xml = file.read()
        for what, by in (("@NAME@", guest), ("@UUID@", str(uuid.uuid5(uuid.NAMESPACE_DNS, guest))),
                         ("@DEVICE@", device), ("@WORDS@", words), ("@OVERRIDE@", override)):
            xml = xml.replace(what, by)
        there = self.hosts[host]
        there.put(f"/tmp/{guest}.xml", xml)
        there.virsh(f"define /tmp/{guest}.xml")

    def start_guest(self, host, guest, *args, **more):
        """As define_guest()."""
        self.define_guest(host, guest, *args, **more)
        self.start_defined(host, guest)

    def start_defined(self, host, guest):
        there = self.hosts[host]
        for _ in range(GUEST_STARTS):
            there.run(f"rm -f {console_path(guest)}; : > {EVENTS}")
            there.virsh(f"start {guest}")
            if there.run(f"for i in $(seq {GUEST_S}); do grep -aq GUEST-READY {console_path(guest)} && exec echo up; "
                         f"[ $(virsh domstate {guest}) = running ] || break; sleep 1; done").strip() == "up":
                return
            self.retry(guest, self.why_broken(guest) or "not up: " + there.virsh(f"domstate --reason {guest}").strip())
            print(there.run(f"tail -n 20 {console_path(guest)}", check=False))
            there.virsh(f"destroy {guest}", check=False)
        raise AssertionError(f"{guest} has not come up in {GUEST_STARTS} starts")

    def retry(self, guest, why):
        self.retried.append(f"{guest}: {why}")
        print(f"once more with {self.retried[-1]}")

    def why_broken(self, guest):
        """What the kernel of a host has broken by, or that of a guest: it says so, or has reset the VM, which no
        program in there does. Nothing where all go on, or somebody else has ended the guest."""
        ended = [host.why_ended() for host in self.hosts.values() if host.process.poll() is not None]
        if ended or not guest:
            return "; ".join(ended)
        told = [host.run(f"grep -aEm 1 '{BROKEN}' {console_path(guest)}; grep -am 1 \"'reboot' for domain .*{guest}'\" "
                         f"{EVENTS}", check=False).split("\n") for host in self.hosts.values()]
        return "; ".join(line for lines in told for line in lines if line and "No such file" not in line)

    def has_ended(self):
        return any(host.process.poll() is not None for host in self.hosts.values())

    def remove_guest(self, guest):
        for host in self.hosts.values():
            host.run(f"virsh -q destroy {guest}; virsh -q undefine {guest}; rm -f {console_path(guest)}; "
                     f": > {EVENTS}", check=False)
            host.remove_mdevs()

    def running_on(self, guest):
        return [name for name, host in self.hosts.items()
                if guest in host.virsh("list --state-running --name").split()]

    def defined_on(self, guest):
        return [name for name, host in self.hosts.items()
                if guest in host.virsh("list --all --persistent --name").split()]

    def console(self, host, guest):
        return self.hosts[host].run(f"cat {console_path(guest)}")


def console_path(guest):
    return f"/var/log/libvirt/qemu/{guest}.console"


def hostdev(address, managed="yes"):
    """The XML of a PCI function of the host."""
    domain, bus, slot, function = re.split("[:.]", address)
    return (f"<hostdev mode='subsystem' type='pci' managed='{managed}'><source><address domain='0x{domain}' "
            f"bus='0x{bus}' slot='0x{slot}' function='0x{function}'/></source><alias name='{ALIAS}'/>"
            f"{GUEST_ADDRESS}</hostdev>")


def override(**properties):
    """The XML that sets properties of QEMU's device."""
    texts = "".join(f"<qemu:property name='{name.replace('_', '-')}' type='string' value='{value}'/>"
                    for name, value in properties.items())
    return (f"<qemu:override><qemu:device alias='{ALIAS}'><qemu:frontend>{texts}</qemu:frontend></qemu:device>"
            "</qemu:override>")


def mdev(number):
    """The XML of a mediated device."""
    return (f"<hostdev mode='subsystem' type='mdev' model='vfio-pci'><source><address uuid='{number}'/></source>"
            f"<alias name='{ALIAS}'/>{GUEST_ADDRESS}</hostdev>")
