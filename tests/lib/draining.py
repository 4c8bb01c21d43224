# SPDX-License-Identifier: Apache-2.0
"""Empties the first host of tests/lib/movelab.py, asked of the second one."""
import contextlib
import json

from labhost import lab
from movelab import define_guest, remove_guest, run, running_on, start_guest
from settings import full
from unixhttp import wait_for


def knows(node, guest):
    wait_for(lambda: node.daemon.request("GET", f"/v1/vms/{guest}")[0] == 200)


@contextlib.contextmanager
def tenants(node):
    """Guests of the first host, four of them in full, else two; gives the name of the one that is pinned to
    a CPU of its host."""
    names = [f"tenant{n}" for n in range(4 if full() else 2)]
    for name in names[:-1]:
        start_guest("h1", name, gpu=False)
    define_guest("h1", names[-1], "", ("<vcpu>1</vcpu>", "<vcpu cpuset='0'>1</vcpu>"),
                 ("00000000-0000-4000-9000-00000000dea1", "00000000-0000-4000-9000-00000000dea2"))
    lab("virsh", "h1", "-q", "start", names[-1])
    for name in names:
        knows(node, name)
    try:
        yield names[-1]
    finally:
        for name in names:
            remove_guest(name)


def drain_of(node):
    return node.daemon.get("/v1/hosts/h1/drain")


def plan_of(asked):
    return json.loads(run(asked, "host", "drain", "h1", "--dry-run", "-o", "json").stdout)


def empties(site, kept):
    """The whole of it: all but the guest that is kept leave, the host stays in maintenance, also for its
    vgpud that is started anew, and is let go."""
    here, there = site.nodes["h1"], site.nodes["h2"]
    site.meet()
    known = {v["name"] for v in here.daemon.get("/v1/vms")["items"]}
    movable = known - {kept}
    others = [host for host in site.nodes if host != "h1"]
    plan = plan_of(there)
    assert plan["state"] == "planned" and {v["vm"] for v in plan["vms"]} == known
    leave = {v["vm"]: v["to"] for v in plan["vms"] if v["step"] == "waits"}
    assert set(leave) == movable and set(leave.values()) <= set(others), [
        (v["vm"], v["step"], v["reason"]) for v in plan["vms"]]
    here.daemon.get("/v1/hosts/h1/drain", 404)
    said = run(there, "host", "drain", "h1", "--wait", code=4).stderr
    assert kept in said and "VMs have left" in said
    for guest in movable:
        assert running_on(guest) in [[host] for host in others], guest
    assert running_on(kept) == ["h1"]
    done = drain_of(there)
    assert done["state"] == "blocked" and done["moved"] == len(movable) and done["left"] == 1
    steps = {v["vm"]: v for v in done["vms"]}
    assert all(steps[g]["step"] == "moved" for g in movable)
    assert steps[kept]["step"] == "stays" and "pinned" in steps[kept]["reason"]
    in_maintenance(site)
    [home] = running_on("tenant0")
    for dry_run in (False, True):
        refused = site.nodes[home].daemon.post("/v1/migrations", {"vm": "tenant0", "to": "h1", "dry_run": dry_run})
        assert refused[0] == 422 and "host 'h1' is in maintenance" in refused[2]["detail"], refused
    here.daemon.kill()
    site.nodes["h1"] = site.start("h1") if hasattr(site, "start") else here.start()
    # For a moment, it has not read its journal yet.
    wait_for(lambda: here.daemon.request("GET", "/v1/hosts/h1/drain")[0] == 200)
    wait_for(lambda: drain_of(here)["state"] == "blocked" and drain_of(here)["vms"])
    assert drain_of(here)["moved"] == len(movable)
    site.meet()
    run(there, "host", "undrain", "h1")
    here.daemon.get("/v1/hosts/h1/drain", 404)
    run(there, "host", "undrain", "h1", code=3)
    wait_for(lambda: not here.daemon.get("/v1/snapshot")["hosts"][0]["maintenance"])
    bring_back(site, "guest0")


def in_maintenance(site):
    """All know: another vgpud, and a scheduler that asks it."""
    here, there = site.nodes["h1"], site.nodes["h2"]

    def told():
        return {h["name"]: h["summary"]["maintenance"] for h in there.daemon.get("/v1/hosts")["items"]
                if h["summary"]}
    wait_for(lambda: told() == {host: host == "h1" for host in site.nodes})
    assert here.daemon.get("/v1/snapshot")["hosts"][0]["maintenance"]

    def verdicts():
        return there.daemon.post("/v1/nova/placement", {"instance": {"vcpus": 1},
                                                        "hosts": [{"name": "h1"}, {"name": "h2"}]})[2]["hosts"]
    wait_for(lambda: [h["verdict"] for h in verdicts()] == ["veto", "pass"])
    assert "maintenance" in verdicts()[0]["reason"]


def bring_back(site, guest):
    """To the first host."""
    [source] = running_on(guest)
    if source != "h1":
        node = site.nodes[source]
        knows(node, guest)
        assert node.ended(node.move(guest, "h1"))["state"] == "done"
