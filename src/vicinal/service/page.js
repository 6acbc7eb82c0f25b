// Asks the service it came from, and draws what it answers. Names can hold anything: they are set as text only.
(() => {
  "use strict";

  const { $, h, tagged, table, known, whole, share, level, number, score, themed } = vicinal;
  const TYPES = { npz: "application/x-npz", arrow: "application/vnd.apache.arrow.stream", json: "application/json" };
  const LISTED = 500; // rows of a file that can be picked
  const POLL = 2000; // milliseconds
  const state = { model: null, rows: [], file: null, token: sessionStorage.getItem("token") ?? "", turn: 0, shown: null };
  const told = new Set(JSON.parse(sessionStorage.getItem("told") ?? "[]")); // examples whose truth has been told

  // The service -------------------------------------------------------------------------------------------------------

  async function ask(path, { body, type = TYPES.json } = {}) {
    const headers = state.token ? { Authorization: `Bearer ${state.token}` } : {};
    if (body !== undefined) headers["Content-Type"] = type;
    let reply;
    try {
      reply = await fetch(path, { method: body === undefined ? "GET" : "POST", headers, body, cache: "no-store" });
    } catch {
      throw new Error("The service does not answer. Is it still running?");
    }
    const found = await reply.json().catch(() => ({ detail: `The service answered ${reply.status}.` }));
    if (reply.status === 401) $("entry").hidden = false;
    if (!reply.ok) throw new Error(found.detail);
    return found;
  }

  const post = (path, value) => ask(path, { body: JSON.stringify(value) });

  function say(message) {
    $("trouble").hidden = !message;
    $("trouble").textContent = message ?? "";
  }

  // Whatever fails is said, and what was there before stays.
  const trying = (work) => async (...given) => {
    try {
      await work(...given);
      say(null);
    } catch (error) {
      say(error.message);
    }
  };

  // Drawings ----------------------------------------------------------------------------------------------------------

  let WIDTH = 560; // as wide as there is room, so that letters stay as large as they are
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
    return Array.from({ length: Math.max(0, last - first + 1) }, (_, at) => Number(((first + at) * step).toPrecision(12)));
  }

  function drawing(label, spanX, spanY, titleX) {
    WIDTH = Math.max(300, Math.min(560, document.documentElement.clientWidth - 40));
    const x = scale(spanX, LEFT, WIDTH - RIGHT);
    const y = scale(spanY, HEIGHT - BOTTOM, TOP);
    const text = (value) => value.toLocaleString("en-US", { maximumSignificantDigits: 4 });
    const svg = s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT + 12}`, role: "img", "aria-label": label });
    for (const value of ticks(spanY)) {
      svg.append(s("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value) }),
        s("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, text(value)));
    }
    for (const value of ticks(spanX, 5)) {
      svg.append(s("text", { x: x(value), y: HEIGHT - BOTTOM + 16, "text-anchor": "middle" }, text(value)));
    }
    svg.append(s("line", { class: "axis", x1: LEFT, x2: WIDTH - RIGHT, y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM }),
      s("text", { x: (LEFT + WIDTH) / 2, y: HEIGHT + 6, "text-anchor": "middle" }, titleX));
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
      `Distribution of scores near this row and everywhere. Local threshold ${found.threshold}, `
      + `global threshold ${found.global_threshold}.`, [low - pad, high + pad], [0, 1], "Score: lower fits better");
    const steps = (points) => {
      const corners = [];
      let before = 0;
      for (const [at, height] of points) {
        corners.push([x(value(at)), y(before)], [x(value(at)), y(height)]);
        before = height;
      }
      return path([[x(low - pad), y(0)], ...corners, [x(high + pad), y(before)]]);
    };
    const upright = (at, kind, word, lift, left) => {
      const place = x(value(at));
      const before = place > WIDTH * 0.75 || (left && place > WIDTH * 0.35); // where the word fits
      svg.append(s("line", { class: `${kind}-mark`, x1: place, x2: place, y1: TOP - 4, y2: HEIGHT - BOTTOM }),
        s("text", { class: `${kind}-word`, x: place + (before ? -6 : 6), y: HEIGHT - BOTTOM - lift,
          "text-anchor": before ? "end" : "start" }, word));
    };
    svg.append(s("path", { class: "far", d: steps(found.scores_everywhere) }));
    if (found.scores_near.length) svg.append(s("path", { class: "near", d: steps(found.scores_near) }));
    const lower = value(found.threshold) < value(found.global_threshold);
    if (found.scores_near.length) upright(found.global_threshold, "far", "threshold without neighbors", 28, !lower);
    upright(found.threshold, "near", "threshold of this row", 10, lower);
    return svg;
  }

  function history(moments, label, pick, spanY, titleX, extra) {
    const rows = moments.map((one) => one.rows);
    const { svg, x, y } = drawing(label, [Math.min(...rows), Math.max(...rows, Math.min(...rows) + 1)], spanY, titleX);
    extra(svg, x, y);
    const points = moments.map((one) => [x(one.rows), y(pick(one))]);
    svg.append(s("path", { class: "near", d: path(points) }));
    const [lastX, lastY] = points.at(-1);
    svg.append(s("circle", { class: "point", cx: lastX, cy: lastY, r: 4 }));
    return svg;
  }

  // One row -----------------------------------------------------------------------------------------------------------

  function list(source, rows) {
    state.rows = rows;
    $("source").textContent = source;
    $("count").textContent = rows.length ? `(${whole(rows.length)})` : "";
    $("rows").replaceChildren(...rows.map((row, at) => h("option", { value: at }, row.name)));
    $("empty").hidden = rows.length > 0;
    $("row").hidden = !rows.length;
    $("tell-all").hidden = Boolean(state.file) || !rows.some((row) => row.truth !== null);
    if (!rows.length) return;
    $("rows").selectedIndex = 0;
    show();
  }

  const chosen = () => state.rows[$("rows").selectedIndex];
  const coverage = () => Number($("coverage").value);

  async function body(row) {
    if (row.file) return { body: row.file, type: row.type };
    row.body ??= JSON.stringify(await ask(`examples/${row.row}`));
    return { body: row.body };
  }

  const show = trying(async () => {
    const row = chosen();
    if (!row) return;
    const turn = ++state.turn; // answers may come in another order than they were asked for
    $("coverage-output").textContent = level(coverage());
    const where = row.file ? `explain?row=${row.row}&coverage=${coverage()}` : `explain?coverage=${coverage()}`;
    const found = await ask(where, await body(row));
    if (turn === state.turn) draw(row, found);
  });

  function draw(row, found) {
    state.shown = row;
    $("row").hidden = false;
    $("row-title").textContent = row.name;
    $("words").textContent = found.words;
    $("curves").replaceChildren(curves(found));
    $("near-key").hidden = !found.scores_near.length;
    $("curves-caption").textContent = found.scores_near.length
      ? "How much of the neighbors’ weight, and of all calibration rows, has a score at or below each value. Where the "
        + "neighbors’ curve rises earlier, the neighborhood is easier and the threshold lower."
      : "How many of the calibration rows have a score at or below each value. Every row has the same threshold.";
    const sets = found.set !== undefined;
    $("set").hidden = !sets;
    $("labels").hidden = !sets;
    $("interval").hidden = sets;
    (sets ? drawSet : drawInterval)(row, found);
    const near = found.neighbors.map((one) => [whole(one.row) === "–" ? String(one.row) : String(one.row), one.target,
      number(one.distance), number(one.weight), score(one.score)]);
    $("neighbors").replaceChildren(near.length
      ? table(`${found.neighbors_are}: ${near.length} of ${whole(found.n_neighbors)}, worth `
        + `${number(found.effective_size)} equal ones`, ["Row", found.neighbor_column, "Distance", "Weight", "Score"],
        near, { left: [found.neighbor_column] })
      : h("p", { class: "muted" }, "Nobody: every row has the same threshold."));
    $("truth").value = row.truth ?? "";
    $("status").textContent = `${row.name}. ${$("verdict").textContent}`;
  }

  function verdict(row, said, holds) {
    const about = row.truth === null ? "" : ` The truth is ${row.truth}: ${holds ? "it is inside." : "it is NOT inside."}`;
    $("verdict").textContent = `${said}${about}`;
  }

  function drawSet(row, found) {
    const names = found.set.map(String);
    const count = `${whole(found.size)} ${found.size === 1 ? "label" : "labels"}`;
    verdict(row, `At coverage ${level(found.coverage)} the set has ${count}.`, names.includes(String(row.truth)));
    $("set").replaceChildren(...names.slice(0, 60).map((name) =>
      h("li", { class: name === String(row.truth) ? "truth" : null }, name)),
      ...(names.length > 60 ? [h("li", {}, `and ${names.length - 60} more`)] : []));
    const bar = (part) => {
      const inner = h("i");
      inner.style.width = `${100 * part}%`;
      return h("span", { class: "bar-cell" }, h("span", {}, inner), share(part));
    };
    $("labels").replaceChildren(table("Labels, the most probable first; those in the set are marked",
      ["Label", "Probability", "Score", "p-value"],
      found.labels.map((one) => [tagged(one.label, one.label === String(row.truth) ? "truth" : null), bar(one.probability),
        score(one.score), share(one.p_value)]),
      { kind: "full marked", left: ["Probability"], rowClass: (at) => (found.labels[at].in_set ? "in" : "out") }));
  }

  function drawInterval(row, found) {
    const ends = [found.lower, found.upper].map((one) => (known(one) ? number(one, 4) : value(one) < 0 ? "−∞" : "+∞"));
    const truth = Number(row.truth);
    verdict(row, `At coverage ${level(found.coverage)} the interval goes from ${ends[0]} to ${ends[1]}.`,
      value(found.lower) <= truth && truth <= value(found.upper));
    $("interval").replaceChildren(h("p", {}, `The model predicts ${number(found.prediction, 4)}.`));
  }

  // Files -------------------------------------------------------------------------------------------------------------

  const read = trying(async (file) => {
    const type = TYPES[file.name.split(".").at(-1).toLowerCase()];
    if (!type) throw new Error(`${file.name} is not a .npz, .arrow or .json file.`);
    const most = state.model.limits.body_bytes;
    if (file.size > most) throw new Error(`${file.name} has ${whole(file.size)} bytes; the service takes ${whole(most)}.`);
    $("status").textContent = `Reading ${file.name}.`;
    const found = await ask(`predict?coverage=${coverage()}`, { body: file, type });
    state.file = file;
    list(file.name, found.answers.slice(0, LISTED).map((one, at) => ({
      row: at, name: `Row ${at}`, truth: null, file, type,
    })));
  });

  // Truths ------------------------------------------------------------------------------------------------------------

  async function tell(row, truth) {
    const sent = await body(row);
    const found = await ask(`predict?coverage=${coverage()}`, sent);
    const answer = found.answers[row.file ? row.row : 0];
    const numbers = state.model.kind !== "sets" || !state.model.class_names;
    if (truth === "" || (numbers && Number.isNaN(Number(truth)))) throw new Error("The truth of a row must be said first.");
    const word = state.model.kind === "sets" ? "labels" : "targets";
    drift(await post("feedback", { row_ids: [answer.row_id], [word]: [numbers ? Number(truth) : truth] }), true);
    if (!row.file) remember(row);
  }

  function remember(row) {
    told.add(`${state.model.checksum} ${row.row}`);
    sessionStorage.setItem("told", JSON.stringify([...told]));
  }

  const tellOne = trying(async () => {
    const row = chosen();
    if (!row.file && told.has(`${state.model.checksum} ${row.row}`)) {
      throw new Error("The truth of this example has been told; a row counts once.");
    }
    await tell(row, $("truth").value.trim());
    $("status").textContent = `Told. ${$("alarm").textContent}`;
    await refresh();
  });

  const tellAll = trying(async () => {
    const left = state.rows.filter((row) => row.truth !== null && !told.has(`${state.model.checksum} ${row.row}`));
    for (const [at, row] of left.entries()) {
      $("tell-all").textContent = `Telling ${at + 1} of ${left.length}`;
      await tell(row, row.truth);
    }
    $("tell-all").textContent = "All examples are told";
    $("tell-all").disabled = true;
    await refresh();
  });

  // Coverage and drift ------------------------------------------------------------------------------------------------

  function drift(found, quick = false) {
    const now = quick ? found.drift : found;
    const tile = (name, big, ...notes) => h("div", {}, h("dt", {}, name), h("dd", { class: "big" }, big),
      notes.map((note) => h("dd", { class: "note" }, note)));
    $("tiles").replaceChildren(
      tile("Rows with known truth", whole(now.rows)),
      tile("Coverage", share(now.coverage), now.interval ? `between ${share(now.interval[0])} and ${share(now.interval[1])}`
        : "no truth yet", now.window ? `of the last ${whole(now.window)} rows` : "send truths to /feedback, or tell one above"),
      tile("Asked for", known(now.target) ? share(now.target) : level(state.model.coverage)),
      tile("Drift", now.alarm === null ? "none seen" : "seen", now.alarm === null
        ? `bet at 10^${now.log10_capital.toFixed(1)}; alarm at 10^${Math.log10(now.threshold).toFixed(0)}`
        : `since row ${whole(now.alarm)}`));
    $("alarm").textContent = now.words;
    if (!quick) charts(found);
  }

  function charts(found) {
    const moments = found.history;
    const nothing = () => h("p", { class: "muted" }, "Nothing to draw yet.");
    if (moments.length < 2) {
      $("coverage-chart").replaceChildren(nothing());
      $("drift-chart").replaceChildren(nothing());
      return;
    }
    const low = Math.max(0, Math.min(...moments.slice(-200).map((one) => one.interval[0]), found.target) - 0.02);
    $("coverage-chart").replaceChildren(history(moments, `Coverage, now ${share(found.coverage)}.`, (one) => one.coverage,
      [low, 1], "Rows with known truth", (svg, x, y) => {
        const band = [...moments.map((one) => [x(one.rows), y(one.interval[1])]),
          ...moments.toReversed().map((one) => [x(one.rows), y(one.interval[0])])];
        svg.append(s("path", { class: "band", d: `${path(band)}Z` }), s("line", {
          class: "target", x1: LEFT, x2: WIDTH - RIGHT, y1: y(found.target), y2: y(found.target),
        }));
      }));
    const bound = Math.log10(found.threshold);
    const capital = moments.map((one) => one.log10_capital);
    $("drift-chart").replaceChildren(history(moments, `Log10 of the capital, now ${found.log10_capital.toFixed(1)}.`,
      (one) => one.log10_capital, [Math.min(-2, ...capital), Math.max(bound + 0.5, ...capital)], "Rows with known truth",
      (svg, x, y) => svg.append(s("line", {
        class: "target", x1: LEFT, x2: WIDTH - RIGHT, y1: y(bound), y2: y(bound),
      }))));
  }

  const refresh = async () => drift(await ask("drift"));

  // Start -------------------------------------------------------------------------------------------------------------

  function introduce(model) {
    const sets = model.kind === "sets";
    $("title").textContent = sets ? "Prediction sets" : "Prediction intervals";
    document.title = `${$("title").textContent}: vicinal`;
    const classes = sets ? `${whole(model.n_classes)} classes, ` : "";
    $("subtitle").textContent = `${classes}${whole(model.rows)} calibration rows, coverage ${level(model.coverage)} unless `
      + "another is asked for.";
    $("guarantee").textContent = model.guarantee.words;
    $("version").textContent = model.vicinal;
    const facts = { ...model.parts, saved: model.created, checksum: model.checksum, model: model.model };
    $("settings").replaceChildren(...Object.entries(facts).filter(([, word]) => word)
      .map(([name, word]) => h("div", {}, h("dt", {}, name), h("dd", {}, word))));
    $("names").replaceChildren(...(model.class_names ?? []).map((name) => h("option", { value: name })));
    const most = Math.floor(model.most_coverage * 100) / 100;
    $("coverage").max = String(Math.min(0.99, most));
    $("coverage").value = String(model.coverage);
  }

  const start = trying(async () => {
    state.model = await ask("model");
    $("entry").hidden = true;
    introduce(state.model);
    const found = await ask("examples");
    list(found.source ? `Example rows: ${found.source}` : "Rows", found.rows.map((one) => ({
      ...one, name: `Row ${one.row}${one.truth === null ? "" : `: ${one.truth}`}`,
    })));
    await refresh();
  });

  function step(by) {
    const count = state.rows.length;
    if (!count) return;
    $("rows").selectedIndex = ($("rows").selectedIndex + by + count) % count;
    show();
  }

  function connect() {
    let later;
    $("rows").addEventListener("change", show);
    $("previous").addEventListener("click", () => step(-1));
    $("next").addEventListener("click", () => step(1));
    $("random").addEventListener("click", () => step(1 + Math.floor(Math.random() * Math.max(1, state.rows.length - 1))));
    $("coverage").addEventListener("input", () => {
      $("coverage-output").textContent = level(coverage());
      clearTimeout(later);
      later = setTimeout(show, 60); // a moving slider asks for where it rests
    });
    $("file").addEventListener("change", () => $("file").files.length && read($("file").files[0]));
    for (const [name, over] of [["dragover", true], ["dragleave", false], ["drop", false]]) {
      $("drop").addEventListener(name, (event) => {
        event.preventDefault();
        $("drop").classList.toggle("over", over);
        if (name === "drop" && event.dataTransfer.files.length) read(event.dataTransfer.files[0]);
      });
    }
    $("tell").addEventListener("submit", (event) => { event.preventDefault(); tellOne(); });
    $("tell-all").addEventListener("click", tellAll);
    $("entry").addEventListener("submit", (event) => {
      event.preventDefault();
      state.token = $("token").value;
      sessionStorage.setItem("token", state.token);
      start();
    });
    setInterval(() => { if (state.model && !document.hidden) refresh().catch((error) => say(error.message)); }, POLL);
  }

  themed();
  connect();
  start();
})();
