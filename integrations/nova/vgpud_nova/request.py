# SPDX-License-Identifier: Apache-2.0
"""From what nova's scheduler has to what vgpud is asked. Fields of a RequestSpec may be unset, and
releases of nova differ: reading one that is not there gives None."""
import re

from vgpud_nova import client

CLASSES = ("idle", "cpu", "gpu", "mixed", "alternating")
GPU_TYPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._:+-]{0,63}")
# Ranges that the API takes.
VCPUS_MAX = 4096
SPECS_MAX = 256
# What vgpud reads; numbered and named groups have a suffix between the word and the colon.
SPEC = re.compile(r"vgpud:(class|gpu_type)|resources[A-Za-z0-9_-]{0,64}:VGPU|"
                  r"trait[A-Za-z0-9_-]{0,64}:CUSTOM_[A-Z0-9_]{1,255}")


def field(thing, name):
    try:
        return getattr(thing, name)
    except Exception:  # nova's objects raise several kinds for a field that is not set
        return None


def decided(spec):
    """Has somebody else chosen the host, so that vgpud has no say? Rebuilding in place, hosts that are
    forced, and targets that are named: of live migrations, those of vgpud's own plans among them."""
    hints = field(spec, "scheduler_hints") or {}
    if hints.get("_nova_check_type") == ["rebuild"]:
        return True
    if field(spec, "force_hosts") or field(spec, "force_nodes"):
        return True
    target = field(spec, "requested_destination")
    return bool(field(target, "host") or field(target, "node"))


def _is_multi_create(spec):
    """Several new instances at once. The number stays in the RequestSpec for life, so that a move of one
    of them has it, too; a move leaves out the host that the instance is on."""
    return (field(spec, "num_instances") or 1) > 1 and not field(spec, "ignore_hosts")


def instance(spec):
    """The member `instance` of the request."""
    flavor = field(spec, "flavor")
    extra = field(flavor, "extra_specs") or {}
    vcpus = field(flavor, "vcpus")
    memory_mb = field(flavor, "memory_mb")
    # vgpud reads them, as it does for others who ask it; what it does not know it leaves alone.
    specs = {key: str(value)[:255] for key, value in extra.items() if SPEC.fullmatch(key)}
    members = {
        # New instances have no history, and one answer serves all of them.
        "uuid": None if _is_multi_create(spec) else field(spec, "instance_uuid"),
        "extra_specs": dict(sorted(specs.items())[:SPECS_MAX]),
    }
    if vcpus:
        members["vcpus"] = min(vcpus, VCPUS_MAX)
    if memory_mb:
        members["memory_mb"] = memory_mb
    return members


def host(state):
    """A HostState as a host to ask about. Its `host` is the name of a service, which need not be the
    hypervisor's."""
    name = field(state, "hypervisor_hostname") or field(state, "nodename") or field(state, "host")
    return client.Host(name, field(state, "uuid"), field(state, "num_instances"))
