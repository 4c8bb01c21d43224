# SPDX-License-Identifier: Apache-2.0
"""Random clusters whose VMs have vGPUs, whole GPUs or MIG slices, and the best plans for them.

Losses, costs, gates and places are those of vgpud-policy(7), written from that page and not from the code. The
search tries all sequences of up to three moves, where each VM moves at most once, and the target has a place for
each vGPU at its turn."""
import itertools

GIB = 1 << 30
WHOLE, SLICE = "10de:2331", "1g.10gb"
SIZES = {"24Q": 24, "12Q": 12, "6Q": 6, WHOLE: 80, SLICE: 10}
# Kinds of GPUs: memory in GiB, rule for profiles, types.
KINDS = {"homogeneous": (24, "homogeneous", ("24Q", "12Q", "6Q")), "unknown": (24, None, ("24Q", "12Q", "6Q")),
         "mixed": (24, "mixed", ("24Q", "12Q", "6Q")), "whole": (80, None, (WHOLE,)), "mig": (80, None, (SLICE,))}
SLICES = 7
BANDWIDTH, HORIZON, STUN = 128 / 1024, 600, 0.3  # GiB/s, s, s
MIN_GAIN, MIN_FRACTION, MOVES = 0.05, 0.1, 3


def free_places(kind, has, name):
    """How many more vGPUs of a type fit on a GPU that has vGPUs of these types."""
    memory, _, types = KINDS[kind]
    if name not in types:
        return 0
    if kind == "whole":
        return 1 - len(has)
    if kind == "mig":
        return SLICES - len(has)
    if kind == "mixed":
        return (memory - sum(SIZES[one] for one in has)) // SIZES[name]
    return memory // SIZES[name] - len(has) if set(has) <= {name} else 0


class Cluster:
    """hosts: [{"cpus", "free" GiB, "cards": [kind]}]; vms: {name: {"host", "cpu", "mem" GiB, "vgpus": [(type,
    demand)], "cards": (index...), "stays"}}."""

    def __init__(self, hosts, vms):
        self.hosts, self.vms = hosts, vms
        self.names = sorted(vms)
        self.known = {}

    def start(self):
        return {name: (vm["host"], vm["cards"]) for name, vm in self.vms.items()}

    def on_card(self, places, host, card):
        """(type, demand) of the vGPUs of a card."""
        return [vgpu for name, (at, cards) in places.items() if at == host
                for vgpu, of in zip(self.vms[name]["vgpus"], cards) if of == card]

    def loss_of(self, places, host):
        here = tuple((name, place[1]) for name, place in sorted(places.items()) if place[0] == host)
        if (host, here) not in self.known:
            lost = max(0.0, sum(self.vms[name]["cpu"] for name, _ in here) - self.hosts[host]["cpus"])
            for card, kind in enumerate(self.hosts[host]["cards"]):
                if kind != "mig":
                    lost += max(0.0, sum(one[1] for one in self.on_card(places, host, card)) - 1)
            self.known[host, here] = lost
        return self.known[host, here]

    def loss(self, places):
        return sum(self.loss_of(places, host) for host in range(len(self.hosts)))

    def cost(self, name):
        vm = self.vms[name]
        video = sum(SIZES[one[0]] for one in vm["vgpus"]) / BANDWIDTH
        return (vm["cpu"] * (STUN + video) + vm["mem"] / BANDWIDTH + video) / HORIZON

    def demand(self, name):
        vm = self.vms[name]
        return vm["cpu"] + sum(one[1] for one in vm["vgpus"])

    def fits(self, places, name, to, cards):
        others = {other: place for other, place in places.items() if other != name}
        come = sum(self.vms[vm]["mem"] for vm, (at, _) in others.items() if at == to and self.vms[vm]["host"] != to)
        left = sum(vm["mem"] for other, vm in self.vms.items() if vm["host"] == to and places[other][0] != to)
        if self.hosts[to]["free"] + left - come < self.vms[name]["mem"]:
            return False
        has = {}
        for (kind_of, _), card in zip(self.vms[name]["vgpus"], cards):
            on = has.setdefault(card, [one[0] for one in self.on_card(others, to, card)])
            if free_places(self.hosts[to]["cards"][card], on, kind_of) < 1:
                return False
            on.append(kind_of)
        return True

    def moves(self, places, moved):
        """All single moves: (name, host, cards)."""
        for name in self.names:
            if name in moved or self.vms[name]["stays"]:
                continue
            for to, host in enumerate(self.hosts):
                if to == places[name][0]:
                    continue
                for cards in itertools.product(range(len(host["cards"])), repeat=len(self.vms[name]["vgpus"])):
                    if self.fits(places, name, to, cards):
                        yield name, to, cards

    def best(self):
        """The most cores that a plan gains after its cost: (with the gates, without them)."""
        found = [0.0, 0.0]

        def passes(before, after, group):
            gain = self.loss(before) - self.loss(after)
            left = {before[name][0] for name in group}
            most = min(sum(self.loss_of(before, host) for host in left), sum(self.demand(name) for name in group))
            return gain - sum(map(self.cost, group)) >= MIN_GAIN - 1e-9 and gain >= MIN_FRACTION * most - 1e-9

        def search(path, order):
            # good: can the moves so far be split into groups that pass?
            good = [True]
            for end in range(1, len(path)):
                good.append(any(good[begin] and passes(path[begin], path[end], order[begin:end])
                                for begin in range(end)))
            net = self.loss(path[0]) - self.loss(path[-1]) - sum(map(self.cost, order))
            found[1] = max(found[1], net)
            if good[-1]:
                found[0] = max(found[0], net)
            # What can still be gained is at most what is lost.
            if len(order) == MOVES or self.loss(path[0]) - sum(map(self.cost, order)) <= found[0]:
                return
            for name, to, cards in self.moves(path[-1], set(order)):
                search([*path, path[-1] | {name: (to, cards)}], [*order, name])

        search([self.start()], [])
        return found


