"""Empty modules in place of imports that a library requires and never calls in the benchmark."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType
from typing import Any


def stub(name: str, path: list[str] | None = None, **attributes: Any) -> ModuleType:
    """Register a module in which every attribute is an empty class, except those given."""
    module: Any = ModuleType(name)
    module.__path__ = path or []
    module.__getattr__ = lambda attribute: type(attribute, (), {})
    vars(module).update(attributes)
    sys.modules[name] = module
    return module  # type: ignore[no-any-return]


def stub_missing(*names: str, **attributes: Any) -> tuple[str, ...]:
    """Stub the modules whose packages are not installed, and return their names."""
    missing = tuple(name for name in names if importlib.util.find_spec(name.partition(".")[0]) is None)
    for name in missing:
        stub(name, **attributes)
    return missing
