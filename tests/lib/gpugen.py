# SPDX-License-Identifier: Apache-2.0
"""GPU tracepoints of all kernels, as they are recorded, and streams of jobs made at random.

An event is its system, its fields in the order of the kernel's structure, and its TP_printk. A
stream is a list of Ev in time order, with the values of fields as the kernel has them; it is written
as text of three producers, or as CTF.
"""
import random
import re
from dataclasses import dataclass

from ctfgen import Ev, STR

# Types: integers by sign and size, p = address, c = `const char *`, which recorders keep as an
# address, s = string.
CTF_KINDS = {"p": ("i", 64, False), "c": ("i", 64, False), "s": STR}
CTF_KINDS.update({f"{sign}{bits}": ("i", bits, sign == "s")
                  for sign in "us" for bits in (8, 16, 32, 64)})


def address_of(text):
    """Of a constant string of the kernel."""
    value = 0
    for char in text.encode():
        value = (value * 131 + char) & 0xFFFFFF
    return 0xFFFF94D7A0000000 | value


class Event:
    def __init__(self, system, fields, text):
        self.system = system
        self.fields = [tuple(f.split(":")) for f in fields.split()]
        self.text = text

    def ctf(self):
        return self.system, [(name, CTF_KINDS[kind], name) for name, kind in self.fields]

    def ctf_values(self, values):
        kinds = dict(self.fields)
        return {name: address_of(value) if kinds.get(name) == "c" else value
                for name, value in values.items()}

    def body(self, values, producer):
        """The text: {field}, {field:x}, or {field:FORMAT}."""
        kinds = dict(self.fields)

        def put(match):
            name, _, spec = match.group(1).partition(":")
            value, kind = values[name], kinds[name]
            if kind == "p":
                return pointer(value, producer)
            if kind == "c":
                return value if producer == "tracefs" else f"{address_of(value):x}"
            return format(value, spec) if spec else str(value)
        return re.sub(r"\{([^{}]+)\}", put, self.text)


def pointer(value, producer):
    if producer == "tracefs":           # hashed: 32 bits, no 0x
        return f"{(value * 0x9E3779B1 & 0xFFFFFFFF):016x}" if value else "(nil)".rjust(16)
    return f"0x{value:x}" if value else "(nil)"


# ---- include/drm/gpu_scheduler_trace.h and its ancestors ----

_COUNTS = "job count:{job_count}, hw job count:{hw_job_count}"


def _sched(name_kind, key, id_field, with_fence=True):
    fields = "entity:p " + id_field + (" fence:p" if with_fence else "")
    fence = "fence={fence}, " if with_fence else ""
    return (f"{fields} name:{name_kind} job_count:u32 hw_job_count:s32",
            f"entity={{entity}}, {key}{fence}ring={{name}}, {_COUNTS}")


AMD_SCHED_44 = {
    "amd_sched_job": Event("gpu_sched", "entity:p name:c job_count:u32 hw_job_count:s32",
                           "entity={entity}, ring={name}, " + _COUNTS),
    "amd_sched_process_job": Event("gpu_sched", "fence:p", "fence={fence} signaled"),
}
AMD_SCHED_49 = {
    "amd_sched_job": Event("gpu_sched", *_sched("c", "sched job={sched_job}, ", "sched_job:p")),
    "amd_sched_process_job": AMD_SCHED_44["amd_sched_process_job"],
}
AMD_SCHED_412 = {
    "amd_sched_job": Event("gpu_sched",
                           "entity:p fence:p name:c id:u64 job_count:u32 hw_job_count:s32",
                           "entity={entity}, id={id}, fence={fence}, ring={name}, " + _COUNTS),
    "amd_sched_process_job": AMD_SCHED_44["amd_sched_process_job"],
}


def _drm_sched(name_kind, run):
    fields = f"entity:p fence:p name:{name_kind} id:u64 job_count:u32 hw_job_count:s32"
    text = "entity={entity}, id={id}, fence={fence}, ring={name}, " + _COUNTS
    out = {"drm_sched_job": Event("gpu_scheduler", fields, text),
           "drm_sched_process_job": Event("gpu_scheduler", "fence:p", "fence={fence} signaled"),
           "drm_sched_job_wait_dep": Event(
               "gpu_scheduler", f"name:{name_kind} id:u64 fence:p ctx:u64 seqno:u32",
               "job ring={name}, id={id}, depends fence={fence}, context={ctx}, seq={seqno}")}
    if run:
        out["drm_run_job"] = Event("gpu_scheduler", fields, text)
    return out


