# SPDX-License-Identifier: Apache-2.0
"""Writes CTF 1.8 traces in the dialects of LTTng's kernel tracer and of `perf data convert`.

Built from the CTF 1.8 specification and from metadata of real recordings, with nothing of the
reader under test in it. A trace is a list of Ev in time order; write_trace() returns where every
packet and event lies, so that tests can damage files at known places.
"""
import os
import struct
import uuid as uuidlib
from dataclasses import dataclass, field

CTF_MAGIC = 0xC1FC1FC1
TSDL_MAGIC = 0x75D11D57
INDEX_MAGIC = 0xC1F1DCC1


@dataclass
class Ev:
    """One record. name is generic ("kvm_entry"); f holds its payload by generic field names."""
    t: int            # ns, raw trace clock
    cpu: int
    name: str
    tid: int          # who recorded it
    pid: int = -1
    comm: str = ""
    f: dict = field(default_factory=dict)


@dataclass
class Dialect:
    style: str = "lttng213"          # lttng25, lttng213 or perf
    order: str = "le"                # le or be
    header: str = "compact"          # LTTng only: compact or large
    contexts: tuple = ("pid", "tid", "procname")
    natural_align: bool = False      # align integers to their size, as on strict machines
    freq: int = 1_000_000_000
    clock_offset: int = 0            # cycles
    clock_offset_s: int = 0          # seconds, on top
    clock_name: str = "monotonic"
    clock_uuid: str = "6f2b0a0e-7d0f-4a39-93f1-0d1a3a6c9b11"   # "": none
    kernel_release: str = "6.1.0-18-amd64"
    packet_bytes: int = 4096
    packetised: bool = False         # metadata in packets
    index: bool = True               # index/ beside LTTng streams
    id_base: int = 0                 # first event id; > 30 forces extended compact headers
    stream_prefix: str = "channel0_"
    only: tuple = ()                 # event classes that exist; () = all that occur
    backwards: bool = False          # time stamps may run backwards: full headers only
    env: tuple = ()                  # more entries of the environment: (name, string) each
    extra: dict = field(default_factory=dict)   # more event classes: name -> (system, fields)


@dataclass
class Packet:
    offset: int
    size: int         # bytes
    content: int      # bytes
    header: int       # bytes of packet header and context
    t_begin: int
    t_end: int
    events: list = field(default_factory=list)   # (offset in file, index into the event list)


@dataclass
class Layout:
    root: str
    files: dict = field(default_factory=dict)    # basename -> [Packet]
    cpu_of: dict = field(default_factory=dict)


# ---- field types: (kind, bits, signed); kind i = integer, c = char array, s = string ----

U8, U16, U32, U64 = (("i", n, False) for n in (8, 16, 32, 64))
S32, S64 = ("i", 32, True), ("i", 64, True)
COMM = ("c", 16, True)
STR = ("s", 0, False)


def _sched_fields(style):
    tid = "pid" if style == "perf" else "tid"
    comm = STR if style == "perf" else COMM
    wake = [("comm", comm, "comm"), (tid, S32, "tid"), ("prio", S32, "prio")]
    if style == "lttng25":
        wake.append(("success", S32, "success"))
    return {
        "sched_switch": [
            ("prev_comm", comm, "prev_comm"), ("prev_" + tid, S32, "prev_tid"),
            ("prev_prio", S32, "prio"), ("prev_state", S64, "prev_state"),
            ("next_comm", comm, "next_comm"), ("next_" + tid, S32, "next_tid"),
            ("next_prio", S32, "prio")],
        "sched_wakeup": wake + [("target_cpu", S32, "target_cpu")],
        "sched_wakeup_new": wake + [("target_cpu", S32, "target_cpu")],
        "sched_waking": wake + [("target_cpu", S32, "target_cpu")],
        "sched_migrate_task": [
            ("comm", comm, "comm"), (tid, S32, "tid"), ("prio", S32, "prio"),
            ("orig_cpu", S32, "orig_cpu"), ("dest_cpu", S32, "dest_cpu")],
    }


