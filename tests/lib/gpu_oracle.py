# SPDX-License-Identifier: Apache-2.0
"""A slow, independent reading of the GPU measures.

It first brings the records of each job together, then gives each job its intervals, and only then
adds them up: those between two records of the job, and no others. The program under test counts as it
goes; that the two agree is the point.

A record is an Ev whose fields are those of the tracepoint: from a list, from text (parse_text(), by
the kernels' TP_printk), or from CTF as babeltrace2 prints it (parse_ctf()).
"""
import gzip
import re
import subprocess
from collections import defaultdict
from dataclasses import dataclass, field

from ctfgen import Ev
from settings import HANG_S

FIGURES = ("requests", "partial", "open", "open_oldest_ns", "busy_ns", "exec_ns", "wait_ns")
PARTS = ("vgpu_queue_ns", "dependency_ns", "driver_queue_ns")

# ---- text ----

HEADS = (
    re.compile(r"\s*(?P<comm>.*?)-(?P<tid>\d+)\s+(?:\(\s*(?P<pid>\d+|-+)\)\s*)?\[(?P<cpu>\d+)\]\s+"
               r"(?:\S{4,5}\s+)?(?P<s>\d+)\.(?P<f>\d+): (?P<event>\w+):\s*(?P<body>.*)"),
    re.compile(r"\s*(?P<comm>.*?)\s+(?P<pid>\d+)/(?P<tid>\d+)\s+\[(?P<cpu>\d+)\]\s+"
               r"(?P<s>\d+)\.(?P<f>\d+):\s+\w+:(?P<event>\w+):\s*(?P<body>.*)"))

# Keys whose name in the text is another one than that of the field.
_PLAIN = re.compile(r"([A-Za-z_][\w?-]*)=(\S+?)(?:,|$|\s)")
SPELLINGS = {
    "amd_sched": [r"sched job=(?P<sched_job>\S+),", r"\bring=(?P<name>[^,]*)",
                  r"\bfence=(?P<fence>\w+)", r"\bid=(?P<id>\d+)", r"entity=(?P<entity>\w+)"],
    "drm_": [r"\bring=(?P<name>[^,]*)", r"\bid=(?P<id>\d+)",
             r"\bfence=(?P<fence_context>\d+):(?P<fence_seqno>\d+)",
             r"\bfence=(?P<fence>0x\w+|\w{16})", r"\bdev=(?P<dev>[^,]*)", r"entity=(?P<entity>\w+)",
             r"hw job count:(?P<hw_job_count>\d+)"],
    "amdgpu": [r"sched_job=(?P<sched_job>\w+)", r"timeline=(?P<timeline>[^,]*)",
               r"context=(?P<context>\d+)", r"seqno=(?P<seqno>\d+)",
               r"sched fence=(?P<fence>\w+)", r" fence=(?P<context>\d+):(?P<seqno>\d+)",
               r"ring[ _]name[:=](?P<ring_name>[^,]*)"],
    "dma_fence": [r"driver=(?P<driver>.*) timeline=(?P<timeline>.*) context=(?P<context>\d+) "
                  r"seqno=(?P<seqno>\d+)$"],
    "i915_gem_object": [r"obj=(?P<obj>\w+)", r"size=(?P<size>\w+)"],
    "i915": [r"dev=(?P<dev>\d+)", r"ring=(?P<ring>\d+)", r"engine=(?P<class>\d+):(?P<instance>\d+)",
             r"\bctx=(?P<ctx>\d+)", r"seqno=(?P<seqno>\d+)", r"global=(?P<global>\d+)",
             r"completed\?=(?P<completed>\d+)"],
    "xe": [r"dev=(?P<dev>[^,]*)", r"fence=(?P<fence>\w+)", r"\bseqno=(?P<seqno>\d+)",
           r"gt=(?P<gt_id>\d+)", r"guc_id=(?P<guc_id>\d+)"],
    "gvt_": [r"dev=(?P<dev>\d+)", r"vgpu_id=(?P<vgpu_id>\d+)", r"ring_id=(?P<ring_id>\d+)",
             r"workload=(?P<workload>\w+)", r"ctx=(?P<ctx>\d+)", r"seqno=(?P<seqno>\d+)",
             r"status=(?P<status>-?\d+)", r"next_vgpu=(?P<next_vgpu>\d+)"],
}
SPELLINGS["intel_engine"] = SPELLINGS["i915"]
SPELLINGS["fence"] = SPELLINGS["dma_fence"]
ADDRESSES = {"fence", "sched_job", "workload", "obj", "entity"}
TEXTS = {"name", "dev", "driver", "timeline", "ring_name", "ring"}


