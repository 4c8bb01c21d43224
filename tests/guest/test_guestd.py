# SPDX-License-Identifier: Apache-2.0
"""vgpu-guestd as a program: the host is this test, /sys and /dev are files, processes are real."""
import json
import os
import random
import subprocess
import time

import pytest
from guestd import LONG_MS, Agent, Guest, at_deadline, is_alive, program
from settings import HANG_S, seed
from unixhttp import wait_for

GPU = {"path": "0000:00/02.1/00.0"}
SHORT_MS = 300


@pytest.fixture(name="guest")
def a_guest(tmp_path):
    with Guest(tmp_path / "guest") as guest:
        yield guest


def prepare(host, deadline_ms=LONG_MS, devices=(GPU,), **members):
    return host.ask("prepare", deadline_ms=deadline_ms, devices=list(devices), **members)


def resume(host, deadline_ms=LONG_MS, devices=(GPU,), **members):
    return host.ask("resume", deadline_ms=deadline_ms, devices=list(devices), **members)


def prepare_until(guest, host, code, began=""):
    """The error at a deadline by which a hook has begun."""
    def ask(deadline_ms):
        guest.write("hooks.log", "")
        return prepare(host, deadline_ms=deadline_ms)
    return at_deadline(ask, lambda done: done.get("code") == code and began in guest.read("hooks.log"), SHORT_MS)


def prepare_held(host, devices=(GPU,)):
    """The error at a deadline by which it was seen who holds a GPU."""
    return at_deadline(lambda ms: prepare(host, deadline_ms=ms, devices=devices), lambda done: done.get("holders"), SHORT_MS)


def test_hello(guest, agent):
    with agent.host(greet=False) as host:
        refused = host.ask("status")
        assert (refused["type"], refused["code"]) == ("error", "hello-first")
        refused = host.ask("hello", versions=[2, 3])
        assert refused["code"] == "version"
        hello = host.ask("hello", versions=[1, 2])
        assert (hello["type"], hello["version"], hello["versions"]) == ("hello", 1, [1])
        assert hello["providers"] == ["hooks", "units", "opencl", "cuda"]
        assert (hello["state"], hello["running"]) == ("idle", None)
        with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as file:
            assert hello["boot_id"] == file.read().strip()
        version = subprocess.run([program(), "--version"], capture_output=True, text=True, check=True)
        assert version.stdout.split() == ["vgpu-guestd", hello["agent"]]
    # With the host, what was agreed on is gone.
    with agent.host(greet=False) as host:
        assert host.ask("status")["code"] == "hello-first"


@pytest.mark.smoke
def test_there_and_back(guest, host):
    guest.add_gpu()
    note = f'echo "$VGPUD_PHASE $VGPUD_DEVICES" >> {guest.root}/env; test "$VGPUD_DEADLINE_MS" -gt 0'
    for name in ("20-b", "10-a", "B", "a"):
        guest.hook("prepare", name, note)
        guest.hook("resume", name, note)
    # Names and files that are none.
    for name in ("10-a.dpkg-old", "10-a~", ".hidden", "#x#"):
        guest.hook("prepare", name, "exit 1")
    os.chmod(os.path.join(guest.hooks, "prepare", "a"), 0o644)
    progress = []
    done = host.ask("prepare", progress, deadline_ms=LONG_MS, devices=[GPU])
    assert done["type"] == "prepared", done
    assert done["already"] is False
    assert done["released"] == [{"path": "0000:00/02.1/00.0", "address": "0000:01:00.0",
                                 "vendor": "0x10de", "device": "0x20b0", "driver": "fake"}]
    assert guest.driver_of("0000:01:00.0") is None
    # The C locale: capitals before small letters.
    assert guest.ran() == ["prepare/10-a", "prepare/20-b", "prepare/B"]
    assert [(h["phase"], h["name"], h["exit"]) for h in done["hooks"]] == [
        ("prepare", "10-a", 0), ("prepare", "20-b", 0), ("prepare", "B", 0)]
    assert done["ram_bytes"] > 0
    assert [(p["step"], p.get("hook")) for p in progress] == [
        ("start", None), ("hook", "10-a"), ("hook", "20-b"), ("hook", "B"), ("holders", None),
        ("unbind", None), ("holders", None)]

    # It goes and comes back elsewhere.
    guest.remove_gpu()
    number = host.request("resume", deadline_ms=LONG_MS, devices=[{"path": "0000:00/03.0/00.0"}])
    waiting = host.until_step("device")
    assert waiting["code"] == "not-found" and "0000:00/03.0/00.0" in waiting["message"]
    guest.add_gpu(address="0000:07:00.0", bridge="0000:00:03.0")
    done = host.answer(number)
    assert done["type"] == "resumed", done
    assert done["devices"][0]["address"] == "0000:07:00.0"
    assert done["devices"][0]["driver"] == "fake"
    # The other way round than preparing.
    assert guest.ran()[3:] == ["resume/a", "resume/B", "resume/20-b", "resume/10-a"]
    assert guest.read("env").splitlines() == (["prepare 0000:01:00.0"] * 3 +
                                              ["resume 0000:07:00.0"] * 4)


