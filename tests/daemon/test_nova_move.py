# SPDX-License-Identifier: Apache-2.0
"""VMs that nova manages are moved by nova, or not at all: the real vgpud with libvirt's test driver, and a
Keystone and a nova that the test tells what to do."""
import http.client
import os
import shutil
import signal
import subprocess

import pytest
from fakecloud import FAILED, IN_ERROR, SECRET, FakeCloud, Instance
from novalab import GPU_UUID, QUICK, UUID, Source, Target
from settings import HANG_S, sample
from vgpud import wait_for

pytestmark = [pytest.mark.xdist_group("nova_move"),
              pytest.mark.skipif(not shutil.which("certtool"),
                                 reason="certtool (package gnutls-bin) is not installed")]

@pytest.fixture(name="target", scope="module")
def target_fixture(tmp_path_factory):
    target = Target(tmp_path_factory.mktemp("target"))
    yield target
    target.daemon.stop()


@pytest.fixture(name="cloud")
def cloud_fixture():
    cloud = FakeCloud(Instance(UUID, "h1", "h1.example"))
    yield cloud
    cloud.close()


@pytest.fixture(name="source")
def source_fixture(tmp_path, target, cloud):
    source = Source(tmp_path, target, cloud)
    yield source
    # Whatever happened: nobody was told a secret.
    assert SECRET not in source.daemon.log()
    assert not any(token in source.daemon.log() for token in cloud.tokens)
    if source.daemon.process.poll() is None:
        source.daemon.stop()


def end(source, state, place, *words):
    """What became of a move, for programs and for people."""
    move = source.ended(source.move())
    check(source, move, state, place, *words)
    return move


def check(source, move, state, place, *words):
    assert (move["state"], move["vm_on"]) == (state, place), move
    assert move["executor"] == "nova" and move["devices"] == []
    assert (move["cause"] is None) == (state == "done")
    shown = source.show(move["id"])
    for word in words:
        assert word in shown, shown


def verbs(move):
    return [step["verb"] for step in move["steps"]]


# ---- all goes well ----

def test_nova_moves_it(source, cloud):
    cloud.instance.looks = 6
    ident = source.move()
    progress = wait_for(lambda: (lambda m: m["progress"]["processed_bytes"] and m["progress"])(source.now(ident)))
    assert progress["total_bytes"] == 1000 << 20 and progress["elapsed_ns"] > 0
    move = source.ended(ident)
    check(source, move, "done", "target", "by nova", "vm-nova is on h2", "nova calls them 'h1' and 'compute-two'")
    assert (move["nova_from"], move["nova_to"]) == ("h1", "compute-two")
    assert verbs(move) == ["look", "precheck", "migrate", "verify"]
    assert cloud.bodies("POST", ".*/action") == [{"os-migrateLive": {"host": "compute-two",
                                                                     "block_migration": "auto"}}]
    # One token does for all of it.
    assert cloud.count("POST", "/identity/v3/auth/tokens") == 1
    assert cloud.instance.host == "compute-two"


def test_nova_does_not_answer_when_the_vm_has_arrived(source, cloud):
    """For a while: the move waits until nova says where the VM is."""
    refused = []

    def faults(method, _):
        if cloud.instance.host == "h1" or len(refused) == 5:
            return None
        refused.append(method)
        return 503, "The server is currently unavailable."
    cloud.faults = faults
    end(source, "done", "target")
    assert len(refused) == 5


def test_by_the_name_that_nova_gives_it(source, cloud):
    """Of two that have one, none is moved."""
    status, _, refused = source.daemon.post("/v1/migrations", {"vm": "old", "to": "h2"})
    assert status == 409 and "'vm-gpu', 'vm-old'" in refused["detail"], refused
    status, _, move = source.daemon.post("/v1/migrations", {"vm": "worker", "to": "h2"})
    assert status == 201 and (move["vm"], move["display_name"]) == ("vm-nova", "worker"), move
    move = source.ended(move["id"])
    assert move["state"] == "done" and cloud.instance.host == "compute-two"
    events = source.daemon.get("/v1/events?since=-1h&types=migration")["items"]
    assert {event["display_name"] for event in events if event["id"] == move["id"]} == {"worker"}
    assert "worker (vm-nova)" in source.ctl("migration", "list")
    assert "worker, vm-nova (" in source.ctl("migration", "show", move["id"])


