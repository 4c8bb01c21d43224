# SPDX-License-Identifier: Apache-2.0
"""Keys, tokens and passwords that all users of this machine can read: each is named when vgpud starts, and by
vgpuctl doctor."""
import json
import os
import signal
import subprocess

import vgpuctl
from settings import HANG_S
from vgpud import Daemon, wait_for

KEYS = {"api": ["tls_key"], "peer other": ["token_file", "key"], "cluster": ["key", "etcd_key", "etcd_password_file"]}


def test_each_is_named(tmp_path):
    files = {}
    for group, keys in KEYS.items():
        for key in keys:
            path = tmp_path / f"{group.replace(' ', '-')}-{key}"
            path.write_text("a-secret-of-the-tests-0123456789\n")
            path.chmod(0o644)
            files[group, key] = path
    (tmp_path / "cert").write_text("")
    config = (f"[api]\ntls_key={files['api', 'tls_key']}\n[peer other]\nurl=https://127.0.0.1:1\n"
              f"cert={tmp_path}/cert\nkey={files['peer other', 'key']}\ntoken_file={files['peer other', 'token_file']}\n"
              f"[cluster]\nkey={files['cluster', 'key']}\netcd_key={files['cluster', 'etcd_key']}\netcd_user=x\n"
              f"etcd_password_file={files['cluster', 'etcd_password_file']}\n")
    with Daemon(tmp_path, config=config) as daemon:
        def row():
            done = subprocess.run([vgpuctl.program(), "doctor", "-o", "json", "--socket", daemon.socket],
                                  stdout=subprocess.PIPE, timeout=HANG_S)
            return next((r for r in json.loads(done.stdout)["checks"] if r["what"] == "secrets"), None)

        wait_for(lambda: daemon.request("GET", "/readyz")[0])
        found = row()
        for (group, key), path in files.items():
            line = f"[{group}] {key}: all users of this machine can read '{path}', which holds a "
            assert line in daemon.log() and line in found["why"] and f"run `chmod o= {path}`" in found["why"]
        assert found["state"] == "lacks"
        for path in files.values():
            os.chmod(path, 0o640)
        daemon.process.send_signal(signal.SIGHUP)
        wait_for(lambda: not row())
        assert daemon.log().count("all users of this machine can read") == len(files)
