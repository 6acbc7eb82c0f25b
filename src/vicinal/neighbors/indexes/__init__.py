"""Kinds of faiss indexes, one file each."""

from vicinal.neighbors.indexes.flat import Flat
from vicinal.neighbors.indexes.hnsw import HNSW
from vicinal.neighbors.indexes.index import Index
from vicinal.neighbors.indexes.ivf import IVF
from vicinal.neighbors.indexes.lsh import LSH

__all__ = ["HNSW", "IVF", "LSH", "Flat", "Index"]
