package publisher

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// A chart's seed, with which slurmctld can start before anything is known.
const chartSeed = "- {topology: nvl, cluster_default: true, block: {block_sizes: [4], blocks: [{block: placeholder}]}}\n"

// edits are what people and other programs do to published files.
var edits = map[string]func(files map[string]string){
	"seeded":       func(f map[string]string) { f["topology.yaml"] = chartSeed },
	"another base": func(f map[string]string) { f["topology.yaml"] = strings.Replace(f["topology.yaml"], "[18]", "[36]", 1) },
	"a node moved": func(f map[string]string) {
		f["topology.yaml"] = strings.Replace(f["topology.yaml"], "[001-018]", "[001-017]", 1)
	},
	"a note":               func(f map[string]string) { f["topology.yaml"] += "# mine\n" },
	"broken":               func(f map[string]string) { f["topology.yaml"] = "- topology: [" },
	"gres.conf edited":     func(f map[string]string) { f["gres.conf"] = strings.Replace(f["gres.conf"], "gb200", "h100", 1) },
	"gres.conf broken":     func(f map[string]string) { f["gres.conf"] += "NodeName=gb200-001 Nme=gpu\n" },
	"no topology.yaml":     func(f map[string]string) { delete(f, "topology.yaml") },
	"no gres.conf":         func(f map[string]string) { delete(f, "gres.conf") },
	"an old topology.conf": func(f map[string]string) { f["topology.conf"] = "BlockName=a Nodes=n1\nBlockSizes=1\n" },
	"nothing left":         func(f map[string]string) { clear(f) },
}

// disorder has the publisher's memory differ from what it would plan anew: the
// first rack is known before the others, and another one has gone.
func disorder(t *testing.T, store *memory) (want map[string]string) {
	t.Helper()
	store.pass(time.Minute)
	p := store.get("slurm/quoin-slurm")
	lines := strings.SplitAfter(p.Files["topology.yaml"], "\n")
	first := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, "- block:") })
	if first < 0 {
		t.Fatal(p.Files["topology.yaml"])
	}
	lines[first], lines[first+1], lines[first+2], lines[first+3] = lines[first+2], lines[first+3], lines[first], lines[first+1]
	store.edit(func() {
		p.Files["topology.yaml"] = strings.Join(lines, "")
		p.Annotations[plandoc.AnnotationDigest] = plandoc.Digest(p.Files)
		clear(store.plans) // the next publisher continues from the files
	})
	return maps.Clone(p.Files)
}

// TestEditedFilesAreRestored edits files while a publisher runs, and while none does. Files of others stay.
func TestEditedFilesAreRestored(t *testing.T) {
	for name, edit := range edits {
		for _, running := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, a publisher runs: %t", name, running), func(t *testing.T) {
				store := newMemory(racks(t))
				pubs := complete(t, Publication{})
				var want map[string]string
				edited := func() {
					edit(store.published["slurm/quoin-slurm"].Files)
					store.published["slurm/quoin-slurm"].Files["theirs"] = "stays"
				}
				restored := func() {
					store.pass(time.Minute)
					got := store.get("slurm/quoin-slurm")
					if diff := cmp.Diff(want, got.Own()); diff != "" || got.Files["theirs"] != "stays" || got.Annotations[plandoc.AnnotationHeldReason] != "" {
						t.Errorf("held %q, files (-want +got):\n%s", got.Annotations[plandoc.AnnotationHeldReason], diff)
					}
					if !slices.Contains(store.events, "PublishedEdited") {
						t.Errorf("events %v", store.events)
					}
					store.pass(time.Hour) // Nodes are annotated again
					store.rests(t, time.Hour)
				}
				inBubble(t, store, pubs, func() { want = disorder(t, store) })
				inBubble(t, store, pubs, func() { // a publisher that found the files so
					store.pass(time.Minute)
					if running {
						store.edit(edited)
						restored()
					}
				})
				if !running {
					edited()
					inBubble(t, store, pubs, restored)
				}
			})
		}
	}
}

// TestTakeOver begins at files that a publisher wrote which stored no plan.
func TestTakeOver(t *testing.T) {
	for name, edit := range edits {
		t.Run(name, func(t *testing.T) {
			store := newMemory(racks(t))
			pubs := complete(t, Publication{})
			inBubble(t, store, pubs, func() { disorder(t, store) })
			first := maps.Clone(store.get("slurm/quoin-slurm").Files)
			p := store.get("slurm/quoin-slurm")
			p.Annotations[plandoc.AnnotationRevision] = "7"
			edit(p.Files)
			found := maps.Clone(p.Files)
			inBubble(t, store, pubs, func() {
				store.pass(time.Minute)
				got := store.get("slurm/quoin-slurm")
				reason, _, _ := strings.Cut(got.Annotations[plandoc.AnnotationHeldReason], ": ")
				text, revision := got.Files["topology.yaml"], got.Annotations[plandoc.AnnotationRevision]
				switch name {
				case "broken", "gres.conf broken":
					if reason != "PublishedUnreadable" || !maps.Equal(got.Files, found) {
						t.Errorf("held %q, files %v", reason, got.Files)
					}
				case "another base": // it stays, and the one of the domains is offered
					if reason != placement.BaseSizeChange || !strings.Contains(text, "[36]") || revision != "7" && revision != "8" {
						t.Errorf("held %q, revision %s:\n%s", reason, revision, text)
					}
				case "seeded", "no topology.yaml", "nothing left", "an old topology.conf":
					if reason != "" || strings.Contains(text, "placeholder") || !strings.Contains(text, "gb200-[055-072]") {
						t.Errorf("held %q:\n%s", reason, text)
					}
				case "gres.conf edited":
					if reason != "" || text != first["topology.yaml"] {
						t.Errorf("held %q:\n%s", reason, text)
					}
				default:
					if diff := cmp.Diff(first, got.Files); diff != "" || reason != "" {
						t.Errorf("held %q (-want +got):\n%s", reason, diff)
					}
				}
			})
		})
	}
}
