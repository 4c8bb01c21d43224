# SPDX-License-Identifier: Apache-2.0
"""The filter and the weigher for nova's scheduler, against a vgpud that answers rightly: what it is
asked, and what is made of it."""
import os
import subprocess
import sys
import threading
import types

import novashim
import pytest
from fakevgpud import right
from novashim import HostState, Spec
from settings import HANG_S
from tlsserver import loopback

UUID = "11111111-2222-4333-8444-555555555555"


def spec(extra_specs=None, **fields):
    flavor = Spec(vcpus=4, memory_mb=8192, extra_specs=extra_specs or {})
    return Spec(**{"instance_uuid": UUID, "flavor": flavor, "num_instances": 1, **fields})


def states(n):
    return [HostState(number) for number in range(n)]


def veto_of(*numbers):
    """Scores as usual, with vetoes against these hosts."""
    def opinion(instance, host):
        answer = right(instance, host)
        if int(host["name"].rsplit("-", 1)[1]) in numbers:
            answer.update(verdict="veto", reason="no vGPU of this type is free")
        return answer
    return opinion


@pytest.mark.smoke
def test_vetoed_are_out_and_best_is_first_for_one_request(scheduler, fake):
    vgpud = fake(opinion=veto_of(3, 5))
    assert scheduler([vgpud.url]).schedule(states(6), spec()) == [
        ("node-4", 0.04), ("node-2", 0.02), ("node-1", 0.01), ("node-0", 0.0)]
    (path, asked), = vgpud.requests
    assert path == "/v1/nova/placement"
    assert asked == {
        "instance": {"uuid": UUID, "vcpus": 4, "memory_mb": 8192, "extra_specs": {}},
        "hosts": [{"name": f"node-{n}", "uuid": f"00000000-0000-4000-8000-{n:012d}"}
                  for n in range(6)]}


@pytest.mark.parametrize("extra_specs, sent", [
    ({"vgpud:class": "gpu", "vgpud:gpu_type": "nvidia-63", "resources:VGPU": "1"},) * 2,
    ({"resources:VGPU": "1", "resources2:VGPU": "2", "resources_a-b:VGPU": "4", "resources:VCPU": "8"},
     {"resources:VGPU": "1", "resources2:VGPU": "2", "resources_a-b:VGPU": "4"}),
    ({"trait:CUSTOM_NVIDIA_63": "required", "trait2:CUSTOM_A": "forbidden", "trait:HW_CPU_X86_AVX": "required"},
     {"trait:CUSTOM_NVIDIA_63": "required", "trait2:CUSTOM_A": "forbidden"}),
    # What no validator has seen: older microversions take any extra spec. vgpud leaves out what it cannot read.
    ({"vgpud:class": "GPU", "resources:VGPU": 7, "hw:cpu_policy": "x", "vgpud:klass": "gpu"},
     {"vgpud:class": "GPU", "resources:VGPU": "7"}),
])
def test_extra_specs_of_the_flavor(scheduler, fake, extra_specs, sent):
    """vgpud reads them itself; tests/daemon/test_host_gpus.py has what it makes of them."""
    vgpud = fake()
    scheduler([vgpud.url]).schedule(states(2), spec(extra_specs))
    assert vgpud.requests[0][1]["instance"] == {"uuid": UUID, "vcpus": 4, "memory_mb": 8192, "extra_specs": sent}


@pytest.mark.parametrize("fields", [
    {"scheduler_hints": {"_nova_check_type": ["rebuild"]}},
    {"force_hosts": ["short-1"]},
    {"force_nodes": ["node-1"]},
    {"requested_destination": Spec(host="short-1")},
    {"requested_destination": Spec(host="short-1", node="node-1")},
], ids=str)
def test_who_has_chosen_the_host_is_not_contradicted(scheduler, fake, fields):
    vgpud = fake(opinion=veto_of(0, 1))
    assert scheduler([vgpud.url]).schedule(states(2), spec(**fields)) == [
        ("node-0", 0.5), ("node-1", 0.5)]
    assert not vgpud.requests


@pytest.mark.parametrize("fields", [
    {"scheduler_hints": {"group": ["x"]}, "force_hosts": [], "force_nodes": None},
    # Of a cell or an aggregate: any host in it will do.
    {"requested_destination": Spec(cell="cell1", aggregates=["a"])},
    {"requested_destination": None, "ignore_hosts": ["short-7"]},
], ids=str)
def test_who_has_not_chosen_the_host_is_helped(scheduler, fake, fields):
    vgpud = fake(opinion=veto_of(0))
    assert scheduler([vgpud.url]).schedule(states(2), spec(**fields)) == [("node-1", 0.01)]


