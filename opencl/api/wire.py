# SPDX-License-Identifier: Apache-2.0
"""What generate.py writes of opencl.api for the way to a proxy: the numbers of messages, the side of the program, which
encodes a call, and that of the proxy, which decodes it and calls the tracker. First come a message's numbers, then its
objects and lists, each in the order of the function's parameters."""
import re

# By hand, on both sides: their memory is the program's, or what they are given names other objects.
HAND = ("GetDeviceIDs CreateContext CreateBufferWithProperties CreateSubBuffer CreateImageWithProperties "
        "CreateProgramWithSource CreateProgramWithBinary CreateKernelsInProgram CreateSubDevices "
        "GetSupportedImageFormats SetKernelArg SetEventCallback EnqueueReadBuffer EnqueueWriteBuffer "
        "EnqueueReadBufferRect EnqueueWriteBufferRect EnqueueReadImage EnqueueWriteImage EnqueueMapBuffer "
        "EnqueueMapImage EnqueueUnmapMemObject").split()
# With options of compilers, which may name files, and what becomes of those.
OPTIONS = {"BuildProgram": "CL_INVALID_BUILD_OPTIONS", "CompileProgram": "CL_INVALID_COMPILER_OPTIONS",
           "LinkProgram": "CL_INVALID_LINKER_OPTIONS"}
# By hand, in the program alone: made of others, or not for a proxy.
ALONE = "CreateBuffer CreateImage SetMemObjectDestructorCallback EnqueueNativeKernel".split()
# Generated, and called by a function of the same name that is written by hand and says more.
WRAPPED = ("GetDeviceInfo GetProgramInfo GetMemObjectInfo GetImageInfo GetEventInfo ReleaseMemObject CreateCommandQueue "
           "CreateCommandQueueWithProperties Finish WaitForEvents").split()
# What the tracker does not call of its vendor, or what is not offered.
LEFT = ("GetPlatformIDs CreateContextFromType SetCommandQueueProperty CreateImage2D CreateImage3D UnloadCompiler "
        "EnqueueMarker EnqueueWaitForEvents GetExtensionFunctionAddress GetExtensionFunctionAddressForPlatform "
        "RetainDevice SetContextDestructorCallback").split()
MORE = ["ProgramBinaries"]
LATER = ["Flush"]
# Not waited for where client/later.c knows that they will do well.
LATER_IF = ("EnqueueNDRangeKernel EnqueueMarkerWithWaitList EnqueueBarrierWithWaitList EnqueueCopyBuffer "
            "EnqueueFillBuffer").split()
SYNCHRONISING = ("Finish WaitForEvents EnqueueReadBuffer EnqueueReadBufferRect EnqueueReadImage EnqueueMapBuffer "
                 "EnqueueMapImage").split()
WAITING = ["Finish", "WaitForEvents"]
# What may be longer than a program should say: then nothing is read, and the vendor says what is wrong.
MOST = {"work_dim": 3, "pattern_size": 128, "spec_size": 256, "input_value_size": 256}


def short(f):
    return f.name[2:]


def is_written(f):
    return f.kind not in ("absent", "retain") and short(f) not in HAND + ALONE + LEFT


def is_event(p):
    return p.name == "event" and p.stars == "*"


def is_info(f):
    return [p.name for p in f.parameters[-3:]] == ["param_value_size", "param_value", "param_value_size_ret"]


def is_release(f):
    return short(f).startswith("Release")


def is_number(p):
    return not p.stars and not p.handle and p.note != "callback"


def carried(f):
    """The parameters that are sent, in the order in which they are."""
    left = [p for p in (f.parameters[:-3] if is_info(f) else f.parameters)
            if p.note not in ("callback", "err") and p.name != "user_data"]
    return [p for p in left if is_number(p)] + [p for p in left if not is_number(p)]


