# SPDX-License-Identifier: Apache-2.0
"""Vulkan on the real GPU, natively and remoted by Venus without a VM: virglrenderer's vtest server and Mesa's Venus driver
of Debian 13, in a root of their own. The program computes, copies and draws without a display."""
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
VFIO = os.path.join(os.path.dirname(HERE), "vfio")
PACKAGES = ("mesa-vulkan-drivers", "virgl-server", "vulkan-tools", "libvulkan1", "libvulkan-dev", "glslang-tools", "libegl1",
            "libgl1", "libglx0", "libglvnd0", "libgbm1", "libx11-6", "libxext6")
LIBRARIES = "/usr/lib/x86_64-linux-gnu"
# What the server and the programs load; the GPU's own libraries come from the machine.
KEPT = ("/usr/bin/virgl_test_server", "/usr/libexec/virgl_render_server", "/usr/bin/vulkaninfo", "/usr/bin/dash",
        "/usr/sbin/ldconfig", *(f"{LIBRARIES}/{name}" for name in (
            "libvulkan_virtio.so", "libvulkan.so.1", "libEGL.so.1", "libGL.so.1", "libGLX.so.0", "libGLdispatch.so.0",
            "libX11.so.6", "libXext.so.6", "libgbm.so.1", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libm.so.6",
            "libgcc_s.so.1", "libstdc++.so.6")))
SHADERS = (("comp", "compute"), ("vert", "vertex"), ("frag", "fragment"))
VENUS_ICD = "/usr/share/vulkan/icd.d/virtio_icd.json"
NVIDIA = "/usr/local/nvidia/share"
NVIDIA_ICD = f"{NVIDIA}/vulkan/icd.d/nvidia_icd.json"
# NVIDIA's Vulkan driver loads its EGL through glvnd.
NVIDIA_EGL = f"{NVIDIA}/glvnd/egl_vendor.d/10_nvidia.json"
SOCKET = "/tmp/venus.sock"
LIMIT_S = 60
# What decides whether the server can share a GPU's memory with a program.
SHARES = ("VK_KHR_external_memory_fd", "VK_EXT_external_memory_dma_buf", "VK_EXT_image_drm_format_modifier",
          "VK_KHR_external_fence_fd", "VK_KHR_timeline_semaphore", "VK_EXT_queue_family_foreign")


def mirror():
    """The archive that this machine's apt uses."""
    for path in glob.glob("/etc/apt/*.list") + glob.glob("/etc/apt/sources.list.d/*"):
        with open(path, encoding="utf-8") as file:
            for url in re.findall(r"^(?:URIs: *|deb (?:\[[^]]*\] )?)(\S+)", file.read(), re.M):
                if url.rstrip("/").endswith("/debian"):
                    return url
    return sys.exit("try-vm: apt knows no mirror of Debian")


def make_program(debian, folder):
    for name, code in SHADERS:
        subprocess.run(["chroot", debian, "glslangValidator", "-V", "--vn", f"{code}_code", "-o", f"/tmp/vulkan-work.{name}.h",
                        f"/tmp/vulkan-work.{name}"], check=True, stdout=subprocess.DEVNULL)
    with tempfile.TemporaryDirectory() as headers:
        with open(os.path.join(headers, "config.h"), "w", encoding="utf-8") as file:
            file.write("#define _GNU_SOURCE 1\n")
        subprocess.run(["cc", "-std=gnu17", "-O2", f"-I{headers}", f"-I{debian}/tmp", "-idirafter", f"{debian}/usr/include",
                        os.path.join(VFIO, "vulkan-work.c"), f"{debian}{LIBRARIES}/libvulkan.so.1",
                        "-Wl,--allow-shlib-undefined", "-o", os.path.join(folder, "vulkan-work")], check=True)


def copy_closure(debian, root):
    """What the programs need of the system, which is unpacked but not installed."""
    waiting, done = list(KEPT), set()
    while waiting:
        path = waiting.pop()
        if path in done:
            continue
        done.add(path)
        target = root + path
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy2(os.path.realpath(debian + path), target)
        listed = subprocess.run(["chroot", debian, "/lib64/ld-linux-x86-64.so.2", "--list", path], capture_output=True,
                                text=True, check=False).stdout
        waiting += [f"{LIBRARIES}/{os.path.basename(found)}" for found in re.findall(r"=> (/\S+)", listed)]
    shutil.copy2(f"{debian}/usr/lib64/ld-linux-x86-64.so.2", f"{root}{LIBRARIES}/")


