from __future__ import annotations

import hashlib
import os
import shutil
import sys
from pathlib import Path

import pytest

# numba notices a change in a kernel's own file only, not in the files of the kernels it calls: without a cache keyed to
# all of them, tests could pass on old code. Set before anything imports numba; child processes inherit it.
KERNELS = sorted((Path(__file__).parents[1] / "src" / "vicinal" / "kernels").glob("*.py"))
DIGEST = hashlib.sha256(b"".join(path.read_bytes() for path in KERNELS)).hexdigest()[:16]
os.environ["NUMBA_CACHE_DIR"] = str(Path(__file__).parents[1] / ".numba_cache" / DIGEST)

from hypothesis import HealthCheck, settings  # noqa: E402  after the cache is set

settings.register_profile("vicinal", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=60)
settings.load_profile("vicinal")


# They kill processes, limit files, or run scripts of a Unix shell.
UNIX = [
    "doors/cli/test_crashes.py",
    "doors/cluster",
    "doors/python/test_docs.py",
    "doors/service/test_crashes.py",
    "doors/service/test_hostile.py",
    "doors/service/test_journal.py",
    "doors/service/test_proxy.py",
]
collect_ignore = UNIX if sys.platform == "win32" else []


def pytest_collection_modifyitems(items):
    """Skip tests that need another operating system."""
    absent = {"linux": sys.platform != "linux", "unix": sys.platform == "win32"}
    for item in items:
        for name, skipped in absent.items():
            if skipped and item.get_closest_marker(name):
                item.add_marker(pytest.mark.skip(reason=f"marked {name}: it cannot run on {sys.platform}"))


@pytest.fixture(scope="session")
def real_outputs() -> Path:
    """Folder with real network outputs; tests that need it skip where it is absent."""
    named = os.environ.get("VICINAL_DATA")
    root = Path(named) if named else Path(__file__).parents[2] / "shared" / "data"
    if not (root / "outputs").is_dir():
        pytest.skip(f"no real outputs in {root}; set VICINAL_DATA to a folder that has outputs/*.npz")
    return root / "outputs"


BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def browser():
    """The installed Chromium; tests that need it skip where there is none."""
    pytest.importorskip("plotly", reason="the page inlines plotly.js")
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright drives the page")
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    with sync_api.sync_playwright() as playwright:
        path = found or playwright.chromium.executable_path
        if not Path(path).exists():
            pytest.skip("no Chromium on this machine")
        options = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        launched = playwright.chromium.launch(executable_path=path, args=options)
        yield launched
        launched.close()