def test_a_dry_run_asks_nova_and_changes_nothing(source, cloud):
    status, _, answer = source.ask(dry_run=True)
    assert (status, answer["problems"], answer["executor"]) == (200, [], "nova")
    assert [s["verb"] for s in answer["steps"]] == ["look", "precheck", "migrate", "verify"]
    assert "lets nova live-migrate the VM" in source.ctl("migrate", "vm-nova", "--to", "h2", "--dry-run")
    cloud.hypervisors[1] = ("h2.example", "compute-two", "down", "disabled")
    cloud.instance.task = "rebuilding"
    problems = source.ask(dry_run=True)[2]["problems"]
    assert problems == ["nova is busy with the instance (rebuilding)", "nova-compute on 'compute-two' is down",
                        "nova-compute on 'compute-two' is disabled"]
    cloud.versions = ("2.1", "2.29")
    [problem] = source.ask(dry_run=True)[2]["problems"]
    assert problem.startswith("nova is too old")
    assert cloud.count("POST", ".*/action") == 0


@pytest.mark.drawn("nova-move")
def test_what_nova_calls_the_target_can_be_configured(tmp_path, target, cloud):
    cloud.hypervisors[1] = ("other.example", "compute-9", "up", "enabled")
    source = Source(tmp_path, target, cloud, peer="[peer h2]\nnova_host=compute-9\n")
    move = end(source, "done", "target")
    assert move["nova_to"] == "compute-9"
    source.daemon.stop()


@pytest.mark.drawn("nova-move")
def test_who_vgpud_is_comes_from_clouds_yaml(tmp_path, target, cloud):
    clouds = tmp_path / "clouds.yaml"
    clouds.write_text(f"clouds:\n  other: {{}}\n  site:\n    auth_type: v3applicationcredential\n    auth:\n"
                      f"      auth_url: {cloud.url}/identity/v3/\n      application_credential_id: credential-1\n"
                      "    region_name: RegionOne\n    interface: internal\n")
    secure = tmp_path / "secure.yaml"
    secure.write_text(f"clouds:\n  site:\n    auth:\n      application_credential_secret: {SECRET}\n")
    for file in (clouds, secure):
        file.chmod(0o640)
    source = Source(tmp_path, target, cloud, nova=f"cloud=site\nclouds={clouds}\n{QUICK}")
    end(source, "done", "target")
    dump = subprocess.run([source.daemon.process.args[0], "-c", source.daemon.config_path, "--dump-config"],
                          capture_output=True, text=True, timeout=HANG_S, check=True).stdout
    assert f"clouds={clouds}" in dump and SECRET not in dump + source.daemon.log()
    source.daemon.stop()


# ---- tokens ----

@pytest.mark.drawn("nova-move")
def test_a_token_that_expires_on_the_way_is_renewed(source, cloud):
    cloud.life_s, cloud.instance.looks = 1, 20
    end(source, "done", "target")
    assert cloud.count("POST", "/identity/v3/auth/tokens") > 1


@pytest.mark.drawn("nova-move")
def test_a_token_that_is_taken_back_is_renewed(source, cloud):
    cloud.instance.looks = None
    ident = source.move()
    wait_for(lambda: cloud.instance.migration)
    cloud.tokens.clear()
    cloud.instance.looks = 3
    check(source, source.ended(ident), "done", "target")
    assert cloud.count("POST", "/identity/v3/auth/tokens") == 2


@pytest.mark.drawn("nova-move")
def test_a_wrong_password(source, cloud):
    cloud.password = "another"
    move = end(source, "failed", "source", "Keystone rejected vgpud's credentials (401)", "vm-nova is on h1")
    assert "migrate" not in verbs(move) and cloud.count("GET", "/servers/.*") == 0


# ---- nova does not do it ----

@pytest.mark.drawn("nova-move")
def test_a_user_without_the_role_admin(source, cloud):
    full = cloud.instance.server
    cloud.instance.server = lambda: {k: v for k, v in full().items() if "OS-EXT-SRV-ATTR" not in k}
    end(source, "failed", "source", "the user needs the role admin")


@pytest.mark.drawn("nova-move")
def test_nova_too_old(source, cloud):
    cloud.versions = ("2.1", "2.29")
    end(source, "failed", "source", "nova is too old: it supports microversions 2.1 to 2.29, and vgpud needs 2.30")
    assert cloud.count("POST", ".*/action") == 0


