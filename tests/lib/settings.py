# SPDX-License-Identifier: Apache-2.0
"""What the environment says about a test run."""
import os
import random

# Who waits for longer waits for something that hangs: however busy the machine is, nothing here takes
# so long. It is no bound on how fast anything is.
HANG_S = 240


# What samples are drawn by unless --seed of tools/check or the environment says otherwise.
FIXED_SEED = 20261120


def seed():
    return int(os.environ.get("VG_TEST_SEED", FIXED_SEED))


def explores():
    """Was another seed asked for? Such a run takes more time and draws more."""
    return seed() != FIXED_SEED


def full():
    return os.environ.get("VG_TEST_FULL", "") not in ("", "0")


def is_instrumented(program):
    """Is it built with a sanitizer? Then its memory says nothing."""
    with open(program, "rb") as file:
        text = file.read()
    return b"__asan_init" in text or b"__tsan_init" in text


def random_of(name):
    """Chance of its own for whatever is called so."""
    return random.Random(f"{seed()}/{name}")


def sample(name, cases, n):
    """n of the cases of this name, in their order; all of them in a full run."""
    cases = list(cases)
    if full() or n >= len(cases):
        return cases
    return [cases[i] for i in sorted(random_of(name).sample(range(len(cases)), n))]
