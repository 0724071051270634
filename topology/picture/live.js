
// What changes arrives as events of the server. Their address is empty in a file.
const events = JSON.parse(el("server").textContent);
let heard = Date.now(), stream = null, reading = false;

// change takes what is different, or reads the whole page if that is not for this version.
function change(d) {
  if (d.from !== data.version || d.layout !== data.layout) { reread(); return; }
  for (const i in d.nodes || {}) data.nodes[i] = d.nodes[i];
  Object.assign(data.parts, d.parts || {});
  data.jobs = Object.assign(data.jobs || {}, d.jobs || {});
  for (const id of d.ended || []) delete data.jobs[id];
  for (const id of [...Object.keys(d.jobs || {}), ...(d.ended || [])]) delete told[id];
  data.version = d.version;
  index();
  refresh();
}

// ask asks the server which GPUs a job has. The page of a large site does not have those of all.
async function ask(job) {
  if (!events) return;
  told[job.id] = null; // the question is on its way
  const address = new URL(events.replace(/events$/, "job"), location.href);
  address.search = new URLSearchParams({publication: new URLSearchParams(location.search).get("publication") || "", id: job.id});
  try {
    const answer = await fetch(address, {cache: "no-store"});
    if (!answer.ok) return; // the job has ended, or Slurm does not answer: the facts are without GPUs
    told[job.id] = (await answer.json()).gpus;
    refresh();
  } catch {
    delete told[job.id];
  }
}

// redraw takes the drawing and the switches of a page.
function redraw(page) {
  el("place").replaceChildren(...page.getElementById("place").childNodes);
  const old = el("switches"), next = page.getElementById("switches");
  if (old && next) { next.open = old.open; old.replaceWith(next); } else if (next) el("table").before(next); else if (old) old.remove();
}

// reread reads the page again and takes its drawing if it is another one, without a reload: what was chosen and
// searched stays, and so does the place that was scrolled to.
async function reread() {
  if (reading) return;
  reading = true;
  try {
    const answer = await fetch(location.href, {cache: "no-store"});
    if (answer.status === 401 || answer.status === 403) { location.reload(); return; }
    if (!answer.ok) throw new Error(answer.status);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const name = data.nodes[at] && data.nodes[at].name, focused = document.activeElement && document.activeElement.closest(".n");
    const layout = data.layout;
    data = JSON.parse(page.getElementById("data").textContent);
    told = {};
    if (data.layout !== layout) redraw(page);
    at = Math.max(0, numberOf(name));
    index();
    collect();
    refresh();
    if (focused && cells[at]) focus(at);
    connect();
  } catch {
    setTimeout(reread, 3000);
  } finally {
    reading = false;
  }
}

function hear() {
  heard = Date.now();
  say();
}
// say tells whether the page is current.
function say() {
  const quiet = Date.now() - heard, cut = quiet > 20000 || quiet > 5000 && stream.readyState !== EventSource.OPEN;
  if (!cut && stream.readyState !== EventSource.OPEN) return; // it may be back in a moment
  const text = cut ? "cut off: this is as of " + new Date(heard).toLocaleTimeString() : "live";
  if (el("status").textContent !== text) el("status").textContent = text;
  el("status").classList.toggle("cut", cut);
}
function connect() {
  if (stream) stream.close();
  const address = new URL(events, location.href);
  address.search = new URLSearchParams({publication: new URLSearchParams(location.search).get("publication") || "", version: data.version});
  stream = new EventSource(address);
  stream.addEventListener("open", hear);
  stream.addEventListener("beat", hear);
  stream.addEventListener("changes", e => { hear(); change(JSON.parse(e.data)); });
  stream.addEventListener("whole", () => { hear(); reread(); });
  stream.addEventListener("error", () => {
    say();
    if (stream.readyState === EventSource.CLOSED) setTimeout(reread, 3000); // the browser does not try again
  });
}
if (events) {
  connect();
  setInterval(say, 1000);
}
