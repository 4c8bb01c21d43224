# SPDX-License-Identifier: Apache-2.0
"""vgpuctl record on this machine: what it records of a real load agrees with what the kernel says of
it elsewhere, and nothing but the recording is left."""
import bisect
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time

import perftool
import pytest
import vgpuctl
from settings import HANG_S, sample

BUILD = os.environ.get("VG_BUILDDIR", os.path.join(vgpuctl.ROOT, "build"))
FAKE_VMS = os.path.join(BUILD, "tests", "tools", "fake-vms")
INSTANCES = "/sys/kernel/tracing/instances"
# Of the recorded seconds. schedstat tells of a wait when it ends, and of a run at a tick.
TOLERANCE = 0.04


def needs(way):
    if os.geteuid() != 0:
        return "recording needs root"
    if not os.access(INSTANCES, os.W_OK):
        return f"{INSTANCES} is not there: no tracefs"
    return perftool.missing() if way == "perf" else None


@pytest.fixture(name="way", params=["perf", "tracefs"])
def way_fixture(request):
    why = needs(request.param)
    if why:
        pytest.skip(why)
    return request.param


@pytest.fixture(name="root", scope="module")
def root_fixture():
    why = needs("tracefs")
    if why:
        pytest.skip(why)


@pytest.fixture(name="perf", scope="module")
def perf_fixture():
    why = needs("perf")
    if why:
        pytest.skip(why)


def start(*args, **options):
    return subprocess.Popen([vgpuctl.program(), "record", *map(str, args)], text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def record(*args, code=0, **options):
    with start(*args, **options) as process:
        out, err = process.communicate(timeout=HANG_S)
    assert process.returncode == code, (process.returncode, err, out)
    return out, err


def wait_until(condition, what):
    end = time.monotonic() + HANG_S
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.01)


def instance_of(process):
    return f"vgpuctl-{os.stat('/proc/self/ns/pid').st_ino}-{process.pid}"


def left_of(process, directory):
    """What a vgpuctl has left behind: instances, and processes that know its directory."""
    left = [name for name in os.listdir(INSTANCES) if name == instance_of(process)]
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                if str(directory).encode() in f.read() and int(pid) != os.getpid():
                    left.append(pid)
        except OSError:
            pass
    return left


# ---- a load, and what /proc says of it ----

