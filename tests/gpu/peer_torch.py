# SPDX-License-Identifier: Apache-2.0
"""PyTorch on two GPUs for try-cuda: peer_torch.py MIB [copy] has a tensor of so many MiB on each GPU that it can see,
with "copy" copied once from one GPU to the other, says "ready", and adds one to them again and again. With SIGTERM it
says how many values are wrong."""
import signal
import sys
import time

import torch

ended = []
signal.signal(signal.SIGTERM, lambda *_: ended.append(True))


def main():
    numbers = int(sys.argv[1]) * (1 << 20) // 4
    tensors = [torch.zeros(numbers, device=f"cuda:{gpu}") for gpu in range(torch.cuda.device_count())]
    if "copy" in sys.argv and len(tensors) > 1:
        tensors[1].copy_(tensors[0])
        tensors[0].copy_(tensors[1])
    steps = 0
    while not ended:
        for tensor in tensors:
            tensor += 1
            torch.cuda.synchronize(tensor.device)
        steps += 1
        if steps == 1:
            print("ready", flush=True)
        time.sleep(0.005)
    bad = sum(int((tensor != steps).sum()) for tensor in tensors)
    print(f"steps {steps} bad {bad}", flush=True)
    sys.exit(bad != 0)


main()
