"""Neighbors: searches find them, localizers weigh them, engines compute local ranks from them."""

from vicinal.neighbors import numba_engine as numba_engine  # imported because it registers itself
from vicinal.neighbors.exact_search import ExactSearch
from vicinal.neighbors.faiss_search import FaissSearch
from vicinal.neighbors.indexes import HNSW, IVF, LSH, Flat
from vicinal.neighbors.localizers import (
    Ball,
    BoundLocalizer,
    Cauchy,
    Exponential,
    Gaussian,
    Localizer,
    Uniform,
    WeightedNeighbors,
)
from vicinal.neighbors.reference import Reference
from vicinal.neighbors.search import ExactNeighborSearch, NeighborSearch

__all__ = [
    "HNSW",
    "IVF",
    "LSH",
    "Ball",
    "BoundLocalizer",
    "Cauchy",
    "ExactNeighborSearch",
    "ExactSearch",
    "Exponential",
    "FaissSearch",
    "Flat",
    "Gaussian",
    "Localizer",
    "NeighborSearch",
    "Reference",
    "Uniform",
    "WeightedNeighbors",
]
