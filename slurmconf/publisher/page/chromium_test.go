package page_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/page"
	"github.com/quoin-hpc/quoin/test/rig/chromerig"
	"github.com/quoin-hpc/quoin/topology/picture"
	"github.com/quoin-hpc/quoin/topology/simulated"
)

// troubled are four racks with trouble, and two jobs.
func troubled(t testing.TB) *mapSource {
	two := 2
	site := plan(t, racks(t, 4), "slurm", simulated.Fault{Node: "gb200-00020", GPU: &two, Health: "unhealthy"}, simulated.Fault{Node: "gb200-00021", GPU: &two, Lost: true},
		simulated.Fault{Node: "gb200-00040", NoReport: true}, simulated.Fault{Node: "gb200-00007", Fabric: "inProgress", Reboot: true})
	idle(site)
	site.Said["gb200-00020"] = picture.Said{Slurm: "IDLE+DRAIN", Use: "unavailable", IMEX: picture.Verdict{Wrong: true, Reason: "FabricNotReady", Message: "wait while the GPUs register"},
		Drift: picture.Verdict{Wrong: true, Reason: "AnnotationDiffers", Message: "the annotation names another block"}}
	site.Said["gb200-00022"] = picture.Said{Slurm: "IDLE", Use: "free", IMEX: picture.Verdict{Reason: "NoMultiNodeNVLink", Message: "the GPUs have no NVLink to other nodes"}, Drift: picture.Verdict{Reason: "Agrees"}}
	run(site, picture.Job{ID: "101", Name: "train", User: "ada", Account: "ml", Partition: "gpu", Nodes: names(37, 54), GPUs: map[string]string{"gb200-00037": "0-3"}, Segment: 18, Blocks: 1, Fewest: 1})
	run(site, picture.Job{ID: "102", Name: "eval", User: "grace", Nodes: append(names(1, 2), names(55, 58)...), Blocks: 3, Fewest: 2, Note: "3 blocks, 2 would be large enough"})
	site.Segments = []picture.Segments{{Topology: "nvl", Size: 4, Now: 7, All: 16, Taken: map[string]int{site.Plan.Blocks()[0].Name: 16, site.Plan.Blocks()[3].Name: 12}}}
	return &mapSource{names: []string{"slurm"}, now: map[string]*picture.Site{"slurm": site}}
}

func names(from, to int) (out []string) {
	for i := from; i <= to; i++ {
		out = append(out, fmt.Sprintf("gb200-%05d", i))
	}
	return out
}

// clean says that the browser complains about nothing, and asked nobody but the server.
func (b browser) clean(url string) {
	b.t.Helper()
	if p := b.Problems(); len(p) > 0 {
		b.t.Errorf("the browser complains:\n%s", strings.Join(p, "\n"))
	}
	server := strings.TrimSuffix(url, "/map")
	for _, r := range b.Requests() {
		if !strings.HasPrefix(r, server+"/map") && !strings.HasPrefix(r, "data:") {
			b.t.Errorf("the page asks %s", r)
		}
	}
}

