"""Train the paper's perceptron (15, 20 and 30 hidden nodes) on regression tables: Algorithms 1 and 2, step 2.

    python -m experiments.train_regression TABLES
    python -m experiments.train_regression TABLES --only Concrete --runs 2 --epochs 5 --out /tmp/trial

TABLES is a folder with the tables. For each one there the run writes to `--out`
  regression_NAME.npz    predictions, representations and targets of the rows kept from training, a line per run: the
                         representation is the last hidden layer, float16
  regression_NAME.json   how it was made: recipe, seed, versions, errors and seconds
and to `--checkpoints` the networks every 25 epochs: run again, it goes on from there, and what is finished is skipped.

Mean squared error, Adam with rate 1e-3, 500 epochs, batches of 256 (64 below 5,000 rows); features and targets are
standardized by the training rows. In each run other rows are kept: 9,000, or 600 below 5,000 rows. The networks of all
runs are trained side by side, each on its own rows, as if alone.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import math
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import vicinal as vc
from experiments.records import RECORDS, RunRecord, find_record, read_record
from experiments.train_cifar import write

HERE = Path(__file__).parent
HIDDEN = (15, 20, 30)
FEW = 5_000
EVERY = 25


class Perceptrons(nn.Module):
    """One perceptron per run, side by side: weights (runs, in, out)."""

    def __init__(self, runs: int, width: int, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        sizes = (width, *HIDDEN, 1)
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for across, out in itertools.pairwise(sizes):
            bound = 1 / math.sqrt(across)  # as nn.Linear begins
            for parameters, shape in ((self.weights, (runs, across, out)), (self.biases, (runs, 1, out))):
                parameters.append(nn.Parameter((2 * torch.rand(shape, generator=generator) - 1) * bound))

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return predictions (runs, n) and the last hidden layer (runs, n, 30) of rows (runs, n, d)."""
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            rows = torch.relu(torch.baddbmm(bias, rows, weight))
        return torch.baddbmm(self.biases[-1], rows, self.weights[-1])[..., 0], rows


def standardized(table: np.ndarray, fitted_on: np.ndarray) -> np.ndarray:
    """Return columns with mean 0 and standard deviation 1 on the rows it is fitted on; a constant column becomes 0."""
    spread = fitted_on.std(axis=0)
    return (table - fitted_on.mean(axis=0)) / np.where(spread > 0, spread, 1)


