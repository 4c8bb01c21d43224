# SPDX-License-Identifier: Apache-2.0
"""vgpuctl top in a terminal, against a running vgpud."""
import os
import re
import signal

import pytest
import vgpuctl
from settings import HANG_S
from terminal import Terminal
from vgpud import LTTNG, VM_MAP, Daemon, pause, wait_for, write_text_trace

NAMES = ["vm-busy", "vm-duty", "vm-idle"]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    with Daemon(tmp_path_factory.mktemp("top"), "--speed", "max", "--vm-map", VM_MAP, "--host",
                "demo-host", replay=LTTNG) as running:
        yield running.replayed()


@pytest.fixture
def slow_daemon(tmp_path):
    """One whose figures go on changing."""
    trace = tmp_path / "trace.txt"
    write_text_trace(trace, 1000, 30)
    with Daemon(tmp_path, "--speed", "1", replay=trace, config="[daemon]\nwindow=100ms\n") as running:
        wait_for(lambda: running.get("/v1/host")["measurement"]["windows"] > 1)
        yield running


def top(daemon, *args, **kwargs):
    return Terminal(vgpuctl.program(), "top", "--socket", daemon.socket, *args, **kwargs)


def rows(screen):
    """The table of VMs, by name."""
    lines = [line for line in screen.lines() if line.split(" ")[0] in NAMES]
    return {line.split()[0]: line.split() for line in lines}


def order(screen):
    return list(rows(screen))


def per_s(value):
    return f"{value:.0f}" if value >= 99.95 else f"{value:.1f}"


@pytest.mark.smoke
def test_figures_are_those_of_the_api(daemon):
    measurement = daemon.get("/v1/host")["measurement"]
    period_ns = measurement["end_ns"] - measurement["begin_ns"]
    with top(daemon, columns=120) as terminal:
        terminal.wait("q quit")
        shown = rows(terminal.screen)
        assert "demo-host" in terminal.screen.lines()[0]
        assert "replay, ended" in terminal.screen.lines()[0]
        assert "confidence 100 %" in terminal.screen.lines()[1]
        assert f"3 VMs, {period_ns / 1e9:.1f} s since vgpud started" in terminal.screen.lines()[2]
        for vm in daemon.get("/v1/vms")["items"]:
            lost = vm["preempt_ns"] + vm["wake_wait_ns"]
            worst = max(vm["lost_to"], key=lambda loss: loss["ns"])
            assert shown[vm["name"]][:9] == [
                vm["name"], vm["class"], f"{vm['run_ns'] / period_ns:.2f}",
                f"{lost / period_ns:.2f}", per_s(vm["preemptions"] / period_ns * 1e9),
                worst["aggressor"], f"{worst['ns'] / period_ns:.2f}",
                f"{vm['guest_ns'] / vm['run_ns'] * 100:.0f}", "-"]
            assert shown[vm["name"]][10].startswith("replay:")
        terminal.press("q")
        assert terminal.end() == 0


def test_sort_keys(daemon):
    with top(daemon) as terminal:
        terminal.wait(lambda screen: order(screen)[-1:] == ["vm-idle"])
        terminal.press("n")
        terminal.wait(lambda screen: order(screen) == NAMES and "VM▲" in screen.text())
        terminal.press("n")
        terminal.wait(lambda screen: order(screen) == NAMES[::-1] and "VM▼" in screen.text())
        for key, header in (("u", "USED"), ("l", "LOST"), ("p", "PRE/s")):
            terminal.press(key)
            terminal.wait(lambda screen, h=header: f"{h}▼" in screen.text() and
                          order(screen)[-1] == "vm-idle")
        terminal.press("r")
        terminal.wait(lambda screen: "PRE/s▲" in screen.text() and order(screen)[0] == "vm-idle")
        terminal.press("<")
        terminal.wait("LOST▼")
        terminal.press("?")
        terminal.wait("Columns, and the keys that sort by them")
        terminal.press("x")
        terminal.wait("q quit")