def test_driver_is_bound_on_demand(guest, host):
    guest.add_gpu()
    assert prepare(host)["type"] == "prepared"
    # The kernel does not do it by itself, nor when asked to look for a driver.
    guest.probe_driver.clear()
    done = resume(host)
    assert (done["type"], done["devices"][0]["driver"]) == ("resumed", "fake"), done


def test_driver_does_not_come_back(guest, host):
    guest.add_gpu()
    assert prepare(host)["type"] == "prepared"
    guest.probe_driver.clear()
    os.rename(guest.path("sys/bus/pci/drivers/fake"), guest.path("sys/bus/pci/drivers/gone"))
    done = resume(host)
    assert (done["code"], done["undone"]) == ("bind-failed", False), done
    assert "'fake'" in done["message"] and "0000:01:00.0" in done["message"]


def test_no_driver_is_fine(guest, host):
    guest.add_gpu(driver=None, node=None)
    done = prepare(host)
    assert done["released"][0]["driver"] is None
    done = resume(host)
    assert (done["type"], done["devices"][0]["driver"]) == ("resumed", None)


def test_hook_fails(guest, host):
    guest.add_gpu()
    for name in ("1", "2", "3"):
        guest.hook("prepare", name, "echo says $0; printf 'a\\200\\001b' >&2; exit 5" * (name == "2"))
        guest.hook("resume", name)
    guest.hook("resume", "other")
    done = prepare(host)
    assert (done["type"], done["code"], done["undone"]) == ("error", "hook-failed", True), done
    assert (done["hook"], done["phase"], done["exit"]) == ("2", "prepare", 5)
    assert "prepare/2" in done["message"] and "5" in done["message"]
    assert done["output"].endswith("prepare/2\na??b")
    # What ran, and the one that failed, is undone, the last first; nothing else is.
    assert guest.ran() == ["prepare/1", "prepare/2", "resume/2", "resume/1"]
    assert guest.driver_of("0000:01:00.0") == "fake"
    # Then all is as if it had been resumed.
    assert host.ask("hello", versions=[1])["state"] == "resumed"
    assert resume(host)["already"] is True
    assert len(guest.ran()) == 4


def test_output_of_a_hook_is_bounded(guest, host):
    guest.add_gpu()
    guest.hook("prepare", "loud", "yes 0123456789 | head -n 1000000; echo the end; exit 1")
    done = prepare(host)
    assert len(done["output"]) <= 2048 and done["output"].endswith("the end\n")


def test_undoing_fails(guest, host):
    guest.add_gpu()
    guest.hook("prepare", "1")
    guest.hook("prepare", "2", "exit 1")
    guest.hook("resume", "1")
    guest.hook("resume", "2", "exit 9")
    done = prepare(host)
    assert (done["code"], done["hook"], done["undone"]) == ("hook-failed", "2", False)
    assert "resume/2" in done["undo_error"] and "9" in done["undo_error"]
    # The others are tried all the same.
    assert guest.ran()[-1] == "resume/1"
    assert host.ask("hello", versions=[1])["state"] == "failed"


def test_hook_is_late(guest, host):
    guest.add_gpu()
    # Its children are ended with it, also those that do not listen to SIGTERM.
    guest.hook("prepare", "slow", f"trap '' TERM; sleep 100000 & echo $! > {guest.root}/child; "
                                  "wait; wait; sleep 100000")
    guest.hook("prepare", "unreached")
    guest.hook("resume", "slow")
    done = prepare_until(guest, host, "timeout", "prepare/slow")
    assert (done["code"], done["hook"], done["undone"]) == ("timeout", "slow", True), done
    assert done["ended_early"] is True
    assert guest.ran() == ["prepare/slow", "resume/slow"]
    wait_for(lambda: not is_alive(guest.read("child").strip()))


