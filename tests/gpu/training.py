# SPDX-License-Identifier: Apache-2.0
"""What the trainings of try-cuda share: a small model, its steps, and what they say: every 100th step, and in the
end how long it once stood still and the SHA-256 of all weights."""
import hashlib
import time

import torch


def model_of(width, hidden):
    """The same one in each run, on the current GPU."""
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = False
    return torch.nn.Sequential(torch.nn.Linear(width, hidden), torch.nn.GELU(), torch.nn.Linear(hidden, width)).cuda()


class Training:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        self.n, self.loss, self.last, self.longest = 0, None, None, 0

    def step(self, batch):
        """Has the model learn to give back what it is given."""
        loss = ((self.model(batch) - batch) ** 2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.loss = loss.item()
        now = time.monotonic()
        if self.n > 10:
            self.longest = max(self.longest, now - self.last)
        self.last = now
        if self.n % 100 == 0:
            print("step", self.n, flush=True)
        self.n += 1

    def end(self, *more):
        digest = hashlib.sha256()
        for parameter in self.model.parameters():
            digest.update(parameter.detach().cpu().numpy().tobytes())
        print(f"end loss {self.loss:.9g} longest_ms {self.longest * 1000:.0f}", *more, "sha256", digest.hexdigest(),
              flush=True)
