// Preview of a decision for a context, and the decision itself on request.
import { address, get, post } from "./api.js";
import { MOST_FIELDS, contextFields, firstDecision, isHashed } from "./context.js";
import { explained } from "./decision.js";
import { command, confirmed, count, empty, figure, fill, find, make, share } from "./dom.js";

const CERTAIN = 0.9975; // all of 400 draws
const MOST_SHOWN = 12;
const OF_ONE_DRAW = /^(It would|The reward is|No reward was|Its reward is)/; // lines of an explanation

const HASHED =
  "Contexts are columns of numbers that the service makes from the features of Rank requests, so there is no form for " +
  "them. Ask for a decision from a terminal:";
const NO_ACTIONS = "Actions come with the requests. Ask for a decision from a terminal:";

/** A command in place of a form that would be of no use, until there are actions; returns the same as `tryForm`. */
function tryElsewhere(info, text) {
  fill(find("try-form"), make("p", {}, text), command(firstDecision(info)));
  let form = null;
  return (now) => {
    if (!form && now.actions.length && !isHashed(now)) {
      fill(find("try-form"));
      form = tryForm(now);
    }
    form?.(now);
  };
}

export function tryForm(info) {
  if (isHashed(info)) return tryElsewhere(info, HASHED);
  if (!info.actions.length) return tryElsewhere(info, NO_ACTIONS);
  const form = find("try-form");
  const inputs = make("div", { className: info.features.length > MOST_FIELDS ? "" : "inputs" });
  const error = make("p", { className: "error", role: "alert" });
  const preview = make("button", { id: "preview" }, "Preview");
  const decide = make("button", { type: "button", className: "plain", id: "decide" }, "Decide for real");
  fill(find("try-result"), empty(
    "What it would choose, and why",
    "Fill in a context and preview it: what is expected of each action, and the reasons, appear here.",
  ));
  let context = () => null;
  get(`${address(info.name, "decisions")}?limit=1`).catch(() => ({ decisions: [] })).then(({ decisions }) => {
    context = contextFields(inputs, info.features, decisions[0]?.context); // the latest one, to begin with
  });
  form.append(make(
    "p", { className: "hint" }, "A preview shows what would be decided now, and why; it leaves no trace.",
  ), inputs, error,
    make("div", { className: "buttons start" }, preview, decide));

  async function run(send, show, asked = async () => true) {
    const given = context();
    error.textContent = "";
    if (given === null) return form.querySelector("[aria-invalid=true]")?.focus();
    if (!(await asked())) return undefined;
    try {
      fill(find("try-result"), show(await send(given)));
    } catch (problem) {
      error.textContent = problem.message;
    }
    return undefined;
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    run((given) => post(address(info.name, "preview"), { context: given }, true), previewed);
  });
  decide.addEventListener("click", () => run((given) => {
    const key = `dashboard-${Date.now()}-${Math.random().toString(36).slice(2)}`; // so that it may be sent twice
    return post(address(info.name, "decide"), { context: given, key }, true);
  }, decided, reallyDecide));
  return (now) => {
    decide.disabled = now.status === "retired";
  };
}

function reallyDecide() {
  return confirmed(
    "Decide on this context?",
    "The decision is counted like every other and stays in the log; it may ask for a reward, and so spend a label.",
    "Decide", "",
  );
}

function chance({ probability, explored }) {
  const how = explored ? "to explore" : "as the best known";
  return probability === null ? how : `${how}, with probability ${figure(probability)}`;
}

/** How often each action would be chosen, and the reasons: those of one draw, without the draw. */
function previewed(told) {
  const all = Object.entries(told.distribution).toSorted(([, one], [, other]) => other - one);
  const [action, often] = all[0];
  const certain = often >= CERTAIN;
  const reasons = told.explanation.split("\n").filter((line) => !OF_ONE_DRAW.test(line));
  return make(
    "div", { className: "result" },
    make("h3", {}, `It would choose ${action}${certain ? "" : ` in ${share(often, 1)} of cases`}`),
    make("p", { className: "hint" }, certain ? "It always does in this context." : `Shares of ${count(told.draws)} draws in this context:`),
    certain ? null : distribution(all), make("h4", {}, "Estimated rewards"),
    explained({ ...told, action, explanation: reasons.join("\n") }),
  );
}

function distribution(all) {
  const shown = all.slice(0, MOST_SHOWN);
  const rest = all.slice(MOST_SHOWN).reduce((sum, [, often]) => sum + often, 0);
  if (all.length > MOST_SHOWN) shown.push([`${all.length - MOST_SHOWN} others`, rest]);
  return make("div", { className: "bars distribution" }, shown.map(([name, often], place) => {
    const bar = make("span", { className: "fill" });
    bar.style.setProperty("--share", `${100 * often}%`);
    return make(
      "div", { className: `estimate ${place === 0 ? "chosen" : ""}` }, make("span", {}, name),
      make("span", { className: "track" }, bar), make("span", { className: "n" }, share(often, 1)),
    );
  }));
}

function decided(answer) {
  const then = answer.wants_reward
    ? "It waits for its reward: open it in the feed to enter one."
    : "No reward is asked for.";
  return make(
    "div", { className: "result" }, make("h3", {}, `Decision ${answer.decision}: ${answer.action}`),
    make("p", { className: "hint" }, `${chance(answer)}. ${then}`), explained({ ...answer, explanation: "" }),
  );
}
