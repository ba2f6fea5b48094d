"use strict";
// The token comes behind a #, stays in this tab, and is shown to the node in a header.
const EVERY = 2000, HIDDEN = 15000, KEY = "tacenda-token";
const $ = (id) => document.getElementById(id);
let token = sessionStorage.getItem(KEY) || "", lastSaid = "", lastAnswer = null, timer = 0;

function take() {
  const given = decodeURIComponent(location.hash.slice(1));
  if (given.length >= 32) {
    token = given;
    sessionStorage.setItem(KEY, token);
    history.replaceState(null, "", location.pathname);
  }
}

// ---- words
const two = (n) => String(n).padStart(2, "0");
function stamp(seconds) {
  if (seconds === null) return "not known yet";
  const d = new Date(seconds * 1000);
  return `${d.getUTCFullYear()}-${two(d.getUTCMonth() + 1)}-${two(d.getUTCDate())} ${two(d.getUTCHours())}:${two(d.getUTCMinutes())} UTC`;
}
function span(seconds) {
  if (seconds === null) return "not known yet";
  const s = Math.round(seconds);
  if (s < 120) return `${s} s`;
  if (s < 7200) return `${Math.floor(s / 60)} min`;
  return s < 172800 ? `${Math.floor(s / 3600)} h ${Math.floor(s / 60) % 60} min` : `${Math.floor(s / 86400)} days`;
}
function size(n) {
  for (const unit of ["bytes", "kB", "MB", "GB"]) {
    if (n < 1000 || unit === "GB") return unit === "bytes" ? `${n} ${unit}` : `${n.toFixed(1)} ${unit}`;
    n /= 1000;
  }
}
const short = (n) => typeof n === "number" ? Number(n.toPrecision(4)).toString() : String(n);
const days = (n) => n === null ? "" : n <= 0 ? " (expired)" : ` (${Math.floor(n)} ${Math.floor(n) === 1 ? "day" : "days"} left)`;
const power = (d) => d > 0 && d < 1e-3 ? d.toExponential() : String(d);

// ---- elements: only text is ever inserted
function make(tag, text, attributes) {
  const e = document.createElement(tag);
  if (text !== undefined) e.textContent = text;
  for (const [name, value] of Object.entries(attributes || {})) e.setAttribute(name, value);
  return e;
}
function fill(parent, children) {
  const next = make("div");
  next.append(...children);
  if (parent.innerHTML !== next.innerHTML) parent.replaceChildren(...children);  // a selection or a focus survives
}
function text(id, words) { if ($(id).textContent !== words) $(id).textContent = words; }

// ---- the parts
const HEAD = { starting: "Starting", running: "Running", waiting: "Waiting", finishing: "All rounds done", finished: "Finished", stopped: "Stopped" };
function overview(f) {
  const kind = f.problems.length ? "bad" : f.warnings.length ? "caution" : "good";
  $("verdict").className = `verdict ${kind}`;
  text("kicker", f.title);
  text("title", f.member);
  document.title = `${f.in_order ? "" : "! "}${f.round}/${f.rounds} ${f.member}: Tacenda`;
  const word = f.problems.length ? "Needs attention" : f.warnings.length ? "In order, with warnings" : "In order";
  text("verdict-word", word);
  const waits = f.waiting_for.length && f.waiting_seconds > 2 ? ` It waits for ${f.causes.length ? f.causes.map((c) => c.words).join("; ") : f.waiting_for.join(", ")}, by now ${span(f.waiting_seconds)}.` : "";
  text("verdict-headline", `${f.evaluation && f.evaluation.state === "under way" ? "Evaluation, " : ""}${HEAD[f.state]}: ${f.round} of ${f.rounds} rounds.${waits}`);
  fill($("sentences"), [...f.problems, ...f.warnings].map((s) => make("li", s)));
  $("progress").max = f.rounds;
  $("progress").value = f.round;
  text("as-of", `As of ${stamp(f.at)}; version ${f.version}.`);
  const tiles = [
    ["Round", `${f.round} of ${f.rounds}`, f.round > 0 ? `latest ${span(f.seconds_since_round)} ago` : "none yet"],
    ["Rate", `${short(f.rounds_per_second)} rounds/s`, `running for ${span(f.seconds_running)}`],
    ["Time left", f.state === "finishing" ? "0 s" : span(f.seconds_left), "at the rate so far"],
    ["Sent", size(f.sent_bytes), "since this start"],
    ["Received", size(f.received_bytes), "since this start"],
    ["Waited", span(f.wait_seconds_total), `${span(f.write_seconds_total)} writing to the disk`],
  ];
  fill($("tiles"), tiles.map(([heading, big, small]) => {
    const li = make("li");
    li.append(make("span", heading, { class: "heading" }), make("span", big, { class: "big" }), make("span", small, { class: "small" }));
    return li;
  }));
  // One sentence for people who do not see the page, and only when it has changed in kind
  const share = Math.floor(10 * f.round / Math.max(1, f.rounds)) * 10;
  const said = `${HEAD[f.state]}, ${share} percent. ${word}. ${f.problems.join(" ")}`;
  if (said !== lastSaid) { lastSaid = said; text("said", said); }
}

