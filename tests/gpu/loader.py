# SPDX-License-Identifier: Apache-2.0
"""A training as people write it: loader.py STEPS [fork|spawn|forkserver [pinned]], as by default with fork and pinned
memory. Its batches come from workers that begin after the GPU was first used, and stay; each looks at memory of its own
with every batch. In the end it also says how many of these looks were wrong, and whether the workers are those that it
began with. It comes to the same weights in each run."""
import multiprocessing
import signal
import sys
import zlib

import torch
from steps import turns
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
    # A forked one has what its parent does with it.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    data = get_worker_info().dataset
    generator = torch.Generator().manual_seed(number)
    data.memory = torch.randint(256, (MEMORY_BYTES,), dtype=torch.uint8, generator=generator).numpy()
    data.crc = zlib.crc32(data.memory)


def workers():
    return sorted(child.pid for child in multiprocessing.active_children() if child.is_alive())


def main():
    number, how = int(sys.argv[1]), sys.argv[2:] or ["fork", "pinned"]
    torch.use_deterministic_algorithms(True, warn_only=True)
    training, bad = Training(model_of(256, 2048)), 0
    loader = iter(DataLoader(Data(), batch_size=BATCH, num_workers=2, pin_memory="pinned" in how,
                             persistent_workers=True, multiprocessing_context=how[0], worker_init_fn=begin))
    first = workers()
    for _ in turns(number):
        batch, flags = next(loader)
        bad += int(flags.sum())
        training.step(batch.cuda(non_blocking=True))
    same = len(first) == 2 and workers() == first
    training.end("bad", bad, "workers", "same" if same else "other")


# Workers that are spawned read this file, too.
if __name__ == "__main__":
    main()
