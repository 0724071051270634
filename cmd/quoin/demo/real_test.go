package demo

import (
	"fmt"
	"io"
	"testing"

	"github.com/quoin-hpc/quoin/cmd/quoin/show"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/dir"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/test/rig/chromerig"
	"github.com/quoin-hpc/quoin/test/rig/loopback"
	"github.com/quoin-hpc/quoin/test/rig/sites"
)

// day is the day of trouble before its first moment.
func day(t *testing.T) *demonstration {
	t.Helper()
	cluster := sites.Open(t, troubleSite)
	clusters, err := publication.Compile([]publication.Publication{publication.Default()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	path := t.TempDir()
	return &demonstration{Options: Options{Publication: clusters[0]}, Screen: show.NewScreen(io.Discard), dir: path, cluster: cluster, store: dir.New(path)}
}

// TestRealDay plays the day of trouble in a page that is loaded once, in a real Chromium. Each
// moment arrives before the next one is played.
func TestRealDay(t *testing.T) {
	t.Parallel()
	b := chromerig.StartTest(t, chromerig.Options{})
	d := day(t)
	d.Page = loopback.Address(9838)
	do := func(errs ...error) {
		t.Helper()
		for _, err := range errs {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	round := func() {
		t.Helper()
		if _, err := d.round(t.Context(), true); err != nil {
			t.Fatal(err)
		}
	}
	do(d.servePage(t.Context()))
	round()
	do(b.Open("http://"+d.Page+"/map"), b.Wait("document.getElementById('status').textContent === 'live'"), b.Eval("window.same = 1", nil))
	is := func(node int, what string) string {
		return fmt.Sprintf("document.querySelector('#drawing [aria-label^=\"gb200-%03d:\"]').classList.contains(%q)", node, what)
	}
	const block = "data.nodes.find(n => n.name === 'gb200-%03d').block"
	moments := map[string]string{
		"08:10": is(7, "waiting"), "08:25": is(7, "healthy"), "09:40": is(20, "degraded"), "11:05": is(40, "waiting") + " && " + is(41, "waiting"), "12:00": is(40, "healthy"),
		"13:30": "document.querySelectorAll('#drawing .n').length === 71",
		"15:15": fmt.Sprintf(block+" === "+block, 19, 56), "16:45": fmt.Sprintf(block+" === "+block, 19, 21) + " && document.querySelectorAll('#drawing .n').length === 72",
		"17:00": is(1, "waiting") + " && " + is(3, "waiting"),
	}
	for _, s := range d.cluster.Steps {
		if moments[s.At] == "" {
			t.Fatalf("%s: nothing is known of this moment", s.At)
		}
		d.cluster.Apply(s)
		round()
		if err := b.Wait(moments[s.At]); err != nil {
			t.Fatalf("%s %s: %v", s.At, s.Say, err)
		}
		// No job stays on a node that takes none.
		var wrong int
		do(b.Eval("Object.values(data.jobs).flatMap(j => j.nodes).filter(i => data.nodes[i].use !== 'busy').length", &wrong))
		if wrong > 0 {
			t.Errorf("%s: jobs run on %d nodes that are not busy", s.At, wrong)
		}
	}
	var same int
	do(b.Eval("window.same", &same))
	if p := b.Problems(); same != 1 || len(p) > 0 {
		t.Errorf("the page was loaded again: %t; the browser complains %q", same != 1, p)
	}
}

// TestWorkload starts jobs on free nodes only, and says when fewer blocks would be large enough.
func TestWorkload(t *testing.T) {
	d := day(t)
	d.source = &pageSource{name: "x"}
	for _, s := range d.cluster.Steps {
		d.cluster.Apply(s)
		if _, err := d.round(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		site, err := d.source.Site(t.Context(), "x")
		if err != nil || len(site.Jobs) == 0 || len(site.Segments) == 0 {
			t.Fatalf("%s: %v, %d jobs, %d segments", s.At, err, len(site.Jobs), len(site.Segments))
		}
		on := map[string]string{}
		for _, j := range site.Jobs {
			if noted := j.Note != ""; noted != (j.Blocks > j.Fewest) {
				t.Errorf("job %s uses %d blocks, %d would do: %q", j.ID, j.Blocks, j.Fewest, j.Note)
			}
			for _, n := range j.Nodes {
				if on[n] != "" || site.Said[n].Use != "busy" {
					t.Errorf("%s: job %s runs on %s, which is %s and has job %q", s.At, j.ID, n, site.Said[n].Slurm, on[n])
				}
				on[n] = j.ID
			}
		}
	}
}
