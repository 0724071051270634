package publisher

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/test/rig/sites"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/nodelabels"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// hgxMachines are the commonest GPU machines: eight H100, InfiniBand, and no label of a switch. Some
// report an NVLink domain of their own.
const hgxMachines = `name: HGX
groups:
- {name: a, racks: 1, nodes: 6, node: "h{node:02}", gpus: {count: 8, product: NVIDIA H100 80GB HBM3, memoryMiB: 81559, numaNodes: 2, cpus: 112, nvlinks: 18}}
- {name: b, racks: 1, nodes: 2, node: "n{node:02}", nvlink: node, gpus: {count: 8, product: NVIDIA H100 80GB HBM3, memoryMiB: 81559, numaNodes: 2, cpus: 112, nvlinks: 18}}
`

// hgxSite is a site of these machines. The first ones have the label of their leaf switch.
func hgxSite(t testing.TB, labelled int) *inputs.Snapshot {
	t.Helper()
	snap := snapshotOf(sites.Parse(t, hgxMachines))
	for i := range labelled {
		labels := maps.Clone(snap.Nodes[i].Labels)
		labels["network.topology.nvidia.com/leaf"] = fmt.Sprintf("leaf-%d", i/4)
		labels["network.topology.nvidia.com/spine"] = "spine"
		snap.Nodes[i].Labels = labels
	}
	return snap
}

const (
	hgxGres  = "NodeName=h[01-06],n[01-02] Name=gpu Type=h100_80gb_hbm3 File=/dev/nvidia[0-7] Flags=nvidia_gpu_env\n"
	flatFile = "---\n- topology: flat\n  cluster_default: true\n  flat: true\n"
	ownConf  = "SwitchName=mine Nodes=h[01-06],n[01-02]\n"
)

// textOf returns files without the comment at the top.
func textOf(files map[string]string) map[string]string {
	out := map[string]string{}
	for name, text := range files {
		if _, rest, found := strings.Cut(text, "overwritten.\n"); found {
			text = rest
		}
		out[name] = text
	}
	return out
}

// filesAre compares what is published in store.
func (m *memory) filesAre(t *testing.T, when string, want map[string]string) *plandoc.Published {
	t.Helper()
	set := m.get("slurm/quoin-slurm")
	if set == nil {
		t.Fatalf("%s: nothing is published", when)
	}
	if diff := cmp.Diff(want, textOf(set.Files)); diff != "" {
		t.Errorf("%s: files (-want +got):\n%s", when, diff)
	}
	return set
}

// TestGresAlone publishes the GPUs of a site whose switches nobody has named. Nothing is held, nothing
// is written at rest, and a topology.conf of the site's own stays beside it whatever happens.
func TestGresAlone(t *testing.T) {
	store := newMemory(hgxSite(t, 0))
	inBubble(t, store, complete(t, Publication{}), func() {
		store.pass(time.Hour)
		set := store.filesAre(t, "first", map[string]string{"gres.conf": hgxGres})
		if held := set.Annotations[plandoc.AnnotationHeldReason]; held != "" || set.Annotations[plandoc.AnnotationRevision] != "1" {
			t.Errorf("annotations %v", set.Annotations)
		}
		if left, want := set.Annotations[plandoc.AnnotationLeftOut], "h[01-06]: NoNVLinkDomain: its GPUs have no multi-node NVLink\n"+
			"n[01-02]: NoNVLinkDomain: NVLink of NVIDIA H100 80GB HBM3 ends in the machine: its NVLink domain is this node alone"; left != want {
			t.Errorf("left out:\n%s\nwant:\n%s", left, want)
		}
		problems := store.plan(t).Current.Plan.Problems
		if i := slices.IndexFunc(problems, func(f topology.Finding) bool { return f.Reason == placement.ReasonSwitchesUnknown }); i < 0 || !strings.HasPrefix(problems[i].Message, "NVLink ends in the machine (8 nodes), so Slurm places jobs by switches, and no switch is known: ") {
			t.Errorf("problems %v", problems)
		}

		store.edit(func() { set.Files["topology.conf"] = ownConf })
		store.rests(t, time.Hour)
		both := map[string]string{"gres.conf": hgxGres, "topology.conf": ownConf}
		store.edit(func() { set.Files["gres.conf"] = "# mine\n" })
		store.pass(time.Hour)
		set = store.filesAre(t, "edited", both)
		store.edit(func() { delete(set.Files, "gres.conf") })
		store.pass(time.Hour)
		store.filesAre(t, "deleted", both)
		if d := store.plan(t); d.Current.Number != 1 || d.Held != nil {
			t.Errorf("revision %d, held %v", d.Current.Number, d.Held)
		}
	})
	// Another publisher goes on from the plan, and without a plan from gres.conf.
	for _, what := range []string{"from the plan", "from the file"} {
		inBubble(t, store, complete(t, Publication{}), func() {
			store.pass(time.Hour)
			store.filesAre(t, what, map[string]string{"gres.conf": hgxGres, "topology.conf": ownConf})
			if d := store.plan(t); d.Current.Number != 1 || len(d.History) > 0 {
				t.Errorf("%s: revision %d, %d before it", what, d.Current.Number, len(d.History))
			}
		})
		delete(store.plans, "default")
	}
}

