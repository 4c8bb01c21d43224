# SPDX-License-Identifier: Apache-2.0
"""The packages of tools/package --rpm in a Debian root: rpm runs their scripts there with that root's own shell and
systemd. They are linked with this machine's libraries, and no EL or Fedora is involved. Costs minutes, and the network:
only in a full run."""
import glob
import os
import re
import shutil

import pytest
from debian import good, command, make_root, need, own_suite
from vgpuctl import ROOT

NAMES = ["vgpu-guestd", "vgpu-opencl", "vgpu-proxy", "vgpuctl", "vgpud"]
UNITS = ["vgpud", "vgpu-guestd", "vgpu-proxy"]
OUT = os.path.join(ROOT, "build", "packages-rpm")
SPECS = os.path.join(ROOT, "packaging", "rpm")
# A package of a vendor's OpenCL.
VENDOR = """Name: vendor-opencl
Version: {version}
Release: 1
Summary: A vendor's OpenCL
License: Apache-2.0
BuildArch: noarch
%description
For a test.
%install
mkdir -p %{{buildroot}}/etc/OpenCL/vendors
echo library-{version} > %{{buildroot}}/etc/OpenCL/vendors/vendor.icd
%files
/etc/OpenCL/vendors/vendor.icd
"""

pytestmark = pytest.mark.xdist_group("package")


def rpmbuild(top, spec):
    good("rpmbuild", "-bb", "--nodeps", "--load", os.path.join(SPECS, "macros.systemd"), "--define", f"_topdir {top}",
         "--define", "debug_package %{nil}", spec)
    return {re.match(r"(.*)-[^-]*-[^-]*$", os.path.basename(path)).group(1): path
            for path in glob.glob(os.path.join(top, "RPMS", "*", "*.rpm"))}


def unpack(package, directory):
    os.makedirs(directory, exist_ok=True)
    good("bash", "-c", 'set -o pipefail; rpm2cpio "$0" | (cd "$1" && cpio -idm --quiet)', package, directory)


@pytest.fixture(scope="module")
def packages():
    need(own_suite(), "rpmbuild", "rpm2cpio", "cpio")
    output = good(os.path.join(ROOT, "tools", "package"), "--rpm")
    made = sorted(path for path in glob.glob(os.path.join(OUT, "*.rpm")) if not path.endswith(".src.rpm"))
    assert all(os.path.basename(path) in output for path in made), output
    assert [good("rpm", "-qp", "--qf", "%{NAME}", path) for path in made] == NAMES
    return dict(zip(NAMES, made))


@pytest.fixture(scope="module")
def newer(packages, tmp_path_factory):
    """Returns the next release: the same scripts and files, but another vgpud.conf."""
    top = str(tmp_path_factory.mktemp("newer"))
    files = os.path.join(top, "files")
    for package in packages.values():
        unpack(package, files)
    with open(os.path.join(files, "etc/vgpud/vgpud.conf"), "a", encoding="utf-8") as file:
        file.write("# A comment of the next release.\n")
    sources = os.path.join(top, "SOURCES")
    unpack(glob.glob(os.path.join(OUT, "*.src.rpm"))[0], sources)
    with open(os.path.join(sources, "vgpud.spec"), encoding="utf-8") as file:
        spec = file.read()
    spec, replaced = re.subn(r"^%build\n.*?^(?=# RPM 4\.19)", f"%install\ncp -a {files}/. %{{buildroot}}\n\n", spec,
                             flags=re.M | re.S)
    assert replaced == 1
    spec = re.sub(r"^(Release: +)1%", r"\g<1>2%", spec, flags=re.M)
    path = os.path.join(top, "vgpud.spec")
    with open(path, "w", encoding="utf-8") as file:
        file.write(spec)
    return rpmbuild(top, path)


@pytest.fixture(scope="module")
def vendor(tmp_path_factory):
    made = []
    for version in ("1", "2"):
        top = str(tmp_path_factory.mktemp(f"vendor-{version}"))
        path = os.path.join(top, "vendor.spec")
        with open(path, "w", encoding="utf-8") as file:
            file.write(VENDOR.format(version=version))
        made.append(rpmbuild(top, path)["vendor-opencl"])
    return made


class Root:
    """A Debian with systemd, which does not run."""

    def __init__(self, path):
        self.path = path
        # procps has the kill of ExecReload=.
        make_root(own_suite(), path, include=["systemd", "procps"])

    def rpm(self, *args):
        """Runs rpm for this root. No script may print or fail."""
        done = command("rpm", "--root", self.path, "--dbpath", "/var/lib/rpm", "--nodeps", *args)
        assert done.returncode == 0, (args, done.stdout, done.stderr)
        said = [line for line in (done.stdout + done.stderr).splitlines() if re.search("warning|error|fail", line, re.I)]
        return said

    def run(self, *args):
        return good("unshare", "--mount", "--pid", "--fork", f"--mount-proc={self.path}/proc", "chroot", self.path, "env",
                    "-u", "TMPDIR", *args)

    def at(self, name):
        return os.path.join(self.path, name.lstrip("/"))

    def read(self, name):
        with open(self.at(name), encoding="utf-8") as file:
            return file.read()

    def write(self, name, text):
        with open(self.at(name), "w", encoding="utf-8") as file:
            file.write(text)

    def enabled(self):
        return [unit for unit in UNITS
                if os.path.islink(self.at(f"/etc/systemd/system/multi-user.target.wants/{unit}.service"))]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("root"))
    yield Root(path)
    shutil.rmtree(path, ignore_errors=True)


