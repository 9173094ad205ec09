#!/usr/bin/python3
"""The objective of the navigation workload in PyTorch, for comparison: numbers in test_navigation.cpp.

The rollout below is that of the test, as Navigation::experience() gives it: what an agent saw, where it went, its
scaled advantage and its return.
"""
import torch

VALUE_WEIGHT, ENTROPY_WEIGHT = 0.5, 0.01
ROLLOUT = [
    ([0, 0, 1, 1, 1, 1, 1, 1, -0.666666687, -0.666666687, 0, 0, 0, 0], 3, 1.388829295402, 1.420222672050),
    ([0, 0, 0, 0, 0, 0, 0, 0, 0.333333343, 0.333333343, 0, 0, 0, 0], 3, 0.612778024553, 1.167176554243),
    ([0, 0, 1, 1, 1, 1, 1, 1, -0.666666687, -0.666666687, 0, 0, 0, 1], 0, -0.851993463630, 1.429021515160),
    ([1, 0, 0, 1, 0, 1, 0, 0, 0.333333343, 0.666666687, 0, 0, 0, 1], 1, 0.640881178475, 1.297719878929),
    ([0, 0, 1, 0, 1, 1, 0, 1, -0.333333343, -0.666666687, 1, 0, 0, 0], 1, -1.475129023893, 1.327177569594),
    ([0, 0, 0, 0, 0, 0, 0, 0, 0.333333343, 0.333333343, 0, 1, 0, 0], 2, 0.877513037011, 1.231253324912),
    ([0, 0, 1, 0, 1, 1, 0, 1, -0.333333343, -0.666666687, 0, 1, 0, 0], 1, 0.074946818747, 1.349497798681),
    ([0, 0, 0, 0, 0, 1, 1, 1, 0, 0.333333343, 0, 0, 1, 0], 3, -1.267825866665, 1.130645866394),
]


def pattern(index):
    """A number in -0.5 .. 0.5 for each index; the same in test_navigation.cpp."""
    return ((index * 2654435761 % 2**32) >> 16) / 65536 - 0.5


def main():
    shapes, tensors, index = [(14, 4), (4,), (4, 5), (5,)], [], 0
    for shape in shapes:
        count = torch.zeros(shape).numel()
        values = [2 * pattern(index + i) for i in range(count)]
        index += count
        tensors.append(torch.tensor(values, dtype=torch.float64).view(shape).requires_grad_())
    seen = torch.tensor([row[0] for row in ROLLOUT], dtype=torch.float32).double()
    directions = torch.tensor([row[1] for row in ROLLOUT])
    advantages, returns = (torch.tensor([row[i] for row in ROLLOUT], dtype=torch.float64) for i in (2, 3))

    out = torch.relu(seen @ tensors[0] + tensors[1]) @ tensors[2] + tensors[3]
    policy = torch.distributions.Categorical(logits=out[:, :4])
    loss = (-advantages * policy.log_prob(directions) + VALUE_WEIGHT / 2 * (out[:, 4] - returns) ** 2
            - ENTROPY_WEIGHT * policy.entropy()).mean()
    loss.backward()
    print(f"loss {loss.item():.9f}")
    index = 0
    for tensor in tensors:
        flat = tensor.grad.flatten()
        weights = torch.tensor([pattern(5 * (index + i) + 1) for i in range(flat.numel())], dtype=torch.float64)
        index += flat.numel()
        print(f"norm {flat.norm().item():.9f} projection {(flat @ weights).item():.9f}")


if __name__ == "__main__":
    main()
