// Recorded decisions, page by page, with filters and exports.
import { address, get } from "./api.js";
import { details } from "./decision.js";
import { outcome } from "./feed.js";
import { count, empty, figure, fill, find, make, moment, shown } from "./dom.js";

const PAGE = 15;
const OUTCOMES = ["waiting", "rewarded", "default", "dropped", "unasked"];

export class Records {
  constructor(info) {
    this.info = info;
    this.pages = [null]; // what to pass as "before" for each page that was turned
    const option = (value, text = value) => make("option", { value }, text);
    this.action = make("select", {}, option("", "all"), info.actions.map((action) => option(String(action))));
    const explored = make("select", {}, option("", "all"), option("true", "explored"), option("false", "exploited"));
    const outcomes = make("select", {}, option("", "all"), OUTCOMES.map((one) => option(one)));
    const since = make("input", { type: "datetime-local" });
    const until = make("input", { type: "datetime-local" });
    this.filters = { action: this.action, explored, outcome: outcomes, since, until };
    const titles = { action: "Action", explored: "Kind", outcome: "Outcome", since: "Since", until: "Until" };
    find("filters").append(...Object.entries(this.filters).map(([name, input]) => make(
      "div", {}, make("label", { htmlFor: `filter-${name}` }, titles[name]),
      Object.assign(input, { id: `filter-${name}` }),
    )));
    find("filters").addEventListener("change", () => { this.pages = [null]; this.refresh(); });
    find("filters").addEventListener("submit", (event) => event.preventDefault());
    fill(find("exports"), ["csv", "parquet", "ndjson"].map((format) => make(
      "a", { href: `${address(info.name, "export")}?format=${format}`, download: `${info.name}.${format}` },
      format === "parquet" ? "Parquet" : format.toUpperCase(),
    )));
    this.list = make("div", {
      className: "scroll whole", tabIndex: 0, role: "region", "aria-label": "Table of decisions",
    });
    this.newer = make(
      "button",
      { type: "button", className: "plain small", onclick: () => { this.pages.pop(); this.refresh(); } },
      "Newer",
    );
    this.older = make(
      "button",
      { type: "button", className: "plain small", onclick: () => { this.pages.push(this.next); this.refresh(); } },
      "Older",
    );
    this.place = make("p", { className: "muted small", role: "status" });
    fill(find("record-list"), this.list, make("div", { className: "buttons" }, this.place, this.newer, this.older));
  }

  /** Show new decisions on the first page only, and not while one is open. */
  follow(info) {
    this.info = info;
    const offered = [...this.action.options].slice(1).map(({ value }) => value);
    // retired actions stay, because decisions have taken them
    const added = info.actions.map(String).filter((action) => !offered.includes(action));
    this.action.append(...added.map((value) => make("option", { value }, value)));
    if (this.pages.length === 1 && !this.list.querySelector(".opened-row")) return this.refresh();
    return undefined;
  }

  async refresh() {
    const query = new URLSearchParams({ limit: PAGE });
    for (const [name, { value }] of Object.entries(this.filters)) if (value) query.set(
      name, name === "since" || name === "until" ? new Date(value).toISOString() : value,
    );
    const before = this.pages.at(-1);
    if (before !== null) query.set("before", before);
    const asked = query.toString();
    this.asked = asked;
    try {
      const { decisions, next } = await get(`${address(this.info.name, "decisions")}?${asked}`);
      if (this.asked === asked) this.draw(decisions, next);
    } catch (problem) {
      fill(this.list, make("p", { className: "error" }, problem.message));
    }
  }

  draw(decisions, next) {
    this.next = next;
    this.newer.disabled = this.pages.length === 1;
    this.older.disabled = next === null;
    this.place.textContent = decisions.length
      ? `${count(decisions.at(-1).decision)} to ${count(decisions[0].decision)}`
      : "";
    const text = JSON.stringify(decisions);
    if (text === this.drawn) return;
    this.drawn = text;
    if (!decisions.length) {
      const filtered = Object.values(this.filters).some(({ value }) => value);
      fill(
        this.list,
        filtered ? empty("No decision fits", "Choose “all” in some of the filters.") : empty(
          "No decisions yet", "They are listed here, with their rewards, once there are some.",
        ),
      );
      return;
    }
    const focused = this.list.contains(document.activeElement) ? document.activeElement.dataset.decision : null;
    const columns = ["Decision", "Taken", "Action", "Probability", "Kind", "Outcome", "Context"];
    const head = make("tr", {}, columns.map((title) => make(
      "th", { scope: "col", className: title === "Probability" ? "n" : "" }, title,
    )));
    fill(this.list, make(
      "table", { className: "brief" },
      make("caption", { className: "hidden" }, "Recorded decisions, newest first"), make("thead", {}, head),
      make("tbody", {}, decisions.map((one) => this.row(one, columns.length))),
    ));
    if (focused) this.list.querySelector(`[data-decision="${focused}"]`)?.focus();
  }

  row(recorded, width) {
    const open = make(
      "button",
      { type: "button", className: "link", "data-decision": recorded.decision, "aria-expanded": "false" },
      `#${recorded.decision}`,
    );
    const context = Object.entries(recorded.context).map(([name, value]) => `${name} ${shown(value)}`).join(", ");
    const cell = (className, content) => make("td", { className }, content);
    const row = make("tr", {}, make("th", { scope: "row" }, open), cell("of-time", moment(recorded.at)), cell(
      "of-action", String(recorded.action),
    ),
      cell("of-probability n", figure(recorded.probability)), cell(
        "of-kind", recorded.explored ? "explored" : "exploited",
      ), cell("of-outcome", outcome(recorded)),
      cell("of-context", make("div", { className: "clip", title: context }, context)));
    let below = null;
    open.addEventListener("click", () => {
      open.setAttribute("aria-expanded", String(!below));
      if (below) { below.remove(); below = null; return; }
      const close = () => { below?.remove(); below = null; this.refresh(); open.focus(); };
      below = make("tr", { className: "opened-row" }, make("td", { colSpan: width }, details(
        this.info, recorded, close,
      )));
      row.after(below);
    });
    return row;
  }
}
