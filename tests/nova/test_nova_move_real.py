# SPDX-License-Identifier: Apache-2.0
"""Moves by nova itself, as Debian 12 has it (26.2, Zed): its API, conductor and scheduler, with its fake
driver in the place of hypervisors. Its packages are unpacked into a cache outside of the tree, or are found
in VG_NOVA_API_ROOT. Only in full runs: 34 MB to download."""
import json
import os
import shutil
import subprocess
import types

import pytest
from novalab import Source, Target
from settings import HANG_S
from test_nova_real import HERE, MODULES, fetch
from vgpud import wait_for

pytestmark = pytest.mark.xdist_group("real-nova")

# What nova's functional tests need besides, and where its api-paste.ini is.
MORE = ["python3-placement", "python3-wsgi-intercept", "python3-oslotest", "python3-requests-mock", "python3-ddt",
        "python3-testscenarios", "python3-subunit", "python3-mock", "python3-extras", "python3-pbr", "nova-common"]
PASTE = "usr/share/nova-common/api-paste.ini"


@pytest.fixture(name="root", scope="session")
def root_fixture():
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    root = os.environ.get("VG_NOVA_API_ROOT") or os.path.join(cache, "vgpud", "nova-26.2-api", "root")
    if not os.path.isdir(root):
        os.makedirs(os.path.dirname(root), exist_ok=True)
        try:
            fetch(root, MORE)
        except (OSError, subprocess.SubprocessError) as problem:
            said = getattr(problem, "stderr", None) or problem
            pytest.skip(f"the packages of nova cannot be had: {str(said).strip()[-300:]}")
    return root


@pytest.fixture(name="target", scope="module")
def target_fixture(tmp_path_factory):
    if not shutil.which("certtool"):
        pytest.skip("certtool (package gnutls-bin) is not installed")
    target = Target(tmp_path_factory.mktemp("target"))
    yield target
    target.daemon.stop()


@pytest.fixture(name="start")
def start_fixture(root, target, tmp_path):
    """A nova with such a driver, and a vgpud that knows it."""
    made = []

    def start(driver, *more, nova_host="host2"):
        directory = tmp_path / "nova"
        directory.mkdir()
        with open(tmp_path / "nova.log", "wb") as log:
            nova = subprocess.Popen(
                ["/usr/bin/python3", "-B", os.path.join(HERE, "real_nova_api.py"), directory, driver,
                 os.path.join(root, PASTE), *more], stdout=log, stderr=log, cwd=tmp_path,
                env={**os.environ, "PYTHONPATH": os.path.join(root, MODULES), "HOME": str(tmp_path),
                     "OS_TEST_TIMEOUT": "0"})

        def ready():
            assert nova.poll() is None, (tmp_path / "nova.log").read_text()[-3000:]
            return (directory / "ready").exists()
        made.append((nova, directory))
        wait_for(ready, pause=0.1)
        cloud = types.SimpleNamespace(**json.loads((directory / "ready").read_text()))
        made.append(Source(
            tmp_path, target, cloud, uuid=cloud.id, peer=f"[peer h2]\nnova_host={nova_host}\n" if nova_host else "",
            nova=f"auth_url={cloud.url}\napplication_credential_id=x\npoll=100ms\ndeadline=1min\nhost=host1\n"
                 f"application_credential_secret_file={tmp_path}/password\n"))
        return made[-1]
    yield start
    if len(made) > 1:
        made[1].daemon.stop()
    (made[0][1] / "stop").touch()
    assert made[0][0].wait(HANG_S) == 0, (tmp_path / "nova.log").read_text()[-3000:]


def test_nova_moves_it(start):
    source = start("fake.MediumFakeDriver")
    move = source.ended(source.move())
    assert (move["state"], move["vm_on"], move["nova_from"], move["nova_to"]) == (
        "done", "target", "host1", "host2"), move


def test_it_is_aborted(start):
    """The driver gives up after five seconds; the machine may be too busy to abort it by then."""
    source = start("fake.FakeLiveMigrateDriver")
    ident = source.move()
    wait_for(lambda: any(step["verb"] == "migrate" for step in source.now(ident)["steps"]))
    source.ctl("migration", "abort", ident)
    move = source.ended(ident)
    assert (move["state"], move["vm_on"]) in (("aborted", "source"), ("done", "target")), move


def test_the_scheduler_refuses_the_host(start):
    source = start("fake.MediumFakeDriver", "disabled")
    move = source.ended(source.move())
    assert (move["state"], move["vm_on"]) == ("rolled_back", "source"), move
    assert "No valid host was found" in move["cause"]


@pytest.mark.parametrize("nova_host, state, words", [("nobody", "rolled_back", "nobody could not be found"),
                                                     (None, "failed", "nova has no hypervisor 'h2'")])
def test_nova_does_not_know_the_host(start, nova_host, state, words):
    source = start("fake.MediumFakeDriver", nova_host=nova_host)
    move = source.ended(source.move())
    assert (move["state"], move["vm_on"]) == (state, "source") and words in move["cause"], move
