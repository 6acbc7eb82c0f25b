"""vicinal: prediction sets and intervals, exact in finite samples and as small as the neighborhood allows.

Names are imported when they are first used, so that `import vicinal` is quick and needs no optional dependency. The
list of names is `__init__.pyi`, which type checkers read too.
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

# `from vicinal import *` must work without torch and ray.
__all__ = [name for name in __all__ if name not in ("torch", "distributed", "__version__")]
