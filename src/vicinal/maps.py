"""Representation maps: fitted on rows that are not calibration rows, applied before distances are taken."""

from __future__ import annotations

from abc import ABC, abstractmethod

from vicinal._arrays import Reals


class RepresentationMap(ABC):
    """A fitted function of one row's representation; the same in calibration and prediction."""

    @abstractmethod
    def of(self, representations: Reals) -> Reals:
        """Return the mapped representations, (n, new width): each row a function of that row alone."""
