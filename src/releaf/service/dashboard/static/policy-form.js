// Form to choose a policy and its parameters; sends only values that differ from the defaults.
import { get } from "./api.js";
import { showError, make } from "./dom.js";

const OURS = "AdaptiveReleaf";
let known;
const policies = () => (known ??= get("/v1/policies").then((answer) => answer.policies));

/** Add the fields to an element; returns functions for the chosen policy and for errors that name a parameter. */
export async function policyForm(place, prefix) {
  const all = await policies();
  const choice = make(
    "select", { id: `${prefix}-policy` },
    all.map(({ name }) => make("option", { value: name, selected: name === OURS }, name)),
  );
  const summary = make("p", { className: "hint" });
  const inputs = make("div", { className: "inputs" });
  const settings = make("details", {}, make("summary", {}, "Parameters"), make("div", { className: "field" }, inputs));
  place.append(
    make("div", { className: "field" }, make("label", { htmlFor: choice.id }, "Policy"), choice, summary),
    settings,
  );
  let fields = [];

  function show() {
    const { summary: text, parameters } = all.find(({ name }) => name === choice.value);
    summary.textContent = text;
    fields = Object.entries(parameters).map(([name, usual]) => parameter(prefix, name, usual));
    inputs.replaceChildren(...fields.map(({ element }) => element));
    settings.hidden = fields.length === 0;
  }
  choice.addEventListener("change", show);
  show();
  return {
    chosen: () => ({ name: choice.value, parameters: Object.fromEntries(fields.flatMap((field) => field.changed())) }),
    /** Show an error next to the parameter that it names, if any. */
    assignError(text) {
      const field = fields.find(({ name }) => new RegExp(`\\b${name}\\b`).test(text));
      if (!field) return false;
      settings.open = true;
      field.showError(text);
      field.input.focus();
      return true;
    },
    clearErrors: () => fields.forEach((field) => field.showError(null)),
  };
}

function parameter(prefix, name, usual) {
  const id = `${prefix}-${name}`;
  const error = make("p", { className: "error", id: `${id}-error` });
  const told = { id, "aria-describedby": error.id };
  if (typeof usual === "boolean") {
    const input = make("input", { type: "checkbox", checked: usual, ...told });
    const element = make(
      "div", { className: "field tick" }, make("label", { className: "check", htmlFor: id }, input, name),
      error,
    );
    return {
      name, input, element, showError: (text) => showError(input, text, error),
      changed: () => (input.checked === usual ? [] : [[name, input.checked]]),
    };
  }
  const input = make("input", { spellcheck: false, placeholder: usual === null ? "none" : written(usual), ...told });
  const element = make("div", { className: "field" }, make("label", { htmlFor: id }, name), input, error);
  return {
    name, input, element,
    showError: (text) => showError(input, text, error),
    changed: () => (input.value.trim() === "" ? [] : [[name, read(input.value.trim())]]),
  };
}

const written = (value) => (typeof value === "string" ? value : JSON.stringify(value));

/** Parse a number, list or boolean; other input stays text. */
function read(text) {
  if (text === "none") return null;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
