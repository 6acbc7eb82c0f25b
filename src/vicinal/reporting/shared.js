// What every page of vicinal is built with: elements, tables, numbers, and the theme. Names can hold anything: they are set
// as text, never as markup.
const vicinal = (() => {
  "use strict";

  // Elements ----------------------------------------------------------------------------------------------------------

  const $ = (id) => document.getElementById(id);

  function h(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children.flat().filter((child) => child !== null));
    return element;
  }

  const tagged = (name, tag) => h("span", {}, name, tag ? h("span", { class: "tag" }, tag) : null);

  // The first cell of a row is its header; columns named in `left` hold text or bars.
  function table(caption, columns, rows, { kind = "", left = [], rowClass = () => null } = {}) {
    const align = (at) => (left.includes(columns[at]) ? "left" : null);
    const head = columns.map((name, at) => h("th", { scope: "col", class: align(at) }, name));
    const body = rows.map(([first, ...rest], index) => h("tr", { class: rowClass(index) },
      h("th", { scope: "row" }, first), rest.map((cell, at) => h("td", { class: align(at + 1) }, cell))));
    // focusable, so that a table larger than its box scrolls from the keyboard
    return h("div", { class: `scroll ${kind}`, tabindex: 0, role: "group", "aria-label": caption },
      h("table", {}, h("caption", {}, caption), h("thead", {}, h("tr", {}, head)), h("tbody", {}, body)));
  }

  // Numbers -----------------------------------------------------------------------------------------------------------

  const known = (value) => typeof value === "number" && Number.isFinite(value);
  const whole = (value) => (known(value) ? value.toLocaleString("en-US") : "–");
  const share = (value) => (known(value) ? value.toFixed(3) : "–");
  const level = (value) => (known(value)
    ? value.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 4 }) : "–");

  function number(value, digits = 3) {
    if (Number.isInteger(value) || !known(value)) return whole(value);
    const large = Math.abs(value) >= 10 ** digits;
    const significant = { minimumSignificantDigits: digits, maximumSignificantDigits: digits };
    return value.toLocaleString("en-US", large ? { maximumFractionDigits: 0 } : significant);
  }

  // A dash alone would hide that a score or threshold without a number is infinite.
  function score(value) {
    if (known(value)) return number(value, 4);
    if (value === "-inf") return h("span", { title: "fits at any threshold: the top label of NeverEmpty" }, "−∞");
    if (value === "inf") return h("span", { title: "lets everything in" }, "+∞");
    const why = "infinite: −∞ lets only the top label in, +∞ lets everything in";
    return h("span", { title: why }, "–", h("span", { class: "unseen" }, ` (${why})`));
  }

  // Theme -------------------------------------------------------------------------------------------------------------

  // Follows the system until the button is pressed; `changed` is called at the start and after every change.
  function themed(changed = () => {}) {
    const system = matchMedia("(prefers-color-scheme: dark)");
    const { dataset } = document.documentElement;
    const dark = () => (dataset.theme ? dataset.theme === "dark" : system.matches);
    const use = (theme) => {
      if (theme) dataset.theme = theme;
      else delete dataset.theme;
      $("theme").setAttribute("aria-pressed", String(dark()));
      changed();
    };
    let before;
    $("theme").addEventListener("click", () => use(dark() ? "light" : "dark"));
    system.addEventListener("change", () => use(dataset.theme));
    addEventListener("beforeprint", () => { before = dataset.theme; use("light"); }); // paper is white
    addEventListener("afterprint", () => use(before));
    use(null);
  }

  return { $, h, tagged, table, known, whole, share, level, number, score, themed };
})();
