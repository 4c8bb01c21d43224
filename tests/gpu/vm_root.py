# SPDX-License-Identifier: Apache-2.0
"""A folder with a small Debian for try-vm: the programs of the lab (libvirt, QEMU, Python), what is built here, and the
guest's kernel, each with the libraries that it needs. It travels as one archive. There it becomes the root of a mount
namespace, beside the machine's own devices and NVIDIA's libraries, so that nothing is installed."""
import functools
import glob
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
INSIDE = "/vgpud"
PYTHON = "/usr/bin/python3"

PROGRAMS = ("bash dash env cat chmod cksum cp cut date dirname basename echo head id install ln ls mkdir mktemp mv nice"
            " printf rm rmdir sleep sort stat sync tail tee timeout touch tr true uname wc md5sum base64 df du"
            " mount umount nsenter unshare setsid dmesg ip tc bridge sysctl hostname grep sed mawk find xargs tar xz cpio"
            " busybox ldd getent ldconfig mke2fs clinfo virsh libvirtd qemu-system-x86_64 ps certtool").split()
# Names that the C library of today leaves empty; what was built for older ones still asks for them, as NVIDIA does.
FOR_VENDOR = ("libdl.so.2", "libpthread.so.0", "librt.so.1", "libutil.so.1", "libresolv.so.2")
# Folders and files that programs look for at run time.
DATA = ("/usr/lib/x86_64-linux-gnu/libvirt/connection-driver/libvirt_driver_qemu.so",
        "/usr/lib/x86_64-linux-gnu/libvirt/storage-file", "/usr/share/libvirt/cpu_map",
        "/usr/lib/x86_64-linux-gnu/qemu/accel-tcg-x86_64.so", "/usr/share/seabios/bios-256k.bin",
        "/usr/share/seabios/vgabios-stdvga.bin", "/usr/share/qemu/kvmvapic.bin", "/usr/share/qemu/linuxboot_dma.bin",
        "/usr/lib/ipxe/qemu/efi-virtio.rom", "/usr/share/qemu/keymaps/en-us",
        "/usr/lib/python3/dist-packages/_pytest", "/usr/lib/python3/dist-packages/pytest",
        "/usr/lib/python3/dist-packages/pluggy", "/usr/lib/python3/dist-packages/iniconfig",
        "/usr/lib/python3/dist-packages/packaging", "/usr/lib/python3/dist-packages/py", "/usr/lib/python3/dist-packages/attr",
        "/usr/lib/x86_64-linux-gnu/libOpenCL.so.1", "/usr/lib/x86_64-linux-gnu/libgnutls.so.30",
        *(f"/usr/lib/x86_64-linux-gnu/{name}" for name in FOR_VENDOR),
        "/etc/protocols", "/etc/services", "/etc/nsswitch.conf", "/etc/mke2fs.conf", "/etc/iproute2")
# What no program of these needs.
LEFT_OUT = re.compile(r"/(test|tests|idlelib|tkinter|lib2to3|ensurepip|turtledemo|pydoc_data|__pycache__|config-3[^/]*)(/|$)")
BUILT = ("vgpud", "vgpuctl", "vgpu-guestd", "vgpu-proxy", "libvgpu-opencl.so", "vgpud-qemu-spawn",
         *(f"tests/opencl/{name}" for name in ("arg-info", "bench-calls", "frames", "holder", "mapped-writer",
                                               "random-calls", "six", "waves")))
MODULES = ("virtio_ring virtio virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci virtio_console virtio-rng virtio_blk"
           " failover net_failover virtio_net").split()
HASHCAT = ("hashcat", "hashcat-data", "libminizip1", "libxxhash0")
# MD5, and the one whose files it looks for when it begins; the rest of its modules are 80 MB.
HASHCAT_MODES = ("00000", "00400")
# 30 MB of tables for character sets, which libxml2's library for them wants to find; here is only UTF-8.
NO_TABLES = "libicudata.so"


def libraries(path):
    """What the dynamic linker loads for it."""
    text = subprocess.run(["ldd", path], capture_output=True, text=True, check=False).stdout
    return re.findall(r"(?:=> |^\s*)(/\S+) \(0x", text, re.M)


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