// TestLinksUnknown has reports that no longer say the NVLinks, as when agents and the definition of reports are
// of two releases: first that of one machine, then all. No file changes, and no other finding comes.
func TestLinksUnknown(t *testing.T) {
	withLinks := func(snap *inputs.Snapshot, links func(gpus []topology.GPU, i int) *topology.Links, nodes ...string) *inputs.Snapshot {
		next := *snap
		next.Reports = maps.Clone(snap.Reports)
		for _, name := range nodes {
			n := *snap.Reports[name]
			n.GPUs = slices.Clone(n.GPUs)
			for i := range n.GPUs {
				n.GPUs[i].Links = links(n.GPUs, i)
			}
			next.Reports[name] = &n
		}
		return &next
	}
	names := func(snap *inputs.Snapshot) []string { return slices.Sorted(maps.Keys(snap.Reports)) }
	bridge := func(gpus []topology.GPU, i int) *topology.Links {
		return &topology.Links{GPUs: []topology.LinksToGPU{{PCIBusID: gpus[i^1].PCIBusID, Count: 12}}}
	}
	unknown := func([]topology.GPU, int) *topology.Links { return nil }
	hgx := hgxSite(t, 0)
	for _, tt := range []struct {
		name, line string // line is in gres.conf
		site       *inputs.Snapshot
	}{
		{"switches", "Name=gpu", hgx},
		{"bridges", "Links=-1,12", withLinks(hgx, bridge, names(hgx)...)},
		{"racks", "Name=gpu", racks(t)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			store := newMemory(tt.site)
			inBubble(t, store, complete(t, Publication{}), func() {
				store.pass(time.Hour)
				want := textOf(store.get("slurm/quoin-slurm").Files)
				if !strings.Contains(want["gres.conf"], tt.line) {
					t.Fatalf("gres.conf has no %s:\n%s", tt.line, want["gres.conf"])
				}
				problems := store.plan(t).Current.Plan.Problems
				for _, nodes := range [][]string{names(tt.site)[:1], names(tt.site)} {
					store.change(withLinks(tt.site, unknown, nodes...))
					store.pass(time.Hour)
					set := store.filesAre(t, fmt.Sprintf("%d reports", len(nodes)), want)
					if held := set.Annotations[plandoc.AnnotationHeldReason]; held != "" {
						t.Errorf("held: %s", held)
					}
					if diff := cmp.Diff(problems, store.plan(t).Current.Plan.Problems); diff != "" {
						t.Errorf("problems (-want +got):\n%s", diff)
					}
				}
			})
		})
	}
}

