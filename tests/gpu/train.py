# SPDX-License-Identifier: Apache-2.0
"""A training for tests/gpu/try-cuda: train.py STEPS. Says every 100th step, and in the end the SHA-256 of all
weights, which is the same for each run."""
import hashlib
import sys
import time

import torch


def main():
    steps = int(sys.argv[1])
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = False
    model = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.GELU(),
                                torch.nn.Linear(4096, 1024)).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    generator = torch.Generator(device="cuda")
    generator.manual_seed(3)
    longest, last = 0, None
    for step in range(steps):
        batch = torch.randn(256, 1024, device="cuda", generator=generator)
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
        time.sleep(0.005)
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().cpu().numpy().tobytes())
    print(f"end loss {value:.9g} longest_ms {longest * 1000:.0f} sha256 {digest.hexdigest()}", flush=True)


main()