def _value(event, key, text):
    if key in ADDRESSES and not (key == "sched_job" and text.isdigit() and len(text) < 12):
        return 0 if "nil" in text else int(text, 16)
    if key == "dev" and text.isdigit():
        return int(text)
    if key == "ring" and event.startswith(("i915", "intel")):
        return int(text)
    return text if key in TEXTS else int(text, 0)


def parse_body(event, body):
    family = max((f for f in SPELLINGS if event.startswith(f)), key=len, default=None)
    out = {}
    for spelling in SPELLINGS.get(family, ()):
        found = re.search(spelling, " " + body)
        for key, text in (found.groupdict() if found else {}).items():
            if key not in out:
                out[key] = _value(event, key, text)
    if event.startswith("amdgpu") and "timeline" in out and "sched_job" in out:
        out["sched_job_id"] = out.pop("sched_job")
    return out


def parse_text(path):
    out = []
    with (gzip.open if str(path).endswith(".gz") else open)(path, "rt", encoding="utf-8") as file:
        for text in file:
            head = next((m for m in (p.match(text) for p in HEADS) if m), None)
            if not head:
                continue
            pid = head["pid"] if head["pid"] and head["pid"].isdigit() else "-1"
            out.append(Ev(int(head["s"]) * 10**9 + int(head["f"].ljust(9, "0")), int(head["cpu"]),
                          head["event"], int(head["tid"]), int(pid), head["comm"].strip(),
                          parse_body(head["event"], head["body"].strip())))
    return out


# ---- CTF ----

def parse_ctf(path):
    text = subprocess.run(["babeltrace2", "--clock-cycles", "--no-delta", str(path)],
                          capture_output=True, text=True, check=True, timeout=HANG_S).stdout
    out = []
    for row in text.splitlines():
        head = re.match(r"\[(\d+)\] (?:\S+ )?(\S+): \{ cpu_id = (\d+) \}(.*)", row)
        fields = {}
        for name, quoted, number in re.findall(r'(\w+) = (?:"([^"]*)"|(-?\d+|0x[0-9A-Fa-f]+))',
                                               head[4]):
            fields[name] = int(number, 0) if number else quoted
        name = head[2].split(":")[-1]
        # seqno and the like are of the payload; pid and tid of the context, or perf's.
        out.append(Ev(int(head[1]), int(head[3]), name, fields.get("perf_tid", fields.get("tid", -1)),
                      fields.get("perf_pid", fields.get("pid", -1)), fields.get("procname", ""),
                      fields))
    return out


# ---- from records to steps ----

QUEUED, SUBMITTED, READY, RUNNING, OFF, DONE, RETIRED = range(7)
I915_OPS = {"queue": QUEUED, "add": SUBMITTED, "add_domain": SUBMITTED, "submit": READY,
            "execute": READY, "guc_submit": READY, "in": RUNNING, "out": DONE, "retire": RETIRED}
