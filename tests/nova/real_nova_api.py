# SPDX-License-Identifier: Apache-2.0
"""What test_nova_move_real.py runs in a process of its own with the packages of nova in PYTHONPATH: nova's
API, conductor and scheduler with two hosts of its fake driver and one instance, as nova's own functional
tests have them, on loopback, behind a Keystone of a few lines.

usage: real_nova_api.py DIRECTORY DRIVER API_PASTE [disabled]; writes DIRECTORY/ready, ends with DIRECTORY/stop"""
import nova.monkey_patch  # noqa: F401 (first, as nova-api does)

import datetime
import json
import os
import sys
import unittest

import eventlet
import eventlet.wsgi
from nova.tests.functional import integrated_helpers

DIRECTORY, DRIVER, PASTE = sys.argv[1:4]
TOKEN, PROJECT = "token-of-the-test", "6f70656e737461636b20342065766572"
AS_ADMIN = {"HTTP_X_AUTH_USER": "admin", "HTTP_X_USER_ID": "admin", "HTTP_X_AUTH_PROJECT_ID": PROJECT,
            "HTTP_X_PROJECT_ID": PROJECT, "HTTP_X_ROLES": "reader,member,admin"}


class Cloud(integrated_helpers.ProviderUsageBaseTestCase):
    compute_driver = DRIVER

    def setUp(self):
        self.flags(api_paste_config=PASTE, group="wsgi")
        super().setUp()

    def log_in(self, start):
        now = datetime.datetime.utcnow()
        endpoint = {"interface": "public", "region": "R", "region_id": "R", "url": self.url + "/v2.1"}
        start("201 Created", [("Content-Type", "application/json"), ("X-Subject-Token", TOKEN)])
        return [json.dumps({"token": {
            "issued_at": now.isoformat() + "Z", "expires_at": (now + datetime.timedelta(hours=1)).isoformat() + "Z",
            "catalog": [{"type": "compute", "endpoints": [endpoint]}]}}).encode()]

    def answer(self, environ, start):
        if environ["PATH_INFO"] == "/v3/auth/tokens":
            return self.log_in(start)
        if environ.get("HTTP_X_AUTH_TOKEN") != TOKEN:
            start("401 Unauthorized", [])
            return [b""]
        environ.update(AS_ADMIN)
        return self.api_fixture.app()(environ, start)

    def runTest(self):
        computes = [self._start_compute(host=host) for host in ("host1", "host2")]
        server = self._boot_and_check_allocations(self.api.get_flavors()[0], computes[0].host)
        if "disabled" in sys.argv:
            service = self.admin_api.get_services(binary="nova-compute", host="host2")[0]
            self.admin_api.put_service(service["id"], {"status": "disabled"})
        sock = eventlet.listen(("127.0.0.1", 0))
        self.url = "http://127.0.0.1:%d" % sock.getsockname()[1]
        with open(os.path.join(DIRECTORY, "wsgi"), "w", encoding="utf-8") as log:
            eventlet.spawn(eventlet.wsgi.server, sock, self.answer, log=log)
            with open(os.path.join(DIRECTORY, "ready.new"), "w", encoding="utf-8") as file:
                json.dump({"url": self.url, "id": server["id"]}, file)
            os.rename(os.path.join(DIRECTORY, "ready.new"), os.path.join(DIRECTORY, "ready"))
            while not os.path.exists(os.path.join(DIRECTORY, "stop")):
                eventlet.sleep(0.1)


sys.exit(not unittest.TextTestRunner().run(Cloud()).wasSuccessful())
