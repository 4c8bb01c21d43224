# SPDX-License-Identifier: Apache-2.0
"""What test_nova_real.py runs in a process of its own with the packages of nova in PYTHONPATH: the
scheduler of nova with 500 hosts, the filter and weigher loaded by configuration.

usage: real_nova.py CASE NOVA_CONF; prints JSON."""
import nova.monkey_patch  # noqa: F401 (first, as nova-scheduler does)

import json
import logging
import sys
import time
from unittest import mock

import eventlet
import eventlet.patcher
import nova.conf
from nova import context, objects
from nova.api.validation.extra_specs import validators
from nova.compute import monitors  # noqa: F401
from nova.scheduler import host_manager, manager, utils
from oslo_utils.fixture import uuidsentinel as uuids

CONF = nova.conf.CONF
HOSTS = 500


def uuid_of(number):
    return f"00000000-0000-4000-8000-{number:012d}"


def host_state(number):
    state = host_manager.HostState(f"short-{number}", f"node-{number}", uuids.cell)
    state.uuid = uuid_of(number)
    state.hypervisor_hostname = f"node-{number}"
    state.total_usable_ram_mb = 262144
    state.free_ram_mb = 131072
    state.free_disk_mb = state.disk_mb_used = 1 << 20
    state.vcpus_total, state.vcpus_used = 64, 8
    state.cpu_allocation_ratio, state.ram_allocation_ratio, state.disk_allocation_ratio = 4.0, 1.0, 1.0
    state.metrics = objects.MonitorMetricList(objects=[])
    state.instances, state.aggregates = {}, []
    state.num_instances = state.num_io_ops = state.failed_builds = 0
    return state


def request_spec(**fields):
    extra_specs = fields.pop("extra_specs", {})
    flavor = objects.Flavor(id=1, name="g1", flavorid="g1", vcpus=4, memory_mb=8192, root_gb=10,
                            ephemeral_gb=0, swap=0, extra_specs=extra_specs, is_public=True,
                            disabled=False, rxtx_factor=1.0, vcpu_weight=0)
    usual = {
        "flavor": flavor, "instance_uuid": uuids.instance, "num_instances": 1,
        "image": objects.ImageMeta(properties=objects.ImageMetaProps()), "project_id": "p",
        "user_id": "u", "ignore_hosts": None, "force_hosts": None, "force_nodes": None,
        "requested_destination": None, "retry": None, "scheduler_hints": {}, "instance_group": None,
        "limits": objects.SchedulerLimits(), "numa_topology": None, "availability_zone": None,
        "pci_requests": objects.InstancePCIRequests(requests=[]), "is_bfv": False,
        "requested_resources": [], "request_level_params": objects.RequestLevelParams(),
        "network_metadata": objects.NetworkMetadata(physnets=set(), tunneled=False),
        "security_groups": objects.SecurityGroupList(objects=[]),
    }
    return objects.RequestSpec(context.get_admin_context(), **{**usual, **fields})


def make_host_manager():
    with mock.patch.multiple(host_manager.HostManager, refresh_cells_caches=mock.DEFAULT,
                             _init_aggregates=mock.DEFAULT, _init_instance_info=mock.DEFAULT):
        return host_manager.HostManager()


def sort(hosts, states, spec, index=0):
    filtered = list(hosts.get_filtered_hosts(states, spec, index) or [])
    weighed = hosts.get_weighed_hosts(filtered, spec)
    return [[one.obj.nodename, one.weight] for one in weighed]


def case_hosts():
    """Filtering and weighing, and who is not asked about."""
    hosts = make_host_manager()
    states = [host_state(number) for number in range(HOSTS)]
    destination = objects.Destination(host="short-7", node="node-7")
    result = {
        "filters": [type(each).__name__ for each in hosts.enabled_filters],
        "weighers": [type(each).__name__ for each in hosts.weighers],
        "patched": eventlet.patcher.is_monkey_patched("socket"),
    }
    began = time.monotonic()
    result["usual"] = sort(hosts, states, request_spec(
        extra_specs={"vgpud:class": "gpu", "resources:VGPU": "1"}))
    result["usual_s"] = time.monotonic() - began
    result["rebuild"] = sort(hosts, states[:1], request_spec(
        scheduler_hints={"_nova_check_type": ["rebuild"]}))
    result["forced"] = sort(hosts, states, request_spec(force_hosts=["short-0"]))
    result["target"] = sort(hosts, states, request_spec(requested_destination=destination))
    result["cell"] = len(sort(hosts, states, request_spec(
        requested_destination=objects.Destination(cell=None))))
    return result


