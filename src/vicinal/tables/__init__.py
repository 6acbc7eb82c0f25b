"""Files of rows: named columns that are read in order, a chunk at a time; one module for each format."""

from vicinal.tables.opening import open_table
from vicinal.tables.table import Columns, Table

__all__ = ["Columns", "Table", "open_table"]
