// Page of all experiments.
import { get } from "./api.js";
import { command, count, counted, curl, day, empty, figure, fill, find, make, notice, share } from "./dom.js";

const EVERY = 5000;
const FIRST = {
  name: "triage",
  actions: ["discharge", "refer"],
  features: [{ name: "age", kind: "continuous", low: 0, high: 120 }, { name: "smoker", kind: "boolean" }],
};

function card({ name, status, policy, actions, features, counts, label_budget: budget, labels_spent: number, labels: outlook, messages, alerts, created }) {
  const known = counts ?? {}; // not known where another process serves the experiment
  const spent = outlook?.spent ?? number;
  const labels = budget === null || !counts ? count(known.asked) : `${count(spent ?? known.asked)} / ${count(budget)}`;
  const figures = [
    ["Decisions", count(known.decisions)],
    ["Explored", share(known.explored, known.decisions)],
    ["Mean reward", figure(known.mean_reward)],
    ["Labels", labels],
  ];
  return make("li", {}, make("article", { className: "card experiment" },
    make("div", { className: "card-head" },
      make("h2", {}, make("a", { href: `/experiments/${encodeURIComponent(name)}` }, name)),
      make("span", { className: `pill ${status}` }, status)),
    make(
      "p", { className: "muted small" },
      [
        policy.name, counted(actions.length, "action"), counted(features.length, "feature"),
        `since ${day(created)}`,
      ].join(" · "),
    ),
    messages.length ? make("p", { className: "error" }, messages[0]) : null,
    alerts.filter(({ severity }) => severity !== "info").slice(0, 2).map(({ severity, text }) => make(
      "p", { className: severity === "critical" ? "error" : "caution" }, `${text}.`,
    )),
    make(
      "dl", { className: "figures" },
      figures.map(([term, value]) => make("div", {}, make("dt", {}, term), make("dd", {}, value))),
    )));
}

function nothingYet() {
  return make("div", { className: "card narrow" }, empty("No experiments yet",
    "An experiment decides among some actions, one case at a time, and learns from rewards which features matter. " +
      "Fill in a form, or send one request:",
    make("div", { className: "buttons start" }, make(
      "a", { className: "button", href: "/new" }, "Create the first experiment",
    )),
    command(curl("/v1/experiments", FIRST))));
}

let drawn = null;

async function refresh() {
  const { experiments } = await get("/v1/experiments");
  if (JSON.stringify(experiments) === drawn) return;
  drawn = JSON.stringify(experiments);
  const place = find("list");
  const focused = place.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  find("new-link").hidden = experiments.length === 0;
  fill(place, experiments.length ? make("ul", { className: "experiments" }, experiments.map(card)) : nothingYet());
  place.setAttribute("aria-busy", "false");
  if (focused) [...place.querySelectorAll("a")].find((link) => link.getAttribute("href") === focused)?.focus();
}

async function keepFresh() {
  try {
    if (!document.hidden) await refresh();
  } catch (problem) {
    notice("list", problem.message, "bad");
  }
  setTimeout(keepFresh, EVERY);
}

keepFresh();
