"""Calibration methods, one file each, with their guarantees."""

from vicinal.calibration.exact import Exact
from vicinal.calibration.guarantees import Guarantee
from vicinal.calibration.leave_one_out import LeaveOneOut
from vicinal.calibration.method import Calibration, Method, Neighbors, Task
from vicinal.calibration.paper_literal import PaperLiteral
from vicinal.calibration.rows import ScoredRows
from vicinal.calibration.split import Split
from vicinal.calibration.split_reference import SplitReference

__all__ = [
    "Calibration",
    "Exact",
    "Guarantee",
    "LeaveOneOut",
    "Method",
    "Neighbors",
    "PaperLiteral",
    "ScoredRows",
    "Split",
    "SplitReference",
    "Task",
]
