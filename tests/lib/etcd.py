# SPDX-License-Identifier: Apache-2.0
"""A real etcd on this machine, of one member or three, for tests: each is a process of theirs."""
import base64
import json
import os
import re
import shutil
import signal
import subprocess
import urllib.error
import urllib.request

import pytest
from ports import free_ports
from settings import HANG_S
from unixhttp import wait_for


def skip_without():
    if not shutil.which("etcd"):
        pytest.skip("etcd (package etcd-server) is not installed")
    text = subprocess.run(["etcd", "--version"], capture_output=True, text=True, timeout=HANG_S, check=True).stdout
    version = re.search(r"(\d+)\.(\d+)", text)
    if tuple(map(int, version.groups())) < (3, 4):
        pytest.skip(f"etcd {version.group()} is too old: vgpud needs 3.4")


class Member:
    def __init__(self, directory, name, address, ports, scheme="http", options=()):
        self.directory, self.name, self.options = str(directory), name, list(options)
        self.url, self.peer_url = f"{scheme}://{address}:{ports[0]}", f"http://{address}:{ports[1]}"
        self.process = None

    def start(self, cluster):
        with open(os.path.join(self.directory, self.name + ".log"), "ab") as log:
            self.process = subprocess.Popen(
                ["etcd", "--name", self.name, "--data-dir", os.path.join(self.directory, self.name),
                 "--listen-client-urls", self.url, "--advertise-client-urls", self.url,
                 "--listen-peer-urls", self.peer_url, "--initial-advertise-peer-urls", self.peer_url,
                 "--initial-cluster", cluster, "--unsafe-no-fsync", "--log-level", "warn",
                 "--logger", "zap", *self.options], stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)


class Etcd:
    def __init__(self, directory, members=1, address="127.0.0.1", scheme="http", options=(), context=None):
        skip_without()
        os.makedirs(directory, exist_ok=True)
        self.context = context
        ports = free_ports(2 * members, address)
        self.members = [Member(directory, f"m{i}", address, ports[2 * i:2 * i + 2], scheme, options)
                        for i in range(members)]
        self.cluster = ",".join(f"{m.name}={m.peer_url}" for m in self.members)
        for member in self.members:
            member.start(self.cluster)
        wait_for(self.answers)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        for member in self.members:
            member.kill()

    @property
    def endpoints(self):
        return " ".join(m.url for m in self.members)

    def ask(self, path, document, member=None, token=None):
        """Status and answer of the gateway, of the first member that runs unless one is named."""
        if member is None:
            member = next((i for i, m in enumerate(self.members) if m.process.poll() is None), 0)
        request = urllib.request.Request(self.members[member].url + path, json.dumps(document).encode(),
                                         {"Authorization": token} if token else {})
        try:
            with urllib.request.urlopen(request, timeout=HANG_S, context=self.context) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def answers(self):
        try:
            return all(self.ask("/v3/kv/range", {"key": coded("/")}, i)[0] in (200, 400)
                       for i in range(len(self.members)))
        except OSError:
            return False

    def pairs(self, prefix="/vgpud/", member=None, token=None):
        """What is below a prefix: the value of each key, and the pair as etcd has it."""
        end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
        status, answer = self.ask("/v3/kv/range", {"key": coded(prefix), "range_end": coded(end)}, member,
                                  token)
        assert status == 200, answer
        return {plain(p["key"]): (plain(p.get("value", "")), p) for p in answer.get("kvs", [])}

    def put(self, key, value):
        status, answer = self.ask("/v3/kv/put", {"key": coded(key), "value": coded(value)})
        assert status == 200, answer

    def delete(self, key):
        status, answer = self.ask("/v3/kv/deleterange", {"key": coded(key)})
        assert status == 200, answer

    def leader(self):
        """The number of the member that leads."""
        for i, member in enumerate(self.members):
            if member.process.poll() is None:
                status, answer = self.ask("/v3/maintenance/status", {}, i)
                if status == 200 and answer["leader"] == answer["header"]["member_id"]:
                    return i
        return None


def coded(text):
    return base64.b64encode(text.encode()).decode()


def plain(text):
    return base64.b64decode(text).decode()
