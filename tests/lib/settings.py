# SPDX-License-Identifier: Apache-2.0
"""What the environment says about a test run."""
import os


def seed():
    return int(os.environ.get("VG_TEST_SEED", "20261120"))


def rounds(usual, all_of_them, quick=None):
    """How often a test with chance in it is to play."""
    if quick is not None and os.environ.get("VG_TEST_QUICK"):
        usual = quick
    return int(os.environ.get("VG_TEST_ROUNDS", all_of_them if full() else usual))


def few():
    """Is a part of the cases enough: a quick run, or one under a sanitizer, beside a whole one?"""
    return bool(os.environ.get("VG_TEST_QUICK") or os.environ.get("VG_TEST_ROUNDS"))


def full():
    return os.environ.get("VG_TEST_FULL", "") not in ("", "0")
