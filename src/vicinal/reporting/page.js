// Draws the report from the JSON in #data. Names can hold anything: they are set as text, never as markup, and escaped
// where plotly would read markup.
(() => {
  "use strict";

  const { $, h, tagged, table, known, whole, share, level, number, score, themed } = vicinal;
  const data = JSON.parse(document.getElementById("data").textContent);
  const { headline, curve, explorer } = data;
  const classification = data.task === "classification";
  const targets = curve?.targets ?? [headline.target];
  const state = { at: 0, chosen: 0 }; // index of the slider's target, index of the explored row
  const target = () => targets[state.at];
  const followers = []; // called with the slider that moved, or null at the start

  const span = (values) => [Math.min(...values.filter(known)), Math.max(...values.filter(known))];
  const lowest = (values) => values.indexOf(span(values)[0]);
  const labels = (count) => `${whole(count)} ${count === 1 ? "label" : "labels"}`;

  // Plots -------------------------------------------------------------------------------------------------------------

  // Without anything to compare, one line: two would be identical.
  const METHODS = [...(data.compared ? [["split", "Plain split"]] : []), ["neighborhood", "This predictor"]];
  const NAMES = METHODS.map(([, name]) => name);
  const both = (make, methods = METHODS) => methods.map(([method, name]) => make(method, name));
  const COLORS = ["page", "text", "muted", "line", "split", "neighborhood", "frontier", "winner", "candidate"];
  const CONFIG = { displayModeBar: false, responsive: true, scrollZoom: false, doubleClick: false, showTips: false };
  const plots = new Map(); // element -> function that builds its traces and layout in the present colors
  const ink = {};

  function readColors() {
    const probe = document.body.appendChild(h("span"));
    for (const name of COLORS) {
      probe.style.color = `var(--${name})`; // a computed color is resolved for the theme, a custom property is not
      ink[name] = getComputedStyle(probe).color;
    }
    probe.remove();
  }

  const plain = (text) => String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  const hover = (...lines) => lines.map(plain).join("<br>");

  function layout(x, y, more = {}) {
    const axis = ({ title, ...given }) => ({
      title: { text: title, standoff: 10, font: { size: 13 } }, gridcolor: ink.line, linecolor: ink.muted,
      tickcolor: ink.line, ticks: "outside", zeroline: false, fixedrange: true, automargin: true, ...given,
    });
    const font = { family: getComputedStyle(document.body).fontFamily, size: 13, color: ink.text };
    return {
      autosize: true, height: 320, dragmode: false, hovermode: "closest", showlegend: false,
      margin: { l: 10, r: 14, t: 10, b: 10 },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font,
      hoverlabel: { bgcolor: ink.page, bordercolor: ink.muted, font, align: "left" },
      xaxis: axis(x), yaxis: axis(y), ...more,
    };
  }

  // A logarithmic axis where values are wide apart, with ticks that are whole numbers, not digits of them.
  function sizeAxis(values) {
    const title = `Mean size (${headline.size_word})`;
    const [low, high] = span(values);
    if (!(low > 0 && high / low > 12)) return { title };
    const tickvals = Array.from({ length: 60 }, (_, at) => Number(`${[1, 2, 5][at % 3]}e${Math.floor(at / 3) - 10}`));
    return { title: `${title}, log scale`, type: "log", tickvals, ticktext: tickvals.map((value) => String(value)) };
  }

  // Split is orange, dashed, square, hollow and on top; neighborhood is blue, solid, round and full.
  function style(method, size = 8) {
    const split = method === "split";
    const color = ink[method];
    return {
      line: { color, width: 2, dash: split ? "dash" : "solid" }, zorder: split ? 2 : 1,
      marker: { color, size: split ? size + 2 : size, symbol: split ? "square-open" : "circle", line: { color } },
    };
  }

  const dotted = (x, y) => ({
    mode: "lines", x, y, hoverinfo: "skip", line: { color: ink.muted, dash: "dot", width: 2 },
  });

  function figure(id, { summary, numbers, build }) {
    const plot = $(id).querySelector(".plot");
    $(id).hidden = false;
    $(id).querySelector("details").append(numbers);
    plot.setAttribute("aria-label", summary);
    plots.set(plot, build);
    return plot;
  }

  // The lines of a figure. Two that are identical become one, in the legend too.
  function linesOf(id, values) {
    if (!data.compared || !values.split.every((value, at) => value === values.neighborhood[at])) return METHODS;
    const name = "Plain split and this predictor";
    $(id).querySelector(".compared").hidden = true;
    $(id).querySelector(".key.neighborhood").textContent = name;
    return [["neighborhood", name]];
  }

  const paint = (plot) => Plotly.react(plot, ...plots.get(plot)(), CONFIG);

  // Headline ----------------------------------------------------------------------------------------------------------

  function showHeadline() {
    const { size, split_size: splitSize, size_word: unit } = headline;
    const change = known(size) && splitSize > 0 ? (100 * (size - splitSize)) / splitSize : null;
    const word = change > 0 ? "larger" : "smaller";
    const than = Math.abs(change) < 0.05 ? "the same as plain split" : `${Math.abs(change).toFixed(1)} % ${word} than plain split`;
    const tile = (name, value, ...notes) => h("div", {}, h("dt", {}, name), h("dd", { class: "big" }, value),
      notes.filter(Boolean).map((note) => h("dd", { class: "note" }, note)));
    $("title").textContent = data.title;
    $("subtitle").textContent = data.subtitle;
    $("numbers").append(
      tile("Target coverage", level(headline.target), "asked for"),
      tile("Coverage", share(headline.coverage), `between ${share(headline.low)} and ${share(headline.high)}`,
        `measured on ${whole(headline.rows)} rows`),
      tile(`Mean size (${unit})`, number(size), data.compared && known(change) && than,
        `median ${number(headline.median_size)}`),
      ...(data.compared ? [tile(`Mean size of plain split (${unit})`, number(splitSize), "one threshold for all rows",
        `coverage ${share(headline.split_coverage)}`)] : []),
    );
    for (const key of document.querySelectorAll(".compared")) key.hidden = !data.compared;
    for (const id of ["guarantee", "advice"]) {
      $(id).textContent = headline[id] ?? "";
      $(id).hidden = !headline[id];
    }
    $("settings").append(...(headline.settings ?? []).map(([name, value]) =>
      h("div", {}, h("dt", {}, name), h("dd", {}, value ?? "–"))));
  }

  function showWords() {
    const words = {
      target: level(headline.target), unit: headline.size_word, method: data.map?.method ?? "", version: data.version,
      date: data.date, kind: classification ? "label" : "truth",
    };
    for (const element of document.querySelectorAll("[data-say]")) element.textContent = words[element.dataset.say];
    for (const element of document.querySelectorAll("[data-task]")) element.hidden = element.dataset.task !== data.task;
  }

  // Sizes -------------------------------------------------------------------------------------------------------------

  function showSizes({ values, ...counts }) {
    const what = classification ? "Number of labels" : "Length of the interval";
    const mode = (method) => values[lowest(counts[method].map((count) => -count))];
    const hatched = () => ({ shape: "/", size: 6, solidity: 0.35, fgcolor: ink.split, bgcolor: ink.page });
    figure("sizes-figure", {
      summary: `Histogram of sizes. Most frequent: ${both((method, name) => `${mode(method)} (${name})`).join(", ")}.`,
      numbers: table("Test rows by size", [what, ...NAMES],
        values.map((value, at) => [value, ...both((method) => whole(counts[method][at]))])),
      build: () => [both((method, name) => ({
        type: "bar", x: values.map(plain), y: counts[method], hoverinfo: "text", textposition: "none",
        hovertext: values.map((value, at) => hover(`${name}, size ${value}`, `${whole(counts[method][at])} rows`)),
        marker: {
          color: ink[method], line: { color: ink[method], width: 1 }, pattern: method === "split" ? hatched() : {},
        },
      })), layout({ title: what, type: "category", showgrid: false }, { title: "Test rows" }, { bargap: 0.2 })],
    });
  }

  // Target ------------------------------------------------------------------------------------------------------------

  function showCurve() {
    const sizes = METHODS.flatMap(([method]) => curve[method].size);
    const upright = () => ({
      type: "line", yref: "paper", x0: target(), x1: target(), y0: 0, y1: 1, line: { color: ink.text, width: 1.5 },
    });
    const plot = (id, what, key, format, axis, guides) => {
      const lines = linesOf(id, { split: curve.split[key], neighborhood: curve.neighborhood[key] });
      return figure(id, {
        summary: `${what} for targets from ${level(targets[0])} to ${level(targets.at(-1))}. ${both((method, name) =>
          `${name}: from ${format(curve[method][key][0])} to ${format(curve[method][key].at(-1))}.`, lines).join(" ")}`,
        numbers: table(`${what} by target`, ["Target", ...lines.map(([, name]) => name)],
          targets.map((value, at) => [level(value), ...both((method) => format(curve[method][key][at]), lines)])),
        build: () => [[...guides(), ...both((method, name) => ({
          ...style(method), mode: targets.length > 25 ? "lines" : "lines+markers", x: targets, y: curve[method][key],
          hoverinfo: "text", hovertext: targets.map((value, at) =>
            hover(name, `target ${level(value)}`, `${what}: ${format(curve[method][key][at])}`)),
        }), lines)], layout({ title: "Target coverage" }, axis, { shapes: [upright()] })],
      });
    };
    const pair = [
      plot("coverage-figure", "Coverage", "coverage", share, { title: "Coverage" },
        () => [dotted(span(targets), span(targets))]),
      plot("size-figure", "Mean size", "size", number, sizeAxis(sizes), () => []),
    ];
    followers.push((mover) => {
      const said = both((method, name) => h("span", { class: `key ${method}` }, `${name}: coverage `
        + `${share(curve[method].coverage[state.at])}, mean size ${number(curve[method].size[state.at])}`));
      // announced only where the reader moved this slider, not its twin
      $("target-output").setAttribute("aria-live", mover === $("target") ? "polite" : "off");
      $("target-output").replaceChildren(h("strong", {}, `Target ${level(target())}`), ...said);
      if (mover) pair.forEach((plotted) => Plotly.relayout(plotted, { shapes: [upright()] }));
    });
  }

  function connectSliders() {
    const sliders = [$("target"), $("explorer-target")];
    const move = (at, mover) => {
      state.at = at;
      for (const slider of sliders) {
        slider.value = at;
        slider.setAttribute("aria-valuetext", level(target()));
      }
      followers.forEach((follow) => follow(mover));
    };
    for (const slider of sliders) {
      slider.max = targets.length - 1;
      slider.addEventListener("input", () => move(Number(slider.value), slider));
    }
    move(lowest(targets.map((value) => Math.abs(value - headline.target))), null);
  }

  // Evenness ----------------------------------------------------------------------------------------------------------

  function showGroups(id, what, { names, rows, ...coverage }, order, x, axis) {
    const lines = linesOf(id, coverage);
    const worst = both((method, name) => [name, lowest(coverage[method]), coverage[method]], lines)
      .filter(([, at]) => at >= 0)
      .map(([name, at, values]) => `${name}: lowest ${share(values[at])} (${names[at]}).`).join(" ");
    const size = order.length > 30 ? 6 : 8;
    $(id).querySelector(".found").textContent = worst;
    figure(id, {
      summary: `Coverage by ${what} at target ${level(headline.target)}. ${worst}`,
      numbers: table(`Coverage by ${what}`, ["Group", "Rows", ...lines.map(([, name]) => name)],
        order.map((at) => [names[at], whole(rows[at]), ...both((method) => share(coverage[method][at]), lines)])),
      build: () => [[dotted([x[0], x.at(-1)], [headline.target, headline.target]),
        ...both((method, name) => ({
          ...style(method, size), mode: order.length > 30 ? "markers" : "lines+markers", x,
          y: order.map((at) => coverage[method][at]), hoverinfo: "text", hovertext: order.map((at) =>
            hover(names[at], `${name}: ${share(coverage[method][at])}`, `${whole(rows[at])} rows`)),
        }), lines)], layout(axis, { title: "Coverage" })],
    });
  }

  function showEvenness({ tenths, classes }) {
    if (tenths) {
      const places = tenths.names.map((_, at) => at);
      $("tenths-figure").querySelector("h3").textContent = tenths.title;
      showGroups("tenths-figure", "tenth", tenths, places, places,
        { tickvals: places, ticktext: tenths.names.map(plain) });
    }
    if (classes) {
      const rank = (at) => classes.neighborhood[at] ?? 2;
      const order = classes.names.map((_, at) => at).sort((one, other) => rank(one) - rank(other));
      showGroups("classes-figure", "class, lowest first", classes, order, order.map((_, at) => at + 1),
        { title: "Rank of the class", range: [0, order.length + 1] });
    }
  }

  // Groups by the reader's own columns.
  function showGivenGroups(groups) {
    const line = (one) => [one.name, whole(one.rows), share(one.coverage), `${share(one.low)} to ${share(one.high)}`,
      number(one.size), ...(data.compared ? [share(one.split)] : [])];
    const columns = ["Group", "Rows", "Coverage", "95 %, all groups", "Mean size"];
    $("groups-table").append(table("Coverage by group at the predictor’s own target",
      [...columns, ...(data.compared ? ["Plain split"] : [])], groups.map(line), { kind: "full stack" }));
  }

  // Tuning ------------------------------------------------------------------------------------------------------------

  function showFrontier({ candidates, frontier, winner, sentence }) {
    const best = candidates[winner];
    const bySize = (some) => [...some].sort((one, other) => one.size - other.size);
    const line = bySize(frontier.map((at) => candidates[at]));
    const trace = (some, more) => ({
      mode: "markers", x: some.map((one) => one.size), y: some.map((one) => one.worst), hoverinfo: "text",
      hovertext: some.map((one) => hover(one.name, `mean size ${number(one.size)} ± ${number(one.se, 2)}`,
        `worst tenth ${share(one.worst)}`, `coverage ${share(one.coverage)}`)),
      ...more,
    });
    $("frontier-sentence").textContent = sentence ?? "";
    figure("frontier-figure", {
      summary: `${candidates.length} candidates by mean size and coverage of the worst tenth. Chosen: ${best.name}, `
        + `mean size ${number(best.size)}, worst tenth ${share(best.worst)}.`,
      numbers: table(`The frontier and the chosen, of ${candidates.length} candidates`,
        ["Candidate", "Mean size", "± se", "Worst tenth", "Coverage"],
        bySize(new Set([...line, best])).map((one) => [tagged(one.name, one === best && "chosen"), number(one.size),
          number(one.se, 2), share(one.worst), share(one.coverage)])),
      build: () => [[
        trace(candidates.filter((one) => !one.everyone),
          { marker: { size: 6, color: ink.candidate, opacity: 0.7 } }),
        trace(candidates.filter((one) => one.everyone),
          { marker: { size: 9, symbol: "square-open", color: ink.split, line: { width: 2 } } }),
        trace(line, {
          mode: "lines+markers", line: { color: ink.frontier },
          marker: { size: 7, symbol: "diamond", color: ink.frontier },
        }),
        trace([best],
          { marker: { size: 18, symbol: "star", color: ink.winner, line: { width: 1.5, color: ink.text } } }),
      ], layout(sizeAxis(candidates.map((one) => one.size)), { title: "Coverage, worst tenth" }, { height: 420 })],
    });
  }

  // Map ---------------------------------------------------------------------------------------------------------------

  // By label where labels are few: thousands of rows are no table.
  function mapNumbers({ label, threshold }) {
    const groups = new Map(label.map((name) => [name, []]));
    threshold.forEach((value, at) => groups.get(label[at]).push(value));
    const row = ([name, values]) => {
      const sorted = values.filter(known).sort((one, other) => one - other);
      const parts = [0, 0.25, 0.5, 0.75, 1].map((part) => number(sorted[Math.round(part * (sorted.length - 1))], 4));
      return [name, whole(values.length), ...parts];
    };
    return table("Local thresholds of the calibration rows",
      ["Label", "Rows", "Lowest", "Lower quarter", "Median", "Upper quarter", "Highest"],
      [["All rows", threshold], ...(groups.size > 300 ? [] : groups)].map(row));
  }

  // Returns what moves the ring to the explored row.
  function showMap(map) {
    const [low, high] = span(map.threshold);
    const ring = () => [explorer?.rows[state.chosen]?.position].filter(Boolean).map(([x, y]) => ({
      type: "circle", xsizemode: "pixel", ysizemode: "pixel", xanchor: x, yanchor: y, x0: -11, x1: 11, y0: -11, y1: 11,
      line: { color: ink.text, width: 3.5 },
    }));
    const plot = figure("map-figure", {
      summary: `Map of ${whole(map.x.length)} calibration rows in two dimensions by ${map.method}, `
        + `colored by local threshold from ${number(low, 4)} to ${number(high, 4)}.`,
      numbers: mapNumbers(map),
      build: () => [[{
        mode: "markers", x: map.x, y: map.y, hoverinfo: "text",
        hovertext: map.label.map((name, at) => hover(name, `threshold ${number(map.threshold[at], 4)}`)),
        marker: {
          size: 6, color: map.threshold, colorscale: "Viridis", line: { width: 0.5, color: ink.candidate },
          colorbar: {
            orientation: "h", x: 0, xanchor: "left", y: 1, yanchor: "bottom", len: 0.7, thickness: 12, outlinewidth: 0,
            title: { text: "Local threshold", side: "top", font: { size: 13 } },
          },
        },
      }], layout({ visible: false }, { visible: false, scaleanchor: "x" },
        { height: 520, margin: { l: 0, r: 0, t: 0, b: 0 }, shapes: ring() })],
    });
    return () => Plotly.relayout(plot, { shapes: ring() });
  }

  // Difficulty --------------------------------------------------------------------------------------------------------

  // Infinite thresholds are words in the data: "-inf" lets only the top label in.
  const size = (level) => ({ "-inf": -Infinity, inf: Infinity }[level] ?? level);
  const levelWords = (level) => (known(level) ? number(level, 4) : { "-inf": "−∞", inf: "+∞" }[level]);

  // By tenth of the ranks: thousands of rows are no table.
  function difficultyNumbers({ name, x, value }, { threshold }) {
    const tenths = Array.from({ length: 10 }, (_, at) => at);
    const row = (tenth) => {
      const inside = x.map((_, at) => at).filter((at) => Math.min(9, Math.floor(x[at] / 10)) === tenth);
      const sorted = inside.map((at) => threshold[at]).sort((one, other) => size(one) - size(other));
      const parts = [0, 0.5, 1].map((part) => (sorted.length ? score(sorted[Math.round(part * (sorted.length - 1))]) : "–"));
      const [low, high] = span(inside.map((at) => value[at]));
      const values = inside.length ? `${number(low, 3)} to ${number(high, 3)}` : "–";
      return [`${10 * tenth} to ${10 * tenth + 10} %`, whole(inside.length), values, ...parts];
    };
    return table(`Thresholds of the calibration rows by rank of the ${name}`,
      ["Rank", "Rows", name, "Lowest", "Median", "Highest"], tenths.map(row));
  }

  // Returns what moves the rings to the explored row.
  function showDifficulty(found) {
    const more = found.count > found.coordinates.length ? ` The first ${found.coordinates.length} of ${found.count} coordinates are drawn.` : "";
    $("difficulty-words").textContent = `For each row, the neighbors are the ${found.words}.${more}`;
    // Infinite thresholds are drawn a little below or above the finite ones.
    const all = [...found.threshold, ...found.test_threshold, ...found.coordinates.flatMap((one) => one.line.y)];
    const [least, most] = all.some(known) ? span(all) : [0, 1];
    const room = 0.08 * (most - least || 1);
    const ends = { "-inf": least - room, inf: most + room };
    const place = (threshold) => ends[threshold] ?? threshold;
    const annotations = () => Object.entries(ends).filter(([name]) => all.includes(name)).map(([name, y]) => ({
      text: levelWords(name), x: 1, xref: "paper", xanchor: "right", y, yshift: name === "inf" ? -11 : 11, showarrow: false, font: { size: 15 },
    }));
    const infinite = found.threshold.filter((threshold) => threshold === "-inf").length;
    const why = infinite ? ` At −∞, which is the threshold of ${whole(infinite)} of the ${whole(found.threshold.length)} `
      + "calibration rows drawn, only the most probable label is in the set." : "";
    $("difficulty-infinite").textContent = why;
    const marks = (one, names, xs, values, levels) => ({
      mode: "markers", x: xs, y: levels.map(place), hoverinfo: "text",
      hovertext: names.map((name, at) => hover(name, `${one.name} ${number(values[at], 4)}, rank ${xs[at].toFixed(1)} %`,
        `threshold ${levelWords(levels[at])}`)),
    });
    const plotted = found.coordinates.map((one, at) => {
      const id = `difficulty-${at + 1}-figure`;
      $(id).querySelector(".coordinate").textContent = one.name;
      const ring = () => {
        const [x, y] = [one.test_x[state.chosen], place(found.test_threshold[state.chosen])];
        return known(x) && known(y) ? [{
          type: "circle", xsizemode: "pixel", ysizemode: "pixel", xanchor: x, yanchor: y,
          x0: -11, x1: 11, y0: -11, y1: 11, line: { color: ink.text, width: 3.5 },
        }] : [];
      };
      const everyone = () => (known(found.global) ? [{
        type: "line", xref: "paper", x0: 0, x1: 1, y0: found.global, y1: found.global,
        line: { color: ink.muted, dash: "dot", width: 2 },
      }] : []);
      const shapes = () => [...everyone(), ...ring()];
      const plot = figure(id, {
        summary: `Thresholds of ${whole(found.rows)} calibration rows by rank of the ${one.name}: the median goes from `
          + `${levelWords(one.line.y[0])} at the smallest to ${levelWords(one.line.y.at(-1))} at the largest.`,
        numbers: difficultyNumbers(one, found),
        build: () => [[
          { ...marks(one, found.label, one.x, one.value, found.threshold), marker: { size: 4, color: ink.candidate, opacity: 0.6 } },
          { mode: "lines", x: one.line.x, y: one.line.y.map(place), hoverinfo: "skip", line: { color: ink.neighborhood, width: 3 } },
          { ...marks(one, found.test_name, one.test_x, one.test_value, found.test_threshold), marker: style("split", 5).marker },
        ], layout({ title: `Rank of the ${one.name}, %`, range: [-2, 102], tickvals: [0, 25, 50, 75, 100] },
          { title: "Threshold" }, { height: 380, shapes: shapes(), annotations: annotations() })],
      });
      return () => Plotly.relayout(plot, { shapes: shapes() });
    });
    return () => plotted.forEach((move) => move());
  }

  // Explorer ----------------------------------------------------------------------------------------------------------

  // m = ceil(target (n + 1)) of the decimal written, in whole numbers: in binary, 0.07 * 100 is above 7. p-values are
  // multiples of 1 / (n + 1); half a step of room forgives their rounding.
  function inSet(label, at) {
    const m = Math.ceil((Math.round(at * 1e6) * (explorer.n + 1)) / 1e6);
    return label.p * (explorer.n + 1) > explorer.n + 1 - m + 0.5;
  }

  function sizeOf(row) {
    const listed = () => row.labels.filter((label) => inSet(label, target())).length;
    if (classification) return row.set_sizes?.[state.at] ?? listed();
    return known(row.lower) && known(row.upper) ? row.upper - row.lower : Infinity;
  }

  function covered(row) {
    if (classification) return row.labels.some((label) => label.truth && inSet(label, target()));
    return (row.lower ?? -Infinity) <= row.truth_value && row.truth_value <= (row.upper ?? Infinity);
  }

  function sizeWords(row) {
    if (classification) return labels(sizeOf(row));
    return known(sizeOf(row)) ? `length ${number(sizeOf(row))}` : "no end";
  }

  const CHIPS = {
    all: ["All", (rows) => rows],
    missed: ["Missed", (rows) => rows.filter((row) => !covered(row))],
    largest: [classification ? "Largest sets" : "Longest",
      (rows) => [...rows].sort((one, other) => sizeOf(other) - sizeOf(one) || 0).slice(0, 30)],
  };

  // Rows name their image; each is in the file once, however many rows have it as a neighbor.
  function image(name, kind, description) {
    const source = name === null ? null : data.images?.[name];
    if (!source?.startsWith("data:image/")) return null;
    const made = h("img", { src: source, alt: description, class: kind });
    made.addEventListener("load", () => made.classList.toggle("pixels", made.naturalWidth < 128));
    return made;
  }

  function bar(value, most) {
    const width = most > 0 && known(value) ? (100 * value) / most : 0;
    return h("div", { class: "bar-cell" },
      h("span", {}, h("i", { style: `width:${width}%` })), h("span", {}, share(value)));
  }

  // Marks are [kind, value, name, side]; without a side the name shows when pointed at.
  function numberLine(summary, marks, band = []) {
    const [low, high] = span([...marks.map(([, value]) => value), ...band]);
    const place = (value) => (high > low ? (100 * (value - low)) / (high - low) : 50);
    const line = h("div", { class: "line", role: "img", "aria-label": summary }, h("div", { class: "axis" }));
    if (band.length && band.every(known)) {
      const [left, right] = band.map(place);
      line.append(h("div", { class: "band", style: `left:${left}%;width:${right - left}%` }));
    }
    for (const [kind, value, name, side] of marks.filter((mark) => known(mark[1]))) {
      const at = place(value);
      line.append(h("div", { class: `mark ${kind}`, style: `left:${at}%`, title: side ? null : name }, h("i")));
      // shifted by the same share of its own width, a name never leaves the line
      const shifted = `left:${at}%;transform:translateX(-${at}%)`;
      if (side) line.append(h("span", { class: `name ${side}`, style: shifted }, name));
    }
    return line;
  }

  function showLabels(row) {
    const inside = row.labels.map((label) => inSet(label, target()));
    const unlisted = sizeOf(row) - inside.filter(Boolean).length;
    const rest = unlisted > 0 ? `, ${whole(unlisted)} not listed` : "";
    const kind = (label) => `dot ${inSet(label, headline.target) ? "full" : ""} ${label.truth ? "truth" : ""}`;
    const global = `global ${number(row.global, 4)}`;
    const local = `local ${number(row.threshold, 4)}`;
    $("row-scores").replaceChildren(numberLine(`Thresholds: ${local}, ${global}. The table of labels has the scores.`, [
      ...row.labels.map((label) => [kind(label), label.score, `${label.name}: ${number(label.score, 4)}`]),
      ["global", row.global, global, "above"], ["local", row.threshold, local, "below"],
    ]));
    $("row-labels").replaceChildren(table(
      `The set at target ${level(target())} has ${labels(sizeOf(row))}${rest}`,
      ["Label", "Probability", "Score", "p-value", "In the set"],
      row.labels.map((label, at) => [tagged(label.name, label.truth && "truth"), bar(label.probability, 1),
        score(label.score), share(label.p), inside[at] ? "✓ in" : "out"]),
      { kind: "full marked", left: ["Probability"], rowClass: (at) => (inside[at] ? "in" : "out") }));
  }

  function showViews(row) {
    if (!row.views?.length) {
      $("row-views").replaceChildren();
      return;
    }
    const weights = row.views.some((one) => known(one.weight)) ? ["Weight"] : [];
    $("row-views").replaceChildren(table("What each view says",
      ["View", ...weights, "Most probable label", "Probability"],
      row.views.map((one) => [one.view === 0 ? "0 (the input)" : String(one.view),
        ...weights.map(() => share(one.weight)), tagged(one.label, one.label === row.truth && "truth"),
        bar(one.probability, 1)]),
      { kind: "full", left: ["Most probable label", "Probability"] }));
  }

  function showInterval(row) {
    const prediction = `prediction ${number(row.prediction, 4)}`;
    const truth = `truth ${number(row.truth_value, 4)}`;
    const ends = `Interval from ${known(row.lower) ? number(row.lower, 4) : "−∞"} to `
      + `${known(row.upper) ? number(row.upper, 4) : "+∞"}, ${prediction}.`;
    $("row-interval").replaceChildren(numberLine(`${ends} The ${truth}.`, [
      ...(explorer.neighbor_column === "Residual" ? [] : row.neighbors).map((one) => ["tick", parseFloat(one.label), `neighbor ${one.name}: ${one.label}`]),
      ["dot full", row.prediction, prediction, "below"], ["dot full truth", row.truth_value, truth, "above"],
    ], [row.lower, row.upper]), h("p", {}, ends));
  }

  function showNeighbors(row) {
    const what = explorer.neighbor_column ?? (classification ? "Label" : "Target");
    const most = Math.max(...row.neighbors.map((one) => one.weight));
    const pictures = row.neighbors.some((one) => one.image) ? ["Image"] : [];
    const cells = (one) => [one.name,
      ...pictures.map(() => image(one.image, "thumb", one.name) ?? "–"),
      tagged(one.label, classification && one.label === row.truth && "truth"), score(one.score), bar(one.weight, most),
      number(one.distance)];
    if (!row.neighbors.length) {
      $("row-neighbors").replaceChildren(h("p", {}, "No neighborhood: one threshold for all rows."));
      return;
    }
    $("row-neighbors").replaceChildren(table(explorer.neighbors ?? "Nearest calibration rows",
      ["Row", ...pictures, what, "Score", "Weight", "Distance"], row.neighbors.map(cells),
      { kind: "full", left: ["Image", "Label", "Weight"] }));
  }

  // Returns the sentence for the live region.
  function showRow() {
    const row = explorer.rows[state.chosen];
    const [mark, word] = covered(row) ? ["✓", "Covered"] : ["✗", "Missed"];
    const at = classification ? target() : headline.target; // intervals are given at one target only
    const verdict = `${word} at target ${level(at)}: the ${classification ? "set" : "interval"} has ${sizeWords(row)}.`;
    $("row-image").replaceChildren(image(row.image, "picture", row.name) ?? "");
    $("row-image").hidden = !row.image;
    $("row-title").textContent = `${row.name}: truth ${row.truth}`;
    $("row-verdict").textContent = `${mark} ${verdict}`;
    $("row-thresholds").replaceChildren("Local threshold ", score(row.threshold), `, global ${number(row.global, 4)} `
      + `(at target ${level(headline.target)}). `
      + (row.neighbors.length ? `Effective number of neighbors: ${number(row.effective)}; the nearest are listed below.` : ""));
    if (classification) { showLabels(row); showViews(row); }
    else showInterval(row);
    showNeighbors(row);
    $("explorer-output").textContent = `Target ${level(target())}: ${sizeWords(row)}, ${word.toLowerCase()}`;
    return `${row.name}, truth ${row.truth}. ${verdict}`;
  }

  // With `keep`, the present row stays listed when the slider takes it out of the filter: nothing jumps.
  function listRows(keep) {
    const query = $("filter").value.trim().toLowerCase().replace(/^row\s+/, "");
    const chip = document.querySelector("#chips input:checked").value;
    const fits = (row) => row.truth.toLowerCase().includes(query) || String(row.row).startsWith(query)
      || (row.name !== `Row ${row.row}` && row.name.toLowerCase().includes(query));
    const found = CHIPS[chip][1](explorer.rows.filter(fits));
    const present = explorer.rows[state.chosen];
    const listed = keep && !found.includes(present) ? [present, ...found] : found;
    $("rows").replaceChildren(...listed.map((row) => h("option", { value: explorer.rows.indexOf(row) },
      `${row.name} · truth ${row.truth} · ${sizeWords(row)} · ${covered(row) ? "covered" : "missed"}`)));
    $("matches").textContent = found.length ? `(${found.length} of ${explorer.rows.length})` : "(none matches)";
    if (listed.length && !listed.includes(present)) state.chosen = explorer.rows.indexOf(listed[0]);
    $("rows").value = state.chosen;
  }

  function showExplorer(moveRing) {
    const show = () => { $("live").textContent = showRow(); };
    const choose = (index) => {
      state.chosen = index;
      $("rows").value = index;
      show();
      moveRing();
    };
    const relist = () => { listRows(false); choose(state.chosen); };
    const step = (move) => {
      const options = [...$("rows").options].map((option) => Number(option.value));
      const at = move(options.indexOf(state.chosen), options.length);
      if (options.length) choose(options[(at + options.length) % options.length]);
    };
    $("chips").append(...Object.entries(CHIPS).map(([value, [name]]) => h("label", { class: "chip" },
      h("input", { type: "radio", name: "chip", value, checked: value === "all" }), h("span", {}, name))));
    $("chips").addEventListener("change", relist);
    $("filter").addEventListener("input", relist);
    $("rows").addEventListener("change", () => choose(Number($("rows").value)));
    $("previous").addEventListener("click", () => step((at) => at - 1));
    $("next").addEventListener("click", () => step((at) => at + 1));
    $("random").addEventListener("click", () => step((at, count) => at + 1 + Math.floor(Math.random() * (count - 1))));
    $("explorer-slider").hidden = !classification || targets.length < 2;
    followers.push((mover) => {
      listRows(mover !== null);
      if (mover === $("explorer-target")) show();
      else showRow();
    });
  }

  // Diagnosis ---------------------------------------------------------------------------------------------------------

  function showDiagnosis({ rows, theory }) {
    const text = (row) => row.map((value) => (typeof value === "number" ? number(value, 4) : value ?? "–"));
    const fill = (id, caption, columns, given) =>
      $(id).append(table(caption, columns, given.map(text), { kind: "full text stack", left: columns }));
    fill("diagnosis-rows", "What was measured on these rows", ["Quantity", "Value", "Note"], rows);
    if (!theory) return;
    $("theory").hidden = false;
    fill("theory-rows", "The paper’s theorem on these rows", theory.columns, theory.rows);
    $("theory-notes").append(...(theory.notes ?? []).map((note) => h("li", {}, note)));
  }

  // Theme and start ---------------------------------------------------------------------------------------------------

  function connectTheme() {
    themed(() => {
      readColors();
      for (const plot of plots.keys()) paint(plot);
    });
  }

  function section(id, content, show) {
    if (!content) return null;
    $(id).hidden = false;
    $("links").append(h("li", {}, h("a", { href: `#${id}` }, $(id).querySelector("h2").dataset.short)));
    return show(content);
  }

  showWords();
  section("headline", headline, showHeadline);
  section("sizes", data.sizes, showSizes);
  section("curve", curve, showCurve);
  section("evenness", (data.tenths || data.classes) && data, showEvenness);
  section("groups", data.by_group, showGivenGroups);
  section("frontier", data.frontier, showFrontier);
  const moveRing = section("map", data.map, showMap) ?? section("difficulty", data.difficulty, showDifficulty) ?? (() => null);
  section("explorer", explorer?.rows.length, () => showExplorer(moveRing));
  section("diagnosis", data.diagnosis, showDiagnosis);
  connectSliders();
  connectTheme();
})();
