// Vega-Lite charts on a canvas: redrawn if their shape or the theme changes, otherwise only updated with new data.
import { make } from "./dom.js";

const COLOURS = 8;
let loading;

/** Load the chart library; it is large, so the page does not wait for it. */
function library() {
  loading ??= new Promise((resolve, reject) => {
    const script = make("script", { src: "/static/vega.js" });
    script.addEventListener("load", () => resolve(window.vegaEmbed));
    script.addEventListener("error", () => {
      loading = undefined;
      script.remove();
      reject(new Error("The charts can't be drawn: /static/vega.js did not load."));
    });
    document.head.append(script);
  });
  return loading;
}

/** A colour of the style sheet in the current theme. */
function colour(name) {
  const probe = make("i", { hidden: true });
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

export function palette() {
  const series = Array.from({ length: COLOURS }, (_, place) => colour(`c${place + 1}`));
  return {
    text: colour("text"), muted: colour("muted"), line: colour("edge"), grid: colour("grid"),
    warn: colour("warn"), accent: colour("accent"), surface: colour("surface"), series,
  };
}

/** A colour for each name, the same in all charts. */
export function scale(names, colours) {
  return { domain: names, range: names.map((_, place) => colours.series[place % COLOURS]) };
}

const look = (colours) => ({
  background: null,
  font: getComputedStyle(document.body).fontFamily,
  view: { stroke: null },
  axis: {
    labelColor: colours.muted, labelFontSize: 11, labelOverlap: "greedy", labelSeparation: 6, labelLimit: 120,
    titleColor: colours.muted, titleFontWeight: "normal", titleFontSize: 11,
    gridColor: colours.grid, domainColor: colours.grid, tickColor: colours.grid,
  },
  legend: {
    labelColor: colours.text, labelFontSize: 11, title: null, orient: "bottom", symbolOpacity: 1,
    labelLimit: 140,
  },
  text: { color: colours.text },
});

/** Own tooltips, because those of the library inject a style sheet and build HTML from data. */
const bubble = make("div", { className: "tooltip", hidden: true });
function tooltip(handler, event, item, value) {
  if (!value || typeof value !== "object") {
    bubble.hidden = true;
    return;
  }
  bubble.replaceChildren(...Object.entries(value).map(([name, told]) => make(
    "div", {}, make("span", {}, name), make("b", {}, String(told)),
  )));
  bubble.hidden = false;
  document.body.append(bubble);
  const left = Math.min(event.clientX + 14, innerWidth - bubble.offsetWidth - 8);
  bubble.style.left = `${Math.max(left, 8)}px`;
  bubble.style.top = `${Math.max(event.clientY - bubble.offsetHeight - 10, 8)}px`;
}

export class Chart {
  /** `describe(colours, rows)` returns the Vega-Lite specification, whose data set is named "rows". */
  constructor(place, describe) {
    this.place = place;
    this.describe = describe;
    this.last = Promise.resolve();
    document.addEventListener("themechange", () => this.rows && this.draw(this.rows));
    new ResizeObserver(() => this.fit()).observe(place);
  }

  /** Draw rows, after a drawing that is in progress. */
  draw(rows) {
    this.rows = rows;
    this.last = this.last.then(() => this.redraw(rows)).catch((problem) => {
      this.shape = undefined;
      this.place.textContent = problem.message;
    });
    return this.last;
  }

  async redraw(rows) {
    if (rows !== this.rows || !this.place.isConnected) return; // newer ones wait already
    if (rows.length === 0) return this.clear();
    const colours = palette();
    const described = {
      autosize: { type: "fit", contains: "padding" }, config: look(colours), ...this.describe(colours, rows)
    };
    const shape = JSON.stringify(described);
    if (shape === this.shape) {
      await this.view.data("rows", rows).runAsync();
      return undefined;
    }
    if (!this.view) this.place.textContent = "Drawing …";
    const embed = await library();
    const width = Math.max(this.place.clientWidth, 120);
    const spec = {
      $schema: "https://vega.github.io/schema/vega-lite/v6.json", width, data: { name: "rows" },
      datasets: { rows }, ...described
    };
    const options = { mode: "vega-lite", ast: true, actions: false, defaultStyle: false, renderer: "canvas", tooltip };
    this.view?.finalize();
    ({ view: this.view } = await embed(this.place, spec, options));
    this.shape = shape;
    this.place.querySelector("canvas")?.setAttribute("aria-hidden", "true"); // the figures stand in a table
    return undefined;
  }

  clear() {
    this.view?.finalize();
    this.view = this.shape = undefined;
    this.place.replaceChildren();
  }

  async fit() {
    const width = this.place.clientWidth;
    if (this.view && width > 0 && Math.abs(this.view.width() - width) > 1) await this.view.width(width).runAsync();
  }
}

/** A chart with a caption, and a table of its values below. */
export function framed(title, describe, className = "") {
  const place = make("div", { className: `chart ${className}` });
  const note = make("small", {});
  const figures = make("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": `${title}: figures` });
  const more = make("details", {}, make("summary", {}, "Figures"), figures);
  const element = make("figure", {}, make("figcaption", {}, title, " ", note), place, more);
  const chart = new Chart(place, describe);
  return {
    element, chart,
    draw(rows, table, remark = "") {
      note.textContent = remark;
      this.table = table;
      if (more.open) figures.replaceChildren(table());
      return chart.draw(rows);
    },
    listen() {
      more.addEventListener("toggle", () => more.open && this.table && figures.replaceChildren(this.table()));
      return this;
    },
  }.listen();
}
