"""The table of silhouettes beside the paper's numbers."""

from __future__ import annotations

from experiments import paper
from experiments.means import Results
from experiments.set_items import NOT_RUN, run_first, title
from experiments.specs import Plan
from experiments.tables import TextTable


def silhouette_words(plan: Plan, results: Results) -> list[str]:
    """Return for how many networks the classes are better separated in the representation than in the pixels."""
    found = [run for one in plan.networks for run in results.runs("silhouettes", one.key) if run["raw"] is not None]
    better = sum(run["representation"] > run["raw"] for run in found)
    return [f"- The representation clusters better than the raw pixels in {better} of {len(found)} networks."]


def silhouettes(plan: Plan, results: Results) -> list[TextTable]:
    """Return silhouettes of raw pixels and of representations."""
    rows = []
    for network in run_first(plan.networks, results, "silhouettes"):
        printed = paper.SILHOUETTES.get((network.dataset, network.name))
        told = ["-", "-"] if printed is None else [f"{one:.3f}" for one in printed]
        runs = results.runs("silhouettes", network.key)
        if not runs:
            rows.append([title(network), *told, NOT_RUN, NOT_RUN, "", ""])
            continue
        found = runs[0]
        raw = NOT_RUN if found["raw"] is None else f"{found['raw']:.3f}"
        counted = f"{found['rows']:,}"
        if found["raw"] is not None and found["raw_rows"] != found["rows"]:
            counted += f" ({found['raw_rows']:,} raw; there {found['representation_of_raw_rows']:.3f})"
        rows.append([title(network), *told, raw, f"{found['representation']:.3f}", f"{found['accuracy']:.3f}", counted])
    heads = ["", "paper: raw", "paper: representation", "raw pixels", "representation", "accuracy", "rows"]
    return [
        TextTable(
            "Silhouette of classes, and the accuracy of the network; the paper's are of ImageNet's validation set.",
            heads,
            rows,
        )
    ]