def test_a_daemon_that_a_hook_starts_is_left_alone(guest, host):
    guest.add_gpu()
    # It keeps the hook's output open.
    guest.hook("prepare", "1", f"setsid sleep 100000 & echo $! > {guest.root}/child")
    assert prepare(host)["type"] == "prepared"
    os.kill(int(guest.read("child")), 9)


@pytest.mark.parametrize("how,what", [("open", "open"), ("mapped", "mapped"), ("thread", "open")])
def test_holder_is_named(guest, host, how, what):
    node = guest.add_gpu()
    guest.hook("prepare", "1")
    guest.hook("resume", "1")
    with guest.holder(node, how) as holder:
        done = prepare_until(guest, host, "held")
        assert (done["code"], done["undone"]) == ("held", True), done
        assert done["holders"] == [{"pid": holder.pid, "comm": "python3", "path": node, "how": what}]
        assert done["holders_total"] == 1
        assert str(holder.pid) in done["message"] and node in done["message"]
    assert guest.driver_of("0000:01:00.0") == "fake"
    assert guest.ran() == ["prepare/1", "resume/1"]


def test_holder_of_a_file_of_sysfs(guest, host):
    guest.add_gpu(driver=None, node=None)
    resource = guest.path("sys/devices/pci0000:00/0000:00:02.1/0000:01:00.0/resource2")
    with guest.holder(resource, "mapped") as holder:
        done = prepare_held(host)
        assert [(h["pid"], h["path"], h["how"]) for h in done["holders"]] == [
            (holder.pid, resource, "mapped")]


def test_holder_of_the_same_device_elsewhere(guest, host):
    """A container has nodes of its own: what counts is which device they are."""
    zero = os.stat("/dev/zero").st_rdev
    node = guest.add_gpu(numbers=f"{os.major(zero)}:{os.minor(zero)}")
    with guest.holder("/dev/zero") as holder, guest.holder("/dev/null") as other:
        guest.show_processes(holder.pid, other.pid)
        done = prepare_held(host)
        assert [(h["pid"], h["path"]) for h in done["holders"]] == [(holder.pid, node)]


def test_holder_comes_late(guest, host):
    """After the look, before the driver has let go."""
    node = guest.add_gpu()
    came = []
    guest.before_unbind = lambda: came.append(guest.holder(node))
    number = host.request("prepare", deadline_ms=LONG_MS, devices=[GPU])
    host.until_step("unbind")
    held = host.until_step("holders")
    with came[0] as holder:
        assert [h["pid"] for h in held["holders"]] == [holder.pid]
        host.request("cancel")
        done = host.answer(number)
        assert (done["code"], done["undone"]) == ("cancelled", True), done
        assert done["holders"] == held["holders"]
        assert guest.driver_of("0000:01:00.0") == "fake"


def test_holder_goes_in_time(guest, host):
    node = guest.add_gpu()
    with guest.holder(node) as holder:
        number = host.request("prepare", deadline_ms=LONG_MS, devices=[GPU])
        assert host.until_step("holders")["holders"][0]["pid"] == holder.pid
        assert guest.driver_of("0000:01:00.0") == "fake"
        holder.end()
        assert host.answer(number)["type"] == "prepared"
    assert guest.driver_of("0000:01:00.0") is None


def test_nodes_that_gpus_share(guest, host):
    """NVIDIA's: they count when the last GPU leaves."""
    for number, slot in enumerate((1, 2)):
        guest.add_gpu(address=f"0000:0{slot}:00.0", bridge=f"0000:00:0{slot}.0", driver="nvidia",
                      node=None)
        guest.write(f"dev/nvidia{number}", "")
    guest.write("dev/nvidiactl", "")
    guest.write("dev/nvidia-uvm", "")
    with guest.holder(guest.path("dev/nvidia-uvm")) as common, \
            guest.holder(guest.path("dev/nvidia1")) as second:
        guest.show_processes(common.pid, second.pid)
        for number, slot in enumerate((1, 2)):
            guest.write(f"proc/driver/nvidia/gpus/0000:0{slot}:00.0/information",
                        f"Model: \t A\nDevice Minor: \t {number}\nBlacklisted:\t No\n")
        paths = [{"path": f"0000:00/0{slot}.0/00.0"} for slot in (1, 2)]
        done = prepare_held(host, paths)
        assert {(h["pid"], os.path.basename(h["path"])) for h in done["holders"]} == {
            (common.pid, "nvidia-uvm"), (second.pid, "nvidia1")}
        done = prepare_held(host, paths[1:])
        assert [h["pid"] for h in done["holders"]] == [second.pid]
        assert prepare(host, devices=paths[:1])["type"] == "prepared"


