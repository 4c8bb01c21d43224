# SPDX-License-Identifier: Apache-2.0
"""Reads Perfetto traces and checks that they hold together. Of the writer under test it knows
nothing: the wire format and the numbers of fields are from the published protocol.

    python3 tests/lib/perfetto.py [--open-flows] FILE

prints counts, or with status 1 what is wrong.

What is checked: tracks are described once, before they are used, and after their parents; names
that are numbers were told before; times on a track do not run backwards; slices are closed in the
order of a stack; counters are on counter tracks and nothing else is; a flow begins, goes on, and is
ended once by an event that says so (with --open-flows it need not end), in the order of time.
"""
import struct
import sys
from dataclasses import dataclass, field

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
MONOTONIC, REALTIME = 3, 1
SLICE_BEGIN, SLICE_END, INSTANT, COUNTER = 1, 2, 3, 4
STATE_CLEARED, NEEDS_STATE = 1, 2


class Wrong(Exception):
    """The trace is not what it should be."""


# ---- the wire format: https://protobuf.dev/programming-guides/encoding/ ----

def varint(data, at):
    value = shift = 0
    while True:
        if at >= len(data):
            raise Wrong(f"a varint is cut off at byte {at}")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 63:
            raise Wrong(f"a varint has more than 10 bytes before byte {at}")
    if value >= 1 << 64:
        raise Wrong(f"a varint has more than 64 bits before byte {at}")
    return value, at


def fields(data):
    """[(number, wire type, value)] of a message."""
    found, at = [], 0
    while at < len(data):
        tag, at = varint(data, at)
        number, wire = tag >> 3, tag & 7
        if number == 0:
            raise Wrong(f"a field has the number 0 before byte {at}")
        if wire == VARINT:
            value, at = varint(data, at)
        else:
            size = {FIXED64: 8, FIXED32: 4}.get(wire)
            if wire == BYTES:
                size, at = varint(data, at)
            if size is None:
                raise Wrong(f"field {number} has the unknown wire type {wire}")
            if at + size > len(data):
                raise Wrong(f"field {number} is cut off at byte {len(data)}")
            value = data[at:at + size]
            at += size
            if wire == FIXED64:
                value = struct.unpack("<Q", value)[0]
        found.append((number, wire, value))
    return found


class Message:
    """A message as a dictionary of lists of raw values."""

    def __init__(self, data):
        self.raw = {}
        for number, wire, value in fields(data):
            self.raw.setdefault(number, []).append((wire, value))

    def all(self, number, wire):
        values = self.raw.get(number, [])
        if any(w != wire for w, _ in values):
            raise Wrong(f"field {number} has wire type {values[0][0]}, not {wire}")
        return [v for _, v in values]

    def one(self, number, wire, default=None):
        values = self.all(number, wire)
        return values[-1] if values else default

    def uint(self, number, default=None):
        return self.one(number, VARINT, default)

    def sint(self, number, default=None):
        value = self.one(number, VARINT)
        if value is None:
            return default
        return value - (1 << 64) if value >= 1 << 63 else value

    def text(self, number, default=None):
        value = self.one(number, BYTES)
        if value is None:
            return default
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError as error:
            raise Wrong(f"field {number} is no UTF-8") from error

    def message(self, number):
        value = self.one(number, BYTES)
        return None if value is None else Message(value)

    def messages(self, number):
        return [Message(value) for value in self.all(number, BYTES)]


