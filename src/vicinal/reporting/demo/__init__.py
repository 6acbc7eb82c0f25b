"""The demonstration: three real cases, each a question, one picture and one sentence."""

from vicinal.reporting.demo.cases import CASES
from vicinal.reporting.demo.compare import Case, CaseResult, WayResult, run_case
from vicinal.reporting.demo.page import write_demo

__all__ = ["CASES", "Case", "CaseResult", "WayResult", "run_case", "write_demo"]
