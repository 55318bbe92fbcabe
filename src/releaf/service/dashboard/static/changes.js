// Changes of the experiment from the audit log, for those who may read it.
import { get } from "./api.js";
import { fill, find, make, moment, table } from "./dom.js";

const PER_PAGE = 10;
const TITLES = {
  create: "Created", add_action: "Action added", remove_action: "Action retired", add_shadow: "Shadow added",
  remove_shadow: "Shadow removed", promote: "Shadow promoted", set_retention: "Retention changed", erase_subject: "Subject erased",
  retire: "Retired",
};
const NAMES = { policy: "in charge", shadows: "shadows", actions: "actions" };

const title = ({ change, subject }) => `${TITLES[change] ?? change}${subject === null ? "" : `: ${subject}`}`;
function entry(value) {
  if (value === null || typeof value !== "object") return String(value);
  if (value.name === undefined) return Object.entries(value).map(([name, one]) => `${name} ${one ?? "–"}`).join(", ");
  return value.policy ? `${value.name} (${value.policy.name})` : value.name;
}

/** What was taken from a list and added to it; of other values, the former and the new one. */
function compare(before, after) {
  if (!Array.isArray(before) || !Array.isArray(after)) return `${entry(before)} → ${entry(after)}`;
  const [old, current] = [before.map(entry), after.map(entry)];
  const gone = old.filter((one) => !current.includes(one)).map((one) => `− ${one}`);
  return [...gone, ...current.filter((one) => !old.includes(one)).map((one) => `+ ${one}`)].join(", ");
}

/** The fields that differ, one a line; a creation and a retirement say all by their title. */
function difference({ change, before, after }) {
  if (change === "create" || change === "retire") return "–";
  return make("div", {}, Object.keys(after ?? {}).map((name) => make(
    "div", {}, make("span", { className: "muted" }, `${NAMES[name] ?? name}: `), compare(before?.[name], after[name]),
  )));
}

const COLUMNS = [
  ["Change", title], ["When", ({ at }) => moment(at)], ["Who", ({ actor }) => actor], ["Difference", difference],
];

export class Changes {
  constructor({ name }) {
    this.name = name;
    this.entries = [];
    this.told = null;
  }

  /** Read the latest changes if the experiment changed. */
  async refresh({ status, policy, actions, shadows }) {
    const told = JSON.stringify([status, policy, actions, shadows.map((shadow) => shadow.name)]);
    if (this.told === told || this.forbidden) return;
    this.told = told;
    this.entries = [];
    await this.load();
  }

  async load(before = null) {
    const query = new URLSearchParams({ experiment: this.name, limit: PER_PAGE, ...(before ? { before } : {}) });
    try {
      const { changes, next } = await get(`/v1/audit?${query}`);
      this.entries.push(...changes);
      this.draw(next);
    } catch (problem) {
      if (problem.status !== 403) throw problem;
      this.forbidden = true; // only an admin may read them
    }
  }

  draw(next) {
    const more = make("button", { type: "button", className: "plain", onclick: () => this.load(next) }, "Show earlier");
    fill(
      find("change-list"), table("Changes, newest first", COLUMNS, this.entries, "stack"),
      next === null ? null : make("div", { className: "buttons" }, more),
    );
    find("changes").hidden = false;
    find("changes-link").hidden = false;
  }
}
