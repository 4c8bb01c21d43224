# SPDX-License-Identifier: Apache-2.0
"""The configuration of vgpud: what is wrong with a file is told, files add up, dumps read back."""
import os
import re
import shutil
import subprocess
import tempfile

import pytest

import vgpuctl
from settings import HANG_S, sample

CONFIGS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "configs")
NOBODY = 65534

# File of CONFIGS: what the message must say, besides the file's name.
BROKEN = {
    "alert-command-open-quote": ["[alerts] command", "quot"],
    "alert-command-relative": ["[alerts] command", "'mail'", "absolute"],
    "alert-without-limit": [":2: [alert web]", "the threshold, is missing"],
    "hosts-without-match": [":1: [hosts gpu]", "match, the names of the group's hosts, is missing"],
    "alias-of-no-event": ["[tracepoints]", "alias", "'sched_switch'", "not a supported GPU event"],
    "bad-escape": ["[daemon]", "host_name", "unknown escape sequence"],
    "card-without-device": ["[gpu] cards", "'10de'", "VENDOR:DEVICE"],
    "comment-behind-a-value": ["[store]", "lost_top", "'4 # the default'", "whole number"],
    "cpus-reversed": ["[daemon] cpus", "'3-0'", "0-3,8"],
    "days-get-less": ["[store]", "raw_days", "minute_days", "31, 30, 400", "must not decrease"],
    "directory-relative": ["[store]", "directory", "'vgpud'", "absolute"],
    "endless": ["[libvirt]", "poll", "'inf'", "duration like 30s"],
    "fraction": ["[api]", "streams", "'1.5'", "whole number"],
    "key-of-another-group": ["[daemon]", "unknown key 'socket'"],
    "leave-above-enter": ["[score]", "cpu_leave", "cpu_enter", "0.4", "0.3"],
    "lttng-create-a-named-one": ["[lttng] url", "names a session", "net://RELAY[:PORT]"],
    "lttng-create-elsewhere": ["[lttng] create", "host=other"],
    "lttng-create-nowhere": ["[lttng] create", "url", "net://HOST[:PORT]"],
    "lttng-no-session": ["[lttng] url", "names no session", "net://RELAY[:PORT]/host/HOST/SESSION"],
    "lttng-timer-above-lag": ["[lttng] timer_us", "1000001", "lag"],
    "lttng-two-hosts": ["[live] use", "[lttng] url", "'no-such-host'"],
    "lttng-url": ["[lttng] url", "'localhost:5344/host/h/s'",
                  "net://RELAY[:PORT]/host/HOST/SESSION"],
    "mode-in-letters": ["[api]", "socket_mode", "'rw--'", "octal", "0660"],
    "mode-too-large": ["[api]", "socket_mode", "'1777'", "octal"],
    "no-equals-sign": ["'log_level info'", "not a key-value pair"],
    "no-group": ["does not start with a group"],
    "no-number": ["[api]", "connections", "'many'", "whole number"],
    "number-too-large": ["[api]", "body_max", "99999999999999999999", "256 to 16777216"],
    "number-too-small": ["[api]", "connections", "'3'", "4 to 4096"],
    "number-with-a-unit": ["[store]", "raw_days", "'2 days'", "whole number"],
    "provider-relative": ["[trace]", "provider", "'tracer.so'", "absolute"],
    "proxy-address": [":2: [proxy web]", "'192.168.122.1:7000'", "tcp:HOST:PORT"],
    "proxy-without-token": [":2: [proxy web]", "token_file is missing"],
    "socket-empty": ["[api]", "socket", "''", "1 to 107 bytes"],
    "socket-relative": ["[api]", "socket", "'run/vgpud.sock'", "absolute"],
    "socket-too-long": ["[api]", "socket", "1 to 107 bytes"],
    "translated-key": ["[daemon]", "unknown key 'host_name[de]'"],
    "unknown-fault": ["[fault]", "windows", "'hang'", "silence"],
    "unknown-group": ["unknown group [dameon]"],
    "unknown-key": ["[store]", "unknown key 'raw_day'"],
    "unknown-level": ["[daemon]", "log_level", "'warning'", "err, warn, notice, info, debug"],
    "unknown-rule": ["[policy]", "rule", "'fastest'", "complement, paper-threshold"],
    "unknown-unit": ["[daemon]", "window", "'1sec'", "duration like 30s"],
    "window-too-short": ["[daemon]", "window", "'99ms'", "0.1s to 60s"],
    "word-in-capitals": ["[libvirt]", "use", "'Yes'", "auto, yes, no"],
}


