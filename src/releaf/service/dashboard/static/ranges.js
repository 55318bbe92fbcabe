// Range of time and horizontal axis of the charts, remembered in the address of the page.
import { find } from "./dom.js";

const HOUR = 3_600_000;
const STEP = 10_000; // of the beginning, so that charts do not move with every refresh
const LENGTHS = { hour: HOUR, "six-hours": 6 * HOUR, day: 24 * HOUR, week: 168 * HOUR, month: 720 * HOUR };

export class Range {
  constructor(changed) {
    this.changed = changed;
    this.axis = "decisions";
    this.select = find("range");
    this.inputs = [find("range-from"), find("range-to")];
    this.select.addEventListener("change", () => this.choose(this.select.value));
    for (const input of this.inputs) input.addEventListener("change", () => this.custom());
    for (const axis of ["decisions", "time"]) find(`by-${axis}`).addEventListener("click", () => this.turn(axis));
    const { range, from, to, axis } = Object.fromEntries(new URLSearchParams(location.search));
    if (axis === "time") this.turn("time", false);
    if (range in LENGTHS || range === "custom") this.select.value = range;
    this.inputs.forEach((input, place) => { input.value = [from, to][place] ?? ""; });
    this.times = from && to && from >= to ? ["", ""] : this.entered(); // the latest that were right
    this.show();
  }

  choose() {
    this.turn(this.select.value === "all" ? this.axis : "time", false);
    this.show();
    this.remember();
    this.changed();
  }

  custom() {
    const [from, to] = this.entered();
    const wrong = from && to && from >= to;
    find("range-error").textContent = wrong ? "The beginning must be before the end." : "";
    if (wrong) return;
    this.times = [from, to];
    this.remember();
    this.changed();
  }

  entered() {
    return this.inputs.map((input) => input.value);
  }

  turn(axis, tells = true) {
    this.axis = axis;
    for (const one of ["decisions", "time"]) find(`by-${one}`).setAttribute("aria-pressed", String(one === axis));
    if (!tells) return;
    this.remember();
    this.changed();
  }

  show() {
    find("range-custom").hidden = this.select.value !== "custom";
  }

  remember() {
    const query = new URLSearchParams();
    if (this.select.value !== "all") query.set("range", this.select.value);
    if (this.axis === "time") query.set("axis", "time");
    if (this.select.value === "custom") {
      ["from", "to"].forEach((name, place) => this.times[place] && query.set(name, this.times[place]));
    }
    history.replaceState(null, "", `${location.pathname}${query.size ? `?${query}` : ""}${location.hash}`);
  }

  /** The range as parameters of a query. */
  query() {
    const chosen = this.select.value;
    if (chosen === "all") return {};
    if (chosen !== "custom") {
      const since = Math.floor((Date.now() - LENGTHS[chosen]) / STEP) * STEP;
      return { since: new Date(since).toISOString() };
    }
    const [since, until] = this.times.map((time) => time && new Date(time).toISOString());
    return { ...(since ? { since } : {}), ...(until ? { until } : {}) };
  }
}
