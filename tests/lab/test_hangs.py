# SPDX-License-Identifier: Apache-2.0
"""A libvirtd hangs (SIGSTOP) while a VM moves: the move ends, or waits and says for whom; nobody else
waits, and the VM is on one host with its GPU in the end. vgpud is stopped in the middle of a move."""
import statistics
import threading
import time

import pytest
from labhost import lab
from movelab import has_gpu, hooks, remove_guest, run, running_on, start_guest
from patience import (PHASES, PROMPT_S, SLOW, check_end, check_hang, every_route, hanging, knows, metric,
                      others_do_not_wait, part, prompt, reached, within)
from unixhttp import wait_for

# One after the other: they share the directory of the lab.
pytestmark = pytest.mark.xdist_group("lab")
GUEST = "patient"
# The daemon ends within 5 s.
STOP_S = 5 + 5
# For which a VM is looked for whose move has not touched it yet, and somewhat more.
LOOK_S = 30 + 5


# ---- in each phase ----

CASES = [(phase, whose) for phase in PHASES for whose in ("source", "target")]


@pytest.mark.drawn("lab-hangs")
@pytest.mark.parametrize("phase, whose", CASES, ids=["-".join(case) for case in CASES])
def test_hangs_in(movelab, way, guest, phase, whose):
    check_hang(movelab, way, guest, phase, whose)


@pytest.mark.drawn("lab-hangs")
def test_abort_and_renewals_while_the_source_hangs(movelab, way, guest):
    """Both work as if nothing hung; the move turns back when libvirtd goes on."""
    source, target = way
    node, other = movelab.nodes[source], movelab.nodes[target]
    node.reload(SLOW + "lease=20s\n")
    move = node.move(guest, target)
    assert reached(node, move, "migrating")
    wait_for(lambda: node.migration(move)["progress"]["processed_bytes"] > 0, pause=0.05)
    with hanging(source):
        [before] = other.reservations()
        wait_for(lambda: other.reservations()[0]["expires_ns"] > before["expires_ns"], pause=0.1)
        with within(PROMPT_S):
            status, _, answer = node.daemon.post(f"/v1/migrations/{move['id']}/abort", {})
        assert status == 202, answer
        wait_for(lambda: source in (node.migration(move)["waits_for"] or ""), pause=0.1)
        [before] = other.reservations()
        wait_for(lambda: other.reservations()[0]["expires_ns"] > before["expires_ns"], pause=0.1)
    end = node.ended(move)
    # libvirt may have been faster than the abort.
    assert end["state"] in ("aborted", "done"), end
    check_end(movelab, guest, end)


@pytest.mark.drawn("lab-many")
def test_the_source_hangs_for_longer_than_a_look(movelab, way, guest):
    """Nobody knows where the VM is: it is looked for until somebody does, and its GPUs are kept for it."""
    source, target = way
    node = movelab.nodes[source]
    node.reload(SLOW + "lease=10s\n")
    move = node.move(guest, target)
    assert reached(node, move, "migrating")
    wait_for(lambda: node.migration(move)["progress"]["processed_bytes"] > 0, pause=0.05)
    with hanging(source):
        wait_for(lambda: node.migration(move)["step"] == "look", pause=0.1)
        wait_for(lambda: time.time() > node.migration(move)["steps"][-1]["began_ns"] / 1e9 + LOOK_S)
        now = node.migration(move)
        assert not now["ended_ns"] and now["step"] == "look" and f"libvirt on '{source}'" in now["waits_for"], now
        assert all(len(n.reservations()) == 1 for n in movelab.nodes.values())
        assert node.daemon.get("/v1/migrations?active=true")["items"][0]["id"] == move["id"]
    check_end(movelab, guest, node.ended(move))


# ---- before a move ----

@pytest.mark.drawn("lab-hangs")
def test_a_reservation_while_the_own_libvirtd_hangs(movelab, way):
    """It is refused in time, and keeps neither readers nor renewals waiting."""
    node = movelab.nodes[way[1]]
    device = {"kind": "named", "type": "standin", "alias": "ua-gpu0"}
    wanted = {"move_id": "move-of-a-test", "vm": "ghost", "uuid": "00000000-0000-4000-9000-0000000000aa",
              "from": way[0], "lease_s": 20, "devices": [device]}
    answers = []
    with hanging(way[1]):
        asking = threading.Thread(target=lambda: answers.append(node.daemon.post("/v1/reservations", wanted)))
        asking.start()
        while asking.is_alive():
            assert prompt(node, "/v1/reservations") == 200
            time.sleep(0.2)
        asking.join()
    [(status, _, answer)] = answers
    assert status == 504 and "qemu:///system" in answer["detail"], answer
    wait_for(lambda: part(node)["state"] == "ok")
    assert node.reservations() == []