_617 = ("name:s job_count:u32 hw_job_count:s32 dev:s fence_context:u64 fence_seqno:u64 client_id:u64",
        "dev={dev}, fence={fence_context}:{fence_seqno}, ring={name}, " + _COUNTS +
        ", client_id:{client_id}")
_617_DEP = "fence_context:u64 fence_seqno:u64 ctx:u64 seqno:u64"
DRM_SCHED_617 = {
    "drm_sched_job_queue": Event("gpu_scheduler", *_617),
    "drm_sched_job_run": Event("gpu_scheduler", *_617),
    "drm_sched_job_done": Event("gpu_scheduler", "fence_context:u64 fence_seqno:u64",
                                "fence={fence_context}:{fence_seqno} signaled"),
    "drm_sched_job_add_dep": Event(
        "gpu_scheduler", _617_DEP,
        "fence={fence_context}:{fence_seqno} depends on fence={ctx}:{seqno}"),
    "drm_sched_job_unschedulable": Event(
        "gpu_scheduler", _617_DEP,
        "fence={fence_context}:{fence_seqno} depends on unsignalled fence={ctx}:{seqno}"),
}

# ---- amdgpu_trace.h ----

_AMDGPU_49 = ("adev:p sched_job:p ib:p fence:p ring_name:c num_ibs:u32",
              "adev={adev}, sched_job={sched_job}, first ib={ib}, sched fence={fence}, "
              "ring name:{ring_name}, num_ibs:{num_ibs}")
AMDGPU_49 = {name: Event("amdgpu", *_AMDGPU_49)
             for name in ("amdgpu_cs_ioctl", "amdgpu_sched_run_job")}


def _amdgpu(ring, kind):
    head = "sched_job_id:u64 timeline:s context:u32 seqno:u32"
    tail = f"{ring}:{kind} num_ibs:u32"
    text = ("sched_job={sched_job_id}, timeline={timeline}, context={context}, seqno={seqno}, "
            f"ring_name={{{ring}}}, num_ibs={{num_ibs}}")
    return {"amdgpu_cs_ioctl": Event("amdgpu", f"{head} fence:p {tail}", text),
            "amdgpu_sched_run_job": Event("amdgpu", f"{head} {tail}", text)}


AMDGPU_412, AMDGPU_420 = _amdgpu("ring_name", "c"), _amdgpu("ring", "s")
_AMDGPU_617 = "timeline={timeline}, fence={context}:{seqno}, ring_name={ring}, num_ibs={num_ibs}"
AMDGPU_617 = {
    "amdgpu_cs_ioctl": Event("amdgpu", "timeline:s context:u64 seqno:u64 fence:p ring:s num_ibs:u32",
                             _AMDGPU_617),
    "amdgpu_sched_run_job": Event("amdgpu", "timeline:s context:u64 seqno:u64 ring:s num_ibs:u32",
                                  _AMDGPU_617),
}

# ---- include/trace/events/{fence,dma_fence}.h ----


def _fences(system):
    fields = "driver:s timeline:s context:u32 seqno:u32"
    text = "driver={driver} timeline={timeline} context={context} seqno={seqno}"
    return {f"{system}_{what}": Event(system, fields, text)
            for what in ("init", "signaled", "wait_end", "destroy")}


FENCE_49, DMA_FENCE = _fences("fence"), _fences("dma_fence")

# ---- drivers/gpu/drm/i915/i915_trace.h ----

_LIFE = ("submit", "execute", "retire")


def _i915_old(prefix, fields, text, queue, notify, **more):
    out = {f"{prefix}_{name}": Event("i915", fields, text) for name in ("add",) + _LIFE}
    if queue:
        out[f"{prefix}_queue"] = Event("i915", *queue)
    out.update({f"{prefix}_{name}": Event("i915", *value) for name, value in more.items()})
    if notify:
        out[notify[0]] = Event("i915", *notify[1:])
    return out


