# SPDX-License-Identifier: Apache-2.0
"""A program is not stopped if one of its GPUs may access a large allocation of another: the driver could not bring it
back. The driver is made up (tests/guest/fake-cuda.c); the probes in it are the kernel's own."""
import pytest
from cudaguest import FIRST, MIB, SECOND, slot_path
from cudawatch import a_guest, a_host, a_tracing, prepare, refused, released, watches  # noqa: F401
from guestd import LONG_MS, Agent

ANOTHER = "0b" * 16
LIMIT = 512 * MIB
CONTEXT = 0x5000
TORCH = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"

ALLOCATE = ("cuMemAlloc_v2", "to", LIMIT)
ENABLE = ("cuCtxEnablePeerAccess", CONTEXT, 0)
DISABLE = ("cuCtxDisablePeerAccess", CONTEXT)
CREATE = ("cuMemCreate", "to", LIMIT, "on:0", 0)


def on_two(guest, mib=2048, **more):
    """A program with so much memory on each of two GPUs."""
    if SECOND not in guest.gpus:
        guest.plug(SECOND, ANOTHER, node=1)
    worker = guest.start(mib=mib, **more)
    worker.has_memory(ANOTHER, mib)
    return worker


# Calls after which the driver could not bring the program back, and the calls that are named.
LOSE = [
    ([ALLOCATE, ENABLE], ["cuMemAlloc_v2", "cuCtxEnablePeerAccess"]),
    ([ENABLE, ALLOCATE], ["cuCtxEnablePeerAccess", "cuMemAlloc_v2"]),
    ([("cuMemAllocPitch_v2", "to", "to", MIB, 512), ENABLE], ["cuMemAllocPitch_v2"]),
    ([CREATE, ("cuMemSetAccess", 0, LIMIT, "for:0,1", 2)], ["cuMemCreate", "cuMemSetAccess"]),
    ([CREATE, ("cuMemSetAccess", 0, LIMIT, "for:1", 1)], ["cuMemSetAccess"]),
    ([CREATE, ("cuMemSetAccess", 0, LIMIT, "for:0,1,2,3", 4)], ["cuMemSetAccess"]),
    ([ALLOCATE, ENABLE, DISABLE, ENABLE], ["cuCtxEnablePeerAccess"]),
    ([ALLOCATE, ENABLE, ("cuCtxDisablePeerAccess", CONTEXT + 1)], ["cuCtxEnablePeerAccess"]),
    ([ALLOCATE, ENABLE, ("cuCtxEnablePeerAccess", CONTEXT + 1, 0), DISABLE], ["cuCtxEnablePeerAccess"]),
]


def test_large_memory_that_another_gpu_may_access(guest, host):
    for calls, named in LOSE:
        worker = on_two(guest)
        for call in calls:
            worker.call(*call)
        assert refused(host, worker, "it has a single allocation of 512 MiB") == {worker.pid: "no"}, calls
        message = prepare(host)["message"]
        for text in (*(f"{name} called by fake-cuda-worker" for name in named), TORCH,
                     "Which GPUs may access which memory, and what was freed, is only partly known.",
                     "CUDA_VISIBLE_DEVICES naming one GPU"):
            assert text in message, message
        worker.kill()


# Calls after which it is brought back.
LIVE = [
    # Below the limit.
    [("cuMemAlloc_v2", "to", LIMIT - 1), ENABLE],
    # Many below the limit.
    [("cuMemAlloc_v2", "to", 200 * MIB)] * 40 + [ENABLE],
    # Rows below the limit.
    [("cuMemAllocPitch_v2", "to", "to", MIB, 511), ENABLE],
    # Without access.
    [ALLOCATE],
    # Access without an allocation.
    [ENABLE],
    # Disabled again.
    [ALLOCATE, ENABLE, DISABLE],
    # Disabled before.
    [ENABLE, DISABLE, ALLOCATE],
    # Memory of a pool.
    [ENABLE, ("cuMemAllocAsync", "to", LIMIT, 0)],
    # Created, with peers.
    [CREATE, ("cuMemSetAccess", 0, LIMIT, "for:0", 1), ENABLE],
    # Access the other way.
    [("cuMemCreate", "to", LIMIT, "on:1", 0), ("cuMemSetAccess", 0, LIMIT, "for:1", 1)],
    # Pieces.
    [("cuMemCreate", "to", 20 * MIB, "on:0", 0)] * 40 + [("cuMemSetAccess", 0, 40 * LIMIT, "for:0,1", 2)],
]


def test_what_comes_back_is_released(guest, host):
    workers = [on_two(guest) for _ in LIVE]
    for worker, calls in zip(workers, LIVE):
        for call in calls:
            worker.call(*call)
    released(guest, host)
    assert [worker.end()[:2] for worker in workers] == [(0, 1)] * len(LIVE)


