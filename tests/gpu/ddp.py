# SPDX-License-Identifier: Apache-2.0
"""One of two processes of a training for tests/gpu/try-cuda: ddp.py STEPS, with RANK, MASTER_ADDR and MASTER_PORT as
torchrun sets them. Each has a GPU, and they add up their gradients by NCCL. Says every 100th step, and in the end
the SHA-256 of all weights, which is the same for both and for each run."""
import hashlib
import os
import sys
import time

import torch
import torch.distributed


def main():
    rank, steps = int(os.environ["RANK"]), int(sys.argv[1])
    torch.cuda.set_device(rank)
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.distributed.init_process_group("nccl", rank=rank, world_size=2)
    model = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.GELU(), torch.nn.Linear(2048, 512)).cuda()
    model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    generator = torch.Generator(device="cuda")
    generator.manual_seed(3 + rank)
    longest, last = 0, None
    for step in range(steps):
        batch = torch.randn(128, 512, device="cuda", generator=generator)
        loss = ((model(batch) - batch) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        value = loss.item()
        now = time.monotonic()
        if last and step > 10:
            longest = max(longest, now - last)
        last = now
        if step % 100 == 0:
            print("step", step, flush=True)
        time.sleep(0.003)
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().cpu().numpy().tobytes())
    print(f"end loss {value:.9g} longest_ms {longest * 1000:.0f} sha256 {digest.hexdigest()}", flush=True)
    # The communicator is not taken down: the other rank may have ended.
    os._exit(0)


main()