@pytest.mark.drawn("nova-move")
def test_the_oldest_nova_that_will_do(source, cloud):
    cloud.versions = ("2.1", "2.30")
    end(source, "done", "target")


@pytest.mark.drawn("nova-move")
def test_another_operation_came_in_between(source, cloud):
    cloud.on_migrate = lambda: (409, {"conflictingRequest": {"code": 409, "message":
        "Cannot 'os-migrateLive' instance while it is in task_state rebooting"}}, {})
    end(source, "rolled_back", "source",
        "migrate: nova answered 409: Cannot 'os-migrateLive' instance while it is in task_state rebooting")


@pytest.mark.drawn("nova-move")
def test_the_host_is_refused_at_once(source, cloud):
    cloud.on_migrate = lambda: (400, {"badRequest": {"code": 400, "message":
                                                     "Compute host compute-two not found."}}, {})
    end(source, "rolled_back", "source", "nova answered 400: Compute host compute-two not found.")


@pytest.mark.drawn("nova-move")
def test_the_scheduler_finds_the_host_unsuitable(source, cloud):
    cloud.instance.details = "No valid host was found. There are not enough hosts available."

    def refuse():
        cloud.instance.refuse("compute-two", "req-asynchronous")
        return 202, None, {}
    cloud.on_migrate = refuse
    end(source, "rolled_back", "source", "nova's migration 40 to 'compute-two' ended as 'error': No valid host was found.")


@pytest.mark.drawn("nova-move")
def test_the_migration_fails(source, cloud):
    cloud.instance.end, cloud.instance.details = FAILED, "Live migration timed out"
    end(source, "rolled_back", "source", "nova's migration 40 to 'compute-two' ended as 'error'",
        "Live migration timed out")


@pytest.mark.drawn("nova-move")
def test_the_instance_ends_in_error(source, cloud):
    cloud.instance.end, cloud.instance.details = IN_ERROR, "qemu unexpectedly closed the monitor"
    move = end(source, "failed", "unknown",
               "nova has put the instance on host 'h1' in state ERROR: qemu unexpectedly closed the monitor",
               "it is unknown whether vm-nova is on h1 or on h2")
    assert verbs(move) == ["look", "precheck", "migrate", "look"]


@pytest.mark.drawn("nova-move")
def test_the_instance_is_deleted_on_the_way(source, cloud):
    cloud.instance.looks = None
    ident = source.move()
    wait_for(lambda: cloud.instance.migration)
    cloud.instance.id = str(GPU_UUID)
    check(source, source.ended(ident), "failed", "nowhere", "nova no longer has this instance")


# ---- it is called off ----

@pytest.mark.drawn("nova-move")
def test_somebody_else_aborts_it(source, cloud):
    cloud.instance.looks = None
    ident = source.move()
    wait_for(lambda: cloud.instance.migration)
    cloud.abort(cloud.instance, 40)
    check(source, source.ended(ident), "rolled_back", "source",
          "another client has aborted nova's migration 40 to 'compute-two'")
    assert cloud.count("DELETE", ".*") == 0


def test_we_abort_it(source, cloud):
    cloud.instance.looks = None
    ident = source.move()
    wait_for(lambda: cloud.instance.migration)
    source.ctl("migration", "abort", ident)
    check(source, source.ended(ident), "aborted", "source", "it was aborted")
    assert cloud.count("DELETE", f"/servers/{UUID}/migrations/40") == 1
    assert cloud.instance.migrations[0]["status"] == "cancelled"


@pytest.mark.drawn("nova-move")
def test_nova_does_not_abort_it_at_every_moment(source, cloud):
    cloud.instance.looks = None
    refused = iter([(409, "It is queued"), (400, "It is preparing")])
    cloud.faults = lambda method, path: next(refused, None) if method == "DELETE" else None
    ident = source.move()
    wait_for(lambda: cloud.instance.migration)
    source.ctl("migration", "abort", ident)
    check(source, source.ended(ident), "aborted", "source", "it was aborted")
    assert cloud.count("DELETE", ".*") == 3


@pytest.mark.drawn("nova-move")
def test_its_time_is_up(tmp_path, target, cloud):
    cloud.instance.looks = None
    source = Source(tmp_path, target, cloud, actions="migrate_deadline=5s\n")
    end(source, "rolled_back", "source", "timed out while waiting for nova's migration")
    assert cloud.instance.migrations[0]["status"] == "cancelled"
    source.daemon.stop()