I915_49 = _i915_old("i915_gem_request", "dev:u32 ring:u32 seqno:u32",
                    "dev={dev}, ring={ring}, seqno={seqno}", None,
                    ("i915_gem_request_notify", "dev:u32 ring:u32 seqno:u32",
                     "dev={dev}, ring={ring}, seqno={seqno}"))
_RING = "dev={dev}, ring={ring}, ctx={ctx}, seqno={seqno}"
_I915_410 = dict(
    fields="dev:u32 ctx:u32 ring:u32 seqno:u32 global:u32", text=_RING + ", global={global}",
    queue=("dev:u32 ring:u32 ctx:u32 seqno:u32 flags:u32", _RING + ", flags=0x{flags:x}"))
I915_410 = _i915_old("i915_gem_request",
                     notify=("i915_gem_request_notify", "dev:u32 ring:u32 seqno:u32",
                             "dev={dev}, ring={ring}, seqno={seqno}"), **_I915_410)
I915_412 = _i915_old("i915_gem_request",
                     notify=("intel_engine_notify", "dev:u32 ring:u32 seqno:u32 waiters:u8",
                             "dev={dev}, ring={ring}, seqno={seqno}, waiters={waiters}"),
                     **_I915_410, **{
                         "in": ("dev:u32 ring:u32 seqno:u32 global_seqno:u32 ctx:u32 port:u32",
                                _RING + ", global={global_seqno}, port={port}"),
                         "out": (_I915_410["fields"], _I915_410["text"])})

_ENGINE = "dev={dev}, engine={class}:{instance}, "
_CTX = "ctx={ctx}, seqno={seqno}"


def _i915_new(hw_id, with_global, tail=False, guc=False):
    ids = "dev:u32 " + ("hw_id:u32 " if hw_id else "") + "ctx:u64 " + (
        "guc_id:u32 " if guc else "") + "class:u16 instance:u16 seqno:u32"
    head = _ENGINE + ("hw_id={hw_id}, " if hw_id else "") + (
        "guc_id={guc_id}, " if guc else "") + _CTX
    plain = (ids + (" global:u32" if with_global else "") + (" tail:u32" if tail else ""),
             head + (", global={global}" if with_global else "") + (
                 ", tail={tail}" if tail else ""))
    in_global = (" global_seqno:u32", ", global={global_seqno}") if with_global else ("", "")
    prio = "u32" if hw_id else "s32"
    out = {f"i915_request_{name}": Event("i915", *plain) for name in ("add",) + _LIFE}
    out["i915_request_queue"] = Event("i915", ids.replace(" guc_id:u32", "") + " flags:u32",
                                      head.replace("guc_id={guc_id}, ", "") + ", flags=0x{flags:x}")
    out["i915_request_in"] = Event(
        "i915", ids + in_global[0] + f" port:u32 prio:{prio}",
        head + ", prio={prio}" + in_global[1] + ", port={port}")
    out["i915_request_out"] = Event("i915", ids + in_global[0] + " completed:u32",
                                    head + in_global[1] + ", completed?={completed}")
    if with_global:
        out["intel_engine_notify"] = Event(
            "i915", "dev:u32 class:u16 instance:u16 seqno:u32 waiters:u8",
            _ENGINE + "seqno={seqno}, waiters={waiters}")
    return out


I915_418 = _i915_new(True, True)
I915_51 = _i915_new(True, False)
I915_55 = _i915_new(False, False)
I915_515 = _i915_new(False, False, tail=True)
I915_515_GUC = _i915_new(False, False, tail=True, guc=True)

OBJECTS = {
    "i915_gem_object_create": Event("i915", "obj:p size:u64", "obj={obj}, size=0x{size:x}"),
    "i915_gem_object_destroy": Event("i915", "obj:p", "obj={obj}"),
}
OBJECTS_OLD = dict(OBJECTS, i915_gem_object_create=Event(
    "i915", "obj:p size:u32", "obj={obj}, size={size}"))
GPU_MEM = {"gpu_mem_total": Event("gpu_mem", "gpu_id:u32 pid:u32 size:u64",
                                  "gpu_id={gpu_id} pid={pid} size={size}")}

# ---- drivers/gpu/drm/xe/xe_trace.h ----


