# SPDX-License-Identifier: Apache-2.0
"""Ways to spoil a stream file, each with what must still be true of the analysis."""
import os
import struct
from dataclasses import dataclass

from ctfgen import CTF_MAGIC, Layout, Packet


@dataclass
class Case:
    label: str
    file: str                 # basename of the damaged stream file, or index/NAME
    data: bytes = None        # new content; None: removed
    least: int = 0            # records that must still be found
    most: int = 0             # and at most
    altered: bool = False     # bytes inside records changed: what they say may differ
    silent: bool = False      # nobody can tell from the files that data is missing
    intact: bool = False      # nothing may be lost or changed


class Victim:
    """A trace and where its packets and records lie."""

    def __init__(self, name, layout, total):
        self.name, self.layout, self.total = name, layout, total
        self.root = layout.root
        self.bytes = {f: open(os.path.join(self.root, f), "rb").read() for f in layout.files}
        self.t_end = max(p.t_end for ps in layout.files.values() for p in ps)

    def count(self, file):
        return sum(len(p.events) for p in self.layout.files[file])

    def others(self, file):
        return self.total - self.count(file)

    def whole_before(self, file, at):
        """Records that end at or before byte `at` of the file."""
        n = 0
        for p in self.layout.files[file]:
            starts = [o for o, _ in p.events] + [p.offset + p.content]
            n += sum(1 for end in starts[1:] if end <= at)
        return n


def cut(v, file, at):
    packets, size = v.layout.files[file], len(v.bytes[file])
    whole = v.whole_before(file, at)
    hit = next((p for p in packets if p.offset < at < p.offset + p.size), None)
    # The last record before the cut is not trusted, unless the cut is in the packet's padding.
    drop = 1 if hit and hit.offset + hit.header < at else 0
    return Case(f"cut {file} at {at} of {size}", file, v.bytes[file][:at],
                v.others(file) + max(0, whole - drop), v.others(file) + whole,
                silent=hit is None)


def emptied(v, file):
    return Case(f"empty {file}", file, b"", v.others(file), v.others(file))


def removed(v, file):
    """Only the index tells that a stream file is gone."""
    index = os.path.join(v.root, "index", file + ".idx")
    return Case(f"remove {file}", file, None, v.others(file), v.others(file),
                silent=not os.path.exists(index))


def noise(v, file, rng):
    size = len(v.bytes[file])
    return Case(f"fill {file} with noise", file, rng.randbytes(size), v.others(file),
                v.others(file))


def overwrite(v, file, at, junk, label):
    """Replaces bytes and works out what that may cost."""
    data = bytearray(v.bytes[file])
    junk = junk[:len(data) - at]
    data[at:at + len(junk)] = junk
    packets = v.layout.files[file]
    lost, altered, header = 0, False, False
    for i, p in enumerate(packets):
        if at < p.offset + p.header and at + len(junk) > p.offset:
            # Sizes may be wrong from here on: the rest of the file may be out of reach.
            lost += sum(len(q.events) for q in packets[i:])
            altered = header = True
            break
        if at < p.offset + p.content and at + len(junk) > p.offset + p.header:
            lost += min(len(p.events), sum(1 for o, _ in p.events if o >= at) + 1 + DOUBT)
            altered = True
    return Case(f"{label} {file} {len(junk)} bytes at {at}", file, bytes(data),
                max(v.total - lost, v.others(file)), v.total + (EXTRA if altered else 0),
                altered=altered, silent=header, intact=not altered)


# Noise may decode as a few records before it stops making sense; a careful reader therefore leaves
# out some of the records before the place where it does.
EXTRA = 32
DOUBT = 32


def header_overwritten(v, file, rng):
    p = rng.choice(v.layout.files[file])
    case = overwrite(v, file, p.offset, rng.randbytes(p.header), "header of")
    case.silent = False
    return case


def content_overwritten(v, file, rng):
    p = rng.choice(v.layout.files[file])
    return overwrite(v, file, p.offset + p.header, rng.randbytes(p.content - p.header),
                     "content of")


def some_bytes(v, file, rng):
    size = len(v.bytes[file])
    return overwrite(v, file, rng.randrange(size), rng.randbytes(rng.randrange(1, 65)), "bytes of")