@pytest.mark.drawn("lab-hangs")
def test_a_vm_is_shown_whose_libvirtd_hangs(movelab, way, guest):
    """All of it but whether it can be moved, with the address that did not answer."""
    node = movelab.nodes[way[0]]
    with hanging(way[0]):
        shown = " ".join(run(node, "vm", "show", guest).stdout.split())
        assert guest in shown
        assert "movable: unknown, because" in shown and "qemu:///system" in shown.split("movable:")[1], shown


@pytest.mark.drawn("lab-hangs")
def test_a_dry_run_to_a_host_that_hangs(movelab, way, guest):
    """It is answered in time, names that host, and is not followed by a move."""
    source, target = way
    node = movelab.nodes[source]
    with hanging(target):
        status, _, answer = node.daemon.post("/v1/migrations", {"vm": guest, "to": target, "dry_run": True})
        assert status == 504, answer
        assert f"qemu+tcp://{target}/system" in answer["detail"], answer
        assert f"qemu+tcp://{target}/system" in run(node, "migrate", guest, "--to", target, "--dry-run", code=6).stderr
        wait_for(lambda: part(node)["state"] == "degraded")
        assert f"libvirt on '{target}' has not answered since 20" in part(node)["reason"]
        assert metric(node, "vgpud_libvirt_calls_hanging") == 1
        # The next one does not wait again.
        with within(PROMPT_S):
            status, _, answer = node.daemon.post("/v1/migrations", {"vm": guest, "to": target, "dry_run": True})
        assert status == 504 and "has not answered since" in answer["detail"], answer
        others_do_not_wait(movelab)
    wait_for(lambda: part(node)["state"] == "ok")
    status, _, answer = node.daemon.post("/v1/migrations", {"vm": guest, "to": target, "dry_run": True})
    assert status == 200 and answer["problems"] == [], answer


def refused_at_once(movelab, way, guest, words):
    """Both a dry run and a move; the target's libvirt does not answer."""
    source, target = way
    node = movelab.nodes[source]
    status, _, answer = node.daemon.post("/v1/migrations", {"vm": guest, "to": target, "dry_run": True})
    assert status in (502, 504) and words in answer["detail"], answer
    end = node.ended(node.move(guest, target))
    assert end["state"] == "failed" and words in end["cause"], end
    assert [s["verb"] for s in end["steps"] if s["verb"] not in ("look", "precheck", "release")] == [], end
    assert node.reservations() == movelab.nodes[target].reservations() == []


@pytest.fixture
def untouched(way, guest):
    """In the end the guest is where it was, and has not heard of a move."""
    before = hooks(way[0], guest)
    yield
    assert running_on(guest) == [way[0]] and has_gpu(way[0], guest) and hooks(way[0], guest) == before


@pytest.mark.drawn("lab-hangs")
def test_a_move_to_a_host_that_hangs(movelab, way, guest, untouched):
    """It ends before anything is stopped, and names that host."""
    with hanging(way[1]):
        refused_at_once(movelab, way, guest, f"qemu+tcp://{way[1]}/system")
        others_do_not_wait(movelab)


@pytest.mark.drawn("lab-hangs")
def test_a_move_to_a_closed_port(movelab, way, guest, untouched):
    """The target's libvirtd is not there: libvirt's own reason is told."""
    lab("daemon", way[1], "stop")
    try:
        refused_at_once(movelab, way, guest, f"cannot connect to 'qemu+tcp://{way[1]}/system'")
    finally:
        lab("daemon", way[1], "start")


# ---- routes ----

@pytest.mark.drawn("lab-hangs")
def test_no_route_asks_a_host_that_hangs(movelab, way, guest):
    """Whoever waited for it would not be answered while it is stopped, or only once the call was given up."""
    source, target = way
    node = movelab.nodes[source]
    with hanging(target):
        status, _, answer = node.daemon.post("/v1/migrations", {"vm": guest, "to": target, "dry_run": True})
        assert status == 504, answer
        before = metric(node, "vgpud_libvirt_calls_given_up_total")
        routes = every_route(node, guest)
        assert len(routes) > 20 and f"/v1/vms/{guest}/movable" in routes, routes
        for _ in range(3):
            for path in routes:
                assert node.daemon.request("GET", path)[0] in (200, 404), path
            assert node.daemon.post("/v1/plans", {"dry_run": True})[0] in (200, 201)
        assert metric(node, "vgpud_libvirt_calls_given_up_total") == before


