"""Batch jobs: read, predict and write files that may be larger than memory, a chunk of rows at a time."""

from vicinal.tables.batch.answers import Answers, Wanted, answer_rows
from vicinal.tables.batch.job import predict_file

__all__ = ["Answers", "Wanted", "answer_rows", "predict_file"]
