# SPDX-License-Identifier: Apache-2.0
"""A program of Triton for the matrix: triton_steps.py STEPS. It comes to the same in each run."""
import sys

import steps
import torch
import triton
import triton.language as tl

N, BLOCK, TOLD = 1 << 22, 1024, 500


@triton.jit
def bend(values, n, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    value = tl.load(values + at, mask=at < n)
    tl.store(values + at, 0.999 * value + 0.001 * tl.sin(value), mask=at < n)


def main():
    torch.manual_seed(1)
    values, n = torch.rand(N, device="cuda"), 0
    for n in steps.turns(int(sys.argv[1])):
        bend[(N // BLOCK,)](values, N, BLOCK)
        if n % TOLD == 0:
            torch.cuda.synchronize()
            steps.tell(n)
    steps.tell_end(n + 1, [values.cpu().numpy().tobytes()])


main()
