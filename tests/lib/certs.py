# SPDX-License-Identifier: Apache-2.0
"""Certificates for tests, made by GnuTLS's certtool."""
import os
import subprocess

from settings import HANG_S


class Authority:
    """A CA in a directory of its own; certificates are files beside it."""

    def __init__(self, directory, name="test CA", *lines):
        self.directory = str(directory)
        os.makedirs(self.directory, exist_ok=True)
        self.key = self.certtool("--generate-privkey", "--key-type", "ecdsa", out="ca.key")
        self.certificate = self.certtool("--generate-self-signed", "--load-privkey", self.key,
                                         template=[f'cn = "{name}"', "ca", "cert_signing_key",
                                                   *(lines or ["expiration_days = 30"])], out="ca.pem")

    def certtool(self, *args, out, template=None):
        path = os.path.join(self.directory, out)
        if template is not None:
            with open(path + ".tmpl", "w", encoding="utf-8") as file:
                file.write("\n".join(template) + "\n")
            args += ("--template", path + ".tmpl")
        done = subprocess.run(["certtool", *args, "--outfile", path], capture_output=True, text=True,
                              timeout=HANG_S, check=False)
        assert done.returncode == 0, done.stderr
        return path

    def issue(self, name, *lines, server=True, uses=None, file=None,
              kind="ecdsa"):
        """Certificate and key; lines are more of certtool's template, and uses replace what SERVER says."""
        file = file or name
        key = self.certtool("--generate-privkey", "--key-type", kind, out=file + ".key")
        if uses is None:
            uses = ["tls_www_server", "tls_www_client"] if server else ["tls_www_client"]
        usual = [] if any("activation" in line or "expiration" in line for line in lines) else [
            "expiration_days = 30"]
        certificate = self.certtool(
            "--generate-certificate", "--load-privkey", key, "--load-ca-certificate",
            self.certificate, "--load-ca-privkey", self.key, out=file + ".pem",
            template=[f'cn = "{name}"', *uses, *usual, *lines])
        return certificate, key
