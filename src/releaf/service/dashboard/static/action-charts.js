// Charts of actions over time: traffic share and mean reward, with bands, and markers of changes.
import { count, figure, make, moment, share, table } from "./dom.js";
import { framed } from "./charts.js";

const HEIGHT = 230;
const OTHERS = "all others";
export const FEW = 16; // points of a chart, which are then drawn as such
const MOST = 7; // with a colour of their own; the eighth is for all others
const SQUARE = 1.96 ** 2;
const CHANGES = {
  add_action: "action added", remove_action: "action retired", add_shadow: "shadow added",
  remove_shadow: "shadow removed", promote: "promoted", set_retention: "retention changed", retire: "retired",
};

const brief = (at) => new Date(at).toLocaleString("en-GB", {
  day: "numeric", month: "short", hour: "2-digit", minute: "2-digit",
});
export const change = ({ change: kind, subject }) =>
  [subject, CHANGES[kind] ?? kind].filter((part) => part !== null).join(" ");

/** Wilson's 95 % interval of a share. */
export function wilson(part, all) {
  const centre = (part + SQUARE / 2) / (all + SQUARE);
  const half = Math.sqrt(SQUARE * (part * (1 - part / all) + SQUARE / 4)) / (all + SQUARE);
  return [Math.max(0, centre - half), Math.min(1, centre + half)];
}

/** The actions with a colour of their own: all, or the most frequent ones in the range. */
export function coloured(actions, points) {
  if (actions.length <= MOST + 1) return actions.map(String);
  const made = new Map();
  for (const { actions: some } of points) {
    for (const one of some ?? []) made.set(String(one.action), (made.get(String(one.action)) ?? 0) + one.decisions);
  }
  const frequent = actions.map(String).toSorted((a, b) => (made.get(b) ?? 0) - (made.get(a) ?? 0)).slice(0, MOST);
  return [...actions.map(String).filter((name) => frequent.includes(name)), OTHERS];
}

export class ActionCharts {
  constructor(axis) {
    this.axis = axis;
    this.share = framed("Traffic share", (colours) => this.spec(colours, "share", ".0%"), "tall");
    this.reward = framed("Mean reward by action", (colours) => this.spec(colours, "mean", "~g"), "tall");
    this.drawn = [this.share, this.reward];
    this.markers = [];
  }

  spec(colours, field, format) {
    const axis = this.axis();
    const colour = {
      field: "action", type: "nominal", legend: null,
      scale: { domain: this.names, range: this.names.map((name, place) => hue(colours, name, place)) },
    };
    const y = {
      field, type: "quantitative", title: null, axis: { format, tickCount: 5 },
      scale: field === "share" ? { domain: [0, 1] } : { zero: false },
    };
    const tooltip = [
      { field: "action", title: "action" }, { field: "name", title: "decisions" }, { field: "when", title: "until" },
      { field: `${field}Told`, title: field === "share" ? "traffic share" : "mean reward" },
      { field: `${field}Bounds`, title: "95 %" }, { field: "rewards", title: "rewards", format: ",d" },
    ];
    const band = {
      mark: { type: "area", opacity: 0.16 },
      encoding: { y: { ...y, field: `${field}Low` }, y2: { field: `${field}High` }, tooltip: null },
    };
    const line = { mark: { type: "line", strokeWidth: 2 } };
    const dots = { mark: { type: "point", filled: true, size: 22, opacity: this.few ? 0.7 : 0 } };
    const near = { mark: { type: "point", size: 140, opacity: 0 }, encoding: { tooltip } };
    return {
      height: HEIGHT, encoding: { x: axis, y, color: colour },
      layer: [band, line, dots, near, ...markerLayers(this.markers, axis, colours)],
    };
  }

  draw(points, info, markers) {
    const told = points.filter(({ actions }) => actions);
    this.names = coloured(info.actions, told);
    this.few = told.length < FEW;
    this.markers = markers;
    const rows = told.flatMap((point) => this.rows(point));
    const remark = told.length ? "" : "not counted before this version";
    this.share.draw(rows, figures("Traffic share", told, this.names, (one) => share(one.share, 1), this), remark);
    const known = rows.some(({ mean }) => mean !== null);
    this.reward.draw(
      known ? rows : [], figures("Mean reward", told, this.names, (one) => figure(one.mean), this),
      known || !told.length ? "where it was taken" : "no rewards yet",
    );
  }

