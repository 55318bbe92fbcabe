"""Draw the pictures of the documentation from learners that run.

python tools/make_doc_pictures.py [FOLDER]

Each is a small SVG with a clear background, readable on light pages; dark ones turn it (docs/_static/pages.css).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import altair
import measured_pictures
import numpy as np
import vl_convert

import releaf
from releaf import evaluate, streams

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "pictures"
sys.path.append(str(ROOT / "tests" / "support"))
from plain_releaf import PlainReleaf  # noqa: E402  (the algorithm in plain Python, which shows its cells)

BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#767676"
WIDTH = 620
FONT = "Arial, Helvetica, Liberation Sans, sans-serif"  # of equal widths, by which labels are placed


def partition() -> Any:
    """One feature's intervals at some steps, for contexts that mostly arrive around 0.3."""
    generator = np.random.default_rng(0)
    values = np.clip(generator.normal(0.3, 0.08, 30_000), 0, 1)
    contexts = np.column_stack([values, generator.random(30_000)])
    bandit = releaf.Releaf(actions=2, features=2, seed=0, rho=2.75)
    rows, done = [], 0
    for step in (1, 10, 100, 1_000, 10_000, 30_000):
        releaf.replay(bandit, contexts[done:step], np.full((step - done, 2), 0.5))
        done = step
        rows += [
            {"step": f"{step:,}", "low": part.low, "high": part.high, "level": part.level}
            for part in bandit.partition(0)
        ]
    names = list(dict.fromkeys(row["step"] for row in rows))
    bars = (
        altair.Chart(altair.Data(values=rows))
        .mark_bar(height=22, stroke="white", strokeWidth=1.2)
        .encode(
            x=altair.X("low:Q", title="value of the feature", scale=altair.Scale(domain=[0, 1])),
            x2="high:Q",
            y=altair.Y("step:N", sort=names, title="after so many contexts"),
            color=altair.Color("level:O", title="level", scale=altair.Scale(scheme="teals")),
        )
        .properties(width=WIDTH - 60, height=190)
    )
    counts, edges = np.histogram(values, 60, (0, 1))
    arrivals = [{"x": x, "n": int(n)} for x, n in zip(edges[:-1] + 1 / 120, counts, strict=True)]
    density = (
        altair.Chart(altair.Data(values=arrivals))
        .mark_area(color=GREY, opacity=0.35, interpolate="monotone")
        .encode(
            x=altair.X("x:Q", title=None, axis=None, scale=altair.Scale(domain=[0, 1])),
            y=altair.Y("n:Q", title="contexts", axis=altair.Axis(labels=False, ticks=False, grid=False)),
        )
        .properties(width=WIDTH - 60, height=60)
    )
    return altair.vconcat(density, bars, spacing=4)


def pairs() -> Any:
    """The means of all pairs that hold a feature, in one context's cells: they agree where it is the relevant one."""
    names, relevant, shown = ("age", "dose", "weight", "hour"), 1, []
    generator = np.random.default_rng(2)
    twin = PlainReleaf(features=4, actions=1, control_divisor=500.0, lipschitz=1.0)
    for step in range(3_000):
        context = [0.9, 0.8, 0.3, 0.6] if step == 2_999 else generator.random(4).tolist()
        twin.arrive(context)
        twin.observe(context, 0, 0.1 + 0.8 * context[relevant] + generator.uniform(-0.1, 0.1))
    intervals = twin.locate([0.9, 0.8, 0.3, 0.6])
    for i, name in enumerate(names):
        means = {w: twin.mean(w, intervals, 0) for w in twin.all_w if i in w}
        spread = max(means.values()) - min(means.values())
        for w, mean in means.items():
            other = names[w[0] if w[1] == i else w[1]]
            shown.append({"feature": name, "with": other, "mean": mean, "relevant": i == relevant})
        shown[-1] |= {"low": min(means.values()), "high": max(means.values()), "note": f"they differ by {spread:.2f}"}
    base = altair.Chart(altair.Data(values=shown)).encode(
        y=altair.Y("feature:N", sort=list(names), title=None, axis=altair.Axis(labelFontSize=13)),
        color=altair.condition("datum.relevant", altair.value(ORANGE), altair.value(GREY)),
    )
    scale = altair.Scale(domain=[0, 1])
    widest = base.transform_filter("isValid(datum.note)")
    bars = widest.mark_rule(strokeWidth=7, opacity=0.3).encode(x=altair.X("low:Q", scale=scale), x2="high:Q")
    dots = base.mark_circle(size=90, opacity=1).encode(
        x=altair.X("mean:Q", scale=scale, title="mean reward in the cells of its pairs with each other feature")
    )
    notes = widest.mark_text(align="right", dx=-14, fontSize=12).encode(x="low:Q", text="note:N")
    return (bars + dots + notes).properties(width=WIDTH - 70, height=170)


