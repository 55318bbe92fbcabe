// Actions compared in the range of time: share, mean reward, value, and lift over a baseline with its interval.
import { address, get } from "./api.js";
import { count, empty, figure, fill, find, make, share, table } from "./dom.js";

const small = new Intl.NumberFormat("en-GB", { minimumFractionDigits: 3, maximumFractionDigits: 3 });
const large = new Intl.NumberFormat("en-GB", { maximumSignificantDigits: 4 });
const digits = (value) => (value < 10 ? small : large).format(value); // figures of a column have the same digits
export const signed = (value) => `${value < 0 ? "−" : "+"}${digits(Math.abs(value))}`;
const plain = (value) => `${value < 0 ? "−" : ""}${digits(Math.abs(value))}`;
const percent = (value) => `${value < 0 ? "−" : "+"}${Math.abs(value) < 10 ? Math.abs(value).toFixed(1) : Math.abs(value).toFixed(0)} %`;
const range = (low, high, format) => (low === null ? null : `${format(low)} to ${format(high)}`);
const VALUE =
  "“If always taken” estimates the mean reward of an action over all contexts, from the propensities of the decisions; " +
  "lift is the difference of two such values. All bounds hold with 95 % at all times at once, so that you may look as " +
  "often as you like.";
const UNADJUSTED =
  "The policy in charge has no propensities: lift compares means over different contexts, and may mislead.";

export class Summary {
  constructor(changed) {
    this.select = find("baseline");
    this.select.addEventListener("change", changed);
  }

  async read(info, query) {
    this.offer(info.actions.map(String));
    this.select.disabled = !info.actions.length;
    if (!info.actions.length) return { decisions: 0, markers: [], hasActions: false };
    const asked = new URLSearchParams({ ...query, baseline: this.select.value });
    return get(`${address(info.name, "summary")}?${asked}`);
  }

  offer(actions) {
    const told = actions.join("\n");
    if (this.offered === told) return;
    this.offered = told;
    const chosen = this.select.value;
    fill(this.select, actions.map((action) => make("option", { value: action, selected: action === chosen }, action)));
  }

  draw(found) {
    const told = JSON.stringify(found);
    if (told === this.drawn) return;
    this.drawn = told;
    if (!found.decisions) {
      fill(find("headline-lift"));
      fill(find("comparison"), found.hasActions === false
        ? empty("No actions yet", "They come with the requests, and are compared here once some have rewards.")
        : empty("No decisions in this range", "Choose a longer range above."));
      return;
    }
    fill(find("headline-lift"), headline(found));
    fill(
      find("comparison"), make("div", { className: "scroll whole" }, comparison(found)),
      make("p", { className: "hint" }, found.adjusted ? VALUE : UNADJUSTED, found.unsettled ? unsettled(found) : null),
    );
  }
}

const unsettled = ({ unsettled: latest }) =>
  ` Rewards of the latest ${count(latest)} decisions are left out: some of them still wait, and those that come early ` +
  "are not typical.";

/** The lift of the policy over the baseline in one sentence, and the regret where it is known. */
function headline({ lift, lift_low: low, lift_high: high, baseline, mean, note, mean_regret: regret, total_regret: total }) {
  const known = lift !== null;
  const verdict = !known ? "unknown" : low > 0 ? "better" : high < 0 ? "worse" : "open";
  const relative = known && mean - lift > 0 ? ` (${percent((100 * lift) / (mean - lift))})` : "";
  const says = {
    better: "more per decision than always", worse: "less per decision than always",
    open: "per decision, compared with always",
  };
  const text = known
    ? [make("strong", {}, signed(lift)), relative, ` ${says[verdict]} `, make("b", {}, baseline), ": ",
      verdict === "open" ? "not yet known to be more or less, " : "", `within ${range(low, high, signed)}`]
    : ["Lift over always ", make("b", {}, baseline), ` is not known: ${note}`];
  return [
    make("p", { className: `verdict ${verdict}` }, text),
    regret === null ? null : make(
      "p", { className: "muted small" }, `Regret: ${figure(regret)} per decision, ${figure(total)} in total.`,
    ),
  ];
}

function comparison({ actions, baseline }) {
  const span = Math.max(1e-9, ...actions.flatMap(({ lift_low: low, lift_high: high }) =>
    (low === null ? [0] : [Math.abs(low), Math.abs(high)])));
  const bounded = (value, low, high) => make(
    "span", { className: "bounded" }, value === null ? "–" : plain(value),
    low === null ? null : make("small", {}, range(low, high, plain)),
  );
  return table(
    `Actions compared with ${baseline}`,
    [
      ["Action", ({ action }) => (action === null ? "all others" : String(action))],
      ["Share", (one) => make("span", { className: "bounded" }, share(one.share, 1), make("small", {}, count(one.decisions))), "n"],
      ["Mean reward", (one) => bounded(one.mean, one.mean_low, one.mean_high), "n"],
      ["If always taken", (one) => bounded(one.value, one.value_low, one.value_high), "n"],
      ["Lift", (one) => (String(one.action) === baseline ? "baseline" : lifted(one, span)), "lift"],
    ],
    actions, "stack compare",
  );
}

/** The interval of a lift as a bar around 0, and in figures. */
function lifted({ lift, lift_low: low, lift_high: high }, span) {
  if (lift === null) return make("span", { className: "muted" }, "not known");
  const at = (value) => `${50 + (48 * value) / span}%`;
  const bar = make("span", { className: `interval ${low > 0 ? "better" : high < 0 ? "worse" : ""}`, "aria-hidden": "true" });
  bar.style.setProperty("--low", at(low));
  bar.style.setProperty("--high", at(high));
  bar.style.setProperty("--mean", at(lift));
  return make("span", { className: "lifted" }, bar, make(
    "span", { className: "bounded" }, signed(lift), make("small", {}, range(low, high, signed)),
  ));
}
