# SPDX-License-Identifier: Apache-2.0
"""The packages of tools/package in each release of Debian and Ubuntu that has nothing else: they can be installed,
their programs run, and a purge leaves nothing. Costs minutes, and the network: only in a full run."""
import glob
import os
import re
import shutil

import pytest
from debian import SUITES, command, good, make_root, need, own_suite
from vgpuctl import ROOT

NAMES = ["vgpu-guestd", "vgpu-opencl", "vgpu-proxy", "vgpuctl", "vgpud"]

pytestmark = pytest.mark.xdist_group("package")


@pytest.fixture(scope="module", params=SUITES)
def suite(request):
    return request.param


@pytest.fixture(scope="module")
def packages(suite):
    need(suite, "dh")
    other = [] if suite == own_suite() else ["--suite", suite]
    output = good(os.path.join(ROOT, "tools", "package"), *other)
    made = sorted(glob.glob(os.path.join(ROOT, "build", "-".join(["packages", *other[1:]]), "*.deb")))
    assert [os.path.basename(path).split("_")[0] for path in made] == NAMES
    assert all(os.path.basename(path) in output for path in made), output
    return made


@pytest.fixture(scope="module")
def debian(suite, packages, tmp_path_factory):
    """Runs programs in a fresh root of the release; without a network, that cannot be had."""
    root = str(tmp_path_factory.mktemp("debian"))
    make_root(suite, root)
    for path in packages:
        shutil.copy(path, os.path.join(root, "tmp"))
    shutil.copy("/etc/resolv.conf", os.path.join(root, "etc"))

    def run(*args):
        return command("unshare", "--mount", "--pid", "--fork", f"--mount-proc={root}/proc", "chroot", root,
                       "env", "-u", "TMPDIR", *args)
    run.root = root
    yield run
    shutil.rmtree(root, ignore_errors=True)


def inside(debian, *args):
    done = debian(*args)
    assert done.returncode == 0, (args, done.stdout[-3000:], done.stderr[-3000:])
    return done.stdout


def path(debian, name):
    return os.path.join(debian.root, name.lstrip("/"))


def test_what_is_where(packages):
    """Each file is in one package, and no package has what another one needs."""
    files = {}
    for package in packages:
        for line in good("dpkg-deb", "-c", package).splitlines():
            name = line.split()[5].lstrip(".")
            if not name.endswith("/") and "/usr/share/doc/" not in name:
                # Debian 13 has its units in /usr.
                name = name.replace("/usr/lib/systemd/", "/lib/systemd/")
                assert name not in files, name
                files[name] = os.path.basename(package).split("_")[0]
    for name, package in (("/usr/sbin/vgpud", "vgpud"), ("/lib/systemd/system/vgpud.service", "vgpud"),
                          ("/usr/lib/sysusers.d/vgpud.conf", "vgpud"), ("/usr/lib/tmpfiles.d/vgpud.conf", "vgpud"),
                          ("/usr/libexec/vgpud/spawn/qemu-system-x86_64", "vgpud"), ("/etc/vgpud/vgpud.conf", "vgpud"), ("/usr/share/man/man8/vgpud.8.gz", "vgpud"),
                          ("/usr/bin/vgpuctl", "vgpuctl"), ("/usr/share/man/man1/vgpuctl.1.gz", "vgpuctl"),
                          ("/usr/share/man/man5/vgpuctl-json.5.gz", "vgpuctl"),
                          ("/usr/share/man/man5/vgpuctl-traces.5.gz", "vgpuctl"),
                          ("/usr/share/bash-completion/completions/vgpuctl", "vgpuctl"),
                          ("/usr/share/zsh/vendor-completions/_vgpuctl", "vgpuctl"),
                          ("/usr/share/fish/vendor_completions.d/vgpuctl.fish", "vgpuctl"),
                          ("/usr/sbin/vgpu-guestd", "vgpu-guestd"),
                          ("/etc/vgpud/vgpu-guestd.conf", "vgpu-guestd"),
                          ("/lib/systemd/system/vgpu-guestd.service", "vgpu-guestd"),
                          ("/etc/default/vgpu-proxy", "vgpu-proxy"), ("/usr/sbin/vgpu-proxy", "vgpu-proxy"),
                          ("/lib/systemd/system/vgpu-proxy.service", "vgpu-proxy"),
                          ("/usr/lib/sysusers.d/vgpu-proxy.conf", "vgpu-proxy"),
                          ("/usr/lib/tmpfiles.d/vgpu-proxy.conf", "vgpu-proxy"),
                          ("/etc/OpenCL/vendors/vgpu-opencl.icd", "vgpu-opencl")):
        assert files[name] == package
    pages = {os.path.basename(page) for page in glob.glob(os.path.join(ROOT, "docs", "*.[0-9]"))}
    assert {os.path.basename(name)[:-3] for name in files if "/man/" in name} == pages


