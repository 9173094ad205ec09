#!/usr/bin/python3
"""Does a network train here as it does in PyTorch? Test accuracy and loss of both, one node, over several seeds.

    tools/bench/compare_cnn.py [--program build/tools/starling] [--net zou_mnist] [--mnist FOLDER] [--steps 600] [--batch 32] [--rate 0.05]
                               [--seeds 5]

Without --mnist, which names a folder with MNIST's or Fashion-MNIST's IDX files, both
train on the shipped digits. Same data, steps, mini-batches without replacement, learning rate, plain SGD, distribution
of initial weights (He, the last layer Glorot), pixels 0 .. 1; only the random numbers differ. The difference of the means
is printed in standard errors; beyond 3 take more seeds, as five tell little of the deviation. Needs python3-torch and python3-h5py.

Measured with PyTorch 1.13, here first, mean and standard deviation of the test accuracy:
  small, digits, 600 steps of 16, rate 0.1, 5 seeds          0.949 +- 0.025   0.953 +- 0.025
  zou_fashion, digits, 150 steps of 16, 40 seeds             0.950 +- 0.007   0.948 +- 0.014
  zou_fashion, digits, 40 steps of 16, 40 seeds              0.849            0.869   (-2.2 standard errors)
  zou_fashion, MNIST, 100 steps of 32, 16 seeds              0.915 +- 0.021   0.921 +- 0.011
  zou_fashion, MNIST, 200 steps of 32, 20 seeds here, 5      0.945 +- 0.010   0.945 +- 0.005   (5 seeds here: 0.954 +- 0.004, by chance)
  zou_mnist, MNIST, 200 steps of 32, 5 seeds                 0.933 +- 0.008   0.940 +- 0.005
  resnet8, digits, 200 steps of 16, 5 seeds                  0.962 +- 0.013   0.960 +- 0.005

Batch normalization is evaluated with the statistics of 256 training samples, as in kernels/cnn.hpp: PyTorch's running
ones lag behind by design.
"""
import argparse
import gzip
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from simulator import add_program, checked

try:
    import h5py
    import numpy
    import torch
    from torch import nn
except ImportError as error:
    sys.exit(f"compare_cnn: needs PyTorch, h5py and numpy, found no {error.name}")

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.branch = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.GroupNorm(8, outputs), nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.GroupNorm(8, outputs))
        same = inputs == outputs and stride == 1
        self.shortcut = nn.Identity() if same else nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.GroupNorm(8, outputs))

    def forward(self, x):
        return torch.relu(self.branch(x) + self.shortcut(x))


