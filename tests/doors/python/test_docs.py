"""Every example in README and docs runs, in Python or in a shell, and prints what stands below it."""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(page for page in DOCS.rglob("*.md") if "generated" not in page.parts)]
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```\n(?:\n^```text\n(.*?)^```)?", re.DOTALL | re.MULTILINE)


RAYLET = re.compile(r"^(\x1b\[\d+m)?\(raylet\).*\n?", re.MULTILINE)
"""What Ray prints of a busy machine, whatever it is told about logs."""

SLOW = ("cluster.md", "command-line.md", "look.md", "tuning.md")
"""Pages whose examples start a cluster, or tune several times."""


def marked(page):
    return pytest.param(page, marks=pytest.mark.slow if page.name in SLOW else (), id=page.name)


@pytest.mark.parametrize("page", [marked(page) for page in PAGES if BLOCK.search(page.read_text())])
def test_examples_print_what_is_written(page, tmp_path, monkeypatch, request):
    monkeypatch.chdir(tmp_path)
    request.addfinalizer(lambda: stopped(tmp_path / "service.pid"))
    names: dict[str, object] = {"__name__": "__example__"}
    for language, code, expected in BLOCK.findall(page.read_text()):
        if language == "sh":
            printed = shell(code)
            if not expected:  # nothing need stand below a command
                continue
        else:
            caught = io.StringIO()
            with contextlib.redirect_stdout(caught):
                exec(compile(code, page.name, "exec"), names)
            printed = RAYLET.sub("", caught.getvalue())
        # What is written may leave out times, checksums, and what differs between processors.
        matches = doctest.OutputChecker().check_output(expected.strip(), printed.strip(), doctest.ELLIPSIS)
        assert matches, printed


def stopped(pid):
    """End a service that an example began and, having failed, did not end."""
    if pid.exists():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid.read_text()), signal.SIGKILL)


def shell(code):
    """Run commands as a reader would, with `vicinal` on the path."""
    Path("bin").mkdir(exist_ok=True)
    program = Path("bin/vicinal")
    program.write_text(f"#!{sys.executable}\nfrom vicinal.cli import main\nmain()\n")
    program.chmod(0o755)
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PATH": f"{Path('bin').resolve()}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": path}
    arguments = ["bash", "-e", "-o", "pipefail", "-c", code]
    found = subprocess.run(arguments, capture_output=True, text=True, check=False, env=environment)
    assert found.returncode == 0, found.stderr
    return found.stdout


def test_the_reference_lists_every_public_name():
    import vicinal

    listed = set(re.findall(r"^   ([\w.]+)$", (DOCS / "reference" / "index.md").read_text(), re.MULTILINE))
    modules = {"datasets", "errors", "plots", "reporting", "scorers", "testing"}
    assert not set(vicinal.__all__) - modules - listed
