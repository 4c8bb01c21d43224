#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Calls every function of OpenCL that opencl/api/opencl.api has, well and in all the wrong ways that its parameters
allow, and says what comes back: every_function.py [FILE], where FILE has the names of calls that are left out. Each
call is named before it is made, so that the last name is that of a call that does not return."""
import ctypes
import hashlib
import os
import signal
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "opencl", "api"))
sys.dont_write_bytecode = True
from generate import TYPES, read_table  # noqa: E402  pylint: disable=wrong-import-position

CL = ctypes.CDLL("libOpenCL.so.1")
SCALARS = {"cl_int": ctypes.c_int32, "cl_uint": ctypes.c_uint32, "cl_bool": ctypes.c_uint32, "size_t": ctypes.c_size_t,
           "cl_device_type": ctypes.c_uint64, "cl_mem_flags": ctypes.c_uint64, "cl_map_flags": ctypes.c_uint64,
           "cl_command_queue_properties": ctypes.c_uint64, "cl_mem_migration_flags": ctypes.c_uint64,
           "cl_svm_mem_flags": ctypes.c_uint64}
ROOM = 1 << 16
HUGE, LARGE = 1 << 40, 1 << 20
LONG = (ctypes.c_size_t, ctypes.c_uint64)
MAGIC = 0xA5
SOURCE = b"""kernel void work(global int *a, int b, local int *c, constant int *d) {
    size_t i = get_global_id(0); c[get_local_id(0)] = d[i % 4]; a[i] = a[i] * b + c[get_local_id(0)]; }