def network(net, side):
    """The network of that name; `small` is the default of the workload."""
    if net == "small":
        layers = [nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(),
                  nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16 * (side // 4) ** 2, 32), nn.ReLU(), nn.Linear(32, 10)]
    elif net == "zou_mnist":
        layers = [nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.25),
                  nn.Flatten(), nn.Linear(64 * ((side - 4) // 2) ** 2, 128), nn.ReLU(), nn.Dropout(0.5),
                  nn.Linear(128, 10)]
    elif net == "zou_fashion":
        layers = [nn.Conv2d(1, 16, 5, padding=2), nn.BatchNorm2d(16, momentum=None), nn.ReLU(), nn.MaxPool2d(2),
                  nn.Conv2d(16, 32, 5, padding=2), nn.BatchNorm2d(32, momentum=None), nn.ReLU(), nn.MaxPool2d(2),
                  nn.Flatten(), nn.Linear(32 * (side // 4) ** 2, 10)]
    else:
        layers = [nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.GroupNorm(8, 16), nn.ReLU(), Residual(16, 16, 1),
                  Residual(16, 32, 2), Residual(32, 64, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)]
    made = nn.Sequential(*layers)
    for layer in made.modules():
        if isinstance(layer, (nn.Conv2d, nn.Linear)):
            inputs = layer.weight[0].numel()
            fan = inputs + layer.out_features if layer is layers[-1] else inputs
            nn.init.normal_(layer.weight, std=math.sqrt(2 / fan))
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
    return made


def idx(folder, name):
    path = pathlib.Path(folder, name)
    content = gzip.open(f"{path}.gz").read() if not path.exists() else path.read_bytes()
    rank = content[3]
    shape = numpy.frombuffer(content, ">u4", rank, 4)
    return numpy.frombuffer(content, numpy.uint8, offset=4 + 4 * rank).reshape(shape)


def digits(folder):
    """The shipped digits, shuffled, the last fifth held out; also as files in `folder` for the program."""
    table = numpy.loadtxt(ROOT / "scenarios/data/digits.csv", delimiter=",")
    numpy.random.default_rng(1797).shuffle(table)
    parts = numpy.split(table, [len(table) * 4 // 5])
    data = tuple((part[:, :64].reshape(-1, 8, 8) / 16, part[:, 64].astype(int)) for part in parts)
    for name, (images, labels) in zip(("train", "test"), data):
        with h5py.File(pathlib.Path(folder, f"{name}.h5"), "w") as file:
            file["x"], file["y"] = images, labels
    return data


def mnist(folder):
    return tuple((idx(folder, f"{part}-images-idx3-ubyte") / 255, idx(folder, f"{part}-labels-idx1-ubyte"))
                 for part in ("train", "t10k"))


def train_torch(arguments, data, seed):
    torch.manual_seed(seed)
    (images, labels), (test_images, test_labels) = (
        (torch.tensor(x, dtype=torch.float32).unsqueeze(1), torch.tensor(y, dtype=torch.int64)) for x, y in data)
    made = network(arguments.net, images.shape[-1])
    optimizer = torch.optim.SGD(made.parameters(), arguments.rate)
    order = torch.empty(0, dtype=torch.int64)
    for _ in range(arguments.steps):
        while len(order) < arguments.batch:  # a batch may straddle two epochs
            order = torch.cat([order, torch.randperm(len(images))])
        batch, order = order[:arguments.batch], order[arguments.batch:]
        optimizer.zero_grad()
        nn.functional.cross_entropy(made(images[batch]), labels[batch]).backward()
        optimizer.step()
    with torch.no_grad():
        for layer in made.modules():
            if isinstance(layer, nn.BatchNorm2d):
                layer.reset_running_stats()
        made(images[torch.randperm(len(images))[:256]])
        made.eval()
        logits = torch.cat([made(part) for part in test_images.split(500)])
        return (logits.argmax(1) == test_labels).double().mean().item(), \
            nn.functional.cross_entropy(logits, test_labels).item()


def train_here(arguments, folder, seed):
    output = pathlib.Path(folder, "run.h5")
    dataset = ([f"dataset = idx\ndirectory = {pathlib.Path(arguments.mnist).resolve()}"] if arguments.mnist else
               [f"dataset = hdf5\npath = {folder}/train.h5\ntest_path = {folder}/test.h5"])
    net = [] if arguments.net == "small" else [f"net = {arguments.net}"]
    scenario = pathlib.Path(folder, "run.ini")
    scenario.write_text("\n".join([
        "[run]", "nodes = 1", f"steps = {arguments.steps}", f"seed = {seed}", f"evaluate_every = {arguments.steps}",
        f"output = {output}", "[topology]", "kind = complete", "[network]", "kind = constant", "latency = 1 us", "bandwidth = 1 Gbit/s", "[compute]", "gradient = 1 ms",
        "[workload]", "kind = cnn", "partition = iid", f"batch_size = {arguments.batch}", *dataset, *net,
        "[algorithm]", "kind = dpsgd", f"learning_rate = {arguments.rate}"]))
    subprocess.run([arguments.program, "run", scenario], check=True, capture_output=True)
    with h5py.File(output) as results:
        return results["evaluation/test_accuracy"][-1], results["evaluation/test_loss"][-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_program(parser)
    parser.add_argument("--net", default="small", choices=["small", "zou_mnist", "zou_fashion", "resnet8"])
    parser.add_argument("--mnist", metavar="FOLDER")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rate", type=float, default=0.05)
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    checked(parser, arguments.program)
    if arguments.seeds < 2:
        parser.error("--seeds must be 2 or more")
    torch.set_num_threads(1)
    results = {}
    with tempfile.TemporaryDirectory(prefix="starling-compare-") as folder:
        data = mnist(arguments.mnist) if arguments.mnist else digits(folder)
        for name, train in (("starling", lambda seed: train_here(arguments, folder, seed)),
                            ("PyTorch", lambda seed: train_torch(arguments, data, seed))):
            start = time.monotonic()
            results[name] = list(zip(*(train(seed) for seed in range(1, arguments.seeds + 1))))
            print(f"{name:9}", *(f"{quantity} {statistics.mean(values):.4f} +- {statistics.stdev(values):.4f}"
                                for quantity, values in zip(("accuracy", "loss"), results[name])),
                  f"({time.monotonic() - start:.0f} s)", flush=True)
    for quantity, here, there in zip(("accuracy", "loss"), *results.values()):
        error = math.sqrt((statistics.variance(here) + statistics.variance(there)) / arguments.seeds)
        print(f"{quantity}: difference {(statistics.mean(here) - statistics.mean(there)) / error:+.1f} standard errors")


if __name__ == "__main__":
    main()
