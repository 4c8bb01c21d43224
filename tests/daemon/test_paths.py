# SPDX-License-Identifier: Apache-2.0
"""What a host has at paths, of which some are on a file system that hangs."""
import os
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from settings import HANG_S
from vgpuctl import ROOT
from vgpud import Daemon, wait_for

# Of processes that look or hang (host/path-look.h); each request leaves two of them behind.
LOOKERS_MAX = 16
ACTING = "[actions]\nenabled=yes\n"


def look(daemon, *paths):
    status, _, answer = daemon.post("/v1/paths", {"paths": list(paths)})
    assert status == 200, answer
    return [(item["state"], item["why"] or "") for item in answer["items"]]


def test_a_file_system_that_hangs(tmp_path):
    """Processes that cannot be ended hang there; vgpud answers all else, and ends."""
    if os.geteuid() != 0 or not os.path.exists("/dev/fuse"):
        pytest.skip("needs root and FUSE")
    hung, here = tmp_path / "hung", tmp_path / "here"
    hung.mkdir()
    here.write_text("x")
    prefix = (sys.executable, os.path.join(ROOT, "tests", "lib", "hangfs.py"), str(hung))
    with Daemon(tmp_path, config=ACTING, prefix=prefix) as daemon:
        def look_there(_):
            return look(daemon, f"{hung}/a", f"{hung}/b", str(here))
        with ThreadPoolExecutor(LOOKERS_MAX // 2) as pool:
            for a, b, left in pool.map(look_there, range(LOOKERS_MAX // 2)):
                assert a[0] == b[0] == "failing" and "has not answered for" in a[1], (a, b)
                assert left == ("unknown", "earlier checks have not answered")
        assert look(daemon, str(here)) == [("unknown", f"{LOOKERS_MAX} other checks have not finished")]
        for path in ("/v1/reservations", "/v1/migrations", "/v1/vms", "/metrics"):
            assert daemon.request("GET", path)[0] == 200, path
        # Of a part that the machine holds up, it says that it is not ready.
        wait_for(lambda: daemon.request("GET", "/readyz")[0] == 200)
        daemon.process.terminate()
        assert daemon.process.wait(HANG_S) == 0, daemon.tail()


def mounts(process):
    """Where they are and of which kind, but for what tools/check mounts for itself."""
    with open(f"/proc/{process}/mountinfo", encoding="utf-8") as file:
        found = [line.split() for line in file]
    return {(fields[4], fields[fields.index("-") + 1]) for fields in found} - {("/sys/kernel/tracing", "tracefs")}


def test_what_the_service_hides(tmp_path):
    """A directory over which vgpud alone has mounted another, as the unit's PrivateTmp= does."""
    if os.geteuid() != 0 or mounts("1") != mounts("self"):
        pytest.skip("needs root, and process 1's mounts")
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    for name in ("disk", "hidden/disk"):
        (tmp_path / name).write_text("x")
    hide = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"', str(hidden))
    with Daemon(tmp_path, config=ACTING, prefix=hide) as daemon:
        seen = look(daemon, *(str(tmp_path / name) for name in ("disk", "gone", "hidden/disk", "hidden/gone")))
        why = f"vgpud has its own mount at {hidden} and cannot see the host's"
        assert seen == [("there", ""), ("missing", ""), ("unknown", why), ("unknown", why)]


def test_who_does_not_act_does_not_look(tmp_path):
    with Daemon(tmp_path) as daemon:
        status, _, answer = daemon.post("/v1/paths", {"paths": ["/etc"]})
        assert status == 422 and "actions are disabled" in answer["detail"], answer