class Vms:
    """Fake VMs, and their vCPUs' schedstat sampled all the time on the clock of the recordings."""

    def __init__(self, number, run_ms):
        self.cpu = max(os.sched_getaffinity(0))
        self.process = subprocess.Popen([FAKE_VMS, str(number), str(number), str(run_ms)],
                                        preexec_fn=lambda: os.sched_setaffinity(0, {self.cpu}))
        self.number = number
        wait_until(lambda: len(self.find()) == number, "fake VMs with vCPU threads")
        self.vcpus = self.find()  # {pid: (name, tid)}
        self.files = {tid: f"/proc/{pid}/task/{tid}/schedstat"
                      for pid, (_, tid) in self.vcpus.items()}
        self.samples = {tid: [] for tid in self.files}
        self.ended = threading.Event()
        self.sampler = threading.Thread(target=self.sample)
        self.sampler.start()

    def find(self):
        found = {}
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children",
                  encoding="ascii") as f:
            pids = [int(word) for word in f.read().split()]
        for pid in pids:
            with open(f"/proc/{pid}/cmdline", encoding="utf-8") as f:
                words = f.read().split("\0")
            if words[0] != "qemu-system-x86_64":
                continue
            for tid in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{tid}/comm", encoding="ascii") as f:
                    if f.read() == "CPU 0/KVM\n":
                        name = words[2].split(",")[0].removeprefix("guest=")
                        found[pid] = (name, int(tid))
        return found

    def sample(self):
        while not self.ended.wait(0.005):
            for tid, samples in self.samples.items():
                before = time.monotonic_ns()
                with open(self.files[tid], encoding="ascii") as f:
                    run, wait, _ = map(int, f.read().split())
                samples.append(((before + time.monotonic_ns()) // 2, run, wait))

    def at(self, tid, when_ns):
        """(run_ns, wait_ns) of a thread at a time, between two samples."""
        samples = self.samples[tid]
        i = bisect.bisect_left(samples, (when_ns,))
        assert 0 < i < len(samples), (when_ns, samples[0][0], samples[-1][0])
        (t0, *a), (t1, *b) = samples[i - 1], samples[i]
        share = (when_ns - t0) / (t1 - t0)
        return [x + (y - x) * share for x, y in zip(a, b)]

    def between(self, tid, begin_ns, end_ns):
        begin, end = self.at(tid, begin_ns), self.at(tid, end_ns)
        return [y - x for x, y in zip(begin, end)]

    def close(self):
        self.ended.set()
        self.sampler.join()
        self.process.terminate()
        self.process.wait()


@pytest.fixture(name="vms", params=[(2, 100), (3, 60)], ids=["spinning", "sleeping"])
def vms_fixture(request, root):
    vms = Vms(*request.param)
    yield vms
    vms.close()


@pytest.mark.host
def test_figures_are_those_of_schedstat(way, vms, tmp_path):
    out, _ = record(3, "-O", tmp_path / "r", "--with", way, "-o", "json")
    answer = json.loads(out)
    time.sleep(0.05)  # for samples after its end

    assert answer["with"] == way and answer["not_with"] == []
    assert not answer["interrupted"] and answer["asked_ns"] == 3e9
    assert 3e9 <= answer["recorded_ns"] < 3.5e9
    assert answer["lost"] == 0
    assert {vm["pid"]: vm["name"] for vm in answer["vms"] if vm["pid"] in vms.vcpus} == \
        {pid: name for pid, (name, _) in vms.vcpus.items()}
    doc = vgpuctl.analyze(answer["recording"]).doc()
    vgpuctl.check_identities(doc)
    trace = doc["trace"]
    seconds_ns = trace["end_ns"] - trace["begin_ns"]
    assert trace["events"] == answer["events"] > 100
    assert abs(seconds_ns - 3e9) < 0.2e9
    assert trace["problems"] == []
    by_pid = {vm["pid"]: vm for vm in doc["vms"] if vm["pid"] in vms.vcpus}
    assert len(by_pid) == vms.number
    for pid, (name, tid) in vms.vcpus.items():
        vm = by_pid[pid]
        assert vm["name"] == name
        assert vm["uuid"].startswith("b0c6e1d4-")
        [vcpu] = vm["vcpus"]
        assert vcpu["tid"] == tid
        run, wait = vms.between(tid, trace["begin_ns"], trace["end_ns"])
        assert run > 0.05e9 and wait > 0.05e9, "the load is none"
        assert abs(vcpu["run_ns"] - run) < TOLERANCE * seconds_ns, (vcpu, run, wait)
        waited = vcpu["preempt_ns"] + vcpu["wake_wait_ns"]
        assert abs(waited - wait) < TOLERANCE * seconds_ns, (vcpu, run, wait)
        others = {other for other, _ in vms.vcpus.values()} - {name}
        assert others <= {entry["aggressor"] for entry in vm["lost_to"] if entry["ns"] > 0}


# ---- the answer ----

def test_answer_says_what_to_do_next(root, tmp_path):
    directory = tmp_path / "it's $(odd) \"name\""
    out, _ = record(1, "-O", directory)
    assert "Not with lttng: LTTng" in out or " lttng " in out
    command = out.rstrip().splitlines()[-1].strip()
    assert command.startswith("vgpuctl analyze ")
    done = subprocess.run(command.replace("vgpuctl", vgpuctl.program(), 1), shell=True, text=True,
                          capture_output=True, timeout=HANG_S, check=False)
    assert done.returncode == 0 and "SECONDS" in done.stdout, done.stderr
    assert "vm-map.txt" in os.listdir(directory) and "perf.data" not in os.listdir(directory)


@pytest.mark.smoke
def test_default_directory_is_new_and_named_after_the_time(root, tmp_path):
    answer = json.loads(record(1, "--with", "tracefs", "-o", "json", cwd=tmp_path)[0])
    [name] = os.listdir(tmp_path)
    assert name.startswith("recording-20") and name.endswith("Z")
    assert answer["recording"] == str(tmp_path / name)
    assert sorted(os.listdir(tmp_path / name)) == ["trace.txt", "vm-map.txt"]


@pytest.mark.host
def test_no_vm_is_told(root, tmp_path):
    running = subprocess.run(["pgrep", "-f", "^qemu"], capture_output=True, check=False)
    if running.returncode == 0:
        pytest.skip("there are VMs on this machine")
    _, err = record(1, "-O", tmp_path / "r", "--with", "tracefs")
    assert "no VM was running" in err


# ---- signals ----

NOT_YET = "interrupted before the recording started"


@pytest.mark.parametrize("number", sample("signals of record", [signal.SIGINT, signal.SIGTERM,
                                                                signal.SIGHUP], 1))
def test_signal_ends_the_recording_early(way, number, tmp_path):
    err, pause_s = NOT_YET, 0.25
    # What perf writes does not tell when it has begun.
    while NOT_YET in err:
        pause_s *= 2
        with start(60, "-O", tmp_path / "r", "--with", way, "-o", "json") as process:
            wait_until(lambda p=process: recording_has_begun(way, p, tmp_path / "r"), "a recording")
            time.sleep(pause_s)
            process.send_signal(number)
            out, err = process.communicate(timeout=HANG_S)
    assert process.returncode == 0, err
    answer = json.loads(out)
    assert answer["interrupted"] and "interrupted" in err and "is kept" in err
    assert 0 < answer["recorded_ns"] < 60e9
    doc = vgpuctl.analyze(answer["recording"]).doc()
    assert doc["trace"]["events"] == answer["events"] > 0
    assert left_of(process, tmp_path / "r") == []
    assert "perf.data" not in os.listdir(tmp_path / "r")


def recording_has_begun(way, process, directory):
    if way == "perf":
        path = directory / "perf.data"
        return path.exists() and path.stat().st_size > 0
    try:
        with open(f"{INSTANCES}/{instance_of(process)}/tracing_on", encoding="ascii") as f:
            return f.read() == "1\n"
    except OSError:
        return False


def fake_perf(tmp_path, script):
    """PATH with a perf that does what script says, and else what perf does."""
    path = tmp_path / "bin"
    path.mkdir()
    (path / "perf").write_text(f"#!/bin/sh\n{script}\nexec {shutil.which('perf')} \"$@\"\n")
    (path / "perf").chmod(0o755)
    return {**os.environ, "PATH": f"{path}:{os.environ['PATH']}"}


def test_second_signal_gives_up_what_is_not_converted(perf, tmp_path):
    mark = tmp_path / "converting"
    env = fake_perf(tmp_path, f'if [ "$1" = data ]; then touch {mark}; exec sleep 1000; fi')
    with start(1, "-O", tmp_path / "r", "--with", "perf", env=env) as process:
        wait_until(mark.exists, "the conversion")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=HANG_S)
    assert process.returncode == 1 and "interrupted during `perf data convert`" in err, err
    assert not (tmp_path / "r").exists()
    assert left_of(process, tmp_path / "r") == []


def test_nothing_runs_on_after_a_kill(way, tmp_path):
    with start(60, "-O", tmp_path / "r", "--with", way) as process:
        wait_until(lambda: recording_has_begun(way, process, tmp_path / "r"), "a recording")
        process.kill()
        process.communicate(timeout=HANG_S)
    wait_until(lambda: all(x.startswith("vgpuctl-") for x in left_of(process, tmp_path / "r")),
               "the end of perf")
    # The next one cleans up what nobody can before.
    record(1, "-O", tmp_path / "next", "--with", "tracefs")
    assert left_of(process, tmp_path / "r") == []


# ---- what does not work ----

def test_perf_that_fails_is_quoted_and_the_next_way_tried(perf, tmp_path):
    env = fake_perf(tmp_path, 'echo "no events for you" >&2; exit 7')
    _, err = record(1, "-O", tmp_path / "r", "--with", "perf", env=env, code=1)
    assert "'perf' failed (exit code 7): no events for you" in err
    assert not (tmp_path / "r").exists()
    answer = json.loads(record(1, "-O", tmp_path / "r", "-o", "json", env=env)[0])
    if answer["with"] == "lttng":
        pytest.skip("the kernel tracer of LTTng works here")
    assert answer["with"] == "tracefs"
    assert [one["name"] for one in answer["not_with"]] == ["lttng", "perf"]
    assert "no events for you" in answer["not_with"][1]["reason"]


def test_perf_that_dies_in_the_middle(perf, tmp_path):
    pid_file = tmp_path / "pid"
    env = fake_perf(tmp_path, f'[ "$1" = record ] && echo $$ > {pid_file}')
    with start(60, "-O", tmp_path / "r", "--with", "perf", env=env) as process:
        wait_until(lambda: recording_has_begun("perf", process, tmp_path / "r"), "a recording")
        time.sleep(0.5)
        os.kill(int(pid_file.read_text()), signal.SIGKILL)
        _, err = process.communicate(timeout=HANG_S)
    assert process.returncode == 1 and "'perf' failed (Killed)" in err
    assert not (tmp_path / "r").exists()


def test_perf_that_is_not_there(root, tmp_path):
    env = {**os.environ, "PATH": str(tmp_path)}
    _, err = record(1, "-O", tmp_path / "r", "--with", "perf", env=env, code=3)
    assert "linux-perf" in err and "the program 'perf' is not installed, or not in PATH" in err


def test_perf_that_lost_events_is_told(perf, tmp_path):
    stats = ("Aggregated stats:\\n  TOTAL events: 5\\n  LOST events: 2 ( 1%)\\n"
             "LOST_SAMPLES events: 2\\nsched:sched_switch stats:\\n SAMPLE events: 5\\n"
             "LOST_SAMPLES events: 40\\nkvm:kvm_exit stats:\\n LOST_SAMPLES events: 2\\n")
    env = fake_perf(tmp_path, f'[ "$1" = report ] && {{ printf "%b" "{stats}"; exit 0; }}')
    out, err = record(1, "-O", tmp_path / "r", "--with", "perf", "-o", "json", env=env)
    assert json.loads(out)["lost"] == 42
    assert "42 events were lost" in err


def test_reason_of_lttng(root, tmp_path):
    """With a session daemon of its own, that nobody else sees."""
    if not shutil.which("lttng-sessiond"):
        pytest.skip("lttng-sessiond is not installed (lttng-tools)")
    script = """
        mount -t tmpfs none /run || exit 99
        lttng-sessiond > /dev/null 2>&1 &
        daemon=$!
        for _ in $(seq 100); do lttng --no-sessiond list > /dev/null 2>&1 && break; sleep 0.1; done
        "$@"
        code=$?
        lttng --no-sessiond list
        kill $daemon
        wait $daemon
        exit $code
    """
    done = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", vgpuctl.program(), "record",
                           "1", "--with", "lttng", "-O", str(tmp_path / "r"), "-o", "json"],
                          capture_output=True, text=True, timeout=HANG_S, check=False)
    assert "vgpuctl-record" not in done.stdout.split("}")[-1], "a session is left"
    if done.returncode == 0:
        assert (tmp_path / "r" / "kernel" / "metadata").exists()
        return
    assert done.returncode == 1, done.stderr
    assert done.stderr.startswith("vgpuctl: LTTng cannot record the kernel: Kernel tracer not "), \
        done.stderr
    assert "lttng-modules-dkms" in done.stderr
    assert "no available recording session" in done.stdout
    assert not (tmp_path / "r").exists()