def test_driver_does_not_let_go(guest, host):
    guest.add_driver("stubborn", unbinds=False)
    guest.add_gpu(driver="stubborn")
    guest.hook("prepare", "1")
    guest.hook("resume", "1")
    done = prepare_until(guest, host, "unbind-failed")
    assert (done["code"], done["undone"]) == ("unbind-failed", True), done
    assert "'stubborn'" in done["message"]
    assert guest.ran() == ["prepare/1", "resume/1"]


def test_which_device_is_meant(guest, host):
    guest.add_gpu(address="0000:01:00.0", bridge="0000:00:02.0", node=None, driver=None)
    guest.add_gpu(address="0000:02:00.0", bridge="0000:00:02.1", node=None, driver=None)
    guest.add_gpu(address="0000:03:00.0", bridge="0000:00:02.2", node=None, driver=None,
                  ids=("0x1002", "0x740f"))

    def outcome(*devices):
        done = prepare(host, devices=devices)
        if done["type"] == "error":
            assert done["undone"] is True
            return done["code"], done["message"]
        assert resume(host, devices=devices)["type"] == "resumed"
        return [device["address"] for device in done["released"]]

    nvidia = {"vendor": "0x10de", "device": "0x20B0"}
    assert outcome({"vendor": "0x1002"}) == ["0000:03:00.0"]
    assert outcome({"address": "0000:02:00.0"}) == ["0000:02:00.0"]
    assert outcome({"path": "0000:00/02.0/00.0", **nvidia}) == ["0000:01:00.0"]
    code, message = outcome(nvidia)
    assert code == "ambiguous" and "2 PCI devices" in message and "0x10de" in message
    assert outcome({"path": "0000:00/02.2/00.0", **nvidia})[0] == "not-found"
    code, message = outcome({"path": "0000:00/09.0/00.0"})
    assert code == "not-found" and "0000:00/09.0/00.0" in message
    code, message = outcome({"vendor": "0x1002"}, {"address": "0000:03:00.0"})
    assert code == "ambiguous" and "twice" in message
    guest.add_gpu(address="0000:00:05.0", bridge="", node=None, driver=None, pci_class="0x060400")
    code, message = outcome({"path": "0000:00/05.0"})
    assert code == "bad-request" and "0000:00:05.0 is a bridge" in message
    assert outcome({"path": "0000:00/02.2/00.0"}, {"path": "0000:00/02.0/00.0"}) == [
        "0000:03:00.0", "0000:01:00.0"]


def test_again(guest, host):
    """Preparing what is prepared, resuming what is resumed."""
    node = guest.add_gpu()
    guest.hook("prepare", "1")
    guest.hook("resume", "1")
    assert prepare(host)["already"] is False
    assert prepare(host)["already"] is True
    assert guest.ran() == ["prepare/1"]
    other = prepare(host, devices=[{"vendor": "0x10de"}])
    assert other["code"] == "state"
    # It is looked at again.
    with guest.holder(node):
        assert prepare_held(host)["code"] == "held"
    assert host.ask("hello", versions=[1])["state"] == "prepared"
    guest.remove_gpu()
    gone = prepare(host)
    assert gone["already"] is True
    assert gone["released"] == [{"path": "0000:00/02.1/00.0", "address": None, "vendor": None,
                                 "device": None, "driver": None, "gone": True}]
    late = at_deadline(lambda ms: resume(host, deadline_ms=ms), lambda done: done.get("code") == "not-found", SHORT_MS)
    assert (late["code"], late["undone"]) == ("not-found", True)
    assert host.ask("hello", versions=[1])["state"] == "prepared"
    guest.add_gpu()
    assert resume(host)["already"] is False
    assert resume(host)["already"] is True
    assert guest.ran() == ["prepare/1", "resume/1"]


