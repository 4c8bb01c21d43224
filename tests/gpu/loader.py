# SPDX-License-Identifier: Apache-2.0
"""A training for tests/gpu/try-cuda as people write it: loader.py STEPS. Its batches come from workers that are
forked after the GPU was first used, stay, and pin memory; each looks at memory of its own with every batch. Says
every 100th step, and in the end how many of these looks were wrong, whether the workers are those that it began
with, and the SHA-256 of all weights, which is the same for each run."""
import hashlib
import multiprocessing
import sys
import time
import zlib

import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info

BATCH = 64
MEMORY_BYTES = 8 << 20


class Data(Dataset):
    memory = crc = None

    def __len__(self):
        return BATCH * 1000000

    def __getitem__(self, index):
        bad = index % BATCH == 0 and zlib.crc32(self.memory) != self.crc
        return torch.randn(256, generator=torch.Generator().manual_seed(index)), int(bad)


def begin(number):
    data = get_worker_info().dataset
    generator = torch.Generator().manual_seed(number)
    data.memory = torch.randint(256, (MEMORY_BYTES,), dtype=torch.uint8, generator=generator).numpy()
    data.crc = zlib.crc32(data.memory)


def workers():
    return sorted(child.pid for child in multiprocessing.active_children() if child.is_alive())


def main():
    steps = int(sys.argv[1])
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.use_deterministic_algorithms(True, warn_only=True)
    model = torch.nn.Sequential(torch.nn.Linear(256, 2048), torch.nn.GELU(), torch.nn.Linear(2048, 256)).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loader = DataLoader(Data(), batch_size=BATCH, num_workers=2, pin_memory=True, persistent_workers=True,
                        multiprocessing_context="fork", worker_init_fn=begin)
    longest, last, bad, first = 0, None, 0, None
    for step, (batch, flags) in enumerate(loader):
        if step == steps:
            break
        first = first or workers()
        bad += int(flags.sum())
        batch = batch.cuda(non_blocking=True)
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
    same = len(first) == 2 and workers() == first
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().cpu().numpy().tobytes())
    print(f"end loss {value:.9g} longest_ms {longest * 1000:.0f} bad {bad} workers {'same' if same else 'other'} "
          f"sha256 {digest.hexdigest()}", flush=True)


main()
