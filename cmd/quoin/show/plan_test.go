package show

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/gres"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/test/rig/hosts"
	"github.com/quoin-hpc/quoin/topology"
)

func TestStands(t *testing.T) {
	now := time.Date(2026, 11, 26, 12, 0, 40, 0, time.UTC)
	set := func(pending string, asked bool) *plandoc.Published {
		annotations := map[string]string{plandoc.AnnotationPending: pending}
		if asked {
			annotations[plandoc.AnnotationAsked] = "2026-11-26T12:00:00Z"
		}
		return &plandoc.Published{Annotations: annotations}
	}
	const (
		lines  = "loaded: n[3-4]: The file was never loaded\nregistered: n1: x"
		listed = "  loaded: n[3-4]: The file was never loaded\n  registered: n1: x"
		first  = "pending in Slurm, by the first stage that differs (planned, published, loaded, registered):\n"
		noted  = " (asked 40 s ago; later answers are noted only if they differ)\n"
		silent = "in Slurm: not known: whether Slurm has loaded the files: " + plandoc.CannotAsk
		waits  = "settleTime, until 2026-11-26T11:59:59Z: over\nchanges of the last hour, until 2026-11-26T12:01:20Z: a\npause between publications, until 2026-11-26T12:03:50Z: b: c\nchanges of the last hour, until 2026-11-26T15:03:50Z: d\nnot to be read"
	)
	for name, tt := range map[string]struct {
		set   *plandoc.Published
		asked bool
		want  string
		code  ExitCode
	}{
		"nothing is published":              {nil, true, "", Fine},
		"nobody asks":                       {&plandoc.Published{}, false, "", Fine},
		"Slurm has not answered yet":        {&plandoc.Published{}, true, "in Slurm: not known: Slurm has not answered the publisher yet\n", NotKnown},
		"Slurm never answered":              {set(plandoc.CannotAsk, false), true, silent + " (never answered)\n", NotKnown},
		"it does not answer now":            {set(plandoc.CannotAsk, true), true, silent + " (asked 40 s ago)\n", NotKnown},
		"it does not, and some are pending": {set(plandoc.CannotAsk+"\n"+lines, true), true, first + "  " + plandoc.CannotAsk + "\n" + listed + " (asked 40 s ago)\n", Differs},
		"all are as published":              {set("", true), true, "in Slurm: all nodes are as published" + noted, Fine},
		"it does not say what it loaded":    {set(plandoc.LoadNotKnown, true), true, "in Slurm: not known: " + plandoc.LoadNotKnown + noted, NotKnown},
		"nor does it answer now":            {set(plandoc.CannotAsk+"\n"+plandoc.LoadNotKnown, true), true, "in Slurm: not known: " + plandoc.CannotAsk + "\n  " + plandoc.LoadNotKnown + " (asked 40 s ago)\n", NotKnown},
		"nodes are pending":                 {set(lines, true), true, first + listed + noted, Differs},
		"pending, asked by others":          {set(lines, true), false, first + listed + noted, Differs},
		"some wait": {&plandoc.Published{Annotations: map[string]string{plandoc.AnnotationWaits: waits}}, false,
			"waits: changes of the last hour, until 2026-11-26 12:01:20Z (in 40 s): a\nwaits: pause between publications, until 2026-11-26 12:03:50Z (in 3 min): b: c\nwaits: changes of the last hour, until 2026-11-26 15:03:50Z (in 3 h): d\n", Fine},
	} {
		var out strings.Builder
		if code := Stands(&out, tt.set, tt.asked, now); out.String() != tt.want || code != tt.code {
			t.Errorf("%s: %v, said %q, want %v and %q", name, code, out.String(), tt.code, tt.want)
		}
	}
}

// TestPlanStatus lists what is held, how to approve it, and what ends it.
func TestPlanStatus(t *testing.T) {
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	d := plandoc.New("default", "slurm/quoin-slurm")
	d.Held = []plandoc.Held{
		{Since: since, Reason: "TooLarge", Message: "5 bytes", Digest: "0"},
		{Since: since, Reason: "BigChange", Message: "9 nodes", Digest: "1", Waits: true},
		{Since: since, Reason: "TopologiesChange", Message: "nvl goes", Digest: "2", Waits: true, Alone: true},
	}
	d.Wanted = &plandoc.Plan{}
	var out strings.Builder
	held := PlanStatus(&out, d, " --store s", since.Add(5*time.Minute))
	const want = `publication default: nothing is published
held since 2026-01-02 03:04:05Z (5 min ago): TooLarge: 5 bytes
  it ends:           by itself when the nodes and the configuration give files that can be published
held since 2026-01-02 03:04:05Z (5 min ago): BigChange: 9 nodes
  to publish it:     quoin plan approve 1 --store s
  it ends:           by itself if fewer nodes change; the changes of the last hour count
held since 2026-01-02 03:04:05Z (5 min ago): TopologiesChange: nvl goes
  it cannot be published before the files above
  to publish it:     quoin plan approve 2 --store s
  it ends:           by itself if the nodes and the configuration are again as published
if nothing was held:
  what would change: quoin plan diff --store s
`
	if diff := cmp.Diff(want, out.String()); diff != "" || !held {
		t.Errorf("held %t (-want +got):\n%s", held, diff)
	}
	out.Reset()
	d.Held = d.Held[2:]
	if PlanStatus(&out, d, "", since); !strings.Contains(out.String(), "TopologiesChange: nvl goes\n  all else is published\n") {
		t.Errorf("only a decision is held:\n%s", &out)
	}
	d.Held, d.Wanted = nil, nil
	out.Reset()
	if PlanStatus(&out, d, "", since) || out.String() != "publication default: nothing is published yet; the publisher's log says what the first publication waits for\n" {
		t.Errorf("nothing is held:\n%s", &out)
	}
}

