# SPDX-License-Identifier: Apache-2.0
"""How long programs with a GPU stand still, as a dry run foretells it, against what the move then takes; and
what is told of a move while it goes on."""
import pytest
from movelab import remove_guest, start_guest, tell
from unixhttp import wait_for

# One after the other: they share the directory of the lab.
pytestmark = pytest.mark.xdist_group("lab")
GUEST = "stander"


def knows(movelab, host, guest):
    wait_for(lambda: movelab.nodes[host].daemon.request("GET", f"/v1/vms/{guest}")[0] == 200)
    movelab.meet()


def stood_still(move):
    """The same from the steps, in seconds."""
    [begin] = [s["began_ns"] for s in move["steps"] if s["verb"] == "quiesce"]
    [end] = [s["ended_ns"] for s in move["steps"] if s["verb"] == "resume"]
    return (end - begin) / 1e9


@pytest.mark.drawn("lab-many")
def test_what_is_told_of_a_move(movelab):
    """Bytes and per cent in the list while it goes on; the standstill at the end, also without an agent."""
    node = movelab.nodes["h1"]
    try:
        start_guest("h1", GUEST)
        knows(movelab, "h1", GUEST)
        node.reload("[actions]\nbandwidth=8\ndowntime=10ms\n")
        check = node.move(GUEST, "h2", 200, dry_run=True)
        assert [word in text for word, text in zip(("own connection", "only QEMU"), check["untried"], strict=True)] == [True] * 2
        assert check["problems"] == [] and check["standstill_s"] == pytest.approx(sum(
            s["expected_s"] for s in check["steps"] if s["verb"] in ("quiesce", "detach", "migrate", "attach", "resume")))
        move = node.move(GUEST, "h2")

        def listed():
            [item] = node.daemon.get("/v1/migrations?active=true")["items"]
            return item["step"] == "migrate" and 0 < item["progress"]["remaining_bytes"] < item["progress"]["total_bytes"]
        wait_for(listed, pause=0.05)
        end = node.ended(move)
        assert end["state"] == "done", end["cause"]
        assert end["standstill_ns"] / 1e9 == pytest.approx(stood_still(end), abs=0.001)
        assert end["downtime_limit_ns"] == 10**7
        [copied] = [s["answer"] for s in end["steps"] if s["verb"] == "migrate"]
        assert ("more than the 10 ms of [actions] downtime" in copied) == (end["progress"]["downtime_ns"] > 10**7)
        knows(movelab, "h2", GUEST)
        back = movelab.nodes["h2"].ended(movelab.nodes["h2"].move(GUEST, "h1", no_agent=True))
        assert back["state"] == "done" and 0 < back["standstill_ns"] < back["ended_ns"] - back["made_ns"]
    finally:
        node.reload("")
        remove_guest(GUEST)


@pytest.mark.host
@pytest.mark.parametrize("mib, dirty", [(256, 0), (256, 40), (512, 60), (1024, 60)])
def test_standstill_is_foretold(movelab, mib, dirty):
    """Five moves of each size, there and back, of a guest that writes: within 30 per cent, but for the first one,
    before which nothing is known of it."""
    where = ["h1", "h2"]
    guest = f"{GUEST}-{mib}-{dirty}"
    wrong = []
    try:
        start_guest("h1", guest, mib=mib)
        for turn in range(5):
            source, target = where
            knows(movelab, source, guest)
            if dirty:
                tell(source, guest, f"dirty {dirty}")
            node = movelab.nodes[source]
            foretold = node.move(guest, target, 200, dry_run=True)["standstill_s"]
            move = node.ended(node.move(guest, target))
            assert move["state"] == "done", move["cause"]
            took = move["standstill_ns"] / 1e9
            print(f"{mib} MiB, {dirty} MiB rewritten, turn {turn}: foretold {foretold:.1f} s, took {took:.1f} s")
            if abs(foretold - took) > 0.3 * took and turn > 0:
                wrong.append((mib, turn, foretold, took))
            where.reverse()
    finally:
        remove_guest(guest)
    assert not wrong
