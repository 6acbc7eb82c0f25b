"""
Images with PyTorch
===================

You have a neural network that classifies images, and you want sets of labels instead of single labels: sets that
contain the true label for nine images out of ten. This tutorial goes from a trained ``nn.Module`` to such sets.

A common case is a frozen network with a new last layer. We do the same here: the package ships the features that a
ResNet-18 computed for 4,000 CIFAR-100 images (the 512 numbers before its last layer). We train a new last layer on
some of them. Everything runs on a CPU in a few seconds. With your own network, use your own images and skip the first
section.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import vicinal as vc

torch.manual_seed(0)
data = vc.datasets.load_cifar100_resnet18()
features = torch.from_numpy(np.asarray(data.outputs.representations, np.float32))
labels = torch.from_numpy(data.labels)
names = data.outputs.class_names
print(features.shape, len(names), "classes, for example", names[:3])

# %%
# A network
# ---------
#
# We cut the rows into three parts. The network is trained on the first part only. The calibration rows must be rows
# that it has not seen: on its training rows a network is too sure of itself.

train, calibration, test = vc.split_rows(4000, [1500, 1500, None], seed=0)


def loader(rows, shuffle=False):
    return DataLoader(TensorDataset(features[rows], labels[rows]), batch_size=100, shuffle=shuffle)


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.avgpool = nn.Identity()  # the images have been through the frozen layers already
        self.head = nn.Linear(512, 100)

    def forward(self, batch):
        return self.head(self.avgpool(batch))


network = Network()
optimizer = torch.optim.Adam(network.parameters(), lr=3e-3, weight_decay=1e-4)
for epoch in range(20):
    for batch, targets in loader(train, shuffle=True):
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(batch), targets).backward()
        optimizer.step()

with torch.no_grad():
    right = network(features[test]).argmax(1) == labels[test]
print(f"accuracy on the test rows: {right.float().mean():.3f}")

# %%
# Collect the outputs
# -------------------
#
# :func:`vicinal.torch.collect` runs the network over a loader. It keeps the logits, the labels, and the activations
# of one layer: the *representations*, which say which images are near each other.

outputs, targets = vc.torch.collect(network, loader(calibration), layer="avgpool", class_names=names)
print(outputs.logits.shape, outputs.representations.shape)

# %%
# Calibrate
# ---------
#
# Calibration computes the threshold that each image gets: the set contains the labels whose score is at most the
# threshold. The guarantee says what you can rely on.

predictor = vc.calibrate(
    outputs,
    targets,
    coverage=0.9,
    score=vc.NeverEmpty(vc.APS()),
    localizer=vc.Exponential(n_neighbors=100, bandwidth=2.0),
)
print(predictor.guarantee)

# %%
# Sets from the network
# ---------------------
#
# :class:`vicinal.torch.ConformalModule` wraps the network. It is an ``nn.Module`` itself: it moves to a GPU with
# ``.to``, and its answer has one row of booleans for each image.

module = vc.torch.ConformalModule(network, predictor, layer="avgpool")
answer = module(features[test])
print(answer.mask.shape, answer.mask.dtype)

sets = module.predict(features[test])
for row in range(4):
    print(f"truth: {names[labels[test][row]]:<12} set: {', '.join(sets[row])}")

# %%
# Are they right often enough?
# ----------------------------
#
# ``evaluate`` compares the sets with the true labels. What each line means is explained in :doc:`/reference/results`.

print(vc.evaluate(sets, labels[test].numpy()))

# %%
# The same calibration serves every coverage. The plot shows that the coverage reached follows the coverage asked for,
# and what more coverage costs in labels.

test_outputs, test_labels = vc.torch.collect(network, loader(test), layer="avgpool", class_names=names)
_, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
vc.plots.plot_coverage(predictor, test_outputs, test_labels, ax=ax)
plt.show()

# %%
# Easy and hard images
# --------------------
#
# Where the network is sure of itself, sets are small; where it is not, they are large. Here are the probabilities of
# one easy and one hard image. Blue labels are in the set.

probabilities = predictor.label_scores(test_outputs)[0]
order = np.argsort(sets.sizes, kind="stable")
_, panels = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
for row, ax in zip((order[0], order[int(0.9 * len(order))]), panels, strict=True):
    top = np.argsort(-probabilities[row])[:8][::-1]
    colors = [vc.plots.COLORS[0] if sets.members[row, label] else "0.75" for label in top]
    ax.barh([names[label] for label in top], probabilities[row, top], color=colors)
    ax.set_title(f"truth: {names[test_labels[row]]}, {sets.sizes[row]} in the set")
    ax.set_xlabel("probability")
plt.show()

# %%
# ``explain`` says where the threshold of one image comes from.

print(predictor.explain(test_outputs, row=int(order[-1])))

# %%
# Where to go next
# ----------------
#
# :doc:`/how-to/networks` has the details: other layers, batches in other forms, GPUs, saving, and ONNX.
# :doc:`/how-to/tuning` chooses the score and the neighborhood for you.
