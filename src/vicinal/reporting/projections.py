"""Two dimensions of many, to look at."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from vicinal._util.arrays import Floats, Reals, positive, seed_number
from vicinal.representations import PrincipalComponents


class Projection(ABC):
    """A way to lay rows out in the plane."""

    name: str

    @abstractmethod
    def of(self, rows: Reals) -> Floats:
        """Return the place of each row, (n, 2)."""


@dataclass(frozen=True)
class PCA(Projection):
    """The two directions with the most variance: quick, and distances mean something.

    Examples
    --------
    >>> PCA().of(np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 1.0], [2.0, 0.1, 1.0]])).shape
    (3, 2)
    """

    name = "PCA"

    def of(self, rows: Reals) -> Floats:
        """Return the place of each row, (n, 2); rows of one column lie on a line."""
        table = np.asarray(rows, dtype=np.float64)
        if table.shape[1] < 2:  # noqa: PLR2004
            table = np.column_stack([table, np.zeros(len(table))])
        return np.asarray(PrincipalComponents(2).fit(table).apply(table), dtype=np.float64)


@dataclass(frozen=True)
class TSNE(Projection):
    """t-SNE: shows clusters, takes longer, and distances between clusters mean little.

    Examples
    --------
    >>> TSNE(perplexity=20).perplexity
    20
    """

    perplexity: float = 30.0
    seed: int = 0

    name = "t-SNE"

    def __post_init__(self) -> None:
        positive("perplexity", self.perplexity)
        seed_number("seed", self.seed)

    def of(self, rows: Reals) -> Floats:
        """Return the place of each row, (n, 2)."""
        from sklearn.manifold import TSNE as ScikitTSNE

        near = min(float(self.perplexity), max(1.0, (len(rows) - 1) / 3))
        found = ScikitTSNE(perplexity=near, random_state=self.seed % 2**32, init="random")
        return np.asarray(found.fit_transform(np.asarray(rows, dtype=np.float64)), dtype=np.float64)