def test_resume_hook_fails(guest, host):
    guest.add_gpu()
    for name in ("1", "2", "3"):
        guest.hook("resume", name, "exit 3" * (name == "2"))
    prepare(host)
    done = resume(host)
    assert (done["code"], done["hook"], done["undone"]) == ("hook-failed", "2", False)
    assert guest.ran() == ["resume/3", "resume/2", "resume/1"]
    # Then it can be tried again.
    guest.hook("resume", "2")
    assert resume(host)["type"] == "resumed"


def test_same_id_has_the_same_answer(guest, agent):
    guest.add_gpu()
    guest.hook("prepare", "wait", f"while [ ! -e {guest.root}/go ]; do sleep 0.05; done")
    request = {"id": 4711, "deadline_ms": LONG_MS, "devices": [GPU]}
    with agent.host() as host:
        host.request("prepare", **request)
        host.until_step("hook")
    # The host was started anew while it went on.
    with agent.host() as host:
        assert (host.greeting["state"], host.greeting["running"]) == ("preparing", 4711)
        busy = prepare(host)
        assert (busy["code"], busy["running"]) == ("busy", 4711)
        host.request("prepare", **request)
        assert host.receive()["step"] == "hook"
        reused = host.ask("resume", **request)
        assert reused["code"] == "id-reused"
        guest.write("go", "")
        first = host.answer(4711)
        assert first["type"] == "prepared"
    with agent.host() as host:
        assert host.ask("prepare", **request) == first
        assert host.ask("prepare", **{**request, "deadline_ms": 1234})["code"] == "id-reused"
    assert guest.ran() == ["prepare/wait"]


def test_cancel(guest, host):
    node = guest.add_gpu()
    guest.hook("resume", "1")
    nothing = host.ask("cancel")
    assert (nothing["type"], nothing["running"]) == ("cancelled", None)
    guest.hook("prepare", "1", "sleep 100000")
    number = host.request("prepare", deadline_ms=LONG_MS, devices=[GPU])
    host.until_step("hook")
    assert host.ask("cancel")["running"] == number
    done = host.answer(number)
    assert (done["code"], done["undone"]) == ("cancelled", True), done
    guest.hook("prepare", "1")
    with guest.holder(node) as holder:
        number = host.request("prepare", deadline_ms=LONG_MS, devices=[GPU])
        host.until_step("holders")
        host.request("cancel")
        done = host.answer(number)
        assert (done["code"], done["undone"]) == ("cancelled", True), done
        assert done["holders"][0]["pid"] == holder.pid
    guest.remove_gpu()
    number = host.request("resume", deadline_ms=LONG_MS, devices=[{"vendor": "0x10de"}])
    host.until_step("device")
    host.request("cancel")
    assert host.answer(number)["code"] == "cancelled"


def test_a_device_that_is_not_added_in_full(guest, host):
    """The kernel shows a device before it has a place for its memory, and can enable it only then."""
    guest.add_gpu()
    guest.hook("resume", "1")
    assert prepare(host)["type"] == "prepared"
    directory = guest.device_dir("0000:01:00.0")
    with open(os.path.join(directory, "resource"), "w", encoding="ascii") as file:
        file.write("0x0000000000000000 0x00000000000000ff 0x0000000000040200\n" + "0x0 0x0 0x0\n" * 5)
    number = host.request("resume", deadline_ms=LONG_MS, devices=[GPU])
    assert host.until_step("device")["address"] == "0000:01:00.0"
    assert guest.ran() == []
    with open(os.path.join(directory, "resource0"), "w", encoding="ascii"):
        pass
    assert host.answer(number)["type"] == "resumed"
    assert guest.ran() == ["resume/1"]


def test_the_host_hears_of_what_takes_long(guest, host):
    """Takes five seconds: so often a progress is said again."""
    node = guest.add_gpu()
    with guest.holder(node):
        host.request("prepare", deadline_ms=LONG_MS, devices=[GPU])
        first = host.until_step("holders")
        assert host.receive() == first


