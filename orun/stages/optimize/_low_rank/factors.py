"""Factors of a weight that change the layer's outputs least: a singular value decomposition of the whitened weight.

Wang et al., "SVD-LLM: Truncation-aware Singular Value Decomposition for Large Language Model Compression", 2025. With
the Cholesky factor `S` of the Gram matrix of a layer's inputs, the singular values of `S.T @ W` are the errors of its
outputs if they are dropped. With the first right singular vectors `V`, the factors are `W @ V` and `V.T`. Their product
is that of the paper, which undoes the whitening by the inverse of `S`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]

DAMPING = 1e-4  # of the mean of the Gram matrix's diagonal, added to it: inputs that calibration has not seen count too
MULTIPLE, MOST = 8, 256  # larger ranks are multiples of 8, which kernels like; from 256 on, of a multiple of it


@dataclass(frozen=True, eq=False)
class Factors:
    """Factors of a weight at each rank: the first columns of `left` and the first rows of `right`.

    Attributes:
        left: `[rows, largest rank]`.
        right: `[largest rank, columns]`.
        ranks: ranks to choose from.
        errors: energy of the layer's error at each of them, relative to the energy of its outputs.
    """

    left: Singles
    right: Singles
    ranks: Sequence[int]
    errors: Sequence[float]

    def count(self, rank: int) -> int:
        """Return how many numbers the factors of a rank hold."""
        return rank * (len(self.left) + int(self.right.shape[1]))

    def multiply(self, rank: int, inputs: int) -> Singles:
        """Return the approximation of the weight, as a matrix with so many rows."""
        return (self.left[:, :rank] @ self.right[:rank]).reshape(inputs, -1)


def factorize(weight: Floats, rows: int, most: int, gram: Floats | None) -> Factors:
    """Return the factors of a weight `[inputs, outputs]` at ranks up to `most`.

    The matrix that is factorised has all values of the weight in their order, and so many rows. The Gram matrix
    `[inputs, inputs]` is the sum of `x.T @ x` over typical rows `x` of the layer's input; without it, all inputs count
    alike.
    """
    matrix = weight.reshape(rows, -1)
    shared = len(weight) // rows  # places of the kernel that the second factor tells apart
    part = None if gram is None else np.einsum("ijkj->ik", gram.reshape(rows, shared, rows, shared))
    part_root = _compute_root(part)
    _, values, vectors = np.linalg.svd(_whiten(part_root, matrix), full_matrices=False)
    right = vectors[:most]
    left = matrix @ right.T
    step = MULTIPLE * max(most // MOST, 1) if most >= MULTIPLE**2 else 1
    ranks = range(step, most + 1, step)
    if rows == len(weight):
        energies = values**2
        errors = np.append(np.cumsum(energies[::-1])[::-1], 0.0)[list(ranks)]
        total = float(energies.sum())
    else:
        root = _compute_root(gram)
        outputs = _whiten(root, weight)
        total = float(np.sum(outputs**2))
        errors = np.array([
            np.sum((outputs - _whiten(root, (left[:, :rank] @ right[:rank]).reshape(weight.shape))) ** 2)
            for rank in ranks
        ])  # fmt: skip
    relative = errors / total if total else np.zeros(len(ranks))
    return Factors(left.astype(np.float32), right.astype(np.float32), ranks, relative.tolist())


def _compute_root(gram: Floats | None) -> Floats | None:
    """Return a triangular matrix whose product with itself is the Gram matrix, damped; None for none."""
    if gram is None:
        return None
    damping = DAMPING * float(np.mean(np.diag(gram))) or 1.0  # of inputs that are always zero, any will do
    damped = gram.copy()
    damped[np.diag_indices_from(damped)] += damping
    return np.asarray(np.linalg.cholesky(damped).T, np.float64)


def _whiten(root: Floats | None, matrix: Floats) -> Floats:
    """Return a matrix with the same products with itself as the layer's outputs have."""
    return matrix if root is None else np.asarray(root @ matrix, np.float64)
