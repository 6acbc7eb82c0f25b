"""Neighbor search: who is near, and how far."""

from vicinal.neighbors.base import NeighborSearch
from vicinal.neighbors.exact import ExactSearch
from vicinal.neighbors.reference import Reference

__all__ = ["ExactSearch", "NeighborSearch", "Reference"]