def test_figures_move_and_a_pause_holds_them(slow_daemon):
    with top(slow_daemon, "--watch=0.2") as terminal:
        terminal.wait(lambda screen: "last 0." in screen.lines()[2])
        before = terminal.screen.text()
        terminal.wait(lambda screen: screen.text() != before)
        terminal.press(" ")
        terminal.wait("PAUSED")
        wait_for(lambda: terminal.is_still(1))
        held = terminal.screen.text()
        assert "PAUSED" in held
        terminal.press(" ")
        terminal.wait(lambda screen: "PAUSED" not in screen.text() and
                      screen.lines()[2:] != held.split("\n")[2:])
        terminal.press("m")
        terminal.wait("since vgpud started")


def test_detail(daemon):
    with top(daemon, "--watch=0.2") as terminal:
        terminal.wait("q quit")
        terminal.press("n", "n", "n", "home", "down", "enter")
        vm = daemon.get("/v1/vms/vm-duty")
        terminal.wait(f"vm-duty  unknown, class cpu, pid {vm['pid']}, vm-duty")
        terminal.wait(f" {vm['vcpus'][0]['tid']} ")
        takers = [loss["aggressor"] for loss in vm["lost_to"]]

        def shares(screen):
            return {row.split()[0]: float(row.split()[2]) for row in screen.lines()
                    if row.split(" ")[0] in takers and len(row.split()) == 4}
        terminal.wait(lambda screen: sorted(shares(screen)) == sorted(takers) and
                      "The last 5 min" in screen.text() and
                      re.search(r"used, up to 0\.[0-9]+ +[▁▂▃▄▅▆▇█]", screen.text()))
        assert abs(sum(shares(terminal.screen).values()) - 100) < 1
        terminal.press("-")
        terminal.wait("The last 60.0 s")
        terminal.press("escape")
        terminal.wait(lambda screen: order(screen) == NAMES)
        terminal.press("enter")
        terminal.wait("vm-duty  unknown")
        terminal.press("q")
        terminal.wait(lambda screen: order(screen) == NAMES)


def test_resize(daemon):
    with top(daemon, columns=60) as terminal:
        terminal.wait("q quit")
        assert "SOURCE" not in terminal.screen.text()
        terminal.set_size(40, 130)
        terminal.wait(lambda screen: "q quit" in screen.lines()[39] and "SOURCE" in screen.text() and
                      screen.text().count("q quit") == 1)
        terminal.set_size(6, 20)
        terminal.wait(lambda screen: screen.lines()[5].startswith("q quit") and
                      "vm-" in screen.lines()[4])
        terminal.set_size(1, 1)
        terminal.watch(0.3)
        terminal.set_size(30, 90)
        terminal.wait(lambda screen: "q quit" in screen.lines()[29] and len(order(screen)) == 3)
        terminal.press("q")
        assert terminal.end() == 0


@pytest.mark.parametrize("how", [{"TERM": "dumb"}, {"TERM": None}, {"TERM": ""},
                                 {"TERM": "no-such-terminal"}, "--plain", "-ojson", "-n2"], ids=str)
def test_terminals_without_a_screen_and_plain_output(daemon, how):
    env, args = (how, []) if isinstance(how, dict) else ({}, [how])
    with top(daemon, "--watch=0.1", *args, env=env) as terminal:
        terminal.wait(lambda screen: terminal.raw.count(b"vm-busy") > 1)
        assert b"\033[?1049h" not in terminal.raw
        assert "q quit" not in terminal.screen.text()
        if how != "-n2":
            os.kill(terminal.process.pid, signal.SIGINT)
            assert terminal.end() == -signal.SIGINT
        else:
            assert terminal.end() == 0
        assert terminal.is_restored()