def program():
    """$VGPUD, or the vgpud beside the vgpuctl under test."""
    return os.environ.get("VGPUD") or os.path.join(os.path.dirname(vgpuctl.program()), "vgpud")


def run(*args, code=0, **options):
    done = subprocess.run([program(), *map(str, args)], capture_output=True, text=True,
                          timeout=HANG_S, **options)
    assert done.returncode == code, (done.returncode, done.stderr, done.stdout[:500])
    return done


def refused(path, **options):
    """What --check-config says is wrong with the file."""
    done = run("--check-config", "-c", path, code=1, **options)
    assert done.stdout == ""
    assert done.stderr.startswith("vgpud: ") and done.stderr.count("\n") == 1, done.stderr
    assert str(path) in done.stderr
    return done.stderr


def dump(path):
    """{"group.key": value} that is in force."""
    values, group = {}, None
    for line in run("--dump-config", "-c", path).stdout.splitlines():
        if line.startswith("["):
            group = line[1:-1]
        elif line and not line.startswith("#"):
            key, _, value = line.partition("=")
            values[f"{group}.{key}"] = value
    return values


@pytest.fixture
def conf(tmp_path):
    """Writes vgpud.conf and files of conf.d; returns the path of the first."""
    def write(text, **more):
        (tmp_path / "vgpud.conf").write_text(text)
        for name, content in more.items():
            (tmp_path / "conf.d").mkdir(exist_ok=True)
            (tmp_path / "conf.d" / f"{name}.conf").write_text(content)
        return tmp_path / "vgpud.conf"
    return write


# ---- broken files ----

def test_every_broken_file_has_a_case():
    assert {f"{name}.conf" for name in BROKEN} == set(os.listdir(CONFIGS))


@pytest.mark.parametrize("name", sample("broken files", sorted(BROKEN), 25))
def test_broken_file_is_refused_with_file_group_key_and_reason(name):
    message = refused(os.path.join(CONFIGS, f"{name}.conf"))
    for word in BROKEN[name]:
        assert word in message


def test_vgpud_does_not_start_with_a_broken_file(tmp_path):
    done = run("-c", os.path.join(CONFIGS, "unknown-key.conf"), "--state-dir", tmp_path / "store",
               "--socket", tmp_path / "sock", code=1)
    assert "raw_day" in done.stderr
    assert list(tmp_path.iterdir()) == []


def mistakes(path):
    """What --check-config says, a mistake a line, without the directory of the file."""
    done = run("--check-config", "-c", path, code=1)
    assert done.stdout == ""
    return [line.removeprefix("vgpud: ").replace(f"{path.parent}/", "")
            for line in done.stderr.splitlines()]


def test_all_mistakes_are_told_with_file_and_line(conf):
    path = conf("[api]\nconnections=many\nsocket_mode=999\n[store]\nraw_days=40\n[dameon]\n",
                a="[store]\n\nminute_days=35\nlost_topp=4\n",
                b="[policy]\nrule=fastest\n[score]\ncpu_leave=0.9\ngpu_leave=0.9\n")
    assert mistakes(path) == [
        "vgpud.conf:2: [api] connections: 'many' is not a whole number",
        "vgpud.conf:6: unknown group [dameon]",
        "conf.d/a.conf:4: unknown key 'lost_topp' in [store]",
        "conf.d/b.conf:2: [policy] rule: 'fastest' is not one of: complement, paper-threshold",
        "vgpud.conf:3: [api] socket_mode: '999' is not octal permissions like 0660",
        "vgpud.conf:5, conf.d/a.conf:3: [store] raw_days, minute_days, hour_days: 40, 35, 400 must "
        "not decrease: sums are stored at least as long as their parts",
        "conf.d/b.conf:4: [score] cpu_leave: 0.9 must not be above cpu_enter, which is 0.3",
        "conf.d/b.conf:5: [score] gpu_leave: 0.9 must not be above gpu_enter, which is 0.3"]


