"""Loops over rows of class probabilities: checks, row hashes, softmax, and the walk down the sorted labels."""

from __future__ import annotations

import numpy as np

from vicinal.kernels._jit import kernel, reassociating_kernel

FIRST_BAND = 1.0 / 32.0
"""Labels above this probability are sorted first: at most 32 of them."""

BAND_STEP = 1.0 / 8.0
"""Factor between the lower bounds of successive bands."""

COUNTED = 64
"""Bands of at most this many labels are sorted by counting."""

LAST_BAND = 1e-6
"""Below this, all remaining labels form one band."""

BINS = 256
"""Bins of probability, eight for each power of two; the last holds all that are smaller."""

ONE_BIN = 1023 << 3
"""The first 15 bits of the float 1.0: its sign, exponent and first three digits."""


@reassociating_kernel
def first_not_finite(rows, start, stop):
    """Return the first row in start .. stop that holds NaN or an infinity, or -1."""
    for i in range(start, stop):
        row = rows[i]
        bad = 0
        for j in range(row.shape[0]):
            # The difference is NaN exactly for NaN and the infinities.
            bad += (row[j] - row[j]) != 0
        if bad:
            return i
    return -1


@reassociating_kernel
def first_not_finite_half(bits, start, stop):
    """Return the first row of float16 bit patterns that holds NaN or an infinity, or -1."""
    for i in range(start, stop):
        row = bits[i]
        bad = 0
        for j in range(row.shape[0]):
            bad += (row[j] & np.uint16(0x7C00)) == np.uint16(0x7C00)
        if bad:
            return i
    return -1


@reassociating_kernel
def first_improper(rows, tolerance, start, stop):
    """Return the first row that is not a probability vector, or -1; NaN and infinities are not allowed."""
    for i in range(start, stop):
        row = rows[i]
        total = 0.0
        bad = 0
        for j in range(row.shape[0]):
            total += row[j]
            bad += not (row[j] >= 0)
        if bad or not (abs(total - 1.0) <= tolerance):
            return i
    return -1