def test_a_daemon_that_goes_and_comes_back(tmp_path):
    with Daemon(tmp_path, "--speed", "max", "--vm-map", VM_MAP, replay=LTTNG) as daemon:
        daemon.replayed()
        with top(daemon, "--watch=0.1") as terminal:
            terminal.wait("vm-busy")
            daemon.kill()
            terminal.wait("retrying: ")
            assert "vgpud" in terminal.screen.lines()[-1]
            assert len(order(terminal.screen)) == 3
            terminal.press("n")
            terminal.wait("VM▲")
            with Daemon(tmp_path, "--speed", "max", replay=LTTNG) as again:
                # Without the map they have other names.
                terminal.wait(lambda screen: "q quit" in screen.lines()[-1] and
                              "qemu-" in screen.text())
                assert "vm-busy" not in terminal.screen.text()
                again.stop()
            terminal.wait("retrying: ")
            terminal.press("q")
            assert terminal.end() == 0 and terminal.is_restored()


def test_keys_are_answered_while_vgpud_hangs(tmp_path):
    with Daemon(tmp_path, "--speed", "max", "--vm-map", VM_MAP, replay=LTTNG) as daemon:
        daemon.replayed()
        with top(daemon, "--watch=0.1") as terminal:
            terminal.wait("vm-busy")
            pause(daemon.process.pid)
            terminal.wait("vgpud has not answered for")
            terminal.press("n")
            terminal.wait("VM▲")
            terminal.press("q")
            terminal.wait(lambda screen: not screen.other)
            assert terminal.end() == 0
        daemon.process.send_signal(signal.SIGCONT)


@pytest.mark.parametrize("signum", [None, signal.SIGTERM, signal.SIGINT, signal.SIGHUP],
                         ids=lambda signum: signum.name if signum else "q")
def test_the_terminal_is_restored(daemon, signum):
    with top(daemon) as terminal:
        terminal.wait("q quit")
        assert terminal.screen.other and not terminal.screen.cursor_shown
        assert not terminal.is_restored()
        if signum == signal.SIGINT:
            terminal.press("\003")
        elif signum:
            os.kill(terminal.process.pid, signum)
        else:
            terminal.press("q")
        assert terminal.end() == (-signum if signum else 0)
        assert terminal.is_restored() and terminal.screen.text().strip() == ""


def test_it_stops_and_goes_on(daemon):
    command = f"'{vgpuctl.program()}' top --socket '{daemon.socket}'; " \
              "echo stopped $?; read line; fg > /dev/null; echo ended $?"
    with Terminal("/bin/bash", "--norc", "-mc", command) as terminal:
        terminal.wait("q quit")
        terminal.press("\032")
        terminal.wait("stopped 148")
        assert terminal.is_restored()
        assert "q quit" not in terminal.screen.text()
        terminal.press("enter")
        terminal.wait("q quit")
        assert order(terminal.screen)[-1] == "vm-idle"
        terminal.press("q")
        assert terminal.end() == 0
        assert "ended 0" in terminal.screen.text() and terminal.is_restored()


def test_without_utf8_all_is_ascii(daemon):
    with top(daemon, "--watch=0.2", env={"LC_ALL": "C"}) as terminal:
        terminal.wait("LOSTv")
        terminal.press("enter")
        terminal.wait(lambda screen: re.search(r"up to [0-9.]+ +[_.:=+*#-]", screen.text()))
        terminal.press("q", "q")
        assert terminal.end() == 0
        assert max(terminal.raw) < 0x80


def test_without_colours(daemon):
    colour = re.compile(rb"\033\[[0-9;]*[34][0-7]m")
    with top(daemon, env={"NO_COLOR": "1"}) as terminal:
        terminal.wait("q quit")
        assert not colour.search(terminal.raw)
    with top(daemon) as terminal:
        terminal.wait(lambda screen: colour.search(terminal.raw))


