// Contexts: an example, and a form.
import { curl, showError, make } from "./dom.js";

export const MOST_FIELDS = 60;
const shortened = (value) => (typeof value === "number" ? Number(value.toPrecision(6)) : value ?? "");
const rounded = (value) => Number(value.toPrecision(3));

export function plausible(features) {
  return Object.fromEntries(features.map((feature) => [feature.name, middle(feature)]));
}

const MANY_COLUMNS = 8;
const arePlain = (features, letter) => features.every(({ name }, place) => name === `${letter}${place}`);

/** Whether features have no names but those of columns, which the service makes from the features of Rank requests. */
export function isHashed({ features, action_features: own }) {
  return features.length > MANY_COLUMNS && own !== null && arePlain(features, "x") && arePlain(own, "y");
}

/** A command that asks for a decision. */
export function firstDecision(info) {
  const path = `/v1/experiments/${encodeURIComponent(info.name)}`;
  if (isHashed(info)) {
    const dishes = ["soup", "salad"].map((id) => ({ id, features: [{ dish: id }] }));
    return curl(`${path}/personalizer/v1.0/rank`, { contextFeatures: [{ plan: "plus" }], actions: dishes });
  }
  const asked = { context: plausible(info.features) };
  if (!info.actions.length) asked.actions = { example: plausible(info.action_features ?? []) };
  return curl(`${path}/decide`, asked);
}

function middle({ kind, low, high, values }) {
  if (kind === "categorical") return values[0];
  if (kind === "datetime") return new Date().toISOString().slice(0, 16);
  if (kind === "boolean") return true;
  return kind === "quantile" ? 1 : rounded((low + high) / 2);
}

/** Add the fields of a context to an element; returns a function that reads the context, or null if it is invalid. */
export function contextFields(place, features, example = plausible(features)) {
  if (features.length > MOST_FIELDS) return asText(place, example);
  const fields = features.map((feature, index) => field(feature, `context-${index}`, example[feature.name] ?? null));
  place.append(...fields.map(({ element }) => element));
  return () => {
    const values = fields.map((one) => [one.name, one.read()]);
    return values.some(([, value]) => value === undefined) ? null : Object.fromEntries(values);
  };
}

function field(feature, id, value) {
  if (feature.kind === "categorical") return choice(feature, id, feature.values, value);
  if (feature.kind === "boolean") return feature.missing ? choice(
    feature, id, [true, false], value,
  ) : tick(feature, id, value);
  return feature.kind === "datetime" ? dateField(feature, id, value) : numberField(feature, id, value);
}

/** A date and a time, as the clock on the wall shows them: a context has no time zone, unless its text names one. */
function dateField({ name, missing }, id, example) {
  const error = make("p", { className: "error", id: `${id}-error` });
  const value = example === null ? "" : String(example).replace(" ", "T").slice(0, 16);
  const input = make("input", {
    id, type: "datetime-local", value: value.length === 10 ? `${value}T00:00` : value,
    "aria-describedby": `${id}-hint ${id}-error`,
  });
  const element = make(
    "div", { className: "field" }, make("label", { htmlFor: id }, name), input,
    make("p", { className: "hint", id: `${id}-hint` }, missing ? "date and time; empty: missing" : "date and time"), error,
  );
  const read = () => {
    const wrong = input.validity.badInput || (!input.value && !missing) ? "Expected a date and a time." : "";
    if (showError(input, wrong, error)) return undefined;
    return input.value || null;
  };
  return { name, element, read };
}

function tick({ name }, id, value) {
  const input = make("input", { type: "checkbox", id, checked: Boolean(value) });
  const element = make("div", { className: "field tick" }, make(
    "label", { className: "check", htmlFor: id }, input, name,
  ));
  return { name, element, read: () => input.checked };
}

function choice({ name, missing }, id, values, chosen) {
  const options = values.map((value, place) => make(
    "option", { value: place, selected: value === chosen }, String(value),
  ));
  if (missing) options.push(make("option", { value: "missing", selected: chosen === null }, "(missing)"));
  const input = make("select", { id }, options);
  const element = make("div", { className: "field" }, make("label", { htmlFor: id }, name), input);
  return { name, element, read: () => (input.value === "missing" ? null : values[Number(input.value)]) };
}

function numberField(feature, id, example) {
  const { name, kind, low, high, clip, missing } = feature;
  const bounded = kind === "continuous" && !clip;
  const error = make("p", { className: "error", id: `${id}-error` });
  const hint = [
    kind === "continuous" ? `${low} to ${high}` : "any number", missing ? "empty: missing" : null,
  ].filter(Boolean).join(", ");
  const input = make("input", {
    id, type: "number", step: "any", value: shortened(example), "aria-describedby": `${id}-hint ${id}-error`,
  });
  if (bounded) Object.assign(input, { min: low, max: high });
  const element = make(
    "div", { className: "field" }, make("label", { htmlFor: id }, name), input,
    make("p", { className: "hint", id: `${id}-hint` }, hint), error,
  );
  const wrong = (value) => {
    if (input.validity.badInput) return "Expected a number.";
    if (Number.isNaN(value)) return missing ? "" : "Expected a number.";
    return bounded && !(low <= value && value <= high) ? `Expected a number from ${low} to ${high}.` : "";
  };
  const read = () => {
    const value = input.valueAsNumber;
    if (showError(input, wrong(value), error)) return undefined;
    return Number.isNaN(value) ? null : value;
  };
  return { name, element, read };
}

function asText(place, example) {
  const error = make("p", { className: "error", id: "context-error" });
  const input = make("textarea", {
    id: "context", rows: 10, spellcheck: false, value: JSON.stringify(example, null, 1),
    "aria-describedby": error.id,
  });
  place.append(make(
    "div", { className: "field whole" }, make("label", { htmlFor: "context" }, "Context, as JSON"), input,
    error,
  ));
  return () => {
    try {
      const context = JSON.parse(input.value);
      showError(input, "", error);
      return context;
    } catch (problem) {
      showError(input, `This is no JSON: ${problem.message}`, error);
      return null;
    }
  };
}
