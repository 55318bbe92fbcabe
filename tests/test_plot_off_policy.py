"""Charts of off-policy evaluation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from planted_logs import PlantedLog, planted_log

from releaf import evaluate, plot

pytest.importorskip("altair")


@pytest.fixture(scope="module")
def planted() -> PlantedLog:
    return planted_log(1_500, 0, strength=3.0)


@pytest.fixture(scope="module")
def estimated(planted: PlantedLog) -> evaluate.Propensities:
    pytest.importorskip("sklearn")
    return evaluate.estimate_propensities(replace(planted.log, probabilities=None))


def values(chart: Any, layer: int | None = None) -> list[dict[str, Any]]:
    found = chart.to_dict()
    part = found if layer is None else found["layer"][layer]
    return part["data"]["values"]  # type: ignore[no-any-return]


def test_weights_rise_to_one_and_are_named_with_their_effective_rows(planted: PlantedLog) -> None:
    chart = plot.weights(planted.log, {"ours": planted.chosen, "first": np.zeros(1_500, dtype=int)})
    rows = values(chart, 1)
    assert {row["series"].split(":")[0] for row in rows} == {"ours", "first"}
    ours = [row for row in rows if row["series"].startswith("ours")]
    assert f"{evaluate.effective_rows(planted.log, planted.chosen):,.0f} effective rows" in ours[0]["series"]
    assert (ours[0]["y"], ours[-1]["y"]) == (0.0, pytest.approx(1.0))
    weights = np.sort(evaluate.importance_weights(planted.log, planted.chosen))[::-1]
    middle = ours[len(ours) // 2]
    assert middle["y"] == pytest.approx(weights[: round(middle["x"] * 1_500)].sum() / weights.sum())


def test_overlap_counts_every_row_once(planted: PlantedLog, estimated: evaluate.Propensities) -> None:
    chart = plot.overlap(estimated, planted.chosen).to_dict()
    assert [part["title"] for part in chart["concat"]] == ["a", "b", "c"]
    for series, total in (("logged", 1_500), ("policy", 1_500)):
        counts = [row["rows"] for part in chart["concat"] for row in part["data"]["values"] if row["series"] == series]
        assert sum(counts) == total
    assert plot.overlap(planted.log, planted.chosen)
    with pytest.raises(ValueError, match="the log has no probabilities"):
        plot.overlap(replace(planted.log, probabilities=None))


def test_all_charts_are_saved(planted: PlantedLog, estimated: evaluate.Propensities, tmp_path: Path) -> None:
    bounds = evaluate.sensitivity(planted.log, planted.chosen)
    drawn = {
        "weights": plot.weights(planted.log, planted.chosen),
        "overlap": plot.overlap(estimated, planted.chosen),
        "calibration": plot.calibration(estimated),
        "sensitivity": plot.sensitivity(bounds, float(planted.log.rewards.mean())),
        "estimates": plot.estimates({"ours": evaluate.estimate_all(planted.log, planted.chosen)}),
    }
    for name, chart in drawn.items():
        chart.save(str(tmp_path / f"{name}.png"))
        assert (tmp_path / f"{name}.png").stat().st_size > 5_000
    assert len(values(drawn["sensitivity"], 0)) == len(bounds)
