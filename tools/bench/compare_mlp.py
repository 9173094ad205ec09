#!/usr/bin/python3
"""How many node-steps per second, beside PyTorch and numpy doing the same work on the same machine?

A node-step: gather a mini-batch, gradient of a multilayer perceptron with softmax cross-entropy, mean of three
neighboring models on a ring, update; every node has a model of its own. Starling's figure is that of whole runs, through
scenario, engine, recorded graph and results file (bench_node_steps, `end to end`). The others hold all models in one
array and do a step of all nodes at once:
  autograd   torch.baddbmm over stacked weights, gradients by torch.autograd
  by hand    the same with a hand-written backward pass, averaging and update folded into one baddbmm per layer
  numpy      the same with numpy.matmul
Each is the best of several rounds, measured in turn with Starling's, since the machine may be shared.

usage: tools/bench/compare_mlp.py [--program build/tests/benchmarks/bench_node_steps] [--nodes 1024] [--cases ABC] [--seconds 10]
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import time

from good_blas import use_good_blas, without_blas

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from simulator import add_program, checked

CASES = {  # widths, batch, goal (times the best of the others), nodes as a part of --nodes
    "A": ((784, 128, 64, 10), 32, 6, 1),
    "B": ((64, 32, 10), 16, 10, 1),
    "C": ((784, 1024, 1024, 10), 64, 3, 16),
}
SAMPLES = 16384
RATE = 0.02

try:
    import numpy as np
    import torch
except ImportError as error:
    sys.exit(f"compare_mlp: needs PyTorch and numpy, found no {error.name}")
use_good_blas()


class Models:
    """All nodes' models in one row each, and views of the layers in it: weights (nodes, inputs, outputs), biases
    (nodes, 1, outputs)."""

    def __init__(self, nodes, widths, flat):
        self.flat, self.layers, at = flat, [], 0
        for inputs, outputs in zip(widths, widths[1:]):
            weights = flat[:, at:at + inputs * outputs].reshape(nodes, inputs, outputs)
            at += inputs * outputs
            self.layers.append((weights, flat[:, at:at + outputs].reshape(nodes, 1, outputs)))
            at += outputs


def parameters(widths):
    return sum((inputs + 1) * outputs for inputs, outputs in zip(widths, widths[1:]))


class Torch:
    """Both ways with PyTorch."""

    def __init__(self, nodes, widths, batch):
        self.nodes, self.widths, self.batch = nodes, widths, batch
        self.x = torch.rand(SAMPLES, widths[0])
        self.y = torch.randint(0, widths[-1], (SAMPLES,))
        self.flats = [0.05 * torch.randn(1, parameters(widths)).repeat(nodes, 1), torch.empty(nodes, parameters(widths))]

    def draw(self):
        indices = torch.randint(0, SAMPLES, (self.nodes * self.batch,))
        return (self.x.index_select(0, indices).view(self.nodes, self.batch, self.widths[0]),
                self.y.index_select(0, indices))

    def neighbors(self, new, old):
        """new <- left + right of the ring."""
        torch.add(old[:-2], old[2:], out=new[1:-1])
        torch.add(old[-1], old[1], out=new[0])
        torch.add(old[-2], old[0], out=new[-1])

    def autograd(self):
        x, labels = self.draw()
        old, new = self.flats
        old.requires_grad_(True)
        for layer, (weights, bias) in enumerate(Models(self.nodes, self.widths, old).layers):
            x = torch.baddbmm(bias, x, weights)
            if layer + 2 < len(self.widths):
                x = torch.relu(x)
        loss = torch.nn.functional.cross_entropy(x.view(-1, self.widths[-1]), labels, reduction="sum") / self.batch
        gradient, = torch.autograd.grad(loss, old)
        old.requires_grad_(False)
        self.neighbors(new, old)
        new.add_(old).mul_(1 / 3).add_(gradient, alpha=-RATE)
        self.flats.reverse()

    def by_hand(self):
        x, labels = self.draw()
        old, new = self.flats
        layers = Models(self.nodes, self.widths, old).layers
        inputs = [x]
        for layer, (weights, bias) in enumerate(layers):
            x = torch.baddbmm(bias, x, weights)
            if layer + 1 < len(layers):
                x.relu_()
                inputs.append(x)
        slope = torch.softmax(x, 2)
        slope.view(-1, self.widths[-1]).scatter_add_(1, labels[:, None], torch.full((len(labels), 1), -1.0))
        slope.mul_(1 / self.batch)
        self.neighbors(new, old)
        new.add_(old)
        targets = Models(self.nodes, self.widths, new).layers
        for layer in reversed(range(len(layers))):
            weights, bias = targets[layer]
            weights.baddbmm_(inputs[layer].transpose(1, 2), slope, beta=1 / 3, alpha=-RATE)
            bias.mul_(1 / 3).sub_(slope.sum(1, keepdim=True), alpha=RATE)
            if layer > 0:
                slope = torch.bmm(slope, layers[layer][0].transpose(1, 2)).mul_(inputs[layer] > 0)
        self.flats.reverse()


class Numpy:
    """The same by hand with numpy."""

    def __init__(self, nodes, widths, batch):
        self.nodes, self.widths, self.batch = nodes, widths, batch
        self.random = np.random.default_rng(1)
        self.x = self.random.random((SAMPLES, widths[0]), dtype=np.float32)
        self.y = self.random.integers(0, widths[-1], SAMPLES)
        start = np.float32(0.05) * self.random.standard_normal((1, parameters(widths)), dtype=np.float32)
        self.flats = [np.repeat(start, nodes, 0), np.empty((nodes, parameters(widths)), np.float32)]

    def step(self):
        indices = self.random.integers(0, SAMPLES, self.nodes * self.batch)
        x = self.x[indices].reshape(self.nodes, self.batch, -1)
        old, new = self.flats
        layers = Models(self.nodes, self.widths, old).layers
        inputs = [x]
        for layer, (weights, bias) in enumerate(layers):
            x = np.matmul(x, weights)
            x += bias
            if layer + 1 < len(layers):
                np.maximum(x, 0, out=x)
                inputs.append(x)
        x -= x.max(2, keepdims=True)
        slope = np.exp(x, out=x)
        slope /= slope.sum(2, keepdims=True)
        slope.reshape(len(indices), -1)[np.arange(len(indices)), self.y[indices]] -= 1
        slope /= np.float32(self.batch)
        np.add(old[:-2], old[2:], out=new[1:-1])
        np.add(old[-1], old[1], out=new[0])
        np.add(old[-2], old[0], out=new[-1])
        new += old
        new *= np.float32(1 / 3)
        targets = Models(self.nodes, self.widths, new).layers
        for layer in reversed(range(len(layers))):
            weights, bias = targets[layer]
            weights -= np.float32(RATE) * np.matmul(inputs[layer].transpose(0, 2, 1), slope)
            bias -= np.float32(RATE) * slope.sum(1, keepdims=True)
            if layer > 0:
                slope = np.matmul(slope, layers[layer][0].transpose(0, 2, 1))
                slope *= inputs[layer] > 0
        self.flats.reverse()


def best_rate(step, nodes, seconds):
    """Node-steps per second of the best round."""
    step()
    best, begin = 0.0, time.monotonic()
    while best == 0 or time.monotonic() - begin < seconds:
        start = time.monotonic()
        step()
        best = max(best, nodes / (time.monotonic() - start))
    return best


def starling_rates(program, nodes, case, seconds):
    """End to end, and of the bare loop over the kernels, on all threads."""
    environment = {**without_blas(), "OMP_WAIT_POLICY": "passive"}
    done = subprocess.run([program, str(nodes), str(seconds / 20), "4", case],
                          env=environment, stdout=subprocess.PIPE, text=True, check=True)
    whole = re.findall(rf"^{case} end to end .* nodes +(\d+)/s", done.stdout, re.MULTILINE)
    bare = re.findall(rf"^{case} with averaging .* nodes +(\d+)/s", done.stdout, re.MULTILINE)
    return float(whole[-1]), float(bare[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_program(parser, "tests/benchmarks/bench_node_steps", "Starling's part")
    parser.add_argument("--nodes", type=int, default=1024)
    parser.add_argument("--cases", default="ABC")
    parser.add_argument("--seconds", type=float, default=10, help="for each figure")
    options = parser.parse_args()
    checked(parser, options.program)
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    print(f"PyTorch {torch.__version__}, numpy {np.__version__}, OpenBLAS {os.environ['OPENBLAS_CORETYPE']}, "
          f"{torch.get_num_threads()} threads, load {os.getloadavg()[0]:.1f}")
    for case in options.cases:
        widths, batch, goal, divisor = CASES[case]
        nodes = max(4, options.nodes // divisor)
        stacked = Torch(nodes, widths, batch)
        others = {"autograd": best_rate(stacked.autograd, nodes, options.seconds),
                  "by hand": best_rate(stacked.by_hand, nodes, options.seconds)}
        del stacked
        others["numpy"] = best_rate(Numpy(nodes, widths, batch).step, nodes, options.seconds)
        whole, bare = starling_rates(options.program, options.nodes, case, options.seconds)
        best = max(others.values())
        rates = ", ".join(f"{name} {rate:,.0f}" for name, rate in others.items())
        print(f"{case}  {nodes} nodes: Starling {whole:,.0f} node-steps/s (bare loop {bare:,.0f}); {rates}; "
              f"{whole / best:.1f} times the best (goal {goal}), bare loop {bare / best:.1f} times", flush=True)
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