def test_status(guest, host):
    node = guest.add_gpu()
    guest.add_gpu(address="0000:02:00.0", bridge="0000:00:04.0", pci_class="0x020000", node=None)
    guest.hook("prepare", "10-a")
    with guest.holder(node) as holder:
        status = host.ask("status")
        assert (status["type"], status["state"], status["running"]) == ("status", "idle", None)
        assert status["providers"][0] == {"name": "hooks", "directory": guest.hooks,
                                          "prepare": ["10-a"], "resume": []}
        assert [provider["name"] for provider in status["providers"]] == ["hooks", "units", "opencl", "cuda"]
        [gpu] = status["devices"]
        assert (gpu["path"], gpu["class"], gpu["driver"]) == (GPU["path"], "0x030200", "fake")
        assert node in gpu["nodes"]
        assert [h["pid"] for h in gpu["holders"]] == [holder.pid] and gpu["holders_total"] == 1
        asked = host.ask("status", devices=[{"address": "0000:02:00.0"}, {"vendor": "0x8086"}])
        assert [gpu["address"] for gpu in asked["devices"]] == ["0000:02:00.0"]
        assert asked["missing"] == ["vendor 0x8086"]
        # For a person.
        shown = subprocess.run([program(), "status", "--sysroot", guest.root, "--hooks",
                                guest.hooks], capture_output=True, text=True, check=True).stdout
        for text in (GPU["path"], "10-a", f"{holder.pid} (python3), {node} open", "driver    fake"):
            assert text in shown


def test_status_while_preparing(guest, host):
    guest.add_gpu()
    guest.hook("prepare", "1", "sleep 100000")
    number = host.request("prepare", deadline_ms=LONG_MS, devices=[GPU])
    host.until_step("hook")
    status = host.ask("status")
    assert (status["state"], status["running"]) == ("preparing", number)
    assert len(status["devices"]) == 1


BAD_LINES = [
    (b"{", "bad-request"), (b"}{", "bad-request"), (b"[]", "bad-request"), (b"null", "bad-request"),
    (b"1", "bad-request"), (b"{}", "bad-request"), (b'{"id":1}', "bad-request"),
    (b'{"id":0,"type":"hello","versions":[1]}', "bad-request"),
    (b'{"id":9007199254740993,"type":"hello","versions":[1]}', "bad-request"),
    (b'{"id":1e3,"type":"hello","versions":[1]}', "bad-request"),
    (b'{"id":"1","type":"hello","versions":[1]}', "bad-request"),
    (b'{"id":1,"type":"hello"}', "bad-request"), (b'{"id":1,"type":"hello","versions":[]}', "bad-request"),
    (b'{"id":1,"type":"hello","versions":["1"]}', "bad-request"),
    (b'{"id":1,"type":"fly"}', "unknown-type"), (b'{"id":1,"type":7}', "bad-request"),
    (b'{"id":1,"type":"prepare","deadline_ms":1000}', "bad-request"),
    (b'{"id":1,"type":"prepare","deadline_ms":99,"devices":[{"vendor":"0x10de"}]}', "bad-request"),
    (b'{"id":1,"type":"prepare","deadline_ms":3600001,"devices":[{"vendor":"0x10de"}]}', "bad-request"),
    (b'{"id":1,"type":"prepare","deadline_ms":1000,"devices":[]}', "bad-request"),
    (b'{"id":1,"type":"prepare","deadline_ms":1000,"devices":[{}]}', "bad-request"),
    (b'{"id":1,"type":"prepare","deadline_ms":1000,"devices":[{"path":"../etc"}]}', "bad-request"),
    (b'{"id":1,"type":"prepare","deadline_ms":1000,"devices":[{"path":"0000:00/00.0\\u0000x"}]}', "bad-request"),
    (b'{"id":1,"type":"prepare","deadline_ms":1000,"devices":[{"address":"01:00.0"}]}', "bad-request"),
    (b'{"id":1,"type":"prepare","deadline_ms":1000,"devices":[{"vendor":4318}]}', "bad-request"),
    (b'{"id":1,"type":"proxy","at":"proxy:/run/vgpu-proxy.sock","token":"0123456789abcdef"}', "bad-request"),
    (b'{"id":1,"type":"proxy","at":"proxy:tcp:a b:1","token":"0123456789abcdef"}', "bad-request"),
    (b'{"id":1,"type":"proxy","at":"proxy:tcp:' + b"h" * 128 + b':1","token":"0123456789abcdef"}', "bad-request"),
    (b'{"id":1,"type":"proxy","at":"proxy:tcp:h:1"}', "bad-request"),
    (b'{"id":1,"type":"proxy","at":"proxy:tcp:h:1","token":"0123456789abcde"}', "bad-request"),
    (b'{"id":1,"type":"proxy","at":"proxy:tcp:h:1","token":"0123456789abcdef\\n"}', "bad-request"),
    (b'{"id":1,"type":"proxy","at":"proxy:tcp:h:1","token":"' + b"t" * 65 + b'"}', "bad-request"),
    (b'{"id":1,"type":"hello","versions":[1]} x', "bad-request"),
    (b"\xff\xfe\x00", "bad-request"), (b"[" * 5000, "bad-request"),
    (b'{"a":' * 5000, "bad-request"),
]


