// Shadows: their estimated values, and their promotion.
import { address, post, remove } from "./api.js";
import { Chart } from "./charts.js";
import { showError, confirmed, count, counted, empty, figure, fill, find, make, notice, share, table } from "./dom.js";
import { policyForm } from "./policy-form.js";

const ROW = 34;
const ABOUT =
  "A shadow decides on the same contexts without being followed. Its value is estimated from the rewards of the " +
  "policy in charge, and it can take charge with one click. Add one below.";
const ABOUT_DIFFERENCE =
  "Difference: what the shadow would have earned more for each decision than the policy in charge, on the same " +
  "decisions. Its bounds hold with 95 % at all times at once, so that you may look as often as you like. They get " +
  "narrow if the policy in charge now and then does what the shadow would do instead.";

const UNSUPPORTED =
  "The policy in charge hardly ever does what this one would do instead, so rewards can't tell what that would earn. " +
  "Give it a least_probability or an epsilon above 0.";

const digits = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const signed = (value) => `${value < 0 ? "−" : "+"}${digits.format(Math.abs(value))}`;
const bounds = ({ difference_low: low, difference_high: high }) => `[${signed(low)}, ${signed(high)}]`;
const isBetter = ({ compared, difference_low: low }) => compared > 0 && low > 0;

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
    const text = JSON.stringify([info.shadows, info.status]);
    if (text === this.drawn) return;
    this.drawn = text;
    const { shadows } = info;
    if (!shadows.length) {
      fill(find("shadow-list"), empty("No shadow policies", ABOUT));
      return;
    }
    const focused = this.list.contains(document.activeElement)
      ? document.activeElement.getAttribute("aria-label")
      : null;
    fill(this.list, this.table(info));
    if (!this.list.isConnected) {
      fill(find("shadow-list"), this.place, this.list, make("p", { className: "hint" }, ABOUT_DIFFERENCE));
    }
    const buttons = [...this.list.querySelectorAll("button")];
    if (focused) buttons.find((button) => button.getAttribute("aria-label") === focused)?.focus();
    const rows = shadows.filter(({ compared }) => compared > 0).map((shadow) => ({
      name: shadow.name, value: shadow.difference, low: shadow.difference_low, high: shadow.difference_high,
      better: isBetter(shadow),
    }));
    this.place.setAttribute("aria-hidden", "true"); // the table says it all
    this.chart.draw(rows);
    this.place.hidden = rows.length === 0;
  }

  table(info) {
    const columns = [
      ["Policy", ({ name }) => name],
      ["Kind", ({ policy }) => make("span", { title: parameters(policy) }, policy.name)],
      ["Difference", (row) => this.difference(row), "n"],
      [
        "Compared",
        ({ compared, effective }) => make("span", { title: `effective sample: ${count(effective)}` }, count(compared)),
        "n",
      ],
      ["Agrees", ({ agreed, decisions }) => share(agreed, decisions), "n"],
      ["Change", (row) => (info.status === "retired" ? "" : this.buttons(info, row)), "controls"],
    ];
    return table("Shadow policies, compared with the policy in charge", columns, info.shadows, "stack");
  }

  difference(row) {
    if (!row.compared) return "not yet known";
    const title = `On the same ${counted(row.compared, "decision")} the policy in charge earned ` +
      `${figure(row.in_charge)} each.${row.supported ? "" : ` ${UNSUPPORTED}`}`;
    return make("span", { title }, row.difference === null ? bounds(row) : `${signed(row.difference)} ${bounds(row)}`);
  }

  buttons(info, shadow) {
    const { name } = shadow;
    const watches = info.apprentice && name === "apprentice";
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
      `${evidence(shadow)} It decides from the next context on. ` +
      (watches ? "What the application sends as its own decision is ignored." : "The policy in charge now becomes a shadow called “former”."),
      isBetter(shadow) ? "Promote" : "Promote anyway", isBetter(shadow) ? "" : "danger", () => post(address(info.name, "shadows", name, "promote") + (isBetter(shadow) ? "" : "?force=true")),
    );
    const drop = () => act(
      `Remove ${name}?`, "What it has learnt is lost.", "Remove", "danger",
      () => remove(address(info.name, "shadows", name)),
    );
    return make("div", { className: "buttons" },
      make(
        "button",
        {
          type: "button", className: isBetter(shadow) ? "small" : "plain small", "aria-label": `Promote ${name}`,
          onclick: promote,
        },
        isBetter(shadow) ? "Promote" : "Promote…",
      ),
      watches ? "" : make(
        "button", { type: "button", className: "plain small", "aria-label": `Remove ${name}`, onclick: drop },
        "Remove",
      ));
  }
}

function evidence(shadow) {
  if (!shadow.compared) return "No rewarded decision compares it with the policy in charge yet.";
  const range = `${bounds(shadow)} on ${counted(shadow.compared, "decision")}`;
  return isBetter(shadow)
    ? `It earns more than the policy in charge: the difference is within ${range}.`
    : `It is not shown to earn more than the policy in charge: the difference is within ${range}.`;
}

function spec(colours, rows) {
  const names = rows.map(({ name }) => name);
  const y = { field: "name", type: "nominal", sort: names, title: null, scale: { domain: names }, axis: {
    ticks: false, domain: false, labelFontSize: 12, labelColor: colours.text,
  } };
  const colour = { condition: { test: "datum.better", value: colours.good ?? colours.accent }, value: colours.series[0] };
  const tooltip = [
    { field: "name", title: "policy" }, { field: "value", type: "quantitative", format: "+.4f", title: "difference" },
    { field: "low", type: "quantitative", format: "+.4f" },
    { field: "high", type: "quantitative", format: "+.4f" },
  ];
  const equal = {
    data: { values: [{ zero: 0 }] }, mark: { type: "rule", color: colours.accent, strokeDash: [4, 4] },
    encoding: { x: { field: "zero", type: "quantitative" } },
  };
  const x = {
    field: "low", type: "quantitative", title: "reward, more than the policy in charge",
    axis: { tickCount: 5, format: "+" },
  };
  const spread = {
    mark: { type: "rule", strokeWidth: 3, opacity: 0.45 }, encoding: { y, x, x2: { field: "high" }, color: colour, tooltip },
  };
  const points = {
    transform: [{ filter: "isValid(datum.value)" }], mark: { type: "point", filled: true, size: 90, opacity: 1 },
    encoding: { y, x: { field: "value", type: "quantitative" }, color: colour, tooltip },
  };
  const known = rows.some(({ value }) => value !== null);
  return { height: ROW * rows.length + 30, layer: [equal, spread, ...(known ? [points] : [])] };
}
