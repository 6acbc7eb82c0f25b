"""A Ray cluster of several nodes on one machine, and rows for it."""

from __future__ import annotations

import contextlib
import os
import signal
import time

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import ray
from ray.cluster_utils import Cluster

import vicinal as vc


@contextlib.contextmanager
def nodes(count: int):
    """Start a cluster of `count` nodes with one CPU each, and connect to it; the first is the head."""
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": 200_000_000})
    try:
        others = [cluster.add_node(num_cpus=1, object_store_memory=200_000_000) for _ in range(count - 1)]
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        yield cluster, others
    finally:
        ray.shutdown()
        cluster.shutdown()


def lists(table):
    """Return the rows of a table as Arrow keeps them."""
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(table).reshape(-1)), table.shape[1])


def made(n, seed, classes=5, width=6):
    """Return logits, representations and labels of a noisy classifier."""
    rng = np.random.default_rng(seed)
    representations = rng.normal(size=(n, width)).astype(np.float32)
    labels = rng.integers(classes, size=n)
    logits = rng.normal(size=(n, classes)) * (0.5 + np.abs(representations[:, :1]))
    logits[np.arange(n), labels] += 1.5
    return logits.astype(np.float32), representations, labels


def write_rows(folder, n, files, *, ids=False, labels=False, group_rows=None):
    """Write rows to a folder of Parquet files; return outputs and labels of all."""
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for file in range(files):
        first, last = n * file // files, n * (file + 1) // files
        logits, representations, truth = made(last - first, file + 1)
        columns = {"logits": lists(logits), "representations": lists(representations)}
        if ids:
            columns["row_ids"] = pa.array(np.arange(first, last))
        if labels:
            columns["labels"] = pa.array(truth)
        pq.write_table(
            pa.table(columns), folder / f"rows-{file:03d}.parquet", row_group_size=group_rows or last - first
        )
        found.append((logits, representations, truth))
    logits, representations, truth = (np.concatenate(column) for column in zip(*found, strict=True))
    return vc.ModelOutputs.from_logits(logits, representations), truth


def saved_predictor(path, n=300, **parts):
    """Save a predictor for such rows, and return it."""
    logits, representations, labels = made(n, 0)
    parts = {"localizer": vc.Exponential(20, 0.7), "score": vc.APS(), **parts}
    found = vc.calibrate(vc.ModelOutputs.from_logits(logits, representations), labels, 0.9, **parts)
    found.save(path)
    return found


def signal_one(cluster, name, what=signal.SIGKILL):
    """Send a signal to one process of the cluster that works as an actor of this name; return its number, or None."""
    found = working(cluster, name)[:1]
    for pid in found:
        os.kill(pid, what)
    return found[0] if found else None


def signal_all(cluster, name, what=signal.SIGKILL):
    """Send a signal to all processes of the cluster that work as actors of this name; return their numbers."""
    found = working(cluster, name)
    for pid in found:
        os.kill(pid, what)
    return found


def wait_for(cluster, name, count, seconds=120):
    """Wait until so many processes of the cluster work as actors of this name."""
    deadline = time.monotonic() + seconds
    while len(working(cluster, name)) < count and time.monotonic() < deadline:
        time.sleep(0.2)


def working(cluster, name):
    """Return the numbers of the processes of the cluster that work as actors of this name."""
    found = [process for node in cluster.list_all_nodes() for process in _of_node(node)]
    return [process.pid for process in found if _name_columns(process).startswith(f"ray::{name}")]


def _name_columns(process):
    with contextlib.suppress(psutil.Error):
        return (process.cmdline() or [""])[0]
    return ""


def _of_node(node):
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(node.all_processes["raylet"][0].process.pid).children(recursive=True)
    return []