I915_CLASSES = ("rcs", "bcs", "vcs", "vecs", "ccs")
I915_RING_NAMES = ("rcs0", "bcs0", "vcs0", "vcs1", "vecs0")
SCHED_OPS = {"amd_sched_job": QUEUED, "drm_sched_job": QUEUED, "drm_sched_job_queue": QUEUED,
             "drm_run_job": RUNNING, "drm_sched_job_run": RUNNING,
             "amd_sched_process_job": DONE, "drm_sched_process_job": DONE,
             "drm_sched_job_done": DONE}
XE_OPS = {"xe_sched_job_exec": QUEUED, "xe_sched_job_run": RUNNING, "xe_sched_job_free": RETIRED,
          "xe_hw_fence_signal": DONE}
XE_QUEUE = re.compile(r"(gsccs|rcs|bcs|vcs|vecs|ccs)(\d+)$")


@dataclass
class Step:
    op: int
    ids: list                     # any of them names the job
    device: str = None            # None: not told
    engine: str = None
    vgpu: int = 0
    order: tuple = None           # (context, seqno) that are done in order
    coalesces: bool = False
    of_i915: bool = False         # whose earlier requests of a context are done with a later one
    weak: bool = False            # the engine is any of several
    cancels: bool = False
    scheduled: tuple = None       # if nobody has these ids, this one runs
    order_of: str = "ring"        # how the engine works off what it was given: a ring in order, as a
                                  # firmware likes ("any"), or several side by side ("contexts")
    depth: int = None             # how many jobs the ring has, with this one
    reached: tuple = None         # device, engine, and the seqno of its own that it has come to
    also: list = field(default_factory=list)     # ids by which only other records find the job


