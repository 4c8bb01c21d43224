# SPDX-License-Identifier: Apache-2.0
"""The page in Debian's Chromium, before the bundled recording, a vgpud that measures this machine, and the API with
moves and GPUs that are made up: `tools/check --web`."""
import datetime
import json
import re
import subprocess

import pytest
import vgpuctl
from certs import Authority
from pagebrowser import Browser, Ui, why_not
from settings import HANG_S
from tlsserver import TlsServer
from unixhttp import Server
from vgpud import LTTNG, VM_MAP, BusyVm, Daemon, wait_for

pytestmark = pytest.mark.skipif(why_not() != "", reason=why_not())
PAGES = ["host", "preemptions", "vms", "gpus", "moves", "hosts"]
LIVE = "[libvirt]\nuse=no\n[gpu]\nenable=no\n[live]\nbudget=0\n"
LOOKS = [(scheme, width) for scheme in ("light", "dark") for width in (375, 1280, 2560)]


@pytest.fixture(name="browser", scope="module")
def browser_fixture():
    with Browser() as browser:
        yield browser


def ask(socket, *command):
    done = subprocess.run([vgpuctl.program(), *map(str, command), "-o", "json", "--socket", socket], capture_output=True, text=True,
                          timeout=HANG_S, check=False)
    assert done.returncode == 0, (command, done.stderr)
    document = json.loads(done.stdout)
    return document["items"] if isinstance(document, dict) and "items" in document and "next" in document else document


