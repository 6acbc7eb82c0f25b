"""Weighted shares of the neighbors' labels ("votes"), and weighted means of the neighbors' values."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vicinal.kernels._jit import kernel
from vicinal.kernels.distances import row_distances
from vicinal.kernels.ranks import neighborhood
from vicinal.kernels.weights import log_weight_ratio


class Votes(NamedTuple):
    """The labels of each row's neighbors: entries starts[i] to starts[i + 1] are those of row i."""

    starts: NDArray[np.int64]  # (n + 1,)
    labels: NDArray[np.int64]  # (entries,)
    shares: NDArray[np.float64]  # (entries,): weighted share of each label; those of a row sum to one


@kernel
def vote_gain(share, smoothing, classes):
    """Return log(share + smoothing / classes) - log(smoothing / classes): 0 for a label without votes."""
    return np.log1p(classes * share / smoothing)


@kernel
def average_values(panel, rule, own, values, start, stop, out):
    """Write the weighted mean of the neighbors' values; `own[q]` is the query's own row, which is left out, or -1."""
    n = panel.n
    distances, scratch, weights = np.empty(n), np.empty(n), np.empty(n)
    who = np.empty(n + 1, np.int64)
    for q in range(start, stop):
        row_distances(panel, q, own[q], distances)
        count, _ = neighborhood(distances, n, rule, who, weights, scratch)
        total, summed = 0.0, 0.0
        for c in range(count):
            total += weights[c]
            summed += weights[c] * values[who[c]]
        out[q] = summed / total


@kernel
def count_votes(panel, rule, own, labels, start, stop, out):
    """Write the weighted share of the neighbors with each label: (queries, classes)."""
    n = panel.n
    distances, scratch, weights = np.empty(n), np.empty(n), np.empty(n)
    who = np.empty(n + 1, np.int64)
    for q in range(start, stop):
        row_distances(panel, q, own[q], distances)
        count, _ = neighborhood(distances, n, rule, who, weights, scratch)
        out[q, :] = 0.0
        total = 0.0
        for c in range(count):
            total += weights[c]
            out[q, labels[who[c]]] += weights[c]
        for y in range(out.shape[1]):
            out[q, y] /= total


@kernel
def blend(logits, shares, temperature, weight, smoothing, start, stop):
    """Replace shares by probabilities, softmax(logits / temperature + weight * gain), in place."""
    classes = shares.shape[1]
    for i in range(start, stop):
        top = -np.inf
        for y in range(classes):
            gain = vote_gain(shares[i, y], smoothing, classes) if shares[i, y] > 0.0 else 0.0
            shares[i, y] = np.float64(logits[i, y]) / temperature + weight * gain
            top = max(top, shares[i, y])
        total = 0.0
        for y in range(classes):
            shares[i, y] = np.exp(shares[i, y] - top)
            total += shares[i, y]
        for y in range(classes):
            shares[i, y] /= total


@kernel
def tied_end(lists, i, k):
    """Return the end, in the lists, of the k nearest of row i with all rows tied with the k-th."""
    end = lists.starts[i] + k
    while end < lists.starts[i + 1] and lists.squared[end] == lists.squared[end - 1]:
        end += 1
    return end


@kernel
def listed_votes(lists, labels, rule, start, stop, counts, voted_labels, shares):
    """Write the labels of each row's k nearest rows (and all tied with the k-th), and their weighted shares."""
    for i in range(start, stop):
        begin = lists.starts[i]
        end = tied_end(lists, i, rule.n_neighbors)
        total, count = 0.0, 0
        for e in range(begin, end):
            w = np.exp(log_weight_ratio(rule, np.sqrt(lists.squared[e]), np.sqrt(lists.squared[begin])))
            label = labels[lists.who[e]]
            place = 0
            while place < count and voted_labels[i - start, place] != label:
                place += 1
            if place == count:
                voted_labels[i - start, place] = label
                shares[i - start, place] = 0.0
                count += 1
            shares[i - start, place] += w
            total += w
        counts[i - start] = count
        for place in range(count):
            shares[i - start, place] /= total


@kernel
def blended_likelihood(logits, labels, votes, temperature, weight, smoothing, start, stop, out):
    """Write for each row the negative log-likelihood of its label and its derivatives: (n, 4).

    Derivatives are with respect to log temperature, weight, and log smoothing.
    """
    classes = logits.shape[1]
    for i in range(start, stop):
        row, own = logits[i], labels[i]
        top = -np.inf
        for y in range(classes):
            top = max(top, np.float64(row[y]))
        # First the terms as if no label had votes; those of labels with votes are then corrected.
        total, tilt = 0.0, 0.0
        for y in range(classes):
            value = (np.float64(row[y]) - top) / temperature
            mass = np.exp(value)
            total += mass
            tilt += mass * value
        own_value = (np.float64(row[own]) - top) / temperature
        own_gain, own_shrink = 0.0, 0.0
        extra_gain, extra_shrink = 0.0, 0.0
        for e in range(votes.starts[i], votes.starts[i + 1]):
            value = (np.float64(row[votes.labels[e]]) - top) / temperature
            odds = classes * votes.shares[e] / smoothing
            gain, shrink = np.log1p(odds), -odds / (1.0 + odds)
            plain = np.exp(value)
            mass = plain * np.exp(weight * gain)
            total += mass - plain
            tilt += (mass - plain) * value
            extra_gain += mass * gain
            extra_shrink += mass * shrink
            if votes.labels[e] == own:
                own_gain, own_shrink = gain, shrink
        out[i, 0] = np.log(total) - own_value - weight * own_gain
        out[i, 1] = own_value - tilt / total
        out[i, 2] = extra_gain / total - own_gain
        out[i, 3] = weight * (extra_shrink / total - own_shrink)


@kernel
def listed_averages(lists, values, rule, out):
    """Write the weighted mean of the values of each row's k nearest rows and all tied with the k-th."""
    for i in range(out.shape[0]):
        begin = lists.starts[i]
        end = tied_end(lists, i, rule.n_neighbors)
        total, summed = 0.0, 0.0
        for e in range(begin, end):
            w = np.exp(log_weight_ratio(rule, np.sqrt(lists.squared[e]), np.sqrt(lists.squared[begin])))
            total += w
            summed += w * values[lists.who[e]]
        out[i] = summed / total
