# SPDX-License-Identifier: Apache-2.0
"""Everything that the collectors need of the kernel is in the list `features`, with the version that introduced
it. What is newer than 5.14 needs a probe and a fallback there. The list is compared with the compiled BPF object
and the sources."""
import os
import re

import pytest
from bpfobject import Object, compile_bpf
from vgpuctl import ROOT

OLDEST = (5, 14)
# KMALLOC_MAX_SIZE of these kernels: they refuse a map whose value is larger, with E2BIG.
VALUE_BYTES = 4 << 20
HERE = os.path.dirname(os.path.abspath(__file__))
COLLECTORS = os.path.join(ROOT, "collectors")
PERF_SOURCES = ("collectors/perf-events.c", "collectors/perf-ring.c", "collectors/perf-ring.h",
                "collectors/perf-merge.c", "collectors/perf-watch.c", "collectors/gpu-trace.c",
                "guest/perf-rings.c")
# Functions of libbpf that do not enter the kernel, or only release what others made.
LIBBPF_LOCAL = re.compile(r"(btf__(find_by_name_kind|type_by_id|name_by_offset|free)|bpf_(map|program|link)__\w+"
                          r"|ring_buffer__(consume|epoll_fd|free)|libbpf_\w+)$")
SKELETON = re.compile(r"vcpu_bpf__\w+$")


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def sources():
    return [f"collectors/{name}" for name in sorted(os.listdir(COLLECTORS)) if name.endswith((".c", ".h"))]


class Feature:
    """A line of the list."""

    def __init__(self, line):
        self.kind, self.name, self.since, self.source, *rest = line.split(None, 5)
        self.probe, self.fallback = rest if len(rest) == 2 else (None, None)

    @property
    def key(self):
        return self.kind, self.name

    def is_newer(self):
        """Newer than the oldest kernel, or of an unknown version."""
        found = re.fullmatch(r"(?:<=)?(\d+)\.(\d+)(?:\.\d+)?", self.since)
        assert found or self.since == "unknown", f"{self.name}: '{self.since}' is no version"
        return not found or (int(found[1]), int(found[2])) > OLDEST


def features(text):
    listed = [Feature(line) for line in text.splitlines() if line and line[0] != "#"]
    assert len({feature.key for feature in listed}) == len(listed), "a feature is listed twice"
    return {feature.key: feature for feature in listed}


def refusals(used, listed):
    """What is wrong with the list, one line for each feature."""
    for kind, name in sorted(used - set(listed)):
        yield f"{kind} {name} is used but not listed"
    for kind, name in sorted(set(listed) - used):
        yield f"{kind} {name} is listed but not used"
    for feature in listed.values():
        if feature.is_newer() and not feature.fallback:
            yield f"{feature.kind} {feature.name} is of {feature.since} and has no probe and fallback"


# ---- what is used ----

def bpf_object():
    return os.path.join(os.environ.get("VG_BUILDDIR", os.path.join(ROOT, "build")), "collectors", "vcpu.bpf.o")


def arguments():
    """Arguments of tracepoints that the BPF programs read."""
    parts = re.split(r'SEC\("(?:tp_btf|raw_tp)/(\w+)"\)', read("collectors/vcpu.bpf.c"))
    for name, body in zip(parts[1::2], parts[2::2]):
        body = body.split("\n}\n")[0]
        yield from (("argument", f"{name}[{number}]") for number in re.findall(r"ctx\[(\d+)\]", body))


def kernel_members():
    """Members of the kernel's structs whose place is found when the programs are loaded."""
    for struct, body in re.findall(r"^struct (\w+) \{\n(.*?)^\};", read("collectors/bpf-kernel.h"), re.S | re.M):
        body = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
        yield from (("member", f"{struct}.{name}") for name in re.findall(r"(\w+)(?:\[\d+\])?;", body))


def libbpf_calls():
    for path in sources():
        text = read(path)
        if "#include <bpf/" not in text or path.endswith(".bpf.c"):
            continue
        for name in re.findall(r"\b((?:bpf_[a-z_]+|btf__\w+|ring_buffer__\w+|libbpf_\w+))\(", text):
            static = re.search(rf"^{name}\(", text, re.M)
            if not static and not LIBBPF_LOCAL.match(name) and not SKELETON.match(name):
                yield "libbpf", name
        for info in re.findall(r"struct (bpf_\w+_info) info\b.*?\n\}", text, re.S):
            body = re.search(rf"struct {info} info\b(.*?)\n\}}", text, re.S)[1]
            yield from (("info", f"{info}.{member}") for member in re.findall(r"\binfo\.(\w+)", body))


