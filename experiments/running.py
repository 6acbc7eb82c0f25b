"""Run the reproduction: do the pieces, combine them, and write tables, figures and the page."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments import figures, set_items
from experiments.items import ITEMS, Item
from experiments.means import Results
from experiments.page import page
from experiments.pieces import FinishedPiece, finish, today, versions
from experiments.sources import Folders
from experiments.specs import Plan
from experiments.studies import Lab
from vicinal._util.files import replacing
from vicinal.errors import InvalidArgument, MissingFile

ALL = "all"
OF_NETWORKS = {"sets", "difficulty", "tuned", "silhouettes", "times"}


@dataclass(frozen=True)
class Reproduced:
    """The files written, and the studies that could not be run because their data is missing."""

    page: Path
    files: tuple[Path, ...]
    not_run: tuple[str, ...]
    seconds: float  # of the work, in this run and in those it went on from


def chosen_items(names: Sequence[str]) -> dict[str, Item]:
    """Return the items with these names; "all" means every item."""
    unknown = [name for name in names if name != ALL and name not in ITEMS]
    if unknown or not names:
        raise InvalidArgument("NAME", ", ".join(unknown) or "nothing", f"all, or of: {', '.join(ITEMS)}")
    return {name: item for name, item in ITEMS.items() if ALL in names or name in names}


def reproduce(
    names: Sequence[str], plan: Plan, folders: Folders, out: Path, page_at: Path | None,
    advance: Callable[[str, int, int], None],
) -> Reproduced:  # fmt: skip
    """Do the work that the named items need and that is not yet done, and write the items to `out`."""
    items = chosen_items(names)
    if not folders.data.is_dir():
        msg = f"there is no folder {folders.data}: --data names one with outputs/, regression/, cifar100/, cifar10/."
        raise MissingFile(msg)
    lab = Lab(plan, folders)
    studies = dict.fromkeys(study for item in items.values() for study in item.studies)
    pieces = [piece for study in studies for piece in lab.pieces(study)]
    if not pieces:
        msg = (
            f"nothing can be run: neither {folders.data} nor {folders.trained} holds the data. Expected is, for "
            f"example, {plan.networks[-1].file}; --data DIR names another folder."
        )
        raise MissingFile(msg)
    done: list[FinishedPiece] = []
    for number, piece in enumerate(pieces):

        def step(word: str, number: int = number, name: str = piece.name) -> None:
            advance(f"{name}: {word}", number, len(pieces))

        step("looking")
        done.append(finish(piece, out / "pieces", step))
    results = Results.of(done)
    written = [_write_study(study, results, out) for study in studies]
    for name, item in items.items():
        advance(f"writing {name}", len(pieces), len(pieces))
        written += _write_item(name, item, plan, results, out)
    target = out / "reproduction.md" if page_at is None else page_at
    absent = not_run(lab, studies)
    written += page(items, plan, results, target, out, absent)
    return Reproduced(target, tuple(written), absent, sum(piece.seconds for piece in done))


def not_run(lab: Lab, studies: Collection[str]) -> tuple[str, ...]:
    """Return a sentence for each row of these studies whose data is missing."""
    plan, folders = lab.plan, lab.folders
    networks = plan.networks if OF_NETWORKS & set(studies) else ()
    tables = plan.tables if "intervals" in studies else ()
    absent = [
        f"{one.dataset} {one.name}: there is no {one.file}; {one.fetch or 'put it into outputs/ of --data'}."
        for one in networks
        if folders.find(one.file) is None
    ]
    absent += [
        f"{one.record.name}: there is no {one.file}; python -m experiments.train_regression TABLES makes it from "
        f"{one.record.files[0]}{': ' + one.record.fetch if one.record.fetch else ''}."
        for one in tables
        if folders.find(one.file) is None
    ]
    return tuple(absent)


def _write_study(study: str, results: Results, out: Path) -> Path:
    """Write all results of a study, a line for each run: seed, fingerprints of its data, versions, date and numbers."""
    rows = [
        {"row": one.key, "seed": one.run, "date": one.date, "seconds": one.seconds, "versions": dict(one.versions),
         "data": dict(one.inputs), "result": one.result}
        for pieces in results.done.get(study, {}).values()
        for one in pieces
    ]  # fmt: skip
    lines = ",\n".join(json.dumps(row, allow_nan=False) for row in rows)
    path = out / f"study-{study}.json"
    with replacing(path) as file:
        file.write(f"[\n{lines}\n]\n".encode())
    return path


def _write_item(name: str, item: Item, plan: Plan, results: Results, out: Path) -> list[Path]:
    """Write an item as JSON, its tables as Markdown and LaTeX, its figure as PNG and SVG."""
    tables = [] if item.tables is None else item.tables(plan, results)
    words = [] if item.words is None else item.words(plan, results)
    content = {
        "item": name, "title": item.title, "date": today(), "versions": versions(), "small": plan.small,
        "lists": {key: list(value) for key, value in vars(plan.lists).items()},
        "tables": [{"caption": one.caption, "heads": list(one.heads), "rows": list(one.rows)} for one in tables],
        "words": words, "studies": [f"study-{study}.json" for study in item.studies],
    }  # fmt: skip
    texts = {"json": json.dumps(content, indent=1)}
    if tables:
        notes = set_items.notes(plan.networks, "\n".join(one.markdown() for one in tables))
        texts["md"] = "\n\n".join([f"# {item.title}", *(one.markdown() for one in tables), *notes, *words])
        texts["tex"] = "\n\n".join([*(one.latex() for one in tables), *(f"% {note}" for note in notes)])
    written = []
    for ending, text in texts.items():
        path = out / f"{name}.{ending}"
        with replacing(path) as file:
            file.write(text.encode() + b"\n")
        written.append(path)
    figure = None if item.draw is None else item.draw(plan, results)
    return written if figure is None else [*written, *figures.save_figure(figure, out / name)]
