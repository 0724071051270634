package publisher

import (
	"bytes"
	"log/slog"
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
	"github.com/quoin-hpc/quoin/test/rig/slurmrig"
	"github.com/quoin-hpc/quoin/topology"
)

// withSeed lets a publisher write a seed.
func withSeed(p *Publisher) { p.options.Seed = true }

// seedIs compares what is published with a seed, without the comment at the top.
func seedIs(t *testing.T, set *plandoc.Published, topology, gres string) {
	t.Helper()
	if diff := cmp.Diff(map[string]string{"topology.yaml": topology, "gres.conf": gres}, textOf(set.Files)); diff != "" {
		t.Errorf("seed (-want +got):\n%s", diff)
	}
}

const (
	seedBlock = "---\n- topology: nvl\n  cluster_default: true\n  block:\n    block_sizes: [2]\n    blocks:\n      - block: seed\n"
	seedTree  = "---\n- topology: fabric\n  cluster_default: true\n  tree:\n    switches:\n      - switch: seed\n"
	seedGPUs  = "Name=gpu Type=gb200 File=/dev/nvidia[0-3] Flags=nvidia_gpu_env\n"
	detect    = "AutoDetect=nvidia\n"
)

// TestSeedBreaksDeadlock starts a site whose worker pods name the nodes and wait for
// slurmctld, which waits for the files. When the pods run, nothing of the seed stays.
func TestSeedBreaksDeadlock(t *testing.T) {
	whole := racks(t)
	store := newMemory(&inputs.Snapshot{})
	inBubbleWith(t, store, complete(t, Publication{SlurmNames: "slinky:a"}), withSeed, func(*Publisher) {
		store.pass(0)
		seedIs(t, store.get("slurm/quoin-slurm"), seedBlock, detect) // nobody has reported yet
		store.change(whole)
		store.pass(time.Minute)
		seedIs(t, store.get("slurm/quoin-slurm"), seedBlock, detect)
		store.rests(t, time.Hour)
		store.change(podsOn(72).on(t))
		store.pass(10 * time.Minute)
		set := store.get("slurm/quoin-slurm")
		if strings.Contains(set.Files["topology.yaml"], "seed") || set.Annotations[plandoc.AnnotationSeed] != "" || set.Annotations[plandoc.AnnotationRevision] != "1" {
			t.Errorf("of the seed there is still something: %v\n%s", set.Annotations, set.Files["topology.yaml"])
		}
	})
}

// TestSeedOfSecondPublication has a publication beside one whose Nodes have annotations. Both select
// all Nodes, and worker pods choose among them.
func TestSeedOfSecondPublication(t *testing.T) {
	p := podsOn(36)
	snap := p.on(t)
	store, log := newMemory(snap), &bytes.Buffer{}
	a, b := Publication{Name: "a", ConfigMap: "a", Nodes: Selection{Slinky: "a"}}, Publication{Name: "b", ConfigMap: "b", Nodes: Selection{Slinky: "b"}}
	inBubble(t, store, complete(t, a), func() { store.pass(10 * time.Minute) })
	if len(store.notes) != 36 {
		t.Fatalf("%d Nodes are annotated, want 36", len(store.notes))
	}
	prepare := func(p *Publisher) {
		withSeed(p)
		p.log = slog.New(slog.NewTextHandler(log, nil))
	}
	inBubbleWith(t, store, complete(t, a, b), prepare, func(*Publisher) {
		store.pass(time.Minute)
		seedIs(t, store.get("slurm/b"), seedBlock, detect)
		store.edit(func() {
			delete(store.published, "slurm/b")
			delete(store.plans, "b")
			store.notes["gb200-050"] = "nvl:b1" // nobody's
		})
		store.pass(time.Hour)
		if set := store.get("slurm/b"); set != nil && len(set.Files) > 0 {
			t.Errorf("a seed beside a Node with a place: %v", set.Files)
		}
	})
	if text := log.String(); strings.Count(text, "files without nodes are not written first") != 1 || !strings.Contains(text, "publication=b why=\"Node gb200-050 has the annotation ") {
		t.Errorf("want one line that says why there is no seed:\n%s", text)
	}
}

