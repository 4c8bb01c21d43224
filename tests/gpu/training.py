# SPDX-License-Identifier: Apache-2.0
"""What the trainings of tests/gpu share: a small model, its steps, and what they say: every so many steps which one it
is, and in the end how long it once stood still and the SHA-256 of all weights."""
import time

import steps
import torch


def model_of(width, hidden):
    """The same one in each run, on the current GPU."""
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = False
    return torch.nn.Sequential(torch.nn.Linear(width, hidden), torch.nn.GELU(), torch.nn.Linear(hidden, width)).cuda()


def give_back(model, batch):
    """Has the model learn to give back what it is given."""
    return ((model(batch) - batch) ** 2).mean()


class Training:
    def __init__(self, model, loss_of=give_back, every=100):
        self.model, self.loss_of, self.every = model, loss_of, every
        self.optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        self.n, self.loss, self.last, self.longest = 0, None, None, 0

    def step(self, batch):
        loss = self.loss_of(self.model, batch)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.loss = loss.item()
        now = time.monotonic()
        if self.n > 10:
            self.longest = max(self.longest, now - self.last)
        self.last = now
        if self.n % self.every == 0:
            steps.tell(self.n)
        self.n += 1

    def end(self, *more):
        weights = (parameter.detach().cpu().numpy().tobytes() for parameter in self.model.parameters())
        steps.tell_end(self.n, weights, "loss", f"{self.loss:.9g}", "longest_ms", f"{self.longest * 1000:.0f}", *more)
