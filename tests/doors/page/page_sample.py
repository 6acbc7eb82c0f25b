"""Made-up data in the shape that the report's page reads: a toy model, ranked as the library would rank it."""

from __future__ import annotations

import base64
import struct
import zlib
from itertools import pairwise

import numpy as np

TARGETS = [round(0.5 + 0.01 * step, 2) for step in range(50)]
ANIMALS = ("otter", "heron", "lynx", "viper", "trout", "moth", "ibex", "crane", "newt", "finch")
PLACES = ("river", "desert", "alpine", "island", "forest", "marsh", "coast", "steppe", "canyon", "garden")
HOSTILE = "</script><img src=x onerror=alert(1)>"


def sample(task="classification", rows=300, candidates=600, points=3000, n=2000, hostile=False, images=True):
    """Return a report's data; `hostile` puts markup in the place of the first class's name."""
    rng = np.random.default_rng(0)
    names = [f"{place} {animal}" for animal in ANIMALS for place in PLACES]
    if hostile:
        names[0] = HOSTILE
    made = _classification(rng, names, rows, n, images) if task == "classification" else _regression(rng, rows, n)
    x, y = rng.normal(size=(2, points)) + 3 * np.stack([np.cos(np.arange(points)), np.sin(np.arange(points))])
    label = [
        names[i % 100] if task == "classification" else f"{v:.2f}" for i, v in enumerate(rng.normal(20, 6, points))
    ]
    return {
        "title": "Prediction sets of a toy model" if not hostile else HOSTILE,
        "subtitle": f"Exact neighborhood, {n:,} calibration rows, 2,000 test rows",
        "task": task,
        "date": "2026-11-15",
        "version": "0.0",
        "frontier": _frontier(rng, candidates),
        "map": {
            "method": "PCA",
            "x": _rounded(x),
            "y": _rounded(y),
            "threshold": _rounded(0.9 + 0.03 * x + 0.02 * rng.normal(size=points)),
            "label": label,
        },
        "diagnosis": _diagnosis(),
        **made,
    }


def _classification(rng, names, rows, n, images):
    """Rank labels by minus the log of their probability, as it is (split) or over its class's scale (neighborhood)."""
    spread = rng.uniform(0.8, 2.0, 100)
    scale = spread**0.2

    def model(count):
        truth = rng.integers(0, 100, count)
        logits = rng.normal(size=(count, 100)) * spread[truth][:, None]
        logits[np.arange(count), truth] += 4.5
        weights = np.exp(logits - logits.max(1, keepdims=True))
        return truth, weights / weights.sum(1, keepdims=True)

    def p_values(ranked, scores):
        below = np.searchsorted(np.sort(ranked), scores, side="left")
        return (n + 1 - below) / (n + 1)

    (known, known_p), (truth, shown) = model(n), model(2000)
    scores, of_all = -np.log(known_p[np.arange(n), known]), -np.log(shown)
    rank = int(np.ceil(round(0.9 * (n + 1), 6))) - 1
    everywhere, local = np.sort(scores)[rank], np.sort(scores / scale[known])[rank] * scale[truth]
    ways = {
        "split": p_values(scores, of_all),
        "neighborhood": p_values(scores / scale[known], of_all / scale[truth][:, None]),
    }
    members = {
        way: [p * (n + 1) > n + 1.5 - np.ceil(round(t * (n + 1), 6)) for t in TARGETS] for way, p in ways.items()
    }
    hits = {way: np.stack([m[np.arange(2000), truth] for m in found]) for way, found in members.items()}
    sizes = {way: np.stack([m.sum(1) for m in found]) for way, found in members.items()}
    at = TARGETS.index(0.9)
    pool = {str(at): _png(rng) for at in range(40)} if images else {}
    explored = []
    for row in range(rows):
        order = np.argsort(-shown[row])[:10]
        if truth[row] not in order:
            order[-1] = truth[row]
        near = rng.choice(n, 8, replace=False)
        weight = np.exp(-np.arange(8) / 3)
        explored.append(
            {
                "row": row,
                "name": f"Row {row}",
                "truth": names[truth[row]],
                "truth_value": None,
                "threshold": None if row % 25 == 3 else round(float(local[row]), 4),
                "global": round(float(everywhere), 4),
                "effective": round(float(rng.uniform(20, 90)), 1),
                "position": _rounded(rng.normal(size=2) * 2),
                "image": str(row % 40) if pool else None,
                "labels": [
                    {
                        "name": names[k],
                        "probability": round(float(shown[row, k]), 4),
                        "score": None if row % 25 == 3 and k == order[0] else round(float(of_all[row, k]), 4),
                        "p": round(float(ways["neighborhood"][row, k]), 6),
                        "truth": bool(k == truth[row]),
                    }
                    for k in order
                ],
                "set_sizes": [int(size) for size in sizes["neighborhood"][:, row]],
                "prediction": None,
                "lower": None,
                "upper": None,
                "neighbors": [
                    {
                        "row": int(j),
                        "name": f"Row {j}",
                        "label": names[truth[row]] if at_rank < 2 else names[known[j]],
                        "score": None if at_rank == 4 else round(float(scores[j]), 4),
                        "weight": round(float(weight[at_rank] / weight.sum()), 4),
                        "distance": round(12.5 + 0.8 * at_rank, 2),
                        "image": str(j % 40) if pool else None,
                    }
                    for at_rank, j in enumerate(near)
                ],
            }
        )
    counted = {way: np.bincount(np.minimum(found[at], 15), minlength=16).tolist() for way, found in sizes.items()}
    return {
        "compared": True,
        "by_group": [
            {"name": name, "rows": 100, "coverage": 0.9, "low": 0.8, "high": 0.95, "size": 2.5, "split": 0.88}
            for name in ("hospital = Oslo", "hospital = Rome")
        ],
        "headline": _headline(
            hits["neighborhood"][at], sizes["neighborhood"][at], hits["split"][at], sizes["split"][at]
        ),
        "sizes": {"values": [*(str(v) for v in range(15)), "15+"], **counted},
        "curve": _curve(hits, sizes),
        "tenths": _tenths({way: found[at] for way, found in hits.items()}, -shown.max(1)),
        "classes": {
            "names": names,
            "rows": np.bincount(truth, minlength=100).tolist(),
            **{
                way: _rounded(np.bincount(truth, found[at], 100) / np.bincount(truth, minlength=100))
                for way, found in hits.items()
            },
        },
        "images": pool,
        "explorer": {"n": n, "rows": explored},
    }


