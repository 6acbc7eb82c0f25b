"""A service in a process of its own, as its users run it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading

import vicinal as vc


def saved_model(folder, known):
    """Save a predictor of the bundled rows that is calibrated on the first `known`; return where."""
    rows = vc.datasets.load_cifar100_resnet18()
    score = vc.NeverEmpty(vc.RAPS(rank_penalty=0.01, free_ranks=5))
    near = vc.Exponential(n_neighbors=50, bandwidth=2.0)
    predictor = vc.calibrate(rows.outputs[:known], rows.labels[:known], 0.9, score=score, localizer=near)
    return predictor.save(folder / "model.vicinal").path


class Running:
    """`vicinal serve` on a free port; what it writes is kept."""

    def __init__(self, model, *options, environment=None, first=None):
        start = ["-m", "vicinal"] if first is None else ["-c", f"{first}\nfrom vicinal.cli import main\nmain()"]
        command = [sys.executable, *start, "serve", str(model), "--port", "0", *map(str, options)]
        environment = {**os.environ, **(environment or {})}
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, env=environment)
        self.lines: list[str] = []
        found = None
        while found is None:  # a journal is told of before the address
            line = self.process.stderr.readline().decode()
            if not line:
                self.process.wait()
                self.process.stderr.close()
                raise RuntimeError("".join(self.lines))
            self.lines.append(line)
            found = re.search(r"^vicinal: .* at (http://\S+)", line)
        self.url = found[1]
        self.port = int(self.url.rsplit(":", 1)[1])
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stderr:
            self.lines.append(line.decode())

    def wait_ready(self, seconds=120, token=None):
        return vc.Client(self.url, token=token).wait(seconds)

    @property
    def resident(self):
        """Bytes in memory."""
        import psutil

        return psutil.Process(self.process.pid).memory_info().rss

    def events(self):
        return [json.loads(line) for line in self.lines if line.startswith("{")]

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
        code = self.process.wait(60)
        self._reader.join(10)
        self.process.stderr.close()
        return code

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
