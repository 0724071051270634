"use strict";
const el = id => document.getElementById(id);
const plural = (n, what) => n + " " + what + (n === 1 ? "" : "s");
let data = JSON.parse(el("data").textContent);
const remedies = JSON.parse(el("remedies").textContent);
let cells = [];          // the cell of each node, by its number
let texts = [];          // what a search looks through, by number; made when it is needed
let jobsOn = new Map();  // number -> jobs
let told = {};           // the GPUs of jobs by node, which the server told when it was asked
let chosen = {};         // {node: name}, {job: id} or {switch: name}
let marks = null;        // the numbers of the nodes that are marked, or null
let at = 0;              // the cell that Tab goes to
const hint = el("facts").firstElementChild;
const slots = {job: new Map(), user: new Map()};

function make(tag, attributes, ...children) {
  const e = document.createElement(tag);
  for (const name in attributes) {
    if (name.startsWith("on")) e.addEventListener(name.slice(2), attributes[name]);
    else e.setAttribute(name, attributes[name]);
  }
  e.append(...children.filter(c => c !== null && c !== undefined && c !== ""));
  return e;
}
// put shows these in the place, unless they are there already: what is not replaced keeps a click and the focus.
function put(place, ...children) {
  const all = children.filter(Boolean), now = [...place.childNodes];
  if (all.length !== now.length || all.some((c, k) => !c.isEqualNode(now[k]))) place.replaceChildren(...all);
}
const link = (text, on) => make("button", {class: "link", type: "button", onclick: on}, text);
const byNumber = new Intl.Collator("en", {numeric: true}); // localeCompare makes one for each two words
const jobList = () => Object.values(data.jobs || {}).sort((a, b) => b.nodes.length - a.nodes.length || byNumber.compare(a.id, b.id));
const numberOf = name => data.nodes.findIndex(n => n.name === name);
const bad = (n, what) => ((n.said || {}).bad || []).includes(what);

// colours are a function for each choice of "Colour by": number -> [class, legend, words].
const fixed = {
  health: n => [n.class, n.state, n.state],
  slurm: n => n.use ? [n.use, {free: "free", busy: "busy", unavailable: "takes no job"}[n.use], n.slurm] : ["none", "Slurm says nothing", "Slurm says nothing"],
  imex: n => {
    const words = (n.said || {}).imex || "";
    if (words && !bad(n, "imex") && !words.startsWith("Ready")) return ["other", "needs no IMEX", words];
    return verdict(n, "imex", "ready", "IMEX ready", "IMEX not ready", "not judged");
  },
  drift: n => verdict(n, "drift", "agrees", "as published", "drift", "not judged"),
};
function verdict(n, what, good, yes, no, unknown) {
  if (bad(n, what)) return ["bad", no, no + ", " + n.said[what]];
  return (n.said || {})[what] ? [good, yes, yes] : ["none", unknown, unknown];
}
function byOwner(mode) {
  const byJob = mode === "job", user = j => j.user || "unknown";
  const of = j => byJob ? j.id : user(j), name = j => byJob ? "job " + j.id + (j.name ? " " + j.name : "") : user(j);
  const sizes = new Map(), names = new Map();
  for (const j of jobList()) { sizes.set(of(j), (sizes.get(of(j)) || 0) + j.nodes.length); names.set(of(j), name(j)); }
  const top = [...sizes.keys()].sort((a, b) => sizes.get(b) - sizes.get(a)).slice(0, 8), slot = slots[mode];
  for (const key of [...slot.keys()]) if (!top.includes(key)) slot.delete(key);
  for (const key of top) if (!slot.has(key)) slot.set(key, [0, 1, 2, 3, 4, 5, 6, 7].find(c => ![...slot.values()].includes(c)));
  return (n, i) => {
    const jobs = jobsOn.get(i);
    if (!jobs) return ["none", "no job", "no job"];
    const j = jobs.find(j => slot.has(of(j))) || jobs[0];
    return slot.has(of(j)) ? ["c" + slot.get(of(j)), names.get(of(j)), name(j)] : ["other", mode === "job" ? "other jobs" : "other users", name(j)];
  };
}
function bySegments() {
  const size = Number(el("size").value), left = {};
  for (const s of data.segments || []) if (s.size === size) for (const b in s.taken || {}) left[b] = s.taken[b];
  return n => {
    if (!n.use) return ["none", "Slurm says nothing", "Slurm says nothing"];
    if (n.use !== "free") return n.use === "busy" ? ["used", "busy", n.slurm] : [n.use, "takes no job", n.slurm];
    if (left[n.block] > 0) { left[n.block]--; return ["segment", "in a free segment of " + size, "in a free segment"]; }
    return ["rest", "free, left over", "free, and in no whole segment"];
  };
}
function colourOf(mode) {
  return mode === "job" || mode === "user" ? byOwner(mode) : mode === "segments" ? bySegments() : fixed[mode];
}