def _xe(dev, lrc, gt):
    head = ("dev:s ", "dev={dev}, ") if dev else ("", "")
    fields = (head[0] + "seqno:u32 " + ("lrc_seqno:u32 " if lrc else "") +
              ("gt_id:u8 " if gt else "") +
              "guc_id:u16 guc_state:u32 flags:u32 error:s32 fence:p batch_addr:u64")
    text = (head[1] + "fence={fence}, seqno={seqno}, " +
            ("lrc_seqno={lrc_seqno}, " if lrc else "") + ("gt={gt_id}, " if gt else "") +
            "guc_id={guc_id}, batch_addr=0x{batch_addr:012x}, guc_state=0x{guc_state:x}, "
            "flags=0x{flags:x}, error={error}")
    hw = (head[0] + "ctx:u64 seqno:u32 fence:p",
          head[1] + "ctx=0x{ctx:016x}, fence={fence}, seqno={seqno}")
    out = {f"xe_sched_job_{name}": Event("xe", fields, text)
           for name in ("create", "exec", "run", "free", "timedout")}
    out.update({f"xe_hw_fence_{name}": Event("xe", *hw)
                for name in ("create", "signal", "try_signal")})
    return out


XE_68, XE_611, XE_612, XE_614 = (_xe(*flags) for flags in (
    (False, False, False), (False, True, False), (True, True, False), (True, True, True)))

# ---- drivers/gpu/drm/i915/gvt/trace.h, and the four of the 2024 paper as vgpud calls them ----

GVT = {
    "render_mmio": Event("gvt", "old_id:s32 new_id:s32 buf:s reg:u32 old_val:u32 new_val:u32",
                         "VM{old_id} -> VM{new_id} {buf} reg {reg:x}, old {old_val:08x} "
                         "new {new_val:08x}"),
    "inject_msi": Event("gvt", "id:s32 address:u32 data:u32",
                        "vgpu{id}:inject msi address {address:x} data {data:x}"),
}
_WORKLOAD = ("dev:u32 vgpu_id:s32 ring_id:s32 workload:p",
             "dev={dev}, vgpu_id={vgpu_id}, ring_id={ring_id}, workload={workload}")
PAPER = {
    "gvt_workload_queue": Event("gvt", *_WORKLOAD),
    "gvt_workload_submit": Event("gvt", _WORKLOAD[0] + " ctx:u32 seqno:u32",
                                 _WORKLOAD[1] + ", ctx={ctx}, seqno={seqno}"),
    "gvt_workload_complete": Event("gvt", _WORKLOAD[0] + " status:s32",
                                   _WORKLOAD[1] + ", status={status}"),
    "gvt_sched_switch": Event("gvt", "dev:u32 prev_vgpu:s32 next_vgpu:s32",
                              "dev={dev}, prev_vgpu={prev_vgpu}, next_vgpu={next_vgpu}"),
}


# ---- writing ----

def stamp(ns, producer):
    return (f"{ns // 10**9}.{ns % 10**9 // 1000:06d}" if producer == "tracefs"
            else f"{ns // 10**9}.{ns % 10**9:09d}")


def line(ev, classes, producer, failed=False):
    event = classes[ev.name]
    body = event.body(ev.f, producer)
    if failed:
        body = "[FAILED TO PARSE] " + " ".join(
            f"{name}=" + (f"0x{ev.f[name]:x}" if kind == "p" else
                          f"0x{address_of(ev.f[name]):x}" if kind == "c" else str(ev.f[name]))
            for name, kind in event.fields)
    comm = ev.comm if ev.tid else ("swapper" if producer == "perf" else "<idle>")
    when = stamp(ev.t, producer)
    if producer == "tracefs":
        tgid = f"({ev.pid:7d})" if ev.pid > 0 else "(-------)"
        return f"{comm:>16}-{ev.tid:<7} {tgid} [{ev.cpu:03d}] d.... {when}: {ev.name}: {body}\n"
    if producer == "trace-cmd":
        return f"{comm:>16}-{ev.tid:<5} [{ev.cpu:03d}] {when}: {ev.name + ':':<21} {body}\n"
    return (f"{comm:>16} {ev.pid:6d}/{ev.tid:<6d} [{ev.cpu:03d}] {when}: "
            f"{event.system}:{ev.name}: {body}\n")


