# SPDX-License-Identifier: Apache-2.0
"""JAX on the GPUs that it can see, for try-cuda: peer_jax.py MIB has an array of so many MiB on each, says "ready", and
adds one to them again and again. With SIGTERM it says how many values are wrong."""
import signal
import sys
import time

import jax
import jax.numpy as jnp

ended = []
signal.signal(signal.SIGTERM, lambda *_: ended.append(True))


def main():
    numbers = int(sys.argv[1]) * (1 << 20) // 4
    arrays = [jax.device_put(jnp.zeros(numbers, jnp.int32), device) for device in jax.devices()]
    add = jax.jit(lambda array: array + 1)
    steps = 0
    while not ended:
        arrays = [add(array).block_until_ready() for array in arrays]
        steps += 1
        if steps == 1:
            print("ready", flush=True)
        time.sleep(0.05)
    bad = sum(int((array != steps).sum()) for array in arrays)
    print(f"steps {steps} bad {bad}", flush=True)
    sys.exit(bad != 0)


main()
