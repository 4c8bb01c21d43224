# SPDX-License-Identifier: Apache-2.0
"""Computes with PyOpenCL, several times over, and prints what came of it; numpy says whether that is right. Whole numbers,
so that each order of additions has the same sum. Needs python3-pyopencl."""
import sys

import numpy
import pyopencl
import pyopencl.array
from pyopencl.elementwise import ElementwiseKernel
from pyopencl.reduction import ReductionKernel
from pyopencl.scan import InclusiveScanKernel

ROUNDS = int(sys.argv[1])
context = pyopencl.create_some_context(interactive=False)
queue = pyopencl.CommandQueue(context)
host = numpy.arange(5000, dtype=numpy.int32) % 97
device = pyopencl.array.to_device(queue, host)
mix = ElementwiseKernel(context, "int *z, int *x, int a", "z[i] = a * x[i] + i % 5", "combine")
dot = ReductionKernel(context, numpy.int32, neutral="0", reduce_expr="a + b", map_expr="x[i] * y[i]",
                      arguments="int *x, int *y")
scan = InclusiveScanKernel(context, numpy.int32, "a + b", neutral="0")
image = pyopencl.image_from_array(context, numpy.arange(64 * 64, dtype=numpy.float32).reshape(64, 64), 1)
gather = pyopencl.Program(context, """
kernel void gather(read_only image2d_t from, sampler_t how, global float *to) {
    int x = get_global_id(0), y = get_global_id(1);
    to[y * 64 + x] = read_imagef(from, how, (int2)(63 - x, y)).x;
}""").build()
sampler = pyopencl.Sampler(context, False, pyopencl.addressing_mode.CLAMP, pyopencl.filter_mode.NEAREST)

for i in range(ROUNDS):
    mixed = pyopencl.array.empty_like(device)
    mix(mixed, device, i)
    expected = i * host + numpy.arange(len(host)) % 5
    sums = mixed.copy()
    scan(sums)
    product = int(dot(mixed, device).get())
    flipped = pyopencl.array.empty(queue, (64, 64), numpy.float32)
    gather.gather(queue, (64, 64), None, image, sampler, flipped.data)
    seen = flipped.map_to_host()
    corner = float(seen[5, 7])
    seen.base.release(queue)
    assert (mixed.get() == expected).all() and (sums.get() == numpy.cumsum(expected)).all()
    assert product == int((expected * host).sum()) and corner == 5 * 64 + 56
    gate = pyopencl.UserEvent(context)
    late = pyopencl.enqueue_marker(queue, wait_for=[gate])
    gate.set_status(pyopencl.command_execution_status.COMPLETE)
    late.wait()
    print(i, product, corner, flush=True)
