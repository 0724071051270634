
// The page asks its server for the data of now. A file has no server.
const address = el("data").dataset.address;
let etag = el("data").dataset.etag, heard = Date.now();

// get asks the server about the publication of the page. No answer takes longer than the limit.
function get(path, query, headers) {
  const url = new URL(path, location.href);
  url.search = new URLSearchParams({publication: new URLSearchParams(location.search).get("publication") || "", ...query});
  return fetch(url, {cache: "no-store", headers, signal: AbortSignal.timeout(75000)});
}

// ask asks which GPUs a job has. The page of a large site does not have the GPUs of all jobs.
async function ask(job) {
  if (!address) return;
  told[job.id] = null; // the question is on its way
  try {
    const answer = await get(address.replace(/data$/, "job"), {id: job.id});
    if (!answer.ok) return; // the job has ended, or Slurm does not answer: the facts are without GPUs
    told[job.id] = (await answer.json()).gpus;
    refresh();
  } catch {
    delete told[job.id];
  }
}

// poll asks for the data of now, and again after 5 seconds.
async function poll() {
  try {
    const answer = await get(address, {}, {"If-None-Match": etag});
    if (answer.ok) await take(answer);
    if (answer.ok || answer.status === 304) heard = Date.now();
  } catch {
    // The server is gone: say tells how old the data is.
  }
  say();
  setTimeout(poll, 5000);
}

// take shows the data of an answer. If the nodes stand elsewhere, it reads the page again for the drawing.
async function take(answer) {
  const next = await answer.json();
  if (next.layout === data.layout) { show(next, answer.headers.get("ETag")); return; }
  const again = await get(location.pathname);
  if (!again.ok) throw new Error(again.status);
  const page = new DOMParser().parseFromString(await again.text(), "text/html"), now = page.getElementById("data");
  show(JSON.parse(now.textContent), now.dataset.etag, page);
}

// show shows other data, and the drawing of a page if there is one. There is no reload: what was chosen and
// searched stays, and so does the place that was scrolled to.
function show(next, name, page) {
  const cell = data.nodes[at] && data.nodes[at].name, focused = document.activeElement && document.activeElement.closest(".n");
  const job = (d, id) => JSON.stringify((d.jobs || {})[id]);
  for (const id in told) if (job(data, id) !== job(next, id)) delete told[id];
  data = next;
  etag = name;
  if (page) {
    redraw(page);
    at = Math.max(0, numberOf(cell));
    collect();
  }
  index();
  refresh();
  if (page && focused && cells[at]) focus(at);
}

// redraw takes the drawing and the switches of a page.
function redraw(page) {
  el("place").replaceChildren(...page.getElementById("place").childNodes);
  const old = el("switches"), next = page.getElementById("switches");
  if (old && next) { next.open = old.open; old.replaceWith(next); } else if (next) el("table").before(next); else if (old) old.remove();
}

// say tells whether the page is current.
function say() {
  const cut = Date.now() - heard > 15000;
  const text = cut ? "cut off: this is as of " + new Date(heard).toLocaleTimeString() : "live";
  if (el("status").textContent !== text) el("status").textContent = text;
  el("status").classList.toggle("cut", cut);
}
if (address) {
  poll();
  setInterval(say, 1000);
}
