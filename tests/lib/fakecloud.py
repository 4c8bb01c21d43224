# SPDX-License-Identifier: Apache-2.0
"""A Keystone and a nova that tests tell what to do. Their answers have the members that the Identity API
v3 and the Compute API reference give them; time goes by looks at the instance, not by a clock."""
import datetime
import http.server
import json
import re
import threading
import uuid

PROJECT = "6f70656e737461636b20342065766572"
SECRET = "s3cr3t-of-the-test"
DONE, FAILED, IN_ERROR = "completed", "error", "ERROR"


def iso(at):
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class Instance:
    """What nova knows of one; its live migration ends at the look number `looks` after it began."""

    def __init__(self, ident, host, node):
        self.id, self.host, self.node = ident, host, node
        self.status, self.task, self.fault = "ACTIVE", None, None
        self.migration = None
        self.migrations, self.actions = [], {}
        self.looks, self.seen, self.end = 3, 0, DONE
        self.details = "Exception"

    def begin(self, target, request):
        self.task, self.status, self.seen = "migrating", "MIGRATING", 0
        self.actions[request] = {"action": "live-migration", "message": None, "events": []}
        self.migration = {"id": 40 + len(self.migrations), "uuid": str(uuid.uuid4()), "status": "running",
                          "source_compute": self.host, "dest_compute": target, "request": request}
        self.migrations.append(self.migration)

    def finish(self, how):
        migration, self.migration = self.migration, None
        self.task, self.status = None, "ACTIVE"
        migration["status"] = "error" if how == IN_ERROR else how
        action = self.actions[migration["request"]]
        if how == DONE:
            self.host, self.node = migration["dest_compute"], migration["dest_compute"] + ".example"
        elif how == IN_ERROR:
            self.status, self.fault = "ERROR", {"code": 500, "created": iso(datetime.datetime.now()),
                                                "message": self.details}
        if how not in (DONE, "cancelled"):
            action["message"] = "Error"
            action["events"].append({"event": "conductor_live_migrate_instance", "result": "Error",
                                     "traceback": None, "details": self.details})

    def refuse(self, target, request):
        """As the conductor does when the scheduler finds no host."""
        self.migrations.append({"id": 40 + len(self.migrations), "uuid": str(uuid.uuid4()), "status": "error",
                                "source_compute": self.host, "dest_compute": target, "request": request})
        self.actions[request] = {"action": "live-migration", "message": "Error", "events": [
            {"event": "conductor_live_migrate_instance", "result": "Error", "traceback": None,
             "details": self.details}]}

    def look(self):
        if self.migration:
            self.seen += 1
            if self.looks is not None and self.seen >= self.looks:
                self.finish(self.end)

    def server(self):
        document = {"id": self.id, "name": "worker", "status": self.status, "tenant_id": PROJECT,
                    "OS-EXT-SRV-ATTR:host": self.host, "OS-EXT-SRV-ATTR:hypervisor_hostname": self.node,
                    "OS-EXT-SRV-ATTR:instance_name": "instance-0000002a", "OS-EXT-STS:task_state": self.task,
                    "OS-EXT-STS:vm_state": "error" if self.status == "ERROR" else "active",
                    "OS-EXT-STS:power_state": 1, "locked": False}
        if self.fault:
            document["fault"] = self.fault
        return document

    def running(self):
        if not self.migration:
            return []
        done = min(self.seen, 10) * 100 << 20
        return [{"id": self.migration["id"], "uuid": self.migration["uuid"], "status": self.migration["status"],
                 "server_uuid": self.id, "source_compute": self.migration["source_compute"],
                 "source_node": self.node, "dest_compute": self.migration["dest_compute"], "dest_node": None,
                 "dest_host": None, "memory_total_bytes": 1000 << 20, "memory_processed_bytes": done,
                 "memory_remaining_bytes": (1000 << 20) - done, "disk_total_bytes": None,
                 "disk_processed_bytes": None, "disk_remaining_bytes": None}]