def exploring() -> Any:
    """How often RELEAF explores, and how often it errs while it exploits, over time."""
    cases = streams.breast_cancer(steps=50_000)
    trace = releaf.replay(releaf.Releaf(cases.actions, cases.features, seed=0), cases.contexts, cases.rewards)
    edges = np.unique(np.geomspace(50, len(trace), 18).astype(int))
    rows = []
    for begin, end in pairwise(edges.tolist()):
        part = slice(begin, end)
        exploited = ~trace.explored[part]
        middle = float(np.sqrt(begin * end))
        rows.append({"step": middle, "share": trace.explored[part].mean(), "what": "explores, and asks for the reward"})
        if exploited.sum() >= 10:
            wrong = 1 - trace.rewards[part][exploited].mean()
            rows.append({"step": middle, "share": wrong, "what": "is wrong while it exploits"})
    return (
        altair.Chart(altair.Data(values=rows))
        .mark_line(strokeWidth=2.5, interpolate="monotone")
        .encode(
            x=altair.X("step:Q", title="decisions so far", scale=altair.Scale(type="log"), axis=_decades()),
            y=altair.Y("share:Q", title="share of decisions", axis=altair.Axis(format="%")),
            color=altair.Color("what:N", title=None, scale=altair.Scale(range=[BLUE, ORANGE])),
        )
        .properties(width=WIDTH - 60, height=230)
    )


def _decades() -> Any:
    return altair.Axis(values=[100, 1_000, 10_000], format=",d")


def tables() -> Any:
    """One action's estimate, feature by feature, with its 95 % interval and the truth, after 100 and 3,000 rewards."""
    generator = np.random.default_rng(4)
    contexts = generator.random((3_000, 3))
    rewards = (generator.random((3_000, 1)) < _truth(contexts)[:, None]).astype(float)
    bandit = releaf.AdaptiveReleaf(actions=["treat"], features=["age", "dose", "hour"], seed=0)
    grid, panels, done = np.linspace(0, 1, 41), [], 0
    for count in (100, 3_000):
        releaf.replay(bandit, contexts[done:count], rewards[done:count])
        done, row = count, []
        for place, name in enumerate(bandit.schema.names):
            points = np.full((len(grid), 3), 0.5)
            points[:, place] = grid
            values = [
                {"x": float(point[place]), "truth": truth, **_believed(bandit, point)}
                for point, truth in zip(points, _truth(points).tolist(), strict=True)
            ]
            row.append(_panel(values, name, f"after {count:,} rewards" if place == 0 else None))
        panels.append(altair.hconcat(*row, spacing=14))
    return altair.vconcat(*panels, spacing=14)


def _believed(bandit: Any, context: Any) -> dict[str, float]:
    """The only action's estimate, and its 95 % interval."""
    (known,) = bandit.explain(context).actions
    return {"mean": known.estimate, "low": known.low, "high": known.high}


def waterfall() -> Any:
    """From the base rate of a deal to its estimate for a young visitor in the morning."""
    generator, rows = np.random.default_rng(0), 20_000
    hour, age, noise = generator.uniform(0, 24, rows), generator.uniform(18, 80, rows), generator.random(rows)
    likes = np.column_stack([0.05 + 0.2 * ((hour > 17) & (hour < 22)), 0.1 + 0.25 * ((hour < 12) & (age < 40))])
    taken = generator.integers(0, 2, rows)
    clicks = (generator.random(rows) < likes[np.arange(rows), taken]).astype(float)
    schema = {"hour": releaf.Continuous(0, 24), "age": releaf.Continuous(18, 80), "noise": releaf.Continuous()}
    bandit = releaf.AdaptiveReleaf(["news", "deal"], releaf.Schema(schema), seed=0)
    bandit.learn_log(np.column_stack([hour, age, noise]), np.array(["news", "deal"])[taken], clicks)
    return bandit.explain([9.0, 25.0, 0.5]).plot("deal").properties(width=WIDTH - 240)


def _truth(contexts: Any) -> Any:
    """A reward that rises and falls with age, grows with the dose, and does not depend on the hour."""
    age, dose = contexts[:, 0], contexts[:, 1]
    return 0.1 + 0.4 * np.sin(np.pi * age) + 0.4 * dose**2


def _panel(values: list[dict[str, float]], name: str, title: str | None) -> Any:
    base = altair.Chart(altair.Data(values=values)).encode(x=altair.X("x:Q", title=name))
    scale = altair.Scale(domain=[0, 1])
    band = base.mark_area(color=BLUE, opacity=0.18).encode(y=altair.Y("low:Q", scale=scale, title=title), y2="high:Q")
    line = base.mark_line(color=BLUE, strokeWidth=2.5).encode(y=altair.Y("mean:Q", scale=scale))
    truth = base.mark_line(color=GREY, strokeDash=[4, 4], strokeWidth=1.5).encode(y=altair.Y("truth:Q", scale=scale))
    return (band + truth + line).properties(width=165, height=120)


