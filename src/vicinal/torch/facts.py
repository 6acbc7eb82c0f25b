"""What is known of a calibration beside its parts: what was asked for, and what is promised."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vicinal.calibration import exact, leave_one_out, split, split_reference
from vicinal.calibration.paper_literal import PaperPromise
from vicinal.calibration.promises import Promise
from vicinal.errors import CorruptArtifact
from vicinal.quantiles import read_coverage, written_coverage

if TYPE_CHECKING:
    from vicinal.predictor import SetPredictor

PROMISES: dict[str, Promise] = {
    "Exact": exact.PROMISE,
    "LeaveOneOut": leave_one_out.PROMISE,
    "PaperLiteral": PaperPromise(),
    "Split": split.PROMISE,
    "SplitReference": split_reference.PROMISE,
}
"""What each method promises, by its name in a state dict."""


@dataclass(frozen=True)
class Facts:
    """What is known of a calibration beside its parts."""

    coverage: str
    method: str
    remark: str
    class_names: tuple[str, ...] | None

    @classmethod
    def of(cls, predictor: SetPredictor) -> Facts:
        """Return what a predictor says of itself."""
        method = type(predictor.method).__name__
        return cls(written_coverage(predictor.coverage), method, predictor.remark, predictor.class_names)

    @classmethod
    def read(cls, described: Mapping[str, Any]) -> Facts:
        """Return the facts of a description; refuse what is none."""
        try:
            names = described["class_names"]
            found = cls(
                described["coverage"],
                described["method"],
                str(described["remark"]),
                None if names is None else tuple(map(str, names)),
            )
            read_coverage(found.coverage)
            found.promise  # noqa: B018  a method that is known
        except (KeyError, TypeError, ValueError) as error:
            msg = f"the state dict is damaged: its settings lack or do not know {error}."
            raise CorruptArtifact(msg) from error
        return found

    def check_classes(self, n_classes: int) -> None:
        """Refuse names of other classes."""
        if self.class_names is not None and len(self.class_names) != n_classes:
            msg = f"the state dict is damaged: it names {len(self.class_names)} of {n_classes} classes."
            raise CorruptArtifact(msg)

    @property
    def promise(self) -> Promise:
        """What the method promises."""
        return PROMISES[self.method]
