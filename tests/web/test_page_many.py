# SPDX-License-Identifier: Apache-2.0
"""The page of a host with 300 VMs and seven days of figures: requests, bytes, and the CPU time of the browser, which
it prints. `tools/check --host`; the store is made by the real writer in two minutes."""
import os
import subprocess
import time

import pytest
from pagebrowser import Browser, Ui, why_not
from settings import HANG_S
from unixhttp import build_dir
from vgpud import Daemon

VMS, DAYS = 300, 7
REQUESTS_MOST, BYTES_MOST = 8, 4 << 20  # of one page
CPU_MOST_S, TASK_MOST_S = 4.0, 1.0      # of the page's thread; and of one piece of its work, while it does nothing else
pytestmark = [pytest.mark.host, pytest.mark.skipif(why_not() != "", reason=why_not())]


@pytest.fixture(name="daemon", scope="module")
def daemon_fixture(tmp_path_factory):
    directory = tmp_path_factory.mktemp("many")
    end = int(time.time()) - 5
    subprocess.run([os.path.join(build_dir(), "tests", "tools", "store-history"), str(directory / "state"), str(end),
                    str(DAYS * 86400), str(VMS)], check=True, timeout=10 * HANG_S)
    with Daemon(directory, config="[live]\nuse=no\n[gpu]\nenable=no\n") as running:
        running.time = f"since={end - DAYS * 86400}&until={end}"
        yield running


@pytest.mark.parametrize("page", ["host", "preemptions", "vms", "vms/vm-0"])
def test_seven_days_of_300_vms(daemon, page):
    with Ui(daemon.socket) as ui, Browser() as browser:
        browser.open(ui.link)
        browser.evaluate("""(() => {
            globalThis.longest = 0;
            new PerformanceObserver((list) => {
                for (const one of list.getEntries()) globalThis.longest = Math.max(globalThis.longest, one.duration);
            }).observe({ type: "longtask" });
        })()""")
        before, found = browser.do("costs"), browser.do("found")
        began = time.monotonic()
        browser.go(f"#/{page}?{daemon.time}")
        took = time.monotonic() - began
        after, now = browser.do("costs"), browser.do("found")
        longest = browser.evaluate("globalThis.longest") / 1000
        cpu = after["TaskDuration"] - before["TaskDuration"]
        requests, size = now["requests"] - found["requests"], now["bytes"] - found["bytes"]
        print(f"\n{page}: {requests} requests, {size / 1024:.0f} KiB, {cpu:.2f} s of CPU in the browser, longest task {longest:.2f} s, "
              f"shown after {took:.2f} s")
        # The VMs are of the past only, of which Chromium complains.
        assert all("404" in one and "/v1/vms/vm-0" in one for one in browser.do("forgive"))
        browser.check(page)
        if page == "vms":
            assert len(browser.table("VMs")) == VMS
        assert 0 < requests <= REQUESTS_MOST and size <= BYTES_MOST
        assert cpu <= CPU_MOST_S and longest <= TASK_MOST_S