// TestHistory lists reasons of any length in lines of 100 columns, and loses no word of them.
func TestHistory(t *testing.T) {
	d := plandoc.New("default", "slurm/quoin-slurm")
	words := strings.Repeat("gb200-[001-018] leave nvl-760218b5-1 at leaf-01: no node has this name now; ", 10)
	list := "a" + strings.Repeat(",node-of-a-name-that-folds-with-none-"+strings.Repeat("x", 20), 8)
	long := strings.Repeat("y", 250)
	for i, why := range []string{"first publication", words, list, long} {
		d.Add(plandoc.Revision{Author: []string{"quoin-publisher", "ann"}[i%2], Why: why})
	}
	var out strings.Builder
	History(&out, d)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	column := strings.Index(lines[0], "WHY")
	var whys []string
	for _, line := range lines[1:] {
		if len(line) > 100 {
			t.Errorf("%d columns: %q", len(line), line)
		}
		if line[0] != ' ' {
			whys = append(whys, "")
		}
		whys[len(whys)-1] += line[column:]
	}
	bare := func(text string) string { return strings.ReplaceAll(text, " ", "") }
	for i, want := range []string{long, list, words, "first publication"} {
		if i >= len(whys) || bare(whys[i]) != bare(want) {
			t.Errorf("row %d of %d lacks words of %q:\n%s", i, len(whys), want, &out)
		}
	}
	for _, line := range hostlist.Wrap(list, 60) {
		if len(line) > 60 || !strings.HasSuffix(line, ",") && !strings.HasSuffix(list, line) {
			t.Errorf("a host list is broken within a name: %q", line)
		}
	}
}

// TestPlanDiffOfRename has the nodes of four racks under other names.
func TestPlanDiffOfRename(t *testing.T) {
	named := func(form string, first int) *plandoc.Plan {
		p := &plandoc.Plan{Plan: topology.Plan{Topologies: []topology.Topology{{Name: "nvl", Kind: topology.KindBlock, Sizes: []int{18}}}}}
		for rack := range 4 {
			b := topology.Block{Name: fmt.Sprint("nvl-", rack)}
			for i := range 18 {
				n := topology.Placement{Node: fmt.Sprint("host-", 18*rack+i), SlurmName: fmt.Sprintf(form, 18*rack+i+first), Reason: "Placed", Source: "nvml"}
				b.Nodes, p.Nodes = append(b.Nodes, n.SlurmName), append(p.Nodes, n)
			}
			p.Topologies[0].Blocks = append(p.Topologies[0].Blocks, b)
		}
		return p
	}
	var out strings.Builder
	differs := PlanDiff(&out, named("gb-%d", 0), named("gb200-%03d", 1))
	const want = "gb200-[001-072] are the new names of gb-[0-71], each in its place\n"
	if diff := cmp.Diff(want, out.String()); diff != "" || !differs {
		t.Errorf("differs %t (-want +got):\n%s", differs, diff)
	}
}

// TestPlanStatusOfFewerGPUs has a revision with fewer GPUs than the one before.
func TestPlanStatusOfFewerGPUs(t *testing.T) {
	d := plandoc.New("default", "slurm/quoin-slurm")
	for _, files := range []string{"/dev/nvidia[0-3]", "/dev/nvidia[0-2]"} {
		d.Add(plandoc.Revision{Plan: plandoc.Plan{Devices: []gres.Line{{Nodes: "n[1-2]", Name: "gpu", Type: "h100", Files: hosts.In(files)}},
			Plan: topology.Plan{Topologies: []topology.Topology{{Name: "nvl", Kind: topology.KindBlock, Blocks: []topology.Block{{Name: "b", Nodes: []string{"n1", "n2"}}}}}}}})
	}
	const want = "  fewer GPUs than before on n[1-2]: slurm.conf must follow (Gres=), or slurmctld drains them\n"
	var out strings.Builder
	if PlanStatus(&out, d, "", time.Time{}); !strings.Contains(out.String(), want) {
		t.Errorf("want %q in\n%s", want, &out)
	}
	out.Reset()
	d.Add(d.Current)
	if PlanStatus(&out, d, "", time.Time{}); strings.Contains(out.String(), "fewer GPUs") {
		t.Errorf("the next revision has as many:\n%s", &out)
	}
}

func TestAged(t *testing.T) {
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const at = "2026-01-02 03:04:05Z"
	for after, want := range map[time.Duration]string{-time.Hour: " (0 s ago)", 119 * time.Second: " (119 s ago)", 2 * time.Minute: " (2 min ago)", 2 * time.Hour: " (2 h ago)", 48 * time.Hour: " (2 days ago)"} {
		if got := aged(since, since.Add(after)); got != at+want {
			t.Errorf("after %s: %q, want %q", after, got, at+want)
		}
	}
	if got := aged(time.Time{}, since); got != "an unknown time" {
		t.Errorf("no time: %q", got)
	}
}