def _process_fields(style):
    if style == "perf":
        return {
            "sched_process_fork": [("parent_comm", STR, "parent_comm"),
                                   ("parent_pid", S32, "parent_tid"),
                                   ("child_comm", STR, "child_comm"),
                                   ("child_pid", S32, "child_tid")],
            "sched_process_free": [("comm", STR, "comm"), ("pid", S32, "tid"),
                                   ("prio", S32, "prio")],
            "sched_process_exit": [("comm", STR, "comm"), ("pid", S32, "tid"),
                                   ("prio", S32, "prio")],
        }
    return {
        "sched_process_fork": [("parent_comm", COMM, "parent_comm"),
                               ("parent_tid", S32, "parent_tid"),
                               ("parent_pid", S32, "parent_pid"),
                               ("child_comm", COMM, "child_comm"),
                               ("child_tid", S32, "child_tid"),
                               ("child_pid", S32, "child_pid")],
        "sched_process_free": [("comm", COMM, "comm"), ("tid", S32, "tid"),
                               ("prio", S32, "prio")],
        "sched_process_exit": [("comm", COMM, "comm"), ("tid", S32, "tid"),
                               ("prio", S32, "prio")],
        "lttng_statedump_process_state": [
            ("tid", S32, "tid"), ("vtid", S32, "tid"), ("pid", S32, "pid"), ("vpid", S32, "pid"),
            ("ppid", S32, "ppid"), ("vppid", S32, "ppid"), ("name", COMM, "name"),
            ("type", S32, "type"), ("mode", S32, "mode"), ("submode", S32, "submode"),
            ("status", S32, "status"), ("ns_level", U32, "ns_level")],
        "lttng_statedump_start": [],
        "lttng_statedump_end": [],
    }


def _kvm_fields(style):
    exit_fields = [("exit_reason", U32, "exit_reason"), ("guest_rip", U64, "rip"),
                   ("isa", U32, "isa"), ("info1", U64, "info1"), ("info2", U64, "info2")]
    if style != "lttng25":
        exit_fields += [("intr_info", U32, "zero"), ("error_code", U32, "zero"),
                        ("vcpu_id", U32, "vcpu_id")]
    entry = [("vcpu_id", U32, "vcpu_id")]
    if style == "perf":
        entry += [("rip", U64, "rip"), ("immediate_exit", U32, "zero")]
    return {"kvm_entry": entry, "kvm_exit": exit_fields}


def _classes(dialect):
    fields = {"timer_start": [("timer", U64, "timer"), ("expires", S64, "expires")]}
    fields.update(_sched_fields(dialect.style))
    fields.update(_process_fields(dialect.style))
    fields.update(_kvm_fields(dialect.style))
    fields.update({name: members for name, (_, members) in dialect.extra.items()})
    return fields


def event_name(dialect, name):
    """The name under which this dialect records the generic event."""
    if name in dialect.extra:
        return f"{dialect.extra[name][0]}:{name}" if dialect.style == "perf" else name
    if dialect.style == "perf":
        system = {"kvm": "kvm", "sche": "sched"}.get(name.split("_")[0][:4], "timer")
        return f"{system}:{name}"
    if dialect.style == "lttng213" and name.startswith("kvm_"):
        return "kvm_x86_" + name[4:]
    return name


# ---- metadata ----

def _tsdl_int(dialect, bits, signed, text=False, mapped=False):
    if dialect.style == "perf":
        align = 1
    else:
        align = bits if dialect.natural_align else 8
    extra = f" map = clock.{dialect.clock_name}.value;" if mapped else ""
    encoding = "UTF8" if text else "none"
    return (f"integer {{ size = {bits}; align = {align}; signed = {int(signed)}; "
            f"encoding = {encoding}; base = 10;{extra} }}")


def _tsdl_field(dialect, name, kind):
    prefix = "" if dialect.style == "perf" else "_"
    if kind[0] == "s":
        return f"string {{ encoding = UTF8; }} {prefix}{name};"
    if kind[0] == "c":
        return f"{_tsdl_int(dialect, 8, True, text=True)} {prefix}{name}[{kind[1]}];"
    return f"{_tsdl_int(dialect, kind[1], kind[2])} {prefix}{name};"


