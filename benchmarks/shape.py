"""The shape of the code: calls of one `calibrate` and one `predict`, and lines by folder: `python benchmarks/shape.py`.

Counted are functions of the package outside `kernels/`, in the main thread, in the second call of each: Exact, LAC,
Exponential on bundled rows. Comprehensions, lambdas and later steps of a generator count as part of a function.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable
from inspect import CO_GENERATOR
from pathlib import Path
from types import FrameType
from typing import Any

import vicinal as vc

PACKAGE = Path(vc.__file__).parent
LIMITS = {"calibrate": (70, 15, 8), "predict": (45, 12, 8)}
"""At most so many calls, files, and calls within calls."""


class Trace:
    """Counts calls of the package's own functions."""

    def __init__(self) -> None:
        self.calls: Counter[tuple[str, str]] = Counter()
        self.depth = self.deepest = 0
        self.open: dict[int, bool] = {}
        self.generators: set[FrameType] = set()

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        """Count a call; what a frame added to the depth goes when it returns."""
        del argument
        if event == "call":
            counted = self._counts(frame)
            self.open[id(frame)] = counted
            if counted:
                code = frame.f_code
                if frame not in self.generators:  # one that goes on is no new call
                    self.calls[str(Path(code.co_filename).relative_to(PACKAGE)), code.co_qualname] += 1
                if code.co_flags & CO_GENERATOR:
                    self.generators.add(frame)
                self.depth += 1
                self.deepest = max(self.deepest, self.depth)
        elif event == "return" and self.open.pop(id(frame), False):
            self.depth -= 1

    @staticmethod
    def _counts(frame: FrameType) -> bool:
        path = Path(frame.f_code.co_filename)
        return PACKAGE in path.parents and "kernels" not in path.parts and not frame.f_code.co_name.startswith("<")

    @property
    def files(self) -> set[str]:
        """Files with a function that was called."""
        return {path for path, _ in self.calls}


def traced(call: Callable[[], object]) -> Trace:
    """Return the calls of the second run."""
    call()
    found = Trace()
    sys.setprofile(found)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found


def main() -> None:
    """Print calls, files and depth, and lines and files of each folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", action="store_true", help="list every call")
    parser.add_argument("--check", action="store_true", help="exit with 1 where a limit is passed")
    options = parser.parse_args()
    data = vc.datasets.load_cifar100_resnet18()
    known, test = data[:1000], data.outputs[1000:1400]
    near = vc.Exponential(n_neighbors=100, bandwidth=2.0)

    def calibrate() -> vc.SetPredictor:
        return vc.calibrate(known.outputs, known.labels, 0.9, score=vc.LAC(), localizer=near, method=vc.Exact())

    predictor = calibrate()
    passed = False
    for name, call in {"calibrate": calibrate, "predict": lambda: predictor.predict(test)}.items():
        found = traced(call)
        counts = sum(found.calls.values()), len(found.files), found.deepest
        passed |= any(count > limit for count, limit in zip(counts, LIMITS[name], strict=True))
        print(f"{name}: {counts[0]} calls, {counts[1]} files, {counts[2]} deep (at most {LIMITS[name]})")
        if options.calls:
            for (path, function), count in sorted(found.calls.items()):
                print(f"    {count:3}  {path:<40} {function}")
    lines: Counter[str] = Counter()
    files: Counter[str] = Counter()
    for path in PACKAGE.rglob("*"):
        if path.suffix in (".py", ".pyi", ".js", ".css", ".html"):
            folder = path.relative_to(PACKAGE).parts[0] if path.parent != PACKAGE else "."
            lines[folder] += len(path.read_text().splitlines())
            files[folder] += 1
    print(f"\n{'folder':<22}{'lines':>8}{'files':>8}")
    for folder, count in sorted(lines.items()):
        print(f"{folder:<22}{count:>8}{files[folder]:>8}")
    print(f"{'all':<22}{sum(lines.values()):>8}{sum(files.values()):>8}")
    if options.check and passed:
        sys.exit(1)


if __name__ == "__main__":
    main()
