# SPDX-License-Identifier: Apache-2.0
"""A program of CuPy for the matrix: cupy_steps.py STEPS. It has a kernel of its own, Fourier transforms, products of
matrices, a stream and CuPy's pool. It comes to the same in each run."""
import sys

import cupy
import steps

N, WIDTH, THREADS, TOLD = 1 << 20, 1024, 256, 20
KERNEL = """extern "C" __global__ void bend(float *v, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < n)
        v[i] = 0.999f * v[i] + 0.001f * sinf(v[i]);
}"""


def main():
    random = cupy.random.RandomState(7)
    values, matrix = random.rand(N, dtype=cupy.float32), random.rand(WIDTH, WIDTH, dtype=cupy.float32)
    bend, stream, n = cupy.RawKernel(KERNEL, "bend"), cupy.cuda.Stream(non_blocking=True), 0
    cupy.cuda.Device().synchronize()
    for n in steps.turns(int(sys.argv[1])):
        with stream:
            bend((N // THREADS,), (THREADS,), (values, cupy.int32(N)))
            values = cupy.fft.irfft(0.9999 * cupy.fft.rfft(values)).astype(cupy.float32)
            matrix = matrix @ matrix
            matrix /= cupy.abs(matrix).max()
        if n % TOLD == 0:
            stream.synchronize()
            steps.tell(n)
    stream.synchronize()
    steps.tell_end(n + 1, [cupy.asnumpy(array).tobytes() for array in (values, matrix)])


main()
