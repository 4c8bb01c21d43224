# SPDX-License-Identifier: Apache-2.0
"""The reader of Perfetto traces itself: it complains about each thing that it is there to find. The
traces are put together here. Nothing here runs vgpuctl."""
import struct

import pytest

import perfetto


def field(number, value):
    """A field with a number, or bytes."""
    def varint(n):
        return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    return varint(number << 3) + varint(value)


def packet(*parts, sequence=1):
    return field(1, field(10, sequence) + b"".join(parts))


def track(uuid, more=b""):
    return packet(field(60, field(1, uuid) + field(2, b"track") + more))


def event(t, kind, uuid=1, more=b"", outside=b""):
    return packet(field(8, t), field(13, 2), field(11, field(9, kind) + field(11, uuid) + more),
                  outside)


def flow(identity, last=False):
    return (b"\x81\x03" if last else b"\xf9\x02") + struct.pack("<Q", identity)


NAME = field(23, b"name")
HEAD = packet(field(13, 1), field(59, field(58, 3)))
CLOCKS = packet(field(6, field(1, field(1, 3) + field(2, 5)) + field(2, 3)))
START = HEAD + CLOCKS + track(1)
BEGIN, END, NOW = event(5, 1, more=NAME), event(6, 2), event(5, 3, more=NAME)
COUNTER = field(8, b"")
INTERNED = field(12, field(2, field(1, 7) + field(2, b"seven")))


@pytest.mark.parametrize("data,counts", [
    (b"", {}),
    (START + BEGIN + END, {"packets": 5, "tracks": 1, "slices": 1}),
    (START + BEGIN + BEGIN + END + event(6, 3, more=NAME) + END,
     {"packets": 8, "tracks": 1, "slices": 2, "instants": 1}),
    (START + track(2, field(5, 1)) + BEGIN + END + event(1, 3, 2, NAME),
     {"packets": 7, "tracks": 2, "slices": 1, "instants": 1}),
    (START + track(2, COUNTER) + event(9, 4, 2, field(30, 1)),
     {"packets": 5, "tracks": 2, "values": 1}),
    (START + event(5, 3, more=field(10, 7), outside=INTERNED) + event(6, 3, more=field(10, 7)),
     {"packets": 5, "tracks": 1, "instants": 2}),
    (START + event(5, 3, more=NAME + flow(9)) + event(7, 3, more=NAME + flow(9, True)),
     {"packets": 5, "tracks": 1, "instants": 2, "flows": 1}),
])
def test_good(tmp_path, data, counts):
    (tmp_path / "trace").write_bytes(data)
    got = perfetto.read(tmp_path / "trace").counts()
    assert got == dict.fromkeys(got, 0) | counts


@pytest.mark.parametrize("data,reason", [
    (START + BEGIN, "never closed"),
    (START + END, "none is open"),
    (START + BEGIN + event(4, 2), "runs backwards"),
    (START + event(5, 3, 2, NAME), "not described"),
    (START + track(1), "described twice"),
    (START + track(2, field(5, 3)), "has the parent 3"),
    (START + track(0), "has no uuid"),
    (START + track(2, field(3, b"") + COUNTER), "more than one kind"),
    (START + track(2, field(4, field(1, 1))), "no tid"),
    (START + event(5, 3), "has no name"),
    (START + event(5, 3, more=field(10, 7)), "nobody told"),
    (START + event(5, 3, more=field(23, b"\xff")), "no UTF-8"),
    (START + event(5, 3, more=NAME + field(4, field(10, b"x"))), "no value"),
    (START + event(5, 3, more=NAME, outside=INTERNED)
     + event(5, 3, more=NAME, outside=INTERNED.replace(b"seven", b"eight")), "told for"),
    (START + event(5, 4, more=field(30, 1)), "of type 4"),
    (START + track(2, COUNTER) + event(5, 3, 2, NAME), "of type 3"),
    (START + track(2, COUNTER) + event(5, 4, 2), "has no value"),
    (START + event(5, 0, more=NAME), "the type 0"),
    (START + event(5, 3, more=NAME + flow(9)), "never ended"),
    (START + event(5, 3, more=NAME + flow(9, True)), "without having begun"),
    (START + event(5, 3, more=NAME + flow(9) + flow(9, True)), "both"),
    (START + event(5, 3, more=NAME + flow(9)) + event(6, 3, more=NAME + flow(9, True))
     + event(7, 3, more=NAME + flow(9, True)), "ended 2 times"),
    (START + event(5, 3, more=NAME + flow(9)) + event(6, 3, more=NAME + flow(9, True))
     + event(7, 3, more=NAME + flow(9)), "after its end"),
    (HEAD + track(1) + NOW, "is on clock 3, the trace on None"),
    (CLOCKS + track(1) + NOW, "needs what its sequence"),
    (START + packet(field(13, 2), field(11, field(9, 3) + field(11, 1) + NAME)), "no time"),
    (packet(sequence=0), "no sequence"),
    ((START + NOW)[:-1], "cut off"),
    (START + b"\x12\x00", "no packet"),
    (START + b"\x0a\x80", "cut off"),
    (field(1, b"\x07\x00"), "number 0"),
    (field(1, b"\x0b"), "wire type 3"),
    (field(1, b"\x08" + b"\xff" * 10 + b"\x01"), "10 bytes"),
    (field(1, b"\x08" + b"\xff" * 9 + b"\x02"), "64 bits"),
    (field(1, b"\x50\x01\x5a\x05"), "cut off"),
])
def test_wrong(tmp_path, capsys, data, reason):
    (tmp_path / "trace").write_bytes(data)
    assert perfetto.main([str(tmp_path / "trace")]) == 1
    assert reason in capsys.readouterr().err


def test_open_flows(tmp_path):
    (tmp_path / "trace").write_bytes(START + event(5, 3, more=NAME + flow(9)))
    assert perfetto.read(tmp_path / "trace", open_flows=True).counts()["open flows"] == 1