def test_what_is_quoted_begins_no_line(conf, tmp_path):
    assert "'a?b'" in refused(conf("[store]\nlost_top=a\\nb\n"))
    assert run("--check-config", "-c", tmp_path / "a\nb", code=1).stderr.count("\n") == 1


def test_what_follows_from_a_mistake_is_not_told_beside_it(conf):
    assert mistakes(conf("[store]\nraw_days=40\nminute_days=5x\n")) == [
        "vgpud.conf:3: [store] minute_days: '5x' is not a whole number"]


@pytest.mark.parametrize("text, words", [
    ("[live]\nbpf=no\nperf=no\nprocfs=no\n", ["vgpud.conf:2, ", "vgpud.conf:4: [live]",
                                              "no source is left"]),
    ("[api]\nsocket_group=no-such-group\n", ["vgpud.conf:2: [api] socket_group", "no-such-group"]),
    ("[daemon]\ncpus=8190-8191\n", ["vgpud.conf:2: [daemon] cpus: none of the CPUs '8190-8191' is online"])])
def test_what_vgpud_does_not_start_with_is_not_good(conf, tmp_path, text, words):
    path = conf(text)
    message = refused(path)
    started = run("-c", path, "--state-dir", tmp_path / "store", "--socket", tmp_path / "sock",
                  code=1)
    assert started.stderr == message
    for word in words:
        assert word in message


TLS = "[api]\ntls_certificate=/c.pem\ntls_key=/k.pem\nlisten="


@pytest.mark.parametrize("address", [
    "localhost:8447", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:8447x", "127.0.0.1:0", "127.0.0.1:65536",
    "127.0.0.1:84985", "127.0.0.1:4294975743", "127.0.0.1:-1", "127.0.0.1:+8447", "127.1:8447", "0x7f000001:8447",
    "::1:8447", "[::1", "[::1]", "[::1]:65536", "[localhost]:8447", ":8447", "[]:8447"])
def test_what_is_no_address_is_refused(conf, address):
    message = refused(conf(TLS + address))
    assert f"vgpud.conf:4: [api] listen: '{address}' is not an IP address with a port from 1 to 65535" in message


@pytest.mark.parametrize("addresses", [
    "127.0.0.1:8447 127.0.0.1:8447", "127.0.0.1:8447 0.0.0.0:8447", "0.0.0.0:8447 127.0.0.1:8447", "[::1]:1 [0::1]:1",
    "[::1]:65535 127.0.0.1:65535 [::]:65535"])
def test_addresses_that_exclude_each_other_are_refused(conf, addresses):
    assert "need the same port of the same address" in refused(conf(TLS + addresses))


@pytest.mark.parametrize("addresses", [
    "", "127.0.0.1:1", "127.0.0.1:65535", "[::]:8447 0.0.0.0:8447", "127.0.0.1:8447 127.0.0.2:8447", "[::1]:8447 [::]:8448"])
def test_addresses_that_go_together_are_taken(conf, addresses):
    run("--check-config", "-c", conf(TLS + addresses))


