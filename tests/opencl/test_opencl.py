# SPDX-License-Identifier: Apache-2.0
"""The library between programs and PoCL: what they see is what they see without it, also while their
devices are taken away and given back."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import pytest
from opencl import FULL, POCL, PREPARE, SEED, Stopped, built, make_film, native, need, need_pocl, output, taken, told
from settings import HANG_S, sample
from unixhttp import ROOT

# Calls that PoCL 3.1 does not survive, and other versions may.
CRASHES = ("clCreateContextFromType: device_type 0", "clCreateContextFromType: device_type 5",
           "clCreateProgramWithSource: no strings", "clCreateProgramWithBinary: no binaries",
           "clEnqueueReadImage: row_pitch huge", "clEnqueueWriteImage: input_row_pitch huge",
           "clEnqueueCopyImageToBuffer: no dst_buffer", "clEnqueueNDRangeKernel: a number without a list",
           "clEnqueueNDRangeKernel: no kernel", "clEnqueueTask: a number without a list",
           "clEnqueueTask: no kernel", "clEnqueueReadBufferRect: host_row_pitch huge",
           "clEnqueueWriteBufferRect: host_row_pitch huge", "clEnqueueCopyBufferRect: no src_buffer",
           "clEnqueueCopyBufferRect: no dst_buffer")

# PoCL alone fails to link a program now and then when the machine is busy, which what is made twice shows:
# these are for full runs.
twice = pytest.mark.drawn("lab-many")


@pytest.fixture(autouse=True)
def _pocl():
    need_pocl()


def ours(folder):
    os.makedirs(folder / "vendors", exist_ok=True)
    (folder / "vendors" / "pocl.icd").write_text(POCL + "\n")
    return {**os.environ, "OCL_ICD_VENDORS": built("libvgpu-opencl.so"), "VGPU_OPENCL_AGENT": "/nowhere",
            "VGPU_OPENCL_VENDORS": str(folder / "vendors")}


def test_clinfo(tmp_path):
    need("clinfo")
    without, with_it = output(["clinfo"], native()), output(["clinfo"], ours(tmp_path))
    assert told(with_it) == told(without)
    assert re.search(r"Platform Name +Portable Computing Language$", with_it, re.MULTILINE)
    assert re.search(r"Platform Version +OpenCL [0-9.]+ .*\(vgpud\)$", with_it, re.MULTILINE)


def test_directories_of_loaders(tmp_path):
    """What the manual's container has: a directory, which all loaders take, with a file that names the library."""
    need("clinfo")
    (tmp_path / "loader").mkdir()
    (tmp_path / "loader" / "vgpud.icd").write_text(built("libvgpu-opencl.so") + "\n")
    listed = output(["clinfo"], {**ours(tmp_path), "OCL_ICD_VENDORS": str(tmp_path / "loader")})
    assert re.search(r"Platform Version +OpenCL .*\(vgpud\)$", listed, re.MULTILINE)


def test_a_layer(tmp_path):
    """The same code as a layer of the loader, which then has no platform by default any more."""
    need("clinfo")
    layer = {**native(), "OPENCL_LAYERS": built("libvgpu-opencl.so")}
    with_it, without = (output(["clinfo"], environment).split("NULL platform")[0] for environment in (layer, native()))
    assert told(with_it) == told(without) and "(vgpud)" in with_it


@pytest.mark.parametrize("variable", sample("off", ["OCL_ICD_VENDORS", "OPENCL_LAYERS"], 1))
def test_off(tmp_path, variable):
    """Off, it is as if it was not there: a loader and clinfo see what PoCL says, extensions and all."""
    need("clinfo")
    off = {**(ours(tmp_path) if variable == "OCL_ICD_VENDORS" else native()), variable: built("libvgpu-opencl.so"),
           "VGPU_OPENCL": "off"}
    assert output(["clinfo"], off) == output(["clinfo"], native())
    lines = output([built("tests/opencl/six"), POCL, built("libvgpu-opencl.so"), "1"], {**ours(tmp_path), **off})
    assert lines.count("equal") == 6


