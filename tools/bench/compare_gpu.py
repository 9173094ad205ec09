#!/usr/bin/env python3
"""What a GPU does in PyTorch, for the table of tools/gpu_check: its own limits, and the steps of bench_cuda's cases.

    tools/bench/compare_gpu.py [--seconds 1] [--device cuda] [--share 1]

Prints "name <tab> number <tab> unit" lines. Limits: bytes read and written per second by a large copy, and operations
per second of a large product in float32 and in TF32. Steps: every node its own MLP; gather of the mini-batch from one
data set, forward, softmax cross-entropy, backward, update, as

  vmap     torch.func.vmap of torch.func.grad, then the update
  bmm      baddbmm with a hand-written backward pass, the update folded into the last product, in a CUDA graph

each in float32 and with TF32 allowed. Needs a PyTorch with torch.func (2.0 or later); --device cpu --share 0.01 tries it
without a GPU. Runs by the Python that is first in PATH, which may be the one that has PyTorch.
"""
import argparse
import statistics
import sys
import time

try:
    import torch
except ImportError as error:
    sys.exit(f"compare_gpu: needs PyTorch, found no {error.name}")

CASES = (  # as in tests/benchmarks/bench_cuda.cpp
    ("A 784-128-64-10, batch 32", (784, 128, 64, 10), 32, 1024),
    ("B 64-32-10, batch 16", (64, 32, 10), 16, 16384),
    ("C 784-1024-1024-10, batch 64", (784, 1024, 1024, 10), 64, 512),
)
SAMPLES = 16384
RATE = 0.01


def synchronize(options):
    if options.device == "cuda":
        torch.cuda.synchronize()


def seconds_of(call, options):
    """Median seconds of one call, after some to warm up."""
    for _ in range(3):
        call()
    synchronize(options)
    times = []
    begin = time.perf_counter()
    while not times or time.perf_counter() - begin < options.seconds:
        start = time.perf_counter()
        call()
        synchronize(options)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def show(name, number, unit):
    print(f"{name}\t{number:.6g}\t{unit}", flush=True)


def limits(options):
    floats = int((1 << 28) * options.share)
    a, b = torch.randn(floats, device=options.device), torch.empty(floats, device=options.device)
    show("limit copy", 8 * floats / seconds_of(lambda: b.copy_(a), options), "B/s")
    n = 8192 if options.share == 1 else 256
    x, y = (torch.randn(n, n, device=options.device) for _ in range(2))
    for name, allowed in (("float32", False), ("TF32", True)):
        torch.backends.cuda.matmul.allow_tf32 = allowed
        show(f"limit {name}", 2 * n**3 / seconds_of(lambda: x @ y, options), "FLOP/s")


class Problem:
    """Models of all nodes, stacked, and the data set."""

    def __init__(self, sizes, batch, nodes, options):
        # Drawn where they are needed: a billion numbers of case C would take the host longer than the measurement.
        on = {"generator": torch.Generator(options.device).manual_seed(1), "device": options.device}
        self.x = torch.rand(SAMPLES, sizes[0], **on)
        self.y = torch.randint(10, (SAMPLES,), **on)
        self.weights = [torch.randn(nodes, i, o, **on).mul_((2 / i)**0.5) for i, o in zip(sizes, sizes[1:])]
        self.biases = [torch.zeros(nodes, 1, o, device=options.device) for o in sizes[1:]]
        self.indices = torch.randint(SAMPLES, (64, nodes, batch), **on)
        self.index = self.indices[0].clone()
        self.rows = torch.arange(batch, device=options.device)
        self.batch, self.nodes, self.draw = batch, nodes, 0

    def next_batch(self):
        self.draw = (self.draw + 1) % len(self.indices)
        self.index.copy_(self.indices[self.draw])


def bmm_step(p):
    inputs = [p.x[p.index]]
    last = len(p.weights) - 1
    for layer, (weights, bias) in enumerate(zip(p.weights, p.biases)):
        z = torch.baddbmm(bias, inputs[-1], weights)
        inputs.append(z if layer == last else z.relu_())
    slope = torch.softmax(inputs.pop(), dim=2)
    slope.scatter_add_(2, p.y[p.index].unsqueeze(2),
                       torch.full((p.nodes, p.batch, 1), -1.0, device=slope.device))
    slope /= p.batch
    for layer in range(last, -1, -1):
        before = slope
        if layer > 0:
            slope = torch.bmm(before, p.weights[layer].transpose(1, 2)).mul_(inputs[layer] > 0)
        p.weights[layer].baddbmm_(inputs[layer].transpose(1, 2), before, alpha=-RATE)
        p.biases[layer].sub_(before.sum(dim=1, keepdim=True), alpha=RATE)


def bmm(p, options):
    if options.device != "cuda":
        return lambda: (p.next_batch(), bmm_step(p))
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            bmm_step(p)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        bmm_step(p)
    return lambda: (p.next_batch(), graph.replay())


def vmap(p, options):
    def loss(weights, biases, x, y):
        for layer, (w, b) in enumerate(zip(weights, biases)):
            x = torch.addmm(b, x, w)
            if layer < len(weights) - 1:
                x = torch.relu(x)
        return torch.nn.functional.cross_entropy(x, y)

    gradients = torch.func.vmap(torch.func.grad(loss, argnums=(0, 1)))

    def step():
        p.next_batch()
        slopes = gradients(p.weights, p.biases, p.x[p.index], p.y[p.index])
        for parameters, slope in zip((p.weights, p.biases), slopes):
            torch._foreach_add_(list(parameters), list(slope), alpha=-RATE)

    return step


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--share", type=float, default=1, help="of the nodes and sizes")
    options = parser.parse_args()
    show("torch " + torch.__version__, 1, "")
    limits(options)
    is_complete = True
    for name, sizes, batch, nodes in CASES:
        nodes = max(2, int(nodes * options.share))
        for make in (bmm, vmap):
            if make is vmap and not hasattr(torch, "func"):
                continue
            for mode, allowed in (("float32", False), ("TF32", True)):
                torch.backends.cuda.matmul.allow_tf32 = allowed
                figure = f"torch {make.__name__} {mode} {name}"
                try:
                    step = make(Problem(sizes, batch, nodes, options), options)
                    show(figure, nodes / seconds_of(step, options), "node-steps/s")
                except RuntimeError as error:  # costs this figure only
                    print(f"compare_gpu: {figure}: {error}", file=sys.stderr)
                    is_complete = False
    return 0 if is_complete else 1


if __name__ == "__main__":
    sys.exit(main())
