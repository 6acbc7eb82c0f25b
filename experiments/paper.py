"""The numbers that the paper prints, table by table: the mean with its standard deviation, or the mean alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Number(NamedTuple):
    """A number as printed and as a value."""

    text: str
    mean: float

    @classmethod
    def read(cls, cell: str) -> Number:
        """Read a number with or without a deviation in brackets.

        Examples
        --------
        >>> Number.read("2.12(.007)")
        Number(text='2.12 (.007)', mean=2.12)
        """
        return cls(cell.replace("(", " ("), float(cell.split("(", maxsplit=1)[0]))


Columns = Mapping[str, Number]
Key = tuple[str, str]  # data set, network

SETS = ("Naive", "APS", "RAPS", "NCP(APS)", "NCP(RAPS)")


def _rows(dataset: str, text: str, columns: tuple[str, ...]) -> dict[Key, Columns]:
    """Read lines of a name and numbers, each with or without its deviation in brackets."""
    found: dict[Key, Columns] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, *cells = line.split()
        found[dataset, name] = dict(zip(columns, map(Number.read, cells), strict=True))
    return found


SIZES: Mapping[Key, Columns] = {
    **_rows("ImageNet", """
        ResNet-152   10.55(.548) 11.34(.843) 2.53(.054) 5.24(.312) 2.12(.007)
        ResNet-101   10.85(.588) 11.36(.615) 2.63(.08) 5.60(.278) 2.25(.098)
        ResNet-50    12.00(.530) 13.24(.892) 2.94(.089) 6.44(.381) 2.54(.091)
        ResNet-18    16.13(.642) 17.05(1.100) 5.00(.220) 11.08(.598) 4.71(.251)
        ResNeXt-101  18.57(1.05) 20.57(1.10) 2.36(.069) 8.24(.388) 2.01(.060)
        DenseNet-161 11.70(.730) 12.86(1.21) 2.67(.074) 5.89(.447) 2.29(.103)
        VGG-16       13.91(.867) 14.10(.486) 3.97(.098) 8.56(.382) 3.62(.106)
        Inception    77.51(3.78) 90.28(4.16) 5.96(.373) 66.29(2.83) 5.67(.178)
        ShuffleNet   30.33(1.64) 34.31(2.10) 5.53(.070) 22.36(1.37) 5.49(.131)
    """, SETS),
    **_rows("CIFAR-100", """
        ResNet-18  5.07(.327) 5.57(.224) 3.17(.076) 3.61(.164) 2.77(.100)
        ResNet-50  8.21(.746) 8.02(.405) 3.37(.189) 4.26(.233) 2.96(.213)
        ResNet-101 4.44(.348) 4.64(.184) 2.60(.066) 2.80(.188) 2.19(.073)
    """, SETS),
    **_rows("CIFAR-10", """
        ResNet-18  1.20(.016) 1.25(.021) 1.24(.014) 1.07(.013) 1.06(.012)
        ResNet-50  1.15(.013) 1.19(.021) 1.17(.011) 1.05(.010) 1.04(.005)
        ResNet-101 1.17(.017) 1.20(.018) 1.19(.017) 1.04(.008) 1.03(.007)
    """, SETS),
}  # fmt: skip

COVERAGES: Mapping[Key, Columns] = {
    **_rows("ImageNet", """
        ResNet-152   .937(.002) .940(.003) .922(.003) .905(.005) .904(.007)
        ResNet-101   .936(.002) .938(.002) .919(.003) .903(.004) .905(.008)
        ResNet-50    .934(.001) .938(.003) .918(.004) .902(.005) .904(.007)
        ResNet-18    .925(.003) .928(.004) .910(.003) .901(.006) .903(.006)
        ResNeXt-101  .935(.001) .939(.002) .920(.003) .905(.003) .903(.006)
        DenseNet-161 .934(.001) .937(.003) .919(.003) .902(.007) .904(.007)
        VGG-16       .929(.003) .930(.003) .912(.003) .906(.004) .904(.004)
        Inception    .919(.002) .927(.004) .909(.004) .910(.003) .905(.003)
        ShuffleNet   .927(.003) .932(.004) .907(.002) .911(.005) .907(.003)
    """, SETS),
    **_rows("CIFAR-100", """
        ResNet-18  .931(.005) .938(.004) .925(.003) .908(.007) .909(.006)
        ResNet-50  .947(.006) .944(.005) .919(.004) .906(.008) .906(.011)
        ResNet-101 .940(.005) .944(.004) .926(.004) .907(.008) .907(.006)
    """, SETS),
    **_rows("CIFAR-10", """
        ResNet-18  .979(.002) .982(.002) .982(.002) .962(.005) .961(.004)
        ResNet-50  .981(.003) .984(.003) .984(.003) .965(.003) .963(.003)
        ResNet-101 .983(.002) .986(.002) .985(.003) .966(.002) .964(.002)
    """, SETS),
}  # fmt: skip

ALL = ("NCP-All size", "NCP size", "NCP-All coverage", "NCP coverage")
NEIGHBORS_ALL: Mapping[Key, Columns] = {
    **_rows("ImageNet", """
        ResNet-18  11.82 11.08 .905 .901
        ResNet-50  9.24 6.44 .921 .902
        ResNet-101 7.90 5.60 .920 .903
    """, ALL),
    **_rows("CIFAR-100", """
        ResNet-18  4.87 3.61 .928 .908
        ResNet-50  7.45 4.26 .939 .906
        ResNet-101 4.17 2.80 .936 .907
    """, ALL),
    **_rows("CIFAR-10", """
        ResNet-18  1.22 1.07 .980 .962
        ResNet-50  1.16 1.05 .982 .965
        ResNet-101 1.18 1.04 .983 .966
    """, ALL),
}  # fmt: skip

SHARES: Mapping[Key, float] = {
    ("ImageNet", "ResNet-152"): 28.0, ("ImageNet", "ResNet-101"): 33.2, ("ImageNet", "ResNet-50"): 12.8,
    ("ImageNet", "ResNet-18"): 24.8, ("ImageNet", "ResNeXt-101"): 30.0, ("ImageNet", "DenseNet-161"): 15.6,
    ("ImageNet", "VGG-16"): 46.0, ("ImageNet", "Inception"): 30.0, ("ImageNet", "ShuffleNet"): 24.0,
    ("CIFAR-100", "ResNet-18"): 12.3, ("CIFAR-100", "ResNet-50"): 8.3, ("CIFAR-100", "ResNet-101"): 12.0,
    ("CIFAR-10", "ResNet-18"): 9.0, ("CIFAR-10", "ResNet-50"): 15.0, ("CIFAR-10", "ResNet-101"): 13.0,
}  # fmt: skip
"""Percent of the calibration rows that NCP(APS) takes for neighbors."""

SILHOUETTES: Mapping[Key, tuple[float, float]] = {
    ("ImageNet", "ResNeXt-101"): (-0.379, 0.076), ("ImageNet", "ResNet-152"): (-0.510, 0.052),
    ("ImageNet", "ResNet-101"): (-0.477, 0.045), ("ImageNet", "ResNet-50"): (-0.444, 0.034),
    ("ImageNet", "ResNet-18"): (-0.372, 0.001), ("ImageNet", "DenseNet-161"): (-0.336, 0.021),
    ("ImageNet", "VGG-16"): (-0.183, 0.012), ("ImageNet", "Inception"): (-0.483, 0.060),
    ("ImageNet", "ShuffleNet"): (-0.346, -0.003),
}  # fmt: skip
"""Silhouettes of raw data and of representations."""

TIMES = ("Inference", "RAPS", "NCP(RAPS)", "NCP(RAPS) with LSH")
SECONDS: Mapping[Key, Columns] = {
    **_rows("ImageNet", """
        ResNet-152   1.215 1.043 1.154 1.046
        ResNet-101   1.106 1.022 1.188 1.037
        ResNet-50    1.013 1.062 1.162 1.071
        ResNet-18    .963 1.019 1.171 1.028
        ResNeXt-101  1.748 1.070 1.121 1.071
        DenseNet-161 1.690 1.030 1.065 1.044
        VGG-16       1.109 1.027 1.153 1.046
        Inception    1.434 1.050 1.178 1.051
        ShuffleNet   .914 1.042 1.101 1.043
    """, TIMES),
    **_rows("CIFAR-100", """
        ResNet-18  .039 .331 .388 .332
        ResNet-50  .143 .333 .367 .336
        ResNet-101 .248 .330 .361 .331
    """, TIMES),
    **_rows("CIFAR-10", """
        ResNet-18  .049 .291 .311 .292
        ResNet-50  .119 .295 .311 .298
        ResNet-101 .162 .298 .313 .311
    """, TIMES),
}  # fmt: skip

REGRESSION = ("CP length", "NCP length", "CP coverage", "NCP coverage")
INTERVALS: Mapping[Key, Columns] = _rows("regression", """
    BlogFeedback 44.79(2.78) 18.97(2.42) .952 .909
    Gas_turbine  16.69(1.47) 12.94(1.11) .957 .911
    Facebook_1   50.96(5.72) 21.89(7.27) .951 .912
    Facebook_2   44.12(3.85) 21.28(6.55) .951 .917
    Facebook_3   46.98(4.01) 39.73(9.59) .950 .941
    Facebook_4   46.78(5.35) 34.01(11.76) .952 .928
    Facebook_5   45.35(.65)  43.73(5.55) .949 .946
    MEPS_19      54.99(2.64) 35.63(2.54) .948 .916
    MEPS_20      48.85(2.22) 33.85(3.53) .953 .923
    MEPS_21      61.46(7.49) 36.01(5.10) .948 .914
    Concrete     59.27(.23)  50.42(.62) .973 .910
""", REGRESSION)  # fmt: skip


def interval(name: str) -> Columns:
    """Return the paper's numbers of a regression table.

    Examples
    --------
    >>> interval("Gas turbine")["CP length"].text
    '16.69 (1.47)'
    """
    return INTERVALS["regression", name.replace(" ", "_")]