def test_lttng_without_its_daemon(root, tmp_path):
    done = subprocess.run(["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /run && exec "$@"',
                           "sh", vgpuctl.program(), "record", "1", "--with", "lttng", "-O",
                           str(tmp_path / "r")],
                          capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.returncode == 1
    assert "No session daemon is available; start it" in done.stderr


def test_without_root_it_says_so(root):
    directory = tempfile.mkdtemp()
    try:
        os.chmod(directory, 0o777)
        program = shutil.copy(vgpuctl.program(), directory)
        for way, said in (("tracefs", "run as root"), ("perf", "run as root"), ("lttng", "root")):
            done = subprocess.run([program, "record", "1", "--with", way, "-O", directory + "/r"],
                                  capture_output=True, text=True, timeout=HANG_S, check=False,
                                  user=65534, group=65534, extra_groups=[])
            assert done.returncode == 1 and said in done.stderr, (way, done)
            assert not os.path.exists(directory + "/r")
    finally:
        shutil.rmtree(directory)


# ---- where it goes ----

def contents(directory):
    return {name: (directory / name).read_bytes() for name in os.listdir(directory)}


def test_nothing_is_overwritten(root, tmp_path):
    target = tmp_path / "r"
    record(1, "-O", target, "--with", "tracefs")
    before = contents(target)
    _, err = record(1, "-O", target, "--with", "tracefs", code=5)
    assert "exists" in err and "--force" in err
    assert contents(target) == before
    record(1, "-O", target, "--with", "tracefs", "--force")
    assert sorted(contents(target)) == sorted(before)
    assert contents(target)["trace.txt"] != before["trace.txt"]


def test_force_replaces_recordings_only(root, tmp_path):
    (tmp_path / "thesis.txt").write_text("years")
    _, err = record(1, "-O", tmp_path, "--with", "tracefs", "--force", code=5)
    assert "thesis.txt" in err
    assert contents(tmp_path) == {"thesis.txt": b"years"}


def test_failure_leaves_the_old_recording(perf, tmp_path):
    target = tmp_path / "r"
    record(1, "-O", target, "--with", "tracefs")
    before = contents(target)
    env = fake_perf(tmp_path, 'if [ "$1" = data ]; then echo "no CTF" >&2; exit 1; fi')
    _, err = record(1, "-O", target, "--with", "perf", "--force", env=env, code=1)
    assert "no CTF" in err
    assert contents(target) == before


def test_empty_directory_is_used_and_kept(perf, tmp_path):
    target = tmp_path / "r"
    target.mkdir()
    env = fake_perf(tmp_path, "exit 1")
    record(1, "-O", target, "--with", "perf", env=env, code=1)
    assert os.listdir(target) == []
    record(1, "-O", target, "--with", "tracefs")
    assert sorted(os.listdir(target)) == ["trace.txt", "vm-map.txt"]


@pytest.mark.parametrize("place, said", [("missing/r", "No such file"), ("file", "Not a directory"),
                                         ("file/r", "Not a directory")])
def test_places_that_cannot_be(place, said, tmp_path):
    (tmp_path / "file").write_text("kept")
    _, err = record(1, "-O", tmp_path / place, code=3)
    assert said in err and str(tmp_path) in err
    assert (tmp_path / "file").read_text() == "kept"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_directories_of_others(tmp_path):
    """Root records into none that another user has made, points to, or may write to."""
    theirs, mine, link = (tmp_path / name for name in ("theirs", "mine", "link"))
    theirs.mkdir()
    os.chown(theirs, 65534, 65534)
    mine.mkdir()
    link.symlink_to(mine)
    os.chown(link, 65534, 65534, follow_symlinks=False)
    for place in (theirs, link):
        _, err = record(1, "-O", place, code=1)
        assert f"'{place}' belongs to another user" in err
    mine.chmod(0o777)
    _, err = record(1, "-O", mine, code=1)
    assert f"any user may write to '{mine}'" in err
    assert os.listdir(theirs) == os.listdir(mine) == []


def test_only_root_reads_it(root, tmp_path):
    target = tmp_path / "r"
    record(1, "-O", target, "--with", "tracefs")
    assert target.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in target.iterdir()} == {0o600}


