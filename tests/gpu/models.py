# SPDX-License-Identifier: Apache-2.0
"""Programs of PyTorch for the matrix: models.py STEPS KIND. KIND is
  transformer    a language model like GPT-2, trained in bfloat16
  compiled       the same by torch.compile
  pipeline       a model whose two halves are on two GPUs
  data-parallel  a model that DataParallel has on two GPUs
  large          a tensor of 1 GiB, of which some was copied from one GPU to the other
Each comes to the same in each run."""
import math
import sys

import steps
import torch
from torch.nn import functional
from training import Training, give_back, model_of

WORDS, LENGTH, WIDTH, HEADS, BLOCKS, BATCH = 8000, 256, 512, 8, 6, 8
LARGE = (1 << 30) // 4
PIECE = 1 << 16


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(WIDTH) for _ in range(2))
        self.heads_of = torch.nn.Linear(WIDTH, 3 * WIDTH)
        self.joined = torch.nn.Linear(WIDTH, WIDTH)
        self.wide = torch.nn.Sequential(torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.GELU(),
                                        torch.nn.Linear(4 * WIDTH, WIDTH))
        self.register_buffer("later", torch.ones(LENGTH, LENGTH).triu(1).bool())

    def forward(self, x):
        shape = x.shape
        query, key, value = (part.view(shape[0], LENGTH, HEADS, -1).transpose(1, 2)
                             for part in self.heads_of(self.norms[0](x)).chunk(3, -1))
        scores = (query @ key.transpose(-1, -2) / math.sqrt(WIDTH / HEADS)).masked_fill(self.later, -math.inf)
        x = x + self.joined((scores.softmax(-1) @ value).transpose(1, 2).reshape(shape))
        return x + self.wide(self.norms[1](x))


class Transformer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(WORDS, WIDTH)
        self.places = torch.nn.Parameter(torch.zeros(LENGTH, WIDTH))
        self.blocks = torch.nn.Sequential(*(Block() for _ in range(BLOCKS)))
        self.next = torch.nn.Linear(WIDTH, WORDS)

    def forward(self, words):
        return self.next(self.blocks(self.words(words) + self.places))


def loss_of_words(model, words):
    with torch.autocast("cuda", torch.bfloat16):
        found = model(words)
    return functional.cross_entropy(found[:, :-1].flatten(0, 1).float(), words[:, 1:].flatten())


def generator_of(seed):
    return torch.Generator(device="cuda").manual_seed(seed)


def transformer(number, compiled):
    model = Transformer().cuda()
    training = Training(torch.compile(model) if compiled else model, loss_of_words, 20)
    generator = generator_of(2)
    for _ in steps.turns(number):
        training.step(torch.randint(WORDS, (BATCH, LENGTH), device="cuda", generator=generator))
    training.end()


class Pipeline(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = model_of(512, 2048)
        self.second = model_of(512, 2048).to("cuda:1")

    def forward(self, x):
        return self.second(self.first(x).to("cuda:1")).to("cuda:0")


def on_two(number, model):
    training, generator = Training(model, give_back, 20), generator_of(2)
    for _ in steps.turns(number):
        training.step(torch.randn(64, 512, device="cuda", generator=generator))
    training.end()


def large(number):
    """Each step adds to a piece of it, and copies that."""
    here, there, n = torch.zeros(LARGE, device="cuda:0"), torch.zeros(PIECE, device="cuda:1"), 0
    for n in steps.turns(number):
        piece = here[n * PIECE % LARGE:][:PIECE]
        piece.add_(n + 1)
        there.add_(piece.to("cuda:1"))
        if n % 100 == 0:
            torch.cuda.synchronize(1)
            steps.tell(n)
    steps.tell_end(n + 1, [tensor.cpu().numpy().tobytes() for tensor in (here, there)])


def main():
    number, kind = int(sys.argv[1]), sys.argv[2]
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.manual_seed(1)
    if kind in ("transformer", "compiled"):
        transformer(number, kind == "compiled")
    elif kind == "pipeline":
        on_two(number, Pipeline())
    elif kind == "data-parallel":
        on_two(number, torch.nn.DataParallel(model_of(512, 2048), [0, 1]))
    elif kind == "large":
        large(number)
    else:
        sys.exit(f"there is no kind {kind}")


# Processes that torch.compile starts may read this file, too.
if __name__ == "__main__":
    main()