PERF_COMMON = [("perf_ip", U64, "rip"), ("perf_tid", S32, "_tid"), ("perf_pid", S32, "_pid"),
               ("perf_id", U64, "zero"), ("perf_period", U64, "zero"),
               ("common_type", U32, "zero"), ("common_flags", U32, "zero"),
               ("common_preempt_count", U32, "zero"), ("common_pid", S32, "_tid")]


def _lttng_header_tsdl(dialect):
    clock = dialect.clock_name
    id_bits, t_bits, top = (5, 27, 31) if dialect.header == "compact" else (16, 32, 65535)
    align_id = 1 if id_bits == 5 else 8
    align_t = 1 if t_bits == 27 else 8
    return f"""
struct event_header {{
    enum : integer {{ size = {id_bits}; align = {align_id}; signed = 0; }}
        {{ compact = 0 ... {top - 1}, extended = {top} }} id;
    variant <id> {{
        struct {{
            integer {{ size = {t_bits}; align = {align_t}; signed = 0;
                map = clock.{clock}.value; }} timestamp;
        }} compact;
        struct {{
            integer {{ size = 32; align = 8; signed = 0; }} id;
            integer {{ size = 64; align = 8; signed = 0; map = clock.{clock}.value; }} timestamp;
        }} extended;
    }} v;
}} align(8);
"""


def _packet_context(dialect):
    fields = [("timestamp_begin", 64, True), ("timestamp_end", 64, True),
              ("content_size", 64, False), ("packet_size", 64, False)]
    if dialect.style == "lttng213":
        fields.append(("packet_seq_num", 64, False))
    return fields + [("events_discarded", 64, False), ("cpu_id", 32, False)]


def _tsdl_head(dialect, trace_uuid):
    clock = dialect.clock_name
    instance = ("        integer { size = 64; align = 8; signed = 0; } stream_instance_id;\n"
                if dialect.style == "lttng213" else "")
    out = [f"""/* CTF 1.8 */

trace {{
    major = 1;
    minor = 8;
    uuid = "{trace_uuid}";
    byte_order = {dialect.order};
    packet.header := struct {{
        integer {{ size = 32; align = 8; signed = 0; }} magic;
        integer {{ size = 8; align = 8; signed = 0; }} uuid[16];
        integer {{ size = 32; align = 8; signed = 0; }} stream_id;
{instance}    }};
}};
"""]
    more = "".join(f'    {name} = "{text}";\n' for name, text in dialect.env)
    if dialect.style == "perf":
        out.append(f"""
env {{
    host = "host";
    sysname = "Linux";
    release = "{dialect.kernel_release}";
    domain = "kernel";
    tracer_name = "perf";
{more}}};
""")
    else:
        minor = 5 if dialect.style == "lttng25" else 13
        out.append(f"""
env {{
    hostname = "host";
    domain = "kernel";
    sysname = "Linux";
    kernel_release = "{dialect.kernel_release}";
    kernel_version = "#1 SMP";
    tracer_name = "lttng-modules";
    tracer_major = 2;
    tracer_minor = {minor};
    tracer_patchlevel = 0;
{more}}};
""")
    clock_uuid = f'    uuid = "{dialect.clock_uuid}";\n' if dialect.clock_uuid else ""
    out.append(f"""
clock {{
    name = {clock};
{clock_uuid}    description = "trace clock";
    freq = {dialect.freq};
    offset_s = {dialect.clock_offset_s};
    offset = {dialect.clock_offset};
}};
""")
    return "".join(out)


