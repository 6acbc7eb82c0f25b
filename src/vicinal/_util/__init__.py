"""Helpers that know nothing of prediction: arrays, files, memory, threads, progress."""
