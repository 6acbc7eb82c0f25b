"""The page that tells it all: every table and figure, what the numbers show, and how to run it again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from vicinal._files import replacing
from vicinal.experiments import figures, set_items
from vicinal.experiments.items import Item
from vicinal.experiments.pieces import Done
from vicinal.experiments.results import Results
from vicinal.experiments.specs import Plan

COMMAND = "vicinal reproduce all --data DIR"

HEAD = """# The paper, table by table

Every table and figure of *Improving Uncertainty Quantification of Deep Classifiers via Neighborhood Conformal
Prediction* (Ghosh, Belkhouja, Yan and Doppa, AAAI 2023) on real data, beside the paper's own numbers. Made by
`{command}`, which also makes this page{small}; the numbers behind it, run by run with seeds and fingerprints of the
data, are in `experiments/results/reproduction/`.

How to read it:

- **paper** columns are copied from the paper. Its networks, training and machine were others than ours: compare what a
  method does to its baseline, not the last digit.
- **forced in after**: the baseline as the paper ran it. Sets are calibrated with empty ones allowed, and afterwards an
  empty set gets the top label: coverage rises above the target.
- **as returned**: the same score, calibrated for the sets that are returned, empty ones included. **NeverEmpty**: the
  rule that the top label belongs is part of the score, and calibrated as such.
- **Split** has no neighborhood. **Exact** has one, and the finite-sample guarantee. **PaperLiteral** is the paper's
  Algorithm 2 to the letter, without a guarantee. **Released code** is what the authors' program does, which is neither:
  scores times exp(-distance / width) among logits, a plain interpolated quantile, the width bisected on held-out
  coverage.
- Sizes can be compared only at matched coverage: means within .005.
- "not run here": the data could not be had; what to download is said [at the end](#not-run-here). No number is made up.

To make it again, from trained outputs (those of the networks trained here are in `experiments/outputs`, with their
recipes) or from the start:

```text
vicinal reproduce all --data DIR                               outputs/, regression/, cifar100/, cifar10/ in DIR
vicinal reproduce set-size coverage --data DIR                 some items; finished pieces are kept
python experiments/train_cifar.py DIR/cifar100 resnet50        a ResNet, its outputs and statistics by epoch
python experiments/train_regression.py DIR/regression          a perceptron for each table and run
python experiments/imagenet_outputs.py PICTURES resnet152      outputs of torchvision's networks
```
"""


def page(items: Mapping[str, Item], plan: Plan, results: Results, path: Path) -> list[Path]:
    """Write the page, with its figures in a folder `pictures` beside it."""
    small = " (this one from small data, to try every step: its numbers mean nothing)" if plan.small else ""
    parts = [HEAD.format(command=COMMAND, small=small).strip()]
    pictures: list[Path] = []
    for name, item in items.items():
        parts.append(f"## {item.title}")
        parts += [item.about] if item.about else []
        figure = None if item.draw is None else item.draw(plan, results)
        if figure is not None:
            pictures += figures.saved(figure, path.parent / "pictures" / f"reproduction-{name}")
            parts.append(f"![{item.title}](pictures/reproduction-{name}.svg)")
        elif item.draw is not None:
            parts.append("Not run here.")
        if item.tables is not None:
            parts += [one.markdown() for one in item.tables(plan, results)]
            if "sets" in item.studies or "silhouettes" in item.studies:
                parts += set_items.notes(plan.networks)
        words = [] if item.words is None else item.words(plan, results)
        parts += ["What the numbers show:", "\n".join(words)] if words else []
        parts.append(_made(item, results))
    parts += ["## Not run here", "\n".join(_absent(plan, results))]
    with replacing(path) as file:
        file.write(("\n\n".join(part for part in parts if part) + "\n").encode())
    return [path, *pictures]


def _made(item: Item, results: Results) -> str:
    """Say when an item was made, of which data and seeds."""
    pieces: list[Done] = [
        piece for study in item.studies for row in results.done.get(study, {}).values() for piece in row
    ]
    if not pieces:
        return ""
    dates = sorted({piece.date for piece in pieces})
    seeds = max(piece.run for piece in pieces)
    data = sorted({name for piece in pieces for name in piece.inputs if not name.endswith(".webp")})
    return (
        f"<small>Seeds 0 to {seeds}; {', '.join(data)}; {dates[-1]}; vicinal {pieces[-1].versions['vicinal']}, numpy "
        f"{pieces[-1].versions['numpy']}.</small>"
    )


def _absent(plan: Plan, results: Results) -> list[str]:
    told = [
        f"- {one.dataset} {one.name} (`{one.file}`): {one.fetch or 'put it into --data or --trained'}."
        for one in plan.networks
        if not results.runs("sets", one.key)
    ]
    told += [
        f"- {one.record.name}: {one.record.fetch or f'put {one.record.files[0]} there'}, then "
        "`python experiments/train_regression.py TABLES`."
        for one in plan.tables
        if not results.runs("intervals", one.key)
    ]
    return told or ["Everything was run."]