@pytest.mark.parametrize("role", ["admin", "operator", "reader"])
def test_a_peer_has_no_other_role(conf, role):
    path = conf(f"[role peer]\nsubject=CN=b; CN=a\n[role {role}]\nsubject=CN=c;CN=a ;\n")
    warning = f"[role peer] subject and [role {role}] subject both contain 'CN=a', which is only a peer"
    assert warning in run("--check-config", "-c", path).stderr
    other = run("--check-config", "-c", conf(f"[role peer]\nsubject=;CN=b; \n[role {role}]\nsubject=CN=c;;CN=a ;\n"))
    assert "both contain" not in other.stderr


def test_a_subject_of_several_other_roles_is_taken(conf):
    run("--check-config", "-c", conf("[role admin]\nsubject=CN=a\n[role reader]\nsubject=CN=a\n"))


def test_socket_of_the_command_line_is_looked_at(tmp_path):
    done = run("--check-config", "-c", "/dev/null", "--socket", tmp_path / ("x" * 108), code=1)
    assert "--socket" in done.stderr and "107 bytes" in done.stderr


def test_missing_file(tmp_path):
    assert "No such file" in refused(tmp_path / "vgpud.conf")


def test_directory(tmp_path):
    assert "directory" in refused(tmp_path)


def test_unreadable_file(conf):
    path = conf("[daemon]\n")
    path.chmod(0)
    if os.geteuid() != 0:
        assert "Permission denied" in refused(path)
        return
    # As somebody for whom modes count, who must reach program and file.
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        ours = shutil.copy(program(), directory)
        theirs = shutil.move(path, directory)
        done = subprocess.run([ours, "--check-config", "-c", theirs], capture_output=True,
                              text=True, timeout=HANG_S, user=NOBODY, extra_groups=[])
    assert done.returncode == 1
    assert "Permission denied" in done.stderr and theirs in done.stderr


@pytest.mark.parametrize("text", [b"[daemon]\nhost_name=\xff\n", b"[daemon]\nhost_name=a\0b\n",
                                  b"\xef\xbb\xbf[daemon]\nhost_name=\xc3\n"])
def test_not_utf8(tmp_path, text):
    (tmp_path / "vgpud.conf").write_bytes(text)
    assert "UTF-8" in refused(tmp_path / "vgpud.conf")