def metadata_text(dialect, trace_uuid, names):
    """TSDL of a trace whose event classes are names, with ids in that order."""
    out = [_tsdl_head(dialect, trace_uuid)]
    if dialect.style == "perf":
        header = (f"struct {{ integer {{ size = 32; align = 8; signed = 0; }} id; "
                  f"integer {{ size = 64; align = 8; signed = 0; "
                  f"map = clock.{dialect.clock_name}.value; }} timestamp; }} align(8)")
    else:
        out.append(_lttng_header_tsdl(dialect))
        header = "struct event_header"
    out.append(f"\nstream {{\n    id = 0;\n    event.header := {header};\n"
               "    packet.context := struct {\n")
    for name, bits, mapped in _packet_context(dialect):
        extra = f" map = clock.{dialect.clock_name}.value;" if mapped else ""
        out.append(f"        integer {{ size = {bits}; align = 8; signed = 0;{extra} }} {name};\n")
    out.append("    };\n")
    if dialect.style != "perf" and dialect.contexts:
        out.append("    event.context := struct {\n")
        for name in dialect.contexts:
            kind = COMM if name == "procname" else S32
            out.append(f"        {_tsdl_field(dialect, name, kind)}\n")
        out.append("    };\n")
    out.append("};\n")
    classes = _classes(dialect)
    for i, name in enumerate(names):
        out.append(f'\nevent {{\n    name = "{event_name(dialect, name)}";\n'
                   f"    id = {i + dialect.id_base};\n    stream_id = 0;\n"
                   "    fields := struct {\n")
        fields = (PERF_COMMON if dialect.style == "perf" else []) + classes[name]
        for fname, kind, _ in fields:
            out.append(f"        {_tsdl_field(dialect, fname, kind)}\n")
        out.append("    };\n};\n")
    return "".join(out)


def packetise(dialect, text, trace_uuid, packet_bytes=1024):
    """Metadata as LTTng writes it: packets with a header, in the trace's byte order."""
    data = text.encode()
    endian = "<" if dialect.order == "le" else ">"
    room = packet_bytes - 37
    out = b""
    for at in range(0, len(data), room):
        part = data[at:at + room]
        out += struct.pack(endian + "I16sIIIBBBBB", TSDL_MAGIC, trace_uuid.bytes, 0,
                           (len(part) + 37) * 8, packet_bytes * 8, 0, 0, 0, 1, 8)
        out += part + b"\0" * (room - len(part))
    return out


# ---- binary ----

