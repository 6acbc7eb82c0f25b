"""Representation maps: transformations of representations before distances are computed."""

from vicinal.representations.affine import Affine, PrincipalComponents, Standardize
from vicinal.representations.chain import Chain, Chained
from vicinal.representations.map import AnyMap, MapPlan, RepresentationMap
from vicinal.representations.unit_length import Identity, Rounded, UnitLength

__all__ = [
    "Affine",
    "AnyMap",
    "Chain",
    "Chained",
    "Identity",
    "MapPlan",
    "PrincipalComponents",
    "RepresentationMap",
    "Rounded",
    "Standardize",
    "UnitLength",
]
