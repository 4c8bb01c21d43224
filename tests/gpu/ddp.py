# SPDX-License-Identifier: Apache-2.0
"""One of two processes of a training: ddp.py STEPS [nccl|gloo], with RANK, MASTER_ADDR and MASTER_PORT as torchrun sets
them. Each has a GPU, and they add up their gradients by NCCL, as by default, or by gloo. Both come to the same weights,
in each run."""
import os
import sys
import time

import torch
import torch.distributed
from steps import turns
from training import Training, model_of


def agree(ended):
    """Whether any of the two is to end."""
    flag = torch.tensor([int(ended)], device="cuda")
    torch.distributed.all_reduce(flag, torch.distributed.ReduceOp.MAX)
    return bool(flag.item())


def main():
    rank, backend = int(os.environ["RANK"]), (sys.argv[2:] or ["nccl"])[0]
    torch.cuda.set_device(rank)
    torch.distributed.init_process_group(backend, rank=rank, world_size=2)
    training = Training(torch.nn.parallel.DistributedDataParallel(model_of(512, 2048), device_ids=[rank]))
    generator = torch.Generator(device="cuda")
    generator.manual_seed(3 + rank)
    for _ in turns(int(sys.argv[1]), agree):
        training.step(torch.randn(128, 512, device="cuda", generator=generator))
        time.sleep(0.003)
    training.end()
    # The communicator is not taken down: the other rank may have ended.
    os._exit(0)


main()