def write_text(path, events, classes, producer, failed=False):
    with open(path, "w", encoding="utf-8") as out:
        if producer == "tracefs":
            out.write("# tracer: nop\n#\n#           TASK-PID    TGID   CPU#  |||||  TIMESTAMP  "
                      "FUNCTION\n")
        for ev in events:
            out.write(line(ev, classes, producer, failed))
            if classes[ev.name].system == "gvt" and producer == "tracefs":
                out.write("\n")     # their TP_printk ends with a newline of its own


def ctf_form(events, classes):
    """The events for ctfgen, and its `extra`."""
    return ([Ev(e.t, e.cpu, e.name, e.tid, e.pid, e.comm, classes[e.name].ctf_values(e.f))
             for e in events],
            {name: classes[name].ctf() for name in {e.name for e in events}})


# ---- job streams ----

@dataclass
class Process:
    pid: int
    comm: str
    tid: int


@dataclass
class Job:
    process: Process            # None: of the kernel
    ring: int
    queue: int
    ready: int
    given: int                  # to the hardware, which may have another one to do first
    run: int
    done: int
    number: int                 # on its ring
    context: int = 0            # index of (process, ring)
    seqno: int = 0              # in that
    address: int = 0            # of a fence that is used again
    depth: int = 1              # how many the hardware has when it is given this one
    own_run: int = 0            # if only those of its own context were before it


def processes(n):
    return [Process(1000 + 10 * i, f"app-{i}", 1000 + 10 * i + (i % 2)) for i in range(n)]


def jobs(seed, n=200, n_processes=3, rings=2, depth=2, kernel=0.1):
    """Jobs on rings that work them off in order, up to depth of them on the hardware."""
    rng = random.Random(seed)
    people = processes(n_processes)
    out, last_done, count, seqnos = [], {}, {}, {}
    clock = {r: 10_000_000 for r in range(rings)}
    for _ in range(n):
        ring = rng.randrange(rings)
        process = rng.choice(people)
        number = count.get(ring, 0)
        if rng.random() < kernel:
            process = None
        clock[ring] += rng.choice((20, 50, 400, 3000)) * 1000 + rng.randrange(10) * 1000
        # A thread submits one job after the other, which takes up to 3 us each.
        while any(j.process == process and abs(j.queue - clock[ring]) < 4000 for j in out):
            clock[ring] += 4000
        queue = clock[ring]
        before = last_done.setdefault(ring, [])
        ready = max([queue] + [j.ready + 5000 for j in out[-8:] if j.ring == ring]) + \
            rng.randrange(5, 60) * 1000
        free = before[-depth] if len(before) >= depth else 0
        last_given = max((j.given for j in out if j.ring == ring), default=0)
        given = max(ready, free, last_given) + rng.randrange(5, 20) * 1000
        run = max(given, before[-1] if before else 0)
        done = run + rng.choice((30, 200, 900)) * 1000 + rng.randrange(10) * 1000
        before.append(done)
        count[ring] = number + 1
        key = (process.pid if process else 0, ring)
        seqnos[key] = seqnos.get(key, 0) + 1
        context = sorted([(p.pid, r) for p in people + [Process(0, "", 0)] for r in range(rings)]
                         ).index(key)
        own = max([given] + [j.done for j in out if j.context == context])
        out.append(Job(process, ring, queue, ready, given, run, done, number, context, seqnos[key],
                       depth=1 + sum(j.ring == ring and j.done > given for j in out), own_run=own))
    give_addresses(out)
    return out


def closed_loop(rng, n, depth):
    """Jobs of one process on one ring: a new one is queued when one is done."""
    process, = processes(1)
    out, now = [], 10_000_000
    queued = [now + i * 1000 for i in range(depth)]
    for i in range(n):
        queue = queued.pop(0)
        ready = max(now, queue) + 20_000
        run = ready + 10_000
        done = run + rng.choice((300, 600, 1500)) * 1000
        out.append(Job(process, 0, queue, ready, run, run, done, i, 0, i + 1))
        now = done
        queued.append(done + 5000)
    give_addresses(out)
    return out


def give_addresses(all_jobs):
    """As a slab cache does: what was freed last is used first."""
    free, busy, fresh = [], [], 0xFFFF888112340000
    for job in sorted(all_jobs, key=lambda j: j.queue):
        for other in sorted(busy, key=lambda j: j.done):
            if other.done + 10_000 < job.queue:
                free.append(other.address)
                busy.remove(other)
        if not free:
            free.append(fresh)
            fresh += 0x140
        job.address = free.pop()
        busy.append(job)


