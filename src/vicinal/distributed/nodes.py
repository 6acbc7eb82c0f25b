"""Start of a worker: compare versions, limit threads."""

from __future__ import annotations

import os

from threadpoolctl import threadpool_limits

from vicinal._util.extras import needs
from vicinal._version import __version__
from vicinal.errors import Incompatible

with needs("ray", "ray"):
    import ray


def check_version(version: str) -> None:
    """Refuse to run with another version of vicinal than the driver."""
    if version != __version__:
        node = ray.get_runtime_context().get_node_id()[:8]
        msg = f"node {node} has vicinal {__version__}, the driver {version}. Install the same version on all nodes."
        raise Incompatible(msg)


def one_thread_for_each_cpu(cpus: float) -> None:
    """Use as many threads as this worker has CPUs, not as many as the node has."""
    threads = max(1, int(cpus))
    os.environ["VICINAL_THREADS"] = str(threads)
    threadpool_limits(threads, user_api="blas")
