"""vicinal: prediction sets and intervals, exact in finite samples and as small as the neighborhood allows.

Names are imported when they are first used, so that `import vicinal` is quick and needs no optional dependency.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from vicinal._version import __version__ as __version__

if TYPE_CHECKING:
    from vicinal import datasets as datasets
    from vicinal import distributed as distributed
    from vicinal import errors as errors
    from vicinal import reporting as reporting
    from vicinal import torch as torch
    from vicinal.artifacts import inspect as inspect
    from vicinal.artifacts import load as load
    from vicinal.artifacts import load_tuning as load_tuning
    from vicinal.artifacts import save_tuning as save_tuning
    from vicinal.calibrating import calibrate as calibrate
    from vicinal.calibration import Exact as Exact
    from vicinal.calibration import Guarantee as Guarantee
    from vicinal.calibration import LeaveOneOut as LeaveOneOut
    from vicinal.calibration import Neighbors as Neighbors
    from vicinal.calibration import PaperLiteral as PaperLiteral
    from vicinal.calibration import Split as Split
    from vicinal.calibration import SplitReference as SplitReference
    from vicinal.client import Client as Client
    from vicinal.codec.artifact import ArtifactInfo as ArtifactInfo
    from vicinal.diagnostics import Diagnosis as Diagnosis
    from vicinal.diagnostics import diagnose as diagnose
    from vicinal.drift import Drift as Drift
    from vicinal.drift import DriftMonitor as DriftMonitor
    from vicinal.errors import CannotWrite as CannotWrite
    from vicinal.errors import CorruptArtifact as CorruptArtifact
    from vicinal.errors import Incompatible as Incompatible
    from vicinal.errors import InvalidFile as InvalidFile
    from vicinal.errors import InvalidLevel as InvalidLevel
    from vicinal.errors import InvalidValue as InvalidValue
    from vicinal.errors import MissingExtra as MissingExtra
    from vicinal.errors import MissingFile as MissingFile
    from vicinal.errors import ModelFailed as ModelFailed
    from vicinal.errors import ServiceRefused as ServiceRefused
    from vicinal.errors import ServiceUnreachable as ServiceUnreachable
    from vicinal.errors import ShapeMismatch as ShapeMismatch
    from vicinal.errors import TooFewRows as TooFewRows
    from vicinal.errors import TooLittleMemory as TooLittleMemory
    from vicinal.errors import UnsupportedArtifact as UnsupportedArtifact
    from vicinal.errors import VicinalError as VicinalError
    from vicinal.estimators import NeighborhoodClassifier as NeighborhoodClassifier
    from vicinal.estimators import NeighborhoodRegressor as NeighborhoodRegressor
    from vicinal.explanations import Explanation as Explanation
    from vicinal.localizers import Ball as Ball
    from vicinal.localizers import Exponential as Exponential
    from vicinal.localizers import Uniform as Uniform
    from vicinal.maps import Chain as Chain
    from vicinal.maps import Identity as Identity
    from vicinal.maps import PrincipalComponents as PrincipalComponents
    from vicinal.maps import Rounded as Rounded
    from vicinal.maps import Standardize as Standardize
    from vicinal.maps import UnitLength as UnitLength
    from vicinal.metrics import Evaluation as Evaluation
    from vicinal.metrics import evaluate as evaluate
    from vicinal.naive import naive_sets as naive_sets
    from vicinal.neighbors import HNSW as HNSW
    from vicinal.neighbors import IVF as IVF
    from vicinal.neighbors import LSH as LSH
    from vicinal.neighbors import ExactSearch as ExactSearch
    from vicinal.neighbors import FaissSearch as FaissSearch
    from vicinal.neighbors import Flat as Flat
    from vicinal.outputs import ClassificationOutputs as ClassificationOutputs
    from vicinal.outputs import ModelOutputs as ModelOutputs
    from vicinal.outputs import RegressionOutputs as RegressionOutputs
    from vicinal.predictor import IntervalPredictor as IntervalPredictor
    from vicinal.predictor import SetPredictor as SetPredictor
    from vicinal.probabilities import NeighborVotes as NeighborVotes
    from vicinal.probabilities import TemperatureScaling as TemperatureScaling
    from vicinal.regions import PredictionIntervals as PredictionIntervals
    from vicinal.regions import PredictionSets as PredictionSets
    from vicinal.reporting import report as report
    from vicinal.rolling import roll as roll
    from vicinal.scales import NeighborScales as NeighborScales
    from vicinal.scores import APS as APS
    from vicinal.scores import CQR as CQR
    from vicinal.scores import LAC as LAC
    from vicinal.scores import RAPS as RAPS
    from vicinal.scores import AbsoluteResidual as AbsoluteResidual
    from vicinal.scores import NeverEmpty as NeverEmpty
    from vicinal.scores import ScaledResidual as ScaledResidual
    from vicinal.splitting import split_rows as split_rows
    from vicinal.tuning import Bayesian as Bayesian
    from vicinal.tuning import Candidate as Candidate
    from vicinal.tuning import ClassGap as ClassGap
    from vicinal.tuning import DecileGap as DecileGap
    from vicinal.tuning import Grid as Grid
    from vicinal.tuning import MeanSize as MeanSize
    from vicinal.tuning import Space as Space
    from vicinal.tuning import TuningReport as TuningReport
    from vicinal.tuning import tune as tune

_HOMES = {
    "APS": "scores",
    "AbsoluteResidual": "scores",
    "ArtifactInfo": "codec.artifact",
    "Ball": "localizers",
    "Bayesian": "tuning",
    "CQR": "scores",
    "Candidate": "tuning",
    "CannotWrite": "errors",
    "Chain": "maps",
    "Client": "client",
    "ClassGap": "tuning",
    "ClassificationOutputs": "outputs",
    "CorruptArtifact": "errors",
    "DecileGap": "tuning",
    "Diagnosis": "diagnostics",
    "Evaluation": "metrics",
    "Drift": "drift",
    "DriftMonitor": "drift",
    "Exact": "calibration",
    "ExactSearch": "neighbors",
    "Explanation": "explanations",
    "Exponential": "localizers",
    "FaissSearch": "neighbors",
    "Flat": "neighbors",
    "Grid": "tuning",
    "Guarantee": "calibration",
    "HNSW": "neighbors",
    "IVF": "neighbors",
    "Identity": "maps",
    "Incompatible": "errors",
    "IntervalPredictor": "predictor",
    "InvalidFile": "errors",
    "InvalidLevel": "errors",
    "InvalidValue": "errors",
    "LAC": "scores",
    "LSH": "neighbors",
    "LeaveOneOut": "calibration",
    "MeanSize": "tuning",
    "MissingExtra": "errors",
    "MissingFile": "errors",
    "ModelFailed": "errors",
    "ModelOutputs": "outputs",
    "NeighborScales": "scales",
    "NeighborVotes": "probabilities",
    "NeighborhoodClassifier": "estimators",
    "NeighborhoodRegressor": "estimators",
    "Neighbors": "calibration",
    "NeverEmpty": "scores",
    "PaperLiteral": "calibration",
    "PredictionIntervals": "regions",
    "PredictionSets": "regions",
    "PrincipalComponents": "maps",
    "RAPS": "scores",
    "RegressionOutputs": "outputs",
    "Rounded": "maps",
    "ScaledResidual": "scores",
    "ServiceRefused": "errors",
    "ServiceUnreachable": "errors",
    "SetPredictor": "predictor",
    "ShapeMismatch": "errors",
    "Space": "tuning",
    "Split": "calibration",
    "SplitReference": "calibration",
    "Standardize": "maps",
    "TemperatureScaling": "probabilities",
    "TooFewRows": "errors",
    "TooLittleMemory": "errors",
    "TuningReport": "tuning",
    "Uniform": "localizers",
    "UnitLength": "maps",
    "UnsupportedArtifact": "errors",
    "VicinalError": "errors",
    "calibrate": "calibrating",
    "diagnose": "diagnostics",
    "evaluate": "metrics",
    "inspect": "artifacts",
    "load": "artifacts",
    "load_tuning": "artifacts",
    "naive_sets": "naive",
    "report": "reporting",
    "roll": "rolling",
    "save_tuning": "artifacts",
    "split_rows": "splitting",
    "tune": "tuning",
}
_MODULES = ("datasets", "errors", "reporting")

__all__ = [*_HOMES, *_MODULES]  # noqa: PLE0604  a tested list


def __getattr__(name: str) -> object:
    if name in ("torch", "distributed"):  # not in __all__: `from vicinal import *` must work without torch and ray
        return import_module(f"vicinal.{name}")
    if name in _HOMES:
        value: object = getattr(import_module(f"vicinal.{_HOMES[name]}"), name)
    elif name in _MODULES:
        value = import_module(f"vicinal.{name}")
    else:
        msg = f"module 'vicinal' has no attribute {name!r}"
        raise AttributeError(msg)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