def random_cluster(rng):
    """Two to four hosts, whose VMs want 60 to 120 % of the CPUs, and up to 1.6 engines of each GPU."""
    hosts, vms = [], {}
    kinds = rng.sample(sorted(KINDS), rng.choice([1, 1, 2]))
    for h in range(rng.randint(2, 4)):
        hosts.append({"cpus": rng.choice([4, 8]), "free": rng.choice([4, 8, 64, 64]),
                      "cards": [rng.choice(kinds) for _ in range(rng.choice([1, 1, 2]))]})
    for h, host in enumerate(hosts):
        wants = host["cpus"] * rng.choice([0.3, rng.uniform(0.4, 1.6)])
        members = []
        for card, kind in enumerate(host["cards"]):
            has, busy = [], rng.choice([0.2, rng.uniform(0, 2.4)])
            for _ in range(rng.randint(0, 4)):
                names = [name for name in KINDS[kind][2] if free_places(kind, has, name) > 0]
                if names:
                    has.append(rng.choice(names))
            weights = [rng.random() + 0.1 for _ in has]
            members += [[(name, round(min(0.95, busy * weight / sum(weights)), 3), card)]
                        for name, weight in zip(has, weights)]
        members += [[] for _ in range(rng.randint(0, 2))]
        # A VM may have vGPUs of two GPUs.
        if len(host["cards"]) == 2 and rng.random() < 0.2:
            first = next((one for one in members if one and one[0][2] == 0), None)
            second = next((one for one in members if one and one[0][2] == 1), None)
            if first and second:
                members.remove(second)
                first += second
        weights = [rng.random() + 0.1 for _ in members]
        for vgpus, weight in zip(members, weights):
            vms[f"v{len(vms):02}"] = {
                "host": h, "cpu": round(min(4.0, wants * weight / sum(weights)), 3), "mem": rng.choice([1, 2, 4, 8]),
                "vgpus": [one[:2] for one in vgpus], "cards": tuple(one[2] for one in vgpus),
                "stays": rng.random() < 0.15}
    return Cluster(hosts, vms)


