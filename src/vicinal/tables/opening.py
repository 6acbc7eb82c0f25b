"""Open a file of rows in the format that its name says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from vicinal._util.text import show_path
from vicinal.errors import InvalidFile
from vicinal.tables.files import EXPECTED, KNOWN, STANDARD_INPUT, check_file, reading
from vicinal.tables.table import Table

NAMED = (*KNOWN, "class_names")
"""Names of .npy files that are column names."""


def open_table(sources: Sequence[str]) -> Table:
    """Open one file of rows, or several .npy files as one table.

    Parameters
    ----------
    sources : sequence of str
        One .npz, .parquet, .arrow, .csv or .jsonl file; one folder of .parquet or .npy files; "-" for JSON lines from
        standard input; or several name=file.npy. A .npy file named like its column, such as logits.npy, needs no name.

    Returns
    -------
    Table
        The open table; rows are read later, a chunk at a time.

    Raises
    ------
    InvalidFile
        If a file is missing, damaged or of an unknown format.
    MissingExtra
        If the format needs pyarrow, and it is not installed.

    Examples
    --------
    >>> open_table(["outputs.npy"])
    Traceback (most recent call last):
    vicinal.errors.InvalidFile: say which column outputs.npy is: logits=outputs.npy
    """
    if isinstance(sources, str) or not sources:
        msg = f"expected {EXPECTED}; got {sources!r}."
        raise InvalidFile(msg)
    if len(sources) == 1 and Path(sources[0]).expanduser().is_dir():
        sources = _in_folder(sources[0])
    if len(sources) == 1 and (sources[0] == STANDARD_INPUT or _suffix(sources[0]) != ".npy"):
        return _open_one(sources[0])
    return _open_arrays(sources)


def _in_folder(source: str) -> Sequence[str]:
    """Return the .npy files of a folder that are named like columns; if there are none, the folder itself."""
    found = [str(path) for path in sorted(Path(source).expanduser().glob("*.npy")) if path.stem in NAMED]
    return found or [source]


def _suffix(source: str) -> str:
    return Path(source).suffix.lower()


def _open_one(source: str) -> Table:
    from vicinal.tables.jsonl import JsonLinesTable
    from vicinal.tables.partitions import PartitionedTable, partition_files

    if source == STANDARD_INPUT:
        return JsonLinesTable.open(source)
    path, suffix = Path(source).expanduser(), _suffix(source)
    _, equals, rest = source.partition("=")
    if equals and suffix in OPENERS and not path.exists():
        msg = (
            f"name=file is for .npy files only; a {suffix} file has column names itself. Give {show_path(rest)} alone."
        )
        raise InvalidFile(msg)
    with reading(show_path(path)):
        if path.is_dir() and partition_files(path):
            return PartitionedTable.open(path)
        folder = path.is_dir()
        if not suffix and not path.exists():
            raise FileNotFoundError
        if suffix not in OPENERS and not folder:
            more = " Read it with pandas, and write it with to_parquet." if suffix in (".tsv", ".json", ".xlsx") else ""
            msg = f"{show_path(path)} has an unknown suffix: expected {EXPECTED}.{more}"
            raise InvalidFile(msg)
        check_file(path)
    return OPENERS[suffix](path)


def _open_arrays(sources: Sequence[str]) -> Table:
    from vicinal.tables.arrays import ArrayTable

    files: dict[str, str] = {}
    for source in sources:
        name, equals, file = source.partition("=")
        if not equals and Path(source).stem in NAMED:
            name, equals, file = Path(source).stem, "=", source
        if _suffix(source) != ".npy":
            msg = f"several sources must each be name=file.npy; got {show_path(source)}. Pass other files singly."
            raise InvalidFile(msg)
        if not equals or not name:
            msg = f"say which column {show_path(file or source)} is: {show_path('logits=' + (file or source))}"
            raise InvalidFile(msg)
        if name in files:
            msg = f"each column must be given once; {name!r} is both {show_path(files[name])} and {show_path(file)}."
            raise InvalidFile(msg)
        files[name] = str(Path(file).expanduser())
        check_file(Path(files[name]))
    return ArrayTable.open_files(files)


def _open_npz(path: Path) -> Table:
    from vicinal.tables.arrays import ArrayTable

    return ArrayTable.open_archive(path)


def _open_parquet(path: Path) -> Table:
    from vicinal.tables.parquet import ParquetTable

    return ParquetTable.open(path)


def _open_arrow(path: Path) -> Table:
    from vicinal.tables.ipc import ArrowTable

    return ArrowTable.open(path)


def _open_lines(path: Path) -> Table:
    from vicinal.tables.jsonl import JsonLinesTable

    return JsonLinesTable.open(path)


def _open_csv(path: Path) -> Table:
    from vicinal.tables.csv import CsvTable

    return CsvTable.open(path)


OPENERS: dict[str, Callable[[Path], Table]] = {
    ".npz": _open_npz,
    ".parquet": _open_parquet,
    ".pq": _open_parquet,
    ".arrow": _open_arrow,
    ".csv": _open_csv,
    ".jsonl": _open_lines,
    ".ndjson": _open_lines,
}
