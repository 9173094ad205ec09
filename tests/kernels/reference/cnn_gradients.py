#!/usr/bin/python3
"""Losses and gradients of small networks by PyTorch in double precision, the numbers in tests/kernels/test_cnn.cpp.

    /usr/bin/python3 tests/kernels/reference/cnn_gradients.py        (Debian's python3-torch)

Everything is a formula of indices, so the test can make the same inputs: number i of tensor t (both from 0; a kernel is
counted as (row, column, channel in, channel out), a dense layer as (in, out) with channels last) is
a sin(1 + i + 7 t) with a = 0.1 for weights and biases, 1 + 0.2 sin(..) for scales; number i of the images is
sin(0.37 i + 0.1 (i^2 mod 11)), the label of sample b is 3 b mod 10. Printed are the loss and, for every tensor in the
order of the model, the sum of gradient_i cos(0.3 i).
"""
import torch
from torch import nn

torch.set_default_dtype(torch.float64)
BATCH = 4


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


class ChannelsLast(nn.Module):
    def forward(self, x):
        return x.permute(0, 2, 3, 1).flatten(1)


def networks():
    yield "zou_mnist without dropout on 8 x 8 x 1", 1, nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), ChannelsLast(),
        nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10))
    yield "zou_fashion on 8 x 8 x 1", 1, nn.Sequential(
        nn.Conv2d(1, 16, 5, padding=2), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 5, padding=2), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2), ChannelsLast(),
        nn.Linear(128, 10))
    yield "resnet8 on 8 x 8 x 3", 3, nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.GroupNorm(8, 16), nn.ReLU(),
        Residual(16, 16, 1), Residual(16, 32, 2), Residual(32, 64, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(64, 10))


def in_model_order(tensor):
    """The tensor as the test counts it: kernels (out, in, row, column) and dense layers (out, in) turned around."""
    return {4: lambda t: t.permute(2, 3, 1, 0), 2: lambda t: t.T, 1: lambda t: t}[tensor.dim()](tensor)


def main():
    for name, channels, network in networks():
        norms = {id(p) for m in network.modules() if isinstance(m, (nn.BatchNorm2d, nn.GroupNorm)) for p in [m.weight]}
        for t, parameter in enumerate(network.parameters()):
            ordered = in_model_order(parameter.data)
            wave = torch.sin(1 + torch.arange(ordered.numel()) + 7 * t).reshape(ordered.shape)
            ordered.copy_(1 + 0.2 * wave if id(parameter) in norms else 0.1 * wave)
        i = torch.arange(BATCH * 64 * channels)
        images = torch.sin(0.37 * i + 0.1 * (i * i % 11)).reshape(BATCH, 8, 8, channels).permute(0, 3, 1, 2)
        loss = nn.functional.cross_entropy(network(images), 3 * torch.arange(BATCH) % 10)
        loss.backward()
        print(f"// {name}\n{loss.item():.9g}, {{")
        for parameter in network.parameters():
            gradient = in_model_order(parameter.grad).flatten()
            print(f"{(gradient * torch.cos(0.3 * torch.arange(gradient.numel()))).sum().item():.7g}", end=", ")
        print("}")


if __name__ == "__main__":
    main()
