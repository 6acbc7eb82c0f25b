"""Choose the winner among the candidates.

The winner is the smallest candidate that meets the objective. A neighborhood wins only if its saving is larger than one
standard error, both for the candidate itself and for the act of choosing: the best of thousands of candidates looks
better than it is. The saving of choosing is measured by cross-validation: in each fold, the neighborhood that saves
most on the other folds is taken, and its saving on this fold is counted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vicinal._util.arrays import Floats, Ints
from vicinal.tuning.judge import Judged, standard_error
from vicinal.tuning.objectives import Objective
from vicinal.tuning.report import Candidate


@dataclass(frozen=True)
class ChoiceSaving:
    """Saving of a chosen neighborhood over no neighborhood, measured on rows that did not choose it."""

    mean: float
    error: float

    @classmethod
    def of(cls, savings: list[NDArray[np.float32]], folds: Ints) -> ChoiceSaving:
        """Compute it from the saving of every candidate on every row, a list of (n,) arrays."""
        table = np.stack(savings)  # (candidates, n)
        sums = np.stack([table[:, folds == fold].sum(axis=1) for fold in range(int(folds.max()) + 1)])
        taken = np.argmax(sums.sum(axis=0) - sums, axis=1)  # which saves most on the other folds
        found = table[taken[folds], np.arange(len(folds))].astype(np.float64)
        return cls(float(found.mean()), standard_error(found))


def row_savings(judged: Judged, base: Judged) -> Floats:
    """Return how much smaller a candidate is than `base` on each row at equal coverage, (n,).

    What the candidate saves by covering fewer rows is subtracted.
    """
    fewer = base.covered[:, 1].astype(np.float64) - judged.covered[:, 1]
    return np.asarray(base.sizes[:, 1] - judged.sizes[:, 1] - judged.price * fewer)


def choose_winner(
    candidates: tuple[Candidate, ...], everyone: Candidate, objective: Objective, choice: ChoiceSaving | None
) -> tuple[Candidate, str]:
    """Return the winner and the sentences that say why; `candidates` are in ascending order of size."""
    best = min(candidates, key=lambda one: (one.excess, one.size))
    if best.excess > 0:
        return (
            best,
            f"No candidate meets {objective}. The closest is {best.name}: it exceeds the bound by {best.excess:.3f}.",
        )
    if everyone.excess > 0:
        return best, (
            f"Chosen: {best.name}, the smallest mean size of the candidates that meet {objective}. "
            "No candidate without a neighborhood meets it."
        )
    saving = f"{best.saving:.3g} (standard error {best.saving_error:.2g})"
    if best.everyone:
        why = "No candidate with a neighborhood is smaller than the best one without."
    elif best.saving <= 0:
        why = f"{best.name} has the smallest mean size, but it also covers less; at equal coverage it is not smaller."
    elif not best.saving > best.saving_error:
        why = f"At equal coverage {best.name} is smaller by {saving}, which is within one standard error of 0."
    elif choice is not None and not choice.mean > choice.error:
        why = (
            f"At equal coverage {best.name} is smaller by {saving}. But a neighborhood chosen on the other folds saves "
            f"{choice.mean:.3g} (standard error {choice.error:.2g}), which is within one standard error of 0."
        )
    else:
        return best, (
            f"Chosen: {best.name}. At equal coverage it is smaller by {saving} than {everyone.name}, the best "
            "candidate without a neighborhood."
        )
    winner = _likeliest(candidates, everyone)
    if winner is everyone:
        return winner, f"{why} Chosen: {everyone.name}."
    return winner, (
        f"{why} Chosen: {winner.name}. It has the best log-likelihood of the candidates without a neighborhood whose "
        f"size is within one standard error of the smallest, {everyone.name}."
    )


def _likeliest(candidates: tuple[Candidate, ...], everyone: Candidate) -> Candidate:
    """Return the candidate with the best likelihood among those without a neighborhood that tie with the smallest.

    Candidates tie when their sizes differ by at most one standard error. Mean sizes on a thousand rows hardly separate
    good probabilities from better ones; their likelihood does.
    """
    tied = [one for one in candidates if one.everyone and one.excess == 0 and -one.saving <= one.saving_error]
    return min([everyone, *tied], key=lambda one: (one.loss, one.size))