def packets(data):
    """The packets of a trace (trace.proto), one after the other."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        if tag != 1 << 3 | BYTES:
            raise Wrong(f"there is no packet at byte {at - 1}")
        size, at = varint(data, at)
        if at + size > len(data):
            raise Wrong("the last packet is cut off")
        yield Message(data[at:at + size])
        at += size


# ---- the trace ----

@dataclass
class Track:
    uuid: int
    name: str
    parent: int = 0
    kind: str = "track"            # track, process, thread or counter
    pid: int | None = None
    tid: int | None = None
    unit: str | None = None
    last_ns: int | None = None
    events: int = 0
    open: list = field(default_factory=list)
    slices: list = field(default_factory=list)
    instants: list = field(default_factory=list)
    values: list = field(default_factory=list)      # (time, value) of a counter


@dataclass
class Slice:
    track: int
    begin_ns: int
    name: str
    category: str | None
    depth: int
    end_ns: int | None = None
    args: dict = field(default_factory=dict)
    flows: list = field(default_factory=list)
    flow_ends: list = field(default_factory=list)


@dataclass
class Trace:
    tracks: dict = field(default_factory=dict)
    clocks: dict = field(default_factory=dict)      # clock id -> time, of the first snapshot
    primary_clock: int | None = None
    flows: dict = field(default_factory=dict)       # id -> [Slice], in the order of the file
    packets: int = 0

    def slices(self):
        return [s for track in self.tracks.values() for s in track.slices]

    def named(self, name):
        """The tracks of that name."""
        return [track for track in self.tracks.values() if track.name == name]

    def counts(self):
        tracks = self.tracks.values()
        return {
            "packets": self.packets,
            "tracks": len(self.tracks),
            "slices": sum(len(t.slices) for t in tracks),
            "instants": sum(len(t.instants) for t in tracks),
            "values": sum(len(t.values) for t in tracks),
            "flows": len(self.flows),
            "open flows": sum(not any(f in s.flow_ends for s in steps)
                              for f, steps in self.flows.items()),
        }


class Sequence:
    """What packets of one sequence told for those after them."""

    def __init__(self):
        self.valid = False
        self.clock = None
        self.names = {1: {}, 2: {}, 3: {}}          # categories, event names, annotation names

    def clear(self):
        self.__init__()
        self.valid = True

    def learn(self, packet):
        defaults = packet.message(59)
        if defaults is not None:
            self.clock = defaults.uint(58, self.clock)
        for interned in packet.messages(12):
            for number, names in self.names.items():
                for entry in interned.messages(number):
                    iid, name = entry.uint(1, 0), entry.text(2)
                    if iid == 0 or name is None:
                        raise Wrong("an interned name has no number or no name")
                    if names.get(iid, name) != name:
                        raise Wrong(f"the number {iid} is told for '{names[iid]}' and '{name}'")
                    names[iid] = name

    def name(self, message, kind, iid_field, text_field):
        iids = message.all(iid_field, VARINT)
        if not iids:
            return message.text(text_field)
        if iids[-1] not in self.names[kind]:
            raise Wrong(f"nobody told the name number {iids[-1]} of kind {kind}")
        return self.names[kind][iids[-1]]


def add_track(trace, descriptor):
    uuid, parent = descriptor.uint(1, 0), descriptor.uint(5, 0)
    if uuid == 0:
        raise Wrong("a track has no uuid")
    if uuid in trace.tracks:
        raise Wrong(f"track {uuid} is described twice")
    if parent and parent not in trace.tracks:
        raise Wrong(f"track {uuid} has the parent {parent}, which is not described")
    track = Track(uuid, descriptor.text(2, ""), parent)
    process, thread, counter = (descriptor.message(n) for n in (3, 4, 8))
    if (process, thread, counter).count(None) < 2:
        raise Wrong(f"track {uuid} is of more than one kind")
    if process:
        track.kind, track.pid = "process", process.sint(1)
    elif thread:
        track.kind, track.pid, track.tid = "thread", thread.sint(1), thread.sint(2)
        if track.pid is None or track.tid is None:
            raise Wrong(f"track {uuid} of a thread has no pid or no tid")
    elif counter:
        track.kind, track.unit = "counter", counter.text(6)
    trace.tracks[uuid] = track


def annotations(event, sequence):
    args = {}
    for note in event.messages(4):
        name = sequence.name(note, 3, 1, 10)
        if name is None:
            raise Wrong("an annotation has no name")
        args[name] = note.text(6) if 6 in note.raw else note.sint(4)
        if args[name] is None:
            raise Wrong(f"the annotation '{name}' has no value that is known here")
    return args


def add_value(track, t, event):
    if 44 in event.raw:
        value = struct.unpack("<d", struct.pack("<Q", event.one(44, FIXED64)))[0]
    else:
        value = event.sint(30)
    if value is None:
        raise Wrong(f"a counter event of track {track.uuid} has no value")
    track.values.append((t, value))


def add_event(trace, event, t, sequence):
    uuid, kind = event.uint(11, 0), event.uint(9)
    track = trace.tracks.get(uuid)
    if track is None:
        raise Wrong(f"an event is on track {uuid}, which is not described")
    if track.last_ns is not None and t < track.last_ns:
        raise Wrong(f"time runs backwards on track {uuid}: {t} after {track.last_ns}")
    track.last_ns = t
    track.events += 1
    if (kind == COUNTER) != (track.kind == "counter"):
        raise Wrong(f"an event of type {kind} is on track {uuid}, a {track.kind}")
    if kind == COUNTER:
        add_value(track, t, event)
    elif kind == SLICE_END:
        if not track.open:
            raise Wrong(f"at {t} a slice ends on track {uuid}, and none is open")
        track.open.pop().end_ns = t
    elif kind in (SLICE_BEGIN, INSTANT):
        name = sequence.name(event, 2, 10, 23)
        if name is None:
            raise Wrong(f"an event at {t} on track {uuid} has no name")
        new = Slice(uuid, t, name, sequence.name(event, 1, 3, 22), len(track.open),
                    args=annotations(event, sequence), flows=event.all(47, FIXED64),
                    flow_ends=event.all(48, FIXED64))
        if set(new.flows) & set(new.flow_ends):
            raise Wrong(f"an event at {t} on track {uuid} both goes on with a flow and ends it")
        for flow in new.flows + new.flow_ends:
            trace.flows.setdefault(flow, []).append(new)
        if kind == SLICE_BEGIN:
            track.slices.append(new)
            track.open.append(new)
        else:
            new.end_ns = t
            track.instants.append(new)
    else:
        raise Wrong(f"an event of track {uuid} has the type {kind}")


def check_flows(trace, open_flows):
    for flow, steps in trace.flows.items():
        steps.sort(key=lambda s: s.begin_ns)        # stable, as readers sort
        ends = [i for i, s in enumerate(steps) if flow in s.flow_ends]
        if len(ends) > 1:
            raise Wrong(f"flow {flow} is ended {len(ends)} times")
        if not ends and not open_flows:
            raise Wrong(f"flow {flow} is never ended")
        if ends and ends[0] == 0:
            raise Wrong(f"flow {flow} ends without having begun")
        if ends and ends[0] != len(steps) - 1:
            raise Wrong(f"flow {flow} goes on after its end")


def read(path, open_flows=False):
    """The Trace in a file; raises Wrong if it does not hold together."""
    trace, sequences = Trace(), {}
    with open(path, "rb") as file:
        data = file.read()
    for packet in packets(data):
        trace.packets += 1
        number = packet.uint(10)
        if not number:
            raise Wrong(f"packet {trace.packets} belongs to no sequence")
        sequence = sequences.setdefault(number, Sequence())
        flags = packet.uint(13, 0)
        if flags & STATE_CLEARED:
            sequence.clear()
        if flags & NEEDS_STATE and not sequence.valid:
            raise Wrong(f"packet {trace.packets} needs what its sequence has not told")
        sequence.learn(packet)
        snapshot, descriptor, event = (packet.message(n) for n in (6, 60, 11))
        if snapshot and trace.primary_clock is None:
            trace.primary_clock = snapshot.uint(2)
            trace.clocks = {c.uint(1): c.uint(2) for c in snapshot.messages(1)}
        if descriptor:
            add_track(trace, descriptor)
        if event:
            t, clock = packet.uint(8), packet.uint(58, sequence.clock)
            if t is None:
                raise Wrong(f"packet {trace.packets} has an event and no time")
            if clock != trace.primary_clock:
                raise Wrong(f"an event at {t} is on clock {clock}, the trace on "
                            f"{trace.primary_clock}")
            add_event(trace, event, t, sequence)
    for track in trace.tracks.values():
        if track.open:
            raise Wrong(f"slice '{track.open[-1].name}' of track {track.uuid} "
                        f"('{track.name}') is never closed")
    check_flows(trace, open_flows)
    return trace


def main(argv):
    open_flows = "--open-flows" in argv
    paths = [a for a in argv if a != "--open-flows"]
    if len(paths) != 1 or paths[0].startswith("-"):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    try:
        trace = read(paths[0], open_flows)
    except (Wrong, OSError) as error:
        print(f"{paths[0]}: {error}", file=sys.stderr)
        return 1
    for name, count in trace.counts().items():
        print(f"{name}: {count}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
