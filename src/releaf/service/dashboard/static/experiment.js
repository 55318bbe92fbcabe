// Page of one experiment: assembles its parts, and refreshes them on events.
import { address, get, post, remove } from "./api.js";
import { Changes } from "./changes.js";
import { controlGroup } from "./control.js";
import { Feed } from "./feed.js";
import { confirmed, count, counted, day, duration, empty, fill, find, make, notice, reward, table } from "./dom.js";
import { Records } from "./records.js";
import { Relevance } from "./relevance.js";
import { Series, tiles } from "./series.js";
import { Shadows } from "./shadows.js";
import { Summary } from "./summary.js";
import { tryForm } from "./try.js";

const EVERY = 1000; // at most so often are figures asked for while events come
const ANYWAY = 15_000; // and so often when none come: deadlines pass silently
const { name } = document.body.dataset;
const STATUS = {
  damaged: "The experiment can't go on: its log is damaged. What can be read of it is below.",
  standby:
    "Another process writes this experiment. This one takes over when that stops; until then it refuses decisions.",
  recovering: "The experiment is being brought back from its log; decisions are taken in a moment.",
  retired: "Retired: no more decisions are taken. Everything stays readable.",
};

let parts;
let info;

function headline() {
  const { status, policy, actions, features, created, messages, alerts } = info;
  find("status").textContent = status;
  find("status").className = `pill ${status}`;
  find("status").hidden = false;
  find("summary").textContent = [
    policy.name, counted(actions.length, "action"), counted(features.length, "feature"),
    `since ${day(created)}`,
  ].join(" · ");
  const told = JSON.stringify([status, messages, alerts]);
  if (headline.told === told) return;
  headline.told = told;
  fill(find("messages"), STATUS[status] ? make(
    "p", { className: status === "retired" ? "note" : "note warn" }, STATUS[status],
  ) : null,
    alertList(alerts), messages.map((message) => make("p", { className: "note warn" }, message)));
}

const GRAVITY = { critical: "bad", warning: "warn", info: "" };

/** What is wrong, and what to do about it. */
function alertList(alerts) {
  if (!alerts.length) return null;
  return make("ul", { className: "alerts", "aria-label": "Alerts" }, alerts.map(({ severity, text, advice }) => make(
    "li", { className: `note ${GRAVITY[severity]}` },
    make("span", { className: "hidden" }, `${severity}: `), make("strong", {}, `${text}.`), ` ${advice}.`,
  )));
}

function actionList() {
  const told = JSON.stringify([info.actions, info.status]);
  if (actionList.told === told) return;
  actionList.told = told;
  const retired = info.status === "retired";
  find("action-form").hidden = retired;
  const chip = (action) => make("li", { className: "chip" }, String(action), retired ? "\u2002" : make("button", {
    type: "button", "aria-label": `Retire action ${action}`, onclick: () => retireAction(action),
  }, "Retire"));
  fill(find("action-list"), info.actions.length
    ? make("ul", { className: "chips" }, info.actions.map(chip))
    : make("p", { className: "hint" }, "None yet: they come with the requests."));
}

async function retireAction(action) {
  if (!(await confirmed(
    `Retire the action ${action}?`,
    "It is not chosen any more. Decisions that it was chosen for stay in the log.", "Retire",
  ))) return;
  await attempt(find("action-error"), async () => show(await remove(address(name, "actions", action))));
}

async function addAction(event) {
  event.preventDefault();
  const input = find("new-action");
  const action = input.value.trim();
  if (!action) return;
  await attempt(find("action-error"), async () => {
    show(await post(address(name, "actions"), { action }));
    input.value = "";
  });
}

async function attempt(place, act) {
  place.textContent = "";
  try {
    await act();
  } catch (problem) {
    place.textContent = problem.message;
  }
}

function facts() {
  const { policy, rewards, events, snapshot, features } = info;
  const given = Object.entries(policy.parameters).map(([key, value]) => `${key} = ${JSON.stringify(value)}`).join(", ");
  const then = rewards.default === null ? "the decision is dropped" : `${reward(rewards.default)} counts`;
  const late = rewards.within_seconds === null
    ? "no deadline"
    : `within ${duration(rewards.within_seconds)}, then ${then}`;
  const all = [
    ["Policy in charge", given ? `${policy.name}: ${given}` : policy.name], ["Rewards", late],
    ["Event log", `${counted(events, "event")}, snapshot at ${count(snapshot)}`],
  ];
  fill(find("facts"), all.flatMap(([term, text]) => [make("dt", {}, term), make("dd", {}, text)]));
  find("features-summary").textContent = counted(features.length, "feature");
  find("retire").hidden = info.status === "retired";
}

