# SPDX-License-Identifier: Apache-2.0
"""A training for try-cuda: train.py STEPS. It comes to the same weights in each run."""
import sys
import time

import torch
from steps import turns
from training import Training, model_of


def main():
    training = Training(model_of(1024, 4096))
    generator = torch.Generator(device="cuda")
    generator.manual_seed(3)
    for _ in turns(int(sys.argv[1])):
        training.step(torch.randn(256, 1024, device="cuda", generator=generator))
        time.sleep(0.005)
    training.end()


main()
