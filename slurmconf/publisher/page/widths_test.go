package page_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/quoin-hpc/quoin/test/rig/chromerig"
	"github.com/quoin-hpc/quoin/test/rig/sites"
	"github.com/quoin-hpc/quoin/topology/picture"
)

// beyond are the elements that need a sideways scroll, of the page or of a part of it.
// So are texts that their rack cuts off.
const beyond = `(() => {
	const cut = [...document.querySelectorAll(".racks text")].filter(e => e.getBoundingClientRect().right > e.ownerSVGElement.getBoundingClientRect().right + 1).map(e => "cut off: " + e.textContent);
	const words = e => e.tagName + " " + (e.id || e.textContent.slice(0, 30));
	const out = [...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > innerWidth + 1 || getComputedStyle(e).overflowX === "auto" && e.scrollWidth > e.clientWidth).map(words).concat(cut);
	return document.documentElement.scrollWidth > innerWidth ? ["the page: " + document.documentElement.scrollWidth + " px"].concat(out) : out;
})()`

// together is true if the chosen cell and the first words of its facts are both in view, and nothing covers them.
const together = `(() => {
	const seen = e => { const r = e.getBoundingClientRect(), at = document.elementFromPoint(r.x + 8, r.y + r.height / 2); return at !== null && (e === at || e.contains(at)); };
	return ["#drawing .chosen", "#facts h2", "#facts dt"].every(s => seen(document.querySelector(s)));
})()`

// cloud has the long names of nodes and switches that a cloud gives.
const cloud = `groups:
- {name: cloud, racks: 6, nodes: 4, node: "ip-10-140-71-{node:03}.eu-central-1.compute.internal", tiers: ["nn-0d3f0123456789a{rack:02}", "nn-1e4a0123456789b{rack/2}", "nn-2f5b0123456789c00"], gpus: {count: 8, product: NVIDIA H100 80GB HBM3}}
- {name: cpu, racks: 1, nodes: 3, node: "control-plane-{node}.eu-central-1.compute.internal", gpus: {count: 0}}
`

// TestRealWidths opens sites on a phone, a notebook and a wall of screens. Nothing needs a sideways scroll, and
// a node that somebody taps shows its facts beside it, wherever it stands.
func TestRealWidths(t *testing.T) {
	t.Parallel()
	all := map[string]*picture.Site{"troubled": troubled(t).now["slurm"], "many": plan(t, racks(t, 12), "many"), "mixed": plan(t, sites.Open(t, "mixed"), "mixed"), "cloud": plan(t, sites.Parse(t, cloud), "cloud")}
	all["mixed"].Held = &picture.Held{Differences: []string{"gb200-[001-018] leave nvl-0123456789abcdef at leaf-0123456789abcdef: no node has this name now"}, Holds: []picture.Hold{
		{Reason: "BigChange", Message: "18 of 72 nodes would move or leave", Digest: "0123456789abcdef", Waits: true}}}
	url, b := serve(t, &mapSource{names: slices.Sorted(maps.Keys(all)), now: all}), start(t, chromerig.Options{})
	for _, o := range []chromerig.Options{{Width: 390, Height: 844}, {Width: 1400, Height: 900}, {Width: 3840, Height: 2160}} {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			b.do(b.Look(o), b.Open(url+"?publication="+name), b.Wait("document.getElementById('status').textContent === 'live'"), b.Eval("document.querySelectorAll('details').forEach(d => { d.open = true })", nil), b.Wait("document.querySelector('#tablebox table')"))
			cells := b.count("#drawing .n")
			for _, i := range []int{0, cells - 1} {
				// The cell stands low on the screen, and the browser does not move it before the tap, as it does for a click by the rig.
				b.do(b.Eval(fmt.Sprintf(`(c => {
					scrollBy(0, c.getBoundingClientRect().y - innerHeight * 0.8);
					c.dispatchEvent(new MouseEvent("click", {bubbles: true}));
				})(document.querySelectorAll("#drawing .n")[%d])`, i), nil), b.Wait(fmt.Sprintf(`document.querySelectorAll("#drawing .n")[%d].classList.contains("chosen")`, i)), b.Wait(together))
			}
			var out []string
			if b.do(b.Eval(beyond, &out)); len(out) > 0 {
				t.Errorf("%s at %d px does not fit: %q", name, o.Width, out)
			}
			b.do(b.Click("#facts .close"), b.Wait("document.querySelectorAll('#drawing .chosen').length === 0"))
		}
	}
	// A wide screen is used.
	var rows int
	b.do(b.Open(url+"?publication=many"), b.Wait("document.getElementById('status').textContent === 'live'"), b.Eval(`new Set([...document.querySelectorAll(".racks > svg")].map(s => Math.round(s.getBoundingClientRect().y))).size`, &rows))
	if rows != 1 {
		t.Errorf("12 racks stand in %d rows at 3840 px, want 1", rows)
	}
	b.clean(url)
}