@twice
@pytest.mark.parametrize("seed", [SEED + n for n in range(40)] if FULL else [1])
def test_random_calls(tmp_path, seed):
    argv = [built("tests/opencl/random-calls"), str(seed), "300"]
    assert output(argv, ours(tmp_path)) == output(argv, native())


@twice
@pytest.mark.parametrize("seed", [SEED + n for n in range(25)] if FULL else [2])
def test_random_calls_and_stops(tmp_path, seed):
    program = built("tests/opencl/random-calls")
    with Stopped(tmp_path, [program, str(seed), "300", "2"]) as stopped:
        stops, refusals = stopped.stop_at_random(seed, 40 if FULL else 8)
        text = stopped.process.stdout.read().decode()
        assert stopped.process.wait() == 0
    assert text == output([program, str(seed), "300"], native())
    assert stops > 0 and all("is mapped" in why for why in refusals)


@pytest.mark.parametrize("seed", [SEED + n for n in range(10)] if FULL else [3])
def test_hammer(tmp_path, seed):
    """Many threads call at random while they are stopped. Each has what it wrote, and no call fails."""
    argv = [built("tests/opencl/hammer"), str(seed), "8", "4000" if FULL else "1000"]
    assert output(argv, native()).endswith(" 0 wrong\n")
    with Stopped(tmp_path, argv) as stopped:
        stops, refusals = stopped.stop_at_random(seed, 100)
        text = stopped.process.stdout.read().decode()
        assert stopped.process.wait() == 0
    print(f"{stops} stops")
    assert text.endswith(" 0 wrong\n") and stops > 0 and not refusals


def test_events_that_are_set_late(tmp_path):
    """Threads that make other calls before they set the event that commands wait for are stopped, too."""
    with Stopped(tmp_path, [built("tests/opencl/hammer"), "4", "8", "100", "slowly"]) as stopped:
        stops, refusals = stopped.stop_at_random(4, 3)
        assert stopped.process.wait() == 0
    assert stops > 0 and not refusals


@twice
def test_many_stops_leave_nothing(tmp_path):
    """A program that is stopped again and again comes to the same results, and takes no more for it."""
    # PoCL's own memory grows for a while, also without any stop.
    many, warm = (1000, 300) if FULL else (20, 10)
    argv = [built("tests/opencl/random-calls"), "11", str(many * 25), "1"]
    text = []
    with Stopped(tmp_path, argv) as stopped:
        reader = threading.Thread(target=lambda: text.append(stopped.process.stdout.read().decode()))
        reader.start()
        stops = stopped.stop_at_random(11, warm)[0]
        before = taken(stopped.process.pid)
        stops += stopped.stop_at_random(12, many - warm)[0]
        after = taken(stopped.process.pid)
        print(f"{stops} stops: threads, descriptors, MiB {before} -> {after}")
        reader.join()
        assert stopped.process.wait() == 0
    assert stops == many
    assert after[0] == before[0] and after[1] <= before[1] + 2 and after[2] < before[2] + 64
    assert text == [output(argv[:3], native())]


def every_function(environment, left_out):
    argv = [sys.executable, os.path.join(ROOT, "tests/opencl/every_function.py"), left_out]
    done = subprocess.run(argv, env=environment, stdout=subprocess.PIPE, timeout=HANG_S, check=False)
    return done.stdout.decode().splitlines()


@twice
def test_every_function(tmp_path):
    """Every function, called well and wrongly in each way, does what it does with PoCL alone; but for calls at which
    PoCL alone crashes."""
    left_out = tmp_path / "left-out"
    left_out.write_text("\n".join(CRASHES) + "\n")
    for _ in range(30):
        alone = every_function(native(), left_out)
        if alone[-1] == "all":
            break
        with open(left_out, "a", encoding="utf-8") as file:
            file.write([line for line in alone if line[0] != " "][-1] + "\n")
    assert alone[-1] == "all" and len(alone) > 3000 and sum(line.startswith("  = -") for line in alone) > 500
    assert every_function(ours(tmp_path), left_out) == alone


