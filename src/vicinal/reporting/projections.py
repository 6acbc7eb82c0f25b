"""Projections of representations to two dimensions, for plots."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from vicinal._util.arrays import Floats, Reals, positive, seed_number
from vicinal.representations import PrincipalComponents


class Projection(ABC):
    """A map of rows to the plane.

    Examples
    --------
    >>> isinstance(PCA(), Projection)
    True
    """

    name: str

    @abstractmethod
    def of(self, rows: Reals) -> Floats:
        """Return the position of each row.

        Parameters
        ----------
        rows : ndarray of shape (n, d)
            Representations.

        Returns
        -------
        ndarray of shape (n, 2)
            Positions.
        """


@dataclass(frozen=True)
class PCA(Projection):
    """The two principal components: fast, and distances keep their meaning.

    Examples
    --------
    >>> import numpy as np
    >>> PCA().of(np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 1.0], [2.0, 0.1, 1.0]])).shape
    (3, 2)
    """

    name = "PCA"

    def of(self, rows: Reals) -> Floats:
        """Return the position of each row; rows of one column lie on a line.

        Parameters
        ----------
        rows : ndarray of shape (n, d)
            Representations.

        Returns
        -------
        ndarray of shape (n, 2)
            Positions.
        """
        table = np.asarray(rows, dtype=np.float64)
        if table.shape[1] < 2:  # noqa: PLR2004
            table = np.column_stack([table, np.zeros(len(table))])
        return np.asarray(PrincipalComponents(2).fit(table).apply(table), dtype=np.float64)


@dataclass(frozen=True)
class TSNE(Projection):
    """t-SNE: shows clusters, is slower, and distances between clusters mean little.

    Parameters
    ----------
    perplexity : float
        Effective number of neighbors of each row.
    seed : int
        Seed of the initial positions.

    References
    ----------
    van der Maaten and Hinton, "Visualizing Data using t-SNE", JMLR 2008.

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
        """Return the position of each row.

        Parameters
        ----------
        rows : ndarray of shape (n, d)
            Representations.

        Returns
        -------
        ndarray of shape (n, 2)
            Positions.
        """
        from sklearn.manifold import TSNE as ScikitTSNE

        near = min(float(self.perplexity), max(1.0, (len(rows) - 1) / 3))
        found = ScikitTSNE(perplexity=near, random_state=self.seed % 2**32, init="random")
        return np.asarray(found.fit_transform(np.asarray(rows, dtype=np.float64)), dtype=np.float64)
