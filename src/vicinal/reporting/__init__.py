"""One HTML file that shows what a predictor does and why: it opens from disk and needs no network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from vicinal._util.arrays import seed_number, whole_number
from vicinal._util.files import replacing, writable
from vicinal._util.hashing import row_marks
from vicinal.errors import Incompatible, TooFewRows
from vicinal.evaluation.diagnosis import choose_baseline
from vicinal.evaluation.unseen import check_unseen
from vicinal.outputs import ModelOutputs
from vicinal.predictor.predictors import IntervalPredictor, Predictor, SetPredictor
from vicinal.reporting import gather, plots
from vicinal.reporting.explorer import Images, difficulty_curve, explore_rows, landscape, shown_rows
from vicinal.reporting.gather import ReportAnswers
from vicinal.reporting.html import render
from vicinal.reporting.projections import PCA, TSNE, Projection
from vicinal.reporting.thumbnails import Thumbnails, as_images
from vicinal.tuning import TuningReport

__all__ = ["PCA", "TSNE", "Projection", "gather_report", "plots", "report"]

LEAST_ROWS = 20
"""Test rows below which a report would show chance only."""

FLAT = PCA()


def report(
    predictor: SetPredictor | IntervalPredictor,
    outputs: ModelOutputs,
    targets: ArrayLike,
    path: str | Path,
    *,
    baseline: SetPredictor | IntervalPredictor | None = None,
    groups: Any = None,
    tuning: TuningReport | None = None,
    inputs: ArrayLike | None = None,
    images: ArrayLike | None = None,
    neighbor_images: ArrayLike | None = None,
    projection: Projection = FLAT,
    rows: int = 200,
    title: str | None = None,
    seed: int = 0,
) -> Path:
    """Write an HTML report of a predictor on test rows with known targets; return its path.

    Parameters
    ----------
    predictor : SetPredictor or IntervalPredictor
        What `calibrate` returned.
    outputs : ModelOutputs
        Rows that it was not calibrated on, at least 20.
    targets : array-like of shape (n,)
        Their truth.
    path : str or Path
        The file to write.
    baseline : SetPredictor or IntervalPredictor, optional
        What to compare with, such as plain split with the default score. Without: the same predictor without its
        neighborhood.
    groups : array-like of shape (n,), or mapping or data frame of several, optional
        Columns by which coverage is shown, such as a hospital.
    tuning : TuningReport, optional
        What `tune` returned; without, the predictor's own, if it was tuned by `calibrate`.
    inputs : array-like of shape (n, ...), optional
        The raw inputs. Their silhouette is shown next to that of the representations.
    images : array-like of shape (n, height, width) or (n, height, width, 3), optional
        Pictures of the test rows: bytes, or shares from 0 to 1.
    neighbor_images : array-like, optional
        Pictures of the calibration rows, in the order in which `calibrate` got them.
    projection : PCA or TSNE
        How calibration rows are laid out in two dimensions.
    rows : int
        How many test rows can be explored.
    title : str, optional
        The title of the page.
    seed : int
        Draws the rows that are shown.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    Incompatible
        If the arguments do not fit each other, or are in another order.
    TooFewRows
        With fewer than 20 rows.

    Examples
    --------
    >>> import tempfile
    >>> import vicinal as vc
    >>> data = vc.datasets.load_cifar100_resnet18()
    >>> near = vc.Exponential(n_neighbors=100, bandwidth=2.0)
    >>> predictor = vc.calibrate(data.outputs[:1000], data.labels[:1000], 0.9, localizer=near)
    >>> folder = Path(tempfile.mkdtemp())
    >>> vc.report(predictor, data.outputs[3900:], data.labels[3900:], folder / "report.html", rows=20).name
    'report.html'
    """
    if not isinstance(path, (str, Path)):
        msg = f"report needs predictor, outputs, targets and a path, in this order; got {type(path).__name__} as path."
        raise Incompatible(msg)
    file = Path(path)
    writable(file)
    data = gather_report(
        predictor,
        outputs,
        targets,
        baseline=baseline,
        groups=groups,
        tuning=tuning,
        inputs=inputs,
        images=images,
        neighbor_images=neighbor_images,
        projection=projection,
        rows=rows,
        title=title,
        seed=seed,
    )
    with replacing(file) as page:
        page.write(render(data).encode())
    return file


def gather_report(
    predictor: SetPredictor | IntervalPredictor,
    outputs: ModelOutputs,
    targets: ArrayLike,
    *,
    baseline: SetPredictor | IntervalPredictor | None = None,
    groups: Any = None,
    tuning: TuningReport | None = None,
    inputs: ArrayLike | None = None,
    images: ArrayLike | None = None,
    neighbor_images: ArrayLike | None = None,
    projection: Projection = FLAT,
    rows: int = 200,
    title: str | None = None,
    seed: int = 0,
) -> dict[str, object]:
    """Return all that `report` shows, as numbers and words; `vicinal.plots.static` draws it with matplotlib.

    Parameters
    ----------
    predictor : SetPredictor or IntervalPredictor
        What `calibrate` returned.
    outputs : ModelOutputs
        Rows that it was not calibrated on, at least 20.
    targets : array-like of shape (n,)
        Their truth.
    baseline : SetPredictor or IntervalPredictor, optional
        What to compare with, such as plain split with the default score. Without: the same predictor without its
        neighborhood.
    groups : array-like of shape (n,), or mapping or data frame of several, optional
        Columns by which coverage is shown, such as a hospital.
    tuning : TuningReport, optional
        What `tune` returned; without, the predictor's own, if it was tuned by `calibrate`.
    inputs : array-like of shape (n, ...), optional
        The raw inputs. Their silhouette is shown next to that of the representations.
    images : array-like of shape (n, height, width) or (n, height, width, 3), optional
        Pictures of the test rows: bytes, or shares from 0 to 1.
    neighbor_images : array-like, optional
        Pictures of the calibration rows, in the order in which `calibrate` got them.
    projection : PCA or TSNE
        How calibration rows are laid out in two dimensions.
    rows : int
        How many test rows can be explored.
    title : str, optional
        The title of the page.
    seed : int
        Draws the rows that are shown.

    Returns
    -------
    dict
        What the page draws, ready for JSON.

    Examples
    --------
    >>> import vicinal as vc
    >>> data = vc.datasets.load_cifar100_resnet18()
    >>> predictor = vc.calibrate(data.outputs[:300], data.labels[:300], 0.9, method=vc.Split())
    >>> gather_report(predictor, data.outputs[300:400], data.labels[300:400], rows=5)["task"]
    'classification'
    """
    _check(predictor, outputs, tuning, projection)
    rows, seed = whole_number("rows", rows, least=1), seed_number("seed", seed)
    pictures = Images(as_images(images, len(outputs), "images"), as_images(neighbor_images, None, "neighbor_images"))
    marks = row_marks(outputs, predictor.check_targets(outputs, targets))
    for one in (predictor, choose_baseline(predictor, baseline)):
        check_unseen(one, marks, "outputs")
    answers = ReportAnswers.of(predictor, baseline, outputs, targets)
    shown = shown_rows(answers, rows, seed)
    thumbnails = Thumbnails()
    curve = difficulty_curve(answers, shown, seed)
    flat, places = landscape(answers, shown, projection, seed) if curve is None else (None, None)
    explorer = explore_rows(answers, shown, places, pictures, thumbnails)
    used = predictor.tuning if tuning is None else tuning
    kind = "sets" if isinstance(predictor, SetPredictor) else "intervals"
    name = f"Report on prediction {kind}" if title is None else title
    data = gather.page(answers, answers.diagnosis(inputs, seed), used, flat, explorer, name, groups)
    return {**data, "difficulty": curve, "images": thumbnails.found}


def _check(
    predictor: SetPredictor | IntervalPredictor,
    outputs: ModelOutputs,
    tuning: TuningReport | None,
    projection: Projection,
) -> None:
    if not isinstance(predictor, Predictor) or not isinstance(outputs, ModelOutputs):
        msg = "report needs the predictor that calibrate returns, outputs, targets and a path, in this order."
        raise Incompatible(msg)
    if len(outputs) < LEAST_ROWS:
        msg = f"a report needs at least {LEAST_ROWS} test rows; got {len(outputs)}."
        raise TooFewRows(msg, rows=len(outputs), needed=LEAST_ROWS)
    if tuning is not None and not isinstance(tuning, TuningReport):
        msg = f"tuning must be the report that tune returns, or None; got {type(tuning).__name__}."
        raise Incompatible(msg)
    if not isinstance(projection, Projection):
        msg = f"projection must be PCA() or TSNE(...) of vicinal.reporting; got {projection!r}."
        raise Incompatible(msg)