class Reader:
    """What single records say. Learns the names of rings that are told by their address."""

    def __init__(self, records):
        self.rings = {}
        self.has_xe = any(r.name in XE_OPS for r in records)
        asked = {}
        for r in records:
            f = r.f
            if r.name.startswith("amdgpu") and "timeline" in f:
                self.learn(f.get("ring_name"), f["timeline"])
                asked[r.tid] = (f.get("sched_job_id"), f["timeline"])
            elif r.name in ("drm_sched_job", "amd_sched_job") and r.tid in asked:
                number, name = asked.pop(r.tid)
                if number is not None and number == f.get("id"):
                    self.learn(f["name"], name)

    def learn(self, address, name):
        if address is not None and self.is_address(address):
            self.rings[self.key(address)] = name

    @staticmethod
    def is_address(ring):
        return isinstance(ring, int) or re.fullmatch(r"[0-9a-f]{16}", ring)

    @staticmethod
    def key(ring):
        return ring if isinstance(ring, int) else int(ring, 16)

    def ring(self, ring):
        if not self.is_address(ring):
            return ring
        return self.rings.get(self.key(ring), f"{self.key(ring):x}")

    def read(self, r):
        if r.name in SCHED_OPS:
            return self.sched(r.f, SCHED_OPS[r.name])
        if r.name in ("amdgpu_cs_ioctl", "amdgpu_sched_run_job"):
            return self.amdgpu(r.f, QUEUED if r.name == "amdgpu_cs_ioctl" else RUNNING)
        if r.name in ("dma_fence_signaled", "fence_signaled"):
            return self.fence(r.f)
        if r.name in XE_OPS:
            return self.xe(r.f, XE_OPS[r.name])
        if r.name in ("intel_engine_notify", "i915_gem_request_notify"):
            device, engine = self.i915_engine(r.f)
            ids = [("global", device, engine, r.f["seqno"])]
            return Step(DONE, ids, device, engine, reached=(device, engine, r.f["seqno"]))
        found = re.match(r"i915_(?:gem_)?request_(\w+)$", r.name)
        if found and found[1] in I915_OPS:
            return self.i915(r.f, I915_OPS[found[1]])
        if r.name.startswith("gvt_workload_"):
            return self.workload(r.f, r.name[len("gvt_workload_"):])
        return None

    def sched(self, f, op):
        ids, order, engine = [], None, None
        if "name" in f:
            engine = self.ring(f["name"])
            if "id" in f:
                ids.append(("job", engine, f["id"]))
            if "sched_job" in f:
                ids.append(("job", engine, f["sched_job"]))
        if f.get("fence"):
            ids.append(("fence", f["fence"]))
        if "fence_context" in f:
            order = (f["fence_context"] % 2**32, f["fence_seqno"] % 2**32)
            ids.append(order)
        queue = XE_QUEUE.match(engine) if engine else None
        if queue:
            if self.has_xe:
                return None
            engine = queue[1]
        elif self.has_xe and not engine and "fence" in f:
            return Step(op, ids)      # of nobody that is known
        step = Step(op, ids, f.get("dev"), engine, order=order) if ids else None
        if step and queue:
            step.order_of = "any" if engine == "rcs" else "contexts"
            step.order = order or (f["entity"], f["id"])
        elif step and not step.device:
            step.depth = f.get("hw_job_count")
        return step

    def amdgpu(self, f, op):
        engine = f.get("timeline") or self.ring(f["ring_name"])
        ids, order = [], None
        if "sched_job_id" in f:
            ids.append(("job", engine, f["sched_job_id"]))
        elif "sched_job" in f:
            ids += [("job", engine, f["sched_job"]), ("fence", f["fence"])]
        if "context" in f:
            order = (f["context"] % 2**32, f["seqno"] % 2**32)
            ids.append(order)
        return Step(op, ids, "amdgpu?", engine, order=order)

    @staticmethod
    def fence(f):
        number = (f["context"], f["seqno"])
        if f["driver"] in ("drm_sched", "amd_sched"):
            return Step(DONE, [number], order=number, scheduled=(f["context"] + 1, f["seqno"]))
        return Step(DONE, [number], order=number)

    @staticmethod
    def xe(f, op):
        device = f.get("dev", "xe")
        if op == DONE:
            return Step(op, [("fence", f["fence"])], device)
        queue = ("xe", device, f.get("gt_id", 0), f["guc_id"])
        return Step(op, [(queue, f["seqno"])] + ([("fence", f["fence"])] if f["fence"] else []),
                    device, f"gt{f.get('gt_id', 0)}", order=(queue, f["seqno"]), order_of="contexts")

    @staticmethod
    def i915_engine(f):
        device = f"card{f['dev']}"
        if "class" in f:
            instance = 0 if f["instance"] == 65534 else f["instance"]
            return device, f"{I915_CLASSES[f['class']]}{instance}"
        return device, I915_RING_NAMES[f["ring"]]

    def i915(self, f, op):
        device, engine = self.i915_engine(f)
        weak = f.get("instance") == 65534
        step = Step(op, [], device, engine, weak=weak, coalesces=op == RUNNING, of_i915=True,
                    order_of="any")
        number = f.get("global_seqno", f.get("global", 0))
        if "ctx" not in f:
            number = f["seqno"]
            step.order = (("engine", device, engine), number)
        else:
            # Up to 4.11 ctx is a hardware context, which every engine counts for itself.
            step.order = (f["ctx"] if "class" in f else ("ring", device, engine, f["ctx"]),
                          f["seqno"])
            step.ids.append((f["ctx"], f["seqno"]) if "class" in f else step.order)
            if "class" not in f:
                step.also.append((f["ctx"], f["seqno"]))
        if number:
            step.ids.append(("global", device, engine, number))
        if f.get("completed") == 0:
            step.op = OFF
        return step

    @staticmethod
    def workload(f, what):
        device = f"card{f['dev']}"
        engine = I915_RING_NAMES[f["ring_id"]]
        step = Step({"queue": QUEUED, "submit": SUBMITTED, "complete": DONE}[what],
                    [("workload", device, f["vgpu_id"], f["workload"])], device, engine,
                    vgpu=f["vgpu_id"], weak=True, cancels=f.get("status", 0) != 0)
        if "ctx" in f:
            step.order = (("ring", device, engine, f["ctx"]), f["seqno"])
            step.ids.append(step.order)
        return step


