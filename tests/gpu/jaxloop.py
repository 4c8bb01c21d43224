# SPDX-License-Identifier: Apache-2.0
"""A program for try-cuda that computes with JAX in a tight loop: jaxloop.py STEPS. Again and again it makes so many
steps of a training from the same weights, and prints "sum" and the hash of what it has come to, which is the same
each time. It ends with SIGTERM."""
import hashlib
import os
import signal
import sys

os.environ["XLA_FLAGS"] = "--xla_gpu_deterministic_ops=true"
os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", ".03")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402


def loss(weights, batch):
    out = batch
    for weight in weights:
        out = jnp.tanh(out @ weight)
    return jnp.mean((out - jnp.roll(batch, 3, axis=1)) ** 2)


@jax.jit
def step(weights, batch):
    return [weight - 0.1 * slope for weight, slope in zip(weights, jax.grad(loss)(weights, batch))]


def main():
    key, n, ended = jax.random.PRNGKey(0), int(sys.argv[1]), []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
    first = [jax.random.normal(jax.random.fold_in(key, i), (1024, 1024)) * 0.02 for i in range(4)]
    batch = jax.random.normal(jax.random.fold_in(key, 9), (512, 1024))
    while not ended:
        weights = first
        for i in range(n):
            weights = step(weights, batch)
            if i % 50 == 0:
                jax.block_until_ready(weights)
        digest = hashlib.sha256()
        for weight in weights:
            digest.update(jax.device_get(weight).tobytes())
        print("sum", digest.hexdigest(), flush=True)


main()