def count(p):
    """How many elements, and of which size."""
    words = p.note.split()
    n = words[1]
    base = p.base.replace("const ", "")
    return (f"({n} <= {MOST[n]} ? {n} : 0)" if n in MOST else n), ("1" if base == "void" else f"sizeof({base})"), n


def wire_put(p, lead):
    out = "&call.out"
    if is_event(p):
        return f"struct vg_wire_object *made = vg_wire_new_event(&call, {p.name});\n"
    if p.single:
        return f"vg_wire_put_object(&call, {p.name});\n"
    if is_number(p):
        return f"vg_wire_put({out}, (uint64_t){p.name});\n"
    words = p.note.split()
    if words[0] == "out":
        return f"vg_wire_put({out}, {p.name} != NULL);\n"
    if p.handle:
        return f"vg_wire_put_objects(&call, {words[1]}, {p.name});\n"
    if words == ["in", "str"]:
        return f"vg_wire_put_string({out}, {p.name});\n"
    if words[-1] == "str":
        return f"vg_wire_put_strings({out}, {words[1]}, {p.name});\n"
    if words == ["in", "properties"]:
        return (f"vg_wire_put_list({out}, {p.name}, vg_cl_count_pairs((const intptr_t *){p.name}) * "
                f"sizeof *{p.name});\n")
    n, size, name = count(p)
    value = f"{name} <= {MOST[name]} ? {p.name} : NULL" if name in MOST else p.name
    return f"vg_wire_put_list({out}, {value}, {n} * {size});\n"


def client_name(f):
    return ("vg_wire_ask_" + short(f)) if short(f) in WRAPPED else f"client_{f.name}"


def client(f, types):
    lead = f.lead.name if f.lead else "event_list[0]"
    wrapped = short(f) in WRAPPED
    text = f"{'' if wrapped else 'static '}{f.returns} CL_API_CALL\n{client_name(f)}({f.list(lambda p: p.outer())})\n{{\n"
    text += "struct vg_wire_call call;\n\n"
    ignored = "".join(f"(void){p.name};\n" for p in f.parameters if p.note == "callback" or p.name == "user_data")
    if f.lead:
        error = next((p for p in f.parameters if p.note == "err"), None)
        if error:
            text += f"if (!{lead}) {{\nvg_cl_set_error({error.name}, {f.invalid()});\nreturn NULL;\n}}\n"
        else:
            text += f"if (!{lead})\nreturn {f.invalid()};\n"
    else:
        text += "if (num_events == 0)\nreturn CL_INVALID_VALUE;\n"
    text += ignored + f"vg_wire_call_begin(&call, {lead}, VG_WIRE_OP_{short(f)});\n"
    if short(f) in WAITING:
        text += "call.flags = VG_WIRE_WAITS;\n"
    text += "".join(wire_put(p, lead) for p in carried(f))
    if is_info(f):
        return text + "return vg_wire_call_info(&call, param_value_size, param_value, param_value_size_ret);\n}\n"
    if f.returns in types:
        context = lead if f.lead.handle == "CONTEXT" else f"vg_wire_object({lead})->context"
        return text + (f"struct vg_wire_object *made = vg_wire_new(&call, VG_CL_{types[f.returns]}, {context});\n"
                       "return vg_wire_call_made(&call, made, errcode_ret);\n}\n")
    if short(f) in LATER_IF:
        names = ", ".join(p.name for p in f.parameters if not is_event(p))
        text += f"vg_wire_later_{short(f)}(&call, {names});\n"
    if any(is_event(p) for p in f.parameters):
        return text + "return vg_wire_call_enqueued(&call, made, event);\n}\n"
    if is_release(f):
        return text + f"return vg_wire_call_release(&call, vg_wire_object({lead}));\n}}\n"
    how = "post" if short(f) in LATER else "ask"
    text += f"cl_int result = vg_wire_call_{how}(&call);\n"
    for p in f.parameters:
        if p.note == "out 1":
            text += (f"uint64_t {p.name} = vg_wire_get(&call.in);\n".replace(p.name, "said_" + p.name) +
                     f"if (result == CL_SUCCESS && {p.name})\n*{p.name} = ({p.base})said_{p.name};\n")
    if short(f) == "Flush":
        text += f"vg_wire_flush(vg_wire_object({lead})->client);\n"
    return text + "vg_wire_call_end(&call);\nreturn result;\n}\n"


