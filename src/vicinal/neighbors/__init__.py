"""Neighbor search: who is near, and how far."""

from vicinal.neighbors.approximate import FaissSearch
from vicinal.neighbors.base import NeighborSearch
from vicinal.neighbors.exact import ExactSearch
from vicinal.neighbors.indexes import HNSW, IVF, LSH, Flat
from vicinal.neighbors.reference import Reference

__all__ = ["HNSW", "IVF", "LSH", "ExactSearch", "FaissSearch", "Flat", "NeighborSearch", "Reference"]