/** Created when it is opened: there may be thousands. */
function featureTable() {
  fill(find("feature-list"), table(
    "Features",
    [["Feature", (one) => one.name], ["Kind", ({ kind }) => kind], ["Values", range], [
      "Missing", ({ missing }) => (missing ? "allowed" : "no"),
    ]],
    info.features,
  ));
}

function range({ kind, low, high, values, clip }) {
  if (kind === "datetime") return "date and time";
  if (kind === "continuous") return `${low} to ${high}${clip ? ", clipped" : ""}`;
  return kind === "categorical" ? values.join(", ") : kind === "boolean" ? "true, false" : "any number, by rank";
}

async function retire() {
  if (!(await confirmed(
    `Retire ${name}?`, "No more decisions are taken, and this can't be undone. Everything stays readable.",
    "Retire",
  ))) return;
  await attempt(find("retire-error"), async () => show(await remove(address(name))));
}

/** Show the fields of the experiment's description. */
function show(answer) {
  info = answer;
  headline();
  actionList();
  facts();
  find("page").hidden = !info.counts; // which this process does not know while another one serves the experiment
  if (!info.counts) return;
  tiles(info);
  fill(find("headline-control"), controlGroup(info));
  if (!parts) return;
  parts.shadows.draw(info);
  parts.tried(info);
  parts.feed.info = info;
}

async function refresh() {
  show(await get(address(name)));
  if (!info.counts) return;
  parts ??= furnish();
  await drawSeries();
  const relevance = info.actions.length ? parts.relevance.refresh(info) : parts.relevance.showNone();
  await Promise.all([relevance, parts.records.follow(info), parts.changes.refresh(info)]);
}

/** Charts and figures of the range of time; only the latest of requests that overlap is drawn. */
async function drawSeries() {
  const { series, summary } = parts;
  const asked = drawSeries.asked = {};
  const query = series.query();
  const [{ points }, found] = await Promise.all([
    get(`${address(name, "series")}?${query}`), summary.read(info, series.range.query()),
  ]);
  if (drawSeries.asked !== asked) return;
  series.draw(points, info, found);
  summary.draw(found);
}

let happened = true;

/** After a choice of the reader, at once. */
const redraw = () => drawSeries().catch((problem) => notice("refresh", problem.message, "bad"));

/** The parts of the page that need data. */
function furnish() {
  const made = {
    series: new Series(redraw), summary: new Summary(redraw), relevance: new Relevance(info), shadows: new Shadows(show),
    records: new Records(info), changes: new Changes(info), tried: tryForm(info), feed: new Feed(info, () => { happened = true; }),
  };
  made.shadows.draw(info);
  made.tried(info);
  made.shadows.form(info).catch((problem) => notice("policies", problem.message, "bad"));
  return made;
}

/** Refresh after events, about once a second, and never while the page is hidden. */
function keepFresh() {
  let last = 0;
  const turn = async () => {
    if (!document.hidden && (happened || Date.now() - last > ANYWAY)) {
      happened = false;
      try {
        await refresh();
        notice("refresh", null);
      } catch (problem) {
        notice("refresh", problem.message, "bad");
      }
      last = Date.now();
      happened ||= !info.counts; // until this process has them
    }
    setTimeout(turn, EVERY);
  };
  document.addEventListener("visibilitychange", () => { happened = true; });
  turn();
}

function cannotShow({ status, message }) {
  const title = status === 404 ? `There is no experiment called ${name}` : "The experiment can't be shown";
  return empty(title, message, make("div", { className: "buttons start" },
    make("a", { className: "button", href: "/" }, "All experiments"),
    make("a", { className: "button plain", href: "/new" }, "New experiment")));
}

async function start() {
  try {
    show(await get(address(name)));
  } catch (problem) {
    find("summary").textContent = "";
    fill(find("messages"), make("div", { className: "card narrow" }, cannotShow(problem)));
    return;
  }
  find("model").href = address(name, "model");
  find("model").download = `${name}.releaf`;
  find("action-form").addEventListener("submit", addAction);
  find("retire").addEventListener("click", retire);
  find("features-summary").parentElement.addEventListener("toggle", featureTable, { once: true });
  keepFresh();
}

start();
