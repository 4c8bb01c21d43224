# SPDX-License-Identifier: Apache-2.0
import collections
import os
import shlex
import signal
import subprocess
import sys
import threading

import pytest

LIB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib")
ALONE = os.path.join(LIB, "alone")
sys.path.insert(0, LIB)

import cpu  # noqa: E402
import vgpuctl  # noqa: E402
from settings import explores, full, random_of, sample, seed  # noqa: E402


# How many of the tests that are marked drawn(NAME) run, besides those of the file that are not marked: in
# the default run, and in one with another seed. A full run has all. `lab` is what the two hosts of tests/lab
# show besides a move there and back.
DRAWN = {"access-faults": (1, 1), "broken-link": (0, 1), "cluster": (1, 4), "cuda-many": (0, 1), "disk": (1, 3),
         "half-minutes": (0, 0), "lab": (0, 1), "lab-cluster": (0, 1), "lab-faults": (0, 1), "lab-hangs": (0, 1),
         "lab-many": (0, 0), "long": (0, 2), "modular": (0, 0), "network": (0, 0), "nova-move": (4, 9),
         "opencl-faults": (1, 3), "opencl-proxies": (0, 1), "previous": (0, 0), "proxy-plan": (1, 1), "suites": (0, 0), "tls": (1, 1), "tls-link": (0, 1)}


def pytest_configure(config):
    config.addinivalue_line("markers", "smoke: a good call of a command or route, for a quick look")
    config.addinivalue_line("markers", "host: measures this machine, and wants it for itself: nothing "
                                       "else runs beside it")
    config.addinivalue_line("markers", "drawn(name): without VG_TEST_FULL, tools/check runs some of all tests "
                                       "with this name only, drawn by the seed")
    # A shell's background job ignores it, and so would all programs that are tested. A worker of xdist may
    # run in another thread, which cannot set a handler.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser):
    parser.addoption("--tenth", action="store_true", help="only a tenth of the tests, drawn by the seed")


def keep(config, items, wanted):
    """Only those items whose number is wanted."""
    config.hook.pytest_deselected(items=[item for i, item in enumerate(items) if i not in wanted])
    items[:] = [item for i, item in enumerate(items) if i in wanted]


def drawn(items):
    """The numbers of items of no group, and of those that are drawn of each group."""
    groups, wanted = {}, set()
    for number, item in enumerate(items):
        marker = item.get_closest_marker("drawn")
        if marker:
            groups.setdefault(marker.args[0], []).append(number)
        else:
            wanted.add(number)
    for name, numbers in groups.items():
        wanted.update(sample(name, numbers, DRAWN[name][explores()]))
    return wanted


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """Groups whose tests run one after the other come first, so that nobody waits for them at the end."""
    if "VG_TEST_SEED" in os.environ:
        keep(config, items, drawn(items))
    if config.getoption("--tenth"):
        chance = random_of("tenth")
        keep(config, items, {i for i in range(len(items)) if chance.random() < 0.1})
    items.sort(key=lambda item: item.get_closest_marker("xdist_group") is None)


def pytest_report_header(config):
    return f"vgpuctl: {vgpuctl.program()}, VG_TEST_SEED={seed()}, full {int(full())}"


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    item.cpu_began = cpu.of_this_run()
    yield


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    if call.when == "teardown":
        item.user_properties.append(("cpu", cpu.of_this_run() - item.cpu_began))
    yield


def pytest_terminal_summary(terminalreporter):
    """What each file cost, in the words of tests/timed."""
    took, used = collections.Counter(), collections.Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if hasattr(report, "duration"):
                file = report.nodeid.split("::")[0]
                took[file] += report.duration
                if report.when == "teardown":
                    used[file] += dict(report.user_properties).get("cpu", 0)
    for file, cost in took.most_common():
        terminalreporter.write_line(f"# took {cost:.1f} s: {file}")
    for file, cost in used.most_common():
        terminalreporter.write_line(f"# cpu {cost:.1f} s: {file}")
    # Each of xdist's processes comes here, too.
    if "VG_TEST_FAILURES" in os.environ and not hasattr(terminalreporter.config, "workerinput"):
        write_failures(terminalreporter, os.environ["VG_TEST_FAILURES"])


def write_failures(terminalreporter, path):
    """For the end of tools/check: each failed test, its assertion in one line, what repeats it."""
    with open(path, "a", encoding="utf-8") as file:
        for report in terminalreporter.getreports("failed") + terminalreporter.getreports("error"):
            crash = getattr(report.longrepr, "reprcrash", None)
            lines = (crash.message if crash else str(report.longrepr)).strip().splitlines()
            file.write(f"{report.nodeid}\n    {(lines or ['no message'])[0][:400]}\n"
                       f"    repeat: {os.environ.get('VG_TEST_REPEAT', '')}/usr/bin/python3 -m pytest "
                       f"{shlex.quote(report.nodeid)}\n")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(specs):
    """What runs at once runs in namespaces of processes of their own: vgpud measures all VMs that it sees, and
    what looks like one is another test's, or this machine's."""
    if os.geteuid() == 0 and subprocess.run([ALONE, "true"], capture_output=True, check=False).returncode == 0:
        for spec in specs:
            spec.python = shlex.join([ALONE, sys.executable])


@pytest.fixture(scope="session", autouse=True)
def program_exists():
    if not os.access(vgpuctl.program(), os.X_OK):
        pytest.exit(f"{vgpuctl.program()} is not there: build it, or name it in VGPUCTL", 3)