def stream_id(v, file, rng):
    """The id behind the UUID: of a stream that the metadata does not know."""
    p = rng.choice(v.layout.files[file])
    return overwrite(v, file, p.offset + 20, rng.randbytes(3) + b"\x55", "stream id of")


def size_field(v, file, rng):
    """packet_size or content_size of one packet replaced by a misleading number."""
    p = rng.choice(v.layout.files[file])
    value = rng.choice((0, 1, 8, p.header * 8, p.content * 8 - 8, p.content * 8 + 8,
                        p.size * 8 - 8, p.size * 8 + 8, p.size * 16, 1 << 40, (1 << 64) - 1,
                        rng.getrandbits(64)))
    order = ">" if v.bytes[file][:4] == struct.pack(">I", CTF_MAGIC) else "<"
    at, what = find_size(v.bytes[file], p, order, rng.choice(("content", "size")))
    junk = struct.pack(order + "Q", value)
    case = overwrite(v, file, at, junk, f"{what}_size := {value} in")
    if what == "content" and p.content * 8 < value <= p.size * 8:
        # The padding becomes records. Where headers hold whole time stamps (perf), those of zeros
        # cannot be told from a clock that runs backwards; such a record has 60 bytes or more.
        case.most += (p.size - p.content) // 60
    return case


def find_size(data, p, order, what):
    """Where the field lies: the first eight bytes that hold the known number, or those behind."""
    content = struct.pack(order + "Q", p.content * 8)
    return data.index(content, p.offset + 20) + (8 if what == "size" else 0), what


def edges(v, file):
    """The offsets where readers go wrong."""
    out = {1, len(v.bytes[file]) - 1}
    for p in v.layout.files[file]:
        end = p.offset + p.size
        out |= {p.offset - 1, p.offset, p.offset + 1, p.offset + 4, p.offset + 20,
                p.offset + 24, p.offset + p.header - 9, p.offset + p.header - 1,
                p.offset + p.header, p.offset + p.header + 1, p.offset + p.content - 1,
                p.offset + p.content, p.offset + p.content + 1, end - 1}
        if p.events:
            out |= {p.events[-1][0], p.events[-1][0] + 1, p.events[len(p.events) // 2][0] + 5}
    return sorted(k for k in out if 0 < k < len(v.bytes[file]))


# Bytes of payload in the bundled recordings.
LTTNG_PAYLOAD = {"sched_switch": 56, "sched_wakeup": 28, "sched_migrate_task": 32, "kvm_entry": 4,
                 "kvm_exit": 44}
PERF_PAYLOAD = {"sched_switch": 26, "sched_wakeup": 13, "sched_migrate_task": 17, "kvm_entry": 16,
                "kvm_exit": 44}


def record_bytes(data, at, ev, lttng):
    """Length of the record ev, which begins at `at`."""
    if lttng:
        # Compact header (4 bytes) or, with id 31, the full one; pid, tid, procname.
        return (13 if data[at] & 31 == 31 else 4) + 24 + LTTNG_PAYLOAD[ev.name]
    texts = sum(len(v) for k, v in ev.f.items() if k.endswith("comm"))
    return 12 + 48 + texts + PERF_PAYLOAD[ev.name]


def recorded_layout(root, events, lttng):
    """Layout of a recorded trace: little-endian, one packet in each file."""
    layout = Layout(root)
    head = 32 if lttng else 24
    for name in sorted(os.listdir(root)):
        path = os.path.join(root, name)
        if name == "metadata" or not os.path.isfile(path):
            continue
        data = open(path, "rb").read()
        begin, end, content, size = struct.unpack_from("<4Q", data, head)
        assert size // 8 == len(data)
        # begin, end, content, packet size, [sequence number,] discarded, CPU
        length = head + 32 + (8 if lttng else 0) + 8 + 4
        packet = Packet(0, size // 8, content // 8, length, begin, end)
        at = length
        for i, ev in enumerate(events):
            if ev.cpu == int(name.rsplit("_", 1)[1]):
                packet.events.append((at, i))
                at += record_bytes(data, at, ev, lttng)
        assert at == packet.content, (name, at, packet.content)
        layout.files[name] = [packet]
    return layout
