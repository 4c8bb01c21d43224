# SPDX-License-Identifier: Apache-2.0
"""What a server of a language model does whose layers are split over two GPUs, in turns with no end: server.py STEPS
KIND. Each GPU has a half of the weights and comes to a half of each sum, and both need the whole. KIND is
  nccl    two processes, with RANK, MASTER_ADDR and MASTER_PORT; NCCL adds up
  custom  the same, but each reads the other's memory, which it has opened by CUDA's IPC
  one     one process that has both GPUs, each with a thread, and copies from one to the other
Each comes to the same in each run."""
import os
import sys
import threading

import steps
import torch
import torch.distributed as distributed
from torch.multiprocessing import reductions

WIDTH, HIDDEN, LAYERS, REQUESTS, KEPT = 1024, 2048, 4, 32, 128


class Half:
    """One GPU's: its weights, and what it keeps of the last turns."""

    def __init__(self, rank):
        self.rank, self.device = rank, torch.device("cuda", rank)
        generator = torch.Generator(device=self.device).manual_seed(rank)

        def weights(*shape):
            return torch.randn(*shape, device=self.device, generator=generator) / shape[0] ** 0.5

        self.layers = [(weights(WIDTH, HIDDEN), weights(HIDDEN, WIDTH)) for _ in range(LAYERS)]
        self.x = torch.ones(REQUESTS, WIDTH, device=self.device)
        self.kept = torch.zeros(KEPT, REQUESTS, WIDTH, device=self.device)
        self.mine = torch.zeros(REQUESTS, WIDTH, device=self.device)

    @torch.no_grad()
    def turn(self, n, whole_of):
        self.kept[n % KEPT] = self.x
        for into, out_of in self.layers:
            self.mine.copy_(torch.nn.functional.gelu(self.x @ into) @ out_of)
            self.x = torch.nn.functional.layer_norm(self.x + whole_of(self), (WIDTH,))
        self.x = self.x + self.kept.mean(0)

    def pieces(self):
        return [tensor.cpu().numpy().tobytes() for tensor in (self.x, self.kept)]


def run(half, number, whole_of, agree):
    n = 0
    for n in steps.turns(number, agree):
        half.turn(n, whole_of)
        if n % 50 == 0:
            torch.cuda.synchronize(half.device)
            steps.tell(n)
    steps.tell_end(n + 1, half.pieces())


def by_nccl(half):
    whole = half.mine.clone()
    distributed.all_reduce(whole)
    return whole


def opened(half):
    """The memory of the other process."""
    offers = [None, None]
    distributed.all_gather_object(offers, reductions.reduce_tensor(half.mine))
    rebuild, arguments = offers[1 - half.rank]
    return rebuild(*arguments)


def ranks(number, kind):
    rank = int(os.environ["RANK"])
    torch.cuda.set_device(rank)
    distributed.init_process_group("nccl" if kind == "nccl" else "gloo", rank=rank, world_size=2)
    half = Half(rank)
    theirs = opened(half) if kind == "custom" else None

    def by_reading(half):
        torch.cuda.synchronize()
        distributed.barrier()
        # In the same order on both.
        both = [half.mine, theirs.to(half.device)][::1 if rank == 0 else -1]
        whole = both[0] + both[1]
        torch.cuda.synchronize()
        distributed.barrier()
        return whole

    def agree(ended):
        flag = torch.tensor([int(ended)], device="cuda")
        distributed.all_reduce(flag, distributed.ReduceOp.MAX)
        return bool(flag.item())

    run(half, number, by_nccl if kind == "nccl" else by_reading, agree)
    # The other rank may have ended.
    os._exit(0)


def one(number):
    halves = [Half(rank) for rank in range(2)]
    ready, done, turn, over = threading.Barrier(2), threading.Barrier(2), threading.Barrier(3), []

    def by_copying(half):
        torch.cuda.synchronize(half.device)
        ready.wait()
        both = [other.mine.to(half.device) for other in halves]
        whole = both[0] + both[1]
        torch.cuda.synchronize(half.device)
        done.wait()
        return whole

    def work(half):
        torch.cuda.set_device(half.device)
        n = 0
        while True:
            turn.wait()
            if over:
                return
            half.turn(n, by_copying)
            torch.cuda.synchronize(half.device)
            n += 1
            turn.wait()

    threads = [threading.Thread(target=work, args=(half,), daemon=True) for half in halves]
    for thread in threads:
        thread.start()
    n = 0
    for n in steps.turns(number):
        turn.wait()
        turn.wait()
        if n % 50 == 0:
            steps.tell(n)
    over.append(True)
    turn.wait()
    steps.tell_end(n + 1, halves[0].pieces() + halves[1].pieces())


def main():
    number, kind = int(sys.argv[1]), sys.argv[2]
    torch.use_deterministic_algorithms(True, warn_only=True)
    if kind == "one":
        one(number)
    elif kind in ("nccl", "custom"):
        ranks(number, kind)
    else:
        sys.exit(f"there is no kind {kind}")


main()
