# SPDX-License-Identifier: Apache-2.0
"""The rows of the matrix: which programs there are, how they are started, and what must be there beside them."""
import contextlib
import dataclasses
import os
import re
import signal
import subprocess
import sys
import time

from realgpu import HERE, MIB, smi

STOPS = 5


class NotHere(Exception):
    """The machine has not what the row needs."""


class Lost(Exception):
    pass


@dataclasses.dataclass
class Row:
    program: str
    # Of each process, as words. STEPS is how many it makes, DIRECTORY one of the row's.
    commands: list
    environment: dict = dataclasses.field(default_factory=dict)
    # Modules of Python, or programs.
    needs: tuple = ()
    gpus: int = 1
    stops: int = STOPS
    limit_s: int = 100
    # What is there meanwhile: it has the row's directory, and says what the environment is besides.
    beside: object = None
    # Each process begins when the one before is ready.
    in_turn: bool = False
    by_name: bool = False
    # Where its directory is.
    below: object = None


def worker(*kind, mib=64, n=1, **more):
    return {"commands": n * [["cuda-worker", str(mib * MIB), *kind]], **more}


def script(name, *words, n=1, needs=("torch",), **more):
    return {"commands": n * [[sys.executable, os.path.join(HERE, name), "STEPS", *words]], "needs": needs, **more}


def models(*words, **more):
    return script("models.py", *words, **more)


def jax(kind, share, **more):
    environment = {"XLA_PYTHON_CLIENT_MEM_FRACTION": share, **more.pop("environment", {})}
    return script("jax_steps.py", kind, needs=("jax",), environment=environment, **more)


def offered(kind):
    return {"commands": [["cuda-worker", str(16 * MIB), f"{end}{kind}", "DIRECTORY/offer"]
                         for end in ("export", "import")], "in_turn": True}


# ---- what must be there beside ----

