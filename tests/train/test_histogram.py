"""Numbers on a grid of their own leading bits: the same bins in any order and parts, and what they say of ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from releaf.train import histogram
from releaf.train.histogram import KeyHistogram

Array = np.ndarray[Any, np.dtype[Any]]
FLOATS = st.lists(
    st.one_of(
        st.floats(allow_nan=False, allow_infinity=False),
        st.integers(-20, 20).map(float),
        st.floats(1e6, 1e6 + 1e-3),
        st.sampled_from([0.0, -0.0, 5e-324, 1e308]),
    ),
    min_size=1,
    max_size=80,
)


def counted(parts: list[Array]) -> KeyHistogram:
    bins = histogram.EMPTY
    for part in parts:
        bins = histogram.merge(bins, histogram.histogram_of(histogram.keys_of(part)))
    return bins


def refined(parts: list[Array]) -> KeyHistogram:
    bins = counted(parts)
    while heavy := histogram.heavy_ranges(bins):
        finer = histogram.EMPTY
        for part in parts:
            finer = histogram.merge(finer, histogram.histogram_of(histogram.keys_of(part), heavy))
        assert finer.shift < bins.shift
        bins = histogram.refine(bins, finer)
    return bins


def in_plain_python(values: list[float], most: int) -> tuple[int, list[tuple[int, int, int]]]:
    """The bins of the longest common beginnings that leave no more than so many of them."""
    keys = sorted(histogram.keys_of(np.array(values)).tolist())
    shift = next(shift for shift in range(65) if len({key >> shift for key in keys}) <= most)
    bins: dict[int, list[int]] = {}
    for key in keys:
        bins.setdefault(key >> shift, []).append(key)
    return shift, [(min(own), max(own), len(own)) for own in bins.values()]


def test_keys_are_in_the_order_of_the_numbers() -> None:
    values = np.array([-np.inf, -1e308, -2.0, -5e-324, -0.0, 0.0, 5e-324, 1.0, np.nextafter(1.0, 2.0), np.inf])
    keys = histogram.keys_of(values)
    assert (np.diff(keys.astype(object)) > 0).tolist() == (np.diff(values) > 0).tolist()
    assert histogram.values_of(keys).tolist() == values.tolist()
    assert not np.signbit(histogram.values_of(keys)[4])
    assert not len(histogram.keys_of(np.array([np.nan])))


@settings(deadline=None)
@given(values=FLOATS, most=st.integers(2, 12), seed=st.integers(0, 99), parts=st.integers(1, 6))
def test_cells_are_those_of_plain_python_in_any_order_and_parts(
    values: list[float], most: int, seed: int, parts: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(histogram, "MAX_BINS", most)
        mixed = np.random.default_rng(seed).permutation(values)
        bins = counted(np.array_split(mixed, parts))
    shift, expected = in_plain_python(values, most)
    assert bins.shift == shift
    assert list(zip(bins.lows.tolist(), bins.highs.tolist(), bins.counts.tolist(), strict=True)) == expected


@settings(deadline=None)
@given(values=FLOATS, seed=st.integers(0, 99), parts=st.integers(1, 6))
def test_no_bin_stays_heavy(values: list[float], seed: int, parts: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(histogram, "MAX_BINS", 8)
        patch.setattr(histogram, "HEAVY_FRACTION", 4)
        mixed = np.random.default_rng(seed).permutation(values)
        bins, straight = refined(np.array_split(mixed, parts)), refined([np.array(values)])
    assert all(np.array_equal(one, other) for one, other in zip(bins[:3], straight[:3], strict=True))
    assert bins.counts.sum() == len(values)
    assert (bins.lows[1:] > bins.highs[:-1]).all()
    alone = bins.lows == bins.highs
    assert (alone | (4 * bins.counts <= len(values))).all()
    for key, count in zip(bins.lows[alone], bins.counts[alone], strict=True):
        assert count == (np.array(values) == histogram.values_of(np.array([key]))[0]).sum()


def test_a_sketch_of_nothing_and_of_few() -> None:
    assert histogram.to_quantile_sketch(histogram.EMPTY, 512).tolist() == [0, 0, 0, 0]
    few = histogram.to_quantile_sketch(counted([np.array([2.0, 1.0, 2.0])]), 512)
    assert few.tolist() == [3, 0, 0, 3, 1, 2, 2, 1, 2, 2]
