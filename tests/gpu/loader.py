# SPDX-License-Identifier: Apache-2.0
"""A training for try-cuda as people write it: loader.py STEPS. Its batches come from workers that are forked after
the GPU was first used, stay, and pin memory; each looks at memory of its own with every batch. In the end it also
says how many of these looks were wrong, and whether the workers are those that it began with. It comes to the same
weights in each run."""
import multiprocessing
import sys
import zlib

import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info
from training import Training, model_of

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
    torch.use_deterministic_algorithms(True, warn_only=True)
    training, bad = Training(model_of(256, 2048)), 0
    loader = iter(DataLoader(Data(), batch_size=BATCH, num_workers=2, pin_memory=True, persistent_workers=True,
                             multiprocessing_context="fork", worker_init_fn=begin))
    first = workers()
    for _ in range(steps):
        batch, flags = next(loader)
        bad += int(flags.sum())
        training.step(batch.cuda(non_blocking=True))
    same = len(first) == 2 and workers() == first
    training.end("bad", bad, "workers", "same" if same else "other")


main()