def serve_get(p):
    base = p.base
    if is_event(p):
        return "uint64_t id = vg_serve_new(call);\ncl_event made = NULL;\n"
    if p.single:
        return f"{base} {p.name} = vg_serve_object(call, VG_CL_{p.handle});\n"
    if is_number(p):
        return f"{base} {p.name} = ({base})vg_wire_get(&call->in);\n"
    words = p.note.split()
    plain = base.replace("const ", "")
    if words[0] == "out":
        return f"{plain} said_{p.name} = 0, *{p.name} = vg_wire_get(&call->in) ? &said_{p.name} : NULL;\n"
    if p.handle:
        return f"const {plain} *{p.name} = vg_serve_objects(call, VG_CL_{p.handle}, {words[1]});\n"
    if words == ["in", "str"]:
        return f"const char *{p.name} = vg_wire_get_string(&call->in);\n"
    if words[-1] == "str":
        return f"const char **{p.name} = vg_serve_strings(call, {words[1]});\n"
    if words == ["in", "properties"]:
        return f"const {plain} *{p.name} = vg_serve_pairs(call);\n"
    n, size, _ = count(p)
    return f"const {plain} *{p.name} = vg_wire_get_array(&call->in, {n}, {size});\n"


def serve_argument(p):
    if is_event(p):
        return "vg_serve_event(call, id, &made)"
    if p.note == "err":
        return "&error"
    if p.note == "callback" or p.name == "user_data":
        return "NULL"
    return p.name


def serve(f, types):
    text = f"static cl_int\nserve_{short(f)}(struct vg_serve_call *call)\n{{\n"
    text += "".join(serve_get(p) for p in carried(f))
    names = ", ".join(serve_argument(p) for p in (f.parameters[:-3] if is_info(f) else f.parameters))
    bad = "if (call->in.is_bad)\nreturn CL_INVALID_VALUE;\n"
    check = f"vg_serve_check_options(call, options, {OPTIONS[short(f)]})" if short(f) in OPTIONS else None
    if is_info(f):
        return text + ("struct vg_serve_value value;\n\nvg_serve_value_begin(call, &value);\n" + bad +
                       f"cl_int result = vg_cl_dispatch.{f.name}({names}, value.size, value.bytes, &value.has);\n" +
                       ("if (result == CL_SUCCESS)\nvg_serve_limit_info(call->serve, param_name, &value);\n"
                        if short(f) == "GetDeviceInfo" else "") +
                       ("if (result == CL_SUCCESS)\nvg_serve_sign_info(call->serve, param_name, &value);\n"
                        if short(f) == "GetProgramInfo" else "") +
                       "return vg_serve_value_end(call, &value, result);\n}\n")
    if f.returns in types:
        made = f"vg_cl_dispatch.{f.name}({names})"
        if check:
            bad += f"error = {check};\n"
            made = f"error == CL_SUCCESS ? {made} : NULL"
        return text + ("uint64_t id = vg_serve_new(call);\ncl_int error = CL_SUCCESS;\n\n" + bad +
                       f"void *made = {made};\n"
                       f"vg_serve_made(call, id, VG_CL_{types[f.returns]}, made);\n"
                       "vg_wire_put(&call->out, made != NULL);\nreturn error;\n}\n")
    if is_release(f):
        lead = f.lead
        text = text.replace(serve_get(lead), f"uint64_t id;\n{lead.base} {lead.name} = "
                            f"vg_serve_leaving(call, VG_CL_{lead.handle}, &id);\n")
        return text + (f"\n{bad}vg_serve_forget(call, VG_CL_{lead.handle}, id);\nreturn vg_cl_dispatch.{f.name}({names});\n}}\n")
    text += "\n" + bad
    if check:
        text += f"cl_int error = {check};\nif (error != CL_SUCCESS)\nreturn error;\n"
    if any(is_event(p) for p in f.parameters):
        return text + (f"cl_int result = vg_cl_dispatch.{f.name}({names});\n"
                       "vg_serve_made_event(call, id, command_queue, made, result);\nreturn result;\n}\n")
    outs = [p for p in f.parameters if p.note == "out 1"]
    if not outs:
        return text + f"return vg_cl_dispatch.{f.name}({names});\n}}\n"
    return text + (f"cl_int result = vg_cl_dispatch.{f.name}({names});\n" +
                   "".join(f"vg_wire_put(&call->out, said_{p.name});\n" for p in outs) + "return result;\n}\n")


