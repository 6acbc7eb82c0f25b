"""Check that a tag, the version of the package, the changelog and the citation name the same release.

Run it as `python .ci/check_release.py v0.1.0`. Without a tag, it compares the other three.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

PLACES = {
    "src/vicinal/_version.py": r'^__version__ = "(.+)"$',
    "CHANGELOG.md": r"^## \[?(\d[^\] ]*)\]? - \d{4}-\d{2}-\d{2}$",
    "CITATION.cff": r"^version: (.+)$",
}
"""Files that name the version, and where: the first match counts."""


def read_version(name: str, pattern: str) -> str:
    """Return the version that a file names, or a note that it names none."""
    found = re.search(pattern, (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE)
    return found[1] if found else "no version"


def main(arguments: list[str]) -> int:
    """Print where each version was found; return 1 where they differ."""
    versions = {name: read_version(name, pattern) for name, pattern in PLACES.items()}
    if arguments:
        versions["the tag"] = arguments[0].removeprefix("v") if arguments[0].startswith("v") else "no version"
    for name, version in versions.items():
        print(f"{name}: {version}")  # noqa: T201
    if len(set(versions.values())) == 1 and "no version" not in versions.values():
        return 0
    print("These must name one version. See RELEASING.md.", file=sys.stderr)  # noqa: T201
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
