# SPDX-License-Identifier: Apache-2.0
"""The part `peer` of try-cuda: programs on two GPUs, one of which may access a large allocation of the other, are
refused before they are stopped; with what the reason advises, they stop and go on. The bare calls show whether each
refusal is necessary."""
import time

from realgpu import Machine, Program, agents, bare, built, kill_all, row, say, script, text_of

MIB = 1024
REFUSALS = 10
PAUSE_S = 0.3
TORCH = "PYTORCH_CUDA_ALLOC_CONF"
POOL = {"XLA_PYTHON_CLIENT_MEM_FRACTION": ".03"}


def peer(kind, mib=MIB):
    return Program(built("cuda-peer"), str(mib), kind)


def torch(**environment):
    return script("peer_torch.py", MIB, "copy", **environment)


def jax(**environment):
    return script("peer_jax.py", MIB // 2, **{**POOL, **environment})


# What is refused, and what its reason has to name. `one-way` would come back, but the watch does not see which GPU may
# access which. Programs with a pool that another GPU may access come back, and some of them fail later. Of these the
# bare calls only report.
REFUSED = [("before", lambda: peer("before"), "cuMemAlloc_v2"),
           ("512 MiB", lambda: peer("after", 512), "cuCtxEnablePeerAccess"),
           ("rows", lambda: peer("rows"), "cuMemAllocPitch_v2"),
           ("create", lambda: peer("create"), "cuMemSetAccess"),
           ("array", lambda: peer("array"), "cuArray3DCreate_v2"),
           ("one-way", lambda: peer("one-way"), "cuCtxEnablePeerAccess"),
           ("pool", lambda: peer("pool"), "cuMemPoolSetAccess"),
           ("PyTorch", torch, f"{TORCH}=expandable_segments:True"),
           ("PyTorch, cudaMallocAsync", lambda: torch(**{TORCH: "backend:cudaMallocAsync"}), "cuMemPoolSetAccess"),
           ("JAX", jax, "CUDA_VISIBLE_DEVICES")]
NOT_LOST_FOR_CERTAIN = ("array", "one-way", "pool", "PyTorch, cudaMallocAsync")

# What comes back.
MOVED = [("none", lambda: peer("none")), ("384 MiB", lambda: peer("before", 384)),
         ("disabled", lambda: peer("disabled")), ("freed", lambda: peer("freed", 4096)),
         ("PyTorch, expandable_segments", lambda: torch(**{TORCH: "expandable_segments:True"})),
         ("PyTorch, one GPU", lambda: torch(CUDA_VISIBLE_DEVICES="0")),
         ("JAX, one GPU", lambda: jax(CUDA_VISIBLE_DEVICES="1"))]


def refused(machine, name, start, text):
    program = start()
    times = sum(machine.refuses(program.pid, text, "one of its GPUs access") for _ in range(REFUSALS))
    time.sleep(PAUSE_S)
    row(name, f"refused {times} of {REFUSALS} times", program.end())
    return times == REFUSALS


def lost(name, start):
    """By the bare calls."""
    program = start()
    try:
        what = f"comes back: {text_of(bare('row', program.pid)[program.pid])}"
    except RuntimeError as error:
        what = f"lost: {error}"
    program.kill()
    row(name, "bare calls", what)
    return what.startswith("lost") or name in NOT_LOST_FOR_CERTAIN


def moved(machine, name, start):
    program = start()
    figure = agents(machine.move()[1], program.pid)
    time.sleep(PAUSE_S)
    row(name, text_of(figure), program.end())
    return True


def tried(what, name, *arguments):
    """One program that fails says so, and the others follow."""
    try:
        return what(*arguments)
    except Exception as error:
        row(name, "FAILED", str(error)[-500:])
        return False
    finally:
        kill_all()


def part_refused(gpus):
    with Machine(gpus[:2]) as machine:
        done = [tried(refused, name, machine, name, start, text) for name, start, text in REFUSED]
    return all(done)


def part_lost(_):
    return all([tried(lost, name, name, start) for name, start, _ in REFUSED])


def part_moved(gpus):
    with Machine(gpus[:2]) as machine:
        done = [tried(moved, name, machine, name, start) for name, start in MOVED]
    say(f"{sum(done)} of {len(done)}")
    return all(done)
