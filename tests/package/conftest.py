# SPDX-License-Identifier: Apache-2.0
from settings import full

collect_ignore = [] if full() else ["test_package.py"]
