# SPDX-License-Identifier: Apache-2.0
"""Reads a compiled BPF object and lists what it needs of the kernel: program types, helpers, instructions,
maps and kinds of type information."""
import glob
import re
import struct
import subprocess
import sysconfig

SHF_EXECINSTR, SHT_SYMTAB = 4, 2
STT_FUNC, STB_LOCAL = 2, 0
BTF_KINDS = ("VOID", "INT", "PTR", "ARRAY", "STRUCT", "UNION", "ENUM", "FWD", "TYPEDEF", "VOLATILE", "CONST",
             "RESTRICT", "FUNC", "FUNC_PROTO", "VAR", "DATASEC", "FLOAT", "DECL_TAG", "TYPE_TAG", "ENUM64")
# Bytes after the header of a type, for each of its vlen members and in any case.
BTF_MEMBER = {"STRUCT": 12, "UNION": 12, "ENUM": 8, "FUNC_PROTO": 8, "DATASEC": 12, "ENUM64": 12}
BTF_FIXED = {"INT": 4, "ARRAY": 12, "VAR": 4, "DECL_TAG": 4}
PROGRAMS = {"tp_btf": ("BPF_PROG_TYPE_TRACING", "BPF_TRACE_RAW_TP"),
            "raw_tp": ("BPF_PROG_TYPE_RAW_TRACEPOINT", None)}
MAP_FLAGS = ("BPF_F_NO_PREALLOC", "BPF_F_NO_COMMON_LRU", "BPF_F_NUMA_NODE", "BPF_F_RDONLY", "BPF_F_WRONLY",
             "BPF_F_STACK_BUILD_ID", "BPF_F_ZERO_SEED", "BPF_F_RDONLY_PROG", "BPF_F_WRONLY_PROG", "BPF_F_CLONE",
             "BPF_F_MMAPABLE", "BPF_F_PRESERVE_ELEMS", "BPF_F_INNER_MAP")
ATOMICS = {0x01: "BPF_FETCH", 0xe0: "BPF_XCHG", 0xf0: "BPF_CMPXCHG"}


def _header(name):
    """The text of a header of the system that clang also reads."""
    [path] = glob.glob(f"/usr/include/{name}")[:1]
    with open(path, encoding="utf-8") as file:
        return file.read()


def helper_names():
    """number -> name, as libbpf declares them."""
    return {int(number): name for name, number in
            re.findall(r"\(\*(?:const )?(bpf_\w+)\)\([^;]*?\) = \(void \*\)\s*(\d+);", _header("bpf/bpf_helper_defs.h"))}


def map_types():
    """number -> name. Some names are aliases; the first counts."""
    [body] = re.findall(r"enum bpf_map_type \{(.*?)\};", _header("linux/bpf.h"), re.S)
    body = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
    return dict(enumerate(name for name in re.findall(r"^\s*(BPF_MAP_TYPE_\w+),", body, re.M)))