# ---- nova is silent ----

@pytest.mark.drawn("nova-move")
def test_nova_takes_the_request_up_and_does_not_answer(source, cloud):
    cloud.faults = lambda method, path: "deaf" if method == "POST" and path.endswith("/action") else None
    end(source, "done", "target")
    assert cloud.count("POST", ".*/action") == 1


@pytest.mark.drawn("nova-move")
def test_nova_does_not_answer_and_does_nothing(source, cloud):
    cloud.faults = lambda method, path: "hang" if method == "POST" and path.endswith("/action") else None
    end(source, "rolled_back", "source", "nova did not answer within 3 s; nova is not moving the instance")
    assert cloud.count("POST", ".*/action") == 1


@pytest.mark.drawn("nova-move")
def test_looks_that_fail_are_not_the_end(source, cloud):
    failing = {"left": 4}

    def faults(method, path):
        if method == "GET" and cloud.instance.migration and failing["left"]:
            failing["left"] -= 1
            return "hang" if failing["left"] == 2 else (503, "The server is busy")
        return None
    cloud.faults, cloud.instance.looks = faults, 5
    end(source, "done", "target")
    assert failing["left"] == 0


@pytest.mark.drawn("nova-move")
def test_nova_falls_silent_for_good_and_comes_back(tmp_path, target, cloud):
    cloud.instance.looks = None
    source = Source(tmp_path, target, cloud, actions="migrate_deadline=5s\n")
    ident = source.move()
    wait_for(lambda: cloud.instance.migration)
    cloud.faults = lambda method, path: (503, "The server is out")
    move = wait_for(lambda: (lambda m: m if "look" in verbs(m)[1:] else None)(source.now(ident)))
    assert "cannot ask nova to abort it: nova answered 503: The server is out" in move["cause"]
    assert not move["ended_ns"]
    # It went on meanwhile, and is over.
    cloud.instance.finish("completed")
    cloud.faults = lambda method, path: None
    check(source, source.ended(ident), "done", "target")
    source.daemon.stop()


# ---- vgpud ends ----

@pytest.mark.parametrize("how", sample("nova_move_ends", [signal.SIGKILL, signal.SIGTERM], 1))
def test_a_restart_does_not_end_it(source, cloud, how):
    cloud.instance.looks = None
    ident = source.move()
    wait_for(lambda: cloud.instance.migration)
    source.daemon.process.send_signal(how)
    source.daemon.process.wait(HANG_S)
    assert cloud.count("DELETE", ".*") == 0 and cloud.instance.migration
    source.start()
    wait_for(lambda: source.now(ident)["progress"]["total_bytes"])
    cloud.instance.looks = 1
    move = source.ended(ident)
    check(source, move, "done", "target")
    assert cloud.count("POST", ".*/action") == 1 and "migrate" in verbs(move)


# The move, then an intent and an outcome of look, precheck, migrate and verify.
@pytest.mark.parametrize("write", sample("nova_move_writes", range(1, 10), 2))
def test_vgpud_is_killed_after_a_write(source, cloud, write):
    source.daemon.stop()
    source.more = f"[fault]\nmove_writes={write}\n"
    source.start()
    source.more = ""
    try:
        source.ask()
    except (OSError, http.client.HTTPException):
        pass  # it died before it could answer
    assert source.daemon.process.wait(HANG_S) != 0
    source.start()
    move = source.ended(source.daemon.get("/v1/migrations?limit=1")["items"][0]["id"])
    # What nova was requested goes on; all else is as if nobody had asked.
    arrived = cloud.count("POST", ".*/action") == 1
    assert arrived == (write >= 7), (write, move)
    assert (move["state"], move["vm_on"]) == (("done", "target") if arrived else (
        "rolled_back" if "migrate" in verbs(move) else "failed", "source")), move
    assert cloud.instance.host == ("compute-two" if arrived else "h1")


@pytest.mark.drawn("nova-move")
def test_it_failed_while_vgpud_was_away(source, cloud):
    cloud.instance.looks = None
    ident = source.move()
    wait_for(lambda: cloud.instance.migration)
    source.daemon.kill()
    cloud.instance.finish(FAILED)
    source.start()
    check(source, source.ended(ident), "rolled_back", "source", "vgpud ended during the move (migrate)")
    assert cloud.count("POST", ".*/action") == 1