function cell(label, words, kind) { return make("td", words, { "data-label": label, ...(kind ? { class: kind } : {}) }); }
function neighbours(f) {
  fill($("peers").tBodies[0], f.peers.map((p) => {
    const row = make("tr"), state = cell("State");
    const box = make("span"), since = p.heard ? `for ${span(p.away_seconds)}` : `not heard since this node started ${span(p.away_seconds)} ago`;
    box.append(make("span", p.state, { class: `state ${p.state.replace(" ", "-")}` }));
    if (p.away_seconds > 0) box.append(make("span", `${since}${p.reason ? `: ${p.reason}` : ""}`, { class: "why" }));
    state.append(box);
    row.append(make("th", p.name, { scope: "row" }), state, cell("Rounds behind", String(p.lag_rounds), "number"),
      cell("Last heard", p.heard ? `${span(p.silent_seconds)} ago` : "not yet"), cell("Sent", size(p.sent_bytes), "number"),
      cell("Received", size(p.received_bytes), "number"), cell("Sent again", String(p.sent_again), "number"),
      cell("Certificate", p.certificate_expires === null ? "not seen yet" : stamp(p.certificate_expires).slice(0, 10) + days(p.certificate_days)));
    return row;
  }));
}

const FAULTY = ["away", "frozen", "silent", "no news", "not heard of", "not signed"];
const kindOf = (state) => FAULTY.includes(state) ? "away" : state.replaceAll(" ", "-");
function federation(f) {
  $("federation").hidden = !f.members.length;
  const away = f.members.filter((m) => FAULTY.includes(m.state)).map((m) => `${m.name} (${m.state})`);
  text("roots", f.roots.length ? `${f.roots.map((r) => r.words).join("; ")}.`
    : away.length ? `No member holds up the others; without news: ${away.join(", ")}.` : "No member holds up the others.");
  $("roots").className = f.roots.some((r) => FAULTY.includes(r.state)) ? "headline bad" : "headline";
  graph(f);
  fill($("members").tBodies[0], f.members.map((m) => {
    const row = make("tr"), state = cell("State"), heard = m.heard_seconds !== null;
    state.append(make("span", m.state, { class: `state ${kindOf(m.state)}` }));
    const waits = m.waits_for.length ? `${m.waits_for.join(", ")}, ${span(m.waits_seconds)}` : "";
    const clock = m.clock_seconds ? `, clock ${span(Math.abs(m.clock_seconds))} ${m.clock_seconds > 0 ? "ahead" : "behind"}` : "";
    row.append(make("th", m.name + (m.name === f.member ? " (here)" : ""), { scope: "row" }), state,
      cell("Round", heard ? `${m.round}${m.rounds_behind > 0 ? ` (${m.rounds_behind} behind)` : ""}` : "", "number"),
      cell("Waits for", waits), cell("Last heard", heard ? `${span(m.heard_seconds)} ago` : "never"),
      cell("Disk free", m.disk_free_bytes === null ? "" : size(m.disk_free_bytes)),
      cell("Budget left", m.epsilon_left === null ? "not told" : `epsilon ${short(m.epsilon_left)}`),
      cell("Version, clock", m.version + clock));
    return row;
  }));
}
function graph(f) {
  const n = f.members.length, at = {}, [cx, cy, r] = [220, 200, n > 1 ? 140 : 0];
  f.members.forEach((m, k) => {
    const angle = 2 * Math.PI * k / n - Math.PI / 2;
    at[m.name] = { x: cx + r * Math.cos(angle), y: cy + r * Math.sin(angle), c: Math.cos(angle), s: Math.sin(angle) };
  });
  const head = draw("marker", { id: "tip", viewBox: "0 0 10 10", refX: 9, refY: 5, markerWidth: 7, markerHeight: 7, orient: "auto" });
  head.append(draw("path", { d: "M0 0L10 5L0 10z", class: "tip" }));
  const defs = draw("defs", {});
  defs.append(head);
  const parts = [defs], radius = n > 30 ? 4 : 9;
  for (const [a, b] of f.edges) if (at[a] && at[b]) parts.push(draw("line", { x1: at[a].x, y1: at[a].y, x2: at[b].x, y2: at[b].y, class: "edge" }));
  const arrows = [];
  for (const m of f.members) for (const to of m.waits_for) {
    const a = at[m.name], b = at[to];
    if (!a || !b) continue;
    const d = Math.hypot(b.x - a.x, b.y - a.y), u = (b.x - a.x) / d, v = (b.y - a.y) / d, gap = radius + 4;
    parts.push(draw("line", { x1: a.x + u * gap, y1: a.y + v * gap, x2: b.x - u * gap, y2: b.y - v * gap, class: "waits", "marker-end": "url(#tip)" }));
    arrows.push(`${m.name} waits for ${to}`);
  }
  const roots = f.roots.map((x) => x.member);
  for (const m of f.members) {
    const p = at[m.name], anchor = p.c > 0.3 ? "start" : p.c < -0.3 ? "end" : "middle";
    parts.push(draw("circle", { cx: p.x, cy: p.y, r: radius, class: `member ${kindOf(m.state)}${roots.includes(m.name) ? " root" : ""}` }));
    if (n <= 60) parts.push(draw("text", { x: p.x + p.c * (radius + 7), y: p.y + p.s * (radius + 12) + 4, "text-anchor": anchor, class: m.name === f.member ? "here" : "" }, m.name));
  }
  $("graph").replaceChildren(...parts);
  text("graph-words", `Lines are the edges of the contract; an arrow points from a member to the one it waits for. ${arrows.length ? `Now ${arrows.join(", ")}.` : "Now none waits."}`);
}

