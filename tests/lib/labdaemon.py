# SPDX-License-Identifier: Apache-2.0
"""vgpud inside of a host of tests/lab/lab.sh."""
import json
import os
import re
import signal
import subprocess

from labhost import TSAN, lab
from settings import HANG_S
from vgpuctl import ROOT
from vgpud import Daemon


def init_of(host):
    """The PID of its first process, as a text."""
    return re.search(rf"^{host} init=(\d+)", lab("status").stdout, re.M)[1]


def prefix(host):
    """Before a command that is to run there."""
    return ["nsenter", "-t", init_of(host), "-m", "-u", "-n", "-i", "-p", "--"]


def ask_proxy_on(host, path):
    """What a proxy on the host reports. It refuses processes outside its PID namespace."""
    code = "import json, sys; from opencl import ask_proxy; print(json.dumps(ask_proxy(sys.argv[1])))"
    answer = subprocess.run([*prefix(host), "/usr/bin/python3", "-c", code, path], stdout=subprocess.PIPE,
                            env={**os.environ, "PYTHONPATH": os.path.join(ROOT, "tests", "lib")},
                            timeout=HANG_S, check=True)
    return json.loads(answer.stdout)


class LabDaemon(Daemon):
    """vgpud in the host's namespaces; its socket is in a file system that they share with us.
    process is nsenter, which stays outside."""

    def __init__(self, directory, *args, host="h1", env=None, **options):
        super().__init__(directory, *args, env={**TSAN, **(env or {})}, prefix=prefix(host), **options)

    def pid(self):
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children",
                  encoding="utf-8") as file:
            return int(file.read())

    def stop(self, signum=signal.SIGTERM, code=0):
        os.kill(self.pid(), signum)
        assert self.process.wait(HANG_S) == code, self.tail()
        return self.log()

    def kill(self):
        os.kill(self.pid(), signal.SIGKILL)
        self.process.wait(HANG_S)

    def __exit__(self, *unused):
        if self.process.poll() is None:
            self.kill()
        self.process.wait()