@pytest.mark.drawn("nova-move")
def test_it_is_aborted_after_a_restart(source, cloud):
    cloud.instance.looks = None
    ident = source.move()
    wait_for(lambda: cloud.instance.migration)
    source.daemon.kill()
    source.start()
    wait_for(lambda: source.now(ident)["progress"]["total_bytes"])
    source.ctl("migration", "abort", ident)
    check(source, source.ended(ident), "aborted", "source")
    assert cloud.count("DELETE", ".*") > 0


@pytest.mark.drawn("nova-move")
def test_the_credentials_are_gone_after_a_restart(source, cloud):
    cloud.instance.looks = None
    ident = source.move()
    wait_for(lambda: cloud.instance.migration)
    source.daemon.kill()
    source.config = source.config.split("[nova]")[0]
    source.start()
    check(source, source.ended(ident), "failed", "unknown", "vgpud ended during the move (migrate)",
          "nova is no longer configured")


# ---- what is refused ----

@pytest.mark.parametrize("vm", ["vm-nova", "vm-old"])
def test_without_nova_configured_it_is_refused(tmp_path, target, cloud, vm):
    source = Source(tmp_path, target, cloud, nova="")
    for more in ({}, {"dry_run": True}):
        status, _, problem = source.ask(vm, **more)
        assert status == 422 and "OpenStack manages" in problem["detail"] and "[nova]" in problem["detail"], problem
    assert source.daemon.get("/v1/migrations")["items"] == []
    source.daemon.stop()


def test_a_gpu_of_the_flavor_is_not_taken_off(source, cloud):
    for more in ({}, {"dry_run": True}):
        status, _, problem = source.ask("vm-gpu", **more)
        assert status == 422 and "comes from its flavor" in problem["detail"], problem
    assert cloud.asked == []


@pytest.mark.drawn("nova-move")
def test_nobody_listens_where_keystone_should_be(tmp_path, target, cloud):
    secret = tmp_path / "secret"
    secret.write_text(SECRET + "\n")
    secret.chmod(0o600)
    source = Source(tmp_path, target, cloud, nova="auth_url=http://127.0.0.1:1\napplication_credential_id=credential-1\n"
                    f"application_credential_secret_file={secret}\n{QUICK}")
    end(source, "failed", "source", "precheck: Keystone cannot be reached")
    [problem] = source.ask(dry_run=True)[2]["problems"]
    assert problem.startswith("Keystone cannot be reached")
    source.daemon.stop()


@pytest.mark.drawn("nova-move")
def test_nova_has_it_elsewhere(source, cloud):
    cloud.instance.host, cloud.instance.node = "h7", "h7.example"
    end(source, "failed", "source", "the VM is on 'h1', but nova reports it on 'h7'")


@pytest.mark.parametrize("what, words", [
    ("auth_url=http://127.0.0.1:1\n", "username"), ("username=x\n", "auth_url, the URL of Keystone, is missing"),
    ("auth_url=http://127.0.0.1:1\nusername=x\nproject_name=p\npassword_file={open}\n", "all users of this machine"),
    ("auth_url=ftp://x\nusername=x\nproject_name=p\npassword_file={closed}\n", "auth_url"),
    ("cloud=none\nclouds={yaml}\n", "it has no cloud 'none'"), ("cloud=lax\nclouds={yaml}\n", "verify"),
    ("cloud=half\nclouds={yaml}\n", "the user's password is missing"),
    ("cloud=half\nclouds={bad}\n", "line 3 is not YAML")])
def test_a_configuration_that_cannot_be(tmp_path, what, words):
    files = {"open": SECRET + "\n", "closed": SECRET + "\n", "bad": "clouds:\n  a: [\n",
             "yaml": "clouds:\n  lax: {verify: false}\n  half:\n    auth: {auth_url: 'http://x', username: y}\n"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o644 if name == "open" else 0o600)
    config = tmp_path / "vgpud.conf"
    config.write_text("[nova]\n" + what.format(**{name: tmp_path / name for name in files}))
    done = subprocess.run([os.environ.get("VGPUD", "build/vgpud"), "-c", config, "--check-config"], text=True,
                          capture_output=True, timeout=HANG_S, check=False)
    assert done.returncode != 0 and "[nova]" in done.stderr and words in done.stderr, done
    assert SECRET not in done.stdout + done.stderr
