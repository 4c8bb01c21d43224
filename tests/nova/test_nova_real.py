# SPDX-License-Identifier: Apache-2.0
"""The filter and the weigher in the scheduler of nova itself, as Debian 12 has it (26.2, Zed), with 500
hosts. Where it is not installed, its packages are unpacked into a cache outside of the tree, or are found
in VG_NOVA_ROOT (a directory with usr/lib/python3/dist-packages). Only in full runs: 33 MB to download."""
import json
import os
import shutil
import subprocess
import sys

import pytest
from fakevgpud import right
from settings import HANG_S
from test_nova import veto_of
from tlsserver import loopback

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.join(HERE, "..", "..", "integrations", "nova")
MODULES = "usr/lib/python3/dist-packages"

pytestmark = pytest.mark.xdist_group("real-nova")


def fetch(root, more=()):
    """Unpacks nova, the Python packages that it needs, and more packages; raises CalledProcessError or OSError."""
    def run(*command, **options):
        return subprocess.run(command, check=True, timeout=HANG_S * 2, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, **options).stdout
    simulated = run("apt-get", "install", "-s", "--no-install-recommends", "python3-nova")
    names = [line.split()[1] for line in simulated.splitlines() if line.startswith("Inst python3-")]
    names += [name for name in more if name not in names]
    new = root + ".new"
    shutil.rmtree(new, ignore_errors=True)
    os.makedirs(new + "/debs")
    run("apt-get", "download", *names, cwd=new + "/debs")
    for name in os.listdir(new + "/debs"):
        run("dpkg", "-x", os.path.join(new, "debs", name), new)
    shutil.rmtree(new + "/debs")
    os.rename(new, root)


@pytest.fixture(scope="session")
def nova_root():
    named = os.environ.get("VG_NOVA_ROOT")
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if not named and os.path.isdir(os.path.join("/", MODULES, "nova")):
        named = "/"
    root = named or os.path.join(cache, "vgpud", "nova-26.2", "root")
    if not named and not os.path.isdir(root):
        os.makedirs(os.path.dirname(root), exist_ok=True)
        try:
            fetch(root)
        except (OSError, subprocess.SubprocessError) as problem:
            said = getattr(problem, "stderr", None) or problem
            pytest.skip(f"the packages of nova cannot be had: {str(said).strip()[-300:]}")
    if not os.path.isdir(os.path.join(root, MODULES, "nova")):
        pytest.skip(f"no nova in {root}")
    return root


NOVA_CONF = """
[filter_scheduler]
available_filters = nova.scheduler.filters.all_filters
available_filters = vgpud_nova.filters.VgpudFilter
enabled_filters = ComputeCapabilitiesFilter,ImagePropertiesFilter,VgpudFilter
weight_classes = {weighers}
[vgpud]
endpoints = {url}
cafile = {cafile}
token_file = {token}
timeout_ms = {timeout_ms}
"""


@pytest.fixture
def run(nova_root, tmp_path, authority):
    # Python has it since 3.11.
    tomllib = pytest.importorskip("tomllib")
    (tmp_path / "token").write_text("t0ken")

    def case(name, url, timeout_ms=60_000, others="nova.scheduler.weights.all_weighers,"):
        conf = tmp_path / "nova.conf"
        conf.write_text(NOVA_CONF.format(url=url, timeout_ms=timeout_ms,
                                         weighers=others + "vgpud_nova.weighers.VgpudWeigher",
                                         cafile=authority.certificate, token=tmp_path / "token"))
        # As an installed package has it: stevedore finds entry points by these.
        meta = tmp_path / "vgpud_nova-0.dist-info"
        meta.mkdir(exist_ok=True)
        (meta / "METADATA").write_text("Metadata-Version: 2.1\nName: vgpud_nova\nVersion: 0\n")
        with open(os.path.join(PACKAGE, "pyproject.toml"), "rb") as file:
            groups = tomllib.load(file)["project"]["entry-points"]
        (meta / "entry_points.txt").write_text("".join(
            f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in entries.items())
            for group, entries in groups.items()))
        path = [str(tmp_path), PACKAGE, os.path.join(nova_root, MODULES)]
        done = subprocess.run([sys.executable, "-B", os.path.join(HERE, "real_nova.py"), name, conf],
                              env={**os.environ, "PYTHONPATH": ":".join(path), "HOME": str(tmp_path)},
                              capture_output=True, text=True, timeout=HANG_S, check=False)
        print(done.stderr[-20000:])
        assert done.returncode == 0
        return json.loads(done.stdout.splitlines()[-1])
    return case


@pytest.fixture
def tls(fake, authority):
    host, port = loopback()
    return fake((host, port), token="t0ken",
                certificate=authority.issue("nova", f'ip_address = "{host}"'))


def test_filter_and_weigher_by_configuration(run, tls):
    tls.opinion = veto_of(499, 0, 7)
    result = run("hosts", tls.url)
    assert "VgpudFilter" in result["filters"] and "VgpudWeigher" in result["weighers"]
    assert result["patched"]
    order = result["usual"]
    assert len(order) == 497
    assert {name for name, _ in order[:4]} == {"node-99", "node-199", "node-299", "node-399"}
    weights = dict(order)
    assert weights["node-99"] - weights["node-1"] == pytest.approx(0.98)
    # Their vetoes notwithstanding.
    assert [name for name, _ in result["rebuild"]] == ["node-0"]
    assert [name for name, _ in result["forced"]] == ["node-0"]
    assert [name for name, _ in result["target"]] == ["node-7"]
    # Nobody has chosen in the first and in the last.
    assert result["cell"] == 497
    assert len(tls.requests) == 2
    first = tls.requests[0][1]
    assert len(first["hosts"]) == 500 and first["instance"]["extra_specs"] == {
        "vgpud:class": "gpu", "resources:VGPU": "1"}
    assert tls.connections == 1
    print(f"filtered and weighed in {result['usual_s']:.3f} s")


def test_select_destinations(run, tls):
    """Three instances: hosts of different scores are chosen in turn as they fill up. Nova's own
    weighers would spread them over three hosts."""
    scores = {"node-10": 0.95, "node-20": 0.93, "node-30": 0.4}
    tls.opinion = lambda instance, host: {**right(instance, host),
                                          "score": scores.get(host["name"], 0.1)}
    selected = run("select", tls.url, others="")["selected"]
    assert [one[0] for one in selected] == ["node-10", "node-20", "node-10"]
    assert selected[0][1:] and "node-10" not in selected[0][1:]
    assert len(tls.requests) == 1


@pytest.mark.parametrize("how", ["hang", "drip"])
def test_others_go_on_while_vgpud_hangs(run, tls, how):
    tls.act = getattr(tls, how)
    result = run("hung", tls.url, timeout_ms=250)
    assert result["hosts"] == 500 and len(result["weights"]) == 1
    # One before it waits, and at least one while it does.
    assert result["ticks"] >= 2
    assert len(tls.requests) == 1


def test_extra_specs(run):
    assert run("extra_specs", "unix:///none")["refused"] == [
        ["vgpud:class", "fast"], ["vgpud:gpu_type", "a\nb"], ["vgpud:klass", "gpu"]]
