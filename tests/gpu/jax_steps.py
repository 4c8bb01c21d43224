# SPDX-License-Identifier: Apache-2.0
"""Programs of JAX for the matrix: jax_steps.py STEPS KIND. KIND is
  loop  jitted steps of a training, one right after the other, on one GPU
  pmap  the same on two GPUs by jax.pmap, which adds up their gradients
Each comes to the same weights in each run."""
import os
import sys

import steps

os.environ.setdefault("XLA_FLAGS", "--xla_gpu_deterministic_ops=true")
import jax  # noqa: E402
from jax import numpy  # noqa: E402

LAYERS, WIDTH, ROWS, TOLD = 4, 1024, 512, 50


def loss(weights, x):
    y = x
    for weight in weights:
        y = numpy.tanh(y @ weight)
    return numpy.mean((y - numpy.roll(x, 1, axis=-1)) ** 2)


def trained(weights, gradient):
    return [weight - 0.1 * slope for weight, slope in zip(weights, gradient)]


@jax.jit
def step(weights, x):
    return trained(weights, jax.grad(loss)(weights, x))


def step_of_each(weights, x):
    return trained(weights, jax.lax.pmean(jax.grad(loss)(weights, x), "gpus"))


def main():
    number, kind = int(sys.argv[1]), sys.argv[2]
    keys = jax.random.split(jax.random.PRNGKey(5), LAYERS + 1)
    weights = [0.03 * jax.random.normal(key, (WIDTH, WIDTH)) for key in keys[1:]]
    x, call, n = jax.random.normal(keys[0], (ROWS, WIDTH)), step, 0
    if kind == "pmap":
        if jax.local_device_count() != 2:
            sys.exit(f"there are {jax.local_device_count()} GPUs")
        call = jax.pmap(step_of_each, axis_name="gpus")
        weights = [numpy.stack([weight, weight]) for weight in weights]
        x = numpy.stack([x, x + 1])
    for n in steps.turns(number):
        weights = call(weights, x)
        if n % TOLD == 0:
            jax.block_until_ready(weights)
            steps.tell(n)
    steps.tell_end(n + 1, [jax.device_get(weight).tobytes() for weight in weights])


main()
