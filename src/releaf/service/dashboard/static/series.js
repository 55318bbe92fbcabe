// Tiles and time-series charts of exploration, rewards and labels.
import { ActionCharts, FEW, key, markerLayers, named, place, wilson } from "./action-charts.js";
import { framed } from "./charts.js";
import { count, empty, command, curl, figure, fill, find, make, share, table } from "./dom.js";
import { Range } from "./ranges.js";
import { plausible } from "./context.js";

export function tiles({ counts, label_budget: budget, labels_spent: number, labels }) {
  if (!counts) return fill(find("tiles")); // another process has them
  const late = [
    counts.defaults ? `${count(counts.defaults)} by default` : null,
    counts.dropped ? `${count(counts.dropped)} dropped` : null,
  ];
  const asked = labels?.spent ?? number ?? counts.asked;
  const spent = budget ? `of ${count(budget)}` : "";
  const bar = budget ? make("progress", {
    max: budget, value: Math.min(asked, budget), className: asked >= budget ? "full" : "",
    "aria-label": "Labels spent of the budget",
  }) : null;
  const priced = labels && labels.price !== null ? `at a price of ${figure(labels.price)}` : "";
  const all = [
    ["Decisions", count(counts.decisions), "", ""],
    ["Exploration", share(counts.explored, counts.decisions), `${count(counts.explored)} explored`, ""],
    ["Mean reward", figure(counts.mean_reward), "", ""],
    ["Rewards", count(counts.rewards), late.filter(Boolean).join(", "), ""],
    ["Waiting", count(counts.waiting), counts.waiting ? "for their reward" : "", ""],
    ["Labels spent", count(asked), budget ? share(asked, budget) : "no budget set", spent, bar],
    ...(labels ? [["Gain of a label", figure(labels.gain), labels.text, priced, ""]] : []),
  ];
  fill(find("tiles"), all.map(([term, value, sub, beside, extra]) => make("div", { className: "tile" },
    make("dt", {}, term),
    make(
      "dd", {}, make("span", { className: "value" }, value, beside ? make("small", {}, ` ${beside}`) : null),
      extra, make("div", { className: "sub" }, sub),
    ))));
  return undefined;
}

const HEIGHT = 190;
const POINTS = 48; // of a chart: more are noise
const COUNTS = "datum.value < 10000 ? format(datum.value, ',') : format(datum.value, '~s')";
const TIMES = "timeFormat(datum.value, hours(datum.value) + minutes(datum.value) === 0 ? '%-d %b' : '%H:%M')";
const AXES = {
  decisions: {
    field: "x", type: "quantitative", title: "decisions", scale: { zero: false, nice: false },
    axis: { labelExpr: COUNTS, tickCount: 5, grid: false },
  },
  time: { field: "at", type: "temporal", title: null, axis: { labelExpr: TIMES, tickCount: 4, grid: false } },
};
const numbers = { type: "quantitative", title: null };
const told = (title, format) => [
  { field: "name", title: "decisions" },
  { field: "when", title: "until" },
  { field: "y", type: "quantitative", title, format },
];

export class Series {
  constructor(changed) {
    this.range = new Range(changed);
    this.actions = new ActionCharts(() => AXES[this.range.axis]);
    const line = (title, format, number, zero) => (colours, rows) => {
      const colour = colours.series[number];
      const x = AXES[this.range.axis];
      const y = { ...numbers, field: "y", scale: { zero }, axis: { format, tickCount: 5 } };
      const points = { mark: { type: "point", filled: true, color: colour, size: 30, opacity: this.few ? 0.55 : 0 } };
      const hasBand = rows.some(({ low }) => low !== null);
      const band = {
        mark: { type: "area", color: colour, opacity: 0.16 },
        encoding: { y: { ...y, field: "low" }, y2: { field: "high" }, tooltip: null },
      };
      const raw = { mark: { type: "line", color: colour, strokeWidth: 1, opacity: 0.35 } };
      const smooth = {
        mark: { type: "line", color: colour, strokeWidth: 2.5 }, encoding: { y: { ...y, field: "mean" } },
      };
      const all = { mark: { type: "tick", opacity: 0 }, encoding: { y: null, tooltip: null } }; // one x for all charts
      const near = { mark: { type: "point", size: 150, opacity: 0 } }; // larger than what is drawn, for the pointer
      return {
        height: HEIGHT,
        encoding: { x, y, tooltip: told(title, format === "~g" ? ".4~g" : ".1%") },
        layer: [all, ...(hasBand ? [band] : []), raw, smooth, points, near, ...markerLayers(this.markers, x, colours)],
      };
    };
    this.explored = framed("Exploration share", line("explored", ".0%", 0, true));
    this.rewarded = framed("Mean reward", line("mean reward", "~g", 2, false));
    this.labels = framed("Labels spent", (colours) => this.sumSpec(colours, "labels", ",d", this.budget));
    this.regret = framed("Regret", (colours) => this.sumSpec(colours, "regret", ".4~g"));
    this.markers = [];
    find("action-series").append(...this.actions.drawn.map(({ element }) => element));
    find("small-series").append(...[this.explored, this.rewarded, this.labels].map(({ element }) => element));
  }

