"""The plan of the experiments: networks with their data, splits and seeds, and lists of parameter values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from experiments.choosing import ChoiceLists
from experiments.records import RECORDS, RunRecord

PARTS: Mapping[str, Mapping[str, int]] = MappingProxyType(
    {
        "ImageNet": {"calibration": 5000, "scaling": 5000, "tuning": 15000, "test": 25000},
        "CIFAR-100": {"calibration": 3000, "scaling": 1000, "tuning": 3000, "test": 3000},
        "CIFAR-10": {"calibration": 3000, "scaling": 1000, "tuning": 3000, "test": 3000},
    }
)
"""The paper's split table: rows of each part."""

TINY = "Tiny-ImageNet"
COVERAGE = {"ImageNet": 0.9, TINY: 0.9, "CIFAR-100": 0.9, "CIFAR-10": 0.96}
RUNS = {"ImageNet": 5, TINY: 5, "CIFAR-100": 10, "CIFAR-10": 10}
CLASSES = {"ImageNet": 1000, TINY: 1000, "CIFAR-100": 100, "CIFAR-10": 10}
TUNED_RUNS = 3


@dataclass(frozen=True)
class Network:
    """A trained network on a data set: its file of outputs, and the splits of its rows in each run."""

    dataset: str
    name: str
    file: str
    rows: int | None = 10_000  # None: as many as come
    parts: Mapping[str, int | float] = field(default_factory=dict)
    coverage: float = 0.9
    runs: int = 10
    tuned_runs: int = TUNED_RUNS
    note: str = ""  # what the reader of a table must know
    star: str = ""  # the mark of the note
    fetch: str = ""  # what to download where the file is not there
    images: str = ""  # folder of the images, in the order of the outputs

    @property
    def key(self) -> str:
        """A name for files, such as cifar-100-resnet-18."""
        return f"{self.dataset}-{self.name}".lower()


def _network(dataset: str, name: str, file: str, **more: object) -> Network:
    found = Network(dataset, name, file, None, PARTS.get(dataset, {}), COVERAGE[dataset], RUNS[dataset])
    return replace(found, **more)  # type: ignore[arg-type]


REDUCED = {
    "note": "representations reduced from 2,048 columns to 128 principal components, logits float16.",
    "star": "*",
}
SHIFTED = {
    "note": "an ImageNet ResNet-50 on 6,000 Tiny-ImageNet pictures of 64 x 64 pixels, enlarged, in place of the "
    "validation set, which could not be had: another task than the paper's. 200 of the 1,000 classes occur, the top "
    "label is right for 36 %, and the network is far too sure; which is why votes of the neighbors, chosen by "
    "*Tuned*, change so much. 600 calibration rows, 5 runs: coverages move by .01 to .02. Rows are cut in the "
    "paper's shares for ImageNet.",
    "star": "‡",
}
WEIGHTS = (
    "python -m experiments.imagenet_outputs IMAGENET_VAL {} makes it from the ImageNet validation pictures and the "
    "torchvision weights"
)
TRAINED = "python -m experiments.train_cifar IMAGES NETWORK makes it"
CIFAR10 = {"images": "cifar10", "rows": 10_000}
CIFAR100 = {"images": "cifar100", "rows": 10_000}


def _imagenet(name: str, model: str) -> Network:
    return _network("ImageNet", name, f"imagenet_{model}.npz", rows=50_000, fetch=WEIGHTS.format(model))


NETWORKS = (
    _imagenet("ResNet-152", "resnet152"),
    _imagenet("ResNet-101", "resnet101"),
    _imagenet("ResNet-50", "resnet50"),
    _imagenet("ResNet-18", "resnet18"),
    _imagenet("ResNeXt-101", "resnext101_32x8d"),
    _imagenet("DenseNet-161", "densenet161"),
    _imagenet("VGG-16", "vgg16"),
    _imagenet("Inception", "inception_v3"),
    _imagenet("ShuffleNet", "shufflenet_v2_x1_0"),
    _network("CIFAR-100", "ResNet-18", "cifar100_resnet18.npz", fetch=TRAINED, **CIFAR100),
    _network("CIFAR-100", "ResNet-50", "cifar100_resnet50_pca128.npz", fetch=TRAINED, **REDUCED, **CIFAR100),
    _network("CIFAR-100", "ResNet-101", "cifar100_resnet101_pca128.npz", fetch=TRAINED, **REDUCED, **CIFAR100),
    _network("CIFAR-10", "ResNet-18", "cifar10_resnet18.npz", fetch=TRAINED, **CIFAR10),
    _network("CIFAR-10", "ResNet-50", "cifar10_resnet50_pca128.npz", fetch=TRAINED, **REDUCED, **CIFAR10),
    _network("CIFAR-10", "ResNet-101", "cifar10_resnet101_pca128.npz", fetch=TRAINED, **REDUCED, **CIFAR10),
    _network(
        TINY, "ResNet-50", "imagenet_tiny_resnet50.npz", rows=6_000, **SHIFTED,
        parts={"calibration": 600, "scaling": 600, "tuning": 1800, "test": 3000},
    ),
)  # fmt: skip


@dataclass(frozen=True)
class TableSpec:
    """A regression table, and the split of the rows that its networks were not trained on."""

    record: RunRecord
    parts: Mapping[str, float] = field(
        default_factory=lambda: {"calibration": 1 / 3, "tuning": 1 / 3, "test": None}  # type: ignore[dict-item]
    )
    coverage: float = 0.9
    runs: int = 10

    @property
    def key(self) -> str:
        """A name for files, such as gas_turbine."""
        return self.record.name.lower().replace(" ", "_")

    @property
    def file(self) -> str:
        """The outputs of its networks."""
        return f"regression_{self.key}.npz"


@dataclass(frozen=True)
class Plan:
    """Everything that is run, as one value: the paper's experiments, or a small version that tries every step."""

    networks: tuple[Network, ...] = NETWORKS
    tables: tuple[TableSpec, ...] = tuple(TableSpec(record) for record in RECORDS)
    lists: ChoiceLists = field(default_factory=ChoiceLists)
    widths: tuple[float, ...] = (0.3, 1, 2, 3, 5, 10, 20, 50, 100, 500, 1000, 5000)
    drawn: int = 2000  # images in a t-SNE picture
    small: bool = False


def small_plan() -> Plan:
    """Return a plan over the same items with two runs, few candidates, and whatever rows the files hold."""
    shares = {"calibration": 0.3, "scaling": 0.1, "tuning": 0.3, "test": 0.3}
    networks = tuple(replace(one, rows=None, parts=shares, runs=2, tuned_runs=1) for one in NETWORKS)
    tables = tuple(TableSpec(record, runs=2) for record in RECORDS)
    lists = ChoiceLists(bandwidths=(10, 100), penalties=(0.01, 0.1), shares=(0.1, 0.3))
    return Plan(networks, tables, lists, widths=(1, 10, 100), drawn=150, small=True)