def _visits() -> tuple[Any, Any]:
    """The log of docs/how-to/off-policy-evaluation.md, and the decisions of a policy trained on its first half."""
    stream = streams.clicks(20_000)
    chances = np.exp(3.0 * stream.contexts)
    log = evaluate.sample_log(stream, chances / chances.sum(axis=1, keepdims=True))
    first, second = evaluate.halves(log)
    policy = releaf.AdaptiveReleaf(log.actions, log.features, seed=0)
    policy.learn_log(first.contexts, [log.actions[index] for index in first.taken], first.rewards)
    return second, evaluate.choices(policy, second)


def weights() -> Any:
    """Share of the weight that the heaviest rows of a log carry, for two policies."""
    log, chosen = _visits()
    return releaf.plot.weights(log, {"AdaptiveReleaf": chosen, "always article a": np.zeros(len(log), dtype=int)})


def overlap() -> Any:
    """Estimated propensities of the rows that took each action, and of those in which a policy would."""
    log, chosen = _visits()
    return releaf.plot.overlap(evaluate.estimate_propensities(replace(log, probabilities=None)), chosen)


def readme() -> Any:
    """What the README's example prints: the relevance of all features, and the way to the estimate of one action."""
    page, scope = (ROOT / "README.md").read_text(encoding="utf-8"), dict[str, Any]()
    example = page.partition("```python\n")[2].partition("bandit.learn(decision")[0]
    with redirect_stdout(StringIO()):
        exec(example, scope)  # noqa: S102 - our own example
    why = scope["bandit"].explain(scope["decision"])
    drawn = {
        "Which features matter to which action": releaf.plot.relevance(scope["bandit"]),
        f"Why {why.action}, for one visitor": why.plot().properties(width=300),
    }
    titled = [
        _plain(chart).properties(title=altair.TitleParams(title, anchor="start", fontSize=14, offset=14))
        for title, chart in drawn.items()
    ]
    return altair.hconcat(*titled, spacing=56).resolve_scale(color="independent").properties(background="white")


def routing() -> Any:
    """Quality of answers against spend, as the tutorial on routing prompts measures them."""
    page, scope = (ROOT / "docs" / "tutorials" / "routing-prompts.md").read_text(encoding="utf-8"), dict[str, Any]()
    measured = page.partition("## See what goes where")[0]
    with redirect_stdout(StringIO()):
        for block in re.findall(r"^```python\n(.*?)^```", measured, flags=re.DOTALL | re.MULTILINE):
            exec(block, scope)  # noqa: S102 - our own example
    points = scope["points"]
    ends = [point for point in points if point["router"].startswith("always")]
    lines = [point for point in points if point not in ends]
    x = altair.X("spend:Q", title="dollars per 1,000 prompts", scale=altair.Scale(domain=[0, 20]))
    y = altair.Y("quality:Q", title="mean quality of the answers", scale=altair.Scale(domain=[0.4, 1.0]))
    names = list(dict.fromkeys(point["router"] for point in lines))
    colours = altair.Scale(domain=names, range=[BLUE, ORANGE, GREY])
    curves = (
        altair.Chart(altair.Data(values=lines))
        .mark_line(point=altair.OverlayMarkDef(size=45), strokeWidth=2.5)
        .encode(x=x, y=y, color=altair.Color("router:N", title=None, sort=names, scale=colours))
    )
    base = altair.Chart(altair.Data(values=ends)).encode(x=x, y=y)
    mixed = base.mark_line(color=GREY, strokeDash=[4, 4], strokeWidth=1.5)
    labels = base.mark_text(dy=18, dx=22, fontSize=12).encode(text="router:N")
    return (mixed + curves + base.mark_circle(color=GREY, size=90) + labels).properties(width=WIDTH - 60, height=280)


def _plain(drawn: Any) -> Any:
    """A chart without a style of its own, to be part of another one."""
    part = drawn.copy()
    part.config = altair.Undefined
    return part


DRAWN: dict[str, Callable[[], Any]] = {
    "readme": readme,
    "partition": partition,
    "pairs": pairs,
    "exploring": exploring,
    "tables": tables,
    "waterfall": waterfall,
    "weights": weights,
    "overlap": overlap,
    "routing": routing,
    "bound": measured_pictures.bound,
    "coverage": measured_pictures.coverage,
}


def svg(drawn: Any) -> str:
    styled = drawn.configure(
        background="transparent",
        font=FONT,
        padding={"left": 36, "right": 12, "top": 5, "bottom": 5},  # for fonts that are wider
        axis=altair.AxisConfig(labelFontSize=12, titleFontSize=13, titleFontWeight="normal", gridColor="#dddddd"),
        legend=altair.LegendConfig(
            labelFontSize=12, titleFontSize=12, orient="bottom", labelLimit=300, columnPadding=40
        ),
        view=altair.ViewConfig(stroke=None),
    )
    return str(vl_convert.vegalite_to_svg(styled.to_dict()))


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURES
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in DRAWN.items():
        path = folder / f"{name}.svg"
        path.write_text(svg(draw()) + "\n", encoding="utf-8")
        print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