# ---- jobs ----

@dataclass
class Job:
    owner: tuple = None           # ("process", pid) or ("vgpu", n)
    device: str = None
    engine: str = None
    order: tuple = None
    stages: dict = field(default_factory=dict)   # op -> time
    runs: list = field(default_factory=list)     # [from, to]
    first: int = None
    end: int = None
    merged: int = None
    names: set = field(default_factory=set)
    seen: set = field(default_factory=set)       # event names that told of it
    cancelled: bool = False
    of_i915: bool = False
    dropped: bool = False         # done by now, and nothing more will be told
    passed: bool = False          # one behind it in its context is done
    queue: "Queue" = None         # of the hardware, while it is in it
    given: int = 0                # when it was put there
    parted: int = 0               # when it was interrupted
    ring: tuple = None            # what works off its jobs in order
    ring_passed: bool = False     # one behind it there is done, after its own last record
    number: int = 0               # the order of first records

    def known(self):
        """Its last record, while it waits."""
        return max([self.first or 0, self.given, self.parted] + list(self.stages.values()))

    def is_waiting(self):
        return not self.runs or (self.runs[-1][1] is not None and self.end is None)


@dataclass
class Queue:
    """What the hardware was given. The first one runs."""
    order_of: str
    jobs: list = field(default_factory=list)
    last_end: int = 0
    depths: set = field(default_factory=set)


