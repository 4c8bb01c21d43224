# SPDX-License-Identifier: Apache-2.0
"""A slow, independent simulation of GVT-g's scheduler (new generation).

Written from what sched_policy.c and scheduler.c of the kernel do, without a queue of events: whenever
anything may happen it asks every part whether it has something to do. Closed loops of requests of one
size only. Times are in microseconds.
"""
TICK = 1000
PERIOD = 100_000
STAGES = 10
PRIORITY = 2_000_000
IDLE = "idle"


class Vgpu:
    def __init__(self, spec, engines):
        self.name = spec["name"]
        self.weight = spec.get("weight", 4)
        self.start = spec.get("start_ms", 0) * 1000
        self.stop = spec["stop_ms"] * 1000 if spec.get("stop_ms") is not None else None
        self.has_priority = spec.get("start_priority", True)
        self.jobs = spec.get("jobs", [])
        self.queues = {e: [] for e in engines}      # (size, think)
        self.coming = []                            # (time, engine, size, think)
        self.active = False
        self.priority_until = None
        self.left = self.allocated = 0
        self.sched_in = None
        self.busy = {e: 0 for e in engines}
        self.done = {e: 0 for e in engines}


class Gvt:
    def __init__(self, scenario):
        self.engines = scenario.get("engines", ["rcs0"])
        self.duration = int(scenario["duration_ms"] * 1000)
        self.vgpus = [Vgpu(v, self.engines) for v in scenario["vms"]]
        self.lru = []
        self.current = self.next = None
        self.need_reschedule = False
        self.running = {}                           # engine -> (vgpu, end, size, think)
        self.tick_at = self.expire = None
        self.stage = 0
        self.event = False

    # ---- the kernel's functions ----

    def pending(self, vgpu):
        return any(vgpu.queues.values()) or any(r[0] is vgpu for r in self.running.values())

    def charge(self, now):
        if isinstance(self.current, Vgpu):
            self.current.left -= now - self.current.sched_in
            self.current.sched_in = now

    def balance(self):
        stage, self.stage = self.stage, (self.stage + 1) % STAGES
        total = sum(v.weight for v in self.lru)
        for v in self.lru:
            if stage == 0:
                v.allocated = v.left = PERIOD * v.weight / total
            else:
                v.left += v.allocated

    def find_busy(self, now):
        for v in self.lru:
            if not self.pending(v):
                continue
            if v.priority_until is not None:
                if now < v.priority_until:
                    return v
                v.priority_until = None
            if v.left > 0:
                return v
        return None

    def try_switch(self, now):
        if self.next is self.current:
            self.next = None
            return
        self.need_reschedule = True
        if self.running:
            return
        self.charge(now)
        if isinstance(self.next, Vgpu):
            self.next.sched_in = now
        self.current, self.next = self.next, None
        self.need_reschedule = False

    def service(self, now, tick):
        if tick and (self.expire is None or now >= self.expire):
            self.balance()
            self.expire = now + PERIOD
        self.charge(now)
        if self.lru and self.next is None:
            busy = self.find_busy(now)
            self.next = busy or IDLE
            if busy and busy.priority_until is None:
                self.lru.remove(busy)
                self.lru.append(busy)
        if self.next is not None:
            self.try_switch(now)

    # ---- a step of the clock ----

    def complete(self, now):
        for engine in self.engines:
            if engine in self.running and self.running[engine][1] == now:
                vgpu, _, size, think = self.running.pop(engine)
                vgpu.done[engine] += 1
                vgpu.coming.append((now + think, engine, size, think))
                self.event = self.event or self.need_reschedule

    def start_and_stop(self, now):
        for v in self.vgpus:
            if v.stop is not None and now >= v.stop and v in self.lru:
                v.active = False
                v.queues = {e: [] for e in self.engines}
                if not self.pending(v):
                    self.lru.remove(v)
                    self.next = None if self.next is v else self.next
                    if self.current is v:
                        self.current, self.need_reschedule = None, True
        for v in self.vgpus:
            if now == v.start:
                v.active = True
                v.priority_until = now + PRIORITY if v.has_priority else None
                self.lru.insert(0, v)
                self.tick_at = self.tick_at or now + TICK
                for job in v.jobs:
                    size = job["size_us"]["value"]
                    think = job.get("think_us", {}).get("value", 0)
                    for _ in range(job.get("depth", 1)):
                        v.coming.append((now, job.get("engine", self.engines[0]), size, think))

    def arrive(self, now):
        for v in self.vgpus:
            if not v.active or not v.coming:
                continue
            for item in [i for i in v.coming if i[0] == now]:
                v.coming.remove(item)
                v.queues[item[1]].append(item[2:])
                self.event = True

    def dispatch(self, now):
        if not isinstance(self.current, Vgpu) or self.need_reschedule or not self.current.active:
            return
        for engine in self.engines:
            queue = self.current.queues[engine]
            if engine not in self.running and queue:
                size, think = queue.pop(0)
                self.running[engine] = (self.current, now + size, size, think)

    def next_after(self, now):
        """When anything may happen."""
        times = [self.duration, self.tick_at or 0, *(end for _, end, *_ in self.running.values())]
        for v in self.vgpus:
            times += [v.start, v.stop or 0, *(item[0] for item in v.coming)]
        return min(time for time in times if time > now)

    def run(self):
        """Shares of (VM, engine)."""
        now = 0
        while now < self.duration:
            self.complete(now)
            self.start_and_stop(now)
            self.arrive(now)
            tick = now == self.tick_at
            if tick:
                self.tick_at += TICK
            if tick or self.event:
                self.event = False
                self.service(now, tick)
            self.dispatch(now)
            begin, now = now, self.next_after(now)
            for engine, (vgpu, *_) in self.running.items():
                vgpu.busy[engine] += now - begin
        return {(v.name, e): v.busy[e] / self.duration for v in self.vgpus for e in self.engines}
