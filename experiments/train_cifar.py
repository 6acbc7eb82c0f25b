"""Train a ResNet on CIFAR-100 or CIFAR-10, and leave what it says of the test images: Algorithms 1 and 2, step 2.

    python -m experiments.train_cifar IMAGES resnet50
    python -m experiments.train_cifar IMAGES resnet101 --statistics 60

IMAGES is a folder, cifar100 or cifar10, with the sheets train-00.webp .. test-09.webp and labels.npz; its name begins
the names below. The run writes to `--out`
  cifar100_NETWORK_pca128.npz   logits, representations, labels of the test images, in their order; float16. The
                                representations are reduced to 128 principal components of training images'; those of
                                a ResNet-18, of 512 columns, are not, and its file has no _pca128 in its name
  cifar100_NETWORK.json         how it was made: recipe, seed, versions, accuracy and seconds
  epochs-cifar100_NETWORK.json  after the epochs of `--statistics`: silhouette, coverage and sizes of the test images
and to `--checkpoints` the network after every epoch: run again, it goes on from there.

SGD .4 (batch 512, Nesterov momentum .9, decay 5e-4), 5 epochs of warm-up, then a cosine; crops and flips, made on the
device; bfloat16, channels last. Seeded, yet not the same to the last bit on another device.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import vicinal as vc
from experiments.epochs import epoch_statistics
from experiments.images import cifar_images
from experiments.resnet import DEPTHS, ResNet
from vicinal._util.files import replacing

HERE = Path(__file__).parent
MEAN, DEVIATION = (0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)
BATCH, RATE, WARM, DECAY, PAD = 512, 0.4, 5, 5e-4, 4
COMPONENTS, WIDE = 128, 512
PARTS = {"calibration": 3000, "scaling": 1000, "tuning": 3000, "test": 3000}  # the paper's
SEEDS = (0, 1, 2)
STATISTICS = (1, 2, 3, 5, 8, 12, 16, 20, 25, 30, 35, 40, 45, 50, 55, 60)


class Training:
    """A network, its optimizer and the step of the schedule; saved after each epoch."""

    def __init__(self, name: str, n_classes: int, epochs: int, steps: int, device: torch.device) -> None:
        self.name, self.epochs, self.steps, self.device = name, epochs, steps, device  # steps say how many images
        self.network = ResNet(name, n_classes).to(device, memory_format=torch.channels_last)
        self.optimizer = torch.optim.SGD(
            self.network.parameters(), lr=RATE, momentum=0.9, nesterov=True, weight_decay=DECAY
        )
        self.epoch, self.seconds, self.statistics = 0, 0.0, {}

    def rate(self, step: int) -> float:
        """Return the learning rate: up in a line, down in a cosine."""
        warm, total = WARM * self.steps, self.epochs * self.steps
        if step < warm:
            return RATE * (step + 1) / warm
        return RATE / 2 * (1 + math.cos(math.pi * (step - warm) / max(1, total - warm)))

    def save(self, path: Path) -> None:
        """Write everything that goes on, whole or not at all."""
        state = {
            "run": [self.name, self.epochs, self.steps], "epoch": self.epoch, "seconds": self.seconds,
            "statistics": json.dumps(self.statistics), "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
        }  # fmt: skip
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save(state, path.with_suffix(".part"))
        path.with_suffix(".part").replace(path)

    def resume(self, path: Path) -> None:
        """Go on from a checkpoint of the same run."""
        state = torch.load(path, map_location=self.device, weights_only=True)
        if state["run"] != [self.name, self.epochs, self.steps]:
            told = "{}, {} epochs of {} batches".format(*state["run"])
            message = f"{path} is of another run ({told}): remove it, or name another folder with --checkpoints."
            raise SystemExit(message)
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.epoch, self.seconds = state["epoch"], state["seconds"]
        self.statistics = json.loads(state["statistics"])
        print(f"going on after epoch {self.epoch}", flush=True)

    def run_epoch(self, images: Tensor, labels: Tensor, seed: int) -> float:
        """Go over all images once, in random order; return the mean loss."""
        self.network.train()
        generator = torch.Generator(self.device).manual_seed(1000 * seed + self.epoch)
        order = torch.randperm(len(images), generator=generator, device=self.device)
        started, total = time.perf_counter(), torch.zeros((), device=self.device)
        for step in range(self.steps):
            for group in self.optimizer.param_groups:
                group["lr"] = self.rate(self.epoch * self.steps + step)
            chosen = order[step * BATCH : (step + 1) * BATCH]
            with torch.autocast(self.device.type, torch.bfloat16):
                logits = self.network(normalized(augmented(images[chosen], generator)))
                loss = nn.functional.cross_entropy(logits.float(), labels[chosen])
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            self.optimizer.step()
            total += loss.detach()
        self.epoch += 1
        mean = total.item() / self.steps
        self.seconds += time.perf_counter() - started
        return mean


def augmented(images: Tensor, generator: torch.Generator) -> Tensor:
    """Return each image (n, 3, 32, 32) shifted by up to 4 pixels, and half of them mirrored."""
    n, _, height, width = images.shape
    device = images.device
    padded = nn.functional.pad(images, (PAD,) * 4)
    down, right = torch.randint(0, 2 * PAD + 1, (2, n, 1), generator=generator, device=device)
    flip = torch.rand((n, 1), generator=generator, device=device) < 0.5
    rows = down + torch.arange(height, device=device)
    across = torch.arange(width, device=device).expand(n, width)
    columns = right + torch.where(flip, width - 1 - across, across)
    at = torch.arange(n, device=device)[:, None, None]
    return padded.permute(0, 2, 3, 1)[at, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def normalized(images: Tensor) -> Tensor:
    """Return pixels as numbers around 0, channels last."""
    mean, deviation = (torch.tensor(one, device=images.device)[:, None, None] for one in (MEAN, DEVIATION))
    return ((images.float() / 255 - mean) / deviation).contiguous(memory_format=torch.channels_last)


@torch.inference_mode()
def said(network: ResNet, images: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Return logits and representations of images, as float32."""
    network.eval()
    logits, rows = [], []
    for batch in images.split(1000):
        with torch.autocast(images.device.type, torch.bfloat16):
            found = network.pool(network.stages(network.stem(normalized(batch))))
            logits.append(network.head(found).float().cpu())
            rows.append(found.float().cpu())
    return torch.cat(logits).numpy(), torch.cat(rows).numpy()


