# SPDX-License-Identifier: Apache-2.0
"""Compressed trace text, and what people give in place of trace text."""
import bz2
import gzip
import lzma
import zipfile

import pytest

from vgpuctl import analyze

TEXT = """# tracer: nop
#
           <...>-142     [000] d..2.    10.000000: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 \
prev_state=R ==> next_comm=CPU 0/KVM next_pid=142 next_prio=120
           <...>-142     [000] d..1.    10.000100: kvm_entry: vcpu 0, rip 0xffffffff81000000
           <...>-142     [000] d..1.    10.000500: kvm_exit: reason HLT rip 0xffffffff81000010 info 0 0
           <...>-142     [000] d..2.    10.000600: sched_switch: prev_comm=CPU 0/KVM prev_pid=142 prev_prio=120 \
prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120
"""
GRAPH = """# tracer: function_graph
#
# CPU  DURATION                  FUNCTION CALLS
# |     |   |                     |   |   |   |
"""
PERF_JSON = '{\n\t"linux-perf-json-version": 1,\n\t"headers": {}\n}\n'


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress], ids=["gz", "bz2", "xz"])
def test_compressed(tmp_path, pack):
    """A file and a pipe; zstd, which Python does not have, is in tests/unit/test-unpack.c."""
    (tmp_path / "t").write_bytes(pack(TEXT.encode()))
    [vm] = analyze(tmp_path / "t").doc()["vms"]
    assert (vm["run_ns"], vm["guest_ns"], vm["entries"]) == (600_000, 400_000, 1)
    [vm] = analyze("-", stdin=pack(TEXT.encode())).doc()["vms"]
    assert vm["guest_ns"] == 400_000


def zipped(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("trace.txt", TEXT)


def refusal(path):
    result = analyze(path)
    assert result.rc == 1, result.out
    return result.err


@pytest.mark.parametrize("data, words", [
    (b"\xff\xfe" + TEXT.encode("utf-16-le"), "UTF-16 text; convert it with `iconv -f UTF-16 -t UTF-8 /"),
    (b"\xfe\xff" + TEXT.encode("utf-16-be"), "UTF-16 text; convert it with `iconv -f UTF-16 -t UTF-8 /"),
    (TEXT.encode("utf-16-le"), "UTF-16 text; convert it with `iconv -f UTF-16LE -t UTF-8 /"),
    (TEXT.encode("utf-16-be"), "UTF-16 text; convert it with `iconv -f UTF-16BE -t UTF-8 /"),
    (b"\xff\xfe\0\0" + TEXT.encode("utf-32-le"), "UTF-32 text"),
    (TEXT.replace("\n", "\r").encode(), "with only a carriage return; convert it with `tr '\\r' '\\n' < /"),
    (PERF_JSON.encode(), "this is JSON; use the original recording"),
    (b'\xef\xbb\xbf [\n{"name": "x", "ph": "B"}]', "this is JSON"),
    (b"\x17\x08\x44tracing\0\0", "a trace.dat file; convert it with `trace-cmd report -i /"),
    (b"PERFILE2\0\0", "a perf.data file; convert it with `perf script -i /"),
    (b"/* CTF 1.8 */\n", "the metadata of a CTF trace; give the directory"),
    (b"\xc1\x1f\xfc\xc1\0\0", "a stream of a CTF trace; give the directory"),
    (b"\x04\x22\x4d\x18\x64\x40", "an lz4 file; unpack it"),
    (b"<!DOCTYPE html>\n<html>", "a web page"),
], ids=["utf-16-le", "utf-16-be", "utf-16-le-bare", "utf-16-be-bare", "utf-32", "cr", "perf-json", "chrome-json",
        "trace.dat", "perf.data", "ctf-metadata", "ctf-stream", "lz4", "html"])
def test_what_it_is(tmp_path, data, words):
    (tmp_path / "t").write_bytes(data)
    assert words in refusal(tmp_path / "t")


@pytest.mark.parametrize("pack, name", [(gzip.compress, "gzip"), (lzma.compress, "xz")])
def test_what_is_in_it(tmp_path, pack, name):
    (tmp_path / "t").write_bytes(pack(b"PERFILE2\0\0"))
    assert f"a perf.data file in {name}; unpack it, then convert it with `perf script -i`" in refusal(tmp_path / "t")
    (tmp_path / "u").write_bytes(pack(PERF_JSON.encode()))
    assert f"JSON in {name}; unpack it, then" in refusal(tmp_path / "u")


def test_zip(tmp_path):
    zipped(tmp_path / "t.zip")
    assert "a zip archive; unpack it with `unzip /" in refusal(tmp_path / "t.zip")


@pytest.mark.parametrize("lines", [
    " 0)               |  /* sched_switch: prev_comm=swapper/0 prev_pid=0 */\n",
    " 0)   0.500 us    |  vmx_vcpu_run();\n",
    "   10.000000 |   0)   0.500 us    |  vmx_vcpu_run();\n",
    " 12)  CPU 0/K-5001  =>  <idle>-0\n",
], ids=["comment", "call", "time", "switch"])
@pytest.mark.parametrize("head", [GRAPH, ""], ids=["head", "bare"])
def test_function_graph(tmp_path, head, lines):
    """With the head, it is trace text without an event."""
    (tmp_path / "t").write_text(head + lines)
    result = analyze(tmp_path / "t")
    assert "this is the function_graph tracer's format: record events with" in result.err + result.out, result.err


@pytest.mark.parametrize("text", [TEXT.replace("\n", "\r\n"), "\ufeff" + TEXT, TEXT + '{"a": 1}\n'], ids=["crlf", "mark", "json-inside"])
def test_still_read(tmp_path, text):
    (tmp_path / "t").write_bytes(text.encode())
    [vm] = analyze(tmp_path / "t").doc()["vms"]
    assert vm["entries"] == 1