def arg_info(tmp_path, vendor, stops, **more):
    """What tests/opencl/arg-info says with that vendor alone, and with the library before it."""
    program = built("tests/opencl/arg-info")
    alone = output([program], {**os.environ, "OCL_ICD_VENDORS": vendor, **more})
    with Stopped(tmp_path, [program, "go"], vendor=vendor, **more) as stopped:
        lines = []
        while lines[-1:] != [b"built\n"]:
            lines.append(stopped.process.stdout.readline())
        for _ in range(stops):
            assert stopped.say(PREPARE).startswith("released")
            assert stopped.say("resume").startswith("resumed")
        (tmp_path / "go").touch()
        text = (b"".join(lines) + stopped.process.stdout.read()).decode()
        assert stopped.process.wait() == 0
    return alone, text


def test_numbers_that_are_addresses(tmp_path):
    """Where a vendor's kernels do not tell what their arguments are unless they are asked to, a number is no handle
    for all that, and the program does not see that they were asked."""
    alone, text = arg_info(tmp_path, built("tests/opencl/silent-vendor.so"), 1)
    assert "same" in alone and "OTHER" not in alone and "-19" in alone
    assert text == alone


@twice
@pytest.mark.parametrize("stops", [0, 2])
@pytest.mark.parametrize("vendor", [POCL, "silent", "refuses", "late", "strict"])
def test_what_kernels_tell(tmp_path, vendor, stops):
    """The same with vendors that tell more, that do not know the option, that do not bear it everywhere, or that refuse
    what is no image and no sampler."""
    more = {"VG_REFUSE": vendor} if vendor in ("refuses", "late", "strict") else {}
    if vendor not in ("refuses", "late"):
        more["VG_OPAQUE"] = "1"
    if vendor != POCL:
        vendor = built("tests/opencl/silent-vendor.so")
    alone, text = arg_info(tmp_path, vendor, stops, **more)
    assert "same" in alone and "OTHER" not in alone
    assert text == alone


@twice
def test_a_number_that_is_taken_for_an_image(tmp_path):
    """Where neither the vendor nor what it refuses tells, a number that is the address of an image comes to the kernel
    as another one, and the program's user is told so, once of each kernel."""
    log = tmp_path / "log"
    alone, text = arg_info(tmp_path, built("tests/opencl/silent-vendor.so"), 0, VG_REFUSE="refuses", VG_OPAQUE="1",
                           VGPU_OPENCL_LOG=str(log))
    assert "OTHER" not in alone and "OTHER" in text
    told_of = [line for line in log.read_text().splitlines() if "is treated as" in line]
    assert all("kernel keep: argument" in line for line in told_of)
    assert len(told_of) == text.count("  nothing 0:") > 3


def test_what_is_read(tmp_path):
    """Memory that no command has changed is not read where the host has what it holds, or where it holds nothing."""
    program = built("tests/opencl/changed")
    with Stopped(tmp_path, [program, "go"]) as stopped:
        assert stopped.process.stdout.readline() == b"made\n"
        read = []
        for _ in range(2):
            answer = stopped.say(PREPARE).split()
            assert answer[0] == "released"
            read.append([n for n in range(16) if int(answer[1]) & 4096 << n])
            assert stopped.say("resume").startswith("resumed")
        (tmp_path / "go").touch()
        lines = stopped.process.stdout.read().decode().splitlines()
        assert stopped.process.wait() == 0
    # Changed by a kernel, also by one that says it does not, by a fill, a copy, and its part; and the device's own.
    assert read == [[2, 3, 4, 5, 6, 8], [8]]
    assert len(lines) == 9 and all(line.endswith(": right") for line in lines)


def test_programs_in_turns(tmp_path):
    """Programs of which each turn is run by PoCL alone and with the library come to the same bits."""
    lines = output([built("tests/opencl/six"), POCL, built("libvgpu-opencl.so"), "2"], ours(tmp_path)).splitlines()
    assert len(lines) == 6 and all(line.endswith(" equal") for line in lines)