@pytest.mark.parametrize("columns", [82, 120])
def test_names_that_would_break_a_screen(tmp_path, columns):
    vm_map = tmp_path / "map"
    vm_map.write_text("120 \033[2J\u202ea\n121 " + "日本語" * 7 + "\n122 \x9b31m\n",
                      encoding="utf-8")
    with Daemon(tmp_path, "--speed", "max", "--vm-map", vm_map, replay=LTTNG) as daemon:
        daemon.replayed()
        # The emulator refuses control characters.
        with top(daemon, columns=columns) as terminal:
            terminal.wait("q quit")
            lines = terminal.screen.lines()
            table = next(i for i, line in enumerate(lines) if line.startswith("VM "))
            assert sorted(line[:4] for line in lines[table + 1:table + 4]) == \
                ["?31m", "?[2J", "日本語日"]
            at = next(row for row in terminal.screen.cells if row[0] == "日")
            # In columns of the screen: all 42 of the name fit, or not, and what is behind it keeps its place.
            assert "".join(at[:42]) == "日本語" * 7 if columns == 120 else \
                "…" in "".join(at)
            header = terminal.screen.cells[table]
            assert at["".join(header).index("CLASS")] == "c"
            terminal.press("n", "home", "enter")
            terminal.wait("LOST CPU TO")
            terminal.press("q", "q")
            assert terminal.end() == 0


def test_a_daemon_that_is_not_there_from_the_start(tmp_path):
    missing = str(tmp_path / "no.sock")
    with Terminal(vgpuctl.program(), "top", "--socket", missing, columns=200) as terminal:
        assert terminal.end() == 7
        assert missing in terminal.screen.text() and b"\033[?1049h" not in terminal.raw
        assert terminal.is_restored()


def test_a_terminal_that_is_gone_ends_it(daemon):
    with top(daemon, "--watch=0.1") as terminal:
        terminal.wait("q quit")
        os.close(terminal.master)
        assert terminal.process.wait(HANG_S) in (1, -signal.SIGHUP)
        terminal.master = os.open("/dev/null", os.O_RDONLY)


# ---- filter, delay, help ----

def test_filter(daemon):
    with top(daemon, columns=80, rows=24) as terminal:
        terminal.wait(lambda screen: len(order(screen)) == 3)
        terminal.press("/")
        terminal.wait("name has: _")
        terminal.press("BUS")
        terminal.wait(lambda screen: order(screen) == ["vm-busy"] and "1 of 3 VMs" in screen.text())
        terminal.press("x")
        terminal.wait("no VM name contains this text")
        terminal.press("\x7f\r")
        # q is a letter no more.
        terminal.wait(lambda screen: order(screen) == ["vm-busy"] and "q quit" in screen.text())
        terminal.press("\r")
        terminal.wait("VCPU")
        terminal.press("q")
        terminal.wait(lambda screen: order(screen) == ["vm-busy"])
        terminal.press("escape")
        terminal.wait(lambda screen: len(order(screen)) == 3 and "1 of 3" not in screen.text())
        terminal.press("q")
        assert terminal.end() == 0


def test_delay(daemon):
    with top(daemon, columns=80, rows=24) as terminal:
        terminal.wait("q quit")
        for typed in ("0", "1e9", "soon", "2 s"):
            terminal.press("d" + typed + "\r")
            terminal.wait("enter a number of seconds")
        terminal.press("d")
        terminal.wait("seconds between updates: _")
        terminal.press("0.2\r")
        terminal.wait("q quit")
        terminal.press("q")
        assert terminal.end() == 0


def test_position_and_help_on_a_low_screen(daemon):
    with top(daemon, columns=80, rows=7) as terminal:
        terminal.wait(lambda screen: re.search(r"1-2 of 3$", screen.lines()[6].rstrip()))
        terminal.press("?")
        terminal.wait("select a VM")
        assert "the source of the figures" not in terminal.screen.text()
        terminal.press("end")
        terminal.wait("the source of the figures")
        terminal.press("x")
        terminal.wait("q quit")
        terminal.press("q")
        assert terminal.end() == 0