kernel void other(global int *a) { a[0] = 1; }"""
PART = b"int twice(int a) { return 2 * a; } kernel void part(global int *a) { a[0] = twice(a[0]); }"
# What names objects, addresses, times, or the machine's own state: only its size is the same.
# PoCL counts its own references, too.
CHANGING = {"clGetContextInfo": (0x1080, 0x1081, 0x1082), "clGetCommandQueueInfo": (0x1090, 0x1091, 0x1092, 0x1095),
            "clGetMemObjectInfo": (0x1103, 0x1105, 0x1106, 0x1107), "clGetImageInfo": (0x1118,),
            "clGetSamplerInfo": (0x1151,), "clGetProgramInfo": (0x1160, 0x1161, 0x1163, 0x1165, 0x1166),
            "clGetKernelInfo": (0x1193, 0x1194),
            "clGetEventInfo": (0x11D0, 0x11D4), "clGetEventProfilingInfo": range(0x1280, 0x1285),
            "clGetDeviceInfo": (0x1031, 0x1042), "clGetKernelWorkGroupInfo": ()}
# The library's copies of images have no gaps between their rows.
PITCHES = ("image_row_pitch", "image_slice_pitch")
# What is not offered: extensions, shared virtual memory, pipes, queues of the device's own; and our mark's place.
HIDDEN = {"clGetPlatformInfo": (0x0901, 0x0904, 0x0907),
          "clGetProgramInfo": (0x1166,),  # a list of where to write to
          "clGetDeviceInfo": (0x1030, 0x1053, 0x1055, 0x1056, 0x1057, 0x104E, 0x104F, 0x1050, 0x1051, 0x1052, 0x1060,
                              0x1070, 0x12A9, 0x12AA, 0x12AB)}
# PoCL 3.1 and the standard do not say the same, and the library does what the standard says; or PoCL has no such
# function, and ends the program.
OTHERWISE = ("clGetDeviceIDs: no devices", "clEnqueueMapBuffer: map_flags huge", "clEnqueueMapImage: map_flags huge",
             "clEnqueueNDRangeKernel: a list without a number", "clEnqueueNDRangeKernel: a list of none",
             "clEnqueueTask: a list without a number", "clEnqueueTask: a list of none", "clEnqueueWaitForEvents",
             "clCreateCommandQueueWithProperties: on the device")
RANGES = {"clGetPlatformInfo": [(0x0900, 0x0910)], "clGetDeviceInfo": [(0x1000, 0x1080)],
          "clGetContextInfo": [(0x1080, 0x1088)], "clGetCommandQueueInfo": [(0x1090, 0x109A)],
          "clGetMemObjectInfo": [(0x1100, 0x110C)], "clGetImageInfo": [(0x1110, 0x111C)],
          "clGetSamplerInfo": [(0x1150, 0x115A)], "clGetProgramInfo": [(0x1160, 0x116C)],
          "clGetProgramBuildInfo": [(0x1181, 0x1187)], "clGetKernelInfo": [(0x1190, 0x1197)],
          "clGetKernelArgInfo": [(0x1196, 0x119B)], "clGetKernelWorkGroupInfo": [(0x11B0, 0x11B7)],
          "clGetEventInfo": [(0x11D0, 0x11D6)], "clGetEventProfilingInfo": [(0x1280, 0x1286)]}


class World:
    """What calls are made with."""


W = World()
ALIVE = []  # what the library may look at later


def raw(kind, *values):
    """An array that lives as long as the program."""
    array = (kind * max(len(values), 1))(*values)
    ALIVE.append(array)
    return array


def sizes(*values):
    return raw(ctypes.c_size_t, *values)


def handles(*values):
    return raw(ctypes.c_void_p, *values)


def longs(*values):
    return raw(ctypes.c_ssize_t, *values)


@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
def on_program(_program, _data):
    print("  program is told", flush=True)


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def native_kernel(_args):
    pass


@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p)
def on_event(_event, _status, _data):
    pass


def call(name, *args, returns=ctypes.c_void_p):
    function = getattr(CL, name)
    function.restype = returns
    return function(*args)


def make(name, *args):
    error = ctypes.c_int32(99)
    found = call(name, *args, ctypes.byref(error))
    if error.value:
        sys.exit(f"{name}: {error.value}")
    return ctypes.c_void_p(found)


def source(text):
    line = raw(ctypes.c_char_p, text)
    return make("clCreateProgramWithSource", W.context, 1, line, None)


def fresh(what):
    """An object that a call may use up."""
    if what == "user":
        return make("clCreateUserEvent", W.context)
    if what == "program":
        return source(PART)
    return None


def binary_of(program):
    size = ctypes.c_size_t()
    call("clGetProgramInfo", program, 0x1165, ctypes.c_size_t(8), ctypes.byref(size), None)
    data = raw(ctypes.c_ubyte, *([0] * size.value))
    call("clGetProgramInfo", program, 0x1166, ctypes.c_size_t(8), handles(ctypes.addressof(data)), None)
    return size.value, data


def open_world():
    one = handles(None)
    call("clGetPlatformIDs", 1, one, None)
    W.platform = ctypes.c_void_p(one[0])
    call("clGetDeviceIDs", W.platform, ctypes.c_uint64(0xFFFFFFFF), 1, one, None)
    W.device = ctypes.c_void_p(one[0])
    W.devices = handles(one[0])
    W.context = make("clCreateContext", None, 1, W.devices, None, None)
    W.queue = make("clCreateCommandQueue", W.context, W.device, ctypes.c_uint64(2))
    W.buffer, W.other = (make("clCreateBuffer", W.context, ctypes.c_uint64(1), ctypes.c_size_t(4096), None)
                         for _ in range(2))
    W.bytes = raw(ctypes.c_ubyte, *([0] * ROOM))
    W.format = raw(ctypes.c_uint32, 0x10B5, 0x10DA)  # RGBA, UNSIGNED_INT8
    W.desc = desc(0x10F1, 8, 8)
    W.image, W.other_image = (make("clCreateImage", W.context, ctypes.c_uint64(1), W.format, W.desc, None)
                              for _ in range(2))
    W.sampler = make("clCreateSampler", W.context, 0, 0x1132, 0x1140)
    W.program = source(SOURCE)
    assert call("clBuildProgram", W.program, 0, None, None, None, None) is None
    W.kernel = make("clCreateKernel", W.program, b"work")
    W.unset = make("clCreateKernel", W.program, b"work")
    for i, (size, value) in enumerate(((8, handles(W.buffer.value)), (4, raw(ctypes.c_int32, 3)), (64, None),
                                       (8, handles(W.other.value)))):
        assert call("clSetKernelArg", W.kernel, i, ctypes.c_size_t(size), value) is None
    W.compiled = source(PART)
    assert call("clCompileProgram", W.compiled, 0, None, None, 0, None, None, None, None) is None
    W.binary_size, W.binary = binary_of(W.program)
    event = handles(None)
    call("clEnqueueMarkerWithWaitList", W.queue, 0, None, event)
    call("clFinish", W.queue)
    W.event = ctypes.c_void_p(event[0])


def desc(kind, width, height, depth=0, array=0, row=0, slices=0, mem=None):
    """A cl_image_desc."""
    words = [kind, width, height, depth, array, row, slices, 0, mem.value if mem else 0]
    return raw(ctypes.c_uint64, *words)


# ---- a good call ----

def good_of_name(function, name):
    """By the name of the parameter, where its type says too little."""
    by_name = {
        "num_entries": 4, "num_devices": 1, "num_kernels": 4, "count": 1, "num_events": 1, "num_input_headers": 0,
        "num_input_programs": 1, "num_mem_objects": 0, "devices": W.devices, "device_list": W.devices,
        "out_devices": handles(None, None, None, None), "platforms": handles(None, None, None, None),
        "kernels": handles(None, None, None, None), "event_list": handles(W.event.value),
        "input_programs": handles(W.compiled.value), "input_headers": None, "header_include_names": None,
        "strings": raw(ctypes.c_char_p, SOURCE), "options": None, "kernel_name": b"work", "kernel_names": b"",
        "func_name": b"clNoSuchFunction", "device_type": 0xFFFFFFFF, "size": 64, "pattern_size": 4, "pattern": W.bytes,
        "fill_color": W.bytes, "origin": sizes(0, 0, 0), "src_origin": sizes(0, 0, 0), "dst_origin": sizes(0, 0, 0),
        "buffer_origin": sizes(0, 0, 0), "host_origin": sizes(0, 0, 0), "region": sizes(4, 4, 1), "ptr": W.bytes,
        "host_ptr": None, "image_format": W.format, "image_desc": W.desc, "image_width": 8, "image_height": 8,
        "image_depth": 2, "flags": 1, "map_flags": 1, "normalized_coords": 0, "addressing_mode": 0x1132,
        "filter_mode": 0x1140, "buffer_create_type": 0x1220, "buffer_create_info": sizes(0, 256), "work_dim": 1,
        "global_work_size": sizes(16), "local_work_size": sizes(4), "global_work_offset": None,
        "user_func": native_kernel,
        "args": None, "cb_args": 0, "mem_list": None, "args_mem_loc": None, "mem_objects": handles(W.buffer.value),
        "arg_index": 1, "arg_size": 4, "arg_value": raw(ctypes.c_int32, 3), "image_type": 0x10F1,
        "image_formats": W.room, "command_exec_callback_type": 0, "execution_status": 0,
        "sampler_properties": longs(0x1152, 0, 0), "il": W.bytes, "length": 64, "spec_id": 0, "spec_size": 4,
        "spec_value": W.bytes, "input_value": sizes(4), "input_value_size": 8,
        "blocking_read": 1, "blocking_write": 1, "blocking_map": 1, "image_row_pitch": None, "image_slice_pitch": None,
    }
    by_function = {
        ("clCreateSubDevices", "properties"): longs(0x1086, 1, 0), ("clCreateContext", "properties"): None,
        ("clCreateContextFromType", "properties"): None, ("clEnqueueMigrateMemObjects", "num_mem_objects"): 1,
        ("clEnqueueMigrateMemObjects", "flags"): 0, ("clCreateSubBuffer", "flags"): 0,
        ("clCreateImage2D", "image_row_pitch"): 0, ("clCreateImage3D", "image_row_pitch"): 0,
        ("clCreateImage3D", "image_slice_pitch"): 0, ("clEnqueueMapImage", "image_row_pitch"): sizes(0),
        ("clEnqueueMapImage", "image_slice_pitch"): sizes(0), ("clEnqueueUnmapMemObject", "mapped_ptr"): None,
        ("clCreateProgramWithBinary", "lengths"): sizes(W.binary_size), ("clCreateProgramWithSource", "lengths"): None,
        ("clCreateProgramWithBinary", "binaries"): handles(ctypes.addressof(W.binary)),
        ("clCreateProgramWithBinary", "binary_status"): raw(ctypes.c_int32, 99),
        ("clSetEventCallback", "pfn_notify"): on_event, ("clGetDeviceIDs", "devices"): handles(None, None, None, None),
    }
    if (function, name) in by_function:
        return by_function[function, name]
    return by_name[name] if name in by_name else NotImplemented


def good_handle(function, parameter):
    if function in ("clSetUserEventStatus",):
        return fresh("user")
    if parameter.name == "program" and function in ("clBuildProgram", "clCompileProgram"):
        return fresh("program")
    names = {"dst_buffer": W.other, "memobj": W.buffer, "image": W.image, "src_image": W.image,
             "dst_image": W.other_image}
    kinds = {"PLATFORM": W.platform, "DEVICE": W.device, "CONTEXT": W.context, "QUEUE": W.queue, "MEM": W.buffer,
             "SAMPLER": W.sampler, "PROGRAM": W.program, "KERNEL": W.kernel, "EVENT": W.event}
    return names.get(parameter.name, kinds[parameter.handle])


def good(function, parameter):
    if parameter.single:
        return good_handle(function.name, parameter)
    value = good_of_name(function.name, parameter.name)
    if value is not NotImplemented and not (parameter.stars and isinstance(value, int)):
        return value
    name, note = parameter.name, parameter.note
    if note == "err":
        return raw(ctypes.c_int32, 99)
    if name == "param_name":
        return RANGES.get(function.name, [(0x1000, 0)])[0][0]
    if name == "param_value_size":
        return ROOM
    if name == "param_value":
        return W.room
    if name == "event":
        return handles(None)
    if note == "callback" or parameter.stars:
        return raw(ctypes.c_uint64, 0x9999) if note.startswith("out") else None
    return 0


# ---- calls that are wrong in one way ----

def wrong_values(function, parameter):
    """Names and values for one parameter."""
    name, note = parameter.name, parameter.note
    if parameter.single or (parameter.stars and note) or name in ("ptr", "mapped_ptr"):
        yield "no " + name, None
    elif name == "user_data":
        yield name + " alone", 1
    elif note == "callback":
        if "program_notify" in parameter.base:
            yield name, on_program
    elif name == "param_name":
        yield name + " unknown", 0x9999
    elif name == "param_value_size":
        yield name + " 1", 1
        yield name + " 0", 0
    elif parameter.base in SCALARS and not parameter.stars:
        yield name + " 0", 0
        if name != "num_input_headers":
            yield name + " 1", 1
        # Lists are not longer than they say.
        if not name.startswith("num_") and name not in ("count", "spec_size", "length", "cb_args"):
            yield name + " 5", 5
            yield name + " huge", HUGE - 1 if SCALARS[parameter.base] in LONG else (1 << 31) - 1
    elif not parameter.stars:
        yield name + " 0x9999", 0x9999


def more_of(name):
    """What no rule finds: pairs of wrong values, and limits."""
    box = {
        "clCreateBuffer": [("two accesses", {"flags": 3}), ("host_ptr unasked", {"host_ptr": W.bytes}),
                           ("USE_HOST_PTR", {"flags": 8, "host_ptr": W.bytes}), ("USE_HOST_PTR alone", {"flags": 8}),
                           ("COPY_HOST_PTR", {"flags": 32, "host_ptr": W.bytes}),
                           ("USE and COPY", {"flags": 40, "host_ptr": W.bytes}),
                           ("USE and ALLOC", {"flags": 24, "host_ptr": W.bytes}),
                           ("ALLOC_HOST_PTR", {"flags": 16}), ("two host flags", {"flags": 128 | 512})],
        "clCreateSubBuffer": [("beyond", {"buffer_create_info": sizes(4000, 256)}),
                              ("empty", {"buffer_create_info": sizes(0, 0)}),
                              ("crooked", {"buffer_create_info": sizes(3, 64)}),
                              ("more access", {"buffer": W.read_only, "flags": 2}),
                              ("host pointer", {"flags": 8}), ("of a part", {"buffer": W.sub}),
                              ("of an image", {"buffer": W.image})],
        "clEnqueueNDRangeKernel": [("four dimensions", {"work_dim": 4}), ("not divided", {"local_work_size": sizes(5)}),
                                   ("too large", {"local_work_size": sizes(LARGE), "global_work_size": sizes(LARGE)}),
                                   ("no local", {"local_work_size": None}), ("none", {"global_work_size": sizes(0)}),
                                   ("offset", {"global_work_offset": sizes(1)}), ("unset", {"kernel": W.unset}),
                                   ("two", {"work_dim": 2, "global_work_size": sizes(4, 4),
                                            "local_work_size": sizes(2, 2)})],
        "clEnqueueFillBuffer": [("of three", {"pattern_size": 3}), ("crooked", {"offset": 2}), ("part", {"size": 6}),
                                ("beyond", {"offset": 4096}), ("sixteen", {"pattern_size": 16})],
        "clEnqueueReadBuffer": [("beyond", {"offset": 4090}), ("from another", {"buffer": W.write_only}),
                                ("an image", {"buffer": W.image}), ("of a part", {"buffer": W.sub})],
        "clEnqueueWriteBuffer": [("beyond", {"offset": 4090}), ("to another", {"buffer": W.read_only}),
                                 ("an image", {"buffer": W.image}), ("of a part", {"buffer": W.sub})],
        "clEnqueueCopyBuffer": [("onto itself", {"dst_buffer": W.buffer}), ("beyond", {"src_offset": 4090}),
                                ("beside", {"dst_buffer": W.buffer, "dst_offset": 1024})],
        "clEnqueueReadBufferRect": [("pitch", {"buffer_row_pitch": 2}),
                                    ("beyond", {"buffer_origin": sizes(4095, 0, 0)}),
                                    ("rows", {"buffer_row_pitch": 16, "host_row_pitch": 8})],
        "clEnqueueWriteBufferRect": [("pitch", {"host_row_pitch": 2}), ("beyond", {"region": sizes(4096, 4, 1)})],
        "clEnqueueCopyBufferRect": [("onto itself", {"dst_buffer": W.buffer}), ("pitch", {"src_row_pitch": 2})],
        "clEnqueueReadImage": [("beyond", {"origin": sizes(6, 6, 0)}), ("flat", {"region": sizes(4, 4, 0)}),
                               ("deep", {"region": sizes(4, 4, 2)}), ("pitch", {"row_pitch": 4}),
                               ("a buffer", {"image": W.buffer})],
        "clEnqueueWriteImage": [("beyond", {"origin": sizes(6, 6, 0)}), ("flat", {"region": sizes(4, 4, 0)}),
                                ("a buffer", {"image": W.buffer})],
        "clEnqueueCopyImage": [("beyond", {"dst_origin": sizes(6, 6, 0)}), ("onto itself", {"dst_image": W.image})],
        "clEnqueueMapBuffer": [("beyond", {"offset": 4090}), ("both", {"map_flags": 3}),
                               ("invalidate", {"map_flags": 4}),
                               ("invalidate and read", {"map_flags": 5}), ("closed", {"buffer": W.write_only})],
        "clEnqueueUnmapMemObject": [("another", {"mapped_ptr": W.bytes})],
        "clSetKernelArg": [(f"arg {i} of {size}", {"arg_index": i, "arg_size": size, "arg_value": value})
                           for i, size, value in ((0, 8, handles(W.buffer.value)), (0, 4, W.bytes), (0, 8, None),
                                                  (0, 8, handles(None)), (0, 8, handles(W.other.value)),
                                                  (1, 8, W.bytes), (1, 4, None), (2, 64, None), (2, 0, None),
                                                  (2, 64, W.bytes), (3, 8, handles(W.other.value)), (4, 4, W.bytes),
                                                  (9, 4, W.bytes))],
        "clSetUserEventStatus": [("failed", {"execution_status": -5}), ("of another", {"event": W.event}),
                                 ("running", {"execution_status": 1})],
        "clSetEventCallback": [("running", {"command_exec_callback_type": 1}),
                               ("queued", {"command_exec_callback_type": 3})],
        "clCreateContext": [("properties", {"properties": longs(0x1084, W.platform.value, 0)}),
                            ("unknown", {"properties": longs(0x9999, 1, 0)}),
                            ("twice", {"properties": longs(0x1084, W.platform.value, 0x1084, W.platform.value, 0)}),
                            ("no platform", {"properties": longs(0x1084, 0, 0)})],
        "clCreateCommandQueueWithProperties": [("bits", {"properties": longs(0x1093, 2, 0)}),
                                               ("on the device", {"properties": longs(0x1093, 7, 0)}),
                                               ("unknown", {"properties": longs(0x9999, 1, 0)})],
        "clCreateSamplerWithProperties": [("twice", {"sampler_properties": longs(0x1152, 0, 0x1152, 0, 0)}),
                                          ("unknown", {"sampler_properties": longs(0x9999, 0, 0)}),
                                          ("wrong", {"sampler_properties": longs(0x1153, 0x9999, 0)})],
        "clCreateImage": [("of a buffer", {"image_desc": desc(0x10F6, 16, 0, mem=W.buffer)}),
                          ("one", {"image_desc": desc(0x10F4, 16, 0)}),
                          ("three", {"image_desc": desc(0x10F2, 4, 4, 4)}),
                          ("array", {"image_desc": desc(0x10F3, 4, 4, 0, 3)}),
                          ("flat", {"image_desc": desc(0x10F1, 8, 0)}),
                          ("pitch alone", {"image_desc": desc(0x10F1, 8, 8, row=64)}),
                          ("format", {"image_format": raw(ctypes.c_uint32, 0x10B5, 0x9999)}),
                          ("COPY_HOST_PTR", {"flags": 32, "host_ptr": W.bytes})],
        "clCreateKernel": [("of none", {"kernel_name": b"none"}), ("of what is not built", {"program": W.compiled})],
        "clCreateProgramWithSource": [("lengths", {"lengths": sizes(len(SOURCE))}),
                                      ("an empty one", {"strings": raw(ctypes.c_char_p, None)})],
        "clCreateProgramWithBinary": [("damaged", {"lengths": sizes(64),
                                                   "binaries": handles(ctypes.addressof(W.bytes))}),
                                      ("empty", {"lengths": sizes(0)})],
        "clBuildProgram": [("options", {"options": b"-DX=1"}), ("wrong options", {"options": b"-cl-none"}),
                           ("with kernels", {"program": W.program})],
        "clCompileProgram": [("options", {"options": b"-DX=1"}), ("wrong options", {"options": b"-cl-none"}),
                             ("with kernels", {"program": W.program})],
        "clLinkProgram": [("options", {"options": b"-create-library"}), ("wrong options", {"options": b"-cl-none"}),
                          ("what is not compiled", {"input_programs": handles(source(PART).value)})],
        "clWaitForEvents": [("of none", {"event_list": handles(None)})],
        "clEnqueueMigrateMemObjects": [("to the host", {"flags": 1}), ("of none", {"mem_objects": handles(None)})],
        "clCreateSubDevices": [("by counts", {"properties": longs(0x1087, 1, 0, 0)}),
                               ("unknown", {"properties": longs(0x9999, 1, 0)}),
                               ("count", {"out_devices": None, "num_devices": 0}),
                               ("too many", {"properties": longs(0x1086, 4096, 0)})],
    }
    return box.get(name, [])


def variants(function):
    yield "well", {}
    names = [p.name for p in function.parameters]
    if "event_wait_list" in names:
        one = handles(W.event.value)
        yield "after an event", {"num_events_in_wait_list": 1, "event_wait_list": one}
        yield "a number without a list", {"num_events_in_wait_list": 1}
        yield "a list without a number", {"event_wait_list": one}
        yield "a list of none", {"num_events_in_wait_list": 1, "event_wait_list": handles(None)}
    for parameter in function.parameters:
        if parameter.name in ("num_events_in_wait_list", "event_wait_list"):
            continue
        for what, value in wrong_values(function, parameter):
            yield what, {parameter.name: value}
    yield from more_of(function.name)
    for first, last in RANGES.get(function.name, []):
        for number in range(first, last):
            yield f"0x{number:x}", {"param_name": number}
            yield f"0x{number:x} in little", {"param_name": number, "param_value_size": 1}
            yield f"0x{number:x} size", {"param_name": number, "param_value": None, "param_value_size": 0}


# ---- what comes back ----

RELEASE = {"CONTEXT": "clReleaseContext", "QUEUE": "clReleaseCommandQueue", "MEM": "clReleaseMemObject",
           "SAMPLER": "clReleaseSampler", "PROGRAM": "clReleaseProgram", "KERNEL": "clReleaseKernel",
           "EVENT": "clReleaseEvent", "DEVICE": "clReleaseDevice"}


def argument(parameter, value):
    if parameter.stars or parameter.single or parameter.note == "callback" or value is None:
        return value if value is not None else ctypes.c_void_p(None)
    return SCALARS.get(parameter.base, ctypes.c_uint64 if parameter.base.endswith("_bitfield") else
                       ctypes.c_uint32)(value)


def outputs(function, values):
    """What the function has written, where that is the same each time."""
    for parameter in function.parameters:
        value = values[parameter.name]
        if not parameter.note.startswith(("out", "err")) or value is None or parameter.name in ("ptr", "param_value",
                                                                                                "image_formats"):
            continue
        if parameter.handle:
            yield f"{parameter.name} {sum(1 for one in value if one)}"
        elif "timestamp" not in parameter.name and parameter.name not in PITCHES:
            yield f"{parameter.name} {value[0]}"
    changed = bytes(W.room)
    number = values.get("param_name", 0)
    if "param_value" in values and values["param_value"] is not None and \
            number not in CHANGING.get(function.name, ()):
        yield hashlib.sha256(changed).hexdigest()[:12]
    elif "image_formats" in values:
        yield hashlib.sha256(changed).hexdigest()[:12]
    if "ptr" in values and values["ptr"] is not None and function.name.startswith("clEnqueueRead"):
        yield hashlib.sha256(bytes(values["ptr"])).hexdigest()[:12]


def clean(function, values, result):
    """Waits, and releases what the call made."""
    call("clFinish", W.queue)
    if result and function.name.startswith("clEnqueueMap"):
        mem = values.get("buffer", values.get("image"))
        call("clEnqueueUnmapMemObject", W.queue, mem, ctypes.c_void_p(result), 0, None, None)
        call("clFinish", W.queue)
    if result and function.returns in TYPES:
        call(RELEASE[TYPES[function.returns]], ctypes.c_void_p(result))
    for parameter in function.parameters:
        made = parameter.handle in ("EVENT", "KERNEL", "DEVICE") and parameter.note.startswith("out")
        if made and values[parameter.name] and function.name != "clGetDeviceIDs":
            for one in values[parameter.name]:
                if one:
                    call(RELEASE[parameter.handle], ctypes.c_void_p(one))
    if function.name.startswith("clRetain") and function.parameters[0].handle != "DEVICE":
        call(RELEASE[function.parameters[0].handle], values[function.parameters[0].name])


def try_one(function, what, changes):
    ctypes.memset(W.room, MAGIC, ROOM)
    values = {p.name: good(function, p) for p in function.parameters}
    if function.name == "clEnqueueUnmapMemObject" and "mapped_ptr" not in changes:
        error = ctypes.c_int32()
        values["mapped_ptr"] = ctypes.c_void_p(call("clEnqueueMapBuffer", W.queue, W.buffer, 1, ctypes.c_uint64(1),
                                                    ctypes.c_size_t(0), ctypes.c_size_t(64), 0, None, None,
                                                    ctypes.byref(error)))
    values.update(changes)
    if function.name.startswith("clRelease") and values[function.parameters[0].name]:
        call(function.name.replace("Release", "Retain"), values[function.parameters[0].name])
    arguments = [argument(p, values[p.name]) for p in function.parameters]
    returns = None if function.returns == "void" else ctypes.c_void_p if function.returns in TYPES or \
        "*" in function.returns else ctypes.c_int32
    result = call(function.name, *arguments, returns=returns)
    call("clFinish", W.queue)
    said = result if returns is ctypes.c_int32 else "something" if result else "nothing"
    print("  =", said, *outputs(function, values), flush=True)
    clean(function, values, result if returns is ctypes.c_void_p else None)
    if function.name == "clSetKernelArg":
        open_args()


def fill():
    """Memory is the same before each function."""
    ctypes.memmove(W.bytes, bytes(i * 7 & 255 for i in range(ROOM)), ROOM)
    for mem in (W.buffer, W.other):
        call("clEnqueueWriteBuffer", W.queue, mem, 1, ctypes.c_size_t(0), ctypes.c_size_t(4096), W.bytes, 0, None, None)
    for image in (W.image, W.other_image):
        call("clEnqueueWriteImage", W.queue, image, 1, sizes(0, 0, 0), sizes(8, 8, 1), ctypes.c_size_t(0),
             ctypes.c_size_t(0), W.bytes, 0, None, None)


def open_args():
    for i, (size, value) in enumerate(((8, handles(W.buffer.value)), (4, raw(ctypes.c_int32, 3)), (64, None),
                                       (8, handles(W.other.value)))):
        call("clSetKernelArg", W.kernel, i, ctypes.c_size_t(size), value)


def is_left_out(function, what, changes):
    return function.kind == "absent" or "ExtensionFunction" in function.name or function.name in OTHERWISE or \
        f"{function.name}: {what}" in OTHERWISE or changes.get("param_name") in HIDDEN.get(function.name, ())


def main():
    with open(sys.argv[1], encoding="utf-8") if len(sys.argv) > 1 else open(os.devnull, encoding="ascii") as file:
        skipped = {line.strip() for line in file}
    W.room = raw(ctypes.c_ubyte, *([0] * ROOM))
    signal.alarm(300)
    open_world()
    W.read_only = make("clCreateBuffer", W.context, ctypes.c_uint64(4 | 256), ctypes.c_size_t(4096), None)
    W.write_only = make("clCreateBuffer", W.context, ctypes.c_uint64(2 | 128), ctypes.c_size_t(4096), None)
    W.sub = make("clCreateSubBuffer", W.buffer, ctypes.c_uint64(0), 0x1220, sizes(0, 1024))
    for function in read_table():
        fill()
        for what, changes in variants(function):
            name = f"{function.name}: {what}"
            if name in skipped or is_left_out(function, what, changes):
                continue
            print(name, flush=True)
            signal.alarm(20)
            try_one(function, what, changes)
    print("all", flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