def cuts(n: int, runs: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the training rows and the kept rows of each run."""
    kept = 600 if n < FEW else 9000
    drawn = [np.random.default_rng([run, n]).permutation(n) for run in range(runs)]
    return [(order[kept:], order[:kept]) for order in drawn]


def trained(networks: Perceptrons, rows: Tensor, targets: Tensor, epochs: int, seed: int, checkpoint: Path) -> float:
    """Train all networks, each on its rows; return the seconds it took."""
    optimizer = torch.optim.Adam(networks.parameters(), lr=1e-3)
    runs, n = targets.shape
    batch = 64 if n < FEW else 256
    first, seconds = 0, 0.0
    if checkpoint.exists():
        state = torch.load(checkpoint, weights_only=True)
        networks.load_state_dict(state["networks"])
        optimizer.load_state_dict(state["optimizer"])
        first, seconds = state["epoch"], state["seconds"]
    at = torch.arange(runs)[:, None]
    for epoch in range(first, epochs):
        started = time.perf_counter()
        generator = torch.Generator().manual_seed(100_000 * seed + epoch)
        order = torch.rand((runs, n), generator=generator).argsort(dim=1)
        for start in range(0, n, batch):
            chosen = order[:, start : start + batch]
            found, _ = networks(rows[at, chosen])
            # The sum over runs: each network's gradient is that of its own mean error.
            loss = ((found - targets[at, chosen]) ** 2).mean(dim=1).sum()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        seconds += time.perf_counter() - started
        if (epoch + 1) % EVERY == 0:
            print(f"  epoch {epoch + 1}/{epochs} error {loss.item() / runs:.4f} {seconds:.0f} s", flush=True)
            checkpoint.parent.mkdir(parents=True, exist_ok=True)
            state = {"networks": networks.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save({**state, "epoch": epoch + 1, "seconds": seconds}, checkpoint.with_suffix(".part"))
            checkpoint.with_suffix(".part").replace(checkpoint)
    return seconds


def finished(stem: Path, asked: dict[str, int]) -> bool:
    """Return whether a run with the same settings has left its outputs; the recipe is written last."""
    try:
        about = json.loads(stem.with_suffix(".json").read_text())
    except (OSError, ValueError):
        return False
    return stem.with_suffix(".npz").exists() and all(about.get(key) == value for key, value in asked.items())


def run(record: RunRecord, options: argparse.Namespace) -> None:
    """Train on one table, and write the outputs of the networks for the kept rows."""
    slug = record.name.lower().replace(" ", "_")
    asked = {"runs": options.runs, "epochs": options.epochs, "seed": options.seed}
    if finished(options.out / f"regression_{slug}", asked):
        print(f"{record.name}: finished before", flush=True)
        return
    print(record.name, flush=True)
    features, targets = read_record(record, options.tables)
    cut = cuts(len(targets), options.runs)
    stack = {"train": [], "kept": []}
    for training, kept in cut:
        inputs = standardized(features, features[training])
        wanted = standardized(targets, targets[training])
        stack["train"].append((inputs[training], wanted[training]))
        stack["kept"].append((inputs[kept], wanted[kept]))
    rows, aims = (torch.tensor(np.stack(one), dtype=torch.float32) for one in zip(*stack["train"], strict=True))
    networks = Perceptrons(options.runs, features.shape[1], options.seed)
    checkpoint = options.checkpoints / f"regression-{slug}-{options.runs}-{options.epochs}-{options.seed}.pt"
    seconds = trained(networks, rows, aims, options.epochs, options.seed, checkpoint)
    with torch.inference_mode():
        said, hidden = networks(torch.tensor(np.stack([one for one, _ in stack["kept"]]), dtype=torch.float32))
    truth = np.stack([targets[kept] for _, kept in cut])
    spread = np.array([targets[training].std() for training, _ in cut])[:, None]
    center = np.array([targets[training].mean() for training, _ in cut])[:, None]
    predictions = said.double().numpy() * spread + center
    content = {
        "predictions": predictions.astype(np.float32), "representations": hidden.numpy().astype(np.float16),
        "targets": truth.astype(np.float32),
    }  # fmt: skip
    options.out.mkdir(parents=True, exist_ok=True)
    write(options.out / f"regression_{slug}.npz", "npz", content)
    about = {
        "command": f"python -m experiments.train_regression TABLES --only '{record.name}' --runs {options.runs} "
        f"--epochs {options.epochs} --seed {options.seed}",
        "recipe": __doc__.split("\n\n")[-1].strip().replace("\n", " "), **asked,
        "training_rows": len(cut[0][0]), "kept_rows": len(cut[0][1]),
        "mean_absolute_error": float(np.abs(predictions - truth).mean()), "training_seconds": round(seconds, 1),
        "torch": torch.__version__, "numpy": np.__version__, "vicinal": vc.__version__, "device": "CPU",
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
    }  # fmt: skip
    write(options.out / f"regression_{slug}.json", "json", about)


def main() -> None:
    """Train on every table that is in the folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", type=Path, help="folder with the tables")
    parser.add_argument("--only", help="the name of one table")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=HERE / "outputs")
    parser.add_argument("--checkpoints", type=Path, default=HERE.parent / "build" / "checkpoints")
    options = parser.parse_args()
    if options.only is not None and options.only not in {record.name for record in RECORDS}:
        parser.error(f"--only {options.only!r}: no such table; there are {', '.join(one.name for one in RECORDS)}")
    torch.set_num_threads(1)  # steps this small only wait for more
    for record in RECORDS:
        if options.only in (None, record.name):
            if options.only is None and find_record(record, options.tables) is None:
                print(f"{record.name}: not there: {record.fetch or record.files[0]}", flush=True)
            else:
                run(record, options)


if __name__ == "__main__":
    main()
