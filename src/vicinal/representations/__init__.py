"""Maps of rows, applied before distances are computed.

The difficulty map is in `vicinal.representations.difficulty`: it uses neighbors, which use the maps here.
"""

from vicinal.representations.affine import Affine, PrincipalComponents, Standardize
from vicinal.representations.chain import Chain, Chained
from vicinal.representations.join import Join, JoinedMaps
from vicinal.representations.map import AnyMap, MapPlan, RepresentationMap, RowArrays, RowMap
from vicinal.representations.unit_length import Identity, Rounded, UnitLength

__all__ = [
    "Affine",
    "AnyMap",
    "Chain",
    "Chained",
    "Identity",
    "Join",
    "JoinedMaps",
    "MapPlan",
    "PrincipalComponents",
    "RepresentationMap",
    "Rounded",
    "RowArrays",
    "RowMap",
    "Standardize",
    "UnitLength",
]
