// Form to create an experiment, with errors next to their fields.
import { post } from "./api.js";
import { showError, find, make } from "./dom.js";
import { policyForm } from "./policy-form.js";

const KINDS = [
  ["unit", "value in [0, 1]"],
  ["continuous", "number in a range"],
  ["quantile", "number of unknown range"],
  ["categorical", "one of some values"],
  ["boolean", "true or false"],
];
let made = 0;

function featureRow() {
  made += 1;
  const id = `feature-${made}`;
  const error = make("p", { className: "error", id: `${id}-error` });
  const name = make("input", {
    id, placeholder: "name", "aria-label": `Name of feature ${made}`, spellcheck: false,
    "aria-describedby": error.id,
  });
  const kind = make(
    "select", { "aria-label": `Kind of feature ${made}` },
    KINDS.map(([value, text]) => make("option", { value }, text)),
  );
  const low = make("input", {
    inputMode: "decimal", placeholder: "lowest", "aria-label": `Lowest value of feature ${made}`,
  });
  const high = make("input", {
    inputMode: "decimal", placeholder: "highest", "aria-label": `Highest value of feature ${made}`,
  });
  const values = make("input", {
    placeholder: "red, green, blue", "aria-label": `Values of feature ${made}, with commas`, spellcheck: false,
  });
  const missing = make("input", { type: "checkbox" });
  const options = make("div", { className: "options" });
  const allowed = make("label", { className: "check small" }, missing, "may be missing");
  const drop = make("button", { type: "button", className: "quiet", "aria-label": `Remove feature ${made}` }, "✕");
  const element = make(
    "div", { className: "feature-row", role: "group", "aria-label": `Feature ${made}` }, name, kind, options,
    allowed, drop, error,
  );
  const row = { element, name, kind, low, high, values, missing, error };
  const show = () => {
    const shown = { continuous: [make("div", { className: "range" }, low, "to", high)], categorical: [values] };
    options.replaceChildren(...(shown[kind.value] ?? []));
    allowed.hidden = kind.value === "unit";
  };
  kind.addEventListener("change", show);
  drop.addEventListener("click", () => {
    rows.splice(rows.indexOf(row), 1);
    element.remove();
    find("add-feature").focus();
  });
  show();
  rows.push(row);
  find("features").append(element);
  return row;
}

const rows = [];
const lines = (text) => text.split("\n").map((line) => line.trim()).filter(Boolean);
/** NaN if the text is empty or not a number. */
const number = (text) => (text.trim() === "" ? NaN : Number(text.trim().replace(",", ".")));

/** The feature of a row; [null, error] if it is invalid. */
function described({ name, kind, low, high, values, missing }) {
  const feature = { name: name.value.trim(), kind: kind.value, missing: missing.checked };
  if (!feature.name) return [null, "Give the feature a name."];
  if (kind.value === "unit") return [feature.name];
  if (kind.value === "continuous") {
    Object.assign(feature, { low: number(low.value), high: number(high.value) });
    if (!(feature.low < feature.high)) return [
      null, `Give ${feature.name} a lowest and a highest value, the lowest first.`,
    ];
  }
  if (kind.value === "categorical") {
    feature.values = values.value.split(",").map((value) => value.trim()).filter(Boolean);
    if (!feature.values.length) return [null, `Give ${feature.name} its values, with commas between them.`];
    const different = new Set(feature.values).size;
    if (different < feature.values.length) return [null, `A value of ${feature.name} is there twice.`];
  }
  return [feature];
}

function features() {
  const found = [];
  let wrong = false;
  for (const row of rows) {
    const untouched = !row.name.value.trim()
      && rows.length + lines(find("many-names").value).length > 1
      && row.kind.value === "unit";
    if (untouched) continue;
    const [feature, problem] = described(row);
    wrong = showError(row.name, problem, row.error) || wrong;
    found.push(feature);
  }
  found.push(...lines(find("many-names").value));
  const names = found.map((feature) => feature?.name ?? feature);
  const twice = names.find((name, place) => name !== null && names.indexOf(name) < place);
  const problem = found.length === 0
    ? "An experiment needs at least one feature."
    : twice
    ? `The feature ${twice} is there twice.`
    : "";
  find("features-error").textContent = wrong ? "" : problem;
  return wrong || problem ? null : found;
}

function rewards() {
  const within = find("within").value.trim() === "" ? null : number(find("within").value) * Number(find("unit").value);
  const usual = find("default").value.trim() === "" ? null : number(find("default").value);
  const noTime = within !== null && !(within > 0) ? "Expected a number above 0, or nothing." : "";
  const noReward = Number.isNaN(usual)
    ? "Expected a number, or nothing."
    : usual !== null
    && within === null
    ? "A default reward needs a deadline."
    : "";
  const wrong = [showError(find("within"), noTime), showError(find("default"), noReward)].some(Boolean);
  return wrong ? null : { within_seconds: within, default: usual };
}

function experiment(policy) {
  const name = find("name").value.trim();
  const actions = lines(find("actions").value);
  const noName = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/.test(name)
    ? ""
    : "Expected 1 to 64 letters, digits, _ . or -, with a letter or digit first.";
  const noActions = actions.length === 0
    ? "An experiment needs at least one action."
    : new Set(actions).size < actions.length
    ? "An action is there twice."
    : "";
  const asked = { name, actions, features: features(), policy: policy.chosen(), rewards: rewards() };
  const wrong = [showError(find("name"), noName), showError(find("actions"), noActions)].some(Boolean);
  return wrong || !asked.features || !asked.rewards ? null : asked;
}

/** Show an error of the service next to the field that its message names. */
function assignError(problem, policy) {
  if (
    problem.status === 409 || /\bname\b/.test(problem.message.split(":")[0])
  ) return showError(find("name"), problem.message);
  if (policy.assignError(problem.message)) return true;
  const row = rows.find(({ name }) => name.value.trim() && problem.message.includes(`'${name.value.trim()}'`));
  if (row) return showError(row.name, problem.message, row.error);
  if (/\bactions?\b/.test(problem.message)) return showError(find("actions"), problem.message);
  find("form-error").textContent = problem.message;
  return true;
}

async function create(event, policy) {
  event.preventDefault();
  find("form-error").textContent = "";
  policy.clearErrors();
  const asked = experiment(policy);
  if (asked) {
    find("create").disabled = true;
    const slowNotice = setTimeout(
      () => {
        find("create-note").textContent =
          "A policy is compiled when it is first used on a machine, which can take a minute or two …";
      },
      2000,
    );
    try {
      await post("/v1/experiments", asked);
      location.assign(`/experiments/${encodeURIComponent(asked.name)}`);
      return;
    } catch (problem) {
      assignError(problem, policy);
    } finally {
      clearTimeout(slowNotice);
      find("create-note").textContent = "";
      find("create").disabled = false;
    }
  }
  find("new").querySelector("[aria-invalid=true]")?.focus();
}

featureRow();
find("add-feature").addEventListener("click", () => featureRow().name.focus());
try {
  const policy = await policyForm(find("policy"), "new");
  find("new").addEventListener("submit", (event) => create(event, policy));
} catch (problem) {
  find("form-error").textContent = problem.message;
}