def declarations(functions, types):
    """Of what is by hand or called by hand."""
    text = ""
    for f in functions:
        if short(f) in HAND + ALONE + WRAPPED:
            text += f"{f.returns} CL_API_CALL vg_wire_{short(f)}({f.list(lambda p: p.outer())});\n"
        if short(f) in WRAPPED:
            text += f"{f.returns} CL_API_CALL {client_name(f)}({f.list(lambda p: p.outer())});\n"
    return text


def later_h(head, functions):
    """What says of a call that it need not be waited for."""
    text = ""
    for f in functions:
        if short(f) in LATER_IF:
            names = ", ".join(p.outer() for p in f.parameters if not is_event(p))
            text += f"void vg_wire_later_{short(f)}(struct vg_wire_call *call, {names});\n"
    text += ("\n/* OBJECT is the object that the value names, or NULL if the value is not an object. */\nvoid vg_wire_later_SetKernelArg(struct vg_wire_call "
             "*call, cl_kernel kernel, cl_uint i, size_t size, const struct vg_wire_object *object, const void *value);\n\n/* Returns whether a non-blocking write from the program's memory can be sent without waiting for its\n * result. */\n"
             "bool vg_wire_later_write(cl_command_queue queue, cl_mem buffer, size_t offset, size_t size, cl_uint n, "
             "const cl_event *list);\n")
    return (head + "/*\n * Each function records in its call whether the call can be sent without waiting for its result,\n"
            " * because only a lack of memory can make it fail.\n */\n"
            "#ifndef VG_OPENCL_CLIENT_LATER_H\n#define VG_OPENCL_CLIENT_LATER_H\n\n"
            '#include "opencl/client/client.h"\n\n' + text + "\n#endif\n")


def table_h(head, functions, types):
    return (head + "/*\n * The handwritten functions of the program's side, and the functions that they call.\n */\n"
            "#ifndef VG_OPENCL_CLIENT_TABLE_H\n#define VG_OPENCL_CLIENT_TABLE_H\n\n"
            '#include "opencl/track/object.h"\n\n' + declarations(functions, types) + "\n#endif\n")


def ask_c(head, functions, types):
    """The functions that those by hand call."""
    return (head + '#include "config.h"\n\n#include "opencl/client/client.h"\n#include "opencl/client/table.h"\n' +
            "".join("\n" + client(f, types) for f in functions if is_written(f) and short(f) in WRAPPED))


def client_c(head, functions, types):
    table = "".join(
        f".{f.name} = " + (f"vg_wire_{short(f)}" if short(f) in HAND + ALONE + WRAPPED else client_name(f)) + ",\n"
        for f in functions if is_written(f) or short(f) in HAND + ALONE)
    return (head + '#include "config.h"\n\n#include "opencl/client/later.h"\n#include "opencl/client/table.h"\n' +
            "".join("\n" + client(f, types) for f in functions if is_written(f) and short(f) not in WRAPPED) +
            "\nconst cl_icd_dispatch vg_wire_dispatch = {\n" + table + "};\n")


