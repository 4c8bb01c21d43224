# SPDX-License-Identifier: Apache-2.0
"""For tests in which a host of tests/lib/movelab.py does not answer: what it is made to do, what of the
others must go on meanwhile, and what must be true in the end."""
import contextlib
import json
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

from labhost import lab
from movelab import has_gpu, hooks, running_on
from settings import HANG_S
from unixhttp import wait_for
import vgpuctl

# While a host hangs, a request that does not name it must not wait for it. libvirt is given up after 10 s.
PROMPT_S = 5
# A short program takes a hundredth of a second where nothing else runs.
BUSY = 100
ROUTES = ("/v1/migrations", "/v1/reservations", "/v1/host", "/readyz", "/metrics", "/v1/peers")
SLOW = "[actions]\nbandwidth=8\n"
PHASES = ["quiescing", "detaching", "migrating", "attaching", "resuming", "verifying"]


def knows(movelab, host, guest):
    node = movelab.nodes[host]
    wait_for(lambda: node.daemon.request("GET", f"/v1/vms/{guest}")[0] == 200)
    wait_for(lambda: part(node)["state"] == "ok")
    movelab.meet()


# ---- hosts that do not answer ----

@contextlib.contextmanager
def hanging(host, *name):
    """Its libvirtd, all modular daemons, or the one of that name."""
    lab("daemon", host, "hang", *name)
    try:
        yield
    finally:
        goes_on(host, *name)


def goes_on(host, *name):
    lab("daemon", host, "resume", *name, check=False)
    # libvirtd 9.0 may die of going on; a host's libvirtd is started again by systemd.
    time.sleep(0.5)
    lab("daemon", host, "start")


@contextlib.contextmanager
def cut_off(host, word):
    """word: what `lab.sh network` does to it."""
    lab("network", host, word)
    try:
        yield
    finally:
        lab("network", host, "mend")


# ---- what goes on meanwhile ----

def part(node):
    """What readyz tells of calls to libvirt."""
    _, _, body = node.daemon.request("GET", "/readyz")
    [found] = [p for p in json.loads(body)["parts"] if p["name"] == "libvirt-calls"]
    return found


def metric(node, name):
    text = node.daemon.request("GET", "/metrics")[2].decode()
    [line] = [line for line in text.splitlines() if line.startswith(name + " ")]
    return float(line.split()[1])


def short_program():
    """How long one takes now."""
    began = time.monotonic()
    subprocess.run([vgpuctl.program(), "version"], check=True, stdout=subprocess.DEVNULL, timeout=HANG_S)
    return time.monotonic() - began


@contextlib.contextmanager
def within(seconds, what=""):
    """It is done in so many seconds, and as much more as the machine makes a short program wait meanwhile."""
    with ThreadPoolExecutor(1) as pool:
        busy, began = pool.submit(short_program), time.monotonic()
        yield
        took = time.monotonic() - began
        assert took < seconds + BUSY * busy.result(), (what, took, busy.result())


def prompt(node, path):
    with within(PROMPT_S, path):
        return node.daemon.request("GET", path)[0]


def others_do_not_wait(movelab):
    """Of either host: what names no host that hangs."""
    for node in movelab.nodes.values():
        for path in ROUTES:
            assert prompt(node, path) in (200, 503), path


def every_route(node, vm, hung=None):
    """What can be read of a host's vgpud, but for the stream of events, and what asks a libvirt that hangs."""
    values = {path: [item["id"] for item in node.daemon.get(path)["items"][:1]] for path in ("/v1/gpus", "/v1/migrations")}
    values["/v1/vms"] = [vm]
    routes = []
    for path, item in node.daemon.get("/v1/openapi.json")["paths"].items():
        if "get" not in item or path == "/v1/events" or (path.endswith("/movable") and node.host == hung):
            continue
        of = path.split("/{id}")[0]
        if "{id}" in path:
            routes += [path.replace("{id}", value) for value in values.get(of, [])]
        else:
            routes.append(path)
    return routes


def reached(node, move, phase):
    def there():
        now = node.migration(move)
        return now["ended_ns"] or now["state"] == phase
    wait_for(there, pause=0.001)
    return node.migration(move)["state"] == phase


# ---- the end ----

def check_place(guest, end):
    """On one host, with its GPU."""
    where = end["to"] if end["vm_on"] == "target" else end["from"]
    assert end["state"] in ("done", "rolled_back", "aborted", "failed"), end
    assert running_on(guest) == [where], end
    assert has_gpu(where, guest), end
    if any(s["verb"] == "quiesce" for s in end["steps"]):
        assert hooks(where, guest)[-1] == "resume"


def check_end(movelab, guest, end):
    """The same, and nothing is kept nor hangs any more."""
    check_place(guest, end)
    for node in movelab.nodes.values():
        assert wait_for(lambda node=node: node.reservations() == [])
        wait_for(lambda node=node: metric(node, "vgpud_libvirt_calls_hanging") == 0)
        assert part(node)["state"] == "ok"


def check_hang(movelab, way, guest, phase, whose, *name):
    """libvirt of one host, or its daemon of this name, hangs in a phase of a move."""
    source, target = way
    node = movelab.nodes[source]
    node.reload(SLOW)
    move = node.move(guest, target)
    if not reached(node, move, phase):
        node.ended(move)
        return  # it was too fast
    host = source if whose == "source" else target
    with hanging(host, *name):
        others_do_not_wait(movelab)
        # It ends, or waits for the host that hangs, and says so.
        def told():
            now = node.migration(move)
            return now["ended_ns"] or (now["waits_for"] and host in now["waits_for"])
        wait_for(told, pause=0.1)
        others_do_not_wait(movelab)
    check_end(movelab, guest, node.ended(move))
