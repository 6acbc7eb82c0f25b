"""What the torchvision networks of the paper say of ImageNet's validation pictures.

    python -m experiments.imagenet_outputs IMAGENET_VAL resnet18 resnet101

IMAGENET_VAL is the validation set as torchvision's ImageFolder reads it: a folder of pictures for each class. Needs
torchvision, which downloads the weights. Writes experiments/outputs/imagenet_NETWORK.npz: logits and representations
(the input of the last layer, of DenseNet and ShuffleNet the mean over pixels of the last features) as float16, labels.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch

import vicinal.torch
from experiments.train_cifar import write

LAYERS = {
    "resnet152": "avgpool", "resnet101": "avgpool", "resnet50": "avgpool", "resnet18": "avgpool",
    "resnext101_32x8d": "avgpool", "densenet161": "features", "vgg16": "classifier.5", "inception_v3": "avgpool",
    "shufflenet_v2_x1_0": "conv5",
}  # fmt: skip


def outputs_of(name: str, pictures: Path, device: str, batch: int) -> dict[str, np.ndarray]:
    """Return logits, representations and labels of all pictures."""
    from torchvision import datasets, models

    weights = models.get_model_weights(name).IMAGENET1K_V1
    model = models.get_model(name, weights=weights).to(device)
    data = datasets.ImageFolder(pictures, weights.transforms())
    loader = torch.utils.data.DataLoader(data, batch_size=batch, num_workers=4)
    outputs, labels = vicinal.torch.collect(model, loader, layer=LAYERS[name])
    halves = {"logits": outputs.logits, "representations": outputs.representations}
    return {**{key: value.astype(np.float16) for key, value in halves.items()}, "labels": labels.astype(np.int16)}


def main() -> None:
    """Run every network named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pictures", type=Path, help="folder of the validation pictures, a folder for each class")
    parser.add_argument("networks", nargs="+", choices=list(LAYERS))
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "outputs")
    options = parser.parse_args()
    for name in options.networks:
        content = outputs_of(name, options.pictures, options.device, options.batch)
        options.out.mkdir(parents=True, exist_ok=True)
        write(options.out / f"imagenet_{name}.npz", "npz", content)


if __name__ == "__main__":
    main()
