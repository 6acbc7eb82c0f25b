// SVG charts of replies of the service: curves of scores, an interval, and coverage and evidence over time.
const drawings = (() => {
  "use strict";

  const { known, number, share } = vicinal;
  let WIDTH = 560; // set to the available width, so that text is not scaled
  const HEIGHT = 220, LEFT = 46, RIGHT = 12, TOP = 22, BOTTOM = 30;

  function s(tag, attributes = {}, ...children) {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  }

  const scale = ([low, high], from, to) => (value) =>
    from + ((Math.min(Math.max(value, low), high) - low) / (high - low || 1)) * (to - from);

  function ticks([low, high], count = 4) {
    const raw = (high - low || 1) / count;
    const unit = 10 ** Math.floor(Math.log10(raw));
    const step = unit * ([1, 2, 5, 10].find((factor) => factor * unit >= raw) ?? 10);
    const first = Math.ceil(low / step - 1e-9);
    const last = Math.floor(high / step + 1e-9);
    const length = Math.max(0, last - first + 1);
    return Array.from({ length }, (_, at) => Number(((first + at) * step).toPrecision(12)));
  }

  function drawing(label, spanX, spanY, titleX, { tall = HEIGHT, top = TOP } = {}) {
    WIDTH = Math.max(300, Math.min(560, document.documentElement.clientWidth - 40));
    const x = scale(spanX, LEFT, WIDTH - RIGHT);
    const y = scale(spanY, tall - BOTTOM, top);
    const text = (value) => value.toLocaleString("en-US", { maximumSignificantDigits: 4 });
    const svg = s("svg", { viewBox: `0 0 ${WIDTH} ${tall + 12}`, role: "img", "aria-label": label });
    for (const value of tall < HEIGHT ? [] : ticks(spanY)) {
      svg.append(s("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value) }),
        s("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, text(value)));
    }
    for (const value of ticks(spanX, 5)) {
      svg.append(s("text", { x: x(value), y: tall - BOTTOM + 16, "text-anchor": "middle" }, text(value)));
    }
    svg.append(s("line", { class: "axis", x1: LEFT, x2: WIDTH - RIGHT, y1: tall - BOTTOM, y2: tall - BOTTOM }),
      s("text", { x: (LEFT + WIDTH) / 2, y: tall + 6, "text-anchor": "middle" }, titleX));
    return { svg, x, y };
  }

  const path = (points) => points.map(([a, b], at) => `${at ? "L" : "M"}${a.toFixed(2)} ${b.toFixed(2)}`).join("");
  const value = (entry) => (entry === "-inf" ? -Infinity : entry === "inf" ? Infinity : entry);

  function curves(found) {
    const finite = [...found.scores_near, ...found.scores_everywhere].map(([one]) => value(one))
      .concat(value(found.threshold), value(found.global_threshold)).filter(Number.isFinite);
    const low = Math.min(...finite), high = Math.max(...finite);
    const pad = (high - low || 1) * 0.05;
    const { svg, x, y } = drawing(
      `Distribution of the scores of the neighbors and of all calibration rows. Local threshold ${found.threshold}, `
      + `global threshold ${found.global_threshold}.`, [low - pad, high + pad], [0, 1], "Score (smaller: more typical)", { top: 44 });
    const steps = (points) => {
      const corners = [];
      let before = 0;
      for (const [at, height] of points) {
        corners.push([x(value(at)), y(before)], [x(value(at)), y(height)]);
        before = height;
      }
      return path([[x(low - pad), y(0)], ...corners, [x(high + pad), y(before)]]);
    };
    // Labels stand above the curves, to the left of their line if there is no room on the right.
    const upright = (at, kind, word, down) => {
      const place = x(value(at));
      const before = place > WIDTH / 2;
      svg.append(s("line", { class: `${kind}-mark`, x1: place, x2: place, y1: down - 10, y2: HEIGHT - BOTTOM }),
        s("text", { class: `${kind}-word`, x: place + (before ? -6 : 6), y: down,
          "text-anchor": before ? "end" : "start" }, word));
    };
    svg.append(s("path", { class: "far", d: steps(found.scores_everywhere) }));
    if (found.scores_near.length) svg.append(s("path", { class: "near", d: steps(found.scores_near) }));
    if (found.scores_near.length) upright(found.global_threshold, "far", "threshold without neighborhood", 32);
    upright(found.threshold, "near", "threshold of this row", 14);
    return svg;
  }

  function history(moments, label, pick, spanY, titleX, extra) {
    const rows = moments.map((one) => one.rows);
    const { svg, x, y } = drawing(label, [Math.min(0, ...rows), Math.max(...rows)], spanY, titleX);
    extra(svg, x, y);
    const points = moments.map((one) => [x(one.rows), y(pick(one))]);
    svg.append(s("path", { class: "near", d: path(points) }));
    const [lastX, lastY] = points.at(-1);
    svg.append(s("circle", { class: "point", cx: lastX, cy: lastY, r: 4 }));
    return svg;
  }

  // The band is the interval; ticks are the targets of the neighbors, if these are listed with targets.
  function interval(found, truth, ends) {
    const listed = found.neighbor_column === "Target" ? found.neighbors : [];
    const targets = listed.map((one) => Number(one.target)).filter(Number.isFinite);
    const marks = [found.lower, found.upper, found.prediction, truth, ...targets].filter(known);
    const low = Math.min(...marks), high = Math.max(...marks), pad = (high - low || 1) * 0.06;
    const { svg, x } = drawing(`Interval from ${ends[0]} to ${ends[1]}, prediction ${number(found.prediction, 4)}.`,
      [low - pad, high + pad], [0, 0.01],
      `Dot: prediction; diamond: true value${targets.length ? "; ticks: targets of neighbors" : ""}`, { tall: 90 });
    const empty = value(found.lower) > value(found.upper);
    const middle = 32;
    if (!empty) {
      svg.append(s("rect", { class: "band", x: x(value(found.lower)), y: middle - 14, height: 28,
        width: Math.max(2, x(value(found.upper)) - x(value(found.lower))) }));
    }
    const tick = (at) => s("line", { class: "axis", x1: at, x2: at, y1: middle - 6, y2: middle + 6 });
    svg.append(...targets.map((at) => tick(x(at))),
      s("circle", { class: "point", cx: x(found.prediction), cy: middle, r: 5 }));
    if (truth !== null) {
      const at = x(truth);
      const corners = [[at - 7, middle], [at, middle - 7], [at + 7, middle], [at, middle + 7]];
      svg.append(s("path", { class: "diamond", d: `${path(corners)}Z` }));
    }
    return svg;
  }

  function coverageChart(found) {
    const moments = found.history;
    const recent = moments.slice(-200).flatMap((one) => [one.interval[0], one.target]);
    return history(moments, `Coverage, now ${share(found.coverage)}.`, (one) => one.coverage,
      [Math.max(0, Math.min(...recent) - 0.02), 1], "Rows with known true value", (svg, x, y) => {
        const band = [...moments.map((one) => [x(one.rows), y(one.interval[1])]),
          ...moments.toReversed().map((one) => [x(one.rows), y(one.interval[0])])];
        svg.append(s("path", { class: "band", d: `${path(band)}Z` }),
          s("path", { class: "target", d: path(moments.map((one) => [x(one.rows), y(one.target)])) }));
      });
  }

  function driftChart(found) {
    const moments = found.history;
    const bound = Math.log10(found.threshold);
    const capital = moments.map((one) => one.log10_capital);
    return history(moments, `Log10 of the evidence, now ${found.log10_capital.toFixed(1)}.`,
      (one) => one.log10_capital, [Math.min(-2, ...capital), Math.max(bound + 0.5, ...capital)], "Rows with known true value",
      (svg, x, y) => svg.append(s("path", {
        class: "target", d: `M${LEFT} ${y(bound)}L${WIDTH - RIGHT} ${y(bound)}`,
      })));
  }

  return { value, curves, interval, coverageChart, driftChart };
})();