def address(card):
    return f"0000:{card + 1:02}:00.0"


def snapshot_vm(cluster, name, cpu_part, gpu_parts):
    """cpu_part, gpu_parts: the part of its demand that it gets, of the CPUs and of each card."""
    vm = cluster.vms[name]
    run = round(vm["cpu"] * cpu_part, 9)
    return {"name": name, "vcpus": 4, "memory_bytes": vm["mem"] * GIB, "class": "mixed", "cpu_intensity": 0.5,
            "gpu_intensity": max([one[1] for one in vm["vgpus"]], default=0), "gpu_known": True, "run_share": run,
            "preempt_share": round(vm["cpu"] - run, 9), "wake_wait_share": 0, "preemptions_per_s": 0,
            "never_move": vm["stays"],
            "gpu": [{"device": address(card), "engine": "sm", "vgpu_type": kind, "share": demand * gpu_parts[card],
                     "wait_share": demand * (1 - gpu_parts[card]), "memory_bytes": SIZES[kind] * GIB}
                    for (kind, demand), card in zip(vm["vgpus"], vm["cards"])]}


def snapshot_of(cluster):
    """The document of vgpud-snapshot(5)."""
    hosts, start = [], cluster.start()
    for h, host in enumerate(cluster.hosts):
        here = [name for name, place in start.items() if place[0] == h]
        wants = sum(cluster.vms[name]["cpu"] for name in here)
        gpus, parts = [], []
        for card, kind in enumerate(host["cards"]):
            vgpus = cluster.on_card(start, h, card)
            has, busy = [one[0] for one in vgpus], sum(one[1] for one in vgpus)
            memory, rule, types = KINDS[kind]
            parts.append(1 if kind == "mig" else min(1, 1 / busy if busy else 1))
            gpus.append({"device": address(card), "memory_bytes": memory * GIB,
                         "memory_free_bytes": (memory - sum(SIZES[one] for one in has)) * GIB,
                         "vgpu_types": [{"type": name, "free": free_places(kind, has, name),
                                         "memory_bytes": SIZES[name] * GIB} for name in types],
                         "engines": [{"engine": "sm", "share": min(1, busy)}]})
            if rule:
                gpus[-1]["profiles"] = rule
        hosts.append({"name": f"h{h}", "cpus": host["cpus"], "memory_bytes": 256 * GIB, "own_share": 0,
                      "memory_free_bytes": host["free"] * GIB, "gpus": gpus,
                      "vms": [snapshot_vm(cluster, name, min(1, host["cpus"] / wants if wants else 1), parts)
                              for name in here]})
    return {"schema": "vgpud.snapshot", "version": 1, "source": "trace", "begin_ns": 0, "end_ns": 10**10, "hosts": hosts}


def carry_out(cluster, plan):
    """What the plan gains after its cost, by the model here. Fails if a move has no place."""
    places, net = cluster.start(), 0.0
    for action in plan["actions"]:
        name, to = action["vm"], int(action["to"][1:])
        vm = cluster.vms[name]
        way = {gpu["from"]: int(gpu["to"][5:7]) - 1 for gpu in action.get("gpus", [])}
        cards = tuple(way[address(card)] for card in vm["cards"])
        assert places[name] == (int(action["from"][1:]), vm["cards"]) and not vm["stays"], action
        assert cluster.fits(places, name, to, cards), action
        after = places | {name: (to, cards)}
        gain = cluster.loss(places) - cluster.loss(after)
        said = (action["gain"]["lost_cpu_ns_per_s"] + action["gain"]["gpu_wait_ns_per_s"]) / 1e9
        assert abs(gain - said) < 1e-4, (action, gain, said)
        net += gain - cluster.cost(name)
        places = after
    return net
