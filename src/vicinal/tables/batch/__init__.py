"""Answers for files of rows, larger than memory if need be: read, predicted and written a chunk at a time."""

from vicinal.tables.batch.answers import Answers, Wanted, answer_rows
from vicinal.tables.batch.job import predict_file

__all__ = ["Answers", "Wanted", "answer_rows", "predict_file"]