def test_memory_that_is_there_no_more(guest, host):
    """With less memory on each GPU than the smallest large allocation had, this was freed; with memory on one GPU,
    no other may access any."""
    worker = on_two(guest, mib=700)
    worker.call("cuMemAlloc_v2", "to", 701 * MIB)
    worker.call(*ENABLE)
    released(guest, host)
    worker.has_memory(ANOTHER, 701)
    refused(host, worker, "it has a single allocation of 701 MiB")
    worker.has_memory(ANOTHER, 0)
    released(guest, host)
    assert worker.end()[:2] == (0, 2)


def test_driver_does_not_tell_of_the_memory(guest, host):
    worker = on_two(guest, mib=16)
    worker.call(*ALLOCATE)
    worker.call(*ENABLE)
    released(guest, host)
    guest.fault("nvml 0 9")
    refused(host, worker, "it has a single allocation of 512 MiB")


def test_pool_that_another_gpu_may_access(guest, host):
    """PyTorch and JAX with pools came back, and failed at the next copy between two GPUs."""
    worker = on_two(guest)
    worker.call("cuMemPoolSetAccess", 0, "for:1", 1)
    refused(host, worker, "access another's memory pool (cuMemPoolSetAccess called by fake-cuda-worker)")
    worker.has_memory(ANOTHER, 0)
    released(guest, host)
    assert worker.end()[:2] == (0, 1)


@pytest.mark.parametrize("library,has_pieces", [("libtorch_cuda.so", True), ("xla_cuda_plugin.so", False)],
                         ids=["torch", "jax"])
def test_advice_is_for_the_framework(guest, host, library, has_pieces):
    worker = on_two(guest)
    worker.call(*ALLOCATE, by=library)
    worker.call(*ENABLE, by=library)
    refused(host, worker, f"cuMemAlloc_v2 called by {library}")
    message = prepare(host)["message"]
    assert (TORCH in message) == has_pieces and "CUDA_VISIBLE_DEVICES naming one GPU" in message


@pytest.mark.parametrize("last", ["call", "memory"])
def test_at_the_last_moment(guest, host, last):
    """After the look, before all are locked: a call, or memory that is there again."""
    worker, slow = on_two(guest, mib=2048 if last == "call" else 16), guest.start()
    worker.call(*ENABLE)
    if last == "memory":
        worker.call(*ALLOCATE)
    guest.fault(f"lock {slow.pid} wait")
    number = host.request("prepare", deadline_ms=LONG_MS, devices=[{"path": slot_path(FIRST)}])
    host.until_step("lock")
    if last == "call":
        worker.call(*ALLOCATE)
    else:
        worker.has_memory(ANOTHER, 600)
    guest.fault()
    progress = []
    done = host.answer(number, progress)
    assert (done["code"], done["undone"]) == ("unreleasable", True), done
    assert f"process {worker.pid} " in done["message"] and "a single allocation of 512 MiB" in done["message"]
    assert "checkpoint" not in {p["step"] for p in progress}
    assert worker.end()[:2] == (0, 0) and slow.end()[:2] == (0, 0)


def test_another_agent_knows(guest, tracing):
    assert tracing
    with Agent(guest) as first, first.host() as host:
        watches(first, 1)
        worker = on_two(guest)
        worker.call(*ALLOCATE)
        worker.call(*ENABLE)
        refused(host, worker, "cuMemAlloc_v2 called by fake-cuda-worker")
    with Agent(guest) as agent, agent.host() as host:
        assert refused(host, worker, "cuMemAlloc_v2 called by fake-cuda-worker") == {worker.pid: "no"}


def test_who_was_not_watched(guest):
    """On several GPUs, with as much memory as matters; the guest's owner may allow it."""
    worker = on_two(guest)
    with Agent(guest) as agent, agent.host() as host:
        unknown = "one of its GPUs may have access to an allocation of 512 MiB"
        assert refused(host, worker, unknown) == {worker.pid: "unknown"}
        assert "used CUDA before its calls were watched" in prepare(host)["message"]
        worker.has_memory(ANOTHER, 0)
        released(guest, host)
    little = on_two(guest, mib=500)
    worker.kill()
    with Agent(guest) as agent, agent.host() as host:
        released(guest, host)
        little.has_memory(ANOTHER, 512)
        refused(host, little, unknown)
    guest.configure("[cuda]\nunwatched=allow\n")
    with Agent(guest) as agent, agent.host() as host:
        released(guest, host)
        little.call(*ALLOCATE)
        little.call(*ENABLE)
        refused(host, little, "a single allocation of 512 MiB")
