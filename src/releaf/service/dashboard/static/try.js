// Preview of a decision for a context, and the decision itself on request.
import { address, get, post } from "./api.js";
import { MOST_FIELDS, contextFields } from "./context.js";
import { explained } from "./decision.js";
import { confirmed, empty, figure, fill, find, make } from "./dom.js";

export function tryForm(info) {
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

function previewed(told) {
  return make(
    "div", { className: "result" }, make("h3", {}, `It would choose ${told.action}`),
    make("p", { className: "hint" }, `${chance(told)}.`), explained(told),
  );
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