def test_unknown_and_outdated_hosts_are_neutral_and_pass(scheduler, fake):
    def opinion(_instance, host):
        return {"node-0": {"verdict": "pass", "score": 0.9, "age_ms": 59_000},
                "node-1": {"verdict": "unknown", "score": 0.5, "age_ms": None},
                "node-2": {"verdict": "veto", "score": 0.0, "age_ms": HANG_S * 2000},
                "node-3": {"verdict": "pass", "score": 0.1, "age_ms": None}}[host["name"]]
    vgpud = fake(opinion=opinion)
    assert scheduler([vgpud.url], stale_limit=HANG_S * 2).schedule(states(4), spec()) == [
        ("node-0", 0.9), ("node-1", 0.5), ("node-2", 0.5), ("node-3", 0.1)]


def test_scores_out_of_range_are_cut(scheduler, fake):
    def opinion(_instance, host):
        return {"verdict": "pass", "score": {"node-0": -3, "node-1": 7}[host["name"]]}
    assert scheduler([fake(opinion=opinion).url]).schedule(states(2), spec()) == [
        ("node-1", 1.0), ("node-0", 0.0)]


def test_several_instances_at_once_do_not_all_go_to_the_best_host(scheduler, fake):
    """As nova does it: each pick is consumed from its host state before the next."""
    def opinion(_instance, host):
        return {"verdict": "pass", "score": {"node-0": 0.9, "node-1": 0.8}[host["name"]]}
    vgpud = fake(opinion=opinion)
    nova = scheduler([vgpud.url])
    hosts, picks = states(2), []
    for index in range(5):
        request = spec(num_instances=5, instance_uuid=f"{index:08d}-2222-4333-8444-555555555555")
        name = nova.schedule(hosts, request, index)[0][0]
        picks.append(name)
        hosts[int(name[-1])].num_instances += 1
    # 4 of 64 CPUs are 0.0625: 0.9, 0.8375, 0.8, 0.775, 0.7375.
    assert picks == ["node-0", "node-0", "node-1", "node-0", "node-1"]
    assert len(vgpud.requests) == 1
    assert vgpud.requests[0][1]["instance"]["uuid"] is None


def test_move_of_one_of_several_tells_which(scheduler, fake):
    vgpud = fake()
    scheduler([vgpud.url]).schedule(states(2), spec(num_instances=5, ignore_hosts=["short-9"]))
    assert vgpud.requests[0][1]["instance"]["uuid"] == UUID


def test_aggregates_override_the_multiplier(scheduler, fake):
    hosts = states(3)
    hosts[1].aggregates = [types.SimpleNamespace(metadata={"vgpud_weight_multiplier": "10"})]
    # nova's own code logs what is no number; what else goes wrong must not reach it.
    hosts[2].aggregates = None
    assert scheduler([fake().url], weight_multiplier=2.0).schedule(hosts, spec()) == [
        ("node-1", pytest.approx(0.1)), ("node-2", pytest.approx(0.04)), ("node-0", 0.0)]


def test_without_the_multiplier_of_aggregates(scheduler, fake, monkeypatch):
    monkeypatch.delattr(sys.modules["nova.scheduler.utils"], "get_weight_multiplier")
    assert scheduler([fake().url], weight_multiplier=-1.0).schedule(states(2), spec()) == [
        ("node-0", 0.0), ("node-1", -0.01)]


def test_weigher_alone_and_filter_alone(scheduler, fake):
    vgpud = fake(opinion=veto_of(0))
    nova = scheduler([vgpud.url])
    assert novashim.schedule([], [nova.weigher], states(2), spec())[0] == ("node-1", 0.01)
    nova = scheduler([vgpud.url])
    assert novashim.schedule([nova.filter], [], states(2), spec()) == [("node-1", 0.0)]
    assert not nova.filter.host_passes(HostState(0), spec())
    assert nova.filter.host_passes(HostState(1), spec())


def test_another_request_is_another_question(scheduler, fake):
    vgpud = fake()
    nova = scheduler([vgpud.url])
    for request in (spec(), spec(), spec({"vgpud:class": "cpu"}), spec(instance_uuid=UUID[::-1])):
        nova.schedule(states(2), request)
    assert len(vgpud.requests) == 3
    # A host that the answer is not about.
    nova.schedule(states(3), spec())
    assert len(vgpud.requests) == 4


def test_answers_are_used_for_no_longer_than_told(scheduler, fake):
    vgpud = fake()
    nova = scheduler([vgpud.url], cache_ttl=0.0)
    nova.schedule(states(2), spec())
    nova.schedule(states(2), spec())
    assert len(vgpud.requests) == 4


