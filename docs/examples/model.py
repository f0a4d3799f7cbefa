"""Models of the examples: a PyTorch module, and a scikit-learn estimator with its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orun

if TYPE_CHECKING:
    import sklearn.base
    import torch


def load() -> torch.nn.Module:
    """A small network; yours would read its weights from a file."""
    import torch

    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 10))


def small() -> torch.nn.Module:
    """A smaller network, not trained."""
    import torch

    return torch.nn.Sequential(torch.nn.MaxPool2d(4), torch.nn.Flatten(), torch.nn.Linear(49, 10))


def prune(module: torch.nn.Module) -> torch.nn.Module:
    """Mask the smallest half of the weights of the last layer."""
    from torch.nn.utils.prune import l1_unstructured

    l1_unstructured(module[-1], "weight", 0.5)
    return module


def pruned() -> torch.nn.Module:
    """The network with masks, as `convert/torch` needs it for weights that were trained with them."""
    return prune(load())


def fitted() -> sklearn.base.BaseEstimator:
    """An estimator, fitted when the stage runs."""
    from sklearn.linear_model import LogisticRegression

    table = rows()
    return LogisticRegression(max_iter=1000).fit(table.inputs["x"], table.labels)


def rows() -> orun.Dataset:
    """Measurements of irises and their species."""
    import numpy as np
    from sklearn.datasets import load_iris

    values, species = load_iris(return_X_y=True)
    return orun.Dataset({"x": values.astype(np.float32)}, species)