def _regression(rng, rows, n):
    """Half-widths of normal quantiles: one for all rows (split), one for each row's own noise (neighborhood)."""
    noise = rng.gamma(4, 0.5, 2000)
    error = rng.normal(size=2000) * noise
    prediction = rng.normal(20, 6, 2000)
    ratio = np.quantile(np.abs(error / noise), TARGETS)
    half = {
        "split": np.repeat(np.quantile(np.abs(error), TARGETS)[:, None], 2000, 1),
        "neighborhood": ratio[:, None] * noise,
    }
    hits = {way: np.abs(error) <= found for way, found in half.items()}
    at = TARGETS.index(0.9)
    edges = np.linspace(0, 16, 17)
    explored = []
    for row in range(rows):
        truth, center = prediction[row] + error[row], prediction[row]
        endless = row == 7
        near = center + rng.normal(size=8) * noise[row]
        explored.append(
            {
                "row": row,
                "name": f"Row {row}",
                "truth": f"{truth:.2f}",
                "truth_value": round(float(truth), 3),
                "threshold": None if endless else round(float(half["neighborhood"][at, row]), 4),
                "global": round(float(half["split"][at, row]), 4),
                "effective": 41.5,
                "position": None if row == 2 else _rounded(rng.normal(size=2) * 2),
                "image": None,
                "labels": [],
                "set_sizes": [],
                "prediction": round(float(center), 3),
                "lower": None if endless else round(float(center - half["neighborhood"][at, row]), 3),
                "upper": None if endless else round(float(center + half["neighborhood"][at, row]), 3),
                "neighbors": [
                    {"row": k, "name": f"Row {k}", "label": f"{v:.2f}", "score": round(abs(float(v - center)), 3)}
                    | {"weight": 0.125, "distance": None if k > 5 else round(0.4 + 0.1 * k, 2), "image": None}
                    for k, v in enumerate(near)
                ],
            }
        )
    sizes = {way: 2 * found for way, found in half.items()}
    return {
        "compared": True,
        "by_group": [
            {"name": name, "rows": 100, "coverage": 0.9, "low": 0.8, "high": 0.95, "size": 2.5, "split": 0.88}
            for name in ("hospital = Oslo", "hospital = Rome")
        ],
        "headline": _headline(
            hits["neighborhood"][at], sizes["neighborhood"][at], hits["split"][at], sizes["split"][at]
        )
        | {"size_word": "length"},
        "sizes": {
            "values": [f"{low:g} to {high:g}" for low, high in pairwise(edges)],
            **{way: np.histogram(np.minimum(found[at], 15.9), edges)[0].tolist() for way, found in sizes.items()},
        },
        "curve": _curve(hits, sizes),
        "tenths": _tenths({way: found[at] for way, found in hits.items()}, noise),
        "classes": None,
        "explorer": {"n": n, "rows": explored},
    }