def test_installed_and_removed(tmp_path):
    """The package takes the vendors' .icd files, also what comes later, and gives them back."""
    need("dpkg-divert")
    vendors, kept = tmp_path / "etc/OpenCL/vendors", tmp_path / "etc/vgpud/opencl-vendors"
    for folder in (vendors, tmp_path / "var/lib/dpkg"):
        folder.mkdir(parents=True)

    def script(name, why):
        subprocess.run(["sh", os.path.join(ROOT, "packaging/debian", f"vgpu-opencl.{name}"), why], check=True,
                       env={**os.environ, "DPKG_ROOT": str(tmp_path), "DPKG_ADMINDIR": str(tmp_path / "var/lib/dpkg")})

    def there():
        return [sorted(os.listdir(folder)) if folder.exists() else None for folder in (vendors, kept)]
    (vendors / "vgpu-opencl.icd").write_text("ours\n")
    (vendors / "pocl.icd").write_text("first\n")
    script("postinst", "configure")
    assert there() == [["vgpu-opencl.icd"], ["pocl.icd"]]
    (vendors / "nvidia.icd").write_text("later\n")
    (vendors / "pocl.icd").write_text("again\n")
    script("postinst", "triggered")
    assert there() == [["vgpu-opencl.icd"], ["nvidia.icd", "pocl.icd"]]
    script("postrm", "remove")
    assert there() == [["nvidia.icd", "pocl.icd", "vgpu-opencl.icd"], None]
    assert (vendors / "pocl.icd").read_text() == "again\n"
    script("postrm", "purge")


def test_generated():
    """The table and what was generated from it are one."""
    need("clang-format")
    folder = os.path.join(ROOT, "opencl")
    before = {name: open(os.path.join(folder, name), encoding="utf-8").read()
              for name in ("track/calls.h", "track/calls.c", "icd/entries.c", "api/fields.h", "wire/ops.h",
                           "client/table.h", "client/later.h", "client/ask.c", "client/table.c", "serve/handwritten.h",
                           "serve/names.c", "serve/table.c")}
    with tempfile.TemporaryDirectory() as out:
        subprocess.run([sys.executable, os.path.join(folder, "api", "generate.py"), out], check=True)
        for name, text in before.items():
            assert open(os.path.join(out, name), encoding="utf-8").read() == text


# ---- letting go ----

@pytest.fixture(name="node")
def a_node(tmp_path):
    path = tmp_path / "node"
    path.write_bytes(bytes(4096))
    return path


def nodes(pid, node):
    """How many descriptors and maps of the node a process has."""
    n = 0
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            n += os.readlink(f"/proc/{pid}/fd/{fd}") == str(node)
        except FileNotFoundError:
            pass
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
        return n + sum(line.rstrip().endswith(str(node)) for line in maps)


@twice
@pytest.mark.parametrize("leak", ["nothing", "descriptor", "map", "descriptor map"])
def test_the_node_is_let_go(tmp_path, node, leak):
    argv = [built("tests/opencl/random-calls"), "5", "200", "5"]
    more = {"VG_NODE": str(node), "VG_LEAK": leak, "VGPU_OPENCL_NODES": str(node)}
    with Stopped(tmp_path, argv, vendor=built("tests/opencl/leaky-vendor.so"), **more) as stopped:
        pid = stopped.process.pid
        for _ in range(3):
            assert nodes(pid, node) == 2
            assert stopped.say(PREPARE).startswith("released")
            assert nodes(pid, node) == 0
            assert stopped.say("resume").startswith("resumed")
        text = stopped.process.stdout.read().decode()
        assert stopped.process.wait() == 0
    assert text == output(argv[:3], native())


@twice
def test_a_node_that_stays_is_told(tmp_path, node):
    """What the program opened itself is not closed: it goes on, on the devices that it had."""
    argv = [built("tests/opencl/random-calls"), "6", "200", "5"]
    more = {"VG_NODE": str(node), "VGPU_OPENCL_NODES": str(node)}
    with open(node, "rb") as own, Stopped(tmp_path, argv, vendor=built("tests/opencl/leaky-vendor.so"),
                                          inherit=[own.fileno()], **more) as stopped:
        assert stopped.say(PREPARE) == f"refused {node} is still open or mapped"
        text = stopped.process.stdout.read().decode()
        assert stopped.process.wait() == 0
    assert text == output(argv[:3], native())