function privacy(f) {
  const run = f.run, all = f.lasting;
  if (run) {
    $("run-meter").value = Math.min(1, run.epsilon / run.limit);
    text("run-words", `Epsilon ${short(run.epsilon)} of ${short(run.limit)} at delta ${power(run.delta)}, ${run.adjacency}, against ${run.against}.`);
    curve(run);
  }
  $("lasting-bar").hidden = !all || all.budget === null;
  if (all) {
    if (all.budget !== null) $("lasting-meter").value = Math.min(1, all.epsilon / all.budget);
    text("lasting-words", `Epsilon ${short(all.epsilon)} at delta ${power(all.delta)}, ${all.budget === null ? "without a budget" : `of a budget of ${short(all.budget)}`}. ` +
      `What this run may still spend is counted. Account in the ledger: ${all.account}.`);
  } else text("lasting-words", "Not read yet.");
}

function evaluation(f) {
  const found = f.evaluation;
  $("evaluation").hidden = $("to-evaluation").hidden = !found;
  if (!found) return;
  $("evaluation-meter").value = Math.min(1, found.spent / found.epsilon);
  text("evaluation-words", `Evaluation: ${found.state}. Epsilon ${short(found.spent)} of ${short(found.epsilon)} at delta ${power(found.delta)}, against ${found.against}, ` +
    `for the ${found.records} records of this member that are never trained on. Each record is covered by this or by what the training costs, never by the sum. ` +
    `Account in the ledger: ${found.account}. Intervals of ${Math.round(100 * found.confidence)} %.`);
  $("measures").hidden = !found.measures.length;
  fill($("measures").tBodies[0], found.measures.map((m) => {
    const row = make("tr");
    row.append(make("th", m.name.replaceAll("_", " "), { scope: "row" }), cell("Value", short(m.value), "number"),
      cell("From", short(m.low), "number"), cell("To", short(m.high), "number"), cell("Note", m.note));
    return row;
  }));
}