class GpuOracle:
    def __init__(self, records):
        self.records = sorted(records, key=lambda r: r.t)
        self.begin, self.end = self.records[0].t, self.records[-1].t
        self.open, self.jobs = {}, []
        self.contexts = {}            # context -> owner
        self.vms = {}                 # vGPU -> owner
        self.last_end = {}            # engine -> time
        self.finished = {}            # context -> highest seqno that is done
        self.told = set()             # (engine, op) of jobs
        self.ops = set()
        self.queues = {}              # engine, or context -> Queue
        self.counts_from = 2
        reader = Reader(self.records)
        # A fence of a job may be told where no id is known: contexts of 32 bits.
        for record in self.records:
            step = reader.read(record)
            if step:
                self.take(record, step)

    def owner_of(self, record, step):
        if step.vgpu:
            # The thread that queues work of a vGPU is of its VM.
            if step.op == QUEUED and record.tid > 0:
                self.vms.setdefault((step.device, step.vgpu),
                                    ("process", record.pid if record.pid > 0 else record.tid))
            return self.vms.get((step.device, step.vgpu), ("vgpu", step.vgpu))
        if step.op > SUBMITTED or record.tid <= 0 or \
                record.comm.startswith(("kworker", "gvt")):
            return None
        return ("process", record.pid if record.pid > 0 else record.tid)

    def find(self, step, record):
        """The first that an id names. An address is used again: then the job before is over."""
        found = None
        for name in step.ids:
            job = self.open.get(name)
            if not job or job is found:
                continue
            if found:
                if name[0] == "fence" and step.op <= RUNNING:
                    self.drop(job)
                continue
            other = name[0] == "fence" and (
                (step.order and job.order and step.order != job.order) or
                {n[0] for n in job.names} & {n[0] for n in step.ids} & {"job"} and
                not {n for n in job.names if n[0] == "job"} & set(step.ids))
            again = step.op == QUEUED and "fence" in {n[0] for n in step.ids} and (
                record.name in job.seen or job.runs)
            if not other and not again:
                found = job
            elif step.op <= RUNNING:
                self.drop(job)
        return found if found and found.end is None else None

    def take(self, record, step):
        if step.reached:
            self.reach(step.reached, record.t)
        job = self.find(step, record)
        if job and step.vgpu:
            self.unite(job, step)
        if not job and step.scheduled and step.scheduled in self.open:
            job = self.open[step.scheduled]
            step = Step(RUNNING, [], order=job.order)
        if not job:
            if step.op >= READY and step.order and step.order[0] in self.finished and \
                    not is_before(self.finished[step.order[0]], step.order[1]):
                return                      # late
            if step.op > RUNNING:
                if step.op == DONE and step.engine and step.order:
                    self.jobs.append(Job(device=step.device, engine=step.engine))
                    self.finished[step.order[0]] = step.order[1]
                return
            job = Job(first=record.t, number=len(self.jobs))
            self.jobs.append(job)
        self.learn(job, record, step)
        self.apply(job, record.t, step)

    def reach(self, reached, t):
        for name, job in sorted(self.open.items(), key=str):
            if name[0] == "global" and name[1:3] == reached[:2] and is_before(name[3], reached[2]) \
                    and job.end is None:
                self.finish(job, t)

    def unite(self, job, step):
        """Two records of one request were taken for two."""
        for name in step.ids:
            other = self.open.get(name)
            if other and other is not job:
                self.jobs.remove(other)
                job.stages = {**other.stages, **job.stages}
                job.runs = job.runs or other.runs
                job.order = job.order or other.order
                job.names |= other.names
                for alias in other.names:
                    self.open[alias] = job

    def learn(self, job, record, step):
        job.seen.add(record.name)
        for name in step.ids + step.also:
            self.open[name] = job
            job.names.add(name)
        if step.engine and (job.engine is None or (job.weak and not step.weak)):
            job.engine = step.engine
            job.weak = step.weak
        if step.device and (job.device is None or job.device.endswith("?")):
            job.device = step.device
        job.vgpu = job.vgpu or step.vgpu
        if job.order is None:
            job.order = step.order
        kinds = {name[0] for name in job.names}
        job.ring = ("workload" in kinds and not job.of_i915 and (job.vgpu,)) or \
            ("job" in kinds and not job.of_xe and ("job",)) or None
        owner = self.owner_of(record, step)
        # A timeline of an engine is nobody's.
        for order in (step.order, job.order):
            if not order or (isinstance(order[0], tuple) and order[0][0] == "engine"):
                continue
            if owner and order[0] not in self.contexts:
                self.contexts[order[0]] = owner
            owner = owner or self.contexts.get(order[0])
        if job.owner is None:
            job.owner = owner

    def apply(self, job, t, step):
        job.of_i915 |= step.of_i915
        job.of_xe |= step.order_of != "ring"
        if step.op not in (DONE, RETIRED):
            job.ring_passed = False
        self.told.add((job.engine, step.op))
        if not (step.vgpu and step.op == QUEUED):
            self.ops.add(step.op)
        if step.op in (QUEUED, SUBMITTED, READY):
            later = [op for op in job.stages if op >= step.op]
            if not later and not job.runs and not job.queue:
                job.stages[step.op] = t
        elif step.op == RUNNING:
            self.give(job, t, step)
        elif step.op == OFF:
            if job.runs and job.runs[-1][1] is None:
                job.runs[-1][1] = job.parted = t
            self.leave(job, t)
        else:
            if step.cancels and not job.runs:
                job.cancelled = True
            if step.op == RETIRED and (job.passed or (job.engine, DONE) in self.told):
                self.drop(job)              # it was done before, and when is told or not known
            else:
                self.finish(job, t)

    def drop(self, job):
        """Nobody told when it was done, or that is told."""
        job.dropped = True
        for name in job.names:
            if self.open.get(name) is job:
                del self.open[name]
        self.leave(job)

    # ---- the hardware ----

    def give(self, job, t, step):
        if job.queue or job.passed or job.merged is not None:
            return
        key = ("context", job.order[0]) if step.order_of == "contexts" and job.order else job.engine
        queue = self.queues.setdefault(key, Queue(step.order_of))
        other = False
        if step.depth is not None:
            if step.depth == 0:
                self.counts_from = 1
            queue.depths.add(step.depth)
            other = step.depth + 1 - self.counts_from < len(queue.jobs) and \
                len(queue.depths) > 1
        job.given, job.queue = t, queue
        queue.jobs.append(job)
        if queue.jobs[0] is job or other:
            self.start(job, t)

    def start(self, job, t):
        job.runs.append([t, None])
        if job.of_i915:
            self.merge(job, t)

    def leave(self, job, end=None):
        queue = job.queue
        if not queue:
            return
        job.queue = None
        queue.jobs.remove(job)
        queue.last_end = end or queue.last_end
        if queue.jobs and queue.jobs[0].is_waiting():
            self.start(queue.jobs[0], max(queue.jobs[0].known(), queue.last_end))

    def overtake(self, job):
        """Its end is told, and others were to be done before it."""
        if not job.queue or job.queue.jobs[0] is job:
            return
        while job.queue.order_of != "any" and job.queue.jobs[0] is not job:
            job.queue.jobs[0].passed = True
            self.leave(job.queue.jobs[0])
        if not job.is_waiting():
            return
        first, since = job.queue.jobs[0], max(job.known(), job.queue.last_end)
        if not first.is_waiting():
            since = max(since, first.runs[-1][0])
            first.runs[-1][1] = first.parted = since
        self.start(job, since)

    def earlier(self, job):
        found = [j for j in self.jobs if not j.dropped and j is not job and j.order and job.order and
                 j.order[0] == job.order[0] and is_before(j.order[1], job.order[1])]
        return sorted(found, key=lambda j: (j.order[1] - job.order[1]) % 2**32)

    def merge(self, job, t):
        for other in self.earlier(job):
            if other.is_waiting() and other.merged is None and not other.queue and not other.passed:
                other.merged, other.engine, other.weak = max(t, other.known()), job.engine, False

    def pass_ring(self, job):
        """Jobs of the ring that came before are done, too: by the order in which the ring was given them
        (overtake()), or, where that is not told of both, in which they were queued."""
        known = QUEUED in job.stages or (SUBMITTED in job.stages and not job.vgpu)
        for other in self.jobs:
            if job.ring and other.ring == job.ring and other.engine == job.engine and \
                    other.number < job.number and other.end is None and not other.dropped and \
                    (not job.queue if other.queue else known):
                other.ring_passed = True

    def finish(self, job, t):
        self.overtake(job)
        self.pass_ring(job)
        for other in self.earlier(job):
            if other.merged is None and (not other.is_waiting() or not job.of_i915):
                other.passed = True         # done by now, but since when?
                self.leave(other)
                continue
            if other.merged is None and job.runs and job.runs[-1][1] is None:
                other.merged = max(other.known(), job.runs[-1][0])
            self.close(other, t)
        self.close(job, t)

    def close(self, job, t):
        job.end = t
        if job.runs and job.runs[-1][1] is None:
            job.runs[-1][1] = t
        elif not job.runs and job.merged is None and not job.cancelled and \
                (job.engine, RUNNING) not in self.told:
            since = max([job.first] + list(job.stages.values()))
            job.runs.append([max(since, self.last_end.get((job.engine), 0)), t])
        self.last_end[job.engine] = t
        self.leave(job, t)
        if job.order:
            context, seqno = job.order
            if context not in self.finished or is_before(self.finished[context], seqno):
                self.finished[context] = seqno
        self.drop(job)

    # ---- figures ----

    def is_open(self, job):
        """Nothing proves that it is over, if ends are recorded at all."""
        return job.first is not None and job.end is None and not job.dropped and not job.passed and \
            not job.ring_passed and bool(self.ops & {DONE, RETIRED})

    def waits(self, job):
        """(part, from, to), in order."""
        stop = job.merged
        if job.cancelled:
            stop = job.end
        elif job.runs:
            stop = job.runs[0][0]
        elif stop is None:
            stop = job.known()
        at = [(op, t) for op, t in sorted(job.stages.items()) if t <= stop]
        if not at and job.given:
            at = [(READY, job.given)]           # its first record is that it is given
        out = []
        for i, (_, t) in enumerate(at):
            last = i + 1 == len(at)
            part = 2 if last else {SUBMITTED: 0, READY: 1}[at[i + 1][0]]
            if last and job.cancelled and (job.vgpu or SUBMITTED in self.ops):
                part = 0
            out.append((part, t, stop if last else at[i + 1][1]))
        for before, after in zip(job.runs, job.runs[1:]):
            out.append((2, before[1], after[0]))
        return out

    def figures(self, chosen):
        out = dict.fromkeys(FIGURES + PARTS, 0)
        runs = []
        for job in chosen:
            done = job.end is not None and not job.cancelled
            is_open = self.is_open(job)
            out["requests"] += done
            out["open"] += is_open
            out["partial"] += not (done or is_open or job.cancelled)
            if is_open:
                out["open_oldest_ns"] = max(out["open_oldest_ns"], self.end - job.first)
            for part, begin, end in self.waits(job):
                out[PARTS[part]] += end - begin
                out["wait_ns"] += end - begin
            for begin, end in job.runs:
                if end is not None:
                    out["exec_ns"] += end - begin
                    runs.append((begin, end))
        out["busy_ns"] = union(runs)
        return out

    def device_of(self, name):
        """Of an engine: the best that any record says."""
        told = {j.device for j in self.jobs if j.engine == name and j.device}
        strong = sorted(d for d in told if not d.endswith("?"))
        return strong[0] if strong else (told.pop()[:-1] if told else "drm_sched")

    def measure(self):
        engines, users = defaultdict(list), defaultdict(list)
        for job in self.jobs:
            key = (self.device_of(job.engine) if not job.device or job.device.endswith("?")
                   else job.device, job.engine)
            engines[key].append(job)
            if job.owner:
                users[(job.owner,) + key].append(job)
        return ({k: self.figures(v) for k, v in engines.items()},
                {k: self.figures(v) for k, v in users.items()})