WORKER = Process(60, "kworker/u32:0", 60)
IDLE = Process(0, "", 0)


def events_of(steps):
    """steps: (time, who, name, fields)."""
    out = [Ev(t, (who.tid // 10) % 4, name, who.tid, who.pid, who.comm, fields)
           for t, who, name, fields in steps]
    return sorted(out, key=lambda e: e.t)


# ---- the DRM scheduler and amdgpu ----

RINGS = ("gfx", "sdma0", "comp_1.0.0")
RUNNERS = [Process(60 + 10 * n, ring, 60 + 10 * n) for n, ring in enumerate(RINGS)]    # the scheduler's threads
CARD = "0000:04:00.0"

# Kernel: (events of the scheduler, of amdgpu, of fences), whether the scheduler tells runs.
KERNELS = {
    "4.4": (AMD_SCHED_44, {}, FENCE_49),
    "4.9": (AMD_SCHED_49, AMDGPU_49, FENCE_49),
    "4.12": (AMD_SCHED_412, AMDGPU_412, DMA_FENCE),
    "4.16": (_drm_sched("c", False), AMDGPU_412, DMA_FENCE),
    "5.4": (_drm_sched("c", False), AMDGPU_420, DMA_FENCE),
    "5.10": (_drm_sched("c", True), AMDGPU_420, DMA_FENCE),
    "6.1": (_drm_sched("s", True), AMDGPU_420, DMA_FENCE),
    "6.17": (DRM_SCHED_617, AMDGPU_617, DMA_FENCE),
}


# What tells that a job runs, besides amdgpu and fences.
RUN_RECORDS = {k: {"run"} if k in ("5.10", "6.1", "6.17") else set() for k in KERNELS}


def drm_classes(kernel):
    sched, amdgpu, fence = KERNELS[kernel]
    return {**sched, **amdgpu, **fence}


def _sched_names(kernel):
    if kernel in ("4.4", "4.9", "4.12"):
        return "amd_sched_job", None, "amd_sched_process_job"
    if kernel == "6.17":
        return "drm_sched_job_queue", "drm_sched_job_run", "drm_sched_job_done"
    return "drm_sched_job", None if kernel in ("4.16", "5.4") else "drm_run_job", \
        "drm_sched_process_job"


def drm_steps(all_jobs, kernel, families=("sched", "amdgpu", "fence"), dev=CARD):
    """What a kernel with amdgpu records of the jobs."""
    queue, run, done = _sched_names(kernel)
    early_fence = kernel in ("4.4", "4.9", "4.12")      # signals F before it tells the end
    fence = "fence" if kernel in ("4.4", "4.9") else "dma_fence"
    out = []
    for job in all_jobs:
        ring, finished = RINGS[job.ring], 100 + 2 * job.context
        who, runner = job.process or WORKER, RUNNERS[job.ring]
        of_job = {"entity": 0xFFFFA00D00010000 + 0x1000 * job.context, "fence": job.address,
                  "sched_job": job.address + 0x80, "id": job.number + 100, "name": ring,
                  "job_count": 1, "hw_job_count": job.depth, "dev": dev, "fence_context": finished,
                  "fence_seqno": job.seqno, "client_id": 10 + job.context}
        of_amdgpu = {"adev": 0xFFFF888800000000, "sched_job": job.address + 0x80,
                     "ib": 0xFFFF8888AAAA0000, "fence": job.address, "ring_name": ring,
                     "ring": ring, "num_ibs": 2, "timeline": ring, "context": finished,
                     "seqno": job.seqno, "sched_job_id": job.number + 100}
        if kernel != "4.9":
            of_amdgpu["fence"] = 0xDEADBEEFDEAD       # never assigned
        of_fence = {"driver": "amd_sched" if early_fence else "drm_sched", "timeline": ring,
                    "context": finished, "seqno": job.seqno}
        scheduled = dict(of_fence, context=finished - 1)
        if "fence" in families:
            out += [(job.queue - 2000, who, f"{fence}_init", scheduled),
                    (job.queue - 2000, who, f"{fence}_init", of_fence),
                    (job.given + 3000, runner, f"{fence}_signaled", scheduled),
                    (job.done - 1000, IDLE, f"{fence}_signaled",
                     dict(of_fence, driver="amdgpu", context=7 + job.ring, seqno=job.number + 1)),
                    (job.done + (0 if early_fence else 2000), IDLE, f"{fence}_signaled", of_fence)]
        if "amdgpu" in families:
            if job.process:
                out.append((job.queue, who, "amdgpu_cs_ioctl", of_amdgpu))
            out.append((job.given + 1000, runner, "amdgpu_sched_run_job", of_amdgpu))
        if "sched" in families:
            out.append((job.queue + 1000, who, queue, of_job))
            if run:
                out.append((job.given, runner, run, of_job))
            out.append((job.done + (2000 if early_fence else 0), IDLE, done,
                        {"fence": job.address, "fence_context": finished,
                         "fence_seqno": job.seqno}))
    return out


def drm_events(all_jobs, kernel, families=("sched", "amdgpu", "fence"), dev=CARD):
    events = events_of(drm_steps(all_jobs, kernel, families, dev))
    known = drm_classes(kernel)
    for ev in events:
        ev.f = {name: ev.f[name] for name, _ in known[ev.name].fields}
    return events


# ---- i915 ----

I915 = {"4.9": I915_49, "4.10": I915_410, "4.12": I915_412, "4.18": I915_418, "5.1": I915_51,
        "5.5": I915_55, "5.15": I915_515, "5.15-guc": I915_515_GUC}
I915_RINGS = ((0, 0), (1, 0), (2, 0))       # class and instance of rings 0, 1, 2


def i915_classes(kernel):
    return {**I915[kernel], **DMA_FENCE}


def i915_steps(all_jobs, kernel, low_level=True, ends=("out",), virtual=False):
    """ends: which of out, notify, fence, retire tell that a request is done."""
    prefix = "i915_gem_request" if kernel in ("4.9", "4.10", "4.12") else "i915_request"
    notify = "intel_engine_notify" if kernel in ("4.12", "4.18") else "i915_gem_request_notify"
    order = {}
    for job in sorted(all_jobs, key=lambda j: j.given):
        order[id(job)] = len(order) + 1000
    out = []
    for job in all_jobs:
        who, number = job.process or WORKER, order[id(job)]
        klass, instance = I915_RINGS[job.ring]
        if virtual and klass == 2:
            instance = job.number % 2
        # 4.9: the seqno is the engine's. 4.10: ctx is the hardware context's id, which is the same
        # on all engines.
        f = {"dev": 0, "ring": job.ring, "class": klass, "instance": instance, "hw_id": 3,
             "guc_id": 4, "ctx": job.context + 5, "seqno": job.seqno, "global": 0,
             "global_seqno": number, "flags": 2, "tail": 0x40, "waiters": 1, "port": job.depth - 1,
             "prio": 0,
             "completed": 1}
        if kernel == "4.9":
            f["seqno"] = job.number + 1
        if kernel == "4.10":
            f["ctx"] = 1 + job.context // 3
        first = dict(f, instance=65534) if virtual and klass == 2 else f
        late = dict(f, **{"global": number})
        if kernel != "4.9":
            out.append((job.queue, who, f"{prefix}_queue", first))
        out.append((job.queue + 1000, who, f"{prefix}_add", first))
        if low_level:
            out += [(job.ready, WORKER, f"{prefix}_submit", first),
                    (job.ready + 1000, WORKER, f"{prefix}_execute", first if virtual else late)]
            if kernel not in ("4.9", "4.10"):
                out.append((job.given, IDLE, f"{prefix}_in", late))
        if "notify" in ends:
            seqno = f["seqno"] if kernel == "4.9" else number
            out.append((job.done, IDLE, notify, dict(f, seqno=seqno)))
        if "fence" in ends:
            out.append((job.done, IDLE, "dma_fence_signaled",
                        {"driver": "i915", "timeline": "signaled", "context": job.context + 5,
                         "seqno": job.seqno}))
        if "out" in ends:
            out.append((job.done, IDLE, f"{prefix}_out", late))
        if "retire" in ends:
            out.append((job.done + 5_000_000, WORKER, f"{prefix}_retire", dict(late, **(
                {"instance": 65534} if virtual and klass == 2 else {}))))
    return out


def keep_fields(events, known):
    for ev in events:
        ev.f = {name: ev.f[name] for name, _ in known[ev.name].fields}
    return events


def i915_events(all_jobs, kernel, **options):
    return keep_fields(events_of(i915_steps(all_jobs, kernel, **options)), i915_classes(kernel))


# ---- xe ----

XE = {"6.8": XE_68, "6.11": XE_611, "6.12": XE_612, "6.14": XE_614}


def xe_classes(kernel):
    return {**XE[kernel], **DMA_FENCE, **_drm_sched("s", True)}


def xe_steps(all_jobs, kernel, families=("xe",), dev="0000:00:02.0"):
    """A context is a queue of the GuC, which has a ring of the scheduler of its own."""
    out = []
    for job in all_jobs:
        who = job.process or WORKER
        gt = job.ring if kernel == "6.14" else 0
        f = {"dev": dev, "seqno": (job.seqno - 127) % 2**32, "lrc_seqno": job.seqno, "gt_id": gt,
             "guc_id": job.context, "guc_state": 3, "flags": 4, "error": 0, "fence": job.address,
             "batch_addr": 0x1A0000, "ctx": 500 + job.context}
        of_sched = {"entity": 0xFFFFA00D00010000 + 0x1000 * job.context,
                    "fence": job.address + 0x40, "id": job.seqno, "job_count": 0,
                    "hw_job_count": 1 + sum(j.context == job.context and j.given < job.given < j.done
                                            for j in all_jobs),
                    "name": f"{('rcs', 'bcs', 'vcs')[job.ring]}{job.context}"}
        if "xe" in families:
            out += [(job.queue - 3000, who, "xe_sched_job_create",
                     dict(f, seqno=0, lrc_seqno=0, fence=0)),
                    (job.queue - 2000, who, "xe_hw_fence_create", f),
                    (job.queue, who, "xe_sched_job_exec", f),
                    (job.given, WORKER, "xe_sched_job_run", f),
                    (job.done - 2000, IDLE, "xe_hw_fence_try_signal", f),
                    (job.done, IDLE, "xe_hw_fence_signal", f),
                    (job.done + 300_000, WORKER, "xe_sched_job_free", f)]
        if "sched" in families:
            out += [(job.queue + 1000, who, "drm_sched_job", of_sched),
                    (job.given - 1000, WORKER, "drm_run_job", of_sched),
                    (job.done - 1000, IDLE, "drm_sched_process_job", of_sched)]
    return out


def xe_events(all_jobs, kernel, families=("xe",)):
    return keep_fields(events_of(xe_steps(all_jobs, kernel, families)), xe_classes(kernel))


# ---- GVT-g: each process is a VM, whose vGPU has the number 1 + its place ----

GVT_THREAD = Process(70, "gvt workload 0", 70)


def gvt_classes():
    return {**I915_412, **DMA_FENCE, **PAPER, **GVT}


def gvt_steps(all_jobs, submit_first):
    """submit_first(job): does gvt_workload_submit come before i915_gem_request_add?"""
    out = i915_steps([j for j in all_jobs if not j.process], "4.12")
    for job in all_jobs:
        if not job.process:
            continue
        early = submit_first(job)
        vcpu = Process(job.process.pid, "CPU 0/KVM", job.process.tid)
        vgpu = 1 + (job.process.pid - 1000) // 10
        f = {"dev": 0, "vgpu_id": vgpu, "ring_id": job.ring, "workload": job.address,
             "ctx": job.context + 5, "seqno": job.seqno, "status": 0}
        out.append((job.queue, vcpu, "gvt_workload_queue", f))
        out.append((job.ready + (0 if early else 2000), GVT_THREAD, "gvt_workload_submit", f))
        for step in i915_steps([job], "4.12"):
            if step[2].endswith("_queue"):
                continue
            if step[2].endswith("_add"):
                step = (job.ready + 1000, GVT_THREAD) + step[2:]
            elif step[0] < job.given:
                step = (job.ready + 3000,) + step[1:]
            out.append(step)
        out.append((job.done + 2000, GVT_THREAD, "gvt_workload_complete", f))
    return out


def gvt_events(all_jobs, submit_first):
    return keep_fields(events_of(gvt_steps(all_jobs, submit_first)), gvt_classes())