class _Buffer:
    def __init__(self, dialect):
        self.endian = "<" if dialect.order == "le" else ">"
        self.natural = dialect.natural_align and dialect.style != "perf"
        self.data = bytearray()

    def align(self, size):
        self.data += b"\0" * (-len(self.data) % size)

    def put_int(self, bits, signed, value, aligned=True):
        if aligned and self.natural:
            self.align(bits // 8)
        code = {8: "b", 16: "h", 32: "i", 64: "q"}[bits]
        value &= (1 << bits) - 1
        self.data += struct.pack(self.endian + code.upper(), value)

    def put(self, kind, value):
        if kind[0] == "i":
            self.put_int(kind[1], kind[2], int(value))
        elif kind[0] == "c":
            self.data += value.encode()[:kind[1] - 1].ljust(kind[1], b"\0")
        else:
            self.data += value.encode() + b"\0"

    def put_struct(self, fields, values):
        """values: a callable from the generic field name to the value."""
        if self.natural and fields:
            self.align(max(k[1] // 8 if k[0] == "i" else 1 for _, k, _ in fields))
        for _, kind, key in fields:
            self.put(kind, values(key))


class _Stream:
    def __init__(self, dialect, names, trace_uuid, cpu, instance):
        self.d, self.cpu, self.instance = dialect, cpu, instance
        self.ids = {n: i + dialect.id_base for i, n in enumerate(names)}
        self.uuid = trace_uuid
        self.classes = _classes(dialect)
        self.out = bytearray()
        self.packets = []
        self.discarded = 0
        self.seq = 0
        self.prev_t = None
        self.buf = None

    def cycles(self, ns):
        return ns * self.d.freq // 1_000_000_000

    def open_packet(self, t):
        self.buf = _Buffer(self.d)
        self.buf.data += b"\0" * self.header_bytes()
        self.t_begin = t
        self.t_last = t
        self.events = []
        self.prev_t = None

    def header_bytes(self):
        n = 24 + (8 if self.d.style == "lttng213" else 0)
        return n + sum(bits // 8 for _, bits, _ in _packet_context(self.d))

    def event_header(self, ev):
        d, buf, t = self.d, self.buf, self.cycles(ev.t)
        ident = self.ids[ev.name]
        if d.style == "perf":
            buf.put_int(32, False, ident, aligned=False)
            buf.put_int(64, False, t, aligned=False)
            return
        id_bits, t_bits = (5, 27) if d.header == "compact" else (16, 32)
        top = (1 << id_bits) - 1
        full = (ident >= top or self.prev_t is None or d.backwards
                or t - self.prev_t >= 1 << t_bits)
        low = t & ((1 << t_bits) - 1)
        if id_bits == 5:
            first = top if full else ident
            if full:
                buf.data += bytes([first if d.order == "le" else first << 3])
            else:
                word = first | low << 5 if d.order == "le" else first << 27 | low
                buf.put_int(32, False, word, aligned=False)
        else:
            buf.put_int(16, False, top if full else ident, aligned=False)
            if not full:
                buf.put_int(32, False, low, aligned=False)
        if full:
            buf.put_int(32, False, ident, aligned=False)
            buf.put_int(64, False, t, aligned=False)
        self.prev_t = t

    def put_event(self, ev):
        values = {"prio": 120, "rip": 0xFFFFFFFF81000000, "success": 1, "_tid": ev.tid,
                  "_pid": ev.pid, "zero": 0, "vcpu_id": 0xDEADBEEF, "info1": 0, "info2": 0}
        values.update(ev.f)

        def get(key):
            return values.get(key, "" if "comm" in key or key == "name" else 0)
        self.event_header(ev)
        if self.d.style == "perf":
            self.buf.put_struct(PERF_COMMON + self.classes[ev.name], get)
        else:
            ctx = [(c, COMM if c == "procname" else S32, c) for c in self.d.contexts]
            self.buf.put_struct(ctx, {"pid": ev.pid, "tid": ev.tid, "procname": ev.comm}.get)
            self.buf.put_struct(self.classes[ev.name], get)

    def close_packet(self, t_end=None):
        d, content = self.d, len(self.buf.data)
        size = max(d.packet_bytes, (content + 4095) // 4096 * 4096)
        if d.packet_bytes < 4096:
            size = max(d.packet_bytes, content)
        end = self.t_last if t_end is None else max(t_end, self.t_last)
        head = _Buffer(d)
        head.put_int(32, False, CTF_MAGIC, aligned=False)
        head.data += self.uuid.bytes
        head.put_int(32, False, 0, aligned=False)
        if d.style == "lttng213":
            head.put_int(64, False, self.instance, aligned=False)
        values = {"timestamp_begin": self.cycles(self.t_begin), "timestamp_end": self.cycles(end),
                  "content_size": content * 8, "packet_size": size * 8,
                  "packet_seq_num": self.seq, "events_discarded": self.discarded,
                  "cpu_id": self.cpu}
        for name, bits, _ in _packet_context(d):
            head.put_int(bits, False, values[name], aligned=False)
        self.buf.data[:len(head.data)] = head.data
        self.packets.append(Packet(len(self.out), size, content, len(head.data), self.t_begin,
                                   end, self.events))
        self.packets[-1].index = values
        self.out += self.buf.data + b"\0" * (size - content)
        self.seq += 1
        self.buf = None

    def add(self, i, ev):
        if self.buf is None:
            self.open_packet(ev.t)
        mark, prev = len(self.buf.data), self.prev_t
        self.put_event(ev)
        if len(self.buf.data) > self.d.packet_bytes and self.events:
            del self.buf.data[mark:]
            self.prev_t = prev
            # LTTng's next packet begins where the one before ends, unless events were discarded;
            # perf's begins with its first event.
            apart = self.d.style == "perf" or self.discard or self.drop
            self.close_packet(None if apart else ev.t)
            self.open_packet(ev.t)
            mark = len(self.buf.data)
            self.put_event(ev)
        self.events.append((len(self.out) + mark, i))
        self.t_last = max(self.t_last, ev.t)

    def index_bytes(self):
        lttng213 = self.d.style == "lttng213"
        out = struct.pack(">IIII", INDEX_MAGIC, 1, 1 if lttng213 else 0, 72 if lttng213 else 56)
        for p in self.packets:
            v = p.index
            out += struct.pack(">7Q", p.offset, p.size * 8, p.content * 8, v["timestamp_begin"],
                               v["timestamp_end"], v["events_discarded"], 0)
            if lttng213:
                out += struct.pack(">2Q", self.instance, v["packet_seq_num"])
        return out


def write_trace(root, dialect, events, discard=None, drop_packets=None, t_end=None, flush=(),
                pause=None, same_trace=False):
    """Writes the trace directory root. events is in time order.

    discard: {(cpu, packet number): n} adds n to the counter of discarded events from there on.
    drop_packets: {(cpu, packet number)} are left out, their sequence numbers with them.
    t_end: every stream's last packet lasts until here.
    flush: times at which the packets of all streams are closed, full or not.
    pause: (t0, t1), when the session was stopped and started again: packets of all streams, empty
        ones also, end at t0 and begin at t1. No event is between.
    same_trace: one of several parts of a trace that was rotated: they share its UUID.
    """
    os.makedirs(root, exist_ok=True)
    names = list(dialect.only) or sorted({e.name for e in events})
    part = "" if same_trace else root.rstrip("/").rsplit("/", 1)[-1]
    seed = f"{dialect.style} {dialect.order} {part}"
    trace_uuid = uuidlib.uuid5(uuidlib.NAMESPACE_OID, seed)
    text = metadata_text(dialect, trace_uuid, names)
    with open(os.path.join(root, "metadata"), "wb") as f:
        f.write(packetise(dialect, text, trace_uuid) if dialect.packetised else text.encode())

    streams, flush, stopped = {}, sorted(flush), False
    for i, ev in enumerate(events):
        if pause and not stopped and ev.t > pause[0]:
            stopped = True
            for cpu in {e.cpu for e in events} - set(streams):
                streams[cpu] = _Stream(dialect, names, trace_uuid, cpu, len(streams))
                streams[cpu].discard, streams[cpu].drop = discard or {}, drop_packets or set()
                _hook_counters(streams[cpu])
            for stream in streams.values():
                if stream.buf is None:
                    stream.open_packet(events[0].t)
                stream.close_packet(pause[0])
                stream.open_packet(pause[1])
        while flush and flush[0] <= ev.t:
            t = flush.pop(0)
            for stream in streams.values():
                if stream.buf is not None:
                    stream.close_packet(t)
        stream = streams.get(ev.cpu)
        if stream is None:
            stream = _Stream(dialect, names, trace_uuid, ev.cpu, len(streams))
            stream.discard, stream.drop = discard or {}, drop_packets or set()
            streams[ev.cpu] = stream
            _hook_counters(stream)
        stream.add(i, ev)

    layout = Layout(root)
    prefix = "perf_stream_" if dialect.style == "perf" else dialect.stream_prefix
    for cpu, stream in sorted(streams.items()):
        if stream.buf is not None:
            stream.close_packet(t_end)
        name = f"{prefix}{cpu}"
        with open(os.path.join(root, name), "wb") as f:
            f.write(stream.out)
        if dialect.index and dialect.style != "perf":
            os.makedirs(os.path.join(root, "index"), exist_ok=True)
            with open(os.path.join(root, "index", name + ".idx"), "wb") as f:
                f.write(stream.index_bytes())
        layout.files[name] = stream.packets
        layout.cpu_of[name] = cpu
    return layout


def _hook_counters(stream):
    """Applies discard and drop_packets when a packet closes."""
    close, number = stream.close_packet, [0]

    def close_packet(t_end=None):
        key = (stream.cpu, number[0])
        number[0] += 1
        stream.discarded += stream.discard.get(key, 0)
        if key in stream.drop:
            stream.seq += 1
            stream.buf = None
            return
        close(t_end)
    stream.close_packet = close_packet
