// Shadows: their estimated values, and their promotion.
import { address, post, remove } from "./api.js";
import { Chart } from "./charts.js";
import { showError, confirmed, count, counted, empty, figure, fill, find, make, notice, share, table } from "./dom.js";
import { policyForm } from "./policy-form.js";

const ROW = 34;
const ABOUT =
  "A shadow decides on the same contexts without being followed. Its value is estimated from the rewards of the " +
  "policy in charge, and it can take charge with one click. Add one below.";
const ABOUT_VALUE =
  "Value: what the shadow would have earned for each decision, with its 95 % interval, estimated from decisions " +
  "whose probability is known. That needs a policy in charge which now and then tries what the shadow would do instead.";

const UNSUPPORTED =
  "The policy in charge hardly ever does what this one would do instead, so rewards can't tell what that would earn. " +
  "Give it a least_probability or an epsilon above 0.";

const parameters = ({ parameters: given }) =>
  Object.entries(given).map(([name, value]) => `${name} ${JSON.stringify(value)}`).join(", ");

export class Shadows {
  constructor(changed) {
    this.changed = changed;
    this.place = make("div", { className: "chart shadow-chart" });
    this.chart = new Chart(this.place, (colours, rows) => spec(colours, rows));
    this.list = make("div", { className: "scroll whole" });
  }

  async form(info) {
    const form = find("shadow-form");
    const error = make("p", { className: "error", id: "shadow-name-error" });
    const name = make("input", {
      id: "shadow-name", required: true, maxLength: 64, spellcheck: false, "aria-describedby": error.id,
    });
    const fields = make("div", { className: "form" });
    const button = make("button", {}, "Add shadow");
    form.append(
      make("div", { className: "field" }, make("label", { htmlFor: name.id }, "Name"), name, error), fields,
      make("div", { className: "buttons" }, button),
    );
    const policy = await policyForm(fields, "shadow");
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      policy.clearErrors();
      if (showError(name, name.value.trim() ? "" : "Give the shadow a name.")) return name.focus();
      try {
        this.changed(await post(address(info.name, "shadows"), { name: name.value.trim(), policy: policy.chosen() }));
        form.closest("details").open = false;
        form.reset();
        notice("shadow", "The shadow decides on all contexts from now on.", "good");
      } catch (problem) {
        if (!policy.assignError(problem.message)) showError(name, problem.message);
      }
      return undefined;
    });
  }

  draw(info) {
    const text = JSON.stringify([info.shadows, info.counts.mean_reward, info.status]);
    if (text === this.drawn) return;
    this.drawn = text;
    const { shadows, counts } = info;
    if (!shadows.length) {
      fill(find("shadow-list"), empty("No shadow policies", ABOUT));
      return;
    }
    const focused = this.list.contains(document.activeElement)
      ? document.activeElement.getAttribute("aria-label")
      : null;
    fill(this.list, this.table(info));
    if (!this.list.isConnected) {
      fill(find("shadow-list"), this.place, this.list, make("p", { className: "hint" }, ABOUT_VALUE));
    }
    const buttons = [...this.list.querySelectorAll("button")];
    if (focused) buttons.find((button) => button.getAttribute("aria-label") === focused)?.focus();
    const rows = [
      { name: "in charge", value: counts.mean_reward, low: null, high: null, charge: true },
      ...shadows.map(({ name, value, low, high }) => ({ name, value, low, high, charge: false }))
    ];
    this.place.setAttribute("aria-hidden", "true"); // the table says it all
    this.chart.draw(rows.filter(({ value }) => value !== null));
    this.place.hidden = rows.every(({ value }) => value === null);
  }

  table(info) {
    const columns = [
      ["Policy", ({ name }) => name],
      ["Kind", ({ policy }) => make("span", { title: parameters(policy) }, policy.name)],
      [
        "Value",
        ({ value, low, high, supported, matched }) => (
          value === null
            ? supported === false && matched > 10
              ? make("span", { title: UNSUPPORTED }, "can't be told")
              : "not yet known"
            : low === null
            ? figure(value)
            : `${figure(value)} [${figure(low)}, ${figure(high)}]`
        ),
        "n",
      ],
      ["Agrees", ({ agreed, decisions }) => (agreed === undefined ? "" : share(agreed, decisions)), "n"],
      [
        "Effective sample",
        ({ effective, matched }) => (effective === undefined ? "" : make(
          "span", { title: `${counted(matched, "rewarded decision")} matched` }, count(effective),
        )),
        "n",
      ],
      ["Change", (row) => (row.charge || info.status === "retired" ? "" : this.buttons(info, row)), "controls"],
    ];
    const inCharge = {
      name: "in charge", policy: info.policy, value: info.counts.mean_reward, low: null, charge: true,
    };
    return table("Shadow policies and the policy in charge", columns, [inCharge, ...info.shadows], "stack");
  }

  buttons(info, { name }) {
    const act = async (title, text, verb, kind, send) => {
      if (!(await confirmed(title, text, verb, kind))) return;
      try {
        this.changed(await send());
        notice("shadow", verb === "Remove" ? `${name} was removed.` : `${name} is in charge now.`, "good");
      } catch (problem) {
        notice("shadow", problem.message, "bad");
      }
    };
    const promote = () => act(
      `Put ${name} in charge?`,
      "It decides from the next context on. The policy in charge now becomes a shadow called “former”.",
      "Promote", "", () => post(address(info.name, "shadows", name, "promote")),
    );
    const drop = () => act(
      `Remove ${name}?`, "What it has learnt is lost.", "Remove", "danger",
      () => remove(address(info.name, "shadows", name)),
    );
    return make("div", { className: "buttons" },
      make(
        "button", { type: "button", className: "small", "aria-label": `Promote ${name}`, onclick: promote },
        "Promote",
      ),
      make(
        "button", { type: "button", className: "plain small", "aria-label": `Remove ${name}`, onclick: drop },
        "Remove",
      ));
  }
}

function spec(colours, rows) {
  const names = rows.map(({ name }) => name);
  const y = { field: "name", type: "nominal", sort: names, title: null, scale: { domain: names }, axis: {
    ticks: false, domain: false, labelFontSize: 12, labelColor: colours.text,
  } };
  const colour = { condition: { test: "datum.charge", value: colours.accent }, value: colours.series[0] };
  const tooltip = [
    { field: "name", title: "policy" }, { field: "value", type: "quantitative", format: ".4f" },
    { field: "low", type: "quantitative", format: ".4f" },
    { field: "high", type: "quantitative", format: ".4f" },
  ];
  const charge = {
    transform: [{ filter: "datum.charge" }], mark: { type: "rule", color: colours.accent, strokeDash: [4, 4] },
    encoding: { x: { field: "value", type: "quantitative" } },
  };
  const spread = {
    transform: [{ filter: "isValid(datum.low)" }], mark: { type: "rule", strokeWidth: 3, opacity: 0.45 },
    encoding: { y, x: { field: "low", type: "quantitative" }, x2: { field: "high" }, color: colour, tooltip },
  };
  const x = {
    field: "value", type: "quantitative", title: "reward per decision", scale: { zero: false, nice: true },
    axis: { tickCount: 5 },
  };
  const points = {
    mark: { type: "point", filled: true, size: 90, opacity: 1 }, encoding: { y, x, color: colour, tooltip },
  };
  const layer = [
    rows.some((row) => row.charge) ? charge : null, rows.some(({ low }) => low !== null) ? spread : null,
    points,
  ].filter(Boolean);
  return { height: ROW * rows.length + 30, layer };
}
