// Sends requests to the service that served this page, and shows the replies. Names are untrusted: set as text only.
(() => {
  "use strict";

  const { $, h, tagged, table, known, whole, share, level, number, score, themed } = vicinal;
  const { value, curves, interval, coverageChart, driftChart } = drawings;
  const TYPES = {
    npz: "application/x-npz",
    parquet: "application/vnd.apache.parquet",
    pq: "application/vnd.apache.parquet",
    arrow: "application/vnd.apache.arrow.stream",
    csv: "text/csv",
    jsonl: "application/x-ndjson",
    ndjson: "application/x-ndjson",
    json: "application/json",
  };
  const LISTED = 500; // most rows of a file in the list
  const POLL = 2000; // milliseconds
  const GONE = "The service does not reply. Is it still running?";
  // `shown` is the row on the page, which differs from the chosen one until the reply arrives
  const state = { model: null, title: "", rows: [], token: sessionStorage.getItem("token") ?? "", turn: 0, shown: null };

  // The service -------------------------------------------------------------------------------------------------------

  async function ask(path, { body, type = TYPES.json } = {}) {
    const headers = state.token ? { Authorization: `Bearer ${state.token}` } : {};
    if (body !== undefined) headers["Content-Type"] = type;
    let reply;
    try {
      reply = await fetch(path, { method: body === undefined ? "GET" : "POST", headers, body, cache: "no-store" });
    } catch {
      throw new Error(GONE);
    }
    const found = await reply.json().catch(() => ({ detail: `The service replied with status ${reply.status}.` }));
    if (reply.status === 401) throw locked();
    if (!reply.ok) throw Object.assign(new Error(found.detail), { status: reply.status });
    return found;
  }

  const post = (path, value) => ask(path, { body: JSON.stringify(value) });

  function locked() {
    const words = state.token ? "That token was not accepted." : "This service requires a token.";
    sessionStorage.removeItem("token");
    $("entry").hidden = false;
    for (const id of ["ask", "live", "model"]) $(id).hidden = true;
    $("subtitle").textContent = "";
    return new Error(words);
  }

  function say(message, where = "trouble") {
    $(where).hidden = !message;
    $(where).textContent = message ?? "";
  }

  // Errors are shown, and the rest of the page stays as it was.
  const trying = (work, where = "trouble") => async (...given) => {
    try {
      await work(...given);
      if (where === "trouble") say(null);
    } catch (error) {
      say(error.message, where);
    }
  };

  // One row -----------------------------------------------------------------------------------------------------------

  function list(source, rows, total) {
    state.rows = rows;
    $("source").textContent = source;
    $("count").textContent = total > rows.length ? `(the first ${whole(rows.length)} of ${whole(total)})`
      : rows.length ? `(${whole(rows.length)})` : "";
    $("rows").replaceChildren(...rows.map((row, at) => h("option", { value: at }, row.name)));
    $("empty").hidden = rows.length > 0;
    $("row").hidden = !rows.length;
    for (const id of ["previous", "next", "random", "coverage", "rows"]) $(id).disabled = !rows.length;
    $("tell-all").hidden = !rows.some((row) => row.truth !== null);
    $("tell-all").disabled = false;
    $("tell-all").textContent = `Send all ${whole(rows.length)}`;
    if (!rows.length) return;
    $("rows").selectedIndex = 0;
    show();
  }

  // A true value, rounded for reading; all digits are sent.
  const short = (truth) => (typeof truth === "number" ? number(truth, 4) : String(truth));
  const named = (id, truth) => `Row ${id}${truth === null || truth === undefined ? "" : `: true value ${short(truth)}`}`;
  const chosen = () => state.rows[$("rows").selectedIndex];
  const coverage = () => Number($("coverage").value);

  // Sends one row: a row of a file by its number, an example by its body.
  async function sent(path, row, options) {
    if (!row.file) row.body ??= JSON.stringify(await ask(`examples/${row.row}`));
    const query = new URLSearchParams(row.file ? { ...options, row: row.row } : options);
    return ask(`${path}?${query}`, row.file ? { body: row.file, type: row.type } : { body: row.body });
  }

  const show = trying(async () => {
    const row = chosen();
    if (!row) return;
    const turn = ++state.turn; // replies may arrive out of order
    $("coverage-output").textContent = level(coverage());
    const found = await sent("explain", row, { coverage: coverage() });
    if (turn === state.turn) draw(row, found);
  });

  function draw(row, found) {
    if (state.shown !== row) {
      $("truth").value = row.truth ?? "";
      say(null, "told");
    }
    state.shown = row;
    $("row").hidden = false;
    $("row-title").textContent = row.name;
    $("words").textContent = found.words;
    $("curves").replaceChildren(curves(found));
    $("near-key").hidden = !found.scores_near.length;
    $("curves-caption").textContent = found.scores_near.length
      ? "Share of the neighbors (by weight) and of all calibration rows with a score at or below each value. If the "
        + "curve of the neighbors rises earlier, their scores are smaller and the threshold is lower."
      : "Share of the calibration rows with a score at or below each value. Every row has the same threshold.";
    const sets = found.set !== undefined;
    $("set").hidden = !sets;
    $("labels").hidden = !sets;
    $("interval").hidden = sets;
    (sets ? drawSet : drawInterval)(row, found);
    drawNeighbors(found);
    $("status").textContent = `${row.name}. ${$("verdict").textContent}`;
  }

  function drawNeighbors(found) {
    const scored = found.neighbors.some((one) => one.score !== null);
    const columns = ["Row", found.neighbor_column, "Distance", "Weight", ...(scored ? ["Score"] : [])];
    const rows = found.neighbors.map((one) => [String(one.row), one.target, number(one.distance), number(one.weight),
      ...(scored ? [score(one.score)] : [])]);
    const caption = `${found.neighbors_are}: ${rows.length} of ${whole(found.n_neighbors)} `
      + `(effective number: ${number(found.effective_size)})`;
    $("neighbors").replaceChildren(rows.length
      ? table(caption, columns, rows, { kind: "full", left: [found.neighbor_column] })
      : h("p", { class: "muted" }, "No neighbors: every row has the same threshold."));
  }

  function verdict(row, said, holds) {
    const where = holds ? "it is included" : "it is NOT included";
    $("verdict").textContent = row.truth === null ? said : `${said} The true value is ${short(row.truth)}: ${where}.`;
  }

  function drawSet(row, found) {
    const count = `${whole(found.size)} ${found.size === 1 ? "label" : "labels"}`;
    const why = found.size ? "" : " Every label has a higher score than the threshold: the row is unlike the calibration rows, or "
      + "the model is unsure. A score inside NeverEmpty(...) always includes the most probable label.";
    const truth = String(row.truth);
    verdict(row, `At coverage ${level(found.coverage)} the set has ${count}.${why}`,
      found.set.map(String).includes(truth));
    const inside = found.labels.filter((one) => one.in_set).map((one) => one.label); // the most probable first
    const rest = found.size - inside.length;
    $("set").replaceChildren(...inside.map((name) => h("li", { class: name === truth ? "truth" : null }, name)),
      ...(rest > 0 ? [h("li", {}, `and ${whole(rest)} less probable labels`)] : []));
    const bar = (part) => {
      const inner = h("i");
      inner.style.width = `${100 * part}%`;
      return h("span", { class: "bar-cell" }, h("span", {}, inner), share(part));
    };
    const caption = "Labels, most probable first; those in the set are marked"
      + (rest > 0 ? ` (${whole(inside.length)} of ${whole(found.size)})` : "");
    $("labels").replaceChildren(table(caption, ["Label", "Probability", "Score", "p-value"],
      found.labels.map((one) => [tagged(one.label, one.label === truth ? "truth" : null), bar(one.probability),
        score(one.score), share(one.p_value)]),
      { kind: found.labels.length > 15 ? "marked" : "full marked", left: ["Probability"],
        rowClass: (at) => (found.labels[at].in_set ? "in" : "out") }));
  }

  function drawInterval(row, found) {
    const ends = [found.lower, found.upper].map((one) => (known(one) ? number(one, 4) : value(one) < 0 ? "−∞" : "+∞"));
    const truth = row.truth === null ? null : Number(row.truth);
    const empty = value(found.lower) > value(found.upper); // `remark` says why
    const said = `At coverage ${level(found.coverage)} the interval `
      + (empty ? `is empty: ${found.remark.split(": ").slice(1).join(": ")}` : `goes from ${ends.join(" to ")}.`);
    verdict(row, `${said} The model predicts ${number(found.prediction, 4)}.`,
      value(found.lower) <= truth && truth <= value(found.upper));
    $("interval").replaceChildren(interval(found, truth, ends));
  }

  // Files -------------------------------------------------------------------------------------------------------------

  async function load(file) {
    const type = TYPES[file.name.split(".").at(-1).toLowerCase()];
    if (!state.model) throw new Error("The service has not replied yet.");
    if (!type) throw new Error(`${file.name} is not a .npz, .parquet (.pq), .arrow, .csv, .jsonl (.ndjson) or .json file.`);
    const most = state.model.limits.body_bytes;
    const long = `${file.name} has ${whole(file.size)} bytes; the service accepts at most ${whole(most)}.`;
    if (file.size > most) throw new Error(long);
    $("status").textContent = `Reading ${file.name}.`;
    let found;
    try {
      found = await ask("predict?remember=false", { body: file, type });
    } catch (error) {
      if (error.message === GONE) throw new Error(`${file.name} could not be sent: it has changed, or the service has stopped.`);
      throw new Error(`${file.name} was refused: ${error.message}`);
    }
    list(file.name, found.answers.slice(0, LISTED).map((one, at) => ({
      row: at, name: named(one.row_id, one.truth), truth: one.truth ?? null, file, type,
    })), found.answers.length);
  }

  const read = trying(async (file) => {
    try {
      await load(file);
    } finally {
      $("file").value = ""; // the list shows the name, and the same file can be chosen again
    }
  });

  // Truths ------------------------------------------------------------------------------------------------------------

  // The id identifies the row, so that the service counts it once, however often it is sent.
  function identity({ file, row }) {
    return file ? `${file.name} ${file.size} ${file.lastModified} ${row}`.slice(-200) : `example ${row}`;
  }

  async function tell(row, truth) {
    if (truth === "") throw new Error("Enter the true value of this row first.");
    const { answers: [answer] } = await sent("predict", row, { id: identity(row) });
    const word = state.model.kind === "sets" ? "labels" : "targets";
    const text = (word === "labels" && state.model.class_names) || Number.isNaN(Number(truth));
    const found = await post("feedback", { row_ids: [answer.row_id], [word]: [text ? truth : Number(truth)] });
    drift(found.drift);
    return found.drift;
  }

  async function telling(work) {
    for (const id of ["tell-one", "tell-all"]) $(id).disabled = true;
    try {
      await work();
    } finally {
      $("tell-one").disabled = false;
      $("tell-all").disabled = false;
      await refresh();
    }
  }

  const tellOne = trying(() => telling(async () => {
    const found = await tell(state.shown, $("truth").value.trim());
    say(`Sent: the true value of ${whole(found.rows)} ${found.rows === 1 ? "row is" : "rows is"} known.`, "told");
  }), "told");

  const tellAll = trying(() => telling(async () => {
    const rows = state.rows.filter((row) => row.truth !== null);
    let before = 0;
    for (const [at, row] of rows.entries()) {
      say(`Sending ${whole(at + 1)} of ${whole(rows.length)}.`, "told");
      try {
        await tell(row, String(row.truth));
      } catch (error) {
        if (error.status !== 409) throw error; // known already
        before += 1;
      }
    }
    say(`Sent all ${whole(rows.length)}${before ? `; ${whole(before)} of them were known already` : ""}.`, "told");
  }), "told");

  // Coverage and drift ------------------------------------------------------------------------------------------------

  function drift(now) {
    const tile = (name, big, ...notes) => h("div", {}, h("dt", {}, name), h("dd", { class: "big" }, big),
      notes.map((note) => h("dd", { class: "note" }, note)));
    const alarmed = now.alarm !== null;
    const below = now.interval && now.interval[1] < now.target;
    const last = tile("Drift", alarmed ? "⚠ detected" : "none detected", alarmed ? `alarm at row ${whole(now.alarm)}` : null);
    last.classList.toggle("warning", alarmed);
    const covered = tile("Coverage", `${below ? "⚠ " : ""}${share(now.coverage)}`,
      now.interval ? `between ${share(now.interval[0])} and ${share(now.interval[1])}` : "no true values yet",
      now.window ? `of the last ${whole(now.window)} rows` : "send true values to /feedback, or one above");
    covered.classList.toggle("warning", Boolean(below));
    $("tiles").replaceChildren(tile("Rows with known true value", whole(now.rows)), covered,
      tile("Target coverage", share(now.target ?? state.model.coverage), "mean over the same rows"), last);
    $("alarm").textContent = now.words;
    $("alarm").classList.toggle("warning", alarmed);
    document.title = `${alarmed ? "⚠ Drift: " : ""}${state.title}`;
  }

  function charts(found) {
    if (!found.history.length) {
      for (const id of ["coverage-chart", "drift-chart"]) {
        $(id).replaceChildren(h("p", { class: "muted" }, "No data yet."));
      }
      return;
    }
    $("coverage-chart").replaceChildren(coverageChart(found));
    $("drift-chart").replaceChildren(driftChart(found));
  }

  async function refresh() {
    const found = await ask("drift");
    if ($("trouble").textContent === GONE) say(null);
    drift(found);
    charts(found);
  }

  // Start -------------------------------------------------------------------------------------------------------------

  function introduce(model) {
    const sets = model.kind === "sets";
    const kind = sets ? "Prediction sets" : "Prediction intervals";
    state.title = `${model.file}: ${kind.toLowerCase()}`;
    $("title").textContent = `${kind} of ${model.file}`;
    document.title = state.title;
    const classes = sets ? `${whole(model.n_classes)} classes, ` : "";
    $("subtitle").textContent = `${classes}${whole(model.rows)} calibration rows, coverage ${level(model.coverage)} `
      + "by default.";
    const near = model.reads_representations ? ", and representations" : "";
    $("columns").textContent = `${sets ? "logits or probabilities" : "predictions, or lower and upper"}${near}; with `
      + `${sets ? "labels" : "targets"} the page shows the true values.`;
    $("guarantee").textContent = model.guarantee.words;
    $("version").textContent = model.vicinal;
    const facts = { ...model.parts, saved: model.created, checksum: model.checksum, model: model.model };
    $("settings").replaceChildren(...Object.entries(facts).filter(([, word]) => word)
      .map(([name, word]) => h("div", {}, h("dt", {}, name), h("dd", {}, word))));
    $("names").replaceChildren(...(model.class_names ?? []).map((name) => h("option", { value: name })));
    $("links").hidden = Boolean(state.token); // a link cannot send a token
    const even = Math.abs(model.coverage * 200 - Math.round(model.coverage * 200)) < 1e-9;
    const step = even ? 0.005 : 0.001;
    Object.assign($("coverage"), { min: Math.min(0.5, model.coverage), step });
    const most = Math.floor(Math.min(0.999, model.most_coverage) / step) * step;
    $("coverage").max = String(Math.max(model.coverage, most));
    $("coverage").value = String(model.coverage);
  }

  const start = trying(async () => {
    const model = await ask("model");
    state.model = model;
    $("entry").hidden = true;
    for (const id of ["ask", "live", "model"]) $(id).hidden = false;
    introduce(model);
    const found = await ask("examples");
    list(found.source ? `Example rows: ${found.source}` : "Rows", found.rows.map((one) => ({
      ...one, name: named(one.row_id ?? one.row, one.truth),
    })), found.total);
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
    const others = () => Math.max(1, state.rows.length - 1);
    $("random").addEventListener("click", () => step(1 + Math.floor(Math.random() * others())));
    $("coverage").addEventListener("input", () => {
      $("coverage-output").textContent = level(coverage());
      clearTimeout(later);
      later = setTimeout(show, 60); // wait until the slider rests
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
    setInterval(() => {
      if (state.model && $("entry").hidden && !document.hidden) refresh().catch((error) => say(error.message));
    }, POLL);
  }

  themed();
  connect();
  start();
})();
