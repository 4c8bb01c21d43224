# SPDX-License-Identifier: Apache-2.0
"""A program of PyTorch that hands a tensor on a GPU to another process of its own, by torch.multiprocessing: shared.py
STEPS. The other one works on it whenever it is asked. It comes to the same in each run."""
import sys

import steps
import torch
import torch.multiprocessing


def work(asked, done):
    tensor = asked.get()
    while asked.get():
        tensor.mul_(0.999).add_(1)
        torch.cuda.synchronize()
        done.put(True)
    del tensor
    done.put(True)


def main():
    context = torch.multiprocessing.get_context("spawn")
    asked, done = context.Queue(), context.Queue()
    other = context.Process(target=work, args=(asked, done))
    other.start()
    tensor, own, n = torch.ones(1 << 20, device="cuda"), torch.ones(1 << 20, device="cuda"), 0
    asked.put(tensor)
    for n in steps.turns(int(sys.argv[1])):
        own.mul_(0.999).add_(1)
        asked.put(True)
        done.get()
        if n % 50 == 0:
            steps.tell(n)
    asked.put(False)
    done.get()
    torch.cuda.synchronize()
    steps.tell_end(n + 1, [part.cpu().numpy().tobytes() for part in (tensor, own)])
    other.join(20)


# The other process reads this file, too.
if __name__ == "__main__":
    main()
