// Contexts: an example, and a form.
import { showError, make } from "./dom.js";

export const MOST_FIELDS = 60;
const shortened = (value) => (typeof value === "number" ? Number(value.toPrecision(6)) : value ?? "");
const rounded = (value) => Number(value.toPrecision(3));

export function plausible(features) {
  return Object.fromEntries(features.map((feature) => [feature.name, middle(feature)]));
}

function middle({ kind, low, high, values }) {
  if (kind === "categorical") return values[0];
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
  return numberField(feature, id, value);
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