func TestSeed(t *testing.T) {
	reports := racks(t)
	mixed := sites.Open(t, "mixed")
	onlyTiers := &inputs.Snapshot{Nodes: []inputs.Node{{Name: "n1", Labels: map[string]string{"topology.kubernetes.io/zone": "z", "network.topology.nvidia.com/leaf": "s1", "network.topology.nvidia.com/spine": "s2"}}}}
	annotated := &inputs.Snapshot{Nodes: []inputs.Node{{Name: "n1", Annotations: map[string]string{plandoc.SpecAnnotation: "nvl:b1"}}}}
	others := &inputs.Snapshot{Nodes: []inputs.Node{{Name: "n2", Annotations: map[string]string{plandoc.SpecAnnotation: "nvl:b1"}}}}
	mig := &inputs.Snapshot{Nodes: []inputs.Node{{Name: "n1", Labels: map[string]string{"nvidia.com/gpu.count": "56", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"}}}}
	part := racks(t)
	for _, report := range part.Reports {
		for i := range report.GPUs {
			report.GPUs[i].CPUAffinity = "0-1"
		}
	}
	named := &inputs.Snapshot{Whole: true, Reports: part.Reports, Nodes: slices.Clone(part.Nodes)}
	named.Nodes[0].Workers = []inputs.Worker{{Namespace: "slurm", Cluster: "a", NodeSet: "gb", Pod: "gb-0", Node: named.Nodes[0].Name, Hostname: "gb-0"}}
	named.Nodes = append(named.Nodes, inputs.Node{Name: "cpu", Workers: []inputs.Worker{{Namespace: "slurm", Cluster: "a", NodeSet: "cpu", Pod: "cpu-0", Node: "cpu", Hostname: "cpu-0"}}})
	ownType := Publication{Gres: Gres{Types: publication.Pairs[string]{"NVIDIA GB200": "big"}}}
	adapters := &inputs.Snapshot{Nodes: []inputs.Node{{Name: "n1"}}, Reports: map[string]*topology.Node{"n1": {Name: "n1", Adapters: []topology.Adapter{{}}}}}
	conf := map[string]string{"topology.conf": "BlockName=seed\nBlockSizes=2\n"}
	ownSeed := &plandoc.Published{Files: conf, Annotations: map[string]string{plandoc.AnnotationSeed: plandoc.Digest(conf)}}
	theirs := &plandoc.Published{Files: map[string]string{"topology.yaml": "---\n- topology: nvl\n"}, Annotations: map[string]string{}}
	for _, tt := range []struct {
		name string
		pub  Publication
		snap *inputs.Snapshot
		now  *plandoc.Published
		want map[string]string // nil: what is there stays
		why  string
	}{
		{"nothing is known", Publication{}, &inputs.Snapshot{}, nil, map[string]string{"topology.yaml": seedBlock, "gres.conf": detect}, ""},
		{"an empty ConfigMap", Publication{}, &inputs.Snapshot{}, &plandoc.Published{}, map[string]string{"topology.yaml": seedBlock, "gres.conf": detect}, ""},
		{"a site's own file beside it", Publication{}, &inputs.Snapshot{}, &plandoc.Published{Files: map[string]string{"cgroup.conf": "x"}}, map[string]string{"topology.yaml": seedBlock, "gres.conf": detect, "cgroup.conf": "x"}, ""},
		{"files of somebody else", Publication{}, reports, theirs, nil, "slurm/quoin-slurm has files that Quoin did not write"},
		{"a Node has a place in files that are gone", Publication{}, annotated, nil, nil, "Node n1 has the annotation topology.slinky.slurm.net/spec=nvl:b1, and is in no stored plan of another publication: "},
		{"a Node has its place of another publication", Publication{}, others, nil, map[string]string{"topology.yaml": seedBlock, "gres.conf": detect}, ""},
		{"a Node that is not selected has a place", Publication{Nodes: Selection{Selector: "pool=hgx"}}, annotated, nil, map[string]string{"topology.yaml": seedBlock, "gres.conf": detect}, ""},
		{"no pod has chosen a Node with a place", Publication{Nodes: Selection{Slinky: "a"}}, annotated, nil, nil, "Node n1 has the annotation "},
		{"all have the same GPUs", Publication{}, reports, nil, map[string]string{"topology.yaml": seedBlock, "gres.conf": detect}, ""},
		{"all have the same GPUs, of a Type that slurmd does not find", ownType, reports, nil, map[string]string{"topology.yaml": seedBlock, "gres.conf": strings.Replace(seedGPUs, "gb200", "big", 1)}, ""},
		{"all have the same GPUs next to a part of a socket", Publication{}, part, nil, map[string]string{"topology.yaml": seedBlock, "gres.conf": seedGPUs}, ""},
		{"worker pods name nodes with GPUs next to a part of a socket, and one without GPUs", Publication{SlurmNames: "slinky"}, named, nil, map[string]string{"topology.yaml": seedBlock,
			"gres.conf": detect + "NodeName=gb-[0-63] " + strings.TrimSpace(seedGPUs) + " AutoDetect=off\n"}, ""},
		{"all have MIG by their labels", Publication{}, mig, nil, map[string]string{"topology.yaml": seedBlock}, ""},
		{"slurmd is not to detect them", Publication{Gres: Gres{AutoDetect: "off"}}, reports, nil, map[string]string{"topology.yaml": seedBlock, "gres.conf": seedGPUs}, ""},
		{"GPUs differ", Publication{}, snapshotOf(mixed), nil, map[string]string{"topology.yaml": seedBlock, "gres.conf": detect}, ""},
		{"switches and no domain", Publication{}, onlyTiers, nil, map[string]string{"topology.yaml": seedTree, "gres.conf": detect}, ""},
		{"cables will be read", Publication{FabricFiles: []string{fabricPath}}, adapters, nil, map[string]string{"topology.yaml": seedTree, "gres.conf": detect}, ""},
		{"cables will be read, and no report has an adapter", Publication{FabricFiles: []string{fabricPath}}, &inputs.Snapshot{}, nil, map[string]string{"topology.yaml": seedBlock, "gres.conf": detect}, ""},
		{"no cables are read", Publication{}, adapters, nil, map[string]string{"topology.yaml": seedBlock, "gres.conf": detect}, ""},
		{"its own seed in the other file", Publication{}, &inputs.Snapshot{}, ownSeed, map[string]string{"topology.yaml": seedBlock, "gres.conf": detect}, ""},
		{"a tree is wanted", Publication{Topology: "tree"}, reports, nil, map[string]string{"topology.yaml": seedTree, "gres.conf": detect}, ""},
		{"a base block size", Publication{BaseBlockSize: 18}, reports, nil, map[string]string{"topology.yaml": strings.Replace(seedBlock, "[2]", "[18]", 1), "gres.conf": detect}, ""},
		{"a release without dynamic topology", Publication{SlurmVersion: "24.11"}, reports, nil, nil, "Slurm 24.11 takes no block without nodes"},
		{"topology.conf", Publication{Format: "conf"}, reports, nil, map[string]string{"topology.conf": "BlockName=seed\nBlockSizes=2\n", "gres.conf": detect}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			set, why, err := seedSet(complete(t, tt.pub)[0], tt.snap, tt.now, map[string]bool{"n2": true})
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(why, tt.why) || (why == "") != (tt.why == "") {
				t.Errorf("no seed because %q, want %q", why, tt.why)
			}
			if tt.want == nil {
				if set != nil {
					t.Errorf("overwritten: %v", set.Files)
				}
				return
			}
			if diff := cmp.Diff(tt.want, textOf(set.Files)); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
			if again, _, err := seedSet(complete(t, tt.pub)[0], tt.snap, set, map[string]bool{"n2": true}); again != nil || err != nil {
				t.Errorf("written again: %v, %v", again, err)
			}
		})
	}
}

// TestRealSeed starts slurmctld with each kind of seed.
func TestRealSeed(t *testing.T) {
	t.Parallel()
	c := slurmrig.NewCheckerTest(t, slurmrig.Slurm2605)
	for _, format := range []string{"yaml", "conf"} {
		for _, kind := range []string{"block", "tree"} {
			t.Run(kind+" "+format, func(t *testing.T) {
				set, _, err := seedSet(complete(t, Publication{Format: format, Topology: kind})[0], racks(t), nil, nil)
				if err != nil {
					t.Fatal(err)
				}
				files := maps.Clone(set.Files)
				files["slurm.conf"] = "MaxNodeCount=10\nGresTypes=gpu\nPartitionName=main Nodes=ALL\nTopologyPlugin=topology/" + kind + "\n"
				if fatal, lines, err := c.Check(t.Context(), files); err != nil || fatal {
					t.Errorf("fatal %t, %v: %s", fatal, err, strings.Join(lines, "\n"))
				}
			})
		}
	}
}
