# SPDX-License-Identifier: Apache-2.0
"""tests/opencl/backlog.py in a guest, where nothing keeps its standard input open: it ends when it is killed."""
import os
import runpy
import sys

reading, writing = os.pipe()
os.dup2(reading, 0)
runpy.run_path(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "opencl", "backlog.py"))
sys.exit(0)