@pytest.mark.parametrize("leak, answer", [("", "released"), ("driver", "released"),
                                          ("driver init", "refused the program also uses GPUs through CUDA")])
def test_a_driver_of_cuda(tmp_path, node, leak, answer):
    """The vendor's OpenCL may use CUDA's driver. The program may not: what it has there would be lost."""
    driver = tmp_path / "libcuda.so.1"
    shutil.copy(built("tests/guest/fake-cuda.so"), driver)
    with Stopped(tmp_path, [built("tests/opencl/mapped-writer")], vendor=built("tests/opencl/leaky-vendor.so"),
                 VG_NODE=str(node), VG_LEAK=leak, VGPU_OPENCL_NODES=str(node), VG_DRIVER="libcuda.so.1",
                 LD_LIBRARY_PATH=str(tmp_path)) as stopped:
        assert stopped.process.stdout.readline() == b"writes\n"
        assert re.fullmatch(f"{answer}( [0-9 ]+)?", stopped.say(PREPARE))
        stopped.say("resume")
        stopped.process.terminate()
        assert stopped.process.stdout.read().startswith(b"0 lost")


def test_another_library_of_the_gpu(tmp_path):
    """Its nodes would be closed with the vendor's."""
    library = tmp_path / "libnvidia-ml.so.1"
    shutil.copy(built("tests/guest/fake-cuda.so"), library)
    with Stopped(tmp_path, [built("tests/opencl/mapped-writer")], LD_PRELOAD=str(library)) as stopped:
        assert stopped.process.stdout.readline() == b"writes\n"
        assert stopped.say(PREPARE) == "refused the program also uses GPUs through libnvidia-ml.so"
        stopped.process.terminate()
        assert stopped.process.stdout.read().startswith(b"0 lost")


def ends(tmp_path, first, then):
    """A program whose vendor is of no use in the end: what the agent is answered before and after that begins."""
    with Stopped(tmp_path, [built("tests/opencl/ends")], vendor=built("tests/opencl/ending-vendor.so")) as stopped:
        assert stopped.process.stdout.readline() == b"ready\n"
        answers = [stopped.say(line).split(" ")[0] for line in first]
        stopped.process.terminate()
        if not first:
            assert stopped.process.stdout.readline() == b"ends\n"
        time.sleep(0.2)
        answers += [stopped.say(line).split(" ")[0] for line in then]
        text = stopped.process.stdout.read()
        assert stopped.process.wait(timeout=HANG_S) == 0
    assert text.endswith(b"well\n")
    return answers


def test_a_program_that_ends(tmp_path):
    """It is not stopped any more, as it could not go on: the agent sees it end."""
    assert ends(tmp_path, [], [PREPARE]) == [""]


def test_a_program_that_ends_while_it_is_stopped(tmp_path):
    """It waits until it goes on, and ends then."""
    assert ends(tmp_path, [PREPARE], ["resume"]) == ["released", "resumed"]
    (tmp_path / "twice").mkdir()
    assert ends(tmp_path / "twice", [PREPARE, "resume", PREPARE], ["resume"])[2:] == ["released", "resumed"]


# ---- faults in each step ----

STEPS = ("clEnqueueMarkerWithWaitList", "clFinish", "clCreateCommandQueue", "clEnqueueReadBuffer", "clEnqueueReadImage",
         "clEnqueueMapBuffer", "clEnqueueUnmapMemObject", "clGetProgramInfo", "clReleaseMemObject", "clReleaseContext",
         "clGetDeviceIDs", "clCreateContext", "clCreateSampler", "clCreateBuffer", "clCreateSubBuffer", "clCreateImage",
         "clEnqueueWriteBuffer", "clEnqueueWriteImage", "clCreateProgramWithSource", "clCreateProgramWithBinary",
         "clBuildProgram", "clCompileProgram", "clCreateKernel", "clSetKernelArg", "clCreateUserEvent")


