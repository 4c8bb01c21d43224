# SPDX-License-Identifier: Apache-2.0
"""One emulated host (README) with lavapipe, whose guests have Vulkan by Venus, and its vgpud."""
import re
import socket
import uuid

from vfiolab import CONFIG_DIR, GUEST_S, GUEST_STARTS, HERE, Host, VfioLab, console_path, free_ports, wait_for

HOST = "h3"
WORK = "/opt/vgpud/vulkan-work"
LAVAPIPE = "VK_ICD_FILENAMES=/usr/share/vulkan/icd.d/lvp_icd.json"
NODE = "/dev/dri/renderD128"
# Room for what a guest maps; a guest has to be able to map all that a program of it takes.
HOSTMEM = "256M"
# Threads of what libvirt's QEMUs have started, by QEMU: what the kernel says that they have run.
SCHEDSTATS = r"""
for qemu in $(pgrep -f 'qemu-system-x86_64 -name guest='); do
    name=$(tr '\0' '\n' < /proc/$qemu/cmdline | sed -n 's/^guest=\([^,]*\).*/\1/p')
    for server in $(pgrep -P $qemu) $(for child in $(pgrep -P $qemu); do pgrep -P $child; done); do
        for task in /proc/$server/task/*; do
            read -r ran _ < $task/schedstat && echo "$name $server $(cat /proc/$server/comm) $ran"
        done
    done
done
"""


class SystemLab(VfioLab):
    """One emulated host without cards, whose guests have Debian 13's system."""

    def boot(self):
        for last in (False, True):
            self.hosts = {HOST: Host(HOST, self.directory, *free_ports(2, socket.SOCK_DGRAM), "vulkan")}
            try:
                self.wait_for_hosts()
                break
            except BaseException:
                why = self.why_broken(None)
                self.close()
                if last or not why:
                    raise
                self.retry("a start", why)

    @property
    def host(self):
        return self.hosts[HOST]

    def define(self, guest, work, memory_mib=640, words="", devices=""):
        """work: that of guest-vulkan-init; words: more for its kernel; devices: XML. As a VM of anybody, without a
        display and without Vulkan."""
        words = "console=ttyS0 quiet panic=-1 nokaslr mitigations=off tsc=reliable no_timer_check " \
                f"random.trust_cpu=on drm_kms_helper.fbdev_emulation=0 work={work.replace(' ', ',')} {words}"
        with open(f"{HERE}/guest-vulkan.xml.in", encoding="utf-8") as file:
            xml = file.read()
        for what, by in (("@NAME@", guest), ("@UUID@", str(uuid.uuid5(uuid.NAMESPACE_DNS, guest))),
                         ("@MEMORY@", str(memory_mib)), ("@WORDS@", words), ("@DEVICES@", devices)):
            xml = xml.replace(what, by)
        self.host.put(f"/tmp/{guest}.xml", xml)
        self.host.virsh(f"define /tmp/{guest}.xml")

    def start(self, guest, words):
        """Until the guest has said these words."""
        for _ in range(GUEST_STARTS):
            self.host.run(f"rm -f {console_path(guest)}")
            self.host.virsh(f"start {guest}")
            if self.host.run(f"for i in $(seq {GUEST_S}); do grep -aqE '{words}|WORK-FAILED' {console_path(guest)} && "
                             f"exec echo up; [ $(virsh domstate {guest}) = running ] || break; sleep 1; done"
                             ).strip() == "up":
                assert "WORK-FAILED" not in self.told(guest), self.told(guest)
                return
            self.retry(guest, "not up: " + self.host.virsh(f"domstate --reason {guest}").strip())
            print(self.told(guest))
            self.host.virsh(f"destroy {guest}", check=False)
        raise AssertionError(f"{guest} has not come up in {GUEST_STARTS} starts")

    def told(self, guest):
        return self.host.run(f"cat {console_path(guest)} 2> /dev/null", check=False)


class VulkanLab(SystemLab):
    def boot(self):
        super().boot()
        # libvirt asks each emulator once what it can do, which takes long in here.
        self.host.virsh("domcapabilities --virttype kvm --emulatorbin $(echo /usr/*libexec/vgpud/spawn/* "
                        "/usr/*/libexec/vgpud/spawn/* | tr ' ' '\\n' | grep -v '[*]')")
        # Drivers of GPUs that are not here are not asked.
        self.host.run("modprobe vgem; find /usr/share/vulkan/icd.d ! -name 'lvp_*' -type f -delete; "
                      f"[ -c {NODE} ] && [ -c /dev/udmabuf ]")

    def start_vgpud(self):
        # Work of a window that is read late by a window's length is not told, which windows of a second are on a busy machine.
        self.host.put(f"{CONFIG_DIR}/vgpud.conf", "[daemon]\nwindow=5s\n[libvirt]\nuse=yes\n[live]\nbpf=no\nperf=no\n"
                                                  "[gpu]\nenable=yes\n[actions]\nenabled=yes\n")
        self.host.start_vgpud()

    def define(self, guest, *args, **more):
        super().define(guest, *args, **more)
        # As one that does not run, it is known to vgpud, but not measured.
        wait_for(lambda: self.host.request("POST", f"/v1/vms/{guest}/vulkan", {"enabled": True, "dry_run": True})[0] == 200)

    def definition(self, guest):
        return self.host.virsh(f"dumpxml --inactive --security-info {guest}")

    def schedstats(self):
        """Guest to seconds that the processes have run which its QEMU has started, and all processes."""
        lines = [line.split() for line in self.host.run(SCHEDSTATS, check=False).splitlines()]
        ran = {}
        for name, _, _, ns in lines:
            ran[name] = ran.get(name, 0) + int(ns) / 1e9
        return ran, {(name, comm) for name, _, comm, _ in lines}

    def busy(self):
        """Guest to seconds of device venus, as vgpud has told them."""
        text = self.host.request("GET", "/metrics")[1].decode()
        found = re.findall(r'^vgpud_vm_gpu_busy_seconds_total\{([^}]*device="venus"[^}]*)\} (\S+)$', text, re.M)
        return {re.search(r'vm="([^"]*)"', labels)[1]: float(value) for labels, value in found}
