#!/usr/bin/python3
"""How many node-steps per second of convolutional networks and transformers, beside PyTorch doing the same work on the same machine?

A node-step: gather a mini-batch, gradient, mean of three neighboring models on a ring, update; every node has a model of its own. Starling's
figure is that of whole runs, through scenario, engine, recorded graph and results file: the time that more steps take. PyTorch goes from node
to node, autograd over modules, and averages all models, kept in one array, at once:
  threads    one process, each operation on all threads
  processes  as many processes as threads, each with its share of the nodes and without the others' models: averaging is among its own
Each is the best of several rounds, measured in turn with Starling's, since the machine may be shared. Samples are random: numbers cost the
same. `tools/bench/compare_cnn.py` tells whether both learn the same. Needs OpenBLAS beside PyTorch (libopenblas0-pthread), and says so.

usage: tools/bench/compare_networks.py [--program build/tools/starling] [--nodes 16] [--cases zou_mnist,gpt_small,..] [--rounds 3]
"""
import argparse
import dataclasses
import multiprocessing
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from good_blas import use_good_blas, without_blas

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from simulator import add_program, checked

try:
    import h5py
    import numpy
    import torch
    from torch import nn
    from torch.nn import functional
except ImportError as error:
    sys.exit(f"compare_networks: needs PyTorch, h5py and numpy, found no {error.name}")
use_good_blas()

from compare_cnn import network

RATE = 0.01
SAMPLES = 1024
CHARACTERS = 65  # as many as Shakespeare has
THREADS = len(os.sched_getaffinity(0))


@dataclasses.dataclass
class Images:
    net: str
    side: int
    channels: int
    batch: int
    flops: float  # multiplications and additions of a sample: three passes, two of the first layer

    def write(self, folder):
        random = numpy.random.default_rng(1)
        with h5py.File(folder / "samples.h5", "w") as file:
            file["x"] = random.random((SAMPLES, self.side, self.side, self.channels), dtype=numpy.float32)
            file["y"] = random.integers(0, 10, SAMPLES)
        return f"kind = cnn\ndataset = hdf5\npath = {folder}/samples.h5\ntest_path = {folder}/samples.h5\nnet = {self.net}"

    def module(self):
        made = network(self.net, self.side)
        if self.channels > 1:
            first = made[0]
            made[0] = nn.Conv2d(self.channels, first.out_channels, first.kernel_size, padding=first.padding, bias=first.bias is not None)
        return made

    def samples(self):
        return torch.rand(SAMPLES, self.channels, self.side, self.side), torch.randint(0, 10, (SAMPLES,))


class Block(nn.Module):
    """Pre-norm, as kernels/transformer_model.hpp."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.expand, self.contract = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norms[0](x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        weights = (q @ k.transpose(-2, -1)) * (width // self.heads) ** -0.5
        mask = torch.ones(length, length, dtype=torch.bool).triu(1)
        weights = weights.masked_fill(mask, float("-inf")).softmax(-1)
        x = x + self.project((weights @ v).transpose(1, 2).reshape(batch, length, width))
        return x + self.contract(functional.gelu(self.expand(self.norms[1](x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, width, layers, heads, context):
        super().__init__()
        self.token, self.position = nn.Embedding(CHARACTERS, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, CHARACTERS)

    def forward(self, tokens):
        x = self.token(tokens) + self.position(torch.arange(tokens.shape[1]))
        return self.head(self.norm(self.blocks(x))).flatten(0, 1)


@dataclasses.dataclass
class Text:
    width: int
    layers: int
    heads: int
    context: int
    batch: int

    @property
    def flops(self):
        products = self.layers * (12 * self.width ** 2 + self.width * self.context) + self.width * CHARACTERS
        return 6 * self.context * products

    def write(self, folder):
        letters = [chr(33 + i) for i in range(CHARACTERS)]
        (folder / "text.txt").write_text("".join(numpy.random.default_rng(1).choice(letters, SAMPLES * self.context)))
        return (f"kind = transformer\ndataset = text\npath = {folder}/text.txt\nwidth = {self.width}\nlayers = {self.layers}\n"
                f"heads = {self.heads}\ncontext = {self.context}")

    def module(self):
        return Gpt(self.width, self.layers, self.heads, self.context)

    def samples(self):
        tokens = torch.randint(0, CHARACTERS, (SAMPLES, self.context + 1))
        return tokens[:, :-1], tokens[:, 1:]


def convolution(outputs, terms, channels, passes=3):
    return 2 * passes * outputs * terms * channels


CASES = {
    "zou_mnist": Images("zou_mnist", 28, 1, 32, convolution(26 ** 2, 9, 32, 2) + convolution(24 ** 2, 9 * 32, 64) + 6 * (9216 + 10) * 128),
    "zou_fashion": Images("zou_fashion", 28, 1, 32, convolution(28 ** 2, 25, 16, 2) + convolution(14 ** 2, 25 * 16, 32) + 6 * 1568 * 10),
    "resnet8": Images("resnet8", 32, 3, 32, convolution(32 ** 2, 27, 16, 2) + 2 * convolution(32 ** 2, 144, 16) +
                      convolution(16 ** 2, 144 + 288 + 16, 32) + convolution(8 ** 2, 288 + 576 + 32, 64)),
    "gpt_tiny": Text(32, 1, 2, 32, 8),
    "gpt_small": Text(64, 2, 4, 64, 8),
    "gpt_medium": Text(128, 4, 4, 128, 8),
}


class Nodes:
    """Nodes of PyTorch, each with a module whose parameters are views of the node's row."""

    def __init__(self, case, nodes):
        self.case = case
        self.x, self.y = case.samples()
        self.modules = [case.module() for _ in range(nodes)]
        size = sum(p.numel() for p in self.modules[0].parameters())
        self.rows, self.mixed = torch.empty(nodes, size), torch.empty(nodes, size)
        self.gradients = torch.zeros(nodes, size)
        for module, row, gradient in zip(self.modules, self.rows, self.gradients):
            at = 0
            for p in module.parameters():
                place = slice(at, at + p.numel())
                row[place] = p.detach().flatten()
                p.data, p.grad = row[place].view(p.shape), gradient[place].view(p.shape)
                at += p.numel()

    def step(self):
        self.gradients.zero_()
        for module in self.modules:
            batch = torch.randint(0, SAMPLES, (self.case.batch,))
            functional.cross_entropy(module(self.x[batch]), self.y[batch].flatten()).backward()
        torch.add(self.rows.roll(1, 0), self.rows.roll(-1, 0), out=self.mixed)
        self.rows.add_(self.mixed).mul_(1 / 3).add_(self.gradients, alpha=-RATE)

    def seconds(self, least):
        """Of a step, the best within at least so many seconds."""
        self.step()
        best, begin = float("inf"), time.monotonic()
        while time.monotonic() - begin < least:
            start = time.monotonic()
            self.step()
            best = min(best, time.monotonic() - start)
        return best


