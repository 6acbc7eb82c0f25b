from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("vicinal", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=60)
settings.load_profile("vicinal")


@pytest.fixture(scope="session")
def real_outputs() -> Path:
    """Folder with real network outputs; tests that need it skip where it is absent."""
    named = os.environ.get("VICINAL_DATA")
    root = Path(named) if named else Path(__file__).parents[2] / "shared" / "data"
    if not (root / "outputs").is_dir():
        pytest.skip(f"no real outputs in {root}; set VICINAL_DATA to a folder that has outputs/*.npz")
    return root / "outputs"
