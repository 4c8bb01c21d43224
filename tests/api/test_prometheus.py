# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus scrapes the API over TLS with a token."""
import json
import shutil
import subprocess
import urllib.parse
import urllib.request

import pytest
from settings import HANG_S
from tlsserver import TlsServer, loopback
from unixhttp import wait_for

CONFIG = """
global:
  scrape_interval: 1s
scrape_configs:
  - job_name: vgpud
    scheme: https
    authorization:
      credentials: reader-token
    tls_config:
      ca_file: {ca}
    static_configs:
      - targets: ["{address}"]
"""


@pytest.fixture
def prometheus(tmp_path, authority):
    """Asks a server whose VMs come and go; returns what asks Prometheus itself."""
    if not shutil.which("prometheus"):
        pytest.skip("prometheus is not installed")
    server = TlsServer(tmp_path, authority, "--vms", 200, "--churn", "--view-ms", 200)
    config = tmp_path / "prometheus.yml"
    config.write_text(CONFIG.format(ca=authority.certificate, address=f"{server.host}:{server.port}"))
    host, port = loopback()
    with open(tmp_path / "prometheus.log", "wb") as log:
        process = subprocess.Popen(["prometheus", f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'tsdb'}",
                                    f"--web.listen-address={host}:{port}"], stdout=log, stderr=log)

    def query(text):
        url = f"http://{host}:{port}/api/v1/query?" + urllib.parse.urlencode({"query": text})
        try:
            with urllib.request.urlopen(url, timeout=HANG_S) as answer:
                return json.load(answer)["data"]["result"]
        except OSError:
            assert process.poll() is None, (tmp_path / "prometheus.log").read_text()
            return []
    yield query
    process.terminate()
    process.wait(HANG_S)
    server.stop()


def growths(samples):
    """{time: by how much a counter has grown since the sample before}, as Prometheus takes it."""
    values = [(time, float(value)) for time, value in samples]
    return {now: new - old if new >= old else new for (_, old), (now, new) in zip(values, values[1:])}


def test_counters_while_vms_come_and_go(prometheus):
    """Between two scrapes no label grows by more than its VM waited, and what a VM lost to all is no more."""
    wait_for(lambda: (r := prometheus("sum_over_time(up[5m])")) and int(r[0]["value"][1]) >= 15)
    waited = {}
    for name in ("preempt", "wake_wait"):
        for series in prometheus(f"vgpud_vm_{name}_seconds_total[5m]"):
            own = waited.setdefault(series["metric"]["uuid"], {})
            for time, growth in growths(series["values"]).items():
                own[time] = own.get(time, 0) + growth
    lost, checked, per_vm = {}, 0, {}
    for series in prometheus("vgpud_vm_lost_seconds_total[5m]"):
        for time, growth in growths(series["values"]).items():
            # A VM whose first sample this is has no growth.
            if time in waited[series["metric"]["uuid"]]:
                key = series["metric"]["uuid"], time
                lost[key] = lost.get(key, 0) + growth
                checked += 1
        if series["metric"]["aggressor"] not in ("self", "host:user", "host:unknown"):
            per_vm.setdefault((series["metric"]["uuid"]), set()).add(series["metric"]["aggressor"])
        values = [float(value) for _, value in series["values"]]
        assert values == sorted(values), series["metric"]
    # Four aggressors of a VM have series, at most twice as many at any time, and the others together.
    assert all(len(who) <= 9 for who in per_vm.values()) and any("other" in who for who in per_vm.values())
    assert checked > 500 and len(waited) > 50
    assert all(grown <= waited[uuid][time] + 1e-6 for (uuid, time), grown in lost.items())