  rows(point) {
    const base = { ...place(point), name: named(point) };
    const made = new Map(this.names.map((name) => [name, { decisions: 0, rewards: 0, sum: 0 }]));
    for (const one of point.actions) {
      const of = made.get(String(one.action)) ?? made.get(OTHERS);
      if (!of) continue; // retired since
      of.decisions += one.decisions;
      of.rewards += one.rewards;
      of.sum += (one.mean ?? 0) * one.rewards;
      of.low = of.high = undefined;
      if (of.decisions === one.decisions) [of.low, of.high] = [one.low, one.high];
    }
    return [...made].map(([action, of]) => {
      const [shareLow, shareHigh] = wilson(of.decisions, point.decisions);
      const mean = of.rewards ? of.sum / of.rewards : null;
      const bounds = (low, high, format) => (low === null || low === undefined ? "–" : `${format(low)} to ${format(high)}`);
      const percent = (value) => share(value, 1);
      return {
        ...base, action, rewards: of.rewards, share: of.decisions / point.decisions, shareLow, shareHigh,
        shareTold: percent(of.decisions / point.decisions), shareBounds: bounds(shareLow, shareHigh, percent),
        mean, meanLow: of.low ?? null, meanHigh: of.high ?? null, meanTold: figure(mean),
        meanBounds: bounds(of.low, of.high, figure),
      };
    });
  }
}

const hue = (colours, name, place) => (name === OTHERS ? colours.series[7] : colours.series[place % 8]);

export const place = ({ first, decisions, until }) => ({
  x: first + decisions - 1, at: Date.parse(until), when: moment(until),
});
export const named = ({ first, decisions }) => (
  decisions === 1 ? count(first) : `${count(first)} – ${count(first + decisions - 1)}`
);

function figures(title, points, names, format, charts) {
  return () => table(
    title,
    [
      ["Decisions", ({ point }) => named(point)], ["Until", ({ point }) => moment(point.until)],
      ...names.map((name) => [name, ({ rows }) => format(rows.find(({ action }) => action === name)), "n"]),
    ],
    points.toReversed().map((point) => ({ point, rows: charts.rows(point) })),
  );
}

/** Vertical lines where the experiment changed, with a flag at the top whose tooltip says what. */
export function markerLayers(markers, axis, colours) {
  if (!markers.length) return [];
  const values = markers.map((marker) => ({
    x: marker.decision, at: Date.parse(marker.at), when: moment(marker.at), told: change(marker),
    strong: marker.change === "promote",
  }));
  const colour = { condition: { test: "datum.strong", value: colours.accent }, value: colours.line };
  const x = { ...axis, title: axis.title };
  const tooltip = [{ field: "told", title: "change" }, { field: "when", title: "at" }];
  return [
    {
      data: { values }, mark: { type: "rule", strokeWidth: 1.5, strokeDash: [4, 3] },
      encoding: { x, y: null, color: colour, tooltip },
    },
    {
      data: { values }, mark: { type: "point", shape: "triangle-down", filled: true, size: 90, opacity: 1 },
      encoding: { x, y: { value: 4 }, color: colour, tooltip },
    },
  ];
}

/** The colours of the actions, and the changes on the time axis, in words. */
export function key(names, markers) {
  const swatch = (name, place) => {
    const mark = make("i", { className: "swatch" });
    mark.style.setProperty("--hue", `var(--c${name === OTHERS ? 8 : (place % 8) + 1})`);
    return make("li", {}, mark, name);
  };
  const flags = markers.slice(-5).map((marker) => make(
    "li", { className: marker.change === "promote" ? "flag strong" : "flag" }, change(marker),
    make("small", { title: moment(marker.at) }, ` ${brief(marker.at)}`),
  ));
  const more = markers.length - flags.length;
  return [
    make("ul", { className: "key", "aria-label": "Colours of the actions" }, names.map(swatch)),
    flags.length ? make(
      "ul", { className: "key flags", "aria-label": "Changes in this range" }, flags,
      more ? make("li", { className: "muted" }, `and ${more} before`) : null,
    ) : null,
  ];
}
