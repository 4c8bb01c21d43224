# SPDX-License-Identifier: Apache-2.0
from settings import full

collect_ignore = [] if full() else ["test_container.py", "test_package.py", "test_rpm.py"]