class FakeCloud:
    """faults: a function of method and path that returns a status with a message instead of the answer,
    "hang" to say nothing, "deaf" to do it and say nothing, or None."""

    def __init__(self, instance, *others, address="127.0.0.1"):
        self.instance = instance
        self.instances = (instance, *others)
        self.versions = ("2.1", "2.96")
        self.life_s = 3600
        self.region = "RegionOne"
        self.password = SECRET
        self.tokens, self.asked = {}, []
        self.faults = lambda method, path: None
        self.on_migrate = lambda: None
        self.hypervisors = [("h1.example", "h1", "up", "enabled"), ("h2.example", "compute-two", "up", "enabled")]
        self.released = threading.Event()
        handler = type("Handler", (Handler,), {"cloud": self})
        self.http = http.server.ThreadingHTTPServer((address, 0), handler)
        self.http.daemon_threads = True
        self.url = "http://%s:%d" % (address, self.http.server_port)
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    def close(self):
        self.released.set()
        self.http.shutdown()
        self.http.server_close()

    def release(self):
        """Those who hang; others hang from then on."""
        self.released.set()
        self.released = threading.Event()

    def count(self, method, pattern):
        return sum(1 for m, path, _ in self.asked if m == method and re.fullmatch(pattern, path))

    def bodies(self, method, pattern):
        return [body for m, path, body in self.asked if m == method and re.fullmatch(pattern, path)]

    # ---- Keystone ----

    def log_in(self, body):
        identity = body["auth"]["identity"]
        if identity["methods"] == ["password"]:
            user = identity["password"]["user"]
            assert user["domain"] == {"name": "Default"} and "project" in body["auth"]["scope"], body
            good = user["name"] == "vgpud" and user["password"] == self.password
        else:
            assert identity["methods"] == ["application_credential"] and "scope" not in body["auth"], body
            given = identity["application_credential"]
            good = given == {"id": "credential-1", "secret": self.password}
        if not good:
            return 401, {"error": {"code": 401, "title": "Unauthorized",
                                   "message": "The request you have made requires authentication."}}, {}
        now = datetime.datetime.now(datetime.timezone.utc)
        token = "token-%d-%s" % (len(self.tokens), uuid.uuid4().hex)
        expires = now + datetime.timedelta(seconds=self.life_s)
        self.tokens[token] = expires
        endpoints = [{"id": uuid.uuid4().hex, "interface": interface, "region": region, "region_id": region,
                      "url": f"{self.url}/compute/v2.1/{PROJECT}" if (interface, region) == ("internal", self.region)
                      else "http://127.0.0.1:1/v2.1"}
                     for interface in ("public", "internal", "admin") for region in (self.region, "RegionTwo")]
        return 201, {"token": {"methods": identity["methods"], "issued_at": iso(now), "expires_at": iso(expires),
                               "user": {"name": "vgpud", "id": uuid.uuid4().hex}, "catalog": [
                                   {"type": "image", "name": "glance", "id": uuid.uuid4().hex, "endpoints": []},
                                   {"type": "compute", "name": "nova", "id": uuid.uuid4().hex,
                                    "endpoints": endpoints}]}}, {"X-Subject-Token": token}

    # ---- nova ----

    def version(self):
        low, high = self.versions
        return 200, {"version": {"id": "v2.1", "status": "CURRENT", "version": high, "min_version": low,
                                 "updated": "2013-07-23T11:33:21Z", "links": []}}, {}

    def migrate(self, instance, body, request):
        what = body["os-migrateLive"]
        assert set(what) == {"host", "block_migration"} and what["block_migration"] == "auto", body
        refused = self.on_migrate()
        if refused:
            return refused
        if what["host"] not in [host for _, host, _, _ in self.hypervisors]:
            return 400, {"badRequest": {"code": 400, "message": f"Compute host {what['host']} not found."}}, {}
        if instance.status not in ("ACTIVE", "PAUSED") or instance.task:
            return 409, {"conflictingRequest": {"code": 409, "message":
                f"Cannot 'os-migrateLive' instance {instance.id} while it is in task_state "
                f"{instance.task}"}}, {}
        instance.begin(what["host"], request)
        return 202, None, {}

    @staticmethod
    def abort(instance, ident):
        migration = instance.migration
        if not migration or migration["id"] != ident:
            return 404, {"itemNotFound": {"code": 404, "message": "Migration not found"}}, {}
        instance.finish("cancelled")
        return 202, None, {}

    @staticmethod
    def history(instance):
        return [{"id": m["id"], "uuid": m["uuid"], "status": m["status"], "instance_uuid": instance.id,
                 "source_compute": m["source_compute"], "dest_compute": m["dest_compute"],
                 "migration_type": "live-migration"} for m in reversed(instance.migrations)]

    def hypervisor_list(self, query):
        found = [{"id": str(uuid.uuid4()), "hypervisor_hostname": name, "state": state, "status": status,
                  "hypervisor_type": "QEMU", "service": {"host": host, "id": str(uuid.uuid4()),
                                                         "disabled_reason": None}}
                 for name, host, state, status in self.hypervisors
                 if query.get("hypervisor_hostname_pattern", "") in name]
        if not found:
            return 404, {"itemNotFound": {"code": 404, "message": "No hypervisor matching"}}, {}
        return 200, {"hypervisors": found}, {}

    def compute(self, method, path, query, body, request):
        if path == "/os-hypervisors/detail":
            return self.hypervisor_list(query)
        found = re.match(r"/servers/([^/]+)", path)
        wanted = found[1] if found else query.get("instance_uuid")
        instance = next((one for one in self.instances if one.id == wanted), None)
        if instance and path == "/os-migrations":
            return 200, {"migrations": self.history(instance)}, {}
        if not instance or not found:
            return 404, {"itemNotFound": {"code": 404, "message": "Instance could not be found."}}, {}
        rest = path[found.end():]
        if (method, rest) == ("GET", ""):
            instance.look()
            return 200, {"server": instance.server()}, {}
        if (method, rest) == ("POST", "/action"):
            return self.migrate(instance, body, request)
        if (method, rest) == ("GET", "/migrations"):
            return 200, {"migrations": instance.running()}, {}
        if method == "DELETE" and re.fullmatch(r"/migrations/\d+", rest):
            return self.abort(instance, int(rest.rsplit("/", 1)[1]))
        if (method, rest) == ("GET", "/os-instance-actions"):
            return 200, {"instanceActions": [{**action, "request_id": ident, "instance_uuid": instance.id}
                                             for ident, action in reversed(instance.actions.items())]}, {}
        action = re.fullmatch(r"/os-instance-actions/(req-\S+)", rest)
        if action and action[1] in instance.actions:
            return 200, {"instanceAction": {**instance.actions[action[1]], "request_id": action[1]}}, {}
        return 404, {"itemNotFound": {"code": 404, "message": "Not found"}}, {}

    def answer(self, method, path, query, headers, body):
        if (method, path) == ("POST", "/identity/v3/auth/tokens"):
            return self.log_in(body)
        expires = self.tokens.get(headers.get("X-Auth-Token"))
        if not expires or expires < datetime.datetime.now(datetime.timezone.utc):
            return 401, {"error": {"code": 401, "message": "The request you have made requires authentication."}}, {}
        if path == "/compute/v2.1/":
            return self.version()
        version = headers.get("OpenStack-API-Version", "")
        assert version == "compute " + headers.get("X-OpenStack-Nova-API-Version", ""), version
        minor = int(version.split(".")[1])
        assert int(self.versions[0][2:]) <= minor <= int(self.versions[1][2:]), version
        prefix = f"/compute/v2.1/{PROJECT}"
        assert path.startswith(prefix), path
        request = "req-" + str(uuid.uuid4())
        status, document, more = self.compute(method, path[len(prefix):], query, body, request)
        return status, document, {"x-openstack-request-id": request, **more}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    lock = threading.Lock()

    def log_message(self, *args):
        pass

    def handle_one(self):
        path, _, text = self.path.partition("?")
        query = dict(pair.split("=", 1) for pair in text.split("&") if pair)
        size = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(size)) if size else None
        short = path.replace(f"/compute/v2.1/{PROJECT}", "")
        fault = self.cloud.faults(self.command, short)
        with self.lock:
            self.cloud.asked.append((self.command, short, body))
            if fault == "hang":
                answer = None
            elif fault and fault != "deaf":
                answer = (fault[0], {"computeFault": {"code": fault[0], "message": fault[1]}}, {})
            else:
                answer = self.cloud.answer(self.command, path, query, self.headers, body)
        if fault in ("hang", "deaf"):
            self.cloud.released.wait()
            self.close_connection = True
            return
        self.reply(*answer)

    do_GET = do_POST = do_DELETE = handle_one

    def reply(self, status, document, headers):
        text = b"" if document is None else json.dumps(document).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if text:
            self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