def on_small_disk(mib, script, *args):
    """Runs script with a file system of mib MiB in a directory that only it sees."""
    with tempfile.TemporaryDirectory() as directory:
        mount = f"mount -t tmpfs -o size={mib}m none {directory} || exit 99\ncd {directory}\n"
        return subprocess.run(["unshare", "-m", "sh", "-c", mount + script, "sh",
                               vgpuctl.program(), *args],
                              capture_output=True, text=True, timeout=HANG_S, check=False)


def test_no_room_to_begin_with(root):
    done = on_small_disk(50, '"$@"; code=$?; ls -A; exit $code', "record", "1", "-O", "r")
    assert done.returncode == 1 and done.stdout == ""
    assert "not enough space" in done.stderr and "64 MiB are needed" in done.stderr


@pytest.mark.parametrize("with_", sample("full disks", ["perf", "tracefs"], 1))
def test_disk_that_fills_up(perf, with_):
    done = on_small_disk(68, """
        setsid taskset -c 0 perf bench sched pipe -l 100000000 > /dev/null 2>&1 & load=$!
        "$@"; code=$?
        kill -- -$load  # perf has a child
        ls -A
        exit $code""", "record", "600", "-O", "r", "--with", with_)
    assert done.returncode == 1, done
    assert "not enough space for a recording" in done.stderr, done.stderr
    assert done.stdout == ""


# ---- usage ----

@pytest.mark.parametrize("args", [
    [], ["0"], ["-1"], ["3601"], ["1.5"], ["soon"], ["1", "2"], ["1", "--with", "dtrace"],
    ["1", "--with", ""], ["1", "--force"], ["1", "-o", "xml"], ["1", "-O", ""], ["1", "--now"],
])
def test_usage_errors(args, tmp_path):
    out, err = record(*args, code=2, cwd=tmp_path)
    assert out == "" and "vgpuctl record" in err
    assert os.listdir(tmp_path) == []
