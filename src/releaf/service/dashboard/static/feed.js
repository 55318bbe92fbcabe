// Live feed, newest decisions first; redrawn at most a few times a second.
import { address, get } from "./api.js";
import { clock, count, counted, empty, fill, find, make, reward } from "./dom.js";
import { details } from "./decision.js";

const MOST_ROWS = 100;
const FIRST_ROWS = 30;
const MOST_FRESH = 5; // are marked as new; more would only flicker
const DRAW_EVERY = 250;
const SAY_EVERY = 10_000;
const AGAIN_AFTER = 2000;

export class Feed {
  /** Calls `changed(kind)` for each event: decision, reward or change. */
  constructor(info, changed) {
    Object.assign(this, {
      info, changed, paused: false, latest: 0, arrived: [], rewarded: new Map(), rows: new Map(), held: null,
      unsaid: 0,
    });
    find("pause").addEventListener("click", () => this.pause(!this.paused));
    document.addEventListener("visibilitychange", () => (document.hidden ? this.close() : this.open()));
    setInterval(() => this.say(), SAY_EVERY);
    this.open();
  }

  /** Subscribes before it loads the latest decisions, so that none is missed in between. */
  open() {
    if (this.source || document.hidden) return;
    const source = new EventSource(address(this.info.name, "feed"));
    const hear = (kind, take) => source.addEventListener(kind, ({ data }) => {
      const told = () => { take(JSON.parse(data)); this.soon(kind); };
      if (this.held) this.held.push(told);
      else told();
    });
    hear("decision", (recorded) => this.take(recorded));
    hear("reward", (paid) => this.pay(paid));
    source.addEventListener("change", () => this.changed("change"));
    source.addEventListener("open", () => this.catchUp(source));
    source.addEventListener("error", () => this.again(source));
    this.source = source;
    this.held = [];
  }

  async catchUp(source) {
    try {
      const { decisions } = await get(`${address(this.info.name, "decisions")}?limit=${FIRST_ROWS}`);
      if (source !== this.source) return;
      for (const recorded of decisions.toReversed()) this.take(recorded);
      this.draw(false);
      this.state();
      for (const told of this.held) told();
      this.held = null;
      this.changed("open");
    } catch {
      this.again(source);
    }
  }

  again(source) {
    if (source !== this.source) return;
    this.close();
    find("feed-state").textContent = "connecting again …";
    setTimeout(() => this.open(), AGAIN_AFTER);
  }

  close() {
    this.source?.close();
    this.source = null;
  }

  take(recorded) {
    if (this.rows.has(recorded.decision)) this.pay(recorded);
    else if (recorded.decision > this.latest) {
      this.latest = recorded.decision;
      this.arrived.push(recorded);
      if (this.arrived.length > MOST_ROWS) this.arrived.shift();
    }
  }

  pay({ decision, reward: value, outcome, rewarded_at: at = null }) {
    const known = this.rows.get(decision)?.recorded ?? this.arrived.find((one) => one.decision === decision);
    if (known && known.outcome !== outcome) this.rewarded.set(decision, Object.assign(known, {
      reward: value, outcome, rewarded_at: at ?? known.rewarded_at,
    }));
  }

  soon(kind) {
    this.changed(kind);
    this.timer ??= setTimeout(() => { this.timer = null; this.draw(true); }, DRAW_EVERY);
  }

  pause(paused) {
    this.paused = paused;
    find("pause").setAttribute("aria-pressed", String(paused));
    this.draw(true);
    this.state();
  }

  state() {
    find("pause").textContent = this.paused ? "Resume" : "Pause";
    const waiting = this.arrived.length === MOST_ROWS ? `${MOST_ROWS} or more` : count(this.arrived.length);
    find("feed-state").textContent = this.paused ? `paused, ${waiting} new` : this.source ? "live" : "";
  }

  draw(fresh) {
    fill(find("feed-empty"), this.rows.size + this.arrived.length ? null : this.nothingYet());
    if (this.paused) return this.state();
    for (const decision of this.rewarded.keys()) this.rows.get(decision)?.update();
    this.rewarded.clear();
    this.unsaid += fresh ? this.arrived.length : 0;
    const added = this.arrived.map((recorded) => this.row(
      recorded, fresh && this.arrived.length <= MOST_FRESH,
    )).reverse();
    this.arrived = [];
    find("feed").prepend(...added.map(({ element }) => element));
    this.trim();
    return undefined;
  }

  /** Remove the oldest entries, except open ones. */
  trim() {
    for (const [decision, { element, open }] of this.rows) {
      if (this.rows.size <= MOST_ROWS) break;
      if (open() || element.contains(document.activeElement)) continue;
      element.remove();
      this.rows.delete(decision);
    }
  }

  /** Announce decisions to screen readers, at intervals. */
  say() {
    if (!this.unsaid) return;
    find("feed-said").textContent = `${counted(this.unsaid, "new decision")}.`;
    this.unsaid = 0;
  }

  row(recorded, fresh) {
    const marks = make("span", { className: "marks" });
    const button = make("button", { type: "button", className: "row-open", "aria-expanded": "false" },
      make("span", {}, make("span", { className: "what" }, String(recorded.action)), " ", make(
        "span", { className: "when" }, `#${recorded.decision} · ${clock(recorded.at)}`,
      )), marks);
    const element = make("li", { className: fresh ? "fresh" : "", "data-decision": recorded.decision }, button);
    let panel = null;
    const show = (open) => {
      panel?.remove();
      panel = open ? details(this.info, recorded, (value) => {
        this.pay({ decision: recorded.decision, reward: value, outcome: "rewarded" });
        update();
        button.focus();
      }) : null;
      if (panel) element.append(panel);
      button.setAttribute("aria-expanded", String(open));
    };
    const update = () => {
      marks.replaceChildren(
        ...[
          recorded.explored ? make("span", { className: "pill explored" }, "explored") : null,
          outcome(recorded),
        ].filter(Boolean)
      );
      if (panel && !panel.contains(document.activeElement)) show(true);
      else if (panel && recorded.outcome !== "waiting") show(true);
    };
    button.addEventListener("click", () => show(!panel));
    update();
    const row = { recorded, element, update, open: () => panel !== null };
    this.rows.set(recorded.decision, row);
    return row;
  }

  nothingYet() {
    if (this.info.status === "retired") return empty("Nothing to show", "The experiment takes no more decisions.");
    return empty(
      "Waiting for the first decision",
      "Each decision shows up here as it is taken. Open one to read why it was taken, and to enter its reward.",
    );
  }
}

export function outcome({ outcome: what, reward: value, wants_reward: wanted }) {
  if (what === "rewarded") return make("span", { className: "pill rewarded", title: "reward" }, reward(value));
  if (what === "default") return make("span", { className: "pill" }, `default ${reward(value)}`);
  if (what === "unasked" || !wanted) return make("span", { className: "muted small" }, "not asked");
  return make("span", { className: `pill ${what}` }, what);
}