def timed(nodes, hung):
    """Seconds that each route of each host takes: the median, and the longest, of 12 seconds or more."""
    took = {}
    for _ in range(48):
        for node, vm in nodes:
            # The first one after a pause waits for the CPU.
            for path in ["/healthz", *every_route(node, vm, hung)]:
                began = time.monotonic()
                assert node.daemon.request("GET", path)[0] in (200, 404, 503), path
                took.setdefault((node.host, path), []).append(time.monotonic() - began)
        time.sleep(0.25)
    return {route: (statistics.median(all_of), max(all_of)) for route, all_of in took.items()}


@pytest.mark.host
@pytest.mark.parametrize("whose", ["source", "target"])
@pytest.mark.usefixtures("guest0")
def test_routes_take_as_long_as_ever(movelab, way, guest, whose):
    """While a move goes on, and then waits for a libvirtd that hangs: at most twice the time, of the medians."""
    source, target = way
    node = movelab.nodes[source]
    bystanders = {"h1": "guest0", "h2": "bystander"}
    nodes = [(movelab.nodes[host], vm) for host, vm in bystanders.items()]
    ratios = {}
    start_guest("h2", "bystander", gpu=False)
    try:
        knows(movelab, "h2", "bystander")
        node.reload("[actions]\nbandwidth=1\n")
        move = node.move(guest, target)
        assert reached(node, move, "migrating")
        host = source if whose == "source" else target
        before = timed(nodes, host)
        assert node.migration(move)["state"] == "migrating"
        with hanging(host):
            after = timed(nodes, host)
        node.daemon.post(f"/v1/migrations/{move['id']}/abort", {})
        check_end(movelab, guest, node.ended(move))
    finally:
        remove_guest("bystander")
    for route in sorted(set(before) & set(after)):
        ratios[route] = after[route][0] / before[route][0]
        print(f"{whose} hangs: {route[0]} {route[1]}: median {before[route][0] * 1e3:.2f} -> {after[route][0] * 1e3:.2f} ms, "
              f"worst {before[route][1] * 1e3:.1f} -> {after[route][1] * 1e3:.1f} ms")
    print(f"{whose} hangs: {len(ratios)} routes, ratio of medians {statistics.median(ratios.values()):.2f}, "
          f"worst {max(ratios.values()):.2f}")
    assert max(ratios.values()) <= 2, ratios


# ---- vgpud is stopped ----

@pytest.mark.drawn("lab-hangs")
@pytest.mark.parametrize("whose", ["source", "target"])
def test_stop_while_a_libvirtd_hangs(movelab, way, guest, whose):
    source, target = way
    node = movelab.nodes[source]
    node.reload(SLOW)
    move = node.move(guest, target)
    assert reached(node, move, "migrating")
    wait_for(lambda: node.migration(move)["progress"]["processed_bytes"] > 0, pause=0.05)
    with hanging(source if whose == "source" else target):
        with within(STOP_S):
            node.daemon.stop()
    movelab.start(source)
    check_end(movelab, guest, node.ended(move))


@pytest.mark.drawn("lab-hangs")
def test_restart_while_it_migrates(movelab, way, guest):
    """libvirt goes on with it, and the next vgpud takes it up: it arrives."""
    source, target = way
    node = movelab.nodes[source]
    node.reload(SLOW)
    move = node.move(guest, target)
    assert reached(node, move, "migrating")
    wait_for(lambda: node.migration(move)["progress"]["processed_bytes"] > 0, pause=0.05)
    node.daemon.stop()
    movelab.start(source)
    end = node.ended(move)
    assert end["state"] == "done", end
    check_end(movelab, guest, end)


@pytest.mark.drawn("lab-hangs")
def test_stop_puts_back(movelab, way, guest):
    """A move that has not come to its migration is turned back by the vgpud that is stopped."""
    source, target = way
    node = movelab.nodes[source]
    move = node.move(guest, target)
    assert reached(node, move, "quiescing")
    node.daemon.stop()
    [line] = [line for line in node.daemon.log().splitlines() if "move state=rolled_back" in line][-1:]
    assert move["id"] in line
    assert has_gpu(source, guest)
    movelab.start(source)
    end = node.migration(move)
    assert end["state"] == "rolled_back" and "vgpud was stopped during the move" in end["cause"], end
    check_end(movelab, guest, end)