// paint colours all cells and writes the legend.
function paint() {
  const colour = colourOf(el("colour").value), legend = new Map(), text = el("search").value.trim().toLowerCase();
  el("sized").hidden = el("colour").value !== "segments";
  let hits = 0;
  data.nodes.forEach((n, i) => {
    const [kind, word, words] = colour(n, i);
    const entry = legend.get(kind) || {word, count: 0};
    entry.count++;
    legend.set(kind, entry);
    const found = (text === "" || textOf(i).includes(text)) && (marks === null || marks.has(i));
    if (found) hits++;
    const cell = cells[i];
    if (!cell) return;
    const pale = n.class === "without-GPU" && kind !== n.class && !ill.includes(kind); // the nodes with GPUs are what the page is about
    const look = "n " + kind + (pale ? " pale" : "") + (found ? " found" : "") + (marks && marks.has(i) ? " marked" : "") + (n.name === chosen.node ? " chosen" : "");
    const label = n.name + ": " + words;
    if (cell.look !== look) cell.setAttribute("class", cell.look = look); // to ask for an attribute takes longer
    if (cell.label !== label) cell.setAttribute("aria-label", cell.label = label);
  });
  const drawing = el("drawing");
  if (drawing) drawing.classList.toggle("dimmed", text !== "" || marks !== null);
  el("hits").textContent = text === "" && marks === null ? "" : hits + " of " + plural(data.nodes.length, "node");
  put(el("legend"), ...[...legend.entries()].sort((a, b) => order(a[0]) - order(b[0])).map(([kind, l]) => {
    const key = document.createElementNS("http://www.w3.org/2000/svg", "svg"), rect = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    key.setAttribute("aria-hidden", "true");
    for (const [k, v] of [["class", kind], ["width", 18], ["height", 13], ["rx", 2]]) rect.setAttribute(k, v);
    key.append(rect);
    return make("li", {}, key, l.word + ": " + l.count);
  }));
}
const kinds = ["healthy", "without-report", "without-GPU", "ready", "agrees", "segment", "free", "rest", "with-warning", "waiting", "busy", "used", "unavailable",
  "degraded", "bad", "c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "other", "none", "missing"];
const ill = ["unavailable", "degraded", "bad", "none"]; // hatched, or pale already
const order = kind => kinds.indexOf(kind);
function textOf(i) {
  if (texts[i] === undefined) {
    const n = data.nodes[i], jobs = (jobsOn.get(i) || []).map(j => [j.id, j.name, j.user, j.account, j.partition]);
    const all = [n.name, n.node, n.block, n.switches, n.state, n.reason, n.message, n.slurm, n.gpus, n.problems, Object.values(n.said || {}), jobs];
    texts[i] = all.flat(2).filter(Boolean).join("\n").toLowerCase();
  }
  return texts[i];
}

// choose shows a node, a job or a switch, and marks its nodes.
function choose(what) {
  chosen = what;
  refresh();
}
function findMarks() {
  marks = null;
  const job = (data.jobs || {})[chosen.job];
  if (job) marks = new Set(job.nodes);
  if (chosen.switch) marks = new Set(data.nodes.flatMap((n, i) => (n.switches || []).includes(chosen.switch) ? [i] : []));
}
// wanted are the jobs whose GPUs are shown and not known.
function wanted() {
  const jobs = chosen.job ? [(data.jobs || {})[chosen.job]] : chosen.node ? jobsOn.get(numberOf(chosen.node)) || [] : [];
  return jobs.filter(j => j && !gpusList(j).some(Boolean) && told[j.id] === undefined);
}
function facts() {
  const i = chosen.node === undefined ? -1 : numberOf(chosen.node), job = (data.jobs || {})[chosen.job];
  if (i >= 0) return nodeFacts(data.nodes[i], i);
  if (job) return jobFacts(job);
  if (chosen.job) return [make("p", {}, "Job " + chosen.job + " has ended.")];
  if (chosen.node) return [make("p", {}, "Node " + chosen.node + " is not in the plan any more.")];
  if (chosen.switch) {
    return [make("h2", {}, "switch " + chosen.switch), make("p", {}, plural(marks.size, "node") + " below it are marked.")];
  }
  return null;
}
function list(pairs) {
  const dl = make("dl", {});
  for (const [name, values, wrong] of pairs) {
    const shown = [values ?? []].flat().filter(v => v !== "");
    if (shown.length) dl.append(make("dt", {}, name), ...shown.map(v => make("dd", wrong ? {class: "bad"} : {}, v)));
  }
  return dl;
}
function nodeFacts(n, i) {
  const sources = {nvml: "NVML of the node", label: "its labels", switch: "the switch above it", previous: "where it was published before"};
  const said = n.said || {}, why = n.reason + (n.message ? ": " + n.message : "");
  const title = j => "job " + j.id + (j.name ? " " + j.name : "") + (j.user ? " of " + j.user : "") + gpusOf(j, i);
  return [make("h2", {}, n.name), list([
    ["in Kubernetes", n.node],
    ["state", n.state, n.class === "degraded"],
    ["Slurm says", [n.slurm, said.why].filter(Boolean).join(": "), n.use === "unavailable"],
    ["jobs", (jobsOn.get(i) || []).map(j => link(title(j), () => choose({job: j.id})))],
    ["problems, and what to do", (n.problems || []).map(withRemedy), true],
    ["IMEX", said.imex, bad(n, "imex")],
    ["published place", remedied(n, "drift"), bad(n, "drift")],
    ["NVLink fabric", remedied(n, "fabric"), bad(n, "fabric")],
    ["block", n.block || "in no block"],
    ["switches above it", (n.switches || []).map(s => link(s, () => choose({switch: s})))],
    ["its place is known by", sources[n.source] || n.source],
    ["why it is there", n.reason === "Placed" ? n.message : withRemedy(why)],
    ["GPUs", n.gpus],
    ["where it stands", n.place]])];
}
// withRemedy adds what to do to a text that begins with a reason word.
function withRemedy(text) {
  const todo = remedies[text.split(":")[0]];
  return todo ? text.replace(/[.; ]+$/, "") + ". What to do: " + todo : text;
}
const remedyOf = (reason, message) => withRemedy(reason + ": " + message).slice(reason.length + 2);
const remedied = (n, what) => bad(n, what) ? withRemedy(n.said[what]) : (n.said || {})[what];
// gpusList are the GPUs of each node of a job, or one entry if all are the same.
function gpusList(j) {
  if (!told[j.id]) return j.gpus || [];
  const all = j.nodes.map(i => told[j.id][data.nodes[i].name] || "");
  return new Set(all).size === 1 ? all.slice(0, 1) : all;
}
function gpusOf(j, i) {
  const all = gpusList(j), gpus = all.length === 1 ? all[0] : all[j.nodes.indexOf(i)];
  return gpus ? ", GPUs " + gpus : "";
}
// placed says how many blocks a job uses. The note says more than the numbers, if there is one.
const placed = j => j.note || (j.blocks ? plural(j.blocks, "block") + (j.fewest && j.fewest < j.blocks ? ", " + j.fewest + " would be large enough" : "") : "");
function jobFacts(j) {
  const blocks = new Map(), gpus = gpusList(j);
  for (const i of j.nodes) { const b = data.nodes[i].block || "in no block"; blocks.set(b, [...(blocks.get(b) || []), i]); }
  const nodeLink = i => [link(data.nodes[i].name, () => choose({node: data.nodes[i].name})), gpus.length > 1 ? gpusOf(j, i) + "; " : " "];
  const inBlock = ([b, of]) => make("div", {}, make("h3", {}, b + ": " + of.length),
    make("p", {}, ...of.slice(0, 36).flatMap(nodeLink), of.length > 36 ? "and " + (of.length - 36) + " more" : ""));
  return [make("h2", {}, "job " + j.id + (j.name ? " " + j.name : "")), list([
    ["user", [j.user, j.account].filter(Boolean).join(", account ")],
    ["partition", j.partition],
    ["nodes", String(j.nodes.length)],
    ["segment", j.segment ? String(j.segment) : ""],
    ["placement", placed(j), j.fewest && j.blocks > j.fewest],
    ["GPUs on each node", gpus.length === 1 ? gpus[0] : ""],
    ["also on nodes outside this map", (j.elsewhere || []).join(", ")]]),
    ...[...blocks].map(inBlock)];
}

// fill writes what is below and above the drawing.
function table(id, title, head, rows, most) {
  const place = el(id), found = rows.slice(0, most);
  if (rows.length === 0) { put(place); return; }
  const headCell = ([name, kind]) => make("th", kind ? {class: kind, scope: "col"} : {scope: "col"}, name);
  const bodyRow = r => make("tr", r.attributes || {}, ...r.cells.map((c, k) => make("td", {"data-head": head[k][0], class: head[k][1] || ""}, c)));
  const all = make("table", {}, make("thead", {}, make("tr", {}, ...head.map(headCell))), make("tbody", {}, ...found.map(bodyRow)));
  const more = rows.length > most ? make("p", {}, "and " + (rows.length - most) + " more: search to see these") : "";
  put(place, title ? make("h2", {}, title) : "", all, more);
}
// ago says how old Slurm's answer is.
function ago() {
  const seconds = Math.max(0, Math.round((Date.now() - Date.parse(data.asked)) / 1000));
  const age = seconds < 120 ? seconds + " s" : seconds < 7200 ? Math.floor(seconds / 60) + " min" : Math.floor(seconds / 3600) + " h";
  const text = data.asked ? "Slurm was asked " + age + " ago" : "";
  if (el("asked").textContent !== text) el("asked").textContent = text;
}
function fill() {
  const text = el("search").value.trim().toLowerCase();
  const has = (...words) => text === "" || words.filter(Boolean).join("\n").toLowerCase().includes(text);
  put(el("summary"), ...(data.summary || []).map(s => make("li", {}, s)));
  ago();
  put(el("trouble"), ...(data.trouble || []).map(s => make("p", {class: "held"}, s)));
  const jobs = jobList().filter(j => has(j.id, j.name, j.user, j.account, j.partition, j.note) || chosen.job === j.id);
  const number = n => n ? String(n) : "";
  const jobRow = j => ({attributes: j.id === chosen.job ? {class: "chosen"} : {},
    cells: [link(j.id, () => choose({job: j.id})), j.name, j.user, String(j.nodes.length), number(j.segment), placed(j)]});
  table("jobs", "Running jobs", [["job"], ["name"], ["user"], ["nodes", "num"], ["segment", "num"], ["placement", "wide"]],
    jobs.map(jobRow), 100);
  const colourBy = size => { el("colour").value = "segments"; el("size").value = size; paint(); };
  table("segments", "Free segments", [["topology"], ["segment size", "num"], ["fit now", "num"], ["if all nodes were free and available", "num"]],
    (data.segments || []).map(s => ({cells: [s.topology, link(String(s.size), () => colourBy(s.size)), String(s.now), String(s.all)]})), 60);
  table("apart", "In no block", [["nodes", "num"], ["reason"], ["names", "wide"]],
    (data.apart || []).map(g => ({cells: [String(g.count), g.reason + ": " + g.why, g.nodes]})), 40);
  const wrong = (data.problems || []).filter(q => has(q.node, q.reason, q.message));
  table("problems", "Problems", [["node"], ["reason"], ["what is wrong, and what to do", "wide"]],
    wrong.map(q => ({cells: [where(q.node), q.reason, remedyOf(q.reason, q.message)]})), 50);
  held(data.held);
  const sizes = [...new Set((data.segments || []).map(s => s.size))], choice = el("size"), was = choice.value;
  if (choice.children.length !== sizes.length) choice.replaceChildren(...sizes.map(s => make("option", {value: s}, String(s))));
  if (was) choice.value = was; else if (sizes.includes(16)) choice.value = 16;
  if (el("table").open) nodeTable(text);
}
function where(node) {
  const n = data.nodes.find(n => n.name === node || n.node === node);
  return n ? link(n.name, () => choose({node: n.name})) : node;
}
function held(h) {
  const text = JSON.stringify(h || null);
  if (el("held").dataset.text === text) return;
  el("held").dataset.text = text;
  if (!h) { el("held").replaceChildren(); return; }
  const rows = h.differences || [], more = rows.length - 60;
  const title = one => (one.alone ? "A decision is held" : "A change is held") + (one.since ? " since " + one.since : "") + ": " + one.reason;
  const items = rows.slice(0, 60).map(d => make("li", {}, d)).concat(more > 0 ? [make("li", {}, "and " + more + " more")] : []);
  el("held").replaceChildren(make("section", {class: "held", "aria-label": "held publication"},
    ...h.holds.flatMap(one => [
      make("h2", {}, title(one)), make("p", {}, remedyOf(one.reason, one.message)),
      one.ends ? make("p", {}, "It ends " + one.ends + ".") : "",
      one.waits && one.digest ? make("p", {}, "To publish it: ", make("code", {}, "quoin plan approve " + one.digest)) : ""]),
    rows.length ? make("details", {open: ""}, make("summary", {}, plural(rows.length, "difference")), make("ul", {}, ...items)) : ""));
}
function nodeTable(text) {
  const shown = i => (text === "" || textOf(i).includes(text)) && (marks === null || marks.has(i));
  const row = (n, i) => ({cells: [link(n.name, () => choose({node: n.name})), n.block || "", n.state, n.slurm || "", (jobsOn.get(i) || []).map(j => j.id).join(" ")]});
  const box = el("table").lastElementChild;
  box.id = "tablebox";
  table("tablebox", "", [["node"], ["block"], ["state"], ["Slurm"], ["jobs"]], data.nodes.flatMap((n, i) => shown(i) ? [row(n, i)] : []), 200);
}

// refresh shows the data as it is now. What was chosen, searched and coloured stays.
function refresh() {
  findMarks();
  fill();
  paint();
  wanted().forEach(ask);
  const now = facts(), close = make("button", {class: "close", type: "button", onclick: () => choose({})}, "Show all nodes");
  put(el("facts"), now ? make("div", {}, close, ...now) : hint);
}
function index() {
  texts = [];
  jobsOn = new Map();
  for (const j of jobList()) for (const i of j.nodes) jobsOn.set(i, [...(jobsOn.get(i) || []), j]);
}
function collect() {
  cells = [];
  for (const c of document.querySelectorAll("#drawing .n")) cells[c.dataset.n] = c;
  const first = cells[at] || cells.find(Boolean);
  if (first) { at = Number(first.dataset.n); first.setAttribute("tabindex", "0"); }
}

// go moves the focus to the nearest cell in a direction.
function go(key) {
  const box = c => { const r = c.getBoundingClientRect(); return [r.x, r.y]; }, [x, y] = box(cells[at]);
  let best = null, least = Infinity;
  for (const c of cells) {
    if (!c || c === cells[at]) continue;
    const [cx, cy] = box(c), dx = cx - x, dy = cy - y;
    const [ahead, aside] = {ArrowRight: [dx, dy], ArrowLeft: [-dx, dy], ArrowDown: [dy, dx], ArrowUp: [-dy, dx]}[key];
    const far = ahead + 4 * Math.abs(aside);
    if (ahead > 0 && far < least) { least = far; best = c; }
  }
  if (best) focus(Number(best.dataset.n));
}
function focus(i) {
  if (cells[at]) cells[at].setAttribute("tabindex", "-1");
  at = i;
  cells[at].setAttribute("tabindex", "0");
  cells[at].focus({preventScroll: true}); // not every browser leaves room for the facts
  cells[at].scrollIntoView({block: "nearest"});
}
el("place").addEventListener("click", e => { const c = e.target.closest(".n"); if (c) { focus(Number(c.dataset.n)); choose({node: data.nodes[at].name}); } });
el("place").addEventListener("keydown", e => {
  if (!e.target.closest(".n")) return;
  if (e.key.startsWith("Arrow")) { e.preventDefault(); go(e.key); }
  if (e.key === "Enter" || e.key === " ") { e.preventDefault(); choose({node: data.nodes[at].name}); }
});
document.addEventListener("keydown", e => { if (e.key === "Escape") { el("search").value = ""; choose({}); } });
el("place").addEventListener("pointerover", e => { // a title for the cell that somebody looks at
  const c = e.target.closest(".n");
  if (!c) return;
  const title = c.firstElementChild || c.appendChild(document.createElementNS("http://www.w3.org/2000/svg", "title"));
  title.textContent = c.getAttribute("aria-label");
});
el("controls").addEventListener("submit", e => {
  e.preventDefault();
  const first = cells.find(c => c && c.classList.contains("found"));
  if (first) focus(Number(first.dataset.n));
});
el("search").addEventListener("input", refresh);
el("colour").addEventListener("change", refresh);
el("size").addEventListener("change", refresh);
el("table").addEventListener("toggle", refresh);
document.addEventListener("click", e => { const s = e.target.closest("[data-switch]"); if (s) choose({switch: s.dataset.switch}); });
index();
collect();
refresh();
setInterval(ago, 5000);
