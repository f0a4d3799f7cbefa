"""The network: a small CNN, trained on the spot."""

from __future__ import annotations

import numpy as np
import torch
from data import training
from torch import nn
from torch.nn import functional

EPOCHS = 8
BATCH = 64


def trained() -> nn.Module:
    """Train the network; the stage `export` calls this when it runs.

    Images `[batch, 1, 8, 8]` in 0..1 become the scores of ten digits. orun sets the seed of PyTorch.
    To release a network that is trained already, load its weights here instead.
    """
    torch.set_num_threads(1)  # sums are the same however many cores there are
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 4 * 4, 10),
    )
    images, digits = (torch.from_numpy(np.asarray(array)) for array in training())
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(images)).split(BATCH):
            optimizer.zero_grad()
            functional.cross_entropy(model(images[batch]), digits[batch]).backward()
            optimizer.step()
    return model.eval()
