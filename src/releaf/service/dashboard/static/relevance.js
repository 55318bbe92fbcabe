// Relevance of features to actions: a heat map whose cells open the partition of the feature.
import { address, get } from "./api.js";
import { empty, fill, find, make, share } from "./dom.js";
import { Partition } from "./partition.js";

const MOST_FEATURES = 24;
const MOST_ACTIONS = 40;
const PALE_TEXT_FROM = 62; // per cent of the darkest

export class Relevance {
  constructor(info) {
    this.info = info;
    this.chosen = null;
    this.partition = new Partition(info, (feature) => this.choose(feature, this.chosen?.action ?? null));
    find("heat").addEventListener("keydown", (event) => this.move(event));
  }

  async refresh(info) {
    this.info = info;
    const found = await get(address(info.name, "relevance"));
    const text = JSON.stringify(found);
    if (text !== this.drawn) {
      this.drawn = text;
      this.draw(found);
    }
    await this.partition.refresh(info);
  }

  /** There is nothing to be relevant for before there are actions. */
  showNone() {
    fill(find("heat"), empty("No actions yet", "What matters for each of them shows up here when they have rewards."));
    find("drill").hidden = true;
  }

  draw(found) {
    find("drill").hidden = false;
    this.found = found;
    const certain = (row, place) => !found.certainty || found.certainty[row][place] >= found.least_certainty;
    this.shares = (found.relevance ?? []).map((row, at) => row.map((value, place) => (certain(at, place) ? value : 0)));
    const highest = this.shares.reduce(
      (most, row) => row.reduce((one, value) => Math.max(one, value), most), 0,
    );
    if (!found.relevance || (highest === 0 && found.relevance.every((row) => row.every((value) => value === 0)))) {
      const text = found.relevance
        ? "It learns from rewards: send some for the decisions that wait, and come back."
        : `${sentence(found.meaning)} Look at the intervals of a feature below, or try another policy as a shadow.`;
      fill(find("heat"), empty(
        found.relevance ? "Nothing is known to matter yet" : "This policy does not tell which features matter",
        text,
      ));
      this.partition.offer(found.features, this.chosen?.feature);
      return;
    }
    const strength = (place) => found.relevance.reduce((most, row) => Math.max(most, row[place]), 0);
    const strongest = found.features.map((_, place) => place).toSorted((a, b) => strength(b) - strength(a));
    const places = strongest.slice(0, MOST_FEATURES).toSorted((a, b) => a - b); // in the order of the schema
    const rows = found.actions.slice(0, MOST_ACTIONS);
    const focused = this.focused();
    const { features, actions } = found;
    const cut = [
      places.length < features.length ? `the ${MOST_FEATURES} of ${features.length} features that matter most` : null,
      rows.length < actions.length ? `the first ${MOST_ACTIONS} of ${actions.length} actions` : null,
    ].filter(Boolean);
    fill(find("heat"),
      make("div", { className: "heat-scroll" }, this.grid(found, rows, places, highest)),
      make(
        "p", { className: "hint" }, sentence(found.meaning), cut.length ? ` Shown: ${cut.join(", ")}.` : "",
        found.certainty ? " An empty row depends on nothing; “?” is not certain enough to be shown." : "",
        " Choose a cell to see the feature's intervals; arrow keys move.",
      ));
    this.partition.offer(found.features, this.chosen?.feature);
    this.mark();
    if (focused) find("heat").querySelector(focused)?.focus();
  }

  grid(found, actions, places, highest) {
    const head = places.map((place) => make("th", { scope: "col" }, make("button", {
      type: "button", className: "column", title: found.features[place], tabIndex: -1,
      "data-feature": place, "data-row": -1, "aria-pressed": "false",
      onclick: () => this.choose(found.features[place], null),
    }, found.features[place])));
    const cells = (row) => places.map((place) => make("td", {}, this.cell(found, row, place, highest)));
    const body = actions.map((action, row) =>
      make("tr", {}, make("th", { scope: "row", title: String(action) }, String(action)), cells(row)));
    return make("table", { className: "heat" },
      make("caption", { className: "hidden" }, "Relevance of each feature (columns) for each action (rows)"),
      make("thead", {}, make("tr", {}, make("td", {}), head)), make("tbody", {}, body));
  }

  cell(found, row, place, highest) {
    const value = this.shares[row][place];
    const perhaps = value < found.relevance[row][place];
    const level = value ? (100 * value) / highest : 0;
    const certainty = found.certainty?.[row][place];
    const told = perhaps
      ? `perhaps relevant, certain to ${percent(certainty)}`
      : `${share(value, 1)}${certainty && value ? `, certain to ${percent(certainty)}` : ""}`;
    const cell = make("button", {
      type: "button", className: perhaps ? "cell perhaps" : level > PALE_TEXT_FROM
        ? "cell strong"
        : "cell", title: told, tabIndex: -1, "aria-pressed": "false", "data-feature": place, "data-row": row,
      "aria-label": `${found.features[place]} for ${found.actions[row]}: ${told}`,
      onclick: () => this.choose(found.features[place], found.actions[row]),
    }, perhaps ? "?" : value >= 0.005 ? share(value, 1) : "");
    cell.style.setProperty("--level", `${level.toFixed(1)}%`);
    return cell;
  }

  choose(feature, action) {
    this.chosen = { feature, action };
    this.mark();
    this.partition.show(feature, action);
  }

  /** One cell is in the tab order; the arrow keys move between cells. */
  mark() {
    const buttons = [...find("heat").querySelectorAll("button")];
    const { feature, action } = this.chosen ?? {};
    const isChosen = ({ dataset }) => this.found.features[dataset.feature] === feature &&
      (dataset.row === "-1" ? action === null : this.found.actions[dataset.row] === action);
    for (const button of buttons) {
      button.setAttribute("aria-pressed", String(isChosen(button)));
      button.tabIndex = -1;
    }
    const entry = buttons.find(isChosen) ?? buttons.find(({ className }) => className.startsWith("cell"));
    if (entry) entry.tabIndex = 0;
  }

  focused() {
    const { activeElement } = document;
    return find("heat").contains(activeElement) ? selector(activeElement.dataset) : null;
  }

  move(event) {
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!step || !event.target.dataset.feature) return;
    event.preventDefault();
    const row = Number(event.target.dataset.row) + step[0];
    const places = [...find("heat").querySelectorAll(".column")].map(({ dataset }) => dataset.feature);
    const next = places[places.indexOf(event.target.dataset.feature) + step[1]];
    const target = find("heat").querySelector(selector({ feature: next, row }));
    if (!target) return;
    event.target.tabIndex = -1;
    target.tabIndex = 0;
    target.focus();
  }
}

const percent = (certainty) => `${Math.min(99.99, Math.floor(certainty * 10_000) / 100)} %`;
const selector = ({ feature, row }) => `button[data-feature="${feature}"][data-row="${row}"]`;
const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1).replace(/\.$/, "")}.`;
