# SPDX-License-Identifier: Apache-2.0
"""As much of nova's scheduler and of oslo.config as vgpud_nova touches, written for the tests: where
nova itself is not installed, `import novashim` makes `import nova.scheduler.filters` work."""
import sys
import types


def _module(name, **members):
    module = types.ModuleType(name)
    module.__path__ = []
    module.__dict__.update(members)
    sys.modules[name] = module
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, module)


class _Option:
    def __init__(self, name, default=None, help=None, min=None, max=None):
        assert help
        self.name, self.default, self.min, self.max = name, default, min, max


class _Config:
    def register_group(self, group):
        setattr(self, group.name, types.SimpleNamespace())

    def register_opts(self, options, group):
        for option in options:
            setattr(getattr(self, group.name), option.name, option.default)


class _OptGroup:
    def __init__(self, name, title=None, help=None):
        self.name = name


class _BaseHostFilter:
    RUN_ON_REBUILD = False
    run_filter_once_per_request = False


class _BaseHostWeigher:
    minval = None
    maxval = None


def _get_weight_multiplier(state, name, default):
    values = [float(each.metadata[name]) for each in state.aggregates if name in each.metadata]
    return min(values, default=default)


_module("oslo_config")
_module("oslo_config.cfg", OptGroup=_OptGroup,
        **{kind + "Opt": _Option for kind in ("List", "Str", "Int", "Float")})
_module("nova")
_module("nova.conf", CONF=_Config())
_module("nova.scheduler")
_module("nova.scheduler.filters", BaseHostFilter=_BaseHostFilter)
_module("nova.scheduler.weights", BaseHostWeigher=_BaseHostWeigher)
_module("nova.scheduler.utils", get_weight_multiplier=_get_weight_multiplier)


class Spec:
    """A RequestSpec, or another of nova's objects: a field that is not set cannot be read."""

    def __init__(self, **fields):
        self.__dict__.update(fields)

    def __getattr__(self, name):
        raise NotImplementedError(f"Cannot load '{name}' in the base class")

    def __repr__(self):
        return f"Spec({vars(self)})"


class HostState:
    def __init__(self, number, **members):
        self.host = f"short-{number}"
        self.nodename = self.hypervisor_hostname = f"node-{number}"
        self.uuid = f"00000000-0000-4000-8000-{number:012d}"
        self.vcpus_total = 64
        self.total_usable_ram_mb = 262144
        self.num_instances = 0
        self.aggregates = []
        self.__dict__.update(members)


def schedule(filters, weighers, states, spec, index=0):
    """What nova does with hosts: those that pass, best first, each with its weight."""
    for each in filters:
        if index == 0 or not each.run_filter_once_per_request:
            states = list(each.filter_all(iter(states), spec))
    weighed = [types.SimpleNamespace(obj=state, weight=0.0) for state in states]
    for each in weighers:
        raw = each.weigh_objects(weighed, spec)
        for one, weight in zip(weighed, raw, strict=True):
            assert each.minval <= weight <= each.maxval
            one.weight += weight * each.weight_multiplier(one.obj)
    weighed.sort(key=lambda one: -one.weight)
    return [(one.obj.hypervisor_hostname, one.weight) for one in weighed]
