# SPDX-License-Identifier: Apache-2.0
"""A filter and a weigher for the scheduler of OpenStack nova that ask vgpud."""

__version__ = "0.1.0"