def test_installed_run_purged(debian):
    inside(debian, "apt-get", "update")
    inside(debian, "sh", "-c", "apt-get install -y --no-install-recommends /tmp/*.deb")
    version = re.search(r"AC_INIT\(\[vgpud\], \[(.*?)\]\)", open(os.path.join(ROOT, "configure.ac"),
                                                                 encoding="utf-8").read()).group(1)
    assert version in inside(debian, "vgpuctl", "--version")
    assert version in inside(debian, "vgpud", "--version")
    assert version in inside(debian, "vgpu-guestd", "--version")
    assert version in inside(debian, "vgpu-proxy", "--version")
    inside(debian, "vgpud", "--check-config")
    assert "vgpud" in inside(debian, "id", "vgpud")
    assert inside(debian, "stat", "-c", "%U %a", "/var/lib/vgpud").strip() == "vgpud 750"
    assert inside(debian, "dpkg-query", "-W", "-f", "${Conffiles}", "vgpud").split()[0] == "/etc/vgpud/vgpud.conf"
    assert inside(debian, "dpkg-query", "-W", "-f", "${Conffiles}", "vgpu-guestd").split()[0] == \
        "/etc/vgpud/vgpu-guestd.conf"
    # vgpud asks the proxy, and reads what it has of tokens; nobody else does.
    assert inside(debian, "stat", "-c", "%U %G %a", "/etc/vgpud/proxy.d").strip() == "root vgpu-proxy 750"
    assert "vgpu-proxy" in inside(debian, "id", "-Gn", "vgpud").split()
    assert inside(debian, "id", "-Gn", "vgpu-proxy").split() == ["vgpu-proxy"]
    library = inside(debian, "cat", "/etc/OpenCL/vendors/vgpu-opencl.icd").strip()
    assert os.path.exists(path(debian, library))
    for unit in ("vgpud", "vgpu-guestd", "vgpu-proxy"):
        done = debian("systemd-analyze", "verify", "--man=no", f"/lib/systemd/system/{unit}.service")
        assert done.returncode == 0 and unit not in done.stderr, done.stderr
        assert os.path.islink(path(debian, f"/etc/systemd/system/multi-user.target.wants/{unit}.service"))
    # vgpud does not run there: what vgpuctl makes of that.
    done = debian("vgpuctl", "doctor")
    assert done.returncode == 7 and "finds no errors" in " ".join(done.stdout.split()), done.stdout

    # What stays and what goes.
    for name in ("/etc/vgpud/host.key", "/etc/vgpud/conf.d/peers.conf", "/var/lib/vgpud/state.db",
                 "/etc/vgpud/guest-hooks.d/prepare/10-stop", "/etc/vgpud/proxy.d/web.conf"):
        with open(path(debian, name), "w", encoding="utf-8") as file:
            file.write("\n")
    inside(debian, "apt-get", "remove", "-y", *NAMES)
    assert os.path.exists(path(debian, "/etc/vgpud/vgpud.conf"))
    assert os.path.exists(path(debian, "/var/lib/vgpud/state.db"))
    inside(debian, "apt-get", "purge", "-y", "vgpud")
    assert sorted(os.listdir(path(debian, "/etc/vgpud"))) == ["guest-hooks.d", "proxy.d", "vgpu-guestd.conf"]
    # apt does not know any more what is gone.
    inside(debian, "dpkg", "--purge", *NAMES)
    for name in ("/etc/vgpud", "/var/lib/vgpud", "/usr/sbin/vgpud", "/usr/bin/vgpuctl"):
        assert not os.path.exists(path(debian, name)), name
