# SPDX-License-Identifier: Apache-2.0
"""What the environment says about a test run."""
import os


def seed():
    return int(os.environ.get("VG_TEST_SEED", "20261120"))


def full():
    return os.environ.get("VG_TEST_FULL", "") not in ("", "0")
