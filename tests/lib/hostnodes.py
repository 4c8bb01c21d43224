# SPDX-License-Identifier: Apache-2.0
"""Hosts as nodes of libvirt's test driver, and the verbs that are tried on them."""
import json
import os
import shutil
import subprocess
import tempfile

from vgpuctl import ROOT

MOVE_VERB = os.path.join(os.environ.get("VG_BUILDDIR", os.path.join(ROOT, "build")), "tests/tools/move-verb")
MDEV = "c2177883-f1bb-47f0-914d-00000000000%d"
VM = "11111111-2222-4333-8444-00000000000%d"


def pci(bus, ids, function=0, classes="0x030200", more=""):
    vendor, product = ids.split(":")
    return (f"<device><name>pci_0000_{bus:02x}_00_{function}</name><parent>computer</parent><capability type='pci'>"
            f"<class>{classes}</class><domain>0</domain><bus>{bus}</bus><slot>0</slot><function>{function}</function>"
            f"<product id='0x{product}'/><vendor id='0x{vendor}'/>{more}</capability></device>")


def mdev(n, kind="nvidia-230"):
    return (f"<device><name>mdev_{n}</name><parent>pci_0000_41_00_0</parent><capability type='mdev'>"
            f"<type id='{kind}'/><uuid>{MDEV % n}</uuid><iommuGroup number='{n}'/></capability></device>")


def given_mdev(n):
    return (f"<hostdev mode='subsystem' type='mdev' model='vfio-pci'><source><address uuid='{MDEV % n}'/></source>"
            "</hostdev>")


def given_pci(bus, function=0, managed="yes", alias="ua-gpu0"):
    return (f"<hostdev mode='subsystem' type='pci' managed='{managed}'><source><address domain='0x0000' "
            f"bus='0x{bus:02x}' slot='0x00' function='0x{function}'/></source><alias name='{alias}'/></hostdev>")


def domain(n, *devices, name=None, more=""):
    return (f"<domain type='test'><name>{name or f'vm-{n}'}</name><uuid>{VM % n}</uuid><memory unit='MiB'>512</memory>"
            f"<vcpu>2</vcpu><os><type>hvm</type></os>{more}<devices>{''.join(devices)}</devices></domain>")


def write_node(directory, *parts):
    """Returns its URI."""
    (directory / "node.xml").write_text(f"<node>{''.join(parts)}</node>")
    return f"test://{directory}/node.xml"


def verb(*args, devices=(), before=()):
    """BEFORE may be what runs it as a user who cannot look into the build directory."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        done = subprocess.run([*before, shutil.copy(MOVE_VERB, folder), *args], input=json.dumps(devices) if devices else "",
                              text=True, check=False, stdout=subprocess.PIPE)
    return json.loads(done.stdout.splitlines()[-1])