def _headline(hits, sizes, split_hits, split_sizes):
    coverage = float(hits.mean())
    return {
        "target": 0.9,
        "coverage": round(coverage, 4),
        "low": round(coverage - 0.013, 4),
        "high": round(coverage + 0.013, 4),
        "rows": len(hits),
        "size": round(float(sizes.mean()), 4),
        "median_size": round(float(np.median(sizes)), 4),
        "split_size": round(float(split_sizes.mean()), 4),
        "split_coverage": round(float(split_hits.mean()), 4),
        "size_word": "labels",
        "guarantee": "P(truth in the answer) = 1801 / 2001 = 0.900, over calibration rows and test row, if they are "
        "exchangeable and scores have no ties. It is an average over inputs.",
        "advice": "Compared with plain split on the same rows, answers are 9.0% smaller: keep it.",
        "settings": [
            ["Method", "Exact()"],
            ["Score", "NeverEmpty(APS())"],
            ["Localizer", "Exponential(n_neighbors=200, bandwidth=2.0)"],
            ["Calibration rows", "2,000"],
            ["Seed", "0"],
        ],
    }


def _curve(hits, sizes):
    return {"targets": TARGETS} | {
        way: {"coverage": _rounded(hits[way].mean(1)), "size": _rounded(sizes[way].mean(1))} for way in hits
    }


def _tenths(hits, difficulty):
    parts = np.array_split(np.argsort(difficulty), 10)
    return {
        "title": "Tenths of the test rows, from the easiest to the hardest",
        "names": [f"{k + 1}" for k in range(10)],
        "rows": [len(part) for part in parts],
        **{way: _rounded([found[part].mean() for part in parts]) for way, found in hits.items()},
    }


def _frontier(rng, count):
    size = np.exp(rng.uniform(np.log(2), np.log(40), count))
    worst = np.clip(0.85 - 0.15 / size - rng.exponential(0.06, count), 0, 1)
    best, frontier = -1.0, []
    for k in np.argsort(size):
        if worst[k] > best:
            best = worst[k]
            frontier.append(int(k))
    winner = frontier[len(frontier) // 2]
    return {
        "candidates": [
            {
                "name": f"NeverEmpty(APS()), Exponential({10 * (k % 50 + 1)}, {0.5 * (k % 12 + 1)})",
                "size": round(float(size[k]), 3),
                "se": 0.04,
                "worst": None if k == 5 and k not in frontier else round(float(worst[k]), 4),
                "coverage": 0.9,
                "everyone": k % 15 == 0,
            }
            for k in range(count)
        ],
        "frontier": frontier,
        "winner": winner,
        "sentence": "The smallest candidate whose worst tenth is within one standard error of the best was chosen.",
    }


def _diagnosis():
    return {
        "rows": [
            ["Dimension", 12.3, "intrinsic dimension of the representations near the median row"],
            ["Share of spread between places", "0.31", "how much of the scores' variance the neighborhood explains"],
            ["Empty neighborhoods", 0, None],
        ],
        "theory": {
            "columns": ["Quantity", "Split", "Neighborhood"],
            "rows": [["Expected size", 3.57, 3.24], ["Bound on the gap", None, "k / n = 0.1"]],
            "notes": ["gap <= k / n, with k neighbors and n rows", "size = E sum of 1[V <= t] over labels"],
        },
    }


def _rounded(values):
    return [round(float(value), 4) for value in values]


def _png(rng, side=32):
    """Return a small smooth picture as a data URI."""
    grid = np.linspace(0, 1, side)
    waves = [np.sin(rng.uniform(2, 9) * grid[:, None] + rng.uniform(2, 9) * grid + rng.uniform(0, 6)) for _ in range(3)]
    pixels = (127 + 120 * np.stack(waves, -1)).astype(np.uint8)
    raw = b"".join(b"\0" + line.tobytes() for line in pixels)

    def chunk(name, content):
        body = name + content
        return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(raw, 9)) + chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(png).decode()
