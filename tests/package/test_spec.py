# SPDX-License-Identifier: Apache-2.0
"""The spec for RPM, packaging/debian and configure.ac say the same, and name each file that is installed. Builds no
package."""
import glob
import os
import re
import subprocess

import pytest
from settings import HANG_S
from vgpuctl import ROOT

BUILD = os.environ.get("VG_BUILDDIR", os.path.join(ROOT, "build"))
MACROS = {"_sysconfdir": "/etc", "_sbindir": "/usr/sbin", "_bindir": "/usr/bin", "_libexecdir": "/usr/libexec",
          "_libdir": "/usr/lib64", "_datadir": "/usr/share", "_mandir": "/usr/share/man", "_prefix": "/usr",
          "_docdir": "/usr/share/doc", "_localstatedir": "/var", "_sharedstatedir": "/var/lib",
          "_unitdir": "/usr/lib/systemd/system", "_sysusersdir": "/usr/lib/sysusers.d",
          "_tmpfilesdir": "/usr/lib/tmpfiles.d"}
# Compiled by a path of its own, which the spec sets, too.
INSTALL = ["install", "install-guest", "install-opencl", "install-proxy", "prefix=/usr", "libdir=/usr/lib64",
           "sysconfdir=/etc", "zshcompdir=/usr/share/zsh/site-functions"]


def text(*names):
    with open(os.path.join(ROOT, *names), encoding="utf-8") as file:
        return file.read()


SPEC = text("packaging", "rpm", "vgpud.spec")


def expanded(path):
    return re.sub(r"%\{(\w+)\}", lambda found: MACROS[found.group(1)], path)


def sections(kind):
    """Returns the sections %kind of the spec by package."""
    parts = re.split(r"^%(pre|post|preun|postun|files|changelog|\w*trigger\w*)(?: -n (\S+))?(?: --.*)?$", SPEC, flags=re.M)
    return {package or "vgpud": body for name, package, body in zip(parts[1::3], parts[2::3], parts[3::3]) if name == kind}


def listed():
    """Returns what the spec lists: (package, path, is a directory alone)."""
    with_ust = os.path.exists(os.path.join(BUILD, "vgpud-lttng-ust.so"))
    for package, body in sections("files").items():
        if not with_ust:
            body = re.sub(r"^%if %\{with lttng_ust\}\n.*?^%endif\n", "", body, flags=re.M | re.S)
        for line in body.splitlines():
            words = [word for word in line.split() if not re.match(r"%(attr|config)\b", word)]
            if not words or words[0].startswith(("#", "%if", "%endif", "%license", "%doc")):
                continue
            yield package, expanded(words[-1]), words[0] == "%dir"


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Returns the files that make installs, as paths."""
    root = str(tmp_path_factory.mktemp("installed"))
    done = subprocess.run(["make", "-s", "-C", BUILD, *INSTALL, f"DESTDIR={root}"], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=HANG_S * 5, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = {os.path.join(folder, name)[len(root):] for folder, _, names in os.walk(root) for name in names}
    return {os.path.normpath(name) for name in found}


def test_each_file_is_in_one_package(installed):
    files = installed | {"/etc/vgpud/vgpud.conf", "/usr/lib/firewalld/services/vgpud.xml"}
    owners = {}
    for package, path, is_folder in listed():
        if is_folder:
            continue
        pattern = re.compile(re.escape(path).replace(r"\*", "[^/]*") + "(/.*)?$")
        matched = {name for name in files if pattern.match(name)}
        assert matched, f"{package}: nothing is installed as {path}"
        for name in matched:
            assert name not in owners, f"{name} is in {owners[name]} and {package}"
            owners[name] = package
    # Of these, each package has a copy that it needs.
    missing = {name for name in files - set(owners) if not name.startswith("/usr/share/doc/vgpud/")}
    assert not missing


def test_packages_are_those_of_debian(installed):
    """A file is in the package with the same name."""
    owners = [(package, path) for package, path, is_folder in listed() if not is_folder]
    for name in glob.glob(os.path.join(ROOT, "packaging", "debian", "*.install")):
        package = os.path.basename(name)[:-len(".install")]
        for line in text("packaging", "debian", os.path.basename(name)).splitlines():
            path = "/" + line.split()[0].replace("usr/lib/*/vgpud/", "usr/lib64/vgpud/")
            path = path.replace("zsh/vendor-completions", "zsh/site-functions").replace("/data/vgpud.conf", "/etc/vgpud/vgpud.conf")
            if path.startswith(("/docs/", "/usr/share/doc/")) or path == "/etc/vgpud/guest-hooks.d":
                continue
            assert {of for of, listed_path in owners if path == listed_path.rstrip("*")} == {package}, path


def test_build_requirements():
    """Each library that configure wants is a build dependency of both kinds of packages."""
    configure = text("configure.ac")
    needs = re.findall(r"VG_NEED\(\[\w+\], \[(.*?)\], \[(.*?)\]\)", configure)
    modules = {word for wanted, _ in needs for word in re.findall(r"(?<!\S)([A-Za-z][\w.-]*)", wanted)}
    modules |= {"lttng-ust"}
    assert modules == set(re.findall(r"^BuildRequires: +pkgconfig\((.*?)\)$", SPEC, re.M))
    packages = {package for _, package in needs} | set(re.findall(r"VG_MISSING\(\[[^]]*\], \[([^]]*)\]", configure))
    control = re.search(r"^Build-Depends:\n(.*?)^\S", text("packaging", "debian", "control"), re.M | re.S).group(1)
    assert packages - set(re.findall(r"^ ([\w.-]+)", control, re.M)) == set()


def test_users_are_those_of_sysusers():
    scripts = sections("pre")
    assert sorted(scripts) == ["vgpu-proxy", "vgpud"]
    for package, script in scripts.items():
        entries = [line for line in text("data", "sysusers.d", f"{package}.conf").splitlines() if line[0] != "#"]
        assert re.search(r"<< 'END'.*?\n(.*?)END\n", script, re.S).group(1).splitlines() == entries
        assert f"--replace=%{{_sysusersdir}}/{package}.conf " in script


def test_version():
    version = re.search(r"AC_INIT\(\[vgpud\], \[(.*?)\]\)", text("configure.ac")).group(1)
    assert re.search(r"^Version: +(\S+)$", SPEC, re.M).group(1) == version
    assert re.search(r"^%changelog\n\*.* - (\S+)-\d+$", SPEC, re.M).group(1) == version


def test_units_have_scripts():
    """Each unit is set up, stopped and removed with its package."""
    units = {package: path.rsplit("/", 1)[1] for package, path, _ in listed() if path.startswith(MACROS["_unitdir"])}
    assert len(units) == 3
    for kind in ("post", "preun", "postun"):
        scripts = sections(kind)
        for package, unit in units.items():
            assert re.search(rf"^%systemd_{kind}(_with_restart)? {unit}$", scripts[package], re.M), (kind, package)
