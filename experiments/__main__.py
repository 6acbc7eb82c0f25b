"""The paper's tables and figures on real data, beside its own numbers: JSON, Markdown, LaTeX, PNG and SVG, and a page.

    python -m experiments all --data data --out reproduction
    python -m experiments set-size coverage --data data --out reproduction

Interrupted, it goes on where it was. Rows whose data is not there say so.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from experiments.items import ITEMS
from experiments.running import Reproduced, reproduce
from experiments.sources import Folders
from experiments.specs import Plan, small_plan
from vicinal._util.progress import Bar
from vicinal.errors import VicinalError

WRONG, INTERRUPTED = 2, 130


def main() -> None:
    """Reproduce the items named on the command line; an error is one line and an exit code."""
    parser = argparse.ArgumentParser(
        "python -m experiments", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("names", nargs="+", metavar="NAME", help=f"all, or of: {', '.join(ITEMS)}")
    add("--data", type=Path, default="data", help="folder with outputs/, regression/, cifar100/, cifar10/")
    add("--trained", type=Path, default="experiments/outputs", help="folder with what the training scripts made")
    add("--out", type=Path, default="reproduction", help="folder for results; finished pieces are kept there")
    add("--page", type=Path, help="where to write the page; OUT/reproduction.md if not given")
    add("--small", action="store_true", help="two runs and few candidates, on whatever rows the files hold")
    add("--json", action="store_true", help="print what was written as JSON, for machines")
    options = parser.parse_args()
    try:
        result = run(options)
    except VicinalError as error:
        parser.exit(WRONG, f"experiments: {' '.join(str(error).split())}\n")
    except KeyboardInterrupt:
        parser.exit(INTERRUPTED, "experiments: interrupted.\n")
    if options.json:
        told = {"page": str(result.page), "files": [str(path) for path in result.files]}
        print(json.dumps({**told, "not_run": result.not_run, "seconds": round(result.seconds, 1)}, indent=2))
        return
    for sentence in result.not_run:
        print(f"not run here: {sentence}")
    print(f"{len(result.files)} files in {options.out}; the work took {result.seconds:.0f} s in all.")
    print(f"page: {result.page}")


def run(options: argparse.Namespace) -> Reproduced:
    """Do the work with a progress bar over its pieces."""
    with Bar("reproduce", unit="piece", shown=None, leave=False) as bar:

        def advance(name: str, done: int, total: int) -> None:
            bar.begin(name, total)
            bar.reach(done)

        plan = small_plan() if options.small else Plan()
        return reproduce(
            options.names, plan, Folders(options.data, options.trained), options.out, options.page, advance
        )


if __name__ == "__main__":
    main()
