"""Calibrated predictors: predictions at any coverage, p-values and explanations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import array_api_compat.numpy
import numpy as np
from numpy.typing import ArrayLike

from vicinal._util.arrays import Bools, Floats, Ints, Reals, as_labels, as_targets, whole_number
from vicinal._util.lazy_rows import Readable
from vicinal._util.notebook import html_text
from vicinal._util.work import rows_within, within
from vicinal.calibration import Calibration, Guarantee, Method, Neighbors, ScoredRows, Split, SplitReference, Task
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
from vicinal.errors import Incompatible, InvalidArgument, Option, ShapeMismatch
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
from vicinal.persistence.parts import is_lossless
from vicinal.probability_models import ProbabilityModel, probability_chunks
from vicinal.probability_models.chain import find_view_average
from vicinal.probability_models.model import CHUNK_ENTRIES, PROBABILITY_BYTES, row_maxima
from vicinal.regions import PredictionIntervals, PredictionSets, TargetRange
from vicinal.representations import Chained, Rounded, RowMap
from vicinal.representations.map import map_probabilities
from vicinal.scores import ClassificationScore, RegressionScore
from vicinal.scores.uniforms import row_uniforms
from vicinal.tuning import TuningReport

OutputsT = TypeVar("OutputsT", ClassificationOutputs, RegressionOutputs)
RegionsT = TypeVar("RegionsT", PredictionSets, PredictionIntervals)


@dataclass(frozen=True, eq=False, kw_only=True)
class Predictor(ABC):
    """A calibrated predictor, made by `calibrate` or `load`; it never changes.

    Parameters
    ----------
    coverage : float, Fraction or Decimal
        Target coverage.
    localizer : Localizer or None
        Defines the neighbors of a row; None if the method has no neighborhood.
    representation_map : RowMap or None
        Fitted map applied to representations before distances are computed.
    method : Method
        Calibration method.
    calibration : Calibration
        Scores and local ranks of the calibration rows.
    tuning : TuningReport, optional
        How the parts were chosen, if `calibrate` chose them.
    remark : str
        What was done with the rows before calibration.
    data : str
        Fingerprint of the rows given to `calibrate`.
    seen : ndarray of shape (n, 2), optional
        Fingerprint of each of these rows, by which they are recognized when they are used again.
    row_ids : ndarray of shape (n,), optional
        Ids of the rows that can be neighbors.

    Examples
    --------
    >>> import numpy as np
    >>> import vicinal as vc
    >>> outputs = vc.ModelOutputs.from_predictions(np.arange(50.0), np.arange(50.0)[:, None])
    >>> vc.calibrate(outputs, np.arange(50.0) % 7, 0.8, localizer=vc.Uniform(5))
    IntervalPredictor(coverage=0.8, Uniform(n_neighbors=5), method=Exact, 50 ranked rows)
    """

    coverage: Coverage
    localizer: Localizer | None
    representation_map: RowMap | None
    method: Method
    calibration: Calibration
    tuning: TuningReport | None = None
    remark: str = ""
    data: str = ""
    seen: Floats | None = None
    row_ids: RowIds | None = None

    kind: ClassVar[str]
    """What the file of a saved predictor holds, as its header says."""

    @property
    def guarantee(self) -> Guarantee:
        """The coverage guarantee, in numbers; `str` gives it in words."""
        found = self.calibration.guarantee(self.coverage)
        more = " ".join(words for words in (self._describe_views(found.probability), self.remark) if words)
        return replace(found, words=f"{found.words} {more}") if more else found

    def at(self, coverage: Coverage) -> Self:
        """Return the predictor at another coverage; it shares all arrays with this one.

        Parameters
        ----------
        coverage : float, Fraction or Decimal
            Target coverage, between 0 and 1.

        Returns
        -------
        SetPredictor or IntervalPredictor
            A predictor of the same kind.

        Raises
        ------
        TooFewRows
            If the coverage needs more calibration rows than there are.
        InvalidArgument
            If the coverage is not between 0 and 1.

        Examples
        --------
        >>> import numpy as np
        >>> import vicinal as vc
        >>> outputs = vc.ModelOutputs.from_predictions(np.arange(50.0))
        >>> vc.calibrate(outputs, np.arange(50.0) % 7, 0.8, method=vc.Split()).at(0.95).coverage
        0.95
        """
        self.calibration.check_coverage(coverage)
        return replace(self, coverage=coverage)

    def without_neighborhood(self) -> Self:
        """Return the Split predictor of the same calibration scores: one threshold for all rows.

        Returns
        -------
        SetPredictor or IntervalPredictor
            A predictor of the same kind.

        Examples
        --------
        >>> import numpy as np
        >>> import vicinal as vc
        >>> outputs = vc.ModelOutputs.from_predictions(np.arange(50.0), np.arange(50.0)[:, None])
        >>> predictor = vc.calibrate(outputs, np.arange(50.0) % 7, 0.8, localizer=vc.Uniform(5))
        >>> predictor.without_neighborhood()
        IntervalPredictor(coverage=0.8, None, method=Split, 50 ranked rows)
        """
        return replace(
            self, method=Split(), localizer=None, calibration=SplitCalibration(self.calibration.ranked_scores)
        )

    def effective_sizes(self, outputs: ModelOutputs) -> Floats:
        """Return the effective number of neighbors of each row.

        Parameters
        ----------
        outputs : ModelOutputs
            Outputs of the model for n rows.

        Returns
        -------
        ndarray of shape (n,)
            The number of equally weighted neighbors that would have the same variance: 1 / sum of squared weights.

        Examples
        --------
        >>> import numpy as np
        >>> import vicinal as vc
        >>> outputs = vc.ModelOutputs.from_predictions(np.arange(50.0), np.arange(50.0)[:, None])
        >>> predictor = vc.calibrate(outputs, np.arange(50.0) % 7, 0.8, localizer=vc.Uniform(5))
        >>> predictor.effective_sizes(vc.ModelOutputs.from_predictions([0.0], [[20.2]]))
        array([5.])
        """
        return self.calibration.effective_sizes(self.map_representations(outputs))

    def thresholds(
        self, outputs: ModelOutputs, coverages: Sequence[Coverage] | None = None, *, progress: bool = False
    ) -> Floats:
        """Return the threshold of each row: the largest accepted score.

        Parameters
        ----------
        outputs : ModelOutputs
            Outputs of the model for n rows.
        coverages : sequence of float, Fraction or Decimal, optional
            Target coverages. Default: the calibrated one.
        progress : bool
            Show a progress bar, on a terminal only.

        Returns
        -------
        ndarray of shape (n,) or (n, coverages)
            Thresholds; with `coverages`, a column for each.

        Raises
        ------
        ShapeMismatch
            If the representations have another width than in calibration.

        Examples
        --------
        >>> import numpy as np
        >>> import vicinal as vc
        >>> outputs = vc.ModelOutputs.from_predictions(np.arange(50.0))
        >>> predictor = vc.calibrate(outputs, np.arange(50.0) + 1, 0.8, method=vc.Split())
        >>> predictor.thresholds(outputs[:2])
        array([1., 1.])
        """
        rows = self.map_representations(outputs)
        wanted = [self.coverage] if coverages is None else _list_coverages(coverages)
        found = self.calibration.thresholds(rows, wanted, progress="predict" if progress else None)
        return found[:, 0] if coverages is None else found

    @property
    def search(self) -> NeighborSearch:
        """The search for neighbors, with all its numbers resolved."""
        return self.calibration.resolve_search()

    def recall(self, outputs: ModelOutputs) -> float:
        """Return the share of the exact neighbors that the search finds.

        It is 1 for an exact search. Each row is compared with all rows that can be neighbors; a few hundred rows are
        enough.

        Parameters
        ----------
        outputs : ModelOutputs
            Outputs of the model for n rows.

        Returns
        -------
        float
            Recall, between 0 and 1.

        Examples
        --------
        >>> import numpy as np
        >>> import vicinal as vc
        >>> outputs = vc.ModelOutputs.from_predictions(np.arange(50.0), np.arange(50.0)[:, None])
        >>> vc.calibrate(outputs, np.arange(50.0) % 7, 0.8, localizer=vc.Uniform(5)).recall(outputs[:10])
        1.0
        """
        return self.calibration.recall(self.map_representations(outputs))

    def neighbors(self, outputs: ModelOutputs) -> Iterator[Neighbors]:
        """Yield the neighbors of each row, nearest first.

        Parameters
        ----------
        outputs : ModelOutputs
            Outputs of the model for n rows.

        Returns
        -------
        iterator of Neighbors
            For each row: row numbers, distances, weights, scores and targets of its neighbors.

        Examples
        --------
        >>> import numpy as np
        >>> import vicinal as vc
        >>> outputs = vc.ModelOutputs.from_predictions(np.arange(50.0), np.arange(50.0)[:, None])
        >>> predictor = vc.calibrate(outputs, np.arange(50.0) % 7, 0.8, localizer=vc.Uniform(3))
        >>> next(predictor.neighbors(vc.ModelOutputs.from_predictions([0.0], [[20.2]]))).rows
        array([20, 21, 19])
        """
        return self.calibration.neighbors(self.map_representations(outputs))

    def explain(self, outputs: ModelOutputs, row: int = 0) -> Explanation:
        """Explain the threshold of one row by its neighbors.

        Parameters
        ----------
        outputs : ModelOutputs
            Outputs of the model for n rows.
        row : int
            Which row to explain, from 0.

        Returns
        -------
        Explanation
            The neighbors with their weights, the threshold of the row and the one without a neighborhood; `str` words
            it.

        Raises
        ------
        InvalidArgument
            If there is no such row.

        Examples
        --------
        >>> import numpy as np
        >>> import vicinal as vc
        >>> outputs = vc.ModelOutputs.from_predictions(np.arange(50.0), np.arange(50.0)[:, None])
        >>> predictor = vc.calibrate(outputs, np.arange(50.0) + 1, 0.8, localizer=vc.Uniform(3))
        >>> predictor.explain(outputs, row=20).threshold
        1.0
        """
        check_outputs(outputs)
        number = whole_number("row", row, least=0, most=len(outputs) - 1)
        one = outputs[number : number + 1]
        return Explanation(
            neighbors=next(self.neighbors(one)),
            threshold=float(self.thresholds(one)[0]),
            global_threshold=self.calibration.global_threshold(self.coverage),
            coverage=float(exact_coverage(self.coverage)),
            common=self.describe_neighbors(),
        )

    def describe_neighbors(self) -> str:
        """Return what the neighbors of a row are and have in common with it.

        Returns
        -------
        str
            Such as "calibration rows with about the same prediction"; empty if there is no neighborhood, or neighbors
            are near in the representation.

        Examples
        --------
        >>> import numpy as np
        >>> import vicinal as vc
        >>> outputs = vc.ModelOutputs.from_predictions(np.arange(50.0))
        >>> prediction = vc.DifficultyMap(vc.Prediction()).fit(outputs[:20])
        >>> rest, values = outputs[20:], np.arange(30.0) % 7
        >>> near = vc.Uniform(5)
        >>> vc.calibrate(rest, values, 0.8, localizer=near, representation_map=prediction).describe_neighbors()
        'calibration rows with about the same prediction'
        """
        if self.representation_map is None or not self.representation_map.words or not self.calibration.width:
            return ""
        kind = "reference" if isinstance(self.method, SplitReference) else "calibration"
        return f"{kind} rows {self.representation_map.words}"

    def save(self, path: str | Path, *, precision: int | None = None, model: str | None = None) -> ArtifactInfo:
        """Save the predictor to one file, which `load` reads.

        The file holds names and numbers, never code. It is written completely or not at all.

        Parameters
        ----------
        path : str or Path
            The file to write.
        precision : int, optional
            Store representations in 16 or 32 bits. If that rounds them, the predictor of the rounded rows is saved (see
            `round`). Default: as they are.
        model : str, optional
            Identifies the model that made the outputs, such as the checksum of its weights.

        Returns
        -------
        ArtifactInfo
            A description of the file.

        Raises
        ------
        CannotWrite
            If the file cannot be written.
        InvalidArgument
            If `precision` is not 16 or 32, or `model` is not a string.
        Incompatible
            If a part cannot be saved, or the predictor cannot be rounded after calibration.

        Examples
        --------
        >>> import tempfile
        >>> from pathlib import Path
        >>> import numpy as np
        >>> import vicinal as vc
        >>> outputs = vc.ModelOutputs.from_predictions(np.arange(40.0), np.arange(40.0)[:, None])
        >>> predictor = vc.calibrate(outputs, np.arange(40.0) % 7, 0.8, localizer=vc.Uniform(5))
        >>> info = predictor.save(Path(tempfile.mkdtemp()) / "model.vicinal")
        >>> vc.load(info.path)
        IntervalPredictor(coverage=0.8, Uniform(n_neighbors=5), method=Exact, 40 ranked rows)
        """
        if model is not None and not isinstance(model, str):
            raise InvalidArgument("model", model, "a string that identifies the model that made the outputs")
        kept = self if precision is None else self.round(precision)
        return save(path, kept.document(model), precision)

    def document(self, model: str | None = None) -> Document:
        """Return what `save` writes: parts, arrays and facts.

        Parameters
        ----------
        model : str, optional
            Identifies the model that made the outputs.

        Returns
        -------
        Document
            The content of the file.
        """
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
        """Return the predictor with representations rounded to 16 or 32 bits.

        Calibration and test rows are rounded alike, and the predictor is calibrated anew on the rounded rows, so its
        guarantee holds. If rounding changes nothing, the predictor itself is returned.

        Parameters
        ----------
        bits : int
            16 or 32.

        Returns
        -------
        SetPredictor or IntervalPredictor
            A predictor of the same kind.

        Raises
        ------
        InvalidArgument
            If `bits` is neither 16 nor 32.
        Incompatible
            If the method does not keep the rows that it ranks (`SplitReference`).

        Examples
        --------
        >>> import numpy as np
        >>> import vicinal as vc
        >>> outputs = vc.ModelOutputs.from_predictions(np.arange(50.0), np.arange(50.0)[:, None] / 3)
        >>> vc.calibrate(outputs, np.arange(50.0) % 7, 0.8, localizer=vc.Uniform(5)).round(16).representation_map
        Rounded(bits=16)
        """
        last, rows = Rounded(bits), self.calibration.reference_rows()
        if (
            rows is None
            or not self.calibration.width
            or is_lossless(rows.representations[:], np.dtype(f"f{bits // 8}"))
        ):
            return self
        if not self.method.ranks_reference:
            msg = (
                f"{type(self.method).__name__} does not keep the rows that it ranks, so it cannot be rounded after "
                "calibration. Calibrate with {rounding}."
            )
            raise Incompatible(msg, rounding=Option("representation_map", f"Rounded({bits})"))
        first = () if self.representation_map is None else (self.representation_map,)
        found = replace(rows, representations=last.apply(rows.representations[:]))
        return replace(self.recalibrate(found), representation_map=Chained((*first, last)))

    def recalibrate(self, rows: ScoredRows, progress: str | None = None) -> Self:
        """Return the predictor calibrated by the same method on other rows.

        Parameters
        ----------
        rows : ScoredRows
            Rows with representations, scores and targets.
        progress : str, optional
            Label of a progress bar. Default: none.

        Returns
        -------
        SetPredictor or IntervalPredictor
            A predictor of the same kind.
        """
        task = Task(rows, self.localizer, self.calibration.get_search(), progress=progress)
        return replace(self, calibration=self.method.calibrate(task))

    @abstractmethod
    def _facts(self) -> dict[str, Any]:
        """Return the facts about the targets that are saved."""

    @abstractmethod
    def _describe_views(self, probability: float | None) -> str:
        """Return what a guaranteed probability means for rows with several views, in words; empty without views."""

    def map_representations(self, outputs: ModelOutputs) -> Readable:
        """Return the mapped representations, checked against those of calibration.

        Parameters
        ----------
        outputs : ModelOutputs
            Outputs of the model for n rows.

        Returns
        -------
        array of shape (n, d)
            Representations; d is 0 if there is no neighborhood.

        Raises
        ------
        ShapeMismatch
            If they have another width than in calibration.
        """
        if not isinstance(outputs, ModelOutputs):
            check_outputs(outputs)
        width = self.calibration.width
        if not width:
            return no_columns(len(outputs))
        rows: Readable | None = outputs.representations
        if rows is None or self.representation_map is not None:
            model = getattr(self, "probability_model", None)
            rows = neighborhood_representations(outputs, self.representation_map, model)
        self._check_width(rows)
        return rows

    def _check_width(self, rows: Readable) -> None:
        width = self.calibration.width
        if rows.shape[1] != width:
            msg = f"representations must have {width} columns, as in calibration; got {rows.shape[1]}."
            raise ShapeMismatch(msg, argument="representations", expected=width, found=rows.shape[1])

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
        """Whether any part uses representations: the neighborhood, the probability model or the score."""
        near = self.representation_map is None or self.representation_map.reads_representations
        return (near and bool(self.calibration.width)) or self.scores_read_representations

    @property
    @abstractmethod
    def scores_read_representations(self) -> bool:
        """Whether the score of a row depends on its representation."""

    @abstractmethod
    def p_values(self, outputs: ModelOutputs, targets: ArrayLike | None = None) -> Floats:
        """Return p-values of candidates, or of the targets.

        Parameters
        ----------
        outputs : ModelOutputs
            Outputs of the model for n rows.
        targets : array-like of shape (n,), optional
            Labels or values.

        Returns
        -------
        ndarray of shape (n,) or (n, classes)
            The p-values.
        """

    @abstractmethod
    def target_scores(self, outputs: ModelOutputs, targets: ArrayLike) -> Floats:
        """Return the nonconformity score of each row's target.

        Parameters
        ----------
        outputs : ModelOutputs
            Outputs of the model for n rows.
        targets : array-like of shape (n,)
            Labels or values.

        Returns
        -------
        ndarray of shape (n,)
            The scores; each depends on its own row only.
        """

    @abstractmethod
    def check_targets(self, outputs: ModelOutputs, targets: ArrayLike) -> Ints | Floats:
        """Return the targets as checked numbers.

        Parameters
        ----------
        outputs : ModelOutputs
            Outputs of the model for n rows.
        targets : array-like of shape (n,)
            Labels (numbers or names) or values.

        Returns
        -------
        ndarray of shape (n,)
            Class numbers or values.
        """


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class RegionPredictor(Predictor, Generic[OutputsT, RegionsT]):
    """A predictor, generic in the types of its inputs and answers."""

    def predict(self, outputs: OutputsT, *, memory: float | str | None = None, progress: bool = False) -> RegionsT:
        """Predict a set or an interval for each row.

        Parameters
        ----------
        outputs : ClassificationOutputs or RegressionOutputs
            Outputs of the model for n rows, of the same kind as in calibration.
        memory : float or str, optional
            Limit on working memory, in megabytes or as "2 GB", not counting inputs and answers. Default:
            `VICINAL_MEMORY`, or 512 MB.
        progress : bool
            Show a progress bar, on a terminal only.

        Returns
        -------
        PredictionSets or PredictionIntervals
            The labels, or the interval of values, whose score is at most the threshold of the row.

        Raises
        ------
        ShapeMismatch
            If the outputs have another number of classes or columns than in calibration.
        Incompatible
            If the outputs are of the wrong kind, or lack what a part needs.

        Examples
        --------
        >>> import numpy as np
        >>> import vicinal as vc
        >>> outputs = vc.ModelOutputs.from_predictions(np.zeros(50))
        >>> predictor = vc.calibrate(outputs, np.arange(50.0) / 50, 0.8, method=vc.Split())
        >>> predictor.predict(vc.ModelOutputs.from_predictions([1.0])).upper
        array([1.8])
        """
        with within(memory):
            return self._predict_at(outputs, [self.coverage], "predict" if progress else None)[0]

    def predict_at(
        self,
        outputs: OutputsT,
        coverages: Sequence[Coverage],
        *,
        memory: float | str | None = None,
        progress: bool = False,
    ) -> list[RegionsT]:
        """Predict at several coverages; distances and probabilities are computed once for all of them.

        Parameters
        ----------
        outputs : ClassificationOutputs or RegressionOutputs
            Outputs of the model for n rows, of the same kind as in calibration.
        coverages : sequence of float, Fraction or Decimal
            Target coverages.
        memory : float or str, optional
            Limit on working memory, as in `predict`.
        progress : bool
            Show a progress bar, on a terminal only.

        Returns
        -------
        list of PredictionSets or PredictionIntervals
            The answers at each coverage.

        Raises
        ------
        TooFewRows
            If a coverage needs more calibration rows than there are.
        InvalidArgument
            If `coverages` is not a list of numbers between 0 and 1.

        Examples
        --------
        >>> import numpy as np
        >>> import vicinal as vc
        >>> outputs = vc.ModelOutputs.from_predictions(np.zeros(50))
        >>> predictor = vc.calibrate(outputs, np.arange(50.0) / 50, 0.8, method=vc.Split())
        >>> [float(found.upper[0]) for found in predictor.predict_at(outputs[:1], [0.5, 0.9])]
        [0.5, 0.9]
        """
        with within(memory):
            return self._predict_at(outputs, _list_coverages(coverages), "predict" if progress else None)

    @abstractmethod
    def _predict_at(self, outputs: OutputsT, coverages: list[Coverage], bar: str | None) -> list[RegionsT]:
        """Return the answers at each coverage; `bar` is the label of a progress bar, or None for none."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class SetPredictor(RegionPredictor[ClassificationOutputs, PredictionSets]):
    """A calibrated predictor of prediction sets, for a classifier.

    Parameters
    ----------
    coverage : float, Fraction or Decimal
        Target coverage.
    localizer : Localizer or None
        Defines the neighbors of a row; None if the method has no neighborhood.
    representation_map : RowMap or None
        Fitted map applied to representations before distances are computed.
    method : Method
        Calibration method.
    calibration : Calibration
        Scores and local ranks of the calibration rows.
    tuning : TuningReport, optional
        How the parts were chosen, if `calibrate` chose them.
    remark : str
        What was done with the rows before calibration.
    data : str
        Fingerprint of the rows given to `calibrate`.
    seen : ndarray of shape (n, 2), optional
        Fingerprint of each of these rows, by which they are recognized when they are used again.
    row_ids : ndarray of shape (n,), optional
        Ids of the rows that can be neighbors.
    score : ClassificationScore
        Nonconformity score.
    probability_model : ProbabilityModel or None
        Fitted model that adjusts the probabilities.
    n_classes : int
        Number of classes.
    class_names : tuple of str or None
        Names of the classes.

    Examples
    --------
    >>> import vicinal as vc
    >>> data = vc.datasets.load_cifar100_resnet18()
    >>> vc.calibrate(data.outputs[:500], data.labels[:500], 0.9, localizer=vc.Uniform(50))
    SetPredictor(coverage=0.9, Uniform(n_neighbors=50), method=Exact, 500 ranked rows)
    """

    score: ClassificationScore
    probability_model: ProbabilityModel | None
    n_classes: int
    class_names: tuple[str, ...] | None

    kind: ClassVar[str] = "sets"

    @property
    def scores_read_representations(self) -> bool:
        """Whether the probability model uses representations."""
        return self.probability_model is not None and self.probability_model.reads_representations

    def _extras(self) -> list[str]:
        model = self.probability_model
        return [] if model is None else [f"probability_model={type(model).__name__}"]

    @property
    def n_views(self) -> int | None:
        """Number of views that a row must have; None if only the input itself, view 0, is read."""
        average = find_view_average(self.probability_model)
        return self.score.n_views if average is None else len(average.weights)

    def _describe_views(self, probability: float | None) -> str:
        return self.score.describe_views(probability, local=bool(self.calibration.width))

    def _facts(self) -> dict[str, Any]:
        """Return number and names of the classes."""
        return {"n_classes": self.n_classes, "class_names": self.class_names}

    def _predict_at(
        self, outputs: ClassificationOutputs, coverages: list[Coverage], bar: str | None
    ) -> list[PredictionSets]:
        """Compute the probabilities once, a chunk of rows at a time, and compare their scores with all thresholds."""
        self.check_classes(outputs)
        n, seed, row_map = len(outputs), self.score.seed, self.representation_map
        hard = row_map if row_map is not None and row_map.reads_outputs and self.calibration.width else None
        if hard is None:
            thresholds = self.calibration.thresholds(self.map_representations(outputs), coverages, progress=bar)
        else:  # the map reads the probabilities too: they are computed once for both
            thresholds = np.empty((n, len(coverages)))
        uniforms = np.zeros(n) if seed is None else row_uniforms(outputs, seed)
        members: list[Bools] = [np.empty((0, self.n_classes), np.bool_) for _ in coverages]
        confidences = np.empty(n)
        for start, chunk in probability_chunks(outputs, self.probability_model, each_view=self.score.reads_views):
            some = slice(start, start + len(chunk))
            own = _of_input(chunk)
            confidences[some] = row_maxima(own)
            if hard is not None:
                rows = map_probabilities(outputs[some], hard, own)
                self._check_width(rows)
                thresholds[some] = self.calibration.thresholds(rows, coverages, progress=bar)
            for number in range(len(coverages)):
                found = self._members(chunk, uniforms[some], np.ascontiguousarray(thresholds[some, number]))
                if len(chunk) == n:  # all rows at once: no copy
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
                advice=Option("score", f"NeverEmpty({self.score!r})"),
            )
            for number, (coverage, found) in enumerate(zip(coverages, members, strict=True))
        ]

    def _members(self, chunk: Reals, uniforms: Floats, thresholds: Floats) -> Bools:
        found: Bools = self.score.find_members(array_api_compat.numpy, chunk, uniforms, thresholds)
        if np.shape(found) != (expected := (len(chunk), chunk.shape[-1])):
            msg = f"{self.score} must return members of shape {expected}; got {np.shape(found)}."
            raise ShapeMismatch(msg, argument="members", expected=expected, found=np.shape(found))
        return found

    def p_values(self, outputs: ModelOutputs, targets: ArrayLike | None = None) -> Floats:
        """Return the p-value of every label, or of the targets.

        Parameters
        ----------
        outputs : ModelOutputs
            Outputs of the model for n rows.
        targets : array-like of shape (n,), optional
            Labels, as numbers or names. Default: all labels.

        Returns
        -------
        ndarray of shape (n, classes) or (n,)
            The p-values; with `targets`, one for each row.

        Raises
        ------
        ShapeMismatch
            If the outputs have another number of classes than in calibration.

        Notes
        -----
        The p-value of a label is the share of the n + 1 rows, the test row included, whose pair of local rank and score
        is at least that of the test row with this label. A label is in the set exactly when its p-value exceeds (n + 1
        - m) / (n + 1), with m = ceil(c (n + 1)) for coverage c. `PaperLiteral` counts n rows instead of n + 1.

        Examples
        --------
        >>> import vicinal as vc
        >>> data = vc.datasets.load_cifar100_resnet18()
        >>> predictor = vc.calibrate(data.outputs[:500], data.labels[:500], 0.9, method=vc.Split())
        >>> predictor.p_values(data.outputs[500:503]).shape
        (3, 100)
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
        """Return the nonconformity score of each row's label.

        Parameters
        ----------
        outputs : ModelOutputs
            Outputs of the model for n rows.
        targets : array-like of shape (n,)
            Labels, as numbers or names.

        Returns
        -------
        ndarray of shape (n,)
            The scores; each depends on its own row only.

        Examples
        --------
        >>> import vicinal as vc
        >>> outputs = vc.ModelOutputs.from_probabilities([[0.75, 0.25], [0.5, 0.5]] * 10)
        >>> predictor = vc.calibrate(outputs, [0, 1] * 10, 0.5, score=vc.LAC(), method=vc.Split())
        >>> predictor.target_scores(outputs[:2], [0, 1])
        array([0.25, 0.5 ])
        """
        labels = self.check_targets(outputs, targets)
        return label_scores(self.check_classes(outputs), labels, self.score, self.probability_model)

    def check_targets(self, outputs: ModelOutputs, targets: ArrayLike) -> Ints:
        """Return labels as class numbers.

        Parameters
        ----------
        outputs : ModelOutputs
            Outputs of the model for n rows.
        targets : array-like of shape (n,)
            Labels, as numbers or names.

        Returns
        -------
        ndarray of shape (n,)
            Class numbers.

        Raises
        ------
        InvalidValue
            If a label is none of the classes.
        """
        names = self.check_classes(outputs).class_names or self.class_names
        return as_labels(targets, len(outputs), self.n_classes, names)

    def label_scores(self, outputs: ClassificationOutputs) -> tuple[Floats, Floats]:
        """Return probability and nonconformity score of every label.

        Parameters
        ----------
        outputs : ClassificationOutputs
            Outputs of the model for n rows.

        Returns
        -------
        probabilities : ndarray of shape (n, classes)
            The probabilities, adjusted by the probability model; for a score that reads views, those of view 0.
        scores : ndarray of shape (n, classes)
            The scores.

        Examples
        --------
        >>> import vicinal as vc
        >>> outputs = vc.ModelOutputs.from_probabilities([[0.75, 0.25], [0.5, 0.5]] * 10)
        >>> predictor = vc.calibrate(outputs, [0, 1] * 10, 0.5, score=vc.LAC(), method=vc.Split())
        >>> predictor.label_scores(outputs[:1])[1]
        array([[0.25, 0.75]])
        """
        uniforms = row_uniforms(self.check_classes(outputs), self.score.seed)
        probabilities = np.empty((len(outputs), self.n_classes))
        scores = np.empty(probabilities.shape)
        for start, chunk in probability_chunks(outputs, self.probability_model, each_view=self.score.reads_views):
            rows = slice(start, start + len(chunk))
            found = self.score.score_all(chunk, uniforms[rows])
            probabilities[rows] = _of_input(chunk)
            scores[rows] = check_scores(found, probabilities[rows].shape, self.score)
        return probabilities, scores

    def check_classes(self, outputs: ModelOutputs) -> ClassificationOutputs:
        """Return the outputs if their classes are those of calibration.

        Parameters
        ----------
        outputs : ModelOutputs
            Outputs of the model.

        Returns
        -------
        ClassificationOutputs
            The same outputs.

        Raises
        ------
        ShapeMismatch
            If the number of classes differs, or of views, where the score reads them.
        Incompatible
            If the names of the classes differ, or the outputs are a regression's.
        """
        classified = as_classification(outputs)
        if classified.n_classes != self.n_classes:
            msg = f"outputs must have {self.n_classes} classes, as in calibration; got {classified.n_classes}."
            raise ShapeMismatch(msg, argument="outputs", expected=self.n_classes, found=classified.n_classes)
        if self.score.reads_views:
            self.score.check_views(classified.n_views, one=True)
        names = (classified.class_names, self.class_names)
        if None not in names and names[0] != names[1]:
            msg = "class_names differ from those given in calibration; the columns must mean the same classes."
            raise Incompatible(msg)
        return classified


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class IntervalPredictor(RegionPredictor[RegressionOutputs, PredictionIntervals]):
    """A calibrated predictor of prediction intervals, for a regression.

    Parameters
    ----------
    coverage : float, Fraction or Decimal
        Target coverage.
    localizer : Localizer or None
        Defines the neighbors of a row; None if the method has no neighborhood.
    representation_map : RowMap or None
        Fitted map applied to representations before distances are computed.
    method : Method
        Calibration method.
    calibration : Calibration
        Scores and local ranks of the calibration rows.
    tuning : TuningReport, optional
        How the parts were chosen, if `calibrate` chose them.
    remark : str
        What was done with the rows before calibration.
    data : str
        Fingerprint of the rows given to `calibrate`.
    seen : ndarray of shape (n, 2), optional
        Fingerprint of each of these rows, by which they are recognized when they are used again.
    row_ids : ndarray of shape (n,), optional
        Ids of the rows that can be neighbors.
    score : RegressionScore
        Nonconformity score.
    target_range : TargetRange, optional
        Range of possible targets, to which intervals are clipped.

    Examples
    --------
    >>> import numpy as np
    >>> import vicinal as vc
    >>> outputs = vc.ModelOutputs.from_predictions(np.arange(50.0), np.arange(50.0)[:, None])
    >>> vc.calibrate(outputs, np.arange(50.0) % 7, 0.8, localizer=vc.Uniform(5))
    IntervalPredictor(coverage=0.8, Uniform(n_neighbors=5), method=Exact, 50 ranked rows)
    """

    score: RegressionScore
    target_range: TargetRange | None = None

    kind: ClassVar[str] = "intervals"

    @property
    def scores_read_representations(self) -> bool:
        """Whether the score uses representations."""
        return self.score.reads_representations

    def _extras(self) -> list[str]:
        scale = getattr(self.score, "scale", None)
        found = [] if scale is None else [f"scale={type(scale).__name__}"]
        return found if self.target_range is None else [*found, f"target_range={self.target_range}"]

    def _describe_views(self, probability: float | None) -> str:
        del probability
        return ""

    def _facts(self) -> dict[str, Any]:
        """Return the range of targets."""
        return {"target_range": self.target_range}

    def _predict_at(
        self, outputs: RegressionOutputs, coverages: list[Coverage], bar: str | None
    ) -> list[PredictionIntervals]:
        self.score.check(as_regression(outputs))
        rows = self.map_representations(outputs)
        thresholds = np.ascontiguousarray(self.calibration.thresholds(rows, coverages, progress=bar).T)
        prepared = self.score.prepare(outputs)
        return [
            PredictionIntervals(*self._bounds(prepared, column), column, float(exact_coverage(coverage)))
            for coverage, column in zip(coverages, thresholds, strict=True)
        ]

    def _bounds(self, prepared: RegressionOutputs, thresholds: Floats) -> tuple[Floats, Floats]:
        """Return the interval of values that score at most a threshold, clipped to the range of targets."""
        found = self.score.find_interval(prepared, thresholds)
        return found if self.target_range is None else self.target_range.clip(*found)

    def p_values(self, outputs: ModelOutputs, targets: ArrayLike | None = None) -> Floats:
        """Return the p-value of each row's target.

        Parameters
        ----------
        outputs : ModelOutputs
            Outputs of the model for n rows.
        targets : array-like of shape (n,)
            Values. They are required: a regression has no list of candidates.

        Returns
        -------
        ndarray of shape (n,)
            The p-values: a value is in the interval exactly when its p-value exceeds (n + 1 - m) / (n + 1).

        Raises
        ------
        Incompatible
            If `targets` is None.

        Examples
        --------
        >>> import numpy as np
        >>> import vicinal as vc
        >>> outputs = vc.ModelOutputs.from_predictions(np.zeros(9))
        >>> predictor = vc.calibrate(outputs, np.arange(9.0), 0.8, method=vc.Split())
        >>> predictor.p_values(outputs[:2], [0.0, 100.0])
        array([1. , 0.1])
        """
        if targets is None:
            msg = "p_values of a regression needs targets, one value for each row: p_values(outputs, targets)."
            raise Incompatible(msg)
        scores = self.target_scores(outputs, targets)
        return self.calibration.p_values(self.map_representations(outputs), scores[:, None])[:, 0]

    def target_scores(self, outputs: ModelOutputs, targets: ArrayLike) -> Floats:
        """Return the nonconformity score of each row's value.

        Parameters
        ----------
        outputs : ModelOutputs
            Outputs of the model for n rows.
        targets : array-like of shape (n,)
            Values.

        Returns
        -------
        ndarray of shape (n,)
            The scores; each depends on its own row only.

        Examples
        --------
        >>> import numpy as np
        >>> import vicinal as vc
        >>> outputs = vc.ModelOutputs.from_predictions(np.zeros(9))
        >>> predictor = vc.calibrate(outputs, np.arange(9.0), 0.8, method=vc.Split())
        >>> predictor.target_scores(outputs[:2], [-3.0, 2.0])
        array([3., 2.])
        """
        return score_targets(as_regression(outputs), self.check_targets(outputs, targets), self.score)

    def check_targets(self, outputs: ModelOutputs, targets: ArrayLike) -> Floats:
        """Return the targets as finite numbers.

        Parameters
        ----------
        outputs : ModelOutputs
            Outputs of the model for n rows.
        targets : array-like of shape (n,)
            Values.

        Returns
        -------
        ndarray of shape (n,)
            The values as float64.

        Raises
        ------
        InvalidValue
            If a value is not finite, or outside the range of targets.
        """
        values = as_targets(targets, len(outputs))
        if self.target_range is not None:
            self.target_range.check(values)
        return values


def _of_input(probabilities: Reals) -> Reals:
    """Return the probabilities of the input itself, view 0, (n, classes)."""
    return np.ascontiguousarray(probabilities[:, 0]) if probabilities.ndim > 2 else probabilities  # noqa: PLR2004


def check_outputs(outputs: ModelOutputs) -> None:
    """Raise an error unless these are outputs of a model."""
    if not isinstance(outputs, ModelOutputs):
        hint = " collect returns a pair: outputs, targets = collect(...)." if isinstance(outputs, tuple) else ""
        msg = f"outputs must be ModelOutputs, made by ModelOutputs.from_...; got {type(outputs).__name__}.{hint}"
        raise Incompatible(msg)


def _list_coverages(coverages: Sequence[Coverage]) -> list[Coverage]:
    if not isinstance(coverages, Iterable) or isinstance(coverages, str) or not list(coverages):
        raise InvalidArgument("coverages", coverages, "a list of at least one coverage, such as [0.8, 0.9]")
    return list(coverages)
