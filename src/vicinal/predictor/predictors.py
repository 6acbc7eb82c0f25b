"""A calibrated predictor: predicts, at any coverage, with p-values and explanations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import array_api_compat.numpy
import numpy as np
from numpy.typing import ArrayLike

from vicinal._util.arrays import Bools, Floats, Ints, Reals, as_labels, as_targets, whole_number
from vicinal._util.lazy_rows import Readable
from vicinal._util.notebook import html_text
from vicinal._util.work import rows_within, within
from vicinal.calibration import Calibration, Guarantee, Method, Neighbors, ScoredRows, Split, Task
from vicinal.calibration.explain import Explanation
from vicinal.calibration.levels import Coverage, exact_coverage, format_coverage
from vicinal.calibration.rows import (
    check_scores,
    label_scores,
    neighborhood_representations,
    no_columns,
    score_targets,
)
from vicinal.calibration.split import SplitCalibration
from vicinal.errors import Incompatible, InvalidArgument, ShapeMismatch
from vicinal.neighbors import ExactNeighborSearch, NeighborSearch
from vicinal.neighbors.localizers import Localizer
from vicinal.outputs import (
    ClassificationOutputs,
    ModelOutputs,
    RegressionOutputs,
    RowIds,
    as_classification,
    as_regression,
)
from vicinal.persistence.artifact import ArtifactInfo, Document, save
from vicinal.persistence.parts import lossless
from vicinal.probability_models import ProbabilityModel, probability_chunks
from vicinal.probability_models.model import CHUNK_ENTRIES, PROBABILITY_BYTES, row_maxima
from vicinal.regions import PredictionIntervals, PredictionSets, TargetRange
from vicinal.representations import Chained, RepresentationMap, Rounded
from vicinal.scores import ClassificationScore, RegressionScore
from vicinal.scores.uniforms import row_uniforms
from vicinal.tuning import TuningReport


@dataclass(frozen=True, eq=False, kw_only=True)
class Predictor(ABC):
    """A calibrated predictor: parts and arrays; predicting never changes it."""

    coverage: Coverage
    localizer: Localizer | None
    representation_map: RepresentationMap | None
    method: Method
    calibration: Calibration
    tuning: TuningReport | None = None  # how the parts were chosen, where `calibrate` chose them
    remark: str = ""  # what was done with the rows before they were calibrated on
    data: str = ""  # fingerprint of the rows that were given to calibrate on
    seen: Floats | None = None  # by which those rows are recognized again, (n, 2)
    row_ids: RowIds | None = None  # of the rows that neighbors are numbered by, (n,)

    kind: ClassVar[str]
    """What the file of a saved predictor says it holds."""

    @property
    def guarantee(self) -> Guarantee:
        """What is promised, in numbers and, as `str`, in words."""
        found = self.calibration.guarantee(self.coverage)
        return replace(found, words=f"{found.words} {self.remark}") if self.remark else found

    def at(self, coverage: Coverage) -> Self:
        """Return the predictor for another coverage; it shares all arrays."""
        self.calibration.check_coverage(coverage)
        return replace(self, coverage=coverage)

    def without_neighborhood(self) -> Self:
        """Return the predictor that Split makes of the same scores of the same rows: one threshold for all."""
        return replace(
            self, method=Split(), localizer=None, calibration=SplitCalibration(self.calibration.ranked_scores)
        )

    def effective_sizes(self, outputs: ModelOutputs) -> Floats:
        """Return how many equally weighted neighbors those of each row are worth, (n,)."""
        return self.calibration.effective_sizes(self.map_representations(outputs))

    def thresholds(
        self, outputs: ModelOutputs, coverages: Sequence[Coverage] | None = None, *, progress: bool = False
    ) -> Floats:
        """Return the largest accepted score of each row, (n,); with `coverages`, at each of them, (n, coverages)."""
        rows = self.map_representations(outputs)
        wanted = [self.coverage] if coverages is None else _list_coverages(coverages)
        found = self.calibration.thresholds(rows, wanted, progress="predict" if progress else None)
        return found[:, 0] if coverages is None else found

    @property
    def search(self) -> NeighborSearch:
        """How neighbors are found, with all numbers said that were chosen."""
        return self.calibration.resolved_search()

    def recall(self, outputs: ModelOutputs) -> float:
        """Return the share of these rows' exact neighbors that the search finds: 1 unless it is approximate.

        Each row is compared with all that can be neighbors: some hundred rows are enough.
        """
        return self.calibration.recall(self.map_representations(outputs))

    def neighbors(self, outputs: ModelOutputs) -> Iterator[Neighbors]:
        """Yield the neighbors of each row, nearest first."""
        return self.calibration.neighbors(self.map_representations(outputs))

    def explain(self, outputs: ModelOutputs, row: int = 0) -> Explanation:
        """Return the neighbors of one row with their weights, and its threshold beside the global one."""
        check_outputs(outputs)
        number = whole_number("row", row, least=0, most=len(outputs) - 1)
        one = outputs[number : number + 1]
        return Explanation(
            neighbors=next(self.neighbors(one)),
            threshold=float(self.thresholds(one)[0]),
            global_threshold=self.calibration.global_threshold(self.coverage),
            coverage=float(exact_coverage(self.coverage)),
        )

    def save(self, path: str | Path, *, precision: int | None = None, model: str | None = None) -> ArtifactInfo:
        """Save to one file, whole or not at all, that `load` reads; return what it says of itself, its size with it.

        The file holds names and numbers, never code. Representations are stored as they are, or in a `precision` of 16
        or 32 bits; where that rounds them, the predictor of *rounded* rows is saved (see `round`). `model` is any
        text that says which model made the outputs, such as the checksum of its weights.

        Examples
        --------
        >>> import tempfile
        >>> import vicinal as vc
        >>> outputs = vc.ModelOutputs.from_predictions(np.arange(40.0), np.arange(40.0)[:, None])
        >>> predictor = vc.calibrate(outputs, np.arange(40.0) % 7, 0.8, localizer=vc.Uniform(5))
        >>> info = predictor.save(Path(tempfile.mkdtemp()) / "model.vicinal")
        >>> vc.load(info.path)
        IntervalPredictor(coverage=0.8, Uniform(n_neighbors=5), method=Exact, 40 ranked rows)
        """
        if model is not None and not isinstance(model, str):
            raise InvalidArgument("model", model, "a text that says which model made the outputs")
        kept = self if precision is None else self.round(precision)
        return save(path, kept.document(model), precision)

    def document(self, model: str | None = None) -> Document:
        """Return what is saved of the predictor: its parts, arrays and facts."""
        return Document(
            kind=self.kind,
            parts={
                "score": getattr(self, "score", None),
                "localizer": self.localizer,
                "probability_model": getattr(self, "probability_model", None),
                "representation_map": self.representation_map,
                "method": self.method,
                **({} if isinstance(self.search, ExactNeighborSearch) else {"search": self.search}),
            },
            arrays=self.calibration.to_arrays(),
            tuning=self.tuning,
            coverage=format_coverage(self.coverage),
            guarantee=self.guarantee,
            remark=self.remark,
            arithmetic=self.calibration.arithmetic,
            data=self.data,
            seen=self.seen,
            row_ids=self.row_ids,
            model=model,
            **self._facts(),
        )

    def round(self, bits: int) -> Self:
        """Return the predictor with representations rounded to 16 or 32 bits, of calibration and test rows alike.

        It is calibrated anew on the rounded rows, so its guarantee holds; rows that lose nothing stay as they are.
        """
        last, rows = Rounded(bits), self.calibration.reference_rows()
        if rows is None or not self.calibration.width or lossless(rows.representations[:], np.dtype(f"f{bits // 8}")):
            return self
        if not self.method.ranks_reference:
            msg = (
                f"{type(self.method).__name__} ranks rows that it does not keep, so it cannot be rounded afterwards; "
                f"calibrate with representation=Rounded({bits})."
            )
            raise Incompatible(msg)
        first = () if self.representation_map is None else (self.representation_map,)
        found = replace(rows, representations=last.apply(rows.representations[:]))
        return replace(self.recalibrate(found), representation_map=Chained((*first, last)))

    def recalibrate(self, rows: ScoredRows, progress: str | None = None) -> Self:
        """Return the predictor of the same method and localizer on other rows, or on the same anew."""
        task = Task(rows, self.localizer, self.calibration.searched_by(), progress=progress)
        return replace(self, calibration=self.method.calibrate(task))

    @abstractmethod
    def _facts(self) -> dict[str, Any]:
        """Return what is known of the targets, to be saved."""

    def map_representations(self, outputs: ModelOutputs) -> Readable:
        """Return the mapped representations, checked against those of the calibration rows."""
        if not isinstance(outputs, ModelOutputs):
            check_outputs(outputs)
        width = self.calibration.width
        if not width:
            return no_columns(len(outputs))
        rows: Readable | None = outputs.representations
        if rows is None or self.representation_map is not None:
            rows = neighborhood_representations(outputs, self.representation_map)
        if rows.shape[1] != width:
            msg = f"representations must have {width} columns, as in calibration; got {rows.shape[1]}."
            raise ShapeMismatch(msg)
        return rows

    def __repr__(self) -> str:
        parts = [f"coverage={self.coverage!s}", repr(self.localizer), *self._extras()]
        parts.append(f"method={type(self.method).__name__}")
        parts += [] if isinstance(self.search, ExactNeighborSearch) else [f"search={self.search!r}"]
        return f"{type(self).__name__}({', '.join(parts)}, {self.calibration.n_ranked} ranked rows)"

    @abstractmethod
    def _extras(self) -> list[str]:
        """Return in few words what acts besides score and neighborhood."""

    def _repr_html_(self) -> str:
        facts = {
            "coverage": str(self.coverage),
            "score": repr(getattr(self, "score", None)),
            "probabilities": repr(getattr(self, "probability_model", None)),
            "neighborhood": repr(self.localizer),
            "representations": repr(self.representation_map),
            "target range": str(getattr(self, "target_range", None)),
            "method": type(self.method).__name__,
            "ranked rows": str(self.calibration.n_ranked),
            "guarantee": str(self.guarantee),
        }
        lines = [f"{name}  {value}" for name, value in facts.items() if value != "None"]
        return html_text(type(self).__name__, "\n".join(lines))

    @property
    def reads_representations(self) -> bool:
        """Whether any part looks at representations: the neighborhood, or what scores are made of."""
        return bool(self.calibration.width) or self.scores_read_representations

    @property
    @abstractmethod
    def scores_read_representations(self) -> bool:
        """Whether the score of a row depends on its representation."""

    @abstractmethod
    def p_values(self, outputs: ModelOutputs, targets: ArrayLike | None = None) -> Floats:
        """Return p-values of candidates, or of the targets."""

    @abstractmethod
    def target_scores(self, outputs: ModelOutputs, targets: ArrayLike) -> Floats:
        """Return the nonconformity of each row's target, (n,): a fixed function of a row, no matter which others."""

    @abstractmethod
    def check_targets(self, outputs: ModelOutputs, targets: ArrayLike) -> Ints | Floats:
        """Return the targets of rows as checked numbers, (n,)."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class SetPredictor(Predictor):
    """Prediction sets around a classifier."""

    score: ClassificationScore
    probability_model: ProbabilityModel | None
    n_classes: int
    class_names: tuple[str, ...] | None

    kind: ClassVar[str] = "sets"

    @property
    def scores_read_representations(self) -> bool:
        """Whether the probabilities look at representations."""
        return self.probability_model is not None and self.probability_model.reads_representations

    def _extras(self) -> list[str]:
        model = self.probability_model
        return [] if model is None else [f"probability_model={type(model).__name__}"]

    def _facts(self) -> dict[str, Any]:
        """Return number and names of the classes."""
        return {"n_classes": self.n_classes, "class_names": self.class_names}

    def predict(
        self, outputs: ClassificationOutputs, *, memory: float | str | None = None, progress: bool = False
    ) -> PredictionSets:
        """Return the set of labels of each row whose score is at most its threshold.

        `memory`, in megabytes or as "2 GB", is what may be used at a time beside the inputs and the answer.
        """
        return self.predict_at(outputs, [self.coverage], memory=memory, progress=progress)[0]

    def predict_at(
        self,
        outputs: ClassificationOutputs,
        coverages: Sequence[Coverage],
        *,
        memory: float | str | None = None,
        progress: bool = False,
    ) -> list[PredictionSets]:
        """Return the sets at each coverage; distances and probabilities are computed once for all."""
        with within(memory):
            self.check_classes(outputs)
            wanted = _list_coverages(coverages)
            rows, bar = self.map_representations(outputs), "predict" if progress else None
            thresholds = self.calibration.thresholds(rows, wanted, progress=bar)
            n, seed = len(thresholds), self.score.seed
            uniforms = np.zeros(n) if seed is None else row_uniforms(outputs, seed)
            members: list[Bools] = [np.empty((0, self.n_classes), np.bool_) for _ in wanted]
            confidences = np.empty(n)
            for start, chunk in probability_chunks(outputs, self.probability_model):
                some = slice(start, start + len(chunk))
                confidences[some] = row_maxima(chunk)
                for number in range(len(wanted)):
                    found = self._members(chunk, uniforms[some], np.ascontiguousarray(thresholds[some, number]))
                    if len(chunk) == n:  # all at once: no copy
                        members[number] = found
                        continue
                    if start == 0:
                        members[number] = np.empty((n, self.n_classes), np.bool_)
                    members[number][some] = found
            return [
                PredictionSets(
                    found,
                    np.ascontiguousarray(thresholds[:, number]),
                    confidences,
                    outputs.class_names or self.class_names,
                    float(exact_coverage(coverage)),
                    advice=f"score=NeverEmpty({self.score!r})",
                )
                for number, (coverage, found) in enumerate(zip(wanted, members, strict=True))
            ]

    def _members(self, chunk: Reals, uniforms: Floats, thresholds: Floats) -> Bools:
        found: Bools = self.score.find_members(array_api_compat.numpy, chunk, uniforms, thresholds)
        if np.shape(found) != chunk.shape:
            msg = f"{self.score} must return members of shape {chunk.shape}; got {np.shape(found)}."
            raise ShapeMismatch(msg)
        return found

    def p_values(self, outputs: ModelOutputs, targets: ArrayLike | None = None) -> Floats:
        """Return the p-value of every label, (n, classes), or of the targets, (n,).

        A label is in the set where its p-value exceeds (n + 1 - m) / (n + 1); for PaperLiteral, (n - m) / n.
        """
        classified = self.check_classes(outputs)
        if targets is not None:
            scores = self.target_scores(outputs, targets)
            return self.calibration.p_values(self.map_representations(outputs), scores[:, None])[:, 0]
        out = np.empty((len(outputs), self.n_classes))
        step = rows_within(0.25, 2 * PROBABILITY_BYTES * self.n_classes, max(1, CHUNK_ENTRIES // self.n_classes))
        for start in range(0, len(outputs), step):
            some = classified[start : start + step]
            out[start : start + step] = self._p_values_of_all(some)
        return out

    def _p_values_of_all(self, outputs: ClassificationOutputs) -> Floats:
        """Return the p-value of every label, (n, classes), for rows that fit in memory as float64."""
        return self.calibration.p_values(self.map_representations(outputs), self.label_scores(outputs)[1])

    def target_scores(self, outputs: ModelOutputs, targets: ArrayLike) -> Floats:
        """Return the score of each row's label, given as a number or a name, (n,)."""
        labels = self.check_targets(outputs, targets)
        return label_scores(self.check_classes(outputs), labels, self.score, self.probability_model)

    def check_targets(self, outputs: ModelOutputs, targets: ArrayLike) -> Ints:
        """Return the labels of rows, given as numbers or names, as class numbers, (n,)."""
        names = self.check_classes(outputs).class_names or self.class_names
        return as_labels(targets, len(outputs), self.n_classes, names)

    def label_scores(self, outputs: ClassificationOutputs) -> tuple[Floats, Floats]:
        """Return probability and score of every label, (n, classes) each."""
        uniforms = row_uniforms(self.check_classes(outputs), self.score.seed)
        probabilities = np.empty((len(outputs), self.n_classes))
        scores = np.empty(probabilities.shape)
        for start, chunk in probability_chunks(outputs, self.probability_model):
            rows = slice(start, start + len(chunk))
            found = self.score.score_all(chunk, uniforms[rows])
            probabilities[rows], scores[rows] = chunk, check_scores(found, chunk.shape, self.score)
        return probabilities, scores

    def check_classes(self, outputs: ModelOutputs) -> ClassificationOutputs:
        """Return outputs of the classes that were calibrated on; refuse others."""
        classified = as_classification(outputs)
        if classified.n_classes != self.n_classes:
            msg = f"outputs must have {self.n_classes} classes, as in calibration; got {classified.n_classes}."
            raise ShapeMismatch(msg)
        names = (classified.class_names, self.class_names)
        if None not in names and names[0] != names[1]:
            msg = "class_names differ from those given in calibration; the columns must mean the same classes."
            raise Incompatible(msg)
        return classified


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class IntervalPredictor(Predictor):
    """Prediction intervals around a regression model."""

    score: RegressionScore
    target_range: TargetRange | None = None  # what a target can be

    kind: ClassVar[str] = "intervals"

    @property
    def scores_read_representations(self) -> bool:
        """Whether the score looks at representations."""
        return self.score.reads_representations

    def _extras(self) -> list[str]:
        scale = getattr(self.score, "scale", None)
        found = [] if scale is None else [f"scale={type(scale).__name__}"]
        return found if self.target_range is None else [*found, f"target_range={self.target_range}"]

    def _facts(self) -> dict[str, Any]:
        """Return what a target can be."""
        return {"target_range": self.target_range}

    def predict(
        self, outputs: RegressionOutputs, *, memory: float | str | None = None, progress: bool = False
    ) -> PredictionIntervals:
        """Return the interval of each row whose values score at most its threshold.

        `memory`, in megabytes or as "2 GB", is what may be used at a time beside the inputs and the answer.
        """
        return self.predict_at(outputs, [self.coverage], memory=memory, progress=progress)[0]

    def predict_at(
        self,
        outputs: RegressionOutputs,
        coverages: Sequence[Coverage],
        *,
        memory: float | str | None = None,
        progress: bool = False,
    ) -> list[PredictionIntervals]:
        """Return the intervals at each coverage; distances are computed once for all."""
        with within(memory):
            self.score.check(as_regression(outputs))
            wanted = _list_coverages(coverages)
            thresholds = np.ascontiguousarray(self.thresholds(outputs, wanted, progress=progress).T)
            prepared = self.score.prepare(outputs)
            return [
                PredictionIntervals(*self._bounds(prepared, column), column, float(exact_coverage(coverage)))
                for coverage, column in zip(wanted, thresholds, strict=True)
            ]

    def _bounds(self, prepared: RegressionOutputs, thresholds: Floats) -> tuple[Floats, Floats]:
        """Return the values that score at most a threshold, as far as they are possible."""
        found = self.score.find_interval(prepared, thresholds)
        return found if self.target_range is None else self.target_range.clip(*found)

    def p_values(self, outputs: ModelOutputs, targets: ArrayLike | None = None) -> Floats:
        """Return the p-value of each target, (n,); regression has no list of candidates, so `targets` is needed."""
        if targets is None:
            msg = "p_values of a regression needs targets: one value for each row."
            raise Incompatible(msg)
        scores = self.target_scores(outputs, targets)
        return self.calibration.p_values(self.map_representations(outputs), scores[:, None])[:, 0]

    def target_scores(self, outputs: ModelOutputs, targets: ArrayLike) -> Floats:
        """Return the score of each row's value, (n,)."""
        return score_targets(as_regression(outputs), self.check_targets(outputs, targets), self.score)

    def check_targets(self, outputs: ModelOutputs, targets: ArrayLike) -> Floats:
        """Return the targets of rows as finite numbers, (n,); refuse what is not possible."""
        values = as_targets(targets, len(outputs))
        if self.target_range is not None:
            self.target_range.check(values)
        return values


def check_outputs(outputs: ModelOutputs) -> None:
    """Refuse anything but outputs of a model."""
    if not isinstance(outputs, ModelOutputs):
        hint = " collect returns a pair: outputs, targets = collect(...)." if isinstance(outputs, tuple) else ""
        msg = f"this needs ModelOutputs, made by ModelOutputs.from_...; got {type(outputs).__name__}.{hint}"
        raise Incompatible(msg)


def _list_coverages(coverages: Sequence[Coverage]) -> list[Coverage]:
    if not isinstance(coverages, Iterable) or isinstance(coverages, str) or not list(coverages):
        raise InvalidArgument("coverages", coverages, "a list of at least one coverage, such as [0.8, 0.9]")
    return list(coverages)