def measured(network: ResNet, images: Tensor, labels: np.ndarray) -> dict[str, object]:
    """Return the statistics of an epoch on the test images."""
    outputs = vc.ModelOutputs.from_logits(*said(network, images))
    share = len(labels) / sum(PARTS.values())
    parts = {part: int(count * share) for part, count in PARTS.items()}
    return {**epoch_statistics(outputs, labels, parts, SEEDS, 0.9), "parts": parts, "coverage": 0.9}


def principal(rows: np.ndarray, fitted_on: np.ndarray) -> np.ndarray:
    """Return rows projected on the first principal components of other rows."""
    center = fitted_on.mean(axis=0, dtype=np.float64)
    _, _, directions = np.linalg.svd(fitted_on - center, full_matrices=False)
    return (rows - center) @ directions[:COMPONENTS].T


def write(path: Path, kind: str, content: object) -> None:
    """Write a file, completely or not at all."""
    with replacing(path) as file:
        if kind == "npz":
            np.savez_compressed(file, **content)
        else:
            file.write(json.dumps(content, indent=1).encode() + b"\n")
    print(f"wrote {path}", flush=True)


def trained(options: argparse.Namespace, device: torch.device, n_classes: int, parts: dict) -> Training:
    """Return the network after its last epoch."""
    images, labels = parts["train"]
    torch.manual_seed(options.seed)
    training = Training(options.network, n_classes, options.epochs, max(1, len(images) // BATCH), device)
    checkpoint = options.checkpoints / f"{options.images.resolve().name}-{options.network}-{options.seed}.pt"
    if checkpoint.exists():
        training.resume(checkpoint)
    while training.epoch < options.epochs:
        loss = training.run_epoch(images, labels, options.seed)
        line = f"{options.network} epoch {training.epoch}/{options.epochs} loss {loss:.3f} {training.seconds:.0f} s"
        if training.epoch in options.statistics:
            found = measured(training.network, parts["test"][0], parts["test"][1].cpu().numpy())
            training.statistics[str(training.epoch)] = found
            line += f" accuracy {found['accuracy']:.4f} silhouette {found['silhouette']:.4f}"
        print(line, flush=True)
        training.save(checkpoint)
    return training


def main() -> None:
    """Train, and write outputs, recipe and statistics."""
    options = arguments()
    device = torch.device(options.device)
    torch.backends.cudnn.benchmark = True
    if device.type == "cpu":
        torch.set_num_threads(os.cpu_count() or 1)
    parts = {}
    for part, most in (("train", options.rows), ("test", options.rows)):
        images, labels = cifar_images(options.images, part, most)
        pixels = torch.from_numpy(images).permute(0, 3, 1, 2).to(device, memory_format=torch.channels_last)
        parts[part] = pixels, torch.from_numpy(labels).to(device)
    training = trained(options, device, int(parts["train"][1].max()) + 1, parts)
    logits, rows = said(training.network, parts["test"][0])
    _, others = said(training.network, parts["train"][0][:10_000])
    labels = parts["test"][1].cpu().numpy()
    name = f"{options.images.resolve().name}_{options.network}"
    reduced = rows.shape[1] > WIDE
    options.out.mkdir(parents=True, exist_ok=True)
    arrays = {"logits": logits, "representations": principal(rows, others) if reduced else rows}
    content = {key: value.astype(np.float16) for key, value in arrays.items()}
    write(
        options.out / f"{name}{f'_pca{COMPONENTS}' * reduced}.npz",
        "npz",
        {**content, "labels": labels.astype(np.uint8)},
    )
    about = {
        "command": f"python -m experiments.train_cifar IMAGES {options.network} --seed {options.seed} --epochs "
        f"{options.epochs}" + ("" if options.rows is None else f" --rows {options.rows}"),
        "recipe": __doc__.split("\n\n")[-1].strip().replace("\n", " "), "epochs": options.epochs, "seed": options.seed,
        "accuracy": float(np.mean(logits.argmax(1) == labels)), "training_seconds": round(training.seconds, 1),
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "CPU", "torch": torch.__version__,
        "vicinal": vc.__version__, "numpy": np.__version__, "rows": len(parts["train"][0]),
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
    }  # fmt: skip
    write(options.out / f"{name}.json", "json", about)
    if training.statistics:
        write(options.out / f"epochs-{name}.json", "json", {**about, "statistics": training.statistics})


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("images", type=Path, help="folder with the sheets, cifar100 or cifar10")
    parser.add_argument("network", choices=list(DEPTHS))
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rows", type=int, help="use the first so many images only: to try it out")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--statistics", type=int, nargs="*", default=STATISTICS, help="epochs after which to measure")
    parser.add_argument("--out", type=Path, default=HERE / "outputs")
    parser.add_argument("--checkpoints", type=Path, default=HERE.parent / "build" / "checkpoints")
    return parser.parse_args()


if __name__ == "__main__":
    main()
