// Partition of a feature: contexts and rewards of each interval, or effects of its values.
import { address, get } from "./api.js";
import { framed, scale } from "./charts.js";
import { count, empty, figure, fill, find, make, table } from "./dom.js";

const HEIGHT = 200;
const MOST_SERIES = 8;

export class Partition {
  constructor(info, choose) {
    this.info = info;
    this.select = make("select", { id: "feature" });
    this.select.addEventListener("change", () => choose(this.select.value));
    this.content = make("div", { "aria-live": "polite" });
    this.arrivals = framed("Arrivals", (colours) => this.arrivalSpec(colours));
    this.earned = framed("Mean reward in each interval", (colours, rows) => this.meanSpec(colours, rows));
    this.effects = framed("What a value adds to the estimate", (colours, rows) => this.effectSpec(colours, rows));
    fill(find("drill"), make("div", { className: "drill" },
      make("div", { className: "inline" }, make(
        "div", {}, make("label", { htmlFor: "feature" }, "Feature in detail"), this.select,
      )), this.content));
  }

  offer(features, chosen) {
    if (this.offered === features.join("\n")) return;
    this.offered = features.join("\n");
    const none = make("option", { value: "", disabled: true, selected: !chosen }, "choose a feature …");
    fill(this.select, none, features.map((feature) => make(
      "option", { value: feature, selected: feature === chosen }, feature,
    )));
  }

  async show(feature, action) {
    Object.assign(this, { feature, action, drawn: null });
    this.select.value = feature;
    await this.refresh(this.info);
  }

  async refresh(info) {
    this.info = info;
    if (!this.feature) return;
    const { feature } = this;
    const asked = get(address(info.name, "partition", feature));
    const found = await asked.catch((problem) => ({ problem: problem.message }));
    const text = JSON.stringify([found, this.action]);
    if (feature !== this.feature || text === this.drawn) return;
    this.drawn = text;
    if (found.problem) fill(this.content, make("p", { className: "error" }, found.problem));
    else this.draw(found);
  }

  draw({ feature, kind, intervals }) {
    if (kind === "none" || !intervals.length) {
      this.layout = null;
      fill(this.content, empty(
        `${feature} is not divided`,
        kind === "none" ? "This policy does not divide its features." : "Its intervals show when contexts have come.",
      ));
      return;
    }
    this.order = intervals.map(({ where }) => where);
    this.names = this.shownActions(intervals);
    const parts = kind === "effects" ? [this.effects] : [this.arrivals, this.earned];
    if (this.layout !== kind) fill(this.content, make(
      "div", { className: "charts" }, parts.map(({ element }) => element),
    ));
    this.layout = kind;
    const rows = intervals.flatMap((interval) => this.rows(interval));
    if (kind === "effects") this.effects.draw(
      rows.filter(({ y }) => y !== null), () => wholeTable(feature, kind, intervals),
      remark(this.names, intervals),
    );
    else {
      this.arrivals.draw(
        intervals.map(({ where, arrivals }) => ({ where, y: arrivals ?? 0 })),
        () => wholeTable(feature, kind, intervals),
        `in ${intervals.length} interval${intervals.length > 1 ? "s" : ""} of ${feature}`,
      );
      this.earned.draw(
        rows.filter(({ y }) => y !== null), () => wholeTable(feature, kind, intervals),
        remark(this.names, intervals),
      );
    }
  }

  /** A row per drawn action; x is null if the interval is not numeric. */
  rows({ where, low, high, actions }) {
    const x = low === null || high === null ? null : (low + high) / 2;
    const drawn = actions.filter(({ action }) => this.names.includes(String(action)));
    return drawn.map(({ action, mean, count: n }) => ({ where, x, action: String(action), y: mean, n }));
  }

  /** All actions, or the first few and the selected one. */
  shownActions(intervals) {
    const all = intervals[0].actions.map(({ action }) => String(action));
    const chosen = this.action === null ? null : String(this.action);
    return [...new Set([
      ...(chosen === null ? [] : [chosen]), ...all
    ])].slice(0, MOST_SERIES).toSorted((a, b) => all.indexOf(a) - all.indexOf(b));
  }

  where() {
    return {
      field: "where", type: "ordinal", sort: this.order, title: null, scale: { domain: this.order },
      axis: { labelAngle: this.fits() ? 0 : -35, labelLimit: 130, grid: false },
    };
  }

  /** Whether the labels of all intervals fit. */
  fits() {
    return 7 * this.order.join("  ").length < this.content.clientWidth / (this.content.clientWidth > 600 ? 2 : 1) - 60;
  }

