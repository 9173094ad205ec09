#!/usr/bin/python3
"""The transformer workload in PyTorch, for comparison. Needs python3-torch 1.13 or later.

    transformer_torch.py fixed                     numbers in test_transformer.cpp: a fixed model on fixed tokens
    transformer_torch.py train TEXT [STEPS]        one node learns a text, 5 seeds: last training and test loss
    transformer_torch.py speed [THREADS]           tokens per second of the transformer that bench_kernels measures

The model is that of kernels/transformer_model.hpp, written with PyTorch's own functions.

Measured with PyTorch 1.13 and 1.1 MB of Shakespeare's plays, `train TEXT 500`, test loss of seeds 1 .. 5:
    PyTorch   2.298 2.272 2.246 2.263 2.244, mean 2.264, standard deviation 0.022
    Starling  2.260 2.265 2.246 2.220 2.242, mean 2.247, standard deviation 0.018
which differ by 1.4 standard errors. `starling run` of a scenario with one node, kind = allreduce, learning_rate = 0.1,
momentum = 0.9, 500 steps and the workload that train() names.
"""
import math
import sys
import time

import torch
import torch.nn.functional as F


class Transformer(torch.nn.Module):
    def __init__(self, layers, heads, width, context, vocabulary, classes, predicts_next, dtype):
        super().__init__()
        self.heads, self.width, self.predicts_next = heads, width, predicts_next
        self.names = []
        add = lambda name, *shape: (self.names.append(name),
                                    self.register_parameter(name, torch.nn.Parameter(torch.zeros(*shape, dtype=dtype))))
        self.layers = layers
        add("token", vocabulary, width), add("position", context, width)
        for l in range(layers):
            add(f"norm1_{l}", 2, width)
            add(f"qkv_{l}", width, 3 * width), add(f"qkv_bias_{l}", 3 * width)
            add(f"project_{l}", width, width), add(f"project_bias_{l}", width)
            add(f"norm2_{l}", 2, width)
            add(f"expand_{l}", width, 4 * width), add(f"expand_bias_{l}", 4 * width)
            add(f"contract_{l}", 4 * width, width), add(f"contract_bias_{l}", width)
        add("norm", 2, width), add("head", width, classes), add("head_bias", classes)

    def initialize(self, seed):
        generator = torch.Generator().manual_seed(seed)
        residual = 1 / math.sqrt(2 * self.layers)
        with torch.no_grad():
            for name, value in self.named_parameters():
                if name.startswith("norm"):
                    value[0], value[1] = 1, 0
                elif "bias" in name:
                    value.zero_()
                else:
                    factor = 0.1 if name in ("token", "position") else 1 / math.sqrt(value.shape[0])
                    factor *= 0.1 if name == "head" else 1
                    factor *= residual if name.startswith(("project", "contract")) else 1
                    value.copy_(factor * torch.randn(value.shape, generator=generator, dtype=value.dtype))

    def forward(self, tokens):
        """Logits (batch, length, classes), or (batch, classes), of sequences of one length: (batch, length)."""
        get = lambda name: getattr(self, name)
        normed = lambda h, p: F.layer_norm(h, (self.width,), p[0], p[1], 1e-5)
        batch, length = tokens.shape
        h = self.token[tokens] + self.position[:length]
        mask = torch.full((length, length), -math.inf, dtype=h.dtype).triu(1)
        for l in range(self.layers):
            qkv = normed(h, get(f"norm1_{l}")) @ get(f"qkv_{l}") + get(f"qkv_bias_{l}")
            q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in qkv.split(self.width, 2))
            weights = F.softmax(q @ k.transpose(2, 3) / math.sqrt(self.width // self.heads) + mask, -1)
            attended = (weights @ v).transpose(1, 2).reshape(batch, length, self.width)
            h = h + attended @ get(f"project_{l}") + get(f"project_bias_{l}")
            wide = F.gelu(normed(h, get(f"norm2_{l}")) @ get(f"expand_{l}") + get(f"expand_bias_{l}"), approximate="tanh")
            h = h + wide @ get(f"contract_{l}") + get(f"contract_bias_{l}")
        out = normed(h, self.norm)
        return (out if self.predicts_next else out.mean(1)) @ self.head + self.head_bias


def pattern(index):
    """A number in -0.5 .. 0.5 for each index, exact in single precision; the same in test_transformer.cpp."""
    return ((index * 2654435761 % 2**32) >> 16) / 65536 - 0.5


def fixed():
    for predicts_next in (True, False):
        classes = 11 if predicts_next else 3
        model = Transformer(2, 2, 12, 9, 11, classes, predicts_next, torch.float64)
        index = 0
        with torch.no_grad():
            for name, value in model.named_parameters():
                flat = torch.tensor([pattern(index + i) for i in range(value.numel())], dtype=torch.float64)
                index += value.numel()
                value.copy_(flat.view(value.shape))
                if name.startswith("norm"):
                    value[0] += 1
        loss, labels = 0, 0
        for s, length in enumerate((5, 9, 1, 7)):
            tokens = torch.tensor([[(7 * t * t + 3 * s) % 11 for t in range(length)]])
            logits = model(tokens)[0]
            if predicts_next:
                target = torch.tensor([(7 * (t + 1) ** 2 + 3 * s) % 11 for t in range(length)])
            else:
                logits, target = logits[None], torch.tensor([s % 3])
            loss = loss + F.cross_entropy(logits, target, reduction="sum")
            labels += len(target)
        loss = loss / labels
        loss.backward()
        print("next" if predicts_next else "label", f"loss {loss.item():.9f}")
        index = 0
        for name, value in model.named_parameters():
            weights = torch.tensor([pattern(5 * (index + i) + 1) for i in range(value.numel())], dtype=torch.float64)
            index += value.numel()
            flat = value.grad.flatten()
            print(f'    {{"{name}", {flat.norm().item():.9f}, {(flat @ weights).item():.9f}}},')


def train(path, steps):
    """Like `dataset = text` with layers 2, heads 4, width 64, context 64, batch_size 16, and allreduce on one node."""
    context, batch, learning_rate, momentum = 64, 16, 0.1, 0.9
    text = open(path, "rb").read()
    numbers = {c: i for i, c in enumerate(sorted(set(text)))}
    tokens = torch.tensor([numbers[c] for c in text])
    held_out = int(0.1 * len(text))
    learn, test = tokens[:-held_out], tokens[-held_out:]
    cut = lambda part: [(part[i:i + context], part[i + 1:i + 1 + context]) for i in range(0, len(part) - 1 - context, context)]
    windows, held = cut(learn), cut(test)
    held_x, held_y = (torch.stack(part) for part in zip(*held))
    for seed in range(1, 6):
        torch.manual_seed(seed)
        model = Transformer(2, 4, 64, context, len(numbers), len(numbers), True, torch.float32)
        model.initialize(seed)
        optimizer = torch.optim.SGD(model.parameters(), learning_rate, momentum=momentum)
        order, losses = [], []
        for step in range(steps):
            if len(order) < batch:
                order += torch.randperm(len(windows)).tolist()
            chosen, order = order[:batch], order[batch:]
            x, y = (torch.stack(part) for part in zip(*(windows[i] for i in chosen)))
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        with torch.no_grad():
            parts = [F.cross_entropy(model(held_x[i:i + 256]).flatten(0, 1), held_y[i:i + 256].flatten(), reduction="sum").item()
                     for i in range(0, len(held_x), 256)]
        print(f"seed {seed}: training loss of the last 50 steps {sum(losses[-50:]) / 50:.4f}, "
              f"test loss {sum(parts) / held_y.numel():.4f}", flush=True)


def speed():
    for threads in ((int(sys.argv[2]),) if len(sys.argv) > 2 else (1, 2)):
        torch.set_num_threads(threads)
        model = Transformer(2, 4, 128, 64, 65, 65, True, torch.float32)
        model.initialize(1)
        x = torch.randint(65, (16, 64))
        best = 0
        for _ in range(20):
            start = time.perf_counter()
            model.zero_grad()
            F.cross_entropy(model(x).flatten(0, 1), x.flatten()).backward()
            best = max(best, x.numel() / (time.perf_counter() - start))
        print(f"{threads} threads: {best:.0f} tokens/s")


if __name__ == "__main__":
    if sys.argv[1:2] == ["fixed"]:
        fixed()
    elif sys.argv[1:2] == ["train"] and len(sys.argv) > 2:
        train(sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 1000)
    elif sys.argv[1:2] == ["speed"]:
        speed()
    else:
        sys.exit(__doc__)