def session_of(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return int(file.read().rsplit(")", 1)[1].split()[3])
    except OSError:
        return 0


def session(leader):
    """The processes that it has started, as far as they did not leave, and itself."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and session_of(name) == leader]


def kill_session(process):
    """By pid, what it has started too. False if something does not end."""
    for pid in session(process.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        return False
    return True


@contextlib.contextmanager
def running(command, environment=None):
    process = subprocess.Popen(command, env={**os.environ, **(environment or {})}, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        yield process
    finally:
        kill_session(process)


@contextlib.contextmanager
def mps(directory):
    environment = {"CUDA_MPS_PIPE_DIRECTORY": directory, "CUDA_MPS_LOG_DIRECTORY": directory}
    with running(["nvidia-cuda-mps-control", "-f"], environment):
        time.sleep(1)
        yield environment
        subprocess.run(["nvidia-cuda-mps-control"], input="quit\n", text=True, timeout=20, check=False,
                       env={**os.environ, **environment})


@contextlib.contextmanager
def mig(_):
    if [["Enabled"]] != smi("mig.mode.current")[:1]:
        raise NotHere("MIG is off on this machine")
    parts = re.findall(r"UUID: (MIG-[^)]+)", subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True,
                                                           timeout=60, check=True).stdout)
    if not parts:
        raise NotHere("MIG is on, and the GPU has no part")
    yield {"CUDA_VISIBLE_DEVICES": parts[0]}


@contextlib.contextmanager
def monitor(_):
    with running(["nvidia-smi", "dmon", "-d", "1"]) as process:
        yield {}
        if process.poll() is not None:
            raise Lost("nvidia-smi dmon has ended")


RANKS = {"n": 2, "gpus": 2, "limit_s": 120}
NO_NCCL_MEMORY = {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"}
PIECES = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
TORCH_ASYNC = {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}
JAX_ASYNC = {"XLA_PYTHON_CLIENT_ALLOCATOR": "cuda_async"}
LOADER = {"limit_s": 120}
ROWS = {
    "threads": Row("200 threads, each with a stream and memory", **worker("threads")),
    "handler": Row("its own handler of SIGSEGV, and faults all the time", **worker("handler")),
    "graph-memory": Row("CUDA graph with memory nodes", **worker("memory-graph")),
    "file": Row("file in memory, mapped and registered (cuMemHostRegister)", **worker("file", "DIRECTORY/file", below="/dev/shm")),
    "weights": Row("file on a disk, registered to be read only", **worker("weights", "DIRECTORY/weights")),
    "forks": Row("children forked between the stops, which stay", **worker("forks")),
    "monitor": Row("nvidia-smi dmon beside", **worker(beside=monitor, needs=("nvidia-smi",))),
    "jax-loop": Row("JAX, jitted steps in a tight loop", **jax("loop", ".03")),
    "cupy": Row("CuPy: RawKernel, FFT, pool", **script("cupy_steps.py", needs=("cupy",))),
    "triton": Row("Triton", **script("triton_steps.py", needs=("torch", "triton"))),
    "transformer": Row("PyTorch, transformer in bfloat16", **models("transformer")),
    "compiled": Row("the same by torch.compile", **models("compiled", needs=("torch", "triton"), limit_s=170)),
    "loader-spawn": Row("DataLoader, persistent workers by spawn", **script("loader.py", "spawn", **LOADER)),
    "loader-fork": Row("DataLoader, persistent workers by fork", **script("loader.py", "fork", **LOADER)),
    "loader-server": Row("DataLoader, persistent workers by forkserver",
                         **script("loader.py", "forkserver", **LOADER)),
    "loader-pinned": Row("DataLoader, forked workers and pinned memory",
                         **script("loader.py", "fork", "pinned", **LOADER)),
    "many": Row("32 processes at once", **worker(mib=16, n=32, limit_s=150)),
    "jax-pool": Row("JAX, pool of 12 % of the memory", **jax("loop", ".12", limit_s=150)),
    "managed": Row("unified memory", **worker("managed")),
    "ipc": Row("CUDA IPC, memory", **offered("")),
    "ipc-pool": Row("CUDA IPC, pool of cuMemAllocAsync", **offered("-pool")),
    "mps": Row("MPS", **worker(beside=mps, needs=("nvidia-cuda-mps-control",))),
    "mig": Row("part of a GPU by MIG", **worker(beside=mig)),
    "shared": Row("torch.multiprocessing, tensor on a GPU handed over", **script("shared.py", limit_s=120)),
    "jax-whole": Row("JAX as by default, pool of 75 % of the memory",
                     **jax("loop", ".75", stops=2, limit_s=400, by_name=True)),
    "ddp-gloo": Row("DDP by gloo", **script("ddp.py", "gloo", **RANKS)),
    "pipeline": Row("one process, pipeline over two GPUs", **models("pipeline", gpus=2)),
    "data-parallel": Row("one process, DataParallel", **models("data-parallel", gpus=2)),
    "server-one": Row("tensor-parallel server, one process that copies", **script("server.py", "one", gpus=2)),
    "server-net": Row("tensor-parallel server, NCCL with NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1",
                      **script("server.py", "nccl", environment=NO_NCCL_MEMORY, **RANKS)),
    "large-pieces": Row("tensor of 1 GiB, copied to the other GPU, expandable_segments:True",
                        **models("large", environment=PIECES, gpus=2)),
    "large-async": Row("tensor of 1 GiB, copied to the other GPU, backend:cudaMallocAsync",
                       **models("large", environment=TORCH_ASYNC, gpus=2)),
    "pmap-async": Row("jax.pmap, XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async",
                      **jax("pmap", ".01", environment=JAX_ASYNC, gpus=2, limit_s=150)),
    "jax-two-async": Row("JAX that sees two GPUs, XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async",
                         **jax("loop", ".01", environment=JAX_ASYNC, gpus=2, limit_s=150)),
    "ddp-nccl": Row("DDP by NCCL as by default", **script("ddp.py", "nccl", **RANKS)),
    "server-nccl": Row("tensor-parallel server, NCCL as by default", **script("server.py", "nccl", **RANKS)),
    "server-custom": Row("tensor-parallel server, ranks that read each other's memory",
                         **script("server.py", "custom", **RANKS)),
    "large": Row("tensor of 1 GiB, copied to the other GPU", **models("large", gpus=2)),
    "pmap": Row("jax.pmap as by default", **jax("pmap", ".03", gpus=2)),
    "jax-two": Row("JAX that sees two GPUs, as by default", **jax("loop", ".03", gpus=2)),
}
