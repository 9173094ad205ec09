"""Codes of vectors, each with what is read and its bytes, for twins (see test_twins.py)."""
import math

import numpy as np


def words(stream, count):
    """Uniform in [0, 1), 32 bits each."""
    both = [stream.draw() for _ in range((count + 1) // 2)]
    return np.array([word for two in both for word in (two >> 32, two & 0xffffffff)][:count]) * 2.0**-32


def entries(keep, size):
    return min(max(math.floor(keep * size + 0.5), 1), size)


def none(v, _stream, _keys):
    return v, 4 * len(v)


def top_k(v, _stream, keys):
    count = entries(keys["keep"], len(v))
    q = np.zeros(len(v))
    largest = np.argsort(np.abs(v), kind="stable")[-count:]
    q[largest] = v[largest]
    return q, 8 * count


def random_k(v, stream, keys):
    count, chosen = entries(keys["keep"], len(v)), set()
    for last in range(len(v) - count, len(v)):
        i = stream.below(last + 1)
        chosen.add(last if i in chosen else i)
    q = np.zeros(len(v))
    q[list(chosen)] = v[list(chosen)]
    return q * (len(v) / count if keys.get("unbiased") else 1), 4 * count


def levels(v, stream, keys):
    s, norm = keys["levels"], np.linalg.norm(v)
    q = np.sign(v) * norm * np.floor(s * np.abs(v) / norm + words(stream, len(v))) / s if norm else v
    loss = min(len(v) / s**2, math.sqrt(len(v)) / s) if keys["contractive"] else 0
    return q / (1 + loss), 4 + (len(v) * (1 + math.ceil(math.log2(s + 1))) + 7) // 8


def sign(v, _stream, _keys):
    return np.where(v < 0, -1, 1) * np.abs(v).mean(), 4 + (len(v) + 7) // 8


def one_bit(v, _stream, _keys):
    q = np.zeros(len(v))
    for side in (v >= 0, v < 0):
        q[side] = v[side].mean() if side.any() else 0
    return q, 8 + (len(v) + 7) // 8