def copy_libraries(root, program):
    """Copies the libraries that the program in the root lacks from this machine, which runs the same release."""
    for path in re.findall(r"=> (/\S+)", good("ldd", root.at(program))):
        if not os.path.exists(root.at(path)):
            os.makedirs(os.path.dirname(root.at(path)), exist_ok=True)
            shutil.copy(path, root.at(path))


def test_rpmlint(packages):
    if not shutil.which("rpmlint"):
        pytest.skip("there is no rpmlint")
    done = command("rpmlint", "--config", os.path.join(SPECS, "rpmlint.toml"), os.path.join(SPECS, "vgpud.spec"),
                   *packages.values())
    assert done.returncode == 0 and re.search(r" 0 errors, 0 warnings", done.stdout), done.stdout + done.stderr


def test_owners(packages):
    """Files belong to root, except where a service writes."""
    rows = [line.split() for path in packages.values()
            for line in good("rpm", "-qp", "--qf", "[%{FILENAMES} %{FILEUSERNAME} %{FILEGROUPNAME} %{FILEMODES:perms}\n]",
                             path).splitlines()]
    assert {tuple(row) for row in rows if row[1:3] != ["root", "root"]} == {
        ("/etc/vgpud/proxy.d", "root", "vgpu-proxy", "drwxr-x---"),
        ("/var/cache/vgpu-proxy", "vgpu-proxy", "vgpu-proxy", "drwx------"),
        ("/var/lib/vgpu-proxy", "vgpu-proxy", "vgpu-proxy", "drwx------"),
        ("/var/lib/vgpud", "vgpud", "vgpud", "drwxr-x---")}
    for path in packages.values():
        scripts = good("rpm", "-qp", "--scripts", "--filetriggers", path)
        assert "%{" not in scripts and "%systemd" not in scripts, scripts


def test_installed_upgraded_erased(root, packages, newer):
    assert root.rpm("-i", *packages.values()) == []
    assert root.run("stat", "-c", "%U %G %a", "/var/lib/vgpud").strip() == "vgpud vgpud 750"
    assert root.run("stat", "-c", "%U %G %a", "/etc/vgpud/proxy.d").strip() == "root vgpu-proxy 750"
    assert "vgpu-proxy" in root.run("id", "-Gn", "vgpud").split()
    # The presets of the distribution decide. Debian's enable everything.
    assert root.enabled() == UNITS
    assert root.rpm("-V", *NAMES) == []
    for program in ("/usr/sbin/vgpud", "/usr/bin/vgpuctl", "/usr/sbin/vgpu-guestd", "/usr/sbin/vgpu-proxy"):
        copy_libraries(root, program)
        assert "0.1" in root.run(program, "--version")
    root.run("vgpud", "--check-config")
    for unit in UNITS:
        root.run("systemd-analyze", "verify", "--man=no", f"/usr/lib/systemd/system/{unit}.service")

    root.write("/etc/vgpud/vgpud.conf", "[daemon]\nlog_level=debug\n")
    root.write("/etc/vgpud/proxy.d/web.conf", "")
    root.write("/var/lib/vgpud/state.db", "")
    said = root.rpm("-U", *newer.values())
    assert said == ["warning: /etc/vgpud/vgpud.conf created as /etc/vgpud/vgpud.conf.rpmnew"]
    assert root.read("/etc/vgpud/vgpud.conf") == "[daemon]\nlog_level=debug\n"
    assert root.enabled() == UNITS
    installed = good("rpm", "--root", root.path, "--dbpath", "/var/lib/rpm", "-qa", "--qf", "%{NAME} %{RELEASE}\n")
    assert sorted(installed.split("\n")[:-1]) == [f"{name} 2" for name in NAMES]

    said = root.rpm("-e", *NAMES)
    assert said == ["warning: /etc/vgpud/vgpud.conf saved as /etc/vgpud/vgpud.conf.rpmsave"]
    assert root.enabled() == []
    for name in ("/usr/sbin/vgpud", "/usr/bin/vgpuctl", "/usr/lib/systemd/system/vgpud.service", "/etc/vgpud/conf.d",
                 "/etc/OpenCL", "/usr/lib64/vgpud", "/usr/libexec/vgpud"):
        assert not os.path.exists(root.at(name)), name
    # Data and what the owner has written stay.
    assert os.path.exists(root.at("/var/lib/vgpud/state.db"))
    assert sorted(os.listdir(root.at("/etc/vgpud"))) == ["proxy.d", "vgpud.conf.rpmnew", "vgpud.conf.rpmsave"]


def test_vendors_of_opencl(root, packages, newer, vendor):
    """The vendor's .icd file is where only the library reads it, in whatever order packages come and go."""
    theirs, ours = "/etc/OpenCL/vendors/vendor.icd", "/etc/vgpud/opencl-vendors/vendor.icd"

    def where():
        return [root.read(name) if os.path.exists(root.at(name)) else None for name in (theirs, ours)]
    root.rpm("-i", vendor[0])
    assert where() == ["library-1\n", None]
    root.rpm("-i", packages["vgpu-opencl"])
    assert where() == [None, "library-1\n"]
    assert os.path.exists(root.at("/etc/OpenCL/vendors/vgpu-opencl.icd"))
    root.rpm("-U", vendor[1])
    assert where() == [None, "library-2\n"]
    root.rpm("-U", newer["vgpu-opencl"])
    assert where() == [None, "library-2\n"]
    root.rpm("-e", "vgpu-opencl")
    assert where() == ["library-2\n", None]
    root.rpm("-i", packages["vgpu-opencl"])
    root.rpm("-e", "vendor-opencl")
    assert where() == [None, None]
    root.rpm("-i", vendor[0])
    assert where() == [None, "library-1\n"]
    root.rpm("-e", "vendor-opencl", "vgpu-opencl")
    assert where() == [None, None]
