"""Who wins: the smallest within the objective's bound, if it is smaller by more than chance and by more than choosing.

The smallest of thousands of candidates looks smaller than it is. So the saving of *choosing* a neighborhood is measured
apart: in each fold the neighborhood that saves most on the other folds is taken, and its saving on this one is counted.
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
    """What choosing a neighborhood saves over having none, on rows that did not choose it."""

    mean: float
    error: float

    @classmethod
    def of(cls, savings: list[NDArray[np.float32]], folds: Ints) -> ChoiceSaving:
        """Measure it from every candidate's saving on every row, (n,) each."""
        table = np.stack(savings)  # (candidates, n)
        sums = np.stack([table[:, folds == fold].sum(axis=1) for fold in range(int(folds.max()) + 1)])
        taken = np.argmax(sums.sum(axis=0) - sums, axis=1)  # which saves most on the other folds
        found = table[taken[folds], np.arange(len(folds))].astype(np.float64)
        return cls(float(found.mean()), standard_error(found))


def row_savings(judged: Judged, base: Judged) -> Floats:
    """Return what a candidate saves over `base` on each row, less what it saves by covering fewer, (n,)."""
    fewer = base.covered[:, 1].astype(np.float64) - judged.covered[:, 1]
    return np.asarray(base.sizes[:, 1] - judged.sizes[:, 1] - judged.price * fewer)


def choose_winner(
    candidates: tuple[Candidate, ...], everyone: Candidate, objective: Objective, choice: ChoiceSaving | None
) -> tuple[Candidate, str]:
    """Return the winner and why; `candidates` ascend in size."""
    best = min(candidates, key=lambda one: (one.excess, one.size))
    if best.excess > 0:
        return best, f"No candidate keeps {objective}; {best.name} comes closest, {best.excess:.3f} beyond it."
    if everyone.excess > 0:
        return best, f"{best.name} is the smallest that keeps {objective}; without a neighborhood none does."
    saving = f"{best.saving:.3g} +- {best.saving_error:.2g}"
    if best.everyone:
        why = f"No neighborhood is smaller than {best.name}, which has none."
    elif best.saving <= 0:
        why = f"{best.name} is smaller only by covering less: {everyone.name}, without a neighborhood, wins."
    elif not best.saving > best.saving_error:
        why = f"{best.name} saves {saving}, no more than its standard error: {everyone.name} wins the tie."
    elif choice is not None and not choice.mean > choice.error:
        why = (
            f"{best.name} saves {saving}, but a neighborhood chosen on other rows saves {choice.mean:.3g} +- "
            f"{choice.error:.2g}: {everyone.name} wins the tie."
        )
    else:
        return best, f"{best.name} saves {saving} over {everyone.name}, the best without a neighborhood."
    winner = _likeliest(candidates, everyone)
    if winner is not everyone:
        why += f" Within one standard error of it {winner.name} has likelier probabilities, and wins."
    return winner, why


def _likeliest(candidates: tuple[Candidate, ...], everyone: Candidate) -> Candidate:
    """Return, of those without a neighborhood within one standard error of the best, the one with the best likelihood.

    Mean sizes of a thousand rows hardly tell good probabilities from better ones; their likelihood does.
    """
    tied = [one for one in candidates if one.everyone and one.excess == 0 and -one.saving <= one.saving_error]
    return min([everyone, *tied], key=lambda one: (one.loss, one.size))