class Tree:
    """The folder, into which files are copied under the paths that they have here."""

    def __init__(self, folder):
        self.folder, self.done = folder, set()

    def at(self, path):
        return os.path.join(self.folder, path.lstrip("/"))

    def put(self, source, path, strip=False):
        if path in self.done:
            return
        self.done.add(path)
        target = self.at(path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy2(source, target)
        if strip:
            subprocess.run(["strip", target], check=True)
        self.put_libraries(source)

    def put_libraries(self, source):
        """What it needs."""
        for library in libraries(source) if is_elf(source) else []:
            if NO_TABLES in library:
                self.stub(library)
            else:
                self.put(os.path.realpath(library), library)

    def stub(self, path):
        """An empty library of that name, with the tables' symbol."""
        if path in self.done:
            return
        self.done.add(path)
        version = re.search(r"\.so\.(\d+)", path)[1]
        os.makedirs(os.path.dirname(self.at(path)), exist_ok=True)
        subprocess.run(["gcc", "-shared", "-nostdlib", f"-Wl,-soname,{os.path.basename(path)}", "-x", "c", "-", "-o",
                        self.at(path)], input=f"const char icudt{version}_dat[64];\n", text=True, check=True)

    def put_all(self, folder, as_folder=None):
        for parent, _, names in os.walk(folder):
            for name in names:
                path = os.path.join(parent, name)
                relative = os.path.relpath(path, folder)
                if not LEFT_OUT.search("/" + relative) and not name.endswith((".pyc", ".a")) and os.path.exists(path):
                    self.put(path, os.path.join(as_folder or folder, relative))

    def link(self, to, path):
        os.makedirs(os.path.dirname(self.at(path)), exist_ok=True)
        if not os.path.lexists(self.at(path)):
            os.symlink(to, self.at(path))

    def write(self, path, text):
        os.makedirs(os.path.dirname(self.at(path)), exist_ok=True)
        with open(self.at(path), "w", encoding="utf-8") as file:
            file.write(text)


def add_programs(tree):
    # As in Debian, in whose file system only /usr has files.
    for name in ("bin", "sbin", "lib", "lib64"):
        os.makedirs(tree.at("/usr/" + name), exist_ok=True)
        tree.link("usr/" + name, "/" + name)
    for name in PROGRAMS:
        path = shutil.which(name)
        if not path:
            sys.exit(f"try-vm: there is no {name} here")
        tree.put(os.path.realpath(path), "/usr" + path if path.startswith(("/bin", "/sbin")) else path)
    tree.link("dash", "/usr/bin/sh")
    tree.link("mawk", "/usr/bin/awk")
    tree.put(os.path.realpath(PYTHON), PYTHON)
    [version] = re.findall(r"python3\.\d+$", os.path.realpath(PYTHON))
    tree.put_all(f"/usr/lib/{version}")
    for path in DATA:
        if os.path.isdir(path):
            tree.put_all(path)
        elif os.path.exists(path):
            tree.put(os.path.realpath(path), path)
        else:
            sys.exit(f"try-vm: there is no {path} here")
    for path in ("/usr/share/seabios/bios-256k.bin", "/usr/share/seabios/vgabios-stdvga.bin",
                 "/usr/lib/ipxe/qemu/efi-virtio.rom"):
        tree.link(path, "/usr/share/qemu/" + os.path.basename(path))
    tree.write("/etc/passwd", "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534::/:/bin/false\n"
               "libvirt-qemu:x:64055:64055::/:/bin/false\n")
    tree.write("/etc/group", "root:x:0:\nnogroup:x:65534:\nlibvirt-qemu:x:64055:\nkvm:x:106:\n")
    tree.write("/etc/hosts", "127.0.0.1 localhost\n")
    tree.write("/etc/ld.so.conf", "/usr/local/nvidia/lib64\n/lib/x86_64-linux-gnu\n/usr/lib/x86_64-linux-gnu\n")
    tree.put_all("/usr/lib/locale/C.utf8")
    tree.link("/run", "/var/run")
    tree.link("/run/lock", "/var/lock")
    # For the guest, whose disk this folder becomes.
    tree.write("/etc/OpenCL/vendors/vgpu-opencl.icd", "/opencl/libvgpu-opencl.so\n")


def add_ours(tree, build):
    """The tests' programs and those of the build directory; what they need is there already."""
    for folder in ("tests/lab", "tests/lib", "tests/gpu", "tests/opencl", "tools"):
        for path in glob.glob(os.path.join(ROOT, folder, "*")):
            if os.path.isfile(path) and not path.endswith((".c", ".h", ".o")) and not is_elf(path):
                tree.put(path, os.path.join(INSIDE, os.path.relpath(path, ROOT)))
    for name in BUILT:
        path = os.path.join(build, name)
        if not os.path.exists(path):
            sys.exit(f"try-vm: {path} is not built")
        tree.put(path, os.path.join(INSIDE, "build", name), strip=True)


def add_kernel(tree, build):
    [kernel] = glob.glob(os.path.join(build, "lab/kernel/boot/vmlinuz-*")) or sys.exit(
        f"try-vm: {build}/lab has no kernel: run a test of tests/lab first")
    there = os.path.join(INSIDE, "build/lab/kernel")
    tree.put(kernel, os.path.join(there, "boot", os.path.basename(kernel)))
    for name in MODULES:
        for path in glob.glob(os.path.join(build, "lab/kernel/**", name + ".ko*"), recursive=True):
            tree.put(path, os.path.join(there, os.path.relpath(path, os.path.join(build, "lab/kernel"))))
    tree.write(os.path.join(there, "ok"), "")


def add_hashcat(tree, folder):
    """Debian's packages, unpacked; without the network, there is none, and its part says so."""
    os.makedirs(folder, exist_ok=True)
    if not glob.glob(os.path.join(folder, "hashcat_*.deb")):
        subprocess.run(["apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", *HASHCAT], cwd=folder, check=False)
    for package in glob.glob(os.path.join(folder, "*.deb")):
        subprocess.run(["dpkg-deb", "-x", package, os.path.join(folder, "root")], check=True)
    root = os.path.join(folder, "root")
    for parent, _, names in os.walk(root):
        for name in names:
            path = os.path.join(parent, name)
            mode = re.search(r"/(?:module_|m)(\d{5})", path)
            if (mode and mode[1] not in HASHCAT_MODES) or "/share/doc" in path or "/rules/" in path or "/charsets/" in path or (
                    "/masks/" in path):
                continue
            if os.path.islink(path):
                tree.link(os.readlink(path), "/" + os.path.relpath(path, root))
            else:
                tree.put(path, "/" + os.path.relpath(path, root))
    tree.link("/usr/lib/hashcat/modules", "/usr/share/hashcat/modules")


def compress(tree, archive, packer, *names):
    subprocess.run(["tar", "-C", tree.folder, "-c", "--owner=0", "--group=0", "-f", archive, "-I", packer, *names], check=True)
    print(f"{archive}: {os.path.getsize(archive) / (1 << 20):.1f} MiB")


def make(folder, build):
    """FOLDER/root, and two archives of it: base.tar.xz, which is made only if there is none, as it takes minutes, and
    ours.tar.gz."""
    tree = Tree(os.path.join(folder, "root"))
    base = os.path.join(folder, "base.tar.xz")
    if not os.path.exists(base):
        shutil.rmtree(tree.folder, ignore_errors=True)
        os.makedirs(tree.folder)
        add_programs(tree)
        add_hashcat(tree, os.path.join(folder, "hashcat"))
        add_kernel(tree, build)
        for path in map(functools.partial(os.path.join, build), BUILT):
            tree.put_libraries(path)
        for name in ("proc", "sys", "dev", "run", "tmp", "var/log", "var/lib", "var/cache", "root", "out", "opencl",
                     "usr/local/nvidia", "old", "etc/libvirt"):
            os.makedirs(os.path.join(tree.folder, name), exist_ok=True)
        subprocess.run(["ldconfig", "-r", tree.folder], check=True)
        compress(tree, base + ".new", "xz -6 -T0", ".")
        os.rename(base + ".new", base)
    add_ours(tree, build)
    compress(tree, os.path.join(folder, "ours.tar.gz"), "gzip", "vgpud/tests", "vgpud/tools",
             *(os.path.join("vgpud/build", name) for name in BUILT))


ENTER = r"""
set -e
mount --make-rprivate /
mount --bind "$1" "$1"
cd "$1"
for name in proc sys dev; do mount --rbind /$name $name; done
mount -t tmpfs tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp
mount --bind "$2" out
[ ! -d /usr/local/nvidia ] || mount --rbind /usr/local/nvidia usr/local/nvidia
! path=$(command -v nvidia-smi) || [ -e usr/local/nvidia/bin/nvidia-smi ] || cp "$path" usr/bin/
pivot_root . old
umount -l /old
ldconfig
shift 2
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/nvidia/bin HOME=/root LC_ALL=C.UTF-8 PYTHONUNBUFFERED=1 OUT=/out "$@"
"""


def enter(folder, out, arguments):
    """Unpacks the archive where it has room, and runs this program in there. Returns its status."""
    root = os.path.join(os.environ.get("TMPDIR", "/tmp"), "try-vm-root")
    shutil.rmtree(root, ignore_errors=True)
    os.makedirs(root)
    for name in ("base.tar.xz", "ours.tar.gz"):
        subprocess.run(["tar", "-C", root, "-xf", os.path.join(folder, name)], check=True)
    os.makedirs(out, exist_ok=True)
    # As there is no pivot_root in every machine's packages for a shell, busybox has one.
    script = ENTER.replace("pivot_root", f"{root}/usr/bin/busybox pivot_root", 1)
    command = ["unshare", "--mount", "--fork", "sh", "-c", script, "sh", root, out, PYTHON,
               os.path.join(INSIDE, "tests/gpu/try-vm"), "--inside", *arguments]
    return subprocess.run(command, check=False).returncode
