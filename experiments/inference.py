"""How long the networks themselves take on this machine: the frame for the runtime table.

    python -m experiments.inference

Times a batch of 250 images on the CPU, two threads, fresh weights (a network takes as long untrained), the median of
three, and writes seconds for 3,000 images to `--out`, inference.json.
"""

from __future__ import annotations

import argparse
import datetime
import time
from pathlib import Path

import torch

from experiments.resnet import DEPTHS, ResNet
from experiments.train_cifar import write

BATCH, ROWS, THREADS = 250, 3000, 2
NAMES = {"resnet18": "ResNet-18", "resnet50": "ResNet-50", "resnet101": "ResNet-101"}


@torch.inference_mode()
def seconds(network: str, n_classes: int) -> float:
    """Return the seconds for 3,000 images."""
    torch.manual_seed(0)
    model = ResNet(network, n_classes).eval().to(memory_format=torch.channels_last)
    images = torch.randn(BATCH, 3, 32, 32).to(memory_format=torch.channels_last)
    model(images)
    found = []
    for _ in range(3):
        started = time.perf_counter()
        model(images)
        found.append(time.perf_counter() - started)
    return sorted(found)[1] * ROWS / BATCH


def main() -> None:
    """Time every network, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "outputs")
    options = parser.parse_args()
    torch.set_num_threads(THREADS)
    found = {
        dataset: {NAMES[name]: round(seconds(name, classes), 3) for name in DEPTHS}
        for dataset, classes in (("CIFAR-100", 100), ("CIFAR-10", 10))
    }
    about = {
        "command": "python -m experiments.inference", "rows": ROWS, "batch": BATCH, "threads": THREADS, "device": "CPU",
        "torch": torch.__version__, "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
    }  # fmt: skip
    write(options.out / "inference.json", "json", {**about, "seconds": found})


if __name__ == "__main__":
    main()
