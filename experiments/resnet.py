"""Residual networks for images of 32 x 32 pixels: a 3 x 3 stem, no early pooling, otherwise He et al. (2016)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

DEPTHS = {"resnet18": ("basic", (2, 2, 2, 2)), "resnet50": ("deep", (3, 4, 6, 3)), "resnet101": ("deep", (3, 4, 23, 3))}


class Block(nn.Module):
    """Convolutions whose result is added to their input."""

    def __init__(self, body: nn.Sequential, across: int, channels: int, stride: int) -> None:
        super().__init__()
        self.body = body
        same = stride == 1 and across == channels
        self.shortcut = nn.Identity() if same else conv(across, channels, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Return relu(body(x) + x)."""
        return torch.relu(self.body(x) + self.shortcut(x))


def conv(across: int, channels: int, side: int, stride: int = 1) -> nn.Sequential:
    """Return a convolution and its normalization."""
    return nn.Sequential(
        nn.Conv2d(across, channels, side, stride, padding=side // 2, bias=False), nn.BatchNorm2d(channels)
    )


def basic(across: int, width: int, stride: int) -> Block:
    """Return two 3 x 3 convolutions."""
    body = nn.Sequential(conv(across, width, 3, stride), nn.ReLU(inplace=True), conv(width, width, 3))
    return Block(body, across, width, stride)


def deep(across: int, width: int, stride: int) -> Block:
    """Return a 1 x 1, a 3 x 3 and a 1 x 1 convolution, the last four times as wide."""
    body = nn.Sequential(
        conv(across, width, 1), nn.ReLU(inplace=True), conv(width, width, 3, stride), nn.ReLU(inplace=True),
        conv(width, 4 * width, 1),
    )  # fmt: skip
    return Block(body, across, 4 * width, stride)


class ResNet(nn.Module):
    """Stem, four stages, the mean over pixels (`pool`: the representation), one linear layer."""

    def __init__(self, name: str, n_classes: int) -> None:
        super().__init__()
        kind, counts = DEPTHS[name]
        make, widen = (basic, 1) if kind == "basic" else (deep, 4)
        stages, across = [], 64
        for stage, count in enumerate(counts):
            width = 64 * 2**stage
            for number in range(count):
                stages.append(make(across, width, 2 if stage and number == 0 else 1))
                across = widen * width
        self.stem = nn.Sequential(conv(3, 64, 3), nn.ReLU(inplace=True))
        self.stages = nn.Sequential(*stages)
        self.pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(across, n_classes)
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: Tensor) -> Tensor:
        """Return logits (n, classes) of images (n, 3, 32, 32)."""
        return self.head(self.pool(self.stages(self.stem(images))))