def perf():
    for path in PERF_SOURCES:
        text = read(path)
        yield from (("perf", name) for name in re.findall(r"\bPERF_[A-Z][A-Z0-9_]+\b", text))
        for body in re.findall(r"struct perf_event_attr \w+ = \{(.*?)\};", text, re.S):
            yield from (("perf", f"attr.{name}") for name in re.findall(r"\.(\w+) =", body))
        yield from (("perf", f"attr.{name}") for name in re.findall(r"\battr->(\w+) =", text))


def paths_of(path, table):
    """Tracepoints SYSTEM/NAME in a table of a source."""
    text = read(path)
    body = re.search(rf"{table}\[\] = \{{(.*?)\n\}};", text, re.S)[1]
    for name, value in re.findall(r'^# ?define (\w+) +"(\w+/\w+)"', text, re.M):
        body = body.replace(name, f'"{value}"')
    return re.findall(r'"(\w+/\w+)"', body)


def fields():
    """Fields of the tracepoints of source-perf.c that the adapters bind, by the kernel's name: thread ids are
    `tid` in LTTng only."""
    adapters = read("trace/adapt-sched.c") + read("trace/adapt-kvm.c")
    for path in paths_of("collectors/source-perf.c", "tracepoints"):
        event = path.split("/")[1]
        table = re.search(rf'\{{\{{[^}}]*"{event}"[^}}]*\}},\s*\w+,\s*(\w+),', adapters)[1]
        body = re.search(rf"{table}\[\] = \{{(.*?)\n\}};", adapters, re.S)[1]
        yield "tracepoint", path
        for names in re.findall(r"\{VG_SLOT_\w+, (?:true|false), \{([^}]*)\}\}", body):
            kernels = [name for name in re.findall(r"[a-z_]+", names) if not name.endswith("tid")]
            yield "field", f"{event}.{kernels[0]}"


def gpu_tracepoints():
    return [("tracepoint", path) for path in paths_of("collectors/gpu-tracepoints.c", "known")]


def used():
    return {*Object(bpf_object()).needs(), *arguments(), *kernel_members(), *libbpf_calls(), *perf(), *fields(),
            *gpu_tracepoints()}


@pytest.fixture(name="listed", scope="module")
def listed_fixture():
    return features(read("tests/kernels/features"))


# ---- tests ----

def test_the_list_is_complete(listed):
    found = list(refusals(used(), listed))
    assert not found, "\n".join(found)


def test_values_of_maps_are_small():
    sizes = Object(bpf_object()).value_bytes()
    assert sizes["threads"] > 1000 and sizes[".bss"] > 700000
    assert {name: size for name, size in sizes.items() if size > VALUE_BYTES} == {}


def test_every_probe_exists(listed):
    for feature in listed.values():
        if feature.probe:
            path, function = feature.probe.split(":")
            assert re.search(rf"^{function}\(|^# ?define {function}\b", read(path), re.M), feature.probe


def test_every_version_has_a_source(listed):
    for feature in listed.values():
        assert re.fullmatch(r"[0-9a-f]{12}|perf_event_open\(2\)|[\w./-]+\.[ch]", feature.source), feature.key


def test_newer_is_refused(listed):
    text = "helper bpf_loop 5.17 e6f2dd0f8067\n"
    assert list(refusals({("helper", "bpf_loop")}, features(text))) == \
           ["helper bpf_loop is of 5.17 and has no probe and fallback"]
    assert not list(refusals({("helper", "bpf_loop")}, features(text.replace("5.17", "5.14"))))
    assert list(refusals(set(listed) | {("helper", "bpf_loop")}, listed)) == \
           ["helper bpf_loop is used but not listed"]


PROGRAM = """
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
struct {
    __uint(type, BPF_MAP_TYPE_BLOOM_FILTER);
    __uint(max_entries, 1);
    __uint(map_flags, BPF_F_ZERO_SEED);
    __type(value, long);
} bloom SEC(".maps");
double number = 1;
static long step(__u32 i, void *data) { return 0; }
SEC("fentry/schedule") int on_schedule(__u64 *ctx)
{
    long seen = bpf_map_peek_elem(&bloom, ctx);
    bpf_loop(8, step, 0, 0);
    return __sync_fetch_and_add(&ctx[0], 1) + ((__u32)seen < (__u32)ctx[1] ? 5 : 7);
}
"""


def test_the_object_reader_sees_what_a_program_needs(tmp_path):
    compile_bpf(PROGRAM, tmp_path / "new.o", "v3")
    found = Object(tmp_path / "new.o").needs()
    assert found >= {("program", "SEC(fentry)"), ("tracepoint", "fentry/schedule"), ("helper", "bpf_loop"),
                     ("helper", "bpf_map_peek_elem"), ("map", "BPF_MAP_TYPE_BLOOM_FILTER"),
                     ("map-flag", "BPF_F_ZERO_SEED"), ("feature", "BPF_FETCH"), ("feature", "jmp32"),
                     ("feature", "global-data"), ("btf-kind", "FLOAT")}
    assert ("feature", "global-functions") not in found
