// Details of a decision: explanation, context, and a form for its reward.
import { address, get, post } from "./api.js";
import { figure, make, moment, shown } from "./dom.js";

const OF_ALL_ACTIONS = ["labels", "all-actions"]; // what policies observe that learn the rewards of all actions

/** Bars of the estimated rewards, with the relevant features of each action. */
export function estimates({ action, estimates: found, relevant }) {
  if (!found) return null;
  const all = Object.entries(found);
  const low = Math.min(0, ...all.map(([, value]) => value));
  const high = Math.max(
    1e-9, ...all.map(([, value]) => value), low === 0 && all.every(([, value]) => value <= 1) ? 1 : 0,
  );
  return make("div", { className: "bars" }, all.map(([name, value]) => {
    const bar = make("span", { className: "fill" });
    bar.style.setProperty("--share", `${(100 * (value - low)) / (high - low)}%`);
    const why = relevant?.[name]?.length ? make("small", {}, `because of ${relevant[name].join(", ")}`) : null;
    return make("div", { className: `estimate ${name === String(action) ? "chosen" : ""}` },
      make("span", {}, name), make("span", { className: "track" }, bar), make(
        "span", { className: "n" }, Math.abs(value) < 100 ? value.toFixed(3) : figure(value),
      ), why);
  }));
}

export function explained(told) {
  return make("div", {}, estimates(told), words(told.explanation));
}

/** An explanation line by line, indented, with amounts in a separate column. */
function words(text) {
  const lines = text.split("\n").filter((line) => line.trim());
  return make("div", { className: "words" }, lines.map((line) => {
    const [, space, amount, rest] = /^(\s*)([-+]?\d+\.\d+(?=\s))?(.*)$/.exec(line);
    const depth = Math.min(2, Math.ceil(space.length / 2));
    return make(
      "p", { className: `deep-${depth}` }, amount ? make("span", { className: "amount" }, amount) : null,
      rest.trim(),
    );
  }));
}

export function values(context) {
  return make("dl", { className: "values" }, Object.entries(context).map(([name, value]) =>
    make("div", {}, make("dt", { title: name }, name), make("dd", {}, shown(value)))));
}

/** The details below a decision; calls `learnt` when a reward was sent. */
export function details(info, recorded, learnt) {
  const why = make("div", {}, make("p", { className: "muted" }, "Asking why …"));
  get(address(info.name, "explain", recorded.decision)).then(
    (told) => why.replaceChildren(explained(told)),
    (problem) => why.replaceChildren(make("p", { className: "muted" }, problem.message)),
  );
  const times = [
    `Decided ${moment(recorded.at)}`,
    recorded.rewarded_at ? `rewarded ${moment(recorded.rewarded_at)}` : null,
    recorded.probability === null ? null : `probability ${figure(recorded.probability)}`,
  ];
  const form = recorded.outcome === "waiting" ? rewardForm(info, recorded, learnt) : null;
  return make("div", { className: "opened" }, why, values(recorded.context), form, make(
    "p", { className: "hint" }, times.filter(Boolean).join(" · "),
  ));
}

function rewardForm(info, recorded, learnt) {
  const several = OF_ALL_ACTIONS.includes(info.policy.parameters.observe);
  const error = make("p", { className: "error", role: "alert", id: `reward-${recorded.decision}-error` });
  const inputs = (several ? info.actions : [recorded.action]).map((action, place) => {
    const id = `reward-${recorded.decision}-${place}`;
    const input = make("input", { id, type: "number", step: "any", required: true, "aria-describedby": error.id });
    return { action, input, element: make(
      "div", { className: "field" }, make("label", { htmlFor: id }, several ? `Reward of ${action}` : "Reward"),
      input,
    ) };
  });
  const button = make("button", { className: "small" }, "Send reward");
  const form = make("form", { className: "inline" }, inputs.map(({ element }) => element), button);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    error.textContent = "";
    button.disabled = true;
    const given = inputs.map(({ action, input }) => [action, input.valueAsNumber]);
    const reward = several ? Object.fromEntries(given) : given[0][1];
    try {
      await post(address(info.name, "reward"), { decision: recorded.decision, reward }, true);
      learnt(reward);
    } catch (problem) {
      error.textContent = problem.message;
    } finally {
      button.disabled = false;
    }
  });
  return make("div", {}, form, error);
}
