"""Small networks and loaders for the tests of vicinal.torch."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="vicinal.torch needs torch")

from torch import nn  # noqa: E402  after it is known to be there

DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")),
]


class Given(nn.Module):
    """A network whose inputs hold its answer: representations first, logits after them."""

    def __init__(self, width):
        super().__init__()
        self.width = width
        self.avgpool = nn.Identity()
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, batch):
        """Return the logits; the representations pass through a layer."""
        self.avgpool(batch[:, : self.width])
        return batch[:, self.width :] * (1 + 0 * self.weight.to(batch.dtype))  # which keeps every bit, that of -0 too


def given(outputs, device="cpu"):
    """Return the network and the batch that answer with these outputs."""
    batch = np.concatenate([outputs.representations, outputs.logits], axis=1)
    return Given(outputs.representations.shape[1]).to(device), torch.from_numpy(batch).to(device)


class Images(nn.Module):
    """A tiny network for images."""

    def __init__(self, classes=5):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.avgpool = nn.AdaptiveAvgPool2d(2)
        self.head = nn.Linear(32, classes)

    def forward(self, images):
        """Return logits."""
        return self.head(self.avgpool(self.stem(images)).flatten(1))


@dataclasses.dataclass
class Answer:
    """What some libraries return."""

    loss: object
    logits: object


def images(count, seed=0):
    """Return images and labels."""
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(count, 3, 6, 6, generator=draw), torch.arange(count) % 5
