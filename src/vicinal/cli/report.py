"""`vicinal report`: an HTML page about a predictor."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from vicinal._util.extras import needs
from vicinal._util.progress import Bar
from vicinal.cli.inputs import AsJson, Renamed, Sources, check_out, open_rows
from vicinal.cli.predict import Model, OtherCoverage
from vicinal.cli.printing import echo_json, on_terminal
from vicinal.errors import InvalidFile
from vicinal.persistence.load import load
from vicinal.reporting import PCA, TSNE
from vicinal.reporting import report as write_report

with needs("typer", "cli"):
    import typer


def report(
    model: Model,
    rows: Sources,
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write the page to.")] = Path("report.html"),
    coverage: OtherCoverage = None,
    images: Annotated[
        Path | None,
        typer.Option(metavar="FILE.npy", help="Pictures of these rows, in their order.", show_default=False),
    ] = None,
    neighbor_images: Annotated[
        Path | None,
        typer.Option(metavar="FILE.npy", help="Pictures of the calibration rows, in their order.", show_default=False),
    ] = None,
    shown: Annotated[int, typer.Option(help="Number of rows that can be explored.")] = 200,
    tsne: Annotated[bool, typer.Option("--tsne", help="Draw the map with t-SNE instead of PCA.")] = False,  # noqa: FBT002
    by: Annotated[
        str | None,
        typer.Option(help="Also show coverage by these columns, such as hospital,sex.", metavar="COLUMNS"),
    ] = None,
    baseline: Annotated[
        Path | None,
        typer.Option(
            metavar="MODEL",
            help="Compare with this saved predictor. Default: the same predictor without its neighborhood.",
            show_default=False,
        ),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of the page.", show_default=False)] = None,
    seed: Annotated[int, typer.Option(help="Seed of the choice of rows to explore.")] = 0,
    rename: Renamed = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Write an HTML page that shows how a predictor does on rows with known targets, and why.

    Example: vicinal report model.vicinal test.npz --out report.html
    """
    check_out(out, model, *rows, images, neighbor_images, baseline)
    predictor = load(model, progress=on_terminal())
    other = None if baseline is None else load(baseline, progress=on_terminal())
    chosen = predictor if coverage is None else predictor.at(coverage)
    given = open_rows(rows, rename, None, truth=True, keep=by)
    chunk = given.read_all()
    values = predictor.check_targets(chunk.outputs, chunk.targets)  # type: ignore[arg-type]  # rows with their truth
    with Bar("report", unit="step", shown=None, leave=False):
        page = write_report(
            chosen,
            chunk.outputs,
            values,
            out,
            baseline=other,
            groups=chunk.kept or None,
            images=_pictures(images),
            neighbor_images=_pictures(neighbor_images),
            projection=TSNE() if tsne else PCA(),
            rows=shown,
            title=title,
            seed=seed,
        )
    if as_json:
        echo_json({"report": str(page), "bytes": page.stat().st_size})
    else:
        typer.echo(f"report: {page} (open it in a browser)")


def _pictures(path: Path | None) -> NDArray[Any] | None:
    """Return pictures from a .npy file, mapped into memory."""
    if path is None:
        return None
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        msg = f"cannot read {path} as a .npy file of pictures: {error}"
        raise InvalidFile(msg) from error
    if not isinstance(found, np.ndarray):
        msg = (
            f"{path} must be a .npy file of pictures; it is an archive of several arrays. Save one array with np.save."
        )
        raise InvalidFile(msg)
    return found