def test_proxy(guest, host):
    """What the host says of a proxy is noted for programs of any user, all of it or nothing, and goes when it says so."""
    os.mkdir(guest.path("run"))
    place, token = "run/vgpu-guestd/proxy", "run/vgpu-guestd/proxy.token"
    for at, secret, changed in (("proxy:tcp:192.168.122.1:7000", "0123456789abcdef", True),
                                ("proxy:tcp:192.168.122.1:7000", "0123456789abcdef", False),
                                ("proxy:tcp:192.168.122.1:7000", "f" * 64, True), ("proxy:vsock:2:7000", "f" * 64, True),
                                ("proxy:tls:192.168.122.1:7000", "f" * 64, True)):
        told = host.ask("proxy", at=at, token=secret)
        assert (told["type"], told["at"], told["changed"]) == ("proxy", at, changed)
        assert (guest.read(place), guest.read(token)) == (at + "\n", secret + "\n")
        assert [os.stat(guest.path(path)).st_mode & 0o777 for path in (place, token)] == [0o644, 0o644]
    assert f"OpenCL      {at}" in subprocess.run([program(), "status", "--sysroot", guest.root], text=True, check=True,
                                                 capture_output=True).stdout
    for changed in (True, False):
        told = host.ask("proxy")
        assert (told["type"], told["at"], told["changed"]) == ("proxy", None, changed)
        assert sorted(os.listdir(guest.path("run/vgpu-guestd"))) == []
    os.mkdir(guest.path(place + ".new"))
    refused = host.ask("proxy", at=at, token=secret)
    assert (refused["code"], guest.read(place)) == ("internal", "")


def test_bad_lines(host):
    for line, code in BAD_LINES:
        host.send(line + b"\n")
        answer = host.receive()
        assert (answer["type"], answer["code"]) == ("error", code), line
        assert answer["message"]
        assert answer["id"] in (None, 1)
    many = json.dumps([{"vendor": "0x10de"}] * 17)
    host.send(b'{"id":1,"type":"prepare","deadline_ms":1000,"devices":%s}\n' % many.encode())
    assert "16" in host.receive()["message"]
    # Lines can be empty, end as on other systems, come in parts, and have what the agent does not know.
    host.send(b"\n\r\n\n")
    for part in (b'{"id":77,"ty', b'pe":"hello",', b'"new":{"a":1},"versions":[1]}\r', b"\n"):
        host.send(part)
        time.sleep(0.01)
    assert host.receive()["id"] == 77


def test_any_bytes(host):
    chance = random.Random(seed())
    for _ in range(200):
        host.send(bytes(chance.randrange(256) for _ in range(chance.randrange(300))) + b"\n")
    number = host.request("hello", versions=[1])
    host.until(lambda m: m["id"] == number and m["type"] == "hello")