function draw(tag, attributes, words) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
  if (words !== undefined) e.textContent = words;
  return e;
}
function curve(run) {
  const points = run.curve.filter(([d]) => d > 0).map(([d, e]) => [Math.log10(d), e]);
  fill($("curve-numbers").tBodies[0], run.curve.map(([d, e]) => {
    const row = make("tr");
    row.append(make("th", power(d), { scope: "row" }), make("td", short(e), { class: "number" }));
    return row;
  }));
  $("curve").toggleAttribute("hidden", points.length < 2);
  if (points.length < 2) { text("curve-words", "Nothing was released yet."); $("curve").replaceChildren(); return; }
  const [L, R, T, B] = [56, 448, 34, 212];
  const lo = Math.min(...points.map((p) => p[0])), hi = Math.max(...points.map((p) => p[0]));
  const most = Math.max(...points.map((p) => p[1]), 1e-9), ten = 10 ** Math.floor(Math.log10(most / 4));
  const step = [1, 2, 5, 10].map((k) => k * ten).find((k) => k * 5 >= most), top = Math.ceil(most / step) * step;
  const x = (v) => L + (R - L) * (v - lo) / (hi - lo), y = (v) => B - (B - T) * v / top;
  const parts = [];
  for (let k = 0; k * step <= top * 1.001; k++) {
    const v = step * k;
    parts.push(draw("line", { x1: L, x2: R, y1: y(v), y2: y(v), class: k ? "grid" : "axis" }), draw("text", { x: L - 8, y: y(v) + 4, "text-anchor": "end" }, short(Number(v.toPrecision(2)))));
  }
  for (let k = Math.ceil(lo); k <= hi; k += 2) parts.push(draw("text", { x: x(k), y: B + 20, "text-anchor": "middle" }, `1e${k}`));
  parts.push(draw("text", { x: (L + R) / 2, y: 252, "text-anchor": "middle" }, "delta"), draw("text", { x: 8, y: 18 }, "epsilon"));
  parts.push(draw("polyline", { class: "line", points: points.map(([a, b]) => `${x(a)},${y(b)}`).join(" ") }));
  if (run.delta > 0) parts.push(draw("circle", { class: "dot", r: 5, cx: x(Math.log10(run.delta)), cy: y(run.epsilon) }));
  $("curve").replaceChildren(...parts);
  text("curve-words", `The dot is the contract's delta, ${power(run.delta)}: epsilon ${short(run.epsilon)} by now. A smaller delta goes with a larger epsilon.`);
}

function machine(f) {
  const rows = [
    ["Certificate", `valid until ${stamp(f.certificate_expires)}${days(f.certificate_days)}`],
    ["Disk", `${size(f.disk_free_bytes)} free for the state folder`],
    ["Refused callers", String(f.refused_callers)],
    ["A member may be away", `${span(f.absence_limit_seconds)}, then the members ${f.absence_policy === "stop" ? "stop" : "continue without it"}`],
    ["Contract", f.contract.slice(0, 16)],
    ["Version", f.version],
  ];
  fill($("about"), rows.map(([name, value]) => {
    const row = make("div");
    row.append(make("dt", name), make("dd", value));
    return row;
  }));
}

function log(f) {
  fill($("entries").tBodies[0], [...f.log].reverse().map((e) => {
    const row = make("tr", undefined, { class: e.level || "" });
    row.append(cell("Time", (e.timestamp || "").slice(0, 19).replace("T", " ")), cell("Level", e.level || ""), cell("Event", e.event || ""), cell("Details", e.details || ""));
    return row;
  }));
}

// ---- asking again and again
function enter(words) {
  $("status").hidden = true;
  if (words) text("enter-words", words);
  if ($("enter").hidden) { $("enter").hidden = false; $("token").focus(); }
}
async function ask() {
  clearTimeout(timer);
  if (!token) return enter("");
  try {
    const answer = await fetch("status", { headers: { Authorization: `Bearer ${token}` }, cache: "no-store" });
    if (answer.status === 401) {
      token = "";
      sessionStorage.removeItem(KEY);
      return enter("That was not this node's token. It is in the file dashboard.token in the node's state folder.");
    }
    const f = await answer.json();
    lastAnswer = f.at;
    $("enter").hidden = true;
    $("status").hidden = false;
    overview(f); federation(f); neighbours(f); privacy(f); evaluation(f); machine(f); log(f);
  } catch (gone) {
    const since = lastAnswer === null ? "" : ` Its last answer is of ${stamp(lastAnswer)}.`;
    const said = `The node does not answer: it has ended, or the way to it is broken.${since} Run tacenda node status to see why.`;
    if (lastAnswer !== null) {
      $("verdict").className = "verdict bad";
      text("verdict-word", "No answer");
      text("verdict-headline", said);
    } else enter(said);
    if (said !== lastSaid) { lastSaid = said; text("said", said); }
  }
  timer = setTimeout(ask, document.hidden ? HIDDEN : EVERY);
}

function theme(dark) {
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  press(dark);
}
function press(dark) {
  $("theme").setAttribute("aria-pressed", String(dark));
}
const system = matchMedia("(prefers-color-scheme: dark)");
press(system.matches);
system.addEventListener("change", (e) => { if (!document.documentElement.dataset.theme) press(e.matches); });
$("theme").addEventListener("click", () => theme($("theme").getAttribute("aria-pressed") !== "true"));
$("form").addEventListener("submit", (e) => { e.preventDefault(); token = $("token").value.trim(); $("token").value = ""; sessionStorage.setItem(KEY, token); ask(); });
document.addEventListener("visibilitychange", () => { if (!document.hidden) ask(); });
addEventListener("hashchange", () => { take(); ask(); });
take();
ask();
