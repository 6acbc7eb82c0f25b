"""From a trained network to prediction sets: collect its outputs, search on its device, wrap it in a module."""

from vicinal._util.extras import needs

with needs("torch", "torch"):
    import torch as _torch  # noqa: F401  a missing torch is reported here, with the extra to install

from vicinal.torch.collecting import collect
from vicinal.torch.module import ConformalModule, ConformalSets
from vicinal.torch.search import TorchSearch
from vicinal.torch.views import Mirror, Rotate, Shift, Steps, Views, Zoom

__all__ = [
    "ConformalModule",
    "ConformalSets",
    "Mirror",
    "Rotate",
    "Shift",
    "Steps",
    "TorchSearch",
    "Views",
    "Zoom",
    "collect",
]