  /** A sum that only grows, with the label budget as a limit. */
  sumSpec(colours, title, format, limit = null) {
    const x = AXES[this.range.axis];
    const layer = [
      { mark: { type: "area", color: colours.series[4], opacity: 0.12, interpolate: "step-after" } },
      { mark: { type: "line", color: colours.series[4], strokeWidth: 2, interpolate: "step-after" } },
      { mark: { type: "point", size: 120, opacity: 0 } },
    ];
    if (limit) {
      const budget = { values: [{ budget: limit, text: `budget ${count(limit)}` }] };
      const y = { field: "budget", type: "quantitative" };
      layer.push({
        data: budget, mark: { type: "rule", color: colours.warn, strokeDash: [5, 4], strokeWidth: 1.5 },
        encoding: { x: null, y, tooltip: null },
      });
      layer.push({
        data: budget, mark: { type: "text", align: "left", dx: 4, dy: -6, color: colours.warn, fontSize: 11 },
        encoding: { x: { value: 0 }, y, text: { field: "text" }, tooltip: null },
      });
    }
    return {
      height: HEIGHT,
      encoding: {
        x,
        y: { ...numbers, field: "y", scale: { zero: true }, axis: { labelExpr: COUNTS, tickCount: 5 } },
        tooltip: told(title, format),
      },
      layer: [...layer, ...markerLayers(this.markers, x, colours)],
    };
  }

  /** The parameters of a request for the points of the range. */
  query() {
    return new URLSearchParams({ ...this.range.query(), limit: POINTS });
  }

  draw(points, info, { markers }) {
    Object.assign(this, { budget: info.label_budget, few: points.length < FEW, markers });
    find("series").hidden = points.length === 0;
    fill(find("series-empty"), points.length ? null : nothingYet(info));
    fill(find("series-key"));
    if (!points.length) return;
    this.actions.draw(points, info, markers);
    fill(find("series-key"), key(this.actions.names, markers));
    const base = points.map((point) => ({ ...place(point), name: named(point), point }));
    let [asked, lost] = [0, 0];
    const rows = (value, bounds = () => [null, null]) => base.map(({ point, ...row }) => {
      const [low, high] = bounds(point);
      return { ...row, y: value(point), low, high };
    });
    const figures = (title, data, format) => () => table(
      title,
      [["Decisions", (row) => row.name], ["Until", (row) => row.when], [title, (row) => format(row.y), "n"]],
      data.toReversed(),
    );
    const explored = smoothed(
      rows(
        ({ explored: some, decisions }) => some / decisions,
        ({ explored: some, decisions }) => wilson(some, decisions),
      ), points.map(({ decisions }) => decisions),
    );
    const rewarded = smoothed(
      rows(({ reward_sum: sum, rewards }) => (rewards ? sum / rewards : null), ({ low, high }) => [low, high]),
      points.map(({ rewards }) => rewards),
    );
    const known = rewarded.filter(({ y }) => y !== null);
    const labels = rows((point) => (asked += point.asked));
    this.explored.draw(explored, figures("Exploration share", explored, (y) => share(y, 1)));
    const [drawn, hint] = known.length ? [rewarded, "95 % interval"] : [[], "no rewards yet"];
    this.rewarded.draw(drawn, figures("Mean reward", known, figure), hint);
    this.labels.draw(labels, figures("Labels spent", labels, count), this.budget ? "against the budget" : "");
    if (!points.some(({ regret }) => regret !== null)) return this.regret.element.remove();
    const regret = rows((point) => (lost += point.regret ?? 0));
    if (!this.regret.element.isConnected) find("small-series").append(this.regret.element);
    this.regret.draw(regret, figures("Regret", regret, figure), "against the best action of each decision");
    return undefined;
  }
}

/** Add a weighted moving average: single points are noisy. */
function smoothed(rows, weights) {
  const width = Math.max(3, Math.round(rows.length / 10));
  return rows.map((row, place) => {
    let sum = 0;
    let weight = 0;
    for (let near = Math.max(0, place - width + 1); near <= place; near += 1) {
      sum += (rows[near].y ?? 0) * weights[near];
      weight += weights[near];
    }
    return { ...row, mean: weight && row.y !== null ? sum / weight : null };
  });
}

function nothingYet({ name, features, status, counts }) {
  if (counts?.decisions) return empty("No decisions in this range", "Choose a longer range above.");
  if (status === "retired") return empty("No decisions were taken", "The experiment was retired before the first one.");
  return empty("No decisions yet",
    "Try a context below, or ask for the first decision from a terminal; charts appear by themselves.",
    command(curl(`/v1/experiments/${encodeURIComponent(name)}/decide`, { context: plausible(features) })));
}