def serve_c(head, functions, types):
    ours = [f for f in functions if is_written(f)]
    table = "[VG_WIRE_OP_HELLO] = vg_serve_hello,\n"
    table += "".join(f"[VG_WIRE_OP_{short(f)}] = serve_{short(f)},\n" for f in ours)
    table += "".join(f"[VG_WIRE_OP_{name}] = vg_serve_{name},\n" for name in HAND + MORE)
    return (head + '#include "config.h"\n\n#include "opencl/icd/entries.h"\n#include "opencl/serve/handwritten.h"\n#include "opencl/serve/sign.h"\n' +
            "".join("\n" + serve(f, types) for f in ours) +
            "\nconst vg_serve_function vg_serve_functions[VG_WIRE_OPS] = {\n" + table + "};\n")


def names_c(head, functions):
    table = "[VG_WIRE_OP_HELLO] = \"the first message\",\n"
    table += "".join(f'[VG_WIRE_OP_{name}] = "cl{name}",\n'
                     for name in [short(f) for f in functions if is_written(f)] + HAND + MORE)
    return (head + '#include "config.h"\n\n#include "opencl/serve/serve.h"\n'
            "\nconst char *const vg_serve_names[VG_WIRE_OPS] = {\n" + table + "};\n")


def ops_h(head, functions):
    names = [short(f) for f in functions if is_written(f) or short(f) in HAND] + MORE
    lines = "".join(f"VG_WIRE_OP_{name},\n" for name in names)
    cases = "".join(f"case VG_WIRE_OP_{name}:\n" for name in SYNCHRONISING)
    return (head + "/*\n * The requests in a program's messages.\n */\n"
            "#ifndef VG_OPENCL_WIRE_OPS_H\n#define VG_OPENCL_WIRE_OPS_H\n\n#include <stdbool.h>\n\n"
            "enum vg_wire_op {\nVG_WIRE_OP_HELLO,\n" + lines + "VG_WIRE_OPS\n};\n\n"
            "/* Returns whether the answer may report errors of earlier calls. */\nstatic inline bool\n"
            "vg_wire_is_synchronising(unsigned op)\n{\n"
            f"switch (op) {{\n{cases}return true;\ndefault:\nreturn false;\n}}\n}}\n\n#endif\n")


# The fields of messages whose functions are by hand (fields_h()).
HAND_FIELDS = {
    "HELLO": "m n", "GetDeviceIDs": "t o1", "CreateContext": "n L20 p w3", "CreateBufferWithProperties": "g n n n o3 w5",
    "CreateSubBuffer": "g n n o5 w5", "CreateImageWithProperties": "g n n o3 o5 F D w5",
    "CreateProgramWithSource": "o3 s w7", "CreateProgramWithBinary": "n o3 L20 w7 b0",
    "CreateKernelsInProgram": "n o7 W8", "CreateSubDevices": "n o2 p n W2", "GetSupportedImageFormats": "g k n n o3",
    "SetKernelArg": "n n K", "SetEventCallback": "n n o9", "EnqueueReadBuffer": "n n o4 o5 E",
    "EnqueueWriteBuffer": "n n o4 o5 E", "EnqueueReadBufferRect": "n n o4 o5 R R E",
    "EnqueueWriteBufferRect": "n n o4 o5 R R E", "EnqueueReadImage": "o4 o5 R R E", "EnqueueWriteImage": "o4 o5 R R E",
    "EnqueueMapBuffer": "n n o4 o5 M E", "EnqueueMapImage": "o4 o5 R R M E", "EnqueueUnmapMemObject": "n o4 o5 E",
    "ProgramBinaries": "o7"}
NAMES = {"platform": 0x0900, "device": 0x1000, "context": 0x1080, "command_queue": 0x1090, "mem": 0x1100, "image": 0x1110,
         "sampler": 0x1150, "program": 0x1160, "program_build": 0x1181, "kernel": 0x1190, "kernel_arg": 0x1196,
         "kernel_work_group": 0x11B0, "event": 0x11D0, "profiling": 0x1280, "kernel_sub_group": 0x2033}