  /** Highlight the selected action. */
  strength() {
    return this.action === null ? { value: 1 } : {
      condition: { test: { field: "action", equal: String(this.action) }, value: 1 }, value: 0.28,
    };
  }

  colour(colours) {
    return { field: "action", type: "nominal", scale: scale(this.names, colours), legend: { columns: 3 } };
  }

  arrivalSpec(colours) {
    return {
      height: HEIGHT,
      mark: { type: "bar", color: colours.line, cornerRadiusEnd: 3, maxBandSize: 70 },
      encoding: {
        x: this.where(),
        y: { field: "y", type: "quantitative", title: null, axis: { tickCount: 4, format: "~s" } },
        tooltip: [{ field: "where", title: "interval" }, {
          field: "y", title: "arrivals", type: "quantitative", format: ",d",
        }],
      },
    };
  }

  meanSpec(colours) {
    return {
      height: HEIGHT,
      mark: { type: "bar", cornerRadiusEnd: 2 },
      encoding: {
        x: this.where(), xOffset: { field: "action", sort: this.names, scale: { domain: this.names } },
        y: { field: "y", type: "quantitative", title: null, axis: { tickCount: 4 } },
        color: this.colour(colours), opacity: this.strength(),
        tooltip: [
          { field: "action" }, { field: "where", title: "interval" },
          { field: "n", title: "rewards", type: "quantitative", format: ",d" },
          { field: "y", title: "mean", type: "quantitative", format: ".3f" },
        ],
      },
    };
  }

  effectSpec(colours, rows) {
    const y = { field: "y", type: "quantitative", title: null, axis: { tickCount: 5, format: "+~g" } };
    const tooltip = [{ field: "action" }, { field: "where", title: this.feature }, {
      field: "y", title: "adds", type: "quantitative", format: "+.3f",
    }];
    const encoding = { y, color: this.colour(colours), opacity: this.strength(), tooltip };
    const zero = {
      data: { values: [{ y: 0 }] }, mark: { type: "rule", color: colours.line },
      encoding: { y: { field: "y", type: "quantitative" } },
    };
    const numbers = rows.filter(({ x }) => x !== null);
    if (new Set(numbers.map(({ x }) => x)).size < 2) {
      return { height: HEIGHT, layer: [zero, { mark: { type: "bar", cornerRadiusEnd: 2 }, encoding: {
        ...encoding, x: this.where(), xOffset: { field: "action", sort: this.names },
      } }] };
    }
    const low = Math.min(...numbers.map(({ x }) => x));
    const high = Math.max(...numbers.map(({ x }) => x));
    const beyond = high + 0.1 * (high - low); // where a missing value is drawn
    const missing = rows.length > numbers.length;
    const x = {
      field: "place", type: "quantitative", title: this.feature,
      scale: { domain: [low, missing ? high + 0.16 * (high - low) : high], nice: false },
      axis: { grid: false, tickCount: 6 },
    };
    const placed = [{ calculate: `isValid(datum.x) ? datum.x : ${beyond}`, as: "place" }];
    const line = {
      transform: [{ filter: "isValid(datum.x)" }], mark: { type: "line", strokeWidth: 2 },
      encoding: { ...encoding, x },
    };
    const points = { mark: { type: "point", filled: true, size: 40 }, encoding: { ...encoding, x } };
    const word = {
      data: { values: [{ place: beyond }] },
      mark: { type: "text", text: "missing", fontSize: 10, color: colours.muted },
      encoding: { x, y: { value: 6 } },
    };
    return { height: HEIGHT, transform: placed, layer: [zero, line, points, ...(missing ? [word] : [])] };
  }
}

const remark = (names, intervals) => (
  names.length < intervals[0].actions.length
    ? `of ${names.length} of ${intervals[0].actions.length} actions; all are in the table`
    : "for each action"
);

function wholeTable(feature, kind, intervals) {
  const actions = intervals[0].actions.map(({ action }) => action);
  const of = (interval, action) => interval.actions.find((one) => one.action === action) ?? {};
  const columns = kind === "effects"
    ? [
      ["Value", ({ where }) => where],
      ...actions.map((action) => [`${action}`, (interval) => signed(of(interval, action).mean), "n"])
    ]
    : [["Interval", ({ where }) => where], [
      "Arrivals", ({ arrivals }) => count(arrivals), "n",
    ], ...actions.flatMap((action) => [
      [`${action}: rewards`, (interval) => count(of(interval, action).count), "n"],
      [`${action}: mean`, (interval) => figure(of(interval, action).mean), "n"]])];
  return table(`The intervals of ${feature}`, columns, intervals);
}

const signed = (value) => (value > 0 ? `+${figure(value)}` : figure(value));
