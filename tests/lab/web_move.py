# SPDX-License-Identifier: Apache-2.0
"""The page in Debian's Chromium while a VM moves between two real libvirt hosts: `tools/check --web`."""
import pytest
from movelab import remove_guest, running_on, start_guest
from pagebrowser import Browser, Ui, why_not
from unixhttp import wait_for

pytestmark = [pytest.mark.skipif(why_not() != "", reason=why_not()), pytest.mark.xdist_group("lab")]
GUEST = "traveller"


@pytest.fixture(name="guest")
def guest_fixture(movelab):
    start_guest("h1", GUEST)
    daemon = movelab.nodes["h1"].daemon
    wait_for(lambda: daemon.request("GET", f"/v1/vms/{GUEST}")[0] == 200)
    wait_for(lambda: daemon.get("/v1/host")["measurement"]["windows"] >= 5)
    yield daemon.get(f"/v1/vms/{GUEST}")["id"]
    remove_guest(GUEST)


def test_a_move_from_its_dry_run_to_its_end(movelab, guest):
    """What it will do, its steps while they happen, and what is left of it."""
    daemon = movelab.nodes["h1"].daemon
    with Ui(daemon.socket) as ui, Browser() as browser:
        browser.open(ui.link)
        browser.go("#/hosts?range=5min")
        assert {row["Host"]: row["State"] for row in browser.table("Hosts")} == {"h1": "alive", "h2": "alive"}
        browser.check("hosts")
        # A chosen time does not keep what happens now from being shown.
        browser.go(f"#/vms/{guest}?since=1577836800&until=2000000000")
        browser.evaluate("document.querySelector('input[name=to]').focus()")
        browser.until("document.querySelector('#hosts option[value=h2]') !== null")
        browser.do("fill", selector="input[name=to]", text="h2")
        browser.do("press", key="Enter")
        browser.until("document.querySelector('.answer button, .answer .bad') !== null")
        expected = [row["Step"] for row in browser.table("Steps it would take")]
        assert running_on(GUEST) == ["h1"] and daemon.get("/v1/migrations")["items"] == []
        browser.shot("lab-dry-run")
        browser.evaluate("""(() => {
            globalThis.seen = [];
            new MutationObserver(() => {
                const head = document.querySelector("main h2")?.innerText;
                if (head && globalThis.seen[globalThis.seen.length - 1] !== head) globalThis.seen.push(head);
            }).observe(document.getElementById("main"), { childList: true });
        })()""")
        browser.click(".answer button")
        browser.until("/: h1 to h2, (done|failed|aborted|rolled_back)$/.test(document.querySelector('main h2')?.innerText)")
        seen = browser.evaluate("globalThis.seen")
        assert seen[-1] == f"{GUEST}: h1 to h2, done" and len([head for head in seen if ": h1 to h2, " in head]) >= 2, seen
        [move] = daemon.get("/v1/migrations")["items"]
        steps = daemon.get(f"/v1/migrations/{move['id']}")["steps"]
        rows = browser.table("Steps")
        assert [(row["Step"], row["Outcome"]) for row in rows] == [(step["verb"], step["answer"]) for step in steps]
        assert [row["Step"] for row in rows] == expected and running_on(GUEST) == ["h2"]
        browser.shot("lab-move")
        browser.check("a move that is done")
        wait_for(lambda: daemon.request("GET", f"/v1/vms/{guest}")[0] == 404)
        browser.go(f"#/vms/{guest}?range=5min")
        assert browser.text().startswith(GUEST) and "It was moved to h2." in browser.text() and move["id"] in browser.text()
        browser.shot("lab-moved")
        # Chromium tells of what is not here.
        assert all("404" in trouble and guest in trouble for trouble in browser.do("forgive"))
        browser.check("a VM that has gone")
        browser.go("#/moves?range=5min")
        browser.click("main button")
        browser.until("location.hash.startsWith('#/moves/plan-') && document.querySelector('main h2').innerText.startsWith('Plan plan-')")
        [plan] = daemon.get("/v1/plans")["items"]
        assert plan["verdict"] in browser.text() and plan["id"] in browser.address()
        browser.shot("lab-plan")
        browser.check("a plan")