def field(f, p, numbers, types):
    """One field, as fields_h() says it."""
    kinds = list(types.values())
    words = p.note.split()
    if is_event(p):
        return "w9"
    if p.single:
        return ("r" if is_release(f) else "o") + str(1 + kinds.index(p.handle))
    if is_number(p):
        name = p.base[3:-5] if p.base.endswith("_info") and p.name == "param_name" else None
        return f"i{NAMES[name]:X}" if name else "n"
    if words[0] == "out":
        return "n"
    if p.handle:
        return f"L{1 + kinds.index(p.handle)}{numbers.index(words[1])}"
    if words == ["in", "str"]:
        return "s"
    if words[-1] == "str":
        return f"z{numbers.index(words[1])}"
    if words == ["in", "properties"]:
        return "p"
    if words[1] == "3":
        return "R"
    size = 1 if p.base == "const void" else 8
    return f"A{size}{numbers.index(words[1])}" if words[1] in numbers else f"a{int(words[1]) * size}"


def fields(f, types):
    numbers = [p.name for p in carried(f) if is_number(p)]
    made = [f"w{1 + list(types).index(f.returns)}"] if f.returns in types else []
    return " ".join([field(f, p, numbers, types) for p in carried(f)] + made + (["v"] if is_info(f) else []))


def fields_h(head, functions, types):
    """What tests make messages of."""
    lines = "".join(f'[VG_WIRE_OP_{name}] = "{text}",\n' for name, text in HAND_FIELDS.items())
    lines += "".join(f'[VG_WIRE_OP_{short(f)}] = "{fields(f, types)}",\n' for f in functions if is_written(f))
    return (head + "/*\n * The fields of each message, from which tests build messages. T is an enum vg_cl_type, and C says\n"
            " * which of the numbers is the count:\n *\n"
            " *   n, m, t, g, k  a number: any, the magic, a device's type, flags of memory, a kind of memory\n"
            " *   iNAME          the name of a value, one that starts with NAME; v: space for the value\n"
            " *   oT, rT         an object; an object that is released\n"
            " *   wT, WT         an id, or a list of ids, for new objects\n"
            " *   LTC            ids of objects\n"
            " *   ASC, aN, R     an array: of elements of S bytes, of N bytes, of three numbers\n"
            " *   s, zC, bC      a string; strings; consecutive lists of bytes\n"
            " *   p, F, D        pairs that end with 0; an image's format; an image's description\n"
            " *   K              an argument's type, its kernel, and its value\n"
            " *   M, E           the fields of a mapping; the final fields of commands on memory\n */\n"
            "#ifndef VG_OPENCL_API_FIELDS_H\n#define VG_OPENCL_API_FIELDS_H\n\n"
            '#include "opencl/wire/ops.h"\n\n'
            "static const char *const vg_wire_fields[VG_WIRE_OPS] = {\n" + lines + "};\n\n#endif\n")


def hand_h(head):
    return (head + "/*\n * Handlers on the proxy's side that are written by hand.\n */\n"
            "#ifndef VG_OPENCL_SERVE_HANDWRITTEN_H\n#define VG_OPENCL_SERVE_HANDWRITTEN_H\n\n"
            '#include "opencl/serve/serve.h"\n\n' +
            "".join(f"cl_int vg_serve_{name}(struct vg_serve_call *call);\n" for name in ["hello"] + HAND + MORE) +
            "\n#endif\n")


def files(head, functions, types):
    return (("wire/ops.h", ops_h(head, functions)), ("client/table.h", table_h(head, functions, types)),
            ("client/later.h", later_h(head, functions)),
            ("api/fields.h", fields_h(head, functions, types)),
            ("client/ask.c", ask_c(head, functions, types)), ("client/table.c", client_c(head, functions, types)),
            ("serve/handwritten.h", hand_h(head)), ("serve/names.c", names_c(head, functions)),
            ("serve/table.c", serve_c(head, functions, types)))