// TestFirstPlaces publishes the first tree of a site that had gres.conf alone when its nodes are
// labelled: a node that a tree lacks runs no job with others. People can go back.
func TestFirstPlaces(t *testing.T) {
	store := newMemory(hgxSite(t, 0))
	inBubble(t, store, complete(t, Publication{SettleTime: publication.Default().SettleTime}), func() {
		store.pass(time.Hour)
		set := store.filesAre(t, "no label", map[string]string{"gres.conf": hgxGres})
		for labelled := 1; labelled < 8; labelled++ {
			store.change(hgxSite(t, labelled))
			store.pass(30 * time.Second)
			if topologyOf(store) != "" {
				t.Fatalf("a tree of %d nodes", labelled)
			}
		}
		store.change(hgxSite(t, 8))
		store.pass(2 * time.Minute)
		if text := topologyOf(store); !strings.Contains(text, "nodes: h[01-04]\n") || !strings.Contains(text, "nodes: h[05-06],n[01-02]\n") {
			t.Fatalf("topology.yaml:\n%s", text)
		}
		// Labels that are lost again move nothing.
		store.change(hgxSite(t, 0))
		store.pass(time.Hour)
		if text := topologyOf(store); !strings.Contains(text, "nodes: h[01-04]\n") || store.plan(t).Held != nil {
			t.Fatalf("held %v, topology.yaml:\n%s", store.plan(t).Held, text)
		}
		store.change(hgxSite(t, 8))
		set = store.get("slurm/quoin-slurm")
		store.edit(func() { set.Annotations[plandoc.AnnotationRollback] = "1" })
		store.pass(time.Hour)
		set = store.get("slurm/quoin-slurm")
		if store.filesAre(t, "rolled back", map[string]string{"gres.conf": hgxGres}); !strings.HasPrefix(set.Annotations[plandoc.AnnotationHeldReason], "RolledBack: ") {
			t.Errorf("held %q", set.Annotations[plandoc.AnnotationHeldReason])
		}
	})
}

// TestSeedBecomesFlat replaces Quoin's own seed when reports say that NVLink ends in the machines, and
// not before: slurmctld has started with the file.
func TestSeedBecomesFlat(t *testing.T) {
	silent := hgxSite(t, 0)
	silent.Reports = nil
	for i := range silent.Nodes {
		silent.Nodes[i].Labels = map[string]string{nodelabels.Count: "8"}
	}
	store := newMemory(silent)
	pub := Publication{SettleTime: publication.Default().SettleTime}
	inBubbleWith(t, store, complete(t, pub), withSeed, func(*Publisher) {
		store.pass(time.Hour)
		set := store.get("slurm/quoin-slurm")
		seedIs(t, set, seedBlock, detect)
		if held := set.Annotations[plandoc.AnnotationHeldReason]; !strings.HasPrefix(held, "NothingToPublish: ") {
			t.Errorf("held %q", held)
		}
		store.change(hgxSite(t, 0))
		store.pass(2 * time.Minute)
		set = store.filesAre(t, "reported", map[string]string{"topology.yaml": flatFile, "gres.conf": hgxGres})
		if set.Annotations[plandoc.AnnotationHeldReason] != "" || set.Annotations[plandoc.AnnotationSeed] != "" || set.Annotations[plandoc.AnnotationRevision] != "1" {
			t.Errorf("annotations %v", set.Annotations)
		}
		store.rests(t, time.Hour)
		store.change(silent) // what is not known now removes nothing
		store.pass(time.Hour)
		if store.filesAre(t, "silent again", map[string]string{"topology.yaml": flatFile, "gres.conf": hgxGres}); store.plan(t).Held != nil {
			t.Errorf("held %v", store.plan(t).Held)
		}
		store.change(hgxSite(t, 8))
		store.pass(10 * time.Minute)
		if text := topologyOf(store); !strings.HasPrefix(text[strings.Index(text, "---"):], "---\n- topology: fabric\n  cluster_default: true\n") || !strings.HasSuffix(text, "- topology: flat\n  cluster_default: false\n  flat: true\n") {
			t.Errorf("a partition may name flat:\n%s", text)
		}
	})
}
