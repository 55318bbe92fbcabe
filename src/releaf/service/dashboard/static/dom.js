// DOM helpers of all pages: elements, number formats, notices, confirmations.

/** Create an element with properties, attributes, listeners (on…) and children; strings become text nodes. */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element && name !== "list") element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

export const find = (id) => document.getElementById(id);

export function fill(place, ...children) {
  place.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined));
}

const whole = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });
const exact = new Intl.NumberFormat("en-GB", { maximumSignificantDigits: 4 });

export const count = (value) => (value === null || value === undefined ? "–" : whole.format(value));
export const figure = (value) => (value === null || value === undefined ? "–" : exact.format(value));
export const share = (part, all) => {
  if (!all) return "–";
  const percent = (100 * part) / all;
  return `${percent > 0 && percent < 10 ? percent.toFixed(1) : percent.toFixed(0)} %`;
};
export const counted = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;
export const clock = (at) => new Date(at).toLocaleTimeString("en-GB");
export const moment = (at) => new Date(at).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium" });
export const day = (at) => new Date(at).toLocaleDateString("en-GB", { dateStyle: "medium" });

/** Format a value of a context. */
export function shown(value) {
  if (value === null || value === undefined) return "missing";
  return typeof value === "number" ? exact.format(value) : String(value);
}

export function reward(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return figure(value);
  return Object.entries(value).map(([action, one]) => `${action}: ${figure(one)}`).join(", ");
}

export function duration(seconds) {
  for (const [unit, length] of [["day", 86400], ["hour", 3600], ["minute", 60]]) {
    if (seconds >= length && Number.isInteger(seconds / length)) return counted(seconds / length, unit);
  }
  return counted(seconds, "second");
}

/** A line for the terminal with a button that copies it. */
export function command(text) {
  const button = make("button", { type: "button", className: "plain small" }, "Copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
    } catch { // not allowed beyond a secure connection
      const range = document.createRange();
      range.selectNodeContents(line);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      document.execCommand("copy");
    }
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
  const line = make("pre", {}, text);
  return make("div", { className: "command" }, line, button);
}

export function curl(path, body) {
  const key = document.body.dataset.keys === "needed" ? " -H \"Authorization: Bearer $RELEAF_KEY\"" : "";
  const data = JSON.stringify(body).replaceAll("'", "'\\''");
  return `curl${key} -H 'Content-Type: application/json' ${location.origin}${path} -d '${data}'`;
}

export function empty(title, text, ...more) {
  return make("div", { className: "empty" }, make("strong", {}, title), text, ...more);
}

/** Show a notice at the top of the page; it replaces one with the same name. */
export function notice(name, text, kind = "") {
  document.querySelector(`.note[data-notice="${name}"]`)?.remove();
  if (!text) return;
  const close = make("button", { type: "button", className: "quiet", "aria-label": "Dismiss" }, "✕");
  const note = make("div", { className: `note ${kind}`, "data-notice": name }, make("span", {}, text), close);
  close.addEventListener("click", () => note.remove());
  find("notices").append(note);
  if (kind === "good") setTimeout(() => note.remove(), 6000);
}

/** Ask for confirmation of an irreversible action. */
export function confirmed(title, text, verb, kind = "danger") {
  const dialog = find("confirm");
  const yes = find("confirm-yes");
  find("confirm-title").textContent = title;
  find("confirm-text").textContent = text;
  yes.textContent = verb;
  yes.className = kind;
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}

/** Show an error next to a field, or clear it. */
export function showError(field, text, place = find(`${field.id}-error`)) {
  if (place) place.textContent = text ?? "";
  if (text) field.setAttribute("aria-invalid", "true");
  else field.removeAttribute("aria-invalid");
  return Boolean(text);
}

/** A table. Columns: [title, function of a row, "n" for numbers]; the first is the row header. */
export function table(caption, columns, rows, className = "") {
  const head = make("tr", {}, columns.map(([title, , kind]) => make(
    "th", { scope: "col", className: kind ?? "" },
    kind === "controls" ? make("span", { className: "hidden" }, title) : title,
  )));
  const body = rows.map((row) => make("tr", {}, columns.map(([title, cell, kind], place) =>
    place === 0 ? make("th", { scope: "row" }, cell(row)) : make(
      "td", { className: kind ?? "", "data-label": title }, cell(row),
    ))));
  return make(
    "table", { className }, make("caption", { className: "hidden" }, caption), make("thead", {}, head),
    make("tbody", {}, body),
  );
}
