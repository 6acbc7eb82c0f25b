"""Long work shows that it goes on."""

from __future__ import annotations

import time

import pytest

from vicinal._util import progress


@pytest.fixture
def drawn(monkeypatch):
    """Bars that were made, with what they were told."""
    bars = []

    class Shown(progress.Bar):
        def __init__(self, *given, **options):
            super().__init__(*given, **{**options, "shown": False})
            self.draws, self.closed = 0, False
            bars.append(self)

        def draw(self):
            self.draws += 1

        def close(self):
            self.closed = True

    monkeypatch.setattr(progress, "Bar", Shown)
    monkeypatch.setattr(progress, "QUIET", 0.1)
    return bars


def test_one_long_compilation_is_shown_all_the_while(drawn):
    """Kernels that need others are compiled within them: the bar stays until the outermost is done."""
    bar = progress.CompilationBar()
    bar.begin()
    bar.begin()
    bar.end()
    time.sleep(0.5)
    (shown,) = drawn
    assert shown.draws >= 3
    assert not shown.closed
    assert shown.done == 1
    bar.end()
    time.sleep(0.4)
    assert shown.closed


def test_a_short_compilation_shows_nothing(drawn):
    bar = progress.CompilationBar()
    bar.begin()
    bar.end()
    time.sleep(0.05)
    assert drawn == []
