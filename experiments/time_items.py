"""The table of run times beside the paper's numbers, with comments on it."""

from __future__ import annotations

from experiments import paper
from experiments.means import Results
from experiments.set_items import NOT_RUN, run_first, title
from experiments.specs import Plan
from experiments.tables import TextTable

OURS = ("RAPS", "NCP(RAPS)", "NCP(RAPS), half for reference", "NCP(RAPS) with LSH")


def times(plan: Plan, results: Results) -> list[TextTable]:
    """Return seconds of inference and of prediction, ours and the paper's, which were measured on another machine."""
    timed = results.runs("inference", "inference")
    inference = timed[0]["seconds"] if timed else {}
    rows = []
    for network in run_first(plan.networks, results, "times"):
        printed = paper.SECONDS.get((network.dataset, network.name))
        runs = results.runs("times", network.key)
        own = inference.get(network.dataset, {}).get(network.name)
        told = ["not timed here" if own is None else f"{own:.1f}"]
        told += [f"{runs[0][way]:.4f}" if runs else NOT_RUN for way in OURS]
        first = ["-"] * 4 if printed is None else [printed[way].text for way in paper.TIMES]
        rows.append([title(network), *first, *told])
    heads = ["", *(f"paper: {way}" for way in paper.TIMES), "inference", *OURS]
    caption = (
        "Seconds for predicting the test rows (3,000), calibrated before, on two cores. RAPS: Split. NCP(RAPS): "
        "Exact, k a tenth of the calibration rows. Half for reference: SplitReference, compared with all reference "
        "rows; with LSH: the same, the neighbors found by an index."
    )
    return [TextTable(caption, heads, rows)]


def time_words(plan: Plan, results: Results) -> list[str]:
    """Return comments on the run times."""
    timed = results.runs("inference", "inference")
    runs = [(one, results.runs("times", one.key)[0]) for one in plan.networks if results.runs("times", one.key)]
    lines = []
    if timed:
        told = []
        for one, run in runs:
            own = timed[0]["seconds"].get(one.dataset, {}).get(one.name)
            if own is not None:
                told.append(f"{one.dataset} {one.name} {100 * (run['NCP(RAPS)'] - run['RAPS']) / own:.2g} %")
        lines.append(
            f"- What the neighborhood adds to the network's own time (inference timed apart on {timed[0]['threads']} "
            f"threads of a CPU, {timed[0].get('date', 'undated')}): " + "; ".join(told) + "."
        )
    slower = [run["NCP(RAPS) with LSH"] / run["NCP(RAPS), half for reference"] for _, run in runs]
    if slower:
        lines.append(
            f"- LSH takes {min(slower):.1f} to {max(slower):.1f} times as long as comparing with all reference rows, "
            "at these numbers of rows."
        )
    return lines
