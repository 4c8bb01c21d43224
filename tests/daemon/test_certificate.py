# SPDX-License-Identifier: Apache-2.0
"""The certificate is renewed while clients are connected; what cannot be taken leaves the old one."""
import http.client
import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import time
from contextlib import closing

import pytest
import vgpuctl
from certs import Authority
from settings import HANG_S
from tlsserver import loopback
from vgpud import LTTNG, Daemon, Events, wait_for

pytestmark = pytest.mark.skipif(not shutil.which("certtool"),
                                reason="certtool (package gnutls-bin) is not installed")


class Site:
    """A vgpud that shows a certificate, clients of it with a certificate of their own, and events of
    its configuration."""

    def __init__(self, directory):
        self.directory = directory
        self.host, self.port = loopback()
        self.ca = Authority(directory / "ca")
        self.client = self.ca.issue("seer", server=False)
        self.serials = {}
        self.config = "\n".join(["[api]", f"listen={self.host}:{self.port}",
                                 f"tls_certificate={directory}/shown.pem",
                                 f"tls_key={directory}/shown.key",
                                 f"tls_client_ca={self.ca.certificate}", ""])
        self.put("first")
        self.daemon = Daemon(directory, "--speed", "0.01", replay=LTTNG,
                             config=self.config + "[role reader]\nsubject=CN=seer\n")
        self.events = Events(self.daemon, "?types=config")

    def put(self, name):
        for path, end in zip(self.ca.issue(name, f'ip_address = "{self.host}"'), ("pem", "key")):
            shutil.copy(path, self.directory / f"shown.{end}")

    def reload(self):
        self.daemon.process.send_signal(signal.SIGHUP)
        return self.events.next()[2]

    def connect(self):
        """A connection that is there, and the name in the certificate that it was shown."""
        context = ssl.create_default_context(cafile=self.ca.certificate)
        context.load_cert_chain(*self.client)
        connection = http.client.HTTPSConnection(self.host, self.port, context=context, timeout=HANG_S)
        connection.connect()
        return connection, dict(sum(connection.sock.getpeercert()["subject"], ()))["commonName"]

    def shown(self):
        connection, name = self.connect()
        connection.close()
        return name


@pytest.fixture
def site(tmp_path):
    made = Site(tmp_path)
    with made.daemon:
        yield made


def status(connection):
    """Over the connection that there is: it is not opened again."""
    connection.auto_open = 0
    connection.request("GET", "/v1/host")
    response = connection.getresponse()
    response.read()
    return response.status


def test_open_connections_go_on(site):
    kept, name = site.connect()
    with closing(kept):
        assert (status(kept), name) == (200, "first")
        stream, _ = site.connect()
        with closing(stream):
            stream.request("GET", "/v1/events?types=config")
            lines = stream.getresponse()
            for turn in ("second", "third"):
                site.put(turn)
                assert site.reload()["taken"] is True
                while not (line := lines.readline()).startswith(b"data: "):
                    assert line, "the stream has ended"
                assert json.loads(line[len(b"data: "):])["taken"] is True
                assert status(kept) == 200
                assert site.shown() == turn
            lines.close()
    assert "the certificate remains unchanged" not in site.daemon.stop()


# name: what is done to the files (shown.pem and shown.key are a new pair before), and words of the
# message.
BROKEN = {
    "cut": (lambda site: os.truncate(site.directory / "shown.pem", 300), ["shown.pem", "not a PEM certificate chain"]),
    "empty": (lambda site: os.truncate(site.directory / "shown.pem", 0), ["shown.pem", "not a PEM certificate chain"]),
    "swapped": (lambda site: shutil.copy(site.directory / "shown.key", site.directory / "shown.pem"),
                ["shown.pem", "not a PEM certificate chain"]),
    "gone": (lambda site: os.unlink(site.directory / "shown.pem"), ["shown.pem", "No such file"]),
    "key cut": (lambda site: os.truncate(site.directory / "shown.key", 30), ["shown.key", "not an unencrypted PEM private key"]),
    "key gone": (lambda site: os.unlink(site.directory / "shown.key"), ["shown.key", "No such file"]),
    "key of another": (lambda site: shutil.copy(site.ca.key, site.directory / "shown.key"),
                       ["shown.key", "does not match the certificate", "shown.pem"]),
}


def test_what_is_broken_leaves_the_old_one(site):
    kept, _ = site.connect()
    with closing(kept):
        for name, (damage, words) in BROKEN.items():
            site.put("new")
            damage(site)
            before = len(site.daemon.log())
            # The rest of the configuration is taken, and what is not is told.
            told = site.reload()
            assert told["taken"] is False and "the certificate remains unchanged" in told["reason"]
            messages = [line for line in site.daemon.log()[before:].splitlines()
                        if "the certificate remains unchanged reason=" in line]
            assert len(messages) == 1, name
            for word in words:
                assert word in messages[0], (name, messages)
            assert status(kept) == 200 and site.shown() == "first", name
    site.put("mended")
    assert site.reload()["taken"] is True
    assert site.shown() == "mended"
    site.daemon.stop()


def test_the_end_is_told(site):
    """By /metrics, the log at each reload, and doctor; of a certificate that is good for long, nothing is."""
    def look(name, *lines):
        before = len(site.daemon.log())
        for path, end in zip(site.ca.issue(name, f'ip_address = "{site.host}"', *lines), ("pem", "key")):
            shutil.copy(path, site.directory / f"shown.{end}")
        assert site.reload()["taken"] is True
        metrics = site.daemon.request("GET", "/metrics")[2].decode()
        end = float(re.search(r"^vgpud_tls_certificate_expiry_timestamp_seconds (\S+)$", metrics, re.M)[1])
        done = subprocess.run([vgpuctl.program(), "doctor", "--socket", site.daemon.socket, "-o", "json"],
                              capture_output=True, text=True, timeout=HANG_S, check=False)
        check, = (c for c in json.loads(done.stdout)["checks"] if c["what"] == "certificate")
        told = [line for line in site.daemon.log()[before:].splitlines() if "the certificate " in line]
        return (end - time.time()) / 86400, check, told

    # The one of the fixture is good for 30 days at most.
    wait_for(lambda: "the certificate expires soon" in site.daemon.log())
    days, check, told = look("long", "expiration_days = 90")
    assert 89 < days <= 90 and check["state"] == "ok" and not told
    days, check, told = look("short", "expiration_days = 3")
    assert 2 < days <= 3 and check["state"] == "lacks" and "in 2 days" in check["why"]
    assert len(told) == 1 and "expires soon" in told[0] and "shown.pem" in told[0]
    days, check, told = look("over", 'activation_date = "2020-01-01 00:00:00"', 'expiration_date = "2020-06-01 00:00:00"')
    assert days < -365 and check["state"] == "broken" and "expired at 2020-06-0" in check["why"]
    assert len(told) == 1 and "has expired" in told[0]
    site.daemon.stop()


def test_a_role_that_is_taken_away_is_gone_for_open_connections(site):
    kept, _ = site.connect()
    with closing(kept):
        assert status(kept) == 200
        stream, _ = site.connect()
        stream.request("GET", "/v1/events?types=config")
        answer = stream.getresponse()
        site.daemon.write_config(site.config)
        assert site.reload()["taken"] is True
        assert status(kept) == 401
        assert b"event:" not in answer.read()
        stream.close()
        site.daemon.write_config(site.config + "[role operator]\nsubject=CN=seer\n")
        assert site.reload()["taken"] is True
        assert status(kept) == 200
    site.daemon.stop()
