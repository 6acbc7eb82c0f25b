"""Nothing that only Linux has is needed: the surface runs where such modules and functions are missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HIDDEN = """
import builtins, os, pathlib, signal, sys, tempfile

sys.modules.update(dict.fromkeys(("fcntl", "resource", "pwd", "grp", "termios", "syslog", "pty", "posix_ipc")))
NAMES = "fork forkpty memfd_create sched_getaffinity posix_fadvise fdatasync getuid geteuid getgid getegid statvfs"
for name in (*NAMES.split(), "pread", "O_DIRECTORY", "O_NOFOLLOW", "O_CLOEXEC", "setsid", "killpg", "mkfifo"):
    if hasattr(os, name):
        delattr(os, name)
for name in ("SIGKILL", "SIGHUP", "SIGALRM", "SIGUSR1", "setitimer", "alarm", "pthread_sigmask"):
    if hasattr(signal, name):
        delattr(signal, name)


def guard(function):
    def guarded(path, *more, **named):
        ours = os.path.join("src", "vicinal", "") in sys._getframe(1).f_code.co_filename  # libraries know their systems
        if ours and str(path).startswith(("/proc", "/dev/shm", "/sys")):
            raise FileNotFoundError(2, "no such file", str(path))
        return function(path, *more, **named)
    return guarded


builtins.open = guard(builtins.open)
os.open = guard(os.open)
"""

PYTHON = """
import numpy as np
import vicinal as vc

data = vc.datasets.load_cifar100_resnet18()
known, test = data[:400], data[400:460]
predictor = vc.calibrate(known.outputs, known.labels, 0.9)
sets = predictor.predict(test.outputs, progress=True)
predictor.save("model.vicinal")
assert np.array_equal(vc.load("model.vicinal").predict(test.outputs).members, sets.members)
vc.report(predictor, test.outputs, test.labels, "report.html")
np.savez("rows.npz", logits=test.outputs.logits, representations=test.outputs.representations, labels=test.labels)
np.savez("known.npz", logits=known.outputs.logits, representations=known.outputs.representations, labels=known.labels)
vc.DriftMonitor(predictor).observe(test.outputs, test.labels)
"""

COMMAND_LINE = """
from vicinal.cli import main

for line in (
    "calibrate known.npz --localizer Uniform(20) --out mine.vicinal",
    "predict mine.vicinal rows.npz --out sets.jsonl",
    "predict mine.vicinal rows.npz --out sets.parquet",
    "predict mine.vicinal rows.npz --out sets.csv",
    "predict mine.vicinal rows.npz --out sets.npz",
    "predict mine.vicinal rows.npz --out sets.arrow --resume",
    "report mine.vicinal rows.npz --out report-too.html",
    "tune rows.npz --out tuned.vicinal",
    "evaluate mine.vicinal rows.npz",
    "inspect mine.vicinal",
    "roll mine.vicinal rows.npz --out rolled.vicinal",
):
    sys.argv = ["vicinal", *line.split()]
    try:
        main()
    except SystemExit as end:
        assert end.code == 0, (line, end.code)
"""

SERVICE = """
from starlette.testclient import TestClient
from vicinal.persistence.load import open_predictor
from vicinal.service import journal
from vicinal.service.app import create_app
from vicinal.service.examples import Examples
from vicinal.service.server import most_connections
from vicinal.service.service import Service
from vicinal.service.settings import Settings

journal.MOUNTS = pathlib.Path("missing")
assert most_connections() is None
info, predictor = open_predictor("mine.vicinal")
service = Service(predictor, info, Settings(journal=pathlib.Path("a.journal")), Examples(None, None, ""))
with TestClient(create_app(service), base_url="http://127.0.0.1") as client:
    body = {"logits": test.outputs.logits[:2].tolist(), "representations": test.outputs.representations[:2].tolist()}
    answers = client.post("/predict", json=body).json()["answers"]
    told = {"row_ids": [one["row_id"] for one in answers], "labels": test.labels[:2].tolist()}
    assert client.post("/feedback", json=told).json()["accepted"] == 2
sys.argv = ["vicinal", "feedback", "export", "a.journal", "told.npz", "--model", "mine.vicinal"]
try:
    main()
except SystemExit as end:
    assert end.code == 0
"""


@pytest.mark.slow
@pytest.mark.linux
def test_the_surface_runs_without_what_linux_alone_has(tmp_path):
    code = "\n".join((HIDDEN, PYTHON, COMMAND_LINE, SERVICE))
    environment = {"PYTHONPATH": str(Path(__file__).parents[3] / "src"), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, env=environment, check=False
    )
    assert found.returncode == 0, found.stderr
    assert (tmp_path / "rolled.vicinal").exists()
    assert (tmp_path / "told.npz").exists()


def test_letters_that_the_terminal_lacks_are_written_as_codes():
    """A Windows terminal may know one alphabet only; names of classes and files may have others."""
    code = "from vicinal import cli; cli._open_streams(); print('caf\\u00e9 \\u4e2d')"
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, env=environment)
    assert found.stdout.split() == [rb"caf\xe9", rb"\u4e2d"]