// TestRealPage uses the page of four racks as an operator does.
func TestRealPage(t *testing.T) {
	t.Parallel()
	s := troubled(t)
	url, b := serve(t, s), start(t, chromerig.Options{})
	b.do(b.Open(url), b.Wait("document.getElementById('status').textContent === 'live'"))
	if n, ill := b.count("#drawing .n"), b.count("#drawing .n.degraded"); n != 72 || ill != 2 {
		t.Errorf("%d cells, %d degraded, want 72 and 2", n, ill)
	}
	// A click shows a node.
	b.do(b.Click(`#drawing [aria-label^="gb200-00021"]`), b.Wait("document.querySelector('#facts h2').textContent === 'gb200-00021'"))
	for _, want := range []string{"problems, and what to do", "GPULost", "switches above it", "leaf-002", "3 × NVIDIA GB200"} {
		if text := b.text("#facts"); !strings.Contains(text, want) {
			t.Errorf("the facts lack %q:\n%s", want, text)
		}
	}
	b.do(b.Click(`#drawing [aria-label^="gb200-00020"]`), b.Wait("document.getElementById('facts').innerText.includes('AnnotationDiffers: the annotation names another block. What to do: stop the writer that the message names')"),
		b.Click(`#drawing [aria-label^="gb200-00021"]`))
	// The arrow keys go to the neighbour, and Enter shows it.
	var right string
	b.do(b.Type(kb.ArrowUp), b.Type(kb.Enter), b.Wait("document.querySelector('#facts h2').textContent === 'gb200-00022'"))
	b.do(b.Eval(`(c => [...document.querySelectorAll("#drawing .n")].find(o => Math.abs(o.getBoundingClientRect().y - c.getBoundingClientRect().y) < 1 && o.getBoundingClientRect().x > c.getBoundingClientRect().x).nextSibling.textContent)(document.activeElement)`, &right))
	b.do(b.Type(kb.ArrowRight), b.Type(kb.Enter), b.Wait(fmt.Sprintf("document.querySelector('#facts h2').textContent === %q", right)))
	if n := b.count(`#drawing .n[tabindex="0"]`); n != 1 {
		t.Errorf("Tab stops at %d cells, want 1", n)
	}
	// A job marks its nodes.
	b.do(b.Click("#jobs tr:nth-child(2) button"), b.Wait("document.querySelector('#facts h2').textContent === 'job 102 eval'"))
	if n, text := b.count("#drawing .n.marked"), b.text("#facts"); n != 6 || strings.Count(text, "3 blocks") != 1 || !strings.Contains(text, "3 blocks, 2 would be large enough") {
		t.Errorf("%d nodes are marked, want 6:\n%s", n, text)
	}
	// The page does not have the job's GPUs, and asks for them: they are at its nodes.
	b.do(b.Wait("document.getElementById('facts').innerText.includes('gb200-00055, GPUs 2')"), b.Click(`#drawing [aria-label^="gb200-00001"]`),
		b.Wait("document.getElementById('facts').innerText.includes('job 102 eval of grace, GPUs 0-1')"), b.Click("#jobs tr:nth-child(2) button"))
	// Escape shows all again. A search dims what it does not find.
	b.do(b.Type(kb.Escape), b.Wait("document.querySelectorAll('.marked').length === 0"), b.Into("#search", "ada"), b.Wait("document.getElementById('hits').textContent === '18 of 72 nodes'"))
	if n := b.count("#jobs tbody tr"); n != 1 {
		t.Errorf("the search shows %d jobs, want 1", n)
	}
	// Slurm has not been asked. When it has, the page says how long ago, and goes on saying it.
	if text := b.text("#asked"); text != "" {
		t.Errorf("nobody asked Slurm, and the page says %q", text)
	}
	asked := func(ago time.Duration) {
		s.change("slurm", func(site *picture.Site) { site.Asked = time.Now().Add(-ago).UTC().Format(time.RFC3339) })
	}
	b.do(b.Eval("window.kept = [...document.querySelectorAll('#jobs button, #drawing .n, #legend li')]", nil))
	asked(5 * time.Minute)
	b.do(b.Wait("document.getElementById('asked').textContent === 'Slurm was asked 5 min ago'"))
	// What has not changed is not replaced: a click in that moment would be lost.
	var lost int
	if b.do(b.Eval("kept.filter(e => !e.isConnected).length", &lost)); lost > 0 {
		t.Errorf("%d parts of the page were replaced though they are the same", lost)
	}
	asked(10 * time.Second)
	const seconds = "Number(/^Slurm was asked ([0-9]+) s ago$/.exec(document.getElementById('asked').textContent)?.[1])"
	b.do(b.Wait(seconds+" > 0"), b.Eval("window.first = "+seconds, nil), b.Wait(seconds+" > first"))
	b.clean(url)
}