def test_no_hosts(scheduler, fake):
    vgpud = fake()
    assert scheduler([vgpud.url]).schedule([], spec()) == []
    assert not vgpud.requests


def test_more_hosts_than_the_api_takes_at_once(scheduler, fake):
    vgpud = fake()
    weighed = scheduler([vgpud.url]).schedule(states(2001), spec())
    assert [len(asked["hosts"]) for _, asked in vgpud.requests] == [2000, 1]
    assert weighed[0] == ("node-99", 0.99) and len(weighed) == 2001
    assert vgpud.connections == 1


# ---- connections ----

def test_connections_are_kept_and_made_again(scheduler, fake, told):
    vgpud = fake()
    nova = scheduler([vgpud.url])
    for number in range(5):
        assert nova.schedule(states(2), spec({"resources:VGPU": number}))[0] == ("node-1", 0.01)
    assert vgpud.connections == 1
    vgpud.hang_up()
    for number in range(5, 9):
        assert nova.schedule(states(2), spec({"resources:VGPU": number}))[0] == ("node-1", 0.01)
    assert vgpud.connections == 2
    assert told() == [f"vgpud at {vgpud.url} answers"]


def test_threads(scheduler, fake):
    """Each gets what was answered to it."""
    def opinion(instance, host):
        return {"verdict": "pass", "score": (instance["vcpus"] + int(host["name"][5:])) / 1000}
    vgpud = fake(opinion=opinion)
    nova = scheduler([vgpud.url])
    wrong = []

    def work(first):
        for vcpus in range(first, first + 25):
            request = spec(flavor=Spec(vcpus=vcpus, memory_mb=1024, extra_specs={}))
            got = nova.schedule(states(3), request)
            if [weight for _, weight in got] != [(vcpus + n) / 1000 for n in (2, 1, 0)]:
                wrong.append((vcpus, got))
    threads = [threading.Thread(target=work, args=(1 + 25 * n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG_S)
    assert not wrong
    assert len(vgpud.requests) == 200
    assert vgpud.connections <= 8


def test_a_worker_leaves_its_parents_connections_alone(scheduler, fake):
    vgpud = fake()
    nova = scheduler([vgpud.url])
    nova.schedule(states(2), spec())
    pid = os.fork()
    if pid == 0:
        got = nova.schedule(states(2), spec({"vgpud:class": "cpu"}))
        os._exit(0 if got[0] == ("node-1", 0.01) else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert vgpud.connections == 2
    nova.schedule(states(2), spec({"vgpud:class": "gpu"}))
    assert vgpud.connections == 2


def test_tls_and_token(scheduler, fake, authority, tmp_path):
    host, port = loopback()
    vgpud = fake((host, port), token="first",
                 certificate=authority.issue("vgpud", f'ip_address = "{host}"'))
    token_file = tmp_path / "token"
    token_file.write_text("first\n")
    nova = scheduler([vgpud.url], cafile=authority.certificate, token_file=str(token_file))
    assert nova.schedule(states(2), spec())[0] == ("node-1", 0.01)
    # Nobody starts nova-scheduler again for a new token.
    vgpud.token = "second"
    token_file.write_text("second\n")
    assert nova.schedule(states(2), spec({"vgpud:class": "cpu"}))[0] == ("node-1", 0.01)
    assert vgpud.connections == 1
    assert [each["Authorization"] for each in vgpud.headers] == ["Bearer first", "Bearer second"]
    assert {each["Host"] for each in vgpud.headers} == {f"{host}:{port}"}


def test_no_more_than_python_is_needed():
    """Of this package's own modules only those that touch nova import something else."""
    script = ("import sys; from vgpud_nova import client, request; "
              "sys.exit(any(name.split('.')[0] in ('nova', 'eventlet', 'requests') "
              "or name.startswith('oslo') for name in sys.modules))")
    package = os.path.dirname(os.path.dirname(sys.modules["vgpud_nova"].__file__))
    subprocess.run([sys.executable, "-B", "-I", "-c",
                    f"import sys; sys.path.insert(0, {package!r}); {script}"],
                   check=True, timeout=HANG_S)


def test_an_endpoint_that_is_none_is_left_out(scheduler, fake, told):
    vgpud = fake()
    wrong = ["http://node-1:8447", "node-1", "https://", "https://u:p@node-1", "unix://run/sock",
             "https://node-1:99999", "https://node-1/v1"]
    assert scheduler([*wrong, vgpud.url]).schedule(states(2), spec())[0] == ("node-1", 0.01)
    assert len(told()) == len(wrong) + 1
    for url, line in zip(wrong, told()):
        assert "it is left out" in line and (url in line or "token_file" in line)