def test_long_line(agent, host):
    edge = json.dumps({"id": 5, "type": "hello", "versions": [1], "pad": ""}).encode()
    host.send(edge[:-2] + b"x" * (65536 - len(edge)) + edge[-2:] + b"\n")
    assert host.receive()["id"] == 5
    host.send(edge[:-2] + b"x" * (65537 - len(edge)) + edge[-2:] + b"\n")
    answer = host.receive()
    assert (answer["id"], answer["code"]) == (None, "too-long")
    block = b'{"id":1,"type":"hello","versions":[1]}' * 20000
    for _ in range((1 << 30) // len(block) + 1):
        host.send(block)
    assert host.receive()["code"] == "too-long"
    host.send(b"\n")
    assert host.ask("hello", versions=[1])["type"] == "hello"
    assert agent.memory_kib() < 65536


def test_host_that_does_not_read(agent, host):
    host.socket.settimeout(1)
    line = b'{"id":1,"type":"hello","versions":[1]}\n' * 1000
    with pytest.raises(TimeoutError):
        for _ in range(1000):
            host.send(line)
    assert agent.memory_kib() < 65536
    host.socket.close()
    host.lines.close()
    with agent.host() as another:
        assert another.greeting["type"] == "hello"


def test_one_host_after_the_other(guest, agent):
    with agent.host() as first:
        # Half a line of a host that has gone is not the beginning of the next one's.
        first.send(b'{"id":1,"type":"he')
    for _ in range(20):
        with agent.host() as host:
            assert host.greeting["type"] == "hello"


def test_end_kills_hooks(guest, agent):
    guest.add_gpu()
    guest.hook("prepare", "1", f"trap '' TERM; echo $$ > {guest.root}/pid; sleep 100000 & wait; wait")
    with agent.host() as host:
        host.request("prepare", deadline_ms=LONG_MS, devices=[GPU])
        pid = wait_for(lambda: guest.read("pid").strip())
        agent.stop()
    wait_for(lambda: not is_alive(pid))
    assert not os.path.exists(agent.socket)


def test_killed_agent_leaves_no_hook(guest):
    guest.add_gpu()
    guest.hook("prepare", "1", f"echo $$ > {guest.root}/pid; sleep 100000 & wait")
    with Agent(guest) as agent, agent.host() as host:
        host.request("prepare", deadline_ms=LONG_MS, devices=[GPU])
        pid = wait_for(lambda: guest.read("pid").strip())
        agent.process.kill()
        agent.process.wait()
        wait_for(lambda: not is_alive(pid))


def test_port_that_is_not_there(guest):
    """It waits for it, and a port that is opened is told apart from one that another program has."""
    port = guest.path("port")
    with open(guest.path("err"), "w", encoding="utf-8") as err:
        process = subprocess.Popen([program(), "--port", port, "--sysroot", guest.root], stderr=err)
    try:
        wait_for(lambda: "cannot open" in guest.read("err"))
        os.mkfifo(port)
        wait_for(lambda: "opened port" in guest.read("err"))
    finally:
        process.terminate()
        assert process.wait(HANG_S) == 0


def test_usage():
    for args in (["fly"], ["status", "x"], ["--unknown"]):
        done = subprocess.run([program(), *args], capture_output=True, text=True)
        assert done.returncode == 2 and "--help" in done.stderr


def test_install_guest(tmp_path):
    build = os.path.dirname(program())
    if not os.path.exists(os.path.join(build, "Makefile")):
        pytest.skip(f"{build} is no build directory")
    subprocess.run(["make", "-s", "-C", build, "install-guest", f"DESTDIR={tmp_path}"], check=True)
    files = {os.path.relpath(os.path.join(where, name), tmp_path)
             for where, _, names in os.walk(tmp_path) for name in names}
    assert {os.path.basename(file) for file in files} == {"vgpu-guestd", "vgpu-guestd.service",
                                                          "vgpu-guestd.8", "vgpu-guestd.conf", "security.md"}
    for phase in ("prepare", "resume"):
        assert os.path.isdir(tmp_path / "etc/vgpud/guest-hooks.d" / phase)
    [unit] = [file for file in files if file.endswith(".service")]
    [agent] = [file for file in files if os.path.basename(file) == "vgpu-guestd"]
    assert f"ExecStart=/{agent}\n" in (tmp_path / unit).read_text()
    # What its owner has written stays.
    conf = tmp_path / "etc/vgpud/vgpu-guestd.conf"
    conf.write_text("[units]\nstop=\n")
    subprocess.run(["make", "-s", "-C", build, "install-guest", f"DESTDIR={tmp_path}"], check=True)
    assert conf.read_text() == "[units]\nstop=\n"
    shown = subprocess.run([tmp_path / agent, "--version"], capture_output=True, text=True, check=True)
    assert shown.stdout.startswith("vgpu-guestd ")


def test_it_fits_into_any_guest(tmp_path):
    """libc alone, and small."""
    needed = subprocess.run(["readelf", "-d", program()], capture_output=True, text=True, check=True)
    libraries = [line.split("[")[1].rstrip("]") for line in needed.stdout.splitlines()
                 if "(NEEDED)" in line]
    symbols = subprocess.run(["nm", "-D", program()], capture_output=True, text=True, check=True)
    if "__asan_init" in symbols.stdout or "__tsan_init" in symbols.stdout:
        pytest.skip("a sanitizer is in it")
    # The loader is a part of libc.
    assert [name for name in libraries if not name.startswith("ld-linux")] == ["libc.so.6"]
    small = tmp_path / "small"
    subprocess.run(["strip", "-o", small, program()], check=True)
    # gcc 14 makes 235 KiB of it, gcc 12 less.
    assert small.stat().st_size < 288 * 1024
