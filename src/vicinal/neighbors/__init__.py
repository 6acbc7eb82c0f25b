"""Neighbor search: who is near, and how far."""

from vicinal.neighbors.exact import ExactSearch, Reference

__all__ = ["ExactSearch", "Reference"]
