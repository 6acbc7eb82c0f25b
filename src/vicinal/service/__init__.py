"""Prediction sets over HTTP: one file for each idea; `vicinal serve` runs it, `vicinal.client` asks it."""

from vicinal.service.app import create_app
from vicinal.service.server import serve
from vicinal.service.service import Service
from vicinal.service.settings import Settings

__all__ = ["Service", "Settings", "create_app", "serve"]
