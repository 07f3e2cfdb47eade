// Draws the report's plots with uPlot from the JSON block `#data`, and runs the two selectors and the theme.
//
// All words and numbers of the page are already in its HTML; this file adds what needs a canvas. For tests it
// leaves marks: `data-drawn` on each plot that has been drawn, `data-errors` on <html> with every error, and
// `data-ready` on <html> at the end. The state of the page (trial, theme) is in its address: #trial=3&theme=dark.
"use strict";
(() => {
  const root = document.documentElement;
  window.addEventListener("error", (e) => note(e.message));
  window.addEventListener("unhandledrejection", (e) => note(String(e.reason)));
  function note(message) {
    root.dataset.errors = (root.dataset.errors ? root.dataset.errors + "\n" : "") + message;
  }

  const data = JSON.parse(document.getElementById("data").textContent);
  const state = new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : "");
  const byId = (id) => document.getElementById(id);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];

  // ---- Text of numbers, as the page writes them (number.rs) ----
  const grouped = (v, decimals) => v.toLocaleString("en-US", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
  function time(ns) {
    if (ns < 1e3) return `${Math.round(ns)} ns`;
    const [v, unit] = ns < 1e6 ? [ns / 1e3, "us"] : ns < 1e9 ? [ns / 1e6, "ms"] : [ns / 1e9, "s"];
    return `${v.toFixed(v < 10 ? 2 : v < 100 ? 1 : 0)} ${unit}`;
  }
  /** A time on an axis: no digits that say nothing. */
  const timeTick = (ns) => time(ns).replace(/\.0+ /, " ").replace(/(\.\d*?)0+ /, "$1 ");
  /** A rate on an axis, short: 20k. */
  const rateTick = (v) => (v >= 1e6 ? `${+(v / 1e6).toFixed(2)}M` : v >= 1e4 ? `${+(v / 1e3).toFixed(1)}k` : String(+v.toPrecision(3)));
  const rate = (v) => `${grouped(v, v >= 100 ? 0 : v >= 10 ? 1 : 2)}/s`;
  const share = (v) => `${(v * 100).toFixed(v !== 0 && v < 0.0995 ? 1 : 0)} %`;
  const percentile = (q) => `p${+(q * 100).toFixed(6)}`;

  // ---- Plots ----
  const HEIGHT = 260;
  const plots = new Map(); // plot element -> uPlot
  // A variable that depends on the theme is text until something is painted with it: this element is.
  const probe = document.body.appendChild(document.createElement("i"));
  probe.hidden = true;
  function color(name) {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  }
  const FONT = "12px system-ui, sans-serif";

  /** Colour and dash of line i: seven colours, then the same with dashes. */
  const look = (i) => ({ stroke: color(`c${i % 7}`), dash: i < 7 ? undefined : [8, 3] });
  const line = (label, value, i, more = {}) => ({ label, value: show(value), width: 2, spanGaps: true, ...look(i), ...more });
  /** The legend shows a dash while the cursor is elsewhere. */
  const show = (format) => (_, v) => (v == null ? "–" : format(v));

  function axis(label, format, more = {}) {
    const faint = color("faint");
    const grid = { stroke: color("line"), width: 1 };
    return { label, labelSize: 18, labelGap: 2, font: FONT, labelFont: FONT, stroke: faint, grid, ticks: grid, filter: (_, splits) => splits, values: (_, splits) => splits.map((v) => (v == null ? "" : format(v))), ...more };
  }
  const yAxis = (label, format, more = {}) => axis(label, format, { size: 54, ...more });

  /** 1, 2, 5 times the powers of ten within a range; only powers where that is too many. */
  function decades(min, max) {
    const ticks = [];
    for (let e = Math.floor(Math.log10(min)); e <= Math.ceil(Math.log10(max)); e++)
      for (const m of [1, 2, 5]) ticks.push(m * 10 ** e);
    const within = ticks.filter((t) => t >= min * 0.999 && t <= max * 1.001);
    return within.length > 8 ? within.filter((t) => /^1(e|0*$)/.test(String(t))) : within;
  }
  const LOG = { time: false, distr: 100, fwd: Math.log10, bwd: (v) => 10 ** v };
  /** A logarithmic scale with room around the values. */
  const logScale = (room) => ({ ...LOG, range: (_, min, max) => (min > 0 ? [min / room, max * room] : [1, 10]) });
  const logAxis = (label, format) => yAxis(label, format, { size: 62, splits: (_, i, min, max) => decades(min, max) });
  const fromZero = { range: (_, __, max) => [0, max > 0 ? max * 1.08 : 1] };
  /** The same scale, over the whiskers too: uPlot itself looks at the medians only. */
  function over(spreads, scale) {
    const ends = spreads.flat().flatMap((s) => (s ? [s.min, s.max] : []));
    return { ...scale, range: (u, min, max) => scale.range(u, Math.min(min ?? Infinity, ...ends), Math.max(max ?? -Infinity, ...ends)) };
  }
  /** Shares of one: room above for the marks. */
  const atMostOne = { range: () => [0, 1.12] };
  const FIFTHS = [0, 0.2, 0.4, 0.6, 0.8, 1];

  /** Draws a plot into its element, replacing what is there. No series: the reason instead. */
  function draw(element, options, values, reason) {
    plots.get(element)?.destroy();
    plots.delete(element);
    const missing = element.parentElement.querySelector(".nothing");
    element.hidden = !options;
    missing.hidden = Boolean(options);
    if (!options) {
      missing.textContent = reason;
      delete element.dataset.drawn;
      return;
    }
    const plot = new uPlot(
      {
        // Within what is folded there is no width yet; the observer gives it one.
        width: element.clientWidth || 600,
        height: HEIGHT,
        padding: [10, 12, 0, 0],
        ...options,
        legend: { markers: { width: 3, dash: (u, i) => (u.series[i].dash ? "dashed" : "solid") } },
        cursor: { drag: { x: true, y: false }, ...options.cursor },
        hooks: { ...options.hooks, ready: [() => (element.dataset.drawn = String(values.length - 1))] },
      },
      values,
      element,
    );
    plots.set(element, plot);
    resize.observe(element);
  }
  const resize = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      const plot = plots.get(target);
      const width = target.clientWidth;
      if (plot && width > 0 && plot.width !== width) plot.setSize({ width, height: HEIGHT });
    }
  });

  /** Calls `paint` on the canvas, clipped to the plotting area. */
  function onCanvas(u, paint) {
    const { ctx, bbox } = u;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    paint(ctx, bbox, devicePixelRatio || 1);
    ctx.restore();
  }
  function labelAt(ctx, text, x, y, ratio, align) {
    ctx.font = `${11 * ratio}px system-ui, sans-serif`;
    ctx.textAlign = align;
    ctx.textBaseline = "top";
    ctx.fillText(text, x, y);
  }

  // ---- Rate and latency against load ----
  /** Vertical lines from the smallest to the largest value of each point. `spreads[i]` belongs to series i+1. */
  const whiskers = (spreads) => (u) =>
    onCanvas(u, (ctx, _, ratio) => {
      ctx.lineWidth = 1.5 * ratio;
      spreads.forEach((points, i) => {
        const series = u.series[i + 1];
        if (!series.show) return;
        ctx.strokeStyle = series.stroke(u, i + 1);
        points.forEach((s, at) => {
          if (!s) return;
          const x = u.valToPos(u.data[0][at], "x", true);
          const [low, high] = [s.min, s.max].map((v) => u.valToPos(v, "y", true));
          ctx.beginPath();
          for (const y of [low, high]) { ctx.moveTo(x - 4 * ratio, y); ctx.lineTo(x + 4 * ratio, y); }
          ctx.moveTo(x, low);
          ctx.lineTo(x, high);
          ctx.stroke();
        });
      });
    });
  /** A line at each knee; among several lines it has the colour of its own. */
  const kneeMarks = (lines) => (u) =>
    lines.forEach((l, i) => l.knee_at != null && kneeMark(u, l.knee_at, lines.length > 1 ? color(`c${i % 7}`) : color("faint"), i));
  const kneeMark = (u, at, stroke, row) =>
    onCanvas(u, (ctx, box, ratio) => {
      const x = u.valToPos(at, "x", true);
      ctx.strokeStyle = ctx.fillStyle = stroke;
      ctx.setLineDash([5 * ratio, 4 * ratio]);
      ctx.lineWidth = ratio;
      ctx.beginPath();
      ctx.moveTo(x, box.top);
      ctx.lineTo(x, box.top + box.height);
      ctx.stroke();
      const right = x > box.left + box.width / 2;
      labelAt(ctx, "knee", x + (right ? -5 : 5) * ratio, box.top + (3 + 13 * row) * ratio, ratio, right ? "right" : "left");
    });

  function drawCurves(element, kind) {
    const curves = data.curves[Number(element.parentElement.dataset.curves)];
    const loads = [...new Set(curves.lines.flatMap((l) => l.load))].sort((a, b) => a - b);
    const along = (l, list) => loads.map((load) => list[l.load.indexOf(load)] ?? null);
    const series = [{ label: axisWords(curves.axis), value: show((v) => String(+v.toPrecision(4))) }];
    const spreads = [];
    const points = { show: true, size: 7 };
    curves.lines.forEach((l, i) => {
      const name = l.name || curves.stage;
      if (kind === "rate") {
        spreads.push(along(l, l.rate));
        series.push(line(name, rate, i, { points }));
      } else {
        spreads.push(along(l, l.p99), along(l, l.p50));
        series.push(line(`p99 ${name}`, time, i, { points }), line(`p50 ${name}`, time, i, { points, dash: [4, 4] }));
      }
    });
    const columns = spreads.map((points) => points.map((s) => s?.median ?? null));
    if (kind === "rate" && curves.axis === "offered_per_s") {
      series.push({ ...line("offered", rate, 6, { width: 1, dash: [2, 3], points: { show: false } }), stroke: color("faint") });
      columns.push(loads);
    }
    const wide = loads[0] > 0 && loads.at(-1) / loads[0] >= 8;
    const x = wide ? logScale(1.15) : { time: false, range: (_, min, max) => [min - (max - min) * 0.06, max + (max - min) * 0.06] };
    draw(
      element,
      {
        series,
        scales: { x, y: over(spreads, kind === "rate" ? fromZero : logScale(1.25)) },
        axes: [
          axis(axisWords(curves.axis) + (wide ? ", logarithmic" : ""), rateTick, { splits: (u) => spaced(u, loads), size: 34 }),
          kind === "rate" ? yAxis("rate, 1/s", rateTick) : logAxis("response time", timeTick),
        ],
        hooks: { draw: [whiskers(spreads), kneeMarks(curves.lines)] },
      },
      [loads, ...columns],
    );
  }
  /** The knee of a line in the plane of rate and latency: a ring around its point. */
  function drawLatencyRate(element) {
    const curves = data.curves[Number(element.parentElement.dataset.curves)];
    const lines = curves.lines.map((l) => ({
      ...l,
      points: l.load.map((load, i) => ({ load, rate: l.rate[i], p99: l.p99[i] })).filter((p) => p.rate && p.p99),
    }));
    const rates = [...new Set(lines.flatMap((l) => l.points.map((p) => p.rate.median)))].sort((a, b) => a - b);
    if (rates.length === 0) return draw(element, null, [], "No cell of this stage has a valid trial.");
    const ends = (of) => lines.map((l) => l.points.map(of));
    const points = { show: true, size: 7 };
    const series = [{ label: "rate", value: show(rate) }];
    const columns = lines.map((l, i) => {
      series.push(line(l.name || curves.stage, time, i, { points, paths: () => null }));
      return rates.map((r) => l.points.find((p) => p.rate.median === r)?.p99.median ?? null);
    });
    // Past the knee the rate may fall again: the line follows the loads, which uPlot's own lines cannot.
    const paint = (u) =>
      onCanvas(u, (ctx, box, ratio) =>
        lines.forEach((l, i) => {
          if (!u.series[i + 1].show) return;
          const at = (r, p) => [u.valToPos(r, "x", true), u.valToPos(p, "y", true)];
          const path = (...ends) => {
            ctx.beginPath();
            ends.forEach(([x, y], n) => (n ? ctx.lineTo(x, y) : ctx.moveTo(x, y)));
            ctx.stroke();
          };
          ctx.strokeStyle = ctx.fillStyle = color(`c${i % 7}`);
          ctx.setLineDash(i < 7 ? [] : [8 * ratio, 3 * ratio]);
          ctx.lineWidth = 2 * ratio;
          path(...l.points.map((p) => at(p.rate.median, p.p99.median)));
          ctx.setLineDash([]);
          ctx.lineWidth = 1.5 * ratio;
          for (const { load, rate: r, p99 } of l.points) {
            path(at(r.min, p99.median), at(r.max, p99.median));
            path(at(r.median, p99.min), at(r.median, p99.max));
            if (load !== l.knee_at) continue;
            const [x, y] = at(r.median, p99.median);
            ctx.beginPath();
            ctx.arc(x, y, 9 * ratio, 0, 2 * Math.PI);
            ctx.stroke();
            const right = x > box.left + box.width / 2;
            labelAt(ctx, "knee", x + (right ? -13 : 13) * ratio, y + 7 * ratio, ratio, right ? "right" : "left");
          }
        }),
      );
    draw(
      element,
      {
        series,
        scales: { x: over(ends((p) => p.rate), logScale(1.2)), y: over(ends((p) => p.p99), logScale(1.35)) },
        axes: [axis("achieved rate, 1/s, logarithmic", rateTick, { splits: (u, i, min, max) => spaced(u, decades(min, max)), size: 34 }), logAxis("p99", timeTick)],
        hooks: { draw: [paint] },
      },
      [rates, ...columns],
    );
  }
  const axisWords = (name) => (name === "connections" ? "connections" : "offered load, 1/s");
  /** The loads that were measured, as ticks; those too near to the one before are left out. */
  function spaced(u, loads) {
    let last = -Infinity;
    return loads.filter((load) => {
      const at = u.valToPos(load, "x");
      const room = at - last >= 34;
      if (room) last = at;
      return room;
    });
  }

  // ---- Latency by percentile ----
  function drawSpectrum() {
    const element = document.querySelector('[data-plot="spectrum"]');
    if (!element) return;
    const chosen = [byId("spectrum-1"), byId("spectrum-2")].filter((s) => s.value !== "").map((s) => data.spectra.items[Number(s.value)]);
    const { quantiles } = data.spectra;
    const series = [{ label: "percentile", value: show((v) => percentile(1 - 10 ** -v)) }];
    const lists = [];
    const points = { show: false };
    chosen.forEach((item, i) => {
      const name = chosen.length > 1 ? `${item.stage}: ${item.name}` : "";
      series.push(line(`response time ${name}`.trim(), time, i, { points }), line(`service time ${name}`.trim(), time, i, { points, dash: [4, 4] }));
      lists.push(item.response, item.service ?? item.response);
    });
    const ticks = [0, 1, 2, 3, 4, 5];
    draw(
      element,
      {
        series,
        padding: [10, 30, 0, 0],
        scales: { x: { time: false, range: [0, 5] }, y: logScale(1.2) },
        axes: [
          axis("percentile, distance to 100 % logarithmic", (v) => percentile(1 - 10 ** -v).replace("p0", "min"), { splits: () => ticks, size: 34 }),
          logAxis("latency", timeTick),
        ],
      },
      [quantiles.map((q) => -Math.log10(1 - q) + 0), ...lists],
    );
  }

  // ---- One trial over time ----
  const together = { cursor: { sync: { key: "trial" } } };
  /** Shades the warm-up and names the two parts. */
  const marks = (trial) => (u) =>
    onCanvas(u, (ctx, box, ratio) => {
      const [from] = trial.measured_s.map((s) => u.valToPos(s, "x", true));
      if (from - box.left < 2 * ratio) return;
      ctx.fillStyle = color("shade");
      ctx.fillRect(box.left, box.top, from - box.left, box.height);
      ctx.strokeStyle = ctx.fillStyle = color("faint");
      ctx.lineWidth = ratio;
      ctx.beginPath();
      ctx.moveTo(from, box.top);
      ctx.lineTo(from, box.top + box.height);
      ctx.stroke();
      labelAt(ctx, "warm-up", from - 4 * ratio, box.top + 3 * ratio, ratio, "right");
      labelAt(ctx, "measured", from + 4 * ratio, box.top + 3 * ratio, ratio, "left");
    });

  function timePlot(trial, more) {
    const { label, format, y, series, hooks, ...rest } = more;
    const seconds = { label: "time", value: show((v) => `${+v.toFixed(2)} s`) };
    return {
      ...together,
      ...rest,
      series: [seconds, ...series],
      scales: { x: { time: false, range: [0, trial.measured_s[1]] }, y },
      axes: [axis("time since the start of the load, s", (v) => String(+v.toFixed(2)), { size: 34 }), y.fwd ? logAxis(label, format) : yAxis(label, format, y === atMostOne ? { splits: () => FIFTHS } : {})],
      hooks: { drawClear: [], drawAxes: [marks(trial)], ...hooks },
    };
  }

  const noLoad = "No load ran in this trial.";
  /** For each kind of time plot: its lists, and the options of its plot. */
  const overTime = {
    "series-rate": (t) => ({ lists: [t.load.succeeded_per_s, t.load.failed_per_s], label: "requests, 1/s", format: rateTick, y: fromZero, series: [line("succeeded", rate, 0), line("failed", rate, 1)] }),
    "series-latency": (t) => ({ lists: [t.load.response_ns_p50, t.load.response_ns_p99], label: "response time", format: timeTick, y: logScale(1.25), series: [line("p50", time, 0, { spanGaps: false }), line("p99", time, 1, { spanGaps: false })] }),
    "series-queue": (t) => ({ lists: [t.load.queued], label: "requests", format: rateTick, y: fromZero, series: [line("queued", (v) => grouped(v, 0), 3)] }),
    "series-generator": (t) => ({ lists: [t.load.generator_permille.map((p) => p / 1e3)], label: "share of a core", format: share, y: atMostOne, series: [line("generator utilization", share, 4)] }),
  };

  function drawOverTime(element, trial) {
    const { lists, ...options } = trial ? overTime[element.dataset.plot](trial) : { lists: [] };
    if (!trial || trial.load.at_s.length === 0) return draw(element, null, [], trial ? "The load has no slices on record." : noLoad);
    if (lists.every((list) => list.every((v) => v == null))) return draw(element, null, [], "No request succeeded in this trial.");
    draw(element, timePlot(trial, options), [trial.load.at_s, ...lists]);
  }

  /** Stacked areas: drawn from the top of the stack down, each over the one before. */
  function drawCore(element, trial) {
    const core = trial?.cpu.permille[element.parentElement.dataset.core];
    if (!core) return draw(element, null, [], trial ? "This core was not watched in this trial." : noLoad);
    const stacked = [];
    const at = (m, i) => (core[m][i] ?? 0) / 1e3;
    core.forEach((_, m) => stacked.push(trial.cpu.at_s.map((_, i) => at(m, i) + (m ? stacked[m - 1][i] : 0))));
    const order = data.modes.map((_, m) => data.modes.length - 1 - m);
    const series = order.map((m) => ({
      label: data.modes[m],
      fill: color(data.modes[m]),
      stroke: color(data.modes[m]),
      width: 0,
      points: { show: false },
      value: (_, __, ___, i) => (i == null ? "–" : share(at(m, i))),
    }));
    const options = timePlot(trial, { label: "share of the core", format: share, y: atMostOne, series, class: "stacked", hooks: { drawAxes: [], draw: [marks(trial)] } });
    draw(element, options, [trial.cpu.at_s, ...order.map((m) => stacked[m])]);
  }

  function drawTrial() {
    const id = Number(byId("trial").value);
    const trial = data.trials.find((t) => t.id === id);
    for (const element of all("#series .plot"))
      element.dataset.plot === "series-core" ? drawCore(element, trial) : drawOverTime(element, trial);
    for (const sheet of all("details.trial")) sheet.open = Number(sheet.dataset.trial) === id;
    for (const row of all("tr[data-row]")) row.classList.toggle("selected", Number(row.dataset.row) === id);
  }

  function drawAll() {
    for (const element of all(".plot[data-plot=rate]")) drawCurves(element, "rate");
    for (const element of all(".plot[data-plot=latency]")) drawCurves(element, "latency");
    for (const element of all(".plot[data-plot=latency-rate]")) drawLatencyRate(element);
    drawSpectrum();
    if (byId("trial") && (data.trials.length || byId("trial").options.length)) drawTrial();
  }

  // ---- Controls ----
  function remember(key, value) {
    state.set(key, value);
    history.replaceState(null, "", `#${state}`);
  }
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const theme = () => state.get("theme") ?? (dark.matches ? "dark" : "light");
  function applyTheme() {
    root.dataset.theme = theme();
    byId("theme").textContent = theme() === "dark" ? "Light" : "Dark";
  }
  byId("theme").addEventListener("click", () => {
    remember("theme", theme() === "dark" ? "light" : "dark");
    applyTheme();
    drawAll();
  });
  dark.addEventListener("change", () => { applyTheme(); drawAll(); });

  // A page of traffic has no trials to choose from.
  const trialSelect = byId("trial") || document.createElement("select");
  function choose(id) {
    trialSelect.value = String(id);
    remember("trial", trialSelect.value);
    drawTrial();
  }
  function step(by) {
    const next = trialSelect.options[trialSelect.selectedIndex + by];
    if (next) choose(next.value);
  }
  trialSelect.addEventListener("change", () => choose(trialSelect.value));
  for (const [id, by] of [["trial-before", -1], ["trial-after", 1]]) {
    if (byId(id)) byId(id).addEventListener("click", () => step(by));
  }
  for (const row of all("tr[data-row]"))
    row.addEventListener("click", (e) => {
      e.preventDefault();
      choose(row.dataset.row);
      unfold(byId("one-trial"));
      byId("one-trial").scrollIntoView({ behavior: "smooth" });
    });
  for (const link of all("[data-choose]")) link.addEventListener("click", () => choose(link.dataset.choose));
  /** Opens what is folded around a place, so that a link to it leads somewhere. */
  function unfold(place) {
    for (let e = place; e; e = e.parentElement) if (e.tagName === "DETAILS" && !e.matches(".trial")) e.open = true;
    if (place?.matches("section.folded")) place.firstElementChild.open = true;
  }
  for (const link of all('a[href^="#"]')) link.addEventListener("click", () => unfold(byId(link.hash.slice(1))));
  if (location.hash && !location.hash.includes("=")) unfold(byId(location.hash.slice(1)));
  for (const select of all("#spectrum-1, #spectrum-2")) select.addEventListener("change", drawSpectrum);

  // A number's exact value and origin, when it is pointed at; not before, because there are thousands.
  const origin = (n) => `${n.dataset.value}  from ${n.dataset.from.replace(/^#/, "report.json#")}`;
  document.addEventListener("pointerover", (e) => {
    const number = e.target.closest?.("[data-value]");
    if (number && !number.title) number.title = origin(number);
  });
  // A finger cannot point: a tap shows it at the foot of the window, and a tap elsewhere takes it away.
  document.addEventListener("click", (e) => {
    const number = e.target.closest?.("[data-value]");
    byId("origin").hidden = !number;
    if (number) byId("origin").textContent = origin(number);
  });

  root.classList.add("scripted");
  for (const hidden of all(".controls, #theme")) hidden.hidden = false;
  if (state.has("trial")) trialSelect.value = state.get("trial");
  if (trialSelect.selectedIndex < 0) trialSelect.selectedIndex = 0;
  applyTheme();
  drawAll();
  root.dataset.ready = "true";
})();
