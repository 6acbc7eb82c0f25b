"""The page of the reproduction: all tables and figures, comments on the numbers, and how to run it again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from experiments import figures, set_items
from experiments.items import ITEMS, Item
from experiments.means import Results
from experiments.specs import Plan
from vicinal._util.files import replacing

HEAD = """# The paper, table by table

Every table and figure of *Improving Uncertainty Quantification of Deep Classifiers via Neighborhood Conformal
Prediction* (Ghosh, Belkhouja, Yan and Doppa, AAAI 2023) on real data, beside the paper's own numbers{small}. This page
is made by `python -m experiments {names} --data DIR`. The results of every run, with seeds and fingerprints of the
data, are in the files `study-*.json` of its output folder (here `{out}`), and so is every table as
Markdown, LaTeX and JSON.

How to read it:

- **paper** columns are copied from the paper. Its networks, training and machine differed from ours: compare each
  method with its baseline, not the last digits.
- **forced in after**: the baseline as the paper ran it. The calibration allows empty sets, and afterwards
  an empty set gets the top label. This increases the coverage.
- **as returned**: the same score; the calibration is that of the returned sets, which may be empty. **NeverEmpty**: the
  rule that the top label is always in the set is part of the score, and therefore of the calibration.
- **Split** has no neighborhood. **Exact** has one, and the finite-sample guarantee. **PaperLiteral** is the paper's
  Algorithm 2 to the letter, without a guarantee. **Released code** is what the authors' program does, which is neither:
  scores times exp(-distance / width) among logits, a plain interpolated quantile, the width bisected on held-out
  coverage.
- **difficulty**: neighbors are rows that are as hard for the model, instead of rows whose representations look alike
  ([why](difficulty.md)).
- Sizes can be compared only at the same coverage: here, if mean coverages differ by less than .005.
- "not run here": the data was not available. The [end of the page](#not-run-here) says what to download.

To make the page again, in a checkout of the repository (extras `plots`, `faiss`; under an hour on two cores; finished
pieces are kept):

```text
python -m experiments all --data DIR                           outputs/, regression/, cifar100/, cifar10/ in DIR
python -m experiments set-size coverage --data DIR             some items
make reproduce DATA=DIR                                        all, and this page
```

Saved outputs are read from `--trained` (default `experiments/outputs`, where those of the ResNet-50 and ResNet-101 on
CIFAR-100 and of the perceptrons lie, with their recipes), then in `DIR/outputs`. To make them from scratch:

```text
python -m experiments.cifar_sheets BINARY DIR/cifar100         the sheets of images, of CIFAR's binary files
python -m experiments.train_cifar DIR/cifar100 resnet50        a ResNet (60 epochs), its outputs and statistics by epoch
python -m experiments.train_regression DIR/regression          a perceptron for each table and run
python -m experiments.imagenet_outputs PICTURES resnet152      outputs of torchvision's networks
```

The other CIFAR networks were trained by the same recipe (CIFAR-10 40 epochs). Rows are the test images in their order.
"""


def page(
    items: Mapping[str, Item], plan: Plan, results: Results, path: Path, out: Path, absent: Sequence[str]
) -> list[Path]:
    """Write the page, with its figures in a folder `pictures` beside it; `absent` lists what could not be run."""
    small = ". This one is of small made data, to try every step: its numbers mean nothing" if plan.small else ""
    names = "all" if len(items) == len(ITEMS) else " ".join(items)
    parts = [HEAD.format(names=names, small=small, out=out.as_posix()).strip()]
    pictures: list[Path] = []
    for name, item in items.items():
        parts.append(f"## {item.title}")
        parts += [item.about] if item.about else []
        figure = None if item.draw is None else item.draw(plan, results)
        if figure is not None:
            pictures += figures.save_figure(figure, path.parent / "pictures" / f"reproduction-{name}")
            parts.append(f"![{item.title}](pictures/reproduction-{name}.svg)")
        elif item.draw is not None:
            parts.append("Not run here.")
        if item.tables is not None:
            tables = [one.markdown() for one in item.tables(plan, results)]
            parts += [*tables, *set_items.notes(plan.networks, "\n".join(tables))]
        words = [] if item.words is None else item.words(plan, results)
        parts += ["What the numbers show:", "\n".join(words)] if words else []
        parts += _make(item, results)
    parts += ["## Not run here", "\n".join(f"- {one}" for one in absent) or "Everything was run."]
    with replacing(path) as file:
        file.write(("\n\n".join(part for part in parts if part) + "\n").encode())
    return [path, *pictures]


def _make(item: Item, results: Results) -> list[str]:
    """Describe the studies of an item: seeds, data, date and versions."""
    told = []
    for study in item.studies:
        rows = results.done.get(study, {})
        pieces = [piece for key, row in rows.items() if item.row in ("", key) for piece in row]
        if not pieces:
            continue
        about = pieces[0].result if isinstance(pieces[0].result, dict) else {}
        data = ", ".join(sorted({name for piece in pieces for name in piece.inputs if not name.endswith(".webp")}))
        if "command" in about:  # measured elsewhere, and read from a file that says how
            told.append(f"{study}: {data}, made by `{about['command']}`, {about['date']}, torch {about['torch']}")
            continue
        used = pieces[-1].versions
        last = sorted({row[-1].run for key, row in rows.items() if item.row in ("", key)})
        seeds = "seed 0" if last == [0] else f"seeds 0 to {' or '.join(map(str, last))}"
        date = max(piece.date for piece in pieces)
        told.append(f"{study}: {seeds}; {data}; {date}; vicinal {used['vicinal']}, numpy {used['numpy']}")
    return [f"<small>{'. '.join(told)}.</small>"] if told else []