def is_before(a, b):
    """Seqnos have 32 bits and begin anew."""
    return (a - b) % 2**32 >= 2**31


def union(intervals):
    total, reach = 0, None
    for begin, end in sorted(intervals):
        if reach is None or begin > reach:
            total += end - begin
            reach = end
        elif end > reach:
            total += end - reach
            reach = end
    return total


Job.weak = False
Job.of_xe = False
Job.vgpu = 0


def rows_of(doc):
    """The program's figures, by the oracle's keys; those that are nothing but 0 left out."""
    engines = {(g["device"], g["engine"]): g for g in doc["gpus"]}
    users = {(("process", p["pid"]), p["device"], p["engine"]): p for p in doc["gpu_processes"]}
    for vm in doc["vms"]:
        for gpu in vm["gpu"]:
            found = re.fullmatch(r"(?:\S+:)?vgpu-(\d+)", vm["name"])
            key = ("vgpu", int(found[1])) if found else ("process", vm["pid"])
            users[(key, gpu["device"], gpu["engine"])] = gpu
    return engines, users


def differences(doc, oracle, parts=False):
    names = FIGURES + (PARTS if parts else ())
    out = []
    for what, got, want in zip(("engine", "user"), rows_of(doc), oracle.measure()):
        got = {k: {n: v[n] for n in names} for k, v in got.items()}
        want = {k: {n: v[n] for n in names} for k, v in want.items()}
        for rows in (got, want):
            for key in [k for k, v in rows.items() if not any(v.values())]:
                del rows[key]
        for key in sorted(set(got) | set(want), key=str):
            if got.get(key) != want.get(key):
                out.append(f"{what} {key}: got {got.get(key)}, expected {want.get(key)}")
    return out