class Object:
    def __init__(self, path):
        with open(path, "rb") as file:
            self.data = file.read()
        assert self.data[:6] == b"\x7fELF\x02\x01", f"{path} is no little-endian ELF64"
        at, = struct.unpack_from("<Q", self.data, 40)
        size, count, names = struct.unpack_from("<HHH", self.data, 58)
        heads = [struct.unpack_from("<IIQQQQIIQQ", self.data, at + i * size) for i in range(count)]
        self.sections = []
        for head in heads:
            name = self._text(heads[names][4] + head[0])
            body = b"" if head[1] == 8 else self.data[head[4]:head[4] + head[5]]
            self.sections.append({"name": name, "type": head[1], "flags": head[2], "link": head[6], "body": body,
                                  "offset": head[4]})
        self.types = [("VOID", "", 0, 0, b"")] + list(self._btf())

    def _text(self, at):
        return self.data[at:self.data.index(b"\0", at)].decode()

    def _body(self, name):
        return next((section["body"] for section in self.sections if section["name"] == name), b"")

    def _btf(self):
        """(kind, name, vlen, size or type, rest) of each type."""
        body = self._body(".BTF")
        _, _, _, head, at, size, text, _ = struct.unpack_from("<HBBIIIII", body)
        at, text, end = at + head, text + head, at + head + size
        while at < end:
            name, info, size = struct.unpack_from("<III", body, at)
            kind, vlen = BTF_KINDS[info >> 24 & 0x1f], info & 0xffff
            rest = BTF_MEMBER.get(kind, 0) * vlen + BTF_FIXED.get(kind, 0)
            name = body[text + name:body.index(b"\0", text + name)].decode()
            yield kind, name, vlen, size, body[at + 12:at + 12 + rest]
            self.btf_text = text
            at += 12 + rest

    def _btf_name(self, offset):
        body = self._body(".BTF")
        return body[self.btf_text + offset:body.index(b"\0", self.btf_text + offset)].decode()

    def programs(self):
        for section in self.sections:
            if section["flags"] & SHF_EXECINSTR and section["body"]:
                yield section["name"], section["body"]

    def _program_types(self):
        for name, _ in self.programs():
            if name == ".text":
                continue
            kind = name.split("/")[0]
            program, attach = PROGRAMS.get(kind, (f"SEC({kind})", None))
            yield "program", program
            if attach:
                yield "attach", attach
            yield "tracepoint", name

    def _instructions(self):
        helpers = helper_names()
        for _, body in self.programs():
            wide = False
            for at in range(0, len(body), 8):
                code, registers, offset, value = struct.unpack_from("<BBhi", body, at)
                if wide:
                    wide = False
                    continue
                wide = code == 0x18
                yield from _needs(code, registers >> 4, offset, value, helpers)

    def _global_functions(self):
        """Functions that the verifier checks on their own: those of .text that are not static."""
        text = next((i for i, section in enumerate(self.sections) if section["name"] == ".text"), None)
        for section in self.sections:
            for at in range(0, len(section["body"]) if section["type"] == SHT_SYMTAB else 0, 24):
                _, info, _, index = struct.unpack_from("<IBBH", section["body"], at)
                if index == text and info & 15 == STT_FUNC and info >> 4 != STB_LOCAL:
                    yield "feature", "global-functions"

    def _number(self, type_id):
        """The number in __uint(NAME, number): a pointer to an array of so many."""
        _, _, _, array, _ = self.types[type_id]
        return struct.unpack("<III", self.types[array][4])[2]

    def _maps(self):
        types = map_types()
        for kind, name, vlen, _, rest in self.types:
            if kind == "DATASEC" and name in (".bss", ".data", ".rodata"):
                yield "feature", "global-data"
            if kind != "DATASEC" or name != ".maps":
                continue
            for i in range(vlen):
                variable, = struct.unpack_from("<I", rest, i * 12)
                _, _, members, _, fields = self.types[self.types[variable][3]]
                for k in range(members):
                    field, type_id, _ = struct.unpack_from("<III", fields, k * 12)
                    field = self._btf_name(field)
                    if field == "type":
                        yield "map", types[self._number(type_id)]
                    elif field == "map_flags":
                        flags = self._number(type_id)
                        yield from (("map-flag", flag) for bit, flag in enumerate(MAP_FLAGS) if flags >> bit & 1)
                        assert flags >> len(MAP_FLAGS) == 0, f"a flag of a map without a name here: {flags:#x}"

    def _size(self, type_id):
        """Bytes of a type."""
        kind, _, _, size, rest = self.types[type_id]
        if kind == "ARRAY":
            element, _, count = struct.unpack("<III", rest)
            return count * self._size(element)
        if kind in ("TYPEDEF", "CONST", "VOLATILE", "RESTRICT"):
            return self._size(size)
        return 8 if kind == "PTR" else size

    def value_bytes(self):
        """Map -> bytes of its key and value. The global variables of a section are one value."""
        found = {name: 4 + len(section["body"]) for section in self.sections for name in [section["name"]]
                 if name in (".data", ".rodata")}
        for kind, name, vlen, _, rest in self.types:
            if kind == "DATASEC" and name == ".bss":
                found[name] = 4 + sum(self._size(self.types[variable][3]) for variable, _, _ in
                                      struct.iter_unpack("<III", rest))
            if kind != "DATASEC" or name != ".maps":
                continue
            for variable, _, _ in struct.iter_unpack("<III", rest):
                _, map_name, _, struct_id, _ = self.types[variable]
                found[map_name] = sum(self._size(self.types[type_id][3]) for field, type_id, _ in
                                      struct.iter_unpack("<III", self.types[struct_id][4])
                                      if self._btf_name(field) in ("key", "value"))
        return found

    def needs(self):
        """{(kind, name)}"""
        found = {("btf-kind", kind) for kind, *_ in self.types[1:]}
        for part in (self._program_types(), self._instructions(), self._global_functions(), self._maps()):
            found.update(part)
        return found


def _needs(code, source, offset, value, helpers):
    """Of one instruction. Those of the first BPF have no name."""
    group, operation = code & 7, code & 0xf0
    if code == 0x85:
        if source == 0:
            yield "helper", helpers[value]
        else:
            yield "feature", {1: "calls", 2: "kernel-functions"}[source]
    elif group in (5, 6):
        if group == 6:
            yield "feature", "jmp32" if operation else "long-jumps"
        if 0xa0 <= operation <= 0xd0:
            yield "feature", "jumps-if-less"
        if operation == 0xe0:
            yield "feature", "may-goto"
        if operation != 0x90 and offset < 0:
            yield "feature", "loops"
    elif group == 3 and code & 0xe0 == 0xc0:
        for bits, name in ATOMICS.items():
            if value & 0xf1 == bits or bits == 1 and value & 1:
                yield "feature", name
    elif group in (0, 1) and code & 0xe0 == 0x80:
        yield "feature", "loads-with-sign"
    elif group in (4, 7) and offset != 0 or code == 0xd7:
        yield "feature", "instructions-of-v4"


def compile_bpf(source, path, cpu="v2"):
    """Compiles a text as the build does."""
    headers = f"/usr/include/{sysconfig.get_config_var('MULTIARCH')}"
    subprocess.run(["clang", "-O2", "-g", "-target", "bpf", f"-mcpu={cpu}", f"-I{headers}", "-x", "c", "-", "-c", "-o",
                    path], input=source.encode(), check=True)