class Faulty(Stopped):
    """A program whose vendor fails as it is told."""

    def __init__(self, folder, argv):
        self.path = folder / "fault"
        super().__init__(folder, argv, vendor=built("tests/opencl/faulty-vendor.so"), VG_FAULT=str(self.path))

    def fault(self, function, nth, kind):
        # By one step, and another file each time.
        new = self.path.with_suffix(".new")
        new.write_text(f"{function} {nth} {kind}")
        new.rename(self.path)

    def mend(self):
        self.path.unlink()

    def answer(self):
        return self.lines.readline().strip()

    def tell(self, line):
        self.lines.write(line + "\n")
        self.lines.flush()

    def stop_with(self, function, nth):
        """Stops it, and lets it go on, both with the fault; then without, if that was refused. Returns the answers."""
        self.fault(function, nth, "fails")
        answers = [self.say(PREPARE)]
        if answers[0].startswith("released"):
            answers.append(self.say("resume"))
        self.mend()
        if answers[-1].startswith(("failed", "lost")):
            answers.append(self.say("resume"))
        assert answers[-1] == "" or answers[-1].startswith(("resumed", "refused")), (function, nth, answers)
        return [answer.split(" ")[0] for answer in answers]


def run_until(stopped, lines):
    """Lets the program say so many lines. Returns them; and a thread that reads what follows into them."""
    text = [stopped.process.stdout.readline() for _ in range(lines)]
    reader = threading.Thread(target=lambda: text.extend(stopped.process.stdout))
    reader.start()
    return text, reader


@twice
@pytest.mark.parametrize("nth", [1, 2, 5])
def test_what_fails(tmp_path, nth):
    """Whichever of the vendor's functions fails while a program is stopped or comes back, it is as it was; or it waits
    for another try, which brings all of it back."""
    argv = [built("tests/opencl/random-calls"), str(20 + nth), "1500", "3"]
    seen = {}
    with Faulty(tmp_path, argv) as stopped:
        text, reader = run_until(stopped, 150)
        for function in STEPS:
            seen[function] = stopped.stop_with(function, nth)
            # The program's own calls in between.
            time.sleep(0.02)
        reader.join()
        assert stopped.process.wait() == 0
    print(seen)
    assert b"".join(text).decode() == output(argv[:3], native())
    said = [word for answers in seen.values() for word in answers]
    assert "refused" in said and "failed" in said


@twice
def test_programs_without_binaries(tmp_path):
    """Where the vendor gives no binaries, programs are built and linked again of what they were made of, also of what
    the program has released since."""
    argv = [built("tests/opencl/random-calls"), "26", "130", "5"]
    alone = output(argv[:3], native())
    linked = alone[:alone.index(" link 0")].count("\n") + 1
    with Faulty(tmp_path, argv) as stopped:
        stopped.fault("clGetProgramInfo", 1, "fails")
        text, reader = run_until(stopped, linked)
        stops, refusals = stopped.stop_at_random(26, 4)
        reader.join()
        assert stopped.process.wait() == 0
    assert b"".join(text).decode() == alone
    assert stops > 0 and all("is mapped" in why for why in refusals)


@twice
@pytest.mark.parametrize("line", ["abort", "deadline"])
def test_what_is_slow(tmp_path, line):
    """A stop that is aborted, or whose time is over, in whichever step."""
    argv = [built("tests/opencl/random-calls"), "30", "1500", "3"]
    said = []
    with Faulty(tmp_path, argv) as stopped:
        text, reader = run_until(stopped, 150)
        for function in STEPS[:10]:
            stopped.fault(function, 1, "slow")
            stopped.tell(PREPARE if line == "abort" else "prepare 100")
            time.sleep(0.1)
            if line == "abort":
                stopped.tell("abort")
            said.append(stopped.answer())
            stopped.mend()
            if said[-1].startswith("released"):
                assert stopped.say("resume").startswith("resumed")
        reader.join()
        assert stopped.process.wait() == 0
    print(said)
    assert b"".join(text).decode() == output(argv[:3], native())
    assert any(answer.startswith("refused") for answer in said)