def time_of(ns):
    return datetime.datetime.fromtimestamp(ns / 1e9, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def cores(number):
    return "-" if number is None else f"{number:.2f}"


def part(share):
    return f"{100 * share:.0f}\u00a0%"


def share_lost(sample, aggressor):
    return sum(one["ns"] for one in sample["lost_to"] if one["aggressor"] == aggressor) / (sample["end_ns"] - sample["begin_ns"])


def seconds(text):
    """What a figure of the page says, in ns, and how far it may be off."""
    if text == "0":
        return 0, 0
    number, unit = text.split(" ")
    scale = {"s": 1e9, "ms": 1e6, "µs": 1e3}[unit]
    return float(number) * scale, scale * 10 ** -len(number.partition(".")[2]) * 0.51


def assert_same(text, ns):
    got, off = seconds(text)
    assert abs(got - ns) <= off, (text, ns)


def look_at(browser, link, address, name):
    """In each of the looks that people have; the last one remains."""
    for scheme, width in (("dark", 1280), ("light", 375), ("dark", 375), ("light", 1280)):
        browser.open(link, scheme, width)
        browser.go(address)
        browser.shot(f"{name}-{scheme}-{width}")
        browser.check((name, scheme, width))


# ---- the recording ----

@pytest.fixture(name="recording", scope="module")
def recording_fixture(tmp_path_factory):
    with Daemon(tmp_path_factory.mktemp("recording"), "--vm-map", VM_MAP, "--speed", "max", replay=LTTNG) as daemon:
        daemon.replayed()
        with Ui(daemon.socket) as ui:
            daemon.link = ui.link
            yield daemon


@pytest.mark.parametrize("scheme, width", LOOKS)
def test_every_page_of_the_recording(recording, browser, scheme, width):
    browser.open(recording.link, scheme, width)
    assert "token" not in browser.evaluate("location.href")
    for page in PAGES:
        browser.go(f"#/{page}?range=5min")
        browser.shot(f"{page}-{scheme}-{width}")
        browser.check((page, scheme, width))
    browser.go("#/vms?range=5min")
    browser.click("main tbody a")
    browser.until("location.hash.startsWith('#/vms/')")
    browser.until("document.querySelector('.chart canvas') !== null")
    browser.shot(f"vm-{scheme}-{width}")
    browser.check(("vm", scheme, width))
    assert "CPU time lost, by aggressor" in browser.text()


def test_figures_are_those_of_vgpuctl(recording, browser):
    """Each page against the command of the same time."""
    host = recording.get("/v1/host")
    end = host["measurement"]["end_ns"] // 10**9 + 1
    since, until = end - 60, end
    query, time = f"since={since}&until={until}", ("--since", time_of(since * 10**9), "--until", time_of(until * 10**9))
    browser.open(recording.link)

    browser.go(f"#/host?{query}")
    history = [one for one in ask(recording.socket, "host", "history", *time, "--step", "10s")["items"] if not one["gap"]]
    use, lost = browser.figures("CPU time"), browser.figures("CPU time that VMs lost")
    assert history and len(use) == len(history) == len(lost)
    for row, loss, step in zip(use, lost, history):
        rates = step["rates"]
        assert row["VMs, cores"] == f"{rates['run_share']:.3f}"
        assert row.get("idle, cores", "-") == ("-" if step["idle_share"] is None else f"{step['idle_share']:.3f}")
        assert row.get("host, cores", "-") == ("-" if step["own_share"] is None else f"{step['own_share']:.3f}")
        assert loss["lost, cores"] == f"{rates['preempt_share'] + rates['wake_wait_share']:.3f}"
    assert re.search(rf"CPUs\s+{host['cpus']}\b", browser.text())
    cpus = ask(recording.socket, "host", "cpus")
    length = cpus["end_ns"] - cpus["begin_ns"]
    strip = browser.evaluate("""[...document.querySelectorAll(".cpu")].map((one) => [one.innerText,
        [...one.querySelectorAll(".bar span")].map((part) => [part.title, parseFloat(part.style.width)])])""")
    assert cpus["items"] and len(strip) == len(cpus["items"])
    for (text, bars), cpu in zip(strip, cpus["items"]):
        ran = sorted(((vm["run_ns"], vm["name"]) for vm in cpu["vms"]), reverse=True)
        assert text.startswith(f"CPU {cpu['cpu']} VMs {part(cpu['vms_ns'] / length)}")
        assert re.findall(r"(?:^|, )(vm-\w+ \d+\u00a0%)", text.split("\n")[-1]) == [f"{name} {part(ns / length)}" for ns, name in ran]
        assert bars == [[f"{name} {part(ns / length)}", pytest.approx(100 * ns / length, abs=0.01)] for ns, name in ran]
    worst = browser.table("VMs with the largest losses")
    vms = {vm["name"]: vm for vm in ask(recording.socket, "vm", "list")}
    assert {row["VM"] for row in worst} == set(vms)
    for row in worst:
        newest = vms[row["VM"]]["newest"]
        assert row["Used, cores"] == cores(newest and newest["rates"]["run_share"])
        assert row["Lost, cores"] == cores(newest and newest["rates"]["preempt_share"] + newest["rates"]["wake_wait_share"])

    browser.go(f"#/vms?{query}")
    past = {vm["name"]: vm for vm in ask(recording.socket, "vm", "list", *time)}
    rows = browser.table("VMs")
    assert past and {row["VM"] for row in rows} == set(past)
    for row in rows:
        rates = past[row["VM"]]["rates"]
        assert row["Used, cores"] == cores(rates["run_share"])
        assert row["Lost, cores"] == cores(rates["preempt_share"] + rates["wake_wait_share"])
        assert row["Preemptions/s"] == f"{rates['preemptions_per_s']:.0f}"
        assert row["Lost most to"] == past[row["VM"]]["lost_to"][0]["aggressor"]

    browser.go(f"#/preemptions?{query}")
    pairs = {(one["victim"]["name"], one["aggressor"]): one for one in ask(recording.socket, "preemptions", *time)}
    matrix = {row[next(iter(row))]: row for row in browser.table("Which VMs waited, and what ran instead")}
    shown = 0
    for (victim, aggressor), pair in pairs.items():
        text = matrix[victim].get(aggressor, "")
        if pair["ns"] > 0 and aggressor in matrix[victim]:
            assert_same(text, pair["ns"])
            shown += 1
    assert shown >= 3

    (victim, aggressor), pair = max(pairs.items(), key=lambda one: one[1]["ns"])
    samples = ask(recording.socket, "vm", "history", victim, *time, "--step", "1s")["items"]
    browser.go(f"#/preemptions/{past[victim]['id']}/{aggressor}?{query}")
    over_time = browser.figures(f"{victim} lost to {aggressor}")
    assert samples and [row["lost, cores"] for row in over_time] == [f"{share_lost(sample, aggressor):.3f}" for sample in samples]
    browser.go(f"#/vms/{past[victim]['id']}?{query}")
    lost = browser.figures("CPU time lost, by aggressor")
    used = browser.figures("CPU time used")
    assert len(lost) == len(samples) == len(used)
    for row, share, sample in zip(lost, used, samples):
        length = sample["end_ns"] - sample["begin_ns"]
        assert row[f"{aggressor}, cores"] == f"{share_lost(sample, aggressor):.3f}"
        assert share["guest, cores"] == f"{sample['guest_ns'] / length:.3f}"
        assert share["hypervisor, cores"] == f"{sample['hyp_ns'] / length:.3f}"
    exits = {}
    for sample in samples:
        for why, count in sample["exits"].items():
            exits[why] = exits.get(why, 0) + count
    assert {row["Why"]: int(row["Count"]) for row in browser.table("Exits from the guest")} == exits

    browser.go("#/hosts?range=5min")
    known = ask(recording.socket, "host", "list", "--all")
    assert [(row["Host"], row["VMs"]) for row in browser.table("Hosts")] == [
        (one["name"], str(one["summary"]["vms"]) if one["summary"] else "-") for one in known]
    browser.check("figures")
    look_at(browser, recording.link, f"#/preemptions/{past[victim]['id']}/{aggressor}?{query}", "pair")


# ---- this machine ----

def test_a_vgpud_that_measures(tmp_path, browser):
    names = ["quiet", "<b>loud</b>"]
    with BusyVm(name=names[0], sleeps=True), BusyVm(name=names[1], sleeps=False), BusyVm(name="third", sleeps=False):
        with Daemon(tmp_path, config=LIVE) as daemon, Ui(daemon.socket) as ui:
            wait_for(lambda: len(daemon.get("/v1/vms")["items"]) >= 3)
            wait_for(lambda: daemon.get("/v1/host")["measurement"]["windows"] >= 12)
            browser.open(ui.link)
            for page in PAGES:
                browser.go(f"#/{page}?range=5min")
                browser.check(page)
            # A name is text, whatever it says.
            browser.go("#/vms?range=5min")
            assert all(name in browser.text() for name in names)
            # By keyboard, from the list to a VM.
            browser.evaluate("(globalThis.before = document.querySelector('main tbody a')).focus()")
            browser.until("document.querySelector('main tbody a') !== globalThis.before")
            assert browser.evaluate("document.activeElement.matches('main tbody a')")
            browser.do("press", key="Enter")
            browser.until("location.hash.startsWith('#/vms/') && document.querySelector('.chart .u-over') !== null")
            assert re.match(r"#/vms/[^?]+\?range=5min$", browser.address())
            # Selecting a part of a chart shows that time, and the link has it.
            browser.do("drag", selector=".chart .u-over", **{"from": 0.5, "to": 0.9})
            browser.until("location.hash.includes('since=')")
            chosen = browser.address()
            assert re.match(r"#/vms/[^?]+\?since=[\d.]+&until=[\d.]+$", chosen)
            assert browser.evaluate("document.querySelectorAll('input[type=datetime-local]').length") == 2
            # By keyboard, any time: it begins with the one that is shown.
            browser.go("#/host?range=5min")
            browser.evaluate("document.querySelector('#range select').focus()")
            browser.do("press", key="End")
            browser.until("location.hash.includes('since=') && document.querySelectorAll('input[type=datetime-local]').length === 2")
            since, until = map(float, re.findall(r"[\d.]+", browser.address()))
            assert until - since == 300
            # A cell of the matrix shows the two over time.
            browser.go("#/preemptions?range=5min")
            browser.click(".matrix button")
            browser.until("document.querySelector('.chart canvas') !== null")
            assert " lost to " in browser.text()
            # New windows come without a click.
            browser.go("#/host?range=5min")
            browser.evaluate("globalThis.before = document.querySelector('main .chart'), 0")
            browser.until("document.querySelector('main .chart') !== globalThis.before")
            browser.check("live")
            daemon.kill()
            browser.until("document.getElementById('trouble').textContent.includes('Trying again')")
            with Daemon(tmp_path, config=LIVE):
                browser.until("document.getElementById('trouble').textContent === ''")
                browser.evaluate("globalThis.before = document.querySelector('main .chart'), 0")
                browser.until("document.querySelector('main .chart') !== globalThis.before")
                # A link of another run of vgpuctl ui: the page asks, and shows nothing.
                browser.open(re.sub(r"token=\w+", "token=" + "0" * 48, ui.link))
                browser.until("document.querySelector('input[type=password]') !== null")
                assert "quiet" not in browser.text("body")


# ---- GPUs, plans and moves ----

@pytest.fixture(name="server", scope="module")
def server_fixture(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("api"), "--streams", 64)
    with Ui(server.path) as ui:
        server.link = ui.link
        yield server
    server.stop()


def test_programs_of_the_host_are_named(server, browser):
    """Those behind host:user, of a VM since the start, and of the host in the time chosen."""
    def groups(losses):
        loss = next(one for one in losses if one["aggressor"] == "host:user")
        others = [""] if loss["others"]["ns"] else []
        return [one["cgroup"] or "" for one in loss["processes"]] + others

    vm = next(one for one in server.get("/v1/vms").json()["items"] if one["name"] == "alpha")
    look_at(browser, server.link, f"#/vms/{vm['id']}?range=1h", "vm-programs")
    rows = browser.table("Host programs that took its CPU time, since vgpud started")
    assert [row["Control group"] for row in rows] == groups(server.get(f"/v1/vms/{vm['id']}").json()["lost_to"])
    look_at(browser, server.link, "#/host?range=1h", "host-programs")
    rows = browser.table("Host programs that took CPU time from VMs")
    assert [row["Control group"] for row in rows] == groups(server.get("/v1/vms?since=-1h&limit=1").json()["host"]["lost_to"])
    rows = browser.table("CPU time of host programs now")
    newest = server.get("/v1/host").json()["measurement"]["programs"]["newest"]
    assert [row["Cores"] for row in rows] == [f"{one['ns'] / 10**10:.2f}" for one in newest["items"]] == ["1.20", "0.05"]
    rows = browser.table("CPU time of host programs")
    past = server.get("/v1/vms?since=-1h&limit=1").json()["programs"]
    assert [row["Control group"] for row in rows] == [one["cgroup"] for one in past] == ["/user.slice"]


def test_gpus(server, browser):
    """The requests are of a raw clock that began long ago."""
    gpu = "0000:41:00.0"
    look_at(browser, server.link, f"#/gpus/{gpu}?range=1h", "gpu")
    known = ask(server.path, "gpu", "show", gpu)
    rows = browser.table("Engines")
    engines = (known["newest"] or known)["engines"]
    assert engines and [row["Engine"] for row in rows] == [one["engine"] for one in engines]
    for row, one in zip(rows, engines):
        assert row["Busy"] == part(one["share"]) and row["Requests"] == str(one["requests"])
        if one["requests"]:
            assert_same(row["Latency p50"], one["latency_p50_ns"])
            assert_same(row["Latency p99"], one["latency_p99_ns"])
    requests = ask(server.path, "gpu", "requests", gpu)
    lasted = sorted(one["end_ns"] - one["queued_ns"] for one in requests["items"] if one["end_ns"] and one["queued_ns"])
    tiles = dict(tile.split("\n", 1) for tile in browser.evaluate("[...document.querySelectorAll('.tile')].map((one) => one.innerText)"))
    assert requests["items"] and tiles["Requests"].strip() == str(len(requests["items"]))
    waited = sorted(one["run_ns"] - one["queued_ns"] for one in requests["items"] if one["run_ns"] and one["queued_ns"])
    for name, figures in (("Latency", lasted), ("Wait", waited)):
        assert_same(tiles[f"{name} p50"].strip(), figures[-(-len(figures) // 2) - 1])
        assert_same(tiles[f"{name} p99"].strip(), figures[-(-99 * len(figures) // 100) - 1])
    # A part of the time line, larger; the link has it to the millisecond.
    browser.do("drag", selector="canvas.requests", **{"from": 0.2, "to": 0.6})
    browser.until("location.hash.includes('since=')")
    browser.check("gpu, a part")


def test_a_move_after_its_dry_run(server, browser):
    browser.open(server.link)
    vm = next(one for one in server.get("/v1/vms").json()["items"] if one["name"] == "alpha")
    browser.go(f"#/vms/{vm['id']}?range=1h")
    before = len(server.get("/v1/migrations").json()["items"])
    for to, says in (("full", "no GPU left"), ("off", "actions are disabled"), ("away", "cannot connect")):
        browser.do("fill", selector="input[name=to]", text=to)
        browser.do("press", key="Enter")
        browser.until(f"document.querySelector('.answer').innerText.includes({json.dumps(says)})")
        assert "Migrate" not in browser.text(".answer")
    # Chromium tells of each answer that is an error.
    assert {re.search(r"status of (\d+)", one).group(1) for one in browser.do("forgive")} == {"422", "502"}
    browser.do("fill", selector="input[name=to]", text="node-b")
    browser.do("press", key="Enter")
    browser.until("document.querySelector('.answer button') !== null")
    browser.shot("dry-run-light-1280")
    assert "The VM can be moved" in browser.text(".answer") and len(server.get("/v1/migrations").json()["items"]) == before
    browser.click(".answer button")
    browser.until("location.hash.startsWith('#/moves/move-')")
    browser.until("document.querySelector('[aria-label=Steps] tbody tr') !== null || document.body.innerText.includes('It has not started')")
    assert len(server.get("/v1/migrations").json()["items"]) == before + 1
    browser.check("a move")
    # It goes on by itself; each look here is a step of the server's.
    identity = re.match(r"#/moves/(move-\w+)", browser.address()).group(1)
    for _ in range(12):
        browser.go(f"#/moves/{identity}?range=1h")
    move = ask(server.path, "migration", "show", identity)
    rows = browser.table("Steps")
    assert [row["Step"] for row in rows] == [step["verb"] for step in move["steps"]] and move["state"] == "done"
    for row, step in zip(rows, move["steps"]):
        assert_same(row["Took"], step["ended_ns"] - step["began_ns"])
    browser.shot("move-light-1280")
    browser.check("a move that is done")


def test_a_plan_and_what_became_of_it(server, browser):
    plan = server.post("/v1/plans", {"dry_run": True, "rule": "paper-threshold"}).json()
    action = plan["actions"][0]
    look_at(browser, server.link, f"#/moves/{plan['id']}?range=1h", "plan")
    row = browser.table("Actions")[0]
    assert (row["VM"], row["To"], row["Why"]) == (action["vm"], action["to"], action["reason"]["text"])
    assert row["Predicted gain"].startswith(f"{action['gain']['lost_cpu_ns_per_s'] / 1e9:.2f} cores") and row["Measured gain"] == "not moved"
    browser.click("[aria-label=Actions] button")
    browser.until("document.querySelector('.answer button') !== null")
    browser.click(".answer button")
    browser.until("location.hash.startsWith('#/moves/move-')")
    identity = re.match(r"#/moves/(move-\w+)", browser.address()).group(1)
    wait_for(lambda: server.get(f"/v1/migrations/{identity}").json()["ended_ns"])
    move = ask(server.path, "migration", "show", identity)
    assert move["plan_id"] == plan["id"] and move["predicted"] and move["before"]["known"] and move["after"]["known"]
    won = f"{(move['before']['lost_cpu_ns_per_s'] - move['after']['lost_cpu_ns_per_s']) / 1e9:.2f} cores"
    browser.go(f"#/moves/{plan['id']}?range=1h")
    row = browser.table("Actions")[0]
    assert row["Measured gain"] == won and row["Move"] == "done"
    look_at(browser, server.link, f"#/moves/{identity}?range=1h", "planned-move")
    assert won in browser.text() and f"{move['predicted_gain_ns_per_s'] / 1e9:.2f} cores" in browser.text()


def test_tokens(tmp_path, browser):
    """Over TLS: a reader has no buttons; an operator has; who is revoked is asked for another one."""
    server = TlsServer(tmp_path, Authority(tmp_path))
    link = f"https://{server.host}:{server.port}/#token="
    vm = next(one for one in server.get("/v1/vms").json()["items"] if one["name"] == "alpha")
    for token, buttons in (("reader-token", 0), ("operator-token", 1)):
        browser.open(link + token)
        browser.go(f"#/vms/{vm['id']}?range=1h")
        assert browser.evaluate("[...document.querySelectorAll('main form')].filter((one) => one.checkVisibility()).length") == buttons
        assert browser.evaluate("document.cookie + localStorage.length + sessionStorage.length") == "00"
        browser.check(token)
    assert server.post("/v1/tokens", {"name": "page", "role": "reader"}).status == 201
    browser.open(link + "page-token")
    browser.go("#/vms?range=1h")
    assert "alpha" in browser.text()
    assert server.request("DELETE", "/v1/tokens/page").status == 204
    browser.evaluate("location.hash = '#/host?range=1h'")
    browser.until("document.querySelector('input[type=password]') !== null")
    browser.open(link + "expired-token", shown=False)
    browser.until("document.querySelector('input[type=password]') !== null")
    assert "alpha" not in browser.text("body")
    browser.do("fill", selector="input[type=password]", text="reader-token")
    browser.do("press", key="Enter")
    browser.until("document.querySelector('.tiles') !== null")
    server.stop()
