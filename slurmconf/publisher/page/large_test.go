package page_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/page"
	"github.com/quoin-hpc/quoin/test/rig/chromerig"
	"github.com/quoin-hpc/quoin/test/rig/sites"
	"github.com/quoin-hpc/quoin/topology/picture"
)

// large is a site of 10,008 nodes with 500 jobs.
func large(t testing.TB) *mapSource {
	site := plan(t, racks(t, 556), "slurm")
	idle(site)
	for i := range 500 {
		run(site, picture.Job{ID: fmt.Sprint(1000 + i), Name: "train", User: fmt.Sprintf("user%d", i%40), Partition: "gpu", Nodes: names(18*i+1, 18*i+16), Segment: 16, Blocks: 1, Fewest: 1})
	}
	page.Count(site)
	return &mapSource{names: []string{"slurm"}, now: map[string]*picture.Site{"slurm": site}}
}

// packed returns the page as a browser gets it.
func packed(t testing.TB, url string) []byte {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept-Encoding", "gzip")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Encoding") != "gzip" {
		t.Fatalf("%d, %v", resp.StatusCode, err)
	}
	return text
}

// TestRealLarge uses the page of 10,008 nodes.
func TestRealLarge(t *testing.T) {
	t.Parallel()
	s := large(t)
	url, b := serve(t, s), start(t, chromerig.Options{})
	if size := len(packed(t, url)); size >= 1e6 {
		t.Errorf("the page has %d bytes, want less than 1 MB", size)
	}
	b.do(b.Open(url), b.Wait("document.getElementById('status').textContent === 'live'"), b.Choose("#colour", "user"), b.Into("#search", "gb200-09999"), b.Wait("document.getElementById('hits').textContent === '1 of 10008 nodes'"),
		b.Type(kb.Enter), b.Wait("document.activeElement.getAttribute('aria-label') === 'gb200-09999: no job'"), b.Type(kb.Enter), b.Wait("document.querySelector('#facts h2').textContent === 'gb200-09999'"))
	b.do(b.Type(kb.Escape), b.Wait("document.getElementById('hits').textContent === ''"), b.Choose("#colour", "slurm"))
	s.change("slurm", func(site *picture.Site) { site.Said["gb200-09999"] = picture.Said{Slurm: "DOWN", Use: "unavailable"} })
	b.do(b.Wait(`document.querySelectorAll("#drawing .n.unavailable").length === 1`))
	b.clean(url)
}

// TestRealMixed has blocks, switches without blocks, nodes without GPUs, and a second publication.
func TestRealMixed(t *testing.T) {
	t.Parallel()
	site, other := plan(t, sites.Open(t, "mixed"), "slurm"), plan(t, racks(t, 1), "other")
	idle(site)
	url, b := serve(t, &mapSource{names: []string{"slurm", "other"}, now: map[string]*picture.Site{"slurm": site, "other": other}}), start(t, chromerig.Options{})
	b.do(b.Open(url), b.Wait("document.getElementById('status').textContent === 'live'"))
	if n := b.count("#drawing .n"); n != len(site.Plan.Nodes) {
		t.Errorf("%d cells for %d nodes", n, len(site.Plan.Nodes))
	}
	var titles []string
	b.do(b.Eval("[...document.querySelectorAll('#drawing .group')].map(g => g.textContent)", &titles))
	if want := []string{"NVLink blocks of topology nvl, block sizes 18", "In no block, by leaf switch below spine-1", "In no block and below no switch, by reason"}; !slices.Equal(titles, want) {
		t.Errorf("groups %q, want %q", titles, want)
	}
	// Nodes without GPUs are pale, whatever the colours say.
	if n, legend := b.count("#drawing .n.without-GPU"), b.text("#legend"); n != 4 || !strings.Contains(legend, "healthy: 44") || !strings.Contains(legend, "no GPU known: 4") {
		t.Errorf("%d nodes are without GPUs, want 4: %q", n, legend)
	}
	b.do(b.Choose("#colour", "slurm"))
	if free, pale := b.count("#drawing .n.free"), b.count("#drawing .n.free.pale"); free != 48 || pale != 4 {
		t.Errorf("%d of %d free nodes are pale, want 4 of 48", pale, free)
	}
	b.do(b.Click("#switches summary"), b.Click(`#switches [data-switch="leaf-h1"]`), b.Wait("document.querySelectorAll('#drawing .marked').length === 4"))
	b.do(b.Click("#table summary"), b.Wait("document.querySelectorAll('#tablebox tbody tr').length === 4"))
	b.do(b.Click("nav a:nth-child(2)"), b.Wait("document.querySelector('h1').textContent === 'Map of other' && document.querySelectorAll('#drawing .n').length === 18"))
	b.clean(url)
}

// TestRealSpoken reads the page as a screen reader does.
func TestRealSpoken(t *testing.T) {
	t.Parallel()
	url, b := serve(t, troubled(t)), start(t, chromerig.Options{})
	b.do(b.Open(url), b.Wait("document.getElementById('status').textContent === 'live'"))
	spoken, err := b.Spoken()
	b.do(err)
	for _, want := range []string{"heading: Map of slurm", "combobox: Colour by", "searchbox: Search", "group: nodes as they stand in their blocks", "button: gb200-00021: GPU or fabric unhealthy, failed or lost",
		"status: ", "list: colours", "complementary: facts", "button: 101", "DisclosureTriangle: Nodes as a table"} {
		if !slices.ContainsFunc(spoken, func(s string) bool { return strings.HasPrefix(s, want) }) {
			t.Errorf("a screen reader does not find %q", want)
		}
	}
	for _, s := range spoken {
		if role, name, _ := strings.Cut(s, ": "); name == "" && slices.Contains([]string{"button", "link", "combobox", "searchbox", "textbox", "img"}, role) {
			t.Errorf("a %s has no name", role)
		}
	}
}

// TestRealFile opens the page of quoin map -o html from a file, which asks nobody for anything.
func TestRealFile(t *testing.T) {
	t.Parallel()
	b := start(t, chromerig.Options{})
	var text bytes.Buffer
	path := filepath.Join(t.TempDir(), "map.html")
	b.do(picture.HTML(&text, troubled(t).now["slurm"]), os.WriteFile(path, text.Bytes(), 0o600))
	b.do(b.Open("file://"+path), b.Click(`#drawing [aria-label^="gb200-00020"]`), b.Wait("document.querySelector('#facts h2').textContent === 'gb200-00020'"))
	if p, r := b.Problems(), b.Requests(); len(p) > 0 || len(r) > 2 || r[0] != "file://"+path {
		t.Errorf("the browser complains %q, and asked %q", p, r)
	}
}