def case_bench():
    """How long the filter and the weigher take, for another instance each time (tests/tools/bench-nova)."""
    hosts = make_host_manager()
    states = [host_state(number) for number in range(HOSTS)]
    for number, state in enumerate(states):
        state.hypervisor_hostname = f"host-{number:05d}"
    times, different = [], True
    for number in range(110):
        spec = request_spec(instance_uuid=uuid_of(number), extra_specs={
            "vgpud:gpu_type": "GRID-8Q", "resources:VGPU": "1"})
        began = time.perf_counter()
        weighed = sort(hosts, states, spec)
        times.append((time.perf_counter() - began) * 1e3)
        different = different and len(weighed) == HOSTS and weighed[0][1] > weighed[-1][1]
    return {"ms": times[10:], "different": different}


def case_select():
    """The whole of select_destinations for three instances, with stubs for what is not here."""
    states = [host_state(number) for number in range(HOSTS)]
    hosts = make_host_manager()
    candidates = [{"allocations": {state.uuid: {"resources": {"VCPU": 4}}}} for state in states]
    placement = mock.Mock()
    placement.get_allocation_candidates.return_value = (
        candidates, {state.uuid: {} for state in states}, "1.36")
    instances = [uuids.one, uuids.two, uuids.three]
    with mock.patch.object(host_manager, "HostManager", return_value=hosts), \
            mock.patch.object(manager.report, "report_client_singleton", return_value=placement), \
            mock.patch.object(manager.servicegroup, "API"), \
            mock.patch.object(manager.rpc, "get_notifier"), \
            mock.patch.object(manager.compute_utils, "notify_about_scheduler_action"), \
            mock.patch.object(manager.request_filter, "process_reqspec"), \
            mock.patch.object(utils, "claim_resources", return_value=True), \
            mock.patch.object(utils, "resources_from_request_spec",
                              return_value=mock.Mock(cpu_pinning_requested=False)), \
            mock.patch.object(hosts, "get_host_states_by_uuids", return_value=iter(states)):
        scheduler = manager.SchedulerManager()
        selections = scheduler.select_destinations(
            context.get_admin_context(), spec_obj=request_spec(num_instances=len(instances)),
            instance_uuids=instances, return_objects=True, return_alternates=True)
    return {"selected": [[each.nodename for each in one] for one in selections]}


def case_hung():
    """vgpud says nothing. Other requests of the same worker go on meanwhile."""
    hosts = make_host_manager()
    states = [host_state(number) for number in range(HOSTS)]
    ticks = []

    def tick():
        while True:
            ticks.append(1)
            eventlet.sleep(0.005)
    thread = eventlet.spawn(tick)
    weighed = sort(hosts, states, request_spec())
    thread.kill()
    return {"hosts": len(weighed), "weights": sorted({weight for _, weight in weighed}),
            "ticks": len(ticks)}


def case_extra_specs():
    """What nova-api says about extra specs of flavors; the entry point is found through metadata."""
    refused = []
    for name, value in (("vgpud:class", "gpu"), ("vgpud:class", "fast"), ("vgpud:gpu_type", "nvidia-63"),
                        ("vgpud:gpu_type", "a\nb"), ("vgpud:klass", "gpu")):
        try:
            validators.validate(name, value)
        except nova.exception.ValidationError:
            refused.append([name, value])
    return {"refused": refused}


def main():
    case, path = sys.argv[1:]
    logging.basicConfig(level=logging.INFO)
    objects.register_all()
    CONF([], project="nova", default_config_files=[path])
    print(json.dumps(globals()["case_" + case]()))


main()
