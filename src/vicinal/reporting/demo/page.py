"""What the demonstration leaves: one page with the three cases side by side, and a report and a model of each."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import vicinal
from vicinal._util.files import replacing
from vicinal.outputs import ClassificationOutputs
from vicinal.reporting import report
from vicinal.reporting.demo.compare import CaseResult, CaseRows, WayResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = ("method", "coverage", "size", "worst tenth")

EXAMPLES = 200
"""Test rows of each case that are stored for the page of `vicinal serve`."""


@dataclass(frozen=True)
class DemoFiles:
    """Where everything lies."""

    page: Path
    pictures: dict[str, Path]  # by the name of the case
    reports: dict[str, Path]
    models: dict[str, Path]
    rows: dict[str, Path]  # test rows, for `vicinal serve`


def write_demo(results: Sequence[CaseResult], folder: Path, advance: Callable[[str], object]) -> DemoFiles:
    """Write the page, the pictures, and a report and a model of each case.

    Parameters
    ----------
    results : sequence of CaseResult
        What `run_case` returned.
    folder : Path
        Where to write.
    advance : callable
        Is told what is being written.

    Returns
    -------
    DemoFiles
        Where everything lies.
    """
    pictures, reports, models, rows = {}, {}, {}, {}
    shown: list[str] = []
    for result in results:
        name = result.case.name
        advance(f"{name}: report")
        axes = result.case.draw(result)
        pictures[name] = _save(axes, folder / f"{name}.png")
        chosen, plain = result.first[result.case.chosen], result.first[result.case.plain]
        assert chosen.predictor is not None  # noqa: S101  the chosen way calibrates
        models[name] = chosen.predictor.save(folder / f"{name}.vicinal").path
        rows[name] = _save_rows(result.test[np.arange(EXAMPLES)], folder / f"{name}.npz")
        reports[name] = report(
            chosen.predictor,
            result.test.outputs,
            result.test.targets,
            folder / f"{name}.html",
            baseline=plain.predictor,
            tuning=result.tuning.get(result.case.chosen),
            title=f"{result.case.title}: {result.case.chosen}",
        )
        shown.append(case_html(result, axes, reports[name], serve_command(models[name].name, rows[name].name)))
    page = folder / "report.html"
    with replacing(page) as file:
        file.write(page_html(shown).encode())
    return DemoFiles(page, pictures, reports, models, rows)


def serve_command(model: object, rows: object) -> str:
    """Return the command that serves the model of a case with its example rows."""
    return f"vicinal serve {model} --examples {rows}"


def page_html(cases: Sequence[str]) -> str:
    """Return the page that shows all cases."""
    style = "\n".join(files("vicinal.reporting").joinpath(name).read_text("utf-8") for name in ("page.css", "demo.css"))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>vicinal: three cases</title>
<style>
{style}
</style>
</head>
<body class="demo">
<header>
<h1>Prediction sets and intervals on real data: three cases</h1>
<p class="muted">A set contains the truth with the requested probability; smaller sets are more informative. All numbers
are measured on test rows that were not used for fitting.</p>
</header>
<main class="cases">
{"".join(cases)}
</main>
<section class="terms" aria-labelledby="terms">
<h2 id="terms">What the columns mean</h2>
<p><b>Coverage</b>: the share of the test rows whose set or interval contains the truth, with a 95 % interval. Over
several cuts the interval is Student's t over the cuts; cuts share rows, so it is a little too narrow. <b>Size</b>: mean
number of labels, or mean length. <b>Worst tenth</b>: coverage of the least covered tenth of the rows, cut by the
model's confidence, or by the predicted value. <b>Split</b>: plain split conformal prediction, one threshold for all
rows. <b>Exact</b>: with a neighborhood.</p>
</section>
<footer class="muted"><p>Made by vicinal {escape(vicinal.__version__)}.</p></footer>
</body>
</html>
"""


def case_html(result: CaseResult, axes: Axes, report_path: Path, command: str) -> str:
    """Return one case: the question, the picture, the sentence, the table and where to go on."""
    case, said = result.case, result.conclusion
    words = " ".join(f"<span>{escape(word)}</span>" for word in command.split())
    rows = "".join(_row(name, one, strong=name in (case.plain, case.chosen)) for name, one in result.measured.items())
    head = "".join(f'<th scope="col">{escape(one)}</th>' for one in COLUMNS)
    return f"""<section class="case" aria-labelledby="{case.name}">
<h2 id="{case.name}">{escape(case.title)}</h2>
<p class="question">{escape(case.question)}</p>
<img src="data:image/png;base64,{_picture(axes)}" alt="{escape(said.sentence)}">
<p class="sentence">{escape(said.sentence)}</p>
<p class="muted">{escape(said.remark)}</p>
<div class="scroll" tabindex="0" role="region" aria-label="{escape(case.title)}, numbers">
<table><caption>Asked for: {result.coverage:g}. {escape(result.rows)}.</caption>
<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>
</div>
<p><a href="{escape(report_path.name)}">Look at single rows: the report of “{escape(case.chosen)}”</a>. Ask the model:
<code>{words}</code></p>
</section>
"""


def _row(name: str, one: WayResult, *, strong: bool) -> str:
    low, high = one.found.coverage_interval
    coverage = f"{one.found.coverage:.3f} <span>± {(high - low) / 2:.3f}</span>"
    cells = (coverage, f"{one.found.mean_size:.3g}", f"{one.worst:.3f}")
    body = "".join(f"<td>{cell}</td>" for cell in cells)
    return f'<tr{" class=strong" if strong else ""}><th scope="row">{escape(name)}</th>{body}</tr>'


def _save_rows(rows: CaseRows, path: Path) -> Path:
    """Store test rows with their truth, as `vicinal serve --examples` reads them."""
    outputs = rows.outputs
    names = ("logits",) if isinstance(outputs, ClassificationOutputs) else ("predictions",)
    columns = {name: np.asarray(getattr(outputs, name)) for name in (*names, "representations")}
    columns["labels" if isinstance(outputs, ClassificationOutputs) else "targets"] = rows.targets
    with replacing(path) as file:
        np.savez_compressed(file, **columns)  # type: ignore[arg-type]
    return path


def _picture(axes: Axes) -> str:
    """Return the picture as text."""
    stored = io.BytesIO()
    axes.get_figure(root=True).savefig(stored, format="png", dpi=110)  # type: ignore[union-attr]
    return base64.b64encode(stored.getvalue()).decode()


def _save(axes: Axes, path: Path) -> Path:
    from vicinal.reporting.plots import save

    return save(axes, path)
