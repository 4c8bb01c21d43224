# SPDX-License-Identifier: Apache-2.0
"""tests/tools/api-server on a TCP address with TLS."""
import http.client
import os
import ssl
from contextlib import closing

from ports import free_port
from settings import HANG_S
from unixhttp import Server


def loopback():
    """An address that no other process of a test uses, and a port on it."""
    pid = os.getpid()
    host = f"127.{1 + pid // 250 % 250}.{1 + pid % 250}.1"
    return host, free_port(host)


class TlsServer(Server):
    def __init__(self, directory, authority, *options):
        self.host, self.port = loopback()
        self.authority = authority
        certificate, key = authority.issue("server", f'ip_address = "{self.host}"')
        super().__init__(directory, "--listen", f"{self.host}:{self.port}", "--certificate",
                         certificate, "--key", key, *options)

    def connect_tls(self, client=None):
        context = ssl.create_default_context(cafile=self.authority.certificate)
        if client:
            context.load_cert_chain(*client)
        return http.client.HTTPSConnection(self.host, self.port, context=context, timeout=HANG_S)

    def over_tls(self, method, url, headers=None, body=None, client=None):
        with closing(self.connect_tls(client)) as connection:
            return self.request(method, url, body, headers, connection)