def make(folder):
    """FOLDER/venus.tar.xz, if it is not there."""
    archive = os.path.join(folder, "venus.tar.xz")
    if os.path.exists(archive):
        return
    debian, root = os.path.join(folder, "venus-debian"), os.path.join(folder, "venus")
    if not os.path.exists(os.path.join(debian, "usr/bin/glslangValidator")):
        shutil.rmtree(debian, ignore_errors=True)
        subprocess.run(["debootstrap", "--variant=minbase", "--include=" + ",".join(PACKAGES), "trixie", debian, mirror()],
                       check=True, stdout=subprocess.DEVNULL)
    shutil.rmtree(root, ignore_errors=True)
    for name in ("usr/bin", "usr/sbin", "usr/lib64", "usr/lib", "tmp", "proc", "sys", "dev", "usr/local/nvidia", "etc",
                 os.path.dirname(VENUS_ICD).lstrip("/")):
        os.makedirs(os.path.join(root, name), exist_ok=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        os.symlink("usr/" + name, os.path.join(root, name))
    for name, _ in SHADERS:
        shutil.copy(os.path.join(VFIO, f"vulkan-work.{name}"), os.path.join(debian, "tmp"))
    make_program(debian, root)
    copy_closure(debian, root)
    os.symlink(f"{LIBRARIES}/ld-linux-x86-64.so.2", os.path.join(root, "usr/lib64/ld-linux-x86-64.so.2"))
    os.symlink("dash", os.path.join(root, "usr/bin/sh"))
    shutil.copy(debian + VENUS_ICD, root + VENUS_ICD)
    with open(os.path.join(root, "etc/ld.so.conf"), "w", encoding="utf-8") as file:
        file.write(f"/usr/local/nvidia/lib64\n{LIBRARIES}\n")
    subprocess.run(["tar", "-C", root, "-c", "--owner=0", "--group=0", "-f", archive, "-I", "xz -6 -T0", "."], check=True)
    print(f"{archive}: {os.path.getsize(archive) / (1 << 20):.1f} MiB")


class Room:
    """The root, with the machine's devices and its GPU's libraries."""

    def __init__(self, folder):
        self.root = tempfile.mkdtemp(prefix="try-venus-")
        subprocess.run(["tar", "-C", self.root, "-xf", os.path.join(folder, "venus.tar.xz")], check=True)
        self.mounted = []
        for name in ("proc", "sys", "dev", "usr/local/nvidia"):
            if os.path.isdir("/" + name):
                target = os.path.join(self.root, name)
                subprocess.run(["mount", "--rbind", "/" + name, target], check=True)
                subprocess.run(["mount", "--make-rslave", target], check=True)
                self.mounted.append(target)
        self.start(["ldconfig"]).wait()

    def start(self, command, icd=NVIDIA_ICD, log=subprocess.DEVNULL, **environment):
        names = {"PATH": "/usr/bin:/usr/sbin", "XDG_RUNTIME_DIR": "/tmp", "VK_DRIVER_FILES": icd, "VK_ICD_FILENAMES": icd,
                 "MESA_SHADER_CACHE_DISABLE": "1", "__EGL_VENDOR_LIBRARY_FILENAMES": NVIDIA_EGL, **environment}
        return subprocess.Popen(["chroot", self.root, *command], env=names, stdout=log, stderr=subprocess.STDOUT, text=True)

    def run(self, command, **options):
        """Its output, and its status or None if it took too long."""
        process = self.start(command, log=subprocess.PIPE, **options)
        try:
            output, _ = process.communicate(timeout=LIMIT_S)
            return output, process.returncode
        except subprocess.TimeoutExpired:
            process.kill()
            return process.communicate()[0], None

    def close(self):
        for target in reversed(self.mounted):
            subprocess.run(["umount", "-l", target], check=False)
        shutil.rmtree(self.root, ignore_errors=True)


class Server:
    """The vtest server, which renders what programs send it."""

    def __init__(self, room):
        self.room = room
        self.path = os.path.join(room.root, "tmp/server.log")
        self.log = open(self.path, "w", encoding="utf-8")  # pylint: disable=consider-using-with
        # virgl is left out: it would need OpenGL.
        self.process = room.start(["virgl_test_server", "--venus", "--no-virgl", "--multi-clients", "--socket-path", SOCKET],
                                  log=self.log)

    def __enter__(self):
        end = time.monotonic() + LIMIT_S
        while not os.path.exists(self.room.root + SOCKET) and self.process.poll() is None and time.monotonic() < end:
            time.sleep(0.05)
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()

    def said(self):
        with open(self.path, encoding="utf-8", errors="replace") as file:
            return file.read()


def figures(text):
    return {name: float(ms) for name, ms in re.findall(r"^FIGURE (\S+) (\S+)", text, re.M)}


def say_table(report, native, venus):
    report.head("what", "native", "Venus", "relative speed")
    for name, ms in native.items():
        report.row(name, f"{ms:.3f} ms", f"{venus[name]:.3f} ms", f"{ms / venus[name]:.0%}")
    shares = [ms / venus[name] for name, ms in native.items()]
    report.say(f"Venus runs at {min(shares):.0%} to {max(shares):.0%} of native; VAR (2020) reports 12 to 98 %.")


def run(report, folder):
    room = Room(folder)
    try:
        info, _ = room.run(["vulkaninfo"])
        for name in re.findall(r"(?:deviceName|driverInfo) += (.*)", info)[:2]:
            report.say("the GPU's driver:", name)
        for name in SHARES:
            report.say(f"{name}:", "yes" if name in info else "no")
        native, status = room.run(["/vulkan-work", "bench"])
        report.judge(status == 0 and "WORK-DONE" in native, "native", native.splitlines()[0] if native else "no output")
        with Server(room) as server:
            venus, status = room.run(["/vulkan-work", "bench"], icd=VENUS_ICD, VTEST_SOCKET_NAME=SOCKET,
                                     VN_DEBUG="vtest,init,result")
        if status == 0 and "WORK-DONE" in venus:
            report.judge(True, "through Venus", "it computes, copies and draws")
            say_table(report, figures(native), figures(venus))
            return
        report.say("the program:", venus[-3000:])
        report.say("the server:", server.said()[-3000:])
        missing = [name for name in SHARES if name not in info]
        if missing:
            report.say("Venus cannot be used here: the GPU's driver has no", ", ".join(missing))
        else:
            report.judge(False, "through Venus", f"status {status}")
    finally:
        room.close()