def share_of_nodes(task):
    case, nodes, least, barrier = task
    torch.set_num_threads(1)
    torch.manual_seed(1)
    made = Nodes(CASES[case], nodes)
    barrier.wait()
    return made.seconds(least)


def by_processes(case, nodes, least):
    """Node-steps per second: all do their share at the same time."""
    processes = min(THREADS, nodes)
    with multiprocessing.Manager() as manager, multiprocessing.Pool(processes) as pool:
        barrier = manager.Barrier(processes)
        share = nodes // processes
        return share * processes / max(pool.map(share_of_nodes, [(case, share, least, barrier)] * processes, 1))


def by_threads(case, nodes, least):
    torch.set_num_threads(THREADS)
    return nodes / Nodes(CASES[case], nodes).seconds(least)


class Starling:
    def __init__(self, program, case, nodes, folder):
        self.program, self.nodes, self.folder = program, nodes, folder
        (folder / "run.ini").write_text("\n".join([
            "[run]", f"nodes = {nodes}", "steps = 2", "evaluate_every = 1000000", f"output = {folder}/run.h5", "[topology]", f"kind = {'ring' if nodes > 2 else 'complete'}",
            "[network]", "kind = constant", "latency = 1 us", "[compute]", "gradient = 1 ms", "[workload]", CASES[case].write(folder),
            f"batch_size = {CASES[case].batch}", "[algorithm]", "kind = dpsgd", f"learning_rate = {RATE}"]))
        self.steps = 10

    def run(self, steps):
        start = time.monotonic()
        subprocess.run([self.program, "run", "-q", self.folder / "run.ini", f"run.steps={steps}"], check=True,
                       env={**without_blas(), "OMP_WAIT_POLICY": "passive"})
        return time.monotonic() - start

    def rate(self, least):
        """Node-steps per second, of what more steps than two take; so many that these take so long at least."""
        short = self.run(2)
        while True:
            more = self.run(2 + self.steps) - short
            if more >= least:
                return self.nodes * self.steps / more
            self.steps = int(self.steps * min(10, max(2, 1.3 * least / max(more, 1e-3))))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_program(parser)
    parser.add_argument("--nodes", type=int, default=16)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4, help="for each figure of a round")
    options = parser.parse_args()
    checked(parser, options.program)
    print(f"PyTorch {torch.__version__}, OpenBLAS {os.environ['OPENBLAS_CORETYPE']}, {THREADS} threads, {options.nodes} nodes, "
          f"load {os.getloadavg()[0]:.1f}", flush=True)
    for case in options.cases.split(","):
        with tempfile.TemporaryDirectory(prefix="starling-compare-") as folder:
            here = Starling(options.program, case, options.nodes, pathlib.Path(folder))
            ways = {"Starling": here.rate, "threads": lambda least: by_threads(case, options.nodes, least),
                    "processes": lambda least: by_processes(case, options.nodes, least)}
            rates = {name: 0.0 for name in ways}
            for _ in range(options.rounds):
                for name, way in ways.items():
                    rates[name] = max(rates[name], way(options.seconds))
        best = max(rates["threads"], rates["processes"])
        flops = CASES[case].flops * CASES[case].batch
        print(f"{case:11} Starling {rates['Starling']:8.1f} node-steps/s ({rates['Starling'] * flops / 1e9:5.1f} Gflop/s), threads "
              f"{rates['threads']:8.1f}, processes {rates['processes']:8.1f}: {rates['Starling'] / best:.1f} times the best", flush=True)
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
