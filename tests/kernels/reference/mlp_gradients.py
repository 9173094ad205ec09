#!/usr/bin/python3
"""Loss and gradient of an MLP by PyTorch in double precision, the numbers in tests/kernels/test_mlp.cpp.

    /usr/bin/python3 tests/kernels/reference/mlp_gradients.py        (Debian's python3-torch)

Everything is a formula of indices, so the test can make the same inputs: number i of tensor t (both from 0; weights are
counted as (in, out)) is 0.5 sin(1 + i + 7 t); number i of the samples is sin(0.37 i + 0.1 (i^2 mod 11)), the label of
sample b is 3 b mod 10. Printed are the loss and, for every tensor in the order of the model, the sum of
gradient_i cos(0.3 i).
"""
import torch

torch.set_default_dtype(torch.float64)
BATCH, WIDTHS = 9, [6, 40, 7, 10]

tensors = []
for inputs, outputs in zip(WIDTHS, WIDTHS[1:]):
    for shape in ((inputs, outputs), (outputs,)):
        i = torch.arange(torch.Size(shape).numel(), dtype=torch.float64)
        tensors.append((0.5 * torch.sin(1 + i + 7 * len(tensors))).reshape(shape).requires_grad_())
i = torch.arange(BATCH * WIDTHS[0], dtype=torch.float64)
x = torch.sin(0.37 * i + 0.1 * (i * i % 11)).reshape(BATCH, WIDTHS[0])
for layer in range(0, len(tensors), 2):
    x = x @ tensors[layer] + tensors[layer + 1]
    if layer + 2 < len(tensors):
        x = torch.relu(x)
loss = torch.nn.functional.cross_entropy(x, 3 * torch.arange(BATCH) % 10)
loss.backward()
print(f"loss {loss.item():.12f}")
for t, tensor in enumerate(tensors):
    gradient = tensor.grad.flatten()
    print(t, f"{(gradient * torch.cos(0.3 * torch.arange(len(gradient)))).sum().item():.12f}")
