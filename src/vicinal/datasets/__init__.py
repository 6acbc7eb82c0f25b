"""Real outputs of real models, small enough to ship. The README beside this file says how each was made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import as_file, files
from typing import Any

import numpy as np

from vicinal._util.arrays import Floats, Ints
from vicinal.outputs import ClassificationOutputs, ModelOutputs, RegressionOutputs, RowSelection


@dataclass(frozen=True, eq=False)
class LabeledOutputs:
    """Outputs of a classifier with the true labels.

    Parameters
    ----------
    outputs : ClassificationOutputs
        Outputs of the model for n rows.
    labels : ndarray of shape (n,)
        The true class numbers.

    Examples
    --------
    >>> data = load_cifar100_resnet18()
    >>> len(data[:10].labels)
    10
    """

    outputs: ClassificationOutputs
    labels: Ints  # (n,)

    def __getitem__(self, rows: RowSelection) -> LabeledOutputs:
        return LabeledOutputs(self.outputs[rows], self.labels[rows])


@dataclass(frozen=True, eq=False)
class MeasuredOutputs:
    """Outputs of a regression with the true targets.

    Parameters
    ----------
    outputs : RegressionOutputs
        Outputs of the model for n rows.
    targets : ndarray of shape (n,)
        The true values.

    Examples
    --------
    >>> data = load_facebook_comments()
    >>> len(data[:10].targets)
    10
    """

    outputs: RegressionOutputs
    targets: Floats  # (n,)

    def __getitem__(self, rows: RowSelection) -> MeasuredOutputs:
        return MeasuredOutputs(self.outputs[rows], self.targets[rows])


def load_cifar100_resnet18() -> LabeledOutputs:
    """Return logits, representations and labels of a ResNet-18 (76 % accurate) on 4,000 CIFAR-100 test images.

    Returns
    -------
    LabeledOutputs
        4,000 rows of 100 classes, with 512 columns of representations and class names.

    Examples
    --------
    >>> data = load_cifar100_resnet18()
    >>> len(data.outputs), data.outputs.n_classes, data.outputs.class_names[data.labels[0]]
    (4000, 100, 'mountain')
    """
    with _stored("cifar100_resnet18") as arrays:
        outputs = ModelOutputs.from_logits(
            arrays["logits"],
            arrays["representations"],
            class_names=[str(name) for name in arrays["class_names"]],
        )
        return LabeledOutputs(outputs, arrays["labels"].astype(np.int64))


def load_tiny_imagenet_resnet50() -> LabeledOutputs:
    """Return outputs of an ImageNet ResNet-50 on shifted data: 4,000 small, blurred pictures of 200 of its classes.

    Logits are rounded to multiples of 1/4, and representations are 64 principal components of unit-length rows.

    Returns
    -------
    LabeledOutputs
        4,000 rows of 1,000 classes; 37 % of the top labels are right.

    Examples
    --------
    >>> data = load_tiny_imagenet_resnet50()
    >>> len(data.outputs), data.outputs.n_classes, len(set(data.labels.tolist()))
    (4000, 1000, 200)
    """
    with _stored("tiny_imagenet_resnet50") as arrays:
        logits = arrays["logit_steps"] * np.float32(arrays["logit_step"]) + np.float32(arrays["lowest_logit"])
        outputs = ModelOutputs.from_logits(logits, arrays["representations"])
        return LabeledOutputs(outputs, arrays["labels"].astype(np.int64))


def load_facebook_comments() -> MeasuredOutputs:
    """Return predicted and true numbers of comments on 9,000 Facebook posts, by a small perceptron.

    Returns
    -------
    MeasuredOutputs
        9,000 rows with 30 columns of representations (the last hidden layer); targets are counts.

    Examples
    --------
    >>> data = load_facebook_comments()
    >>> len(data.outputs), float(data.targets.min()), float(data.targets.max())
    (9000, 0.0, 1147.0)
    """
    with _stored("facebook_comments") as arrays:
        outputs = ModelOutputs.from_predictions(arrays["predictions"], arrays["representations"])
        return MeasuredOutputs(outputs, arrays["targets"].astype(np.float64))


@contextmanager
def _stored(name: str) -> Iterator[Mapping[str, Any]]:
    """Open one of the files beside this module."""
    with as_file(files(__package__) / f"{name}.npz") as path, np.load(path, allow_pickle=False) as arrays:
        yield arrays