@twice
@pytest.mark.parametrize("function", ["clEnqueueReadBuffer", "clReleaseMemObject"])
def test_what_hangs(tmp_path, function):
    """A vendor's function that does not come back is told, two seconds after the deadline. When it has come back, the
    program goes on."""
    argv = [built("tests/opencl/random-calls"), "31", "600", "3"]
    with Faulty(tmp_path, argv) as stopped:
        text, reader = run_until(stopped, 150)
        answer = "refused as it is mapped"
        while answer.startswith("refused"):
            stopped.fault(function, 1, "hangs")
            # Long enough to come to that function, also on a busy machine.
            stopped.tell("prepare 1000")
            answer = stopped.answer()
        if function == "clEnqueueReadBuffer":
            assert answer == "lost a call to the vendor's library does not return after waiting for commands"
        else:
            assert answer.startswith("lost a call to the vendor's library does not return")
        stopped.mend()
        assert stopped.say("resume").startswith("resumed")
        assert stopped.say(PREPARE).startswith(("released", "refused"))
        assert stopped.say("resume").startswith("resumed")
        reader.join()
        assert stopped.process.wait() == 0
    assert b"".join(text).decode() == output(argv[:3], native())


@twice
def test_a_return_that_hangs(tmp_path, monkeypatch):
    """It is told, with what it has come to, and is waited for all the same."""
    monkeypatch.setenv("VGPU_OPENCL_LONG", "1")
    argv = [built("tests/opencl/random-calls"), "32", "600", "3"]
    with Faulty(tmp_path, argv) as stopped:
        text, reader = run_until(stopped, 150)
        while not stopped.say(PREPARE).startswith("released"):
            pass
        stopped.fault("clCreateContext", 1, "hangs")
        assert stopped.say("resume") == "late a call to the vendor's library does not return after loading"
        stopped.mend()
        assert stopped.answer().startswith("resumed")
        reader.join()
        assert stopped.process.wait() == 0
    assert b"".join(text).decode() == output(argv[:3], native())


@twice
def test_no_time(tmp_path):
    """A deadline that cannot be kept changes nothing."""
    argv = [built("tests/opencl/random-calls"), "7", "300", "2"]
    with Stopped(tmp_path, argv) as stopped:
        answers = [stopped.say("prepare 1") for _ in range(20)]
        assert all(a.startswith(("refused", "released")) for a in answers if a)
        stopped.say("resume")
        text = stopped.process.stdout.read().decode()
        assert stopped.process.wait() == 0
    assert text == output(argv[:3], native())


def test_mapped_memory_is_the_programs(tmp_path):
    """It writes to what it has mapped while it is stopped, as only its calls wait."""
    log = tmp_path / "log"
    with Stopped(tmp_path, [built("tests/opencl/mapped-writer")], VGPU_OPENCL_LOG=str(log)) as stopped:
        assert stopped.process.stdout.readline() == b"writes\n"
        for _ in range(10):
            assert stopped.say(PREPARE).startswith("released")
            assert stopped.say("resume").startswith("resumed")
        stopped.process.terminate()
        assert stopped.process.stdout.read().startswith(b"0 lost")
        assert stopped.process.wait() == 0
    lines = re.findall(r"^vgpu-opencl\[\d+\]: (released|resumed): \w+.* [\d.]+ ms$", log.read_text(), re.M)
    assert lines == ["released", "resumed"] * 10


# PoCL compiles x264's kernels for a quarter of a minute where it has not done so before.
@pytest.mark.drawn("lab-many")
def test_x264(tmp_path):
    """A program that nobody here wrote, and that keeps memory mapped for as long as it runs. Its results with
    OpenCL differ from run to run, also with PoCL alone, so that they cannot be compared."""
    need("x264")
    make_film(tmp_path / "in.y4m", 40)
    argv = ["x264", "--opencl", "--preset", "medium", "--threads", "1", "-o", "out.264", "in.y4m"]
    with Stopped(tmp_path, argv, VGPU_OPENCL_AS_GPU="1") as stopped:
        stops, refusals = stopped.stop_at_random(SEED, 3)
        assert stopped.process.wait(timeout=HANG_S) == 0
    assert stops > 0 and not refusals