def test_size_limit(conf):
    limit = 1024 * 1024
    line = "# filled up\n"
    text = line * (limit // len(line)) + "#" * (limit % len(line))
    run("--check-config", "-c", conf(text))
    assert "1048577 bytes, more than 1048576" in refused(conf(text + "#"))


# ---- files that add up ----

def test_empty_file_has_the_defaults(conf):
    assert dump(conf("")) == dump("/dev/null")


def test_later_files_of_conf_d_win_key_by_key(conf):
    defaults = dump("/dev/null")
    merged = dump(conf("[store]\nraw_days=3\nlost_top=5\n[daemon]\nhost_name=main\n",
                       b10="[store]\nraw_days=4\n[api]\nstreams=7\n",
                       b9="[store]\nraw_days=6\n",
                       a="[store]\nraw_days=5\n[policy]\nhold=2min\n"))
    changed = {key: merged[key] for key in merged if merged[key] != defaults[key]}
    assert changed == {"store.raw_days": "6", "store.lost_top": "5", "daemon.host_name": "main",
                       "api.streams": "7", "policy.hold": "2min"}


def test_only_visible_conf_files_of_conf_d_are_read(conf):
    path = conf("[daemon]\nhost_name=main\n", good="[api]\nstreams=7\n")
    for name in (".hidden.conf", "good.conf.bak", "readme"):
        (path.parent / "conf.d" / name).write_text("not a key\n")
    assert dump(path)["api.streams"] == "7"


def test_error_in_conf_d_names_that_file(conf):
    path = conf("[daemon]\nhost_name=main\n", bad="[api]\nstreams=seven\n")
    done = run("--check-config", "-c", path, code=1)
    for word in ("conf.d/bad.conf", "[api]", "streams", "'seven'"):
        assert word in done.stderr


def test_contradiction_between_files_is_seen(conf):
    path = conf("[store]\nminute_days=10\n", more="[store]\nraw_days=11\n")
    message = refused(path)
    assert "conf.d" in message and "11, 10, 400" in message


def test_contradiction_that_a_later_file_ends_is_none(conf):
    run("--check-config", "-c", conf("[store]\nraw_days=40\n", more="[store]\nminute_days=50\n"))


def test_last_of_two_lines_and_of_two_groups_counts(conf):
    values = dump(conf("[store]\nraw_days=3\nraw_days=4\n[api]\nstreams=1\n[store]\nlost_top=9\n"))
    assert (values["store.raw_days"], values["store.lost_top"]) == ("4", "9")


# ---- what is good ----

@pytest.mark.smoke
def test_dump_is_accepted_and_dumps_the_same(tmp_path):
    first = run("--dump-config", "-c", "/dev/null").stdout
    (tmp_path / "vgpud.conf").write_text(first)
    run("--check-config", "-c", tmp_path / "vgpud.conf")
    assert run("--dump-config", "-c", tmp_path / "vgpud.conf").stdout == first


def test_changed_dump_reads_back(conf, tmp_path):
    text = ("[daemon]\nhost_name=b\\sc ä\nwindow=250ms\nlog_level=debug\n"
            "[api]\nsocket_mode=600\n[libvirt]\nuri=test:///default\nuse=no\n"
            "[policy]\nmin_gain=0.125\n")
    path = conf(text)
    again = tmp_path / "again.conf"
    again.write_text(run("--dump-config", "-c", path).stdout)
    assert dump(again) == dump(path)
    assert dump(path)["daemon.window"] == "250ms"


def test_example_is_good_and_shows_the_defaults(tmp_path):
    """What the example has in comments is the default: with the '#' taken away nothing changes."""
    example = os.path.join(vgpuctl.ROOT, "data", "vgpud.conf")
    assert "valid" in run("--check-config", "-c", example).stdout
    assert dump(example) == dump("/dev/null")
    with open(example, encoding="utf-8") as file:
        text = re.sub(r"^#([a-z_]+=)", r"\1", file.read(), flags=re.M)
    assert len(re.findall(r"^[a-z_]+=", text, flags=re.M)) > 8
    (tmp_path / "vgpud.conf").write_text(text)
    assert dump(tmp_path / "vgpud.conf") == dump("/dev/null")


@pytest.mark.parametrize("text, key, value", [
    ("[daemon]\nwindow=60\n", "daemon.window", "1min"),
    ("[daemon]\nwindow=0.1\n", "daemon.window", "100ms"),
    ("[daemon]\nwindow= 1500 ms \n", "daemon.window", "1500ms"),
    ("[daemon]\nthread_limit=1h\n", "daemon.thread_limit", "1h"),
    ("[api]\nconnections=4\n", "api.connections", "4"),
    ("[api]\nconnections=4096\n", "api.connections", "4096"),
    ("[api]\nsocket=/" + "x" * 106 + "\n", "api.socket", "/" + "x" * 106),
    ("[libvirt]\npoll=1d\n", "libvirt.poll", "1d"),
])
def test_values_at_the_limits_and_in_other_units(conf, text, key, value):
    assert dump(conf(text))[key] == value


def test_log_level_of_the_command_line_wins(conf):
    path = conf("[daemon]\nlog_level=err\nhost_name=a\n")
    out = run("--dump-config", "-c", path, "--log-level", "debug", "--host", "b").stdout
    assert "\nlog_level=debug\n" in out and "\nhost_name=b\n" in out


# ---- the command line ----

@pytest.mark.parametrize("args", [["--speed", "2"], ["--until-end"], ["--vm-map", "x"], ["x"],
                                  ["--log-level", "warning"], ["--host", ""],
                                  ["--replay", "x", "--speed", "0"],
                                  ["--replay", "x", "--speed", "fast"], ["--no-such-option"]])
def test_wrong_usage_ends_with_2(args):
    done = run(*args, code=2)
    assert done.stdout == "" and "vgpud" in done.stderr