@kernel
def mix_bits(word):
    """Return a 64-bit word whose every bit depends on every bit of `word` (the splitmix64 finalizer)."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@kernel
def hash_keys(seed, out):
    """Write the splitmix64 stream of `seed`."""
    state = seed
    for j in range(out.shape[0]):
        state += np.uint64(0x9E3779B97F4A7C15)
        out[j] = mix_bits(state)


@kernel
def hash_rows(bits, keys, start, stop, out):
    """Write U in [0, 1) for each row: keys[0] + sum_j keys[j + 1] * bits_j modulo 2^64, mixed, its top 53 bits.

    The sum is the multilinear universal hash: one multiplication for each word, in any order, on any device.
    """
    for i in range(start, stop):
        row = bits[i]
        word = keys[0]
        for j in range(row.shape[0]):
            word += np.uint64(row[j]) * keys[j + 1]
        out[i] = np.float64(mix_bits(word) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@kernel
def softmax_rows(logits, temperature, start, stop, out):
    """Write softmax(logits / temperature) in float64 for rows start .. stop."""
    for i in range(start, stop):
        row = logits[i]
        top = -np.inf
        for j in range(row.shape[0]):
            top = max(top, np.float64(row[j]))
        total = 0.0
        for j in range(row.shape[0]):
            value = np.exp((np.float64(row[j]) - top) / temperature)
            out[i - start, j] = value
            total += value
        for j in range(row.shape[0]):
            out[i - start, j] /= total


@kernel
def row_maxima(bits, start, stop, out):
    """Write the largest entry of each row of non-negative floats, given and returned as their bits.

    Non-negative floats have the same order as their bits, and the maximum of whole numbers is vectorized.
    """
    for i in range(start, stop):
        row = bits[i]
        top = row[0]
        for j in range(1, row.shape[0]):
            top = max(top, row[j])
        out[i] = top


@kernel
def top_labels(rows, maxima, start, stop, out):
    """Write the most probable label of each row; of equals, the first."""
    for i in range(start, stop):
        row = rows[i]
        label = 0
        while row[label] < maxima[i]:
            label += 1
        out[i] = label


@kernel
def score_along(mass, probability, uniform, rank, penalty, free):
    """Return the score of the label at `rank` (from 1): mass before it + U * its probability + rank penalty."""
    return mass + uniform * probability + penalty * max(0, rank - free)


@kernel
def walk_to(row, label, uniform, penalty, free, scratch):
    """Return the score of one label: sort only what comes before it."""
    own = row[label]
    before = 0
    for j in range(row.shape[0]):
        if row[j] > own or (row[j] == own and j < label):
            scratch[before] = row[j]
            before += 1
    ahead = np.sort(scratch[:before])
    mass = 0.0
    for j in range(before - 1, -1, -1):
        mass += ahead[j]
    return score_along(mass, np.float64(own), uniform, before + 1, penalty, free)


@kernel
def walk_labels(rows, uniforms, labels, penalty, free, start, stop, out):
    """Write the score of one given label of each row."""
    scratch = np.empty(rows.shape[1])
    for i in range(start, stop):
        out[i] = walk_to(rows[i], labels[i], uniforms[i], penalty, free, scratch)


@kernel
def walk_all(rows, uniforms, penalty, free, start, stop, out):
    """Write the score of every label: (rows, classes)."""
    for i in range(start, stop):
        row = rows[i]
        order = np.argsort(-row, kind="mergesort")
        mass = 0.0
        for rank in range(order.shape[0]):
            value = np.float64(row[order[rank]])
            out[i, order[rank]] = score_along(mass, value, uniforms[i], rank + 1, penalty, free)
            mass += value


@kernel
def collect_band(row, low, high, flags, values, who):
    """Write the labels with low < probability <= high and their probabilities; return how many.

    One vectorized pass writes comparisons as bytes; a scan then skips four bytes at a time where none is set.
    """
    classes = row.shape[0]
    # Bounds in the row's own type: comparing float32 with float64 would widen every element.
    low, high = row.dtype.type(low), row.dtype.type(high)
    for j in range(classes):
        flags[j] = (row[j] > low) & (row[j] <= high)
    words = flags.view(np.uint32)
    count = 0
    for word in range(words.shape[0]):
        if words[word]:
            for j in range(4 * word, 4 * word + 4):
                # Always written, kept only if counted: there is no branch to mispredict.
                who[count] = j
                count += flags[j]
    for c in range(count):
        values[c] = row[who[c]]
    return count


@kernel
def sorted_band(values, who, count, order):
    """Write into `order` the position of each rank of the band; of equal values, the smaller label comes first."""
    if count > COUNTED:
        order[:count] = np.argsort(-values[:count], kind="mergesort")
        return
    # A rank is a count of comparisons: without branches, and vectorized without a remainder over a padded length.
    padded = (count + 7) // 8 * 8
    for d in range(count, padded):
        values[d] = -1.0
    for c in range(count):
        value, place = values[c], 0
        for d in range(padded):
            place += (values[d] > value) | ((values[d] == value) & (d < c))
        order[place] = c


@kernel
def walk_members(rows, uniforms, thresholds, penalty, free, start, stop, out):
    """Write which labels score at most the row's threshold: (rows, classes).

    Scores do not decrease along the walk, so it ends at the first label above the threshold. Labels are sorted band
    by band, so that those the walk does not reach are never sorted.
    """
    classes = rows.shape[1]
    values = np.empty(classes + 8)
    who, order = np.empty(classes + 4, np.int32), np.empty(classes + 4, np.int32)
    flags = np.zeros((classes + 7) // 8 * 8, np.uint8)
    for i in range(start, stop):
        row, uniform, threshold = rows[i], uniforms[i], thresholds[i]
        member = out[i]
        member[:] = False
        mass, rank = 0.0, 0
        high, low = np.inf, FIRST_BAND
        # The least the next label can score decides whether another band is worth collecting.
        while high >= 0.0 and score_along(mass, 0.0, 0.0, rank + 1, penalty, free) <= threshold:
            count = collect_band(row, low, high, flags, values, who)
            sorted_band(values, who, count, order)
            reached = 0
            while reached < count:
                value = values[order[reached]]
                if score_along(mass, value, uniform, rank + 1, penalty, free) > threshold:
                    break
                member[who[order[reached]]] = True
                mass += value
                rank += 1
                reached += 1
            if reached < count:
                break
            high = low
            low = low * BAND_STEP if low > LAST_BAND else -1.0


@kernel
def lac_members(rows, thresholds, start, stop, out):
    """Write which labels have 1 - probability at most the row's threshold: (rows, classes)."""
    for i in range(start, stop):
        row, threshold, member = rows[i], thresholds[i], out[i]
        for j in range(row.shape[0]):
            member[j] = 1.0 - np.float64(row[j]) <= threshold


@kernel
def entropies(rows, start, stop, out):
    """Write the entropy -sum p log p of each row."""
    for i in range(start, stop):
        row = rows[i]
        total = 0.0
        for j in range(row.shape[0]):
            p = np.float64(row[j])
            if p > 0.0:
                total -= p * np.log(p)
        out[i] = abs(total)


@kernel
def naive_sizes(rows, mass, start, stop, out):
    """Write how many labels, taken from the most probable on, hold a mass; the last counts in part.

    Labels are first counted in narrow bins of probability, so that only those in the bin where the mass is reached have
    to be sorted.
    """
    classes = rows.shape[1]
    values = np.empty(classes)
    bits = values.view(np.int64)
    places = np.empty(classes, np.int64)
    held, counts = np.empty(BINS), np.empty(BINS, np.int64)
    for i in range(start, stop):
        values[:] = rows[i]
        held[:] = 0.0
        counts[:] = 0
        for j in range(classes):
            # A bin is an eighth of a power of two: the exponent of the number and its first three digits.
            place = min(max(ONE_BIN - (bits[j] >> 49), 0), BINS - 1)
            places[j] = place
            held[place] += values[j]
            counts[place] += 1
        before, size, place = 0.0, 0, 0
        while place < BINS - 1 and before + held[place] < mass:
            before += held[place]
            size += counts[place]
            place += 1
        kept = 0
        for j in range(classes):
            if places[j] == place:
                values[kept] = values[j]
                kept += 1
        ordered = np.sort(values[:kept])
        part = 0.0
        for c in range(kept - 1, -1, -1):
            if ordered[c] <= 0.0 or before >= mass:
                break
            part += min(1.0, (mass - before) / ordered[c])
            before += ordered[c]
        out[i] = size + part
