# SPDX-License-Identifier: Apache-2.0
"""One of two processes of a training for try-cuda: ddp.py STEPS, with RANK, MASTER_ADDR and MASTER_PORT as torchrun
sets them. Each has a GPU, and they add up their gradients by NCCL. Both come to the same weights, in each run."""
import os
import sys
import time

import torch
import torch.distributed
from training import Training, model_of


def main():
    rank = int(os.environ["RANK"])
    torch.cuda.set_device(rank)
    torch.distributed.init_process_group("nccl", rank=rank, world_size=2)
    training = Training(torch.nn.parallel.DistributedDataParallel(model_of(512, 2048), device_ids=[rank]))
    generator = torch.Generator(device="cuda")
    generator.manual_seed(3 + rank)
    for _ in range(int(sys.argv[1])):
        training.step(torch.randn(128, 512, device="cuda", generator=generator))
        time.sleep(0.003)
    training.end()
    # The communicator is not taken down: the other rank may have ended.
    os._exit(0)


main()