// TestRealColours colours the nodes by each choice.
func TestRealColours(t *testing.T) {
	t.Parallel()
	url, b := serve(t, troubled(t)), start(t, chromerig.Options{Dark: true})
	b.do(b.Open(url), b.Wait("document.getElementById('status').textContent === 'live'"))
	for mode, want := range map[string][]string{
		"health":   {"healthy: 68", "GPU or fabric unhealthy, failed or lost: 2"},
		"slurm":    {"free: 47", "busy: 24", "takes no job: 1"},
		"job":      {"job 101 train: 18", "job 102 eval: 6", "no job: 48"},
		"user":     {"ada: 18", "grace: 6", "no job: 48"},
		"imex":     {"IMEX ready: 70", "IMEX not ready: 1", "needs no IMEX: 1"},
		"drift":    {"as published: 71", "drift: 1"},
		"segments": {"in a free segment of 4: 28", "free, left over: 19", "busy: 24", "takes no job: 1"},
	} {
		b.do(b.Choose("#colour", mode))
		legend := strings.Split(b.text("#legend"), "\n")
		for _, word := range want {
			if !slices.ContainsFunc(legend, func(l string) bool { return strings.TrimSpace(l) == word }) {
				t.Errorf("%s: the legend lacks %q: %q", mode, word, legend)
			}
		}
	}
	var background string
	b.do(b.Eval("getComputedStyle(document.body).backgroundColor", &background))
	if background != "rgb(13, 17, 23)" {
		t.Errorf("the dark page is %s", background)
	}
	b.clean(url)
}

// TestRealLive changes the site while somebody looks. Nothing is loaded again.
func TestRealLive(t *testing.T) {
	t.Parallel()
	s := troubled(t)
	url, b := serve(t, s), start(t, chromerig.Options{})
	b.do(b.Open(url), b.Wait("document.getElementById('status').textContent === 'live'"), b.Eval("window.same = 1", nil),
		b.Choose("#colour", "slurm"), b.Click(`#drawing [aria-label^="gb200-00060"]`), b.Wait("document.getElementById('facts').innerText.includes('IDLE')"))
	s.change("slurm", func(site *picture.Site) {
		site.Said["gb200-00060"] = picture.Said{Slurm: "IDLE+DRAIN", Use: "unavailable"}
		site.Jobs = site.Jobs[:1]
		site.Held = &picture.Held{Differences: []string{"gb200-00001 moves from a to b: NVML twice since boot"}, Holds: []picture.Hold{
			{Reason: "BigChange", Message: "18 nodes would move", Digest: "abc", Waits: true}, {Reason: "TopologiesChange", Digest: "def", Waits: true, Alone: true}}}
	})
	b.do(b.Wait(`document.querySelector('#drawing [aria-label^="gb200-00060"]').classList.contains("unavailable")`), b.Wait("document.getElementById('facts').innerText.includes('IDLE+DRAIN')"),
		b.Wait("document.getElementById('held').innerText.includes('quoin plan approve abc')"), b.Wait("document.getElementById('held').innerText.includes('quoin plan approve def')"), b.Wait("document.querySelectorAll('#jobs tbody tr').length === 1"))
	asked := len(b.Requests())
	// A rack more is another drawing. What was chosen stays.
	grown := plan(t, racks(t, 5), "slurm")
	idle(grown)
	s.change("slurm", func(site *picture.Site) { *site = *grown })
	b.do(b.Wait("document.querySelectorAll('#drawing .n').length === 90"), b.Wait("document.getElementById('status').textContent === 'live'"))
	var same int
	b.do(b.Eval("window.same", &same))
	if title := b.text("#facts h2"); same != 1 || title != "gb200-00060" || b.count("#drawing .n.free") != 90 {
		t.Errorf("loaded again: %t, chosen %q, %d free", same != 1, title, b.count("#drawing .n.free"))
	}
	if pages := slices.DeleteFunc(b.Requests()[asked:], func(r string) bool { return strings.Contains(r, page.DataPath) }); len(pages) != 1 {
		t.Errorf("the new drawing took the requests %q, want the page once", pages)
	}
	b.clean(url)
}
