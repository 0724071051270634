package inputs

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestPodFates takes worker pods away from four that there were, g0 to g3 of NodeSet gpu.
func TestPodFates(t *testing.T) {
	gpu := func(replicas int) NodeSet { return NodeSet{Namespace: "slurm", Name: "gpu", Replicas: replicas} }
	for _, tt := range []struct {
		name string
		sets []NodeSet
		// pods are the pods that exist.
		pods    []string
		waits   string // the pod of this name is not scheduled
		ending  bool   // the pods are being deleted
		others  bool   // there are pods of another NodeSet, and of one of that name elsewhere
		foreign bool   // the pods on Nodes are of another Slurm cluster
		part    bool   // the snapshot is not whole
		// unknown says that nobody knows the NodeSet of the pods that are gone.
		unknown bool
		// names are the names without a Node, and all that are not in pods if it is empty.
		names string
		// want has the fates of the names: t(here), w(anted), g(iven up) or ?.
		want string
	}{
		{name: "all there", sets: []NodeSet{gpu(4)}, pods: []string{"g0", "g1", "g2", "g3"}},
		{name: "no Node has a name whose pod is there", sets: []NodeSet{gpu(4)}, pods: []string{"g0", "g1", "g2", "g3"}, names: "g1", want: "t"},
		{name: "made again", sets: []NodeSet{gpu(4)}, pods: []string{"g0", "g2", "g3"}, want: "w"},
		{name: "waits to be scheduled", sets: []NodeSet{gpu(4)}, pods: []string{"g0", "g2", "g3"}, waits: "g1", want: "t"},
		{name: "scaled in", sets: []NodeSet{gpu(2)}, pods: []string{"g0", "g2"}, want: "gg"},
		{name: "scaled in, and not all pods have gone yet", sets: []NodeSet{gpu(1)}, pods: []string{"g0", "g2"}, want: "gg"},
		{name: "scaled in to nothing", sets: []NodeSet{gpu(0)}, want: "gggg"},
		{name: "a pod that ends is not made again yet", sets: []NodeSet{gpu(2)}, pods: []string{"g0", "g2"}, ending: true, want: "gg"},
		{name: "scaled in, and one is made again", sets: []NodeSet{gpu(2)}, pods: []string{"g0"}, want: "wgg"},
		{name: "scaled in, and the one that was missed last is made again", sets: []NodeSet{gpu(2)}, pods: []string{"g0"}, names: "g3 g1 g2", want: "wgg"},
		{name: "scaled out", sets: []NodeSet{gpu(9)}, pods: []string{"g0", "g2"}, want: "ww"},
		{name: "pods of others", sets: []NodeSet{gpu(3)}, pods: []string{"g0", "g2"}, others: true, want: "wg"},
		{name: "another NodeSet wants many", sets: []NodeSet{gpu(2), {Namespace: "slurm", Name: "bad", Replicas: 1 << 31}}, pods: []string{"g0", "g2"}, want: "gg"},
		{name: "a NodeSet of that name elsewhere", sets: []NodeSet{{Namespace: "other", Name: "gpu", Replicas: 0}, gpu(4)}, pods: []string{"g0", "g2"}, want: "ww"},
		{name: "no number", sets: []NodeSet{{Namespace: "slurm", Name: "gpu", PerNode: true}}, pods: []string{"g0", "g2"}, want: "gg"},
		{name: "the NodeSet is gone", sets: []NodeSet{{Namespace: "slurm", Name: "x"}}, pods: []string{"g0", "g2"}, want: "gg"},
		{name: "the NodeSet is not known", sets: []NodeSet{gpu(4)}, pods: []string{"g0", "g2"}, unknown: true, want: "gg"},
		{name: "no NodeSet is known", pods: []string{"g0", "g2"}, want: "gg"},
		{name: "no NodeSet is known, and no pod", want: "????"},
		{name: "only pods of another cluster are known", pods: []string{"g2"}, foreign: true, want: "???"},
		{name: "another cluster has a pod of the name", pods: []string{"g1"}, waits: "g2", foreign: true, names: "g1", want: "g"},
		{name: "a store that cannot tell", sets: []NodeSet{gpu(2)}, pods: []string{"g0", "g2"}, part: true, want: "??"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			snap := &Snapshot{Whole: !tt.part, NodeSets: tt.sets}
			cluster := map[bool]string{false: "a", true: "b"}[tt.foreign]
			var workers []Worker
			for i := range 4 {
				name := fmt.Sprintf("g%d", i)
				snap.Nodes = append(snap.Nodes, Node{Name: "n" + name})
				if slices.Contains(tt.pods, name) {
					workers = append(workers, Worker{Namespace: "slurm", NodeSet: "gpu", Cluster: cluster, Pod: name, Node: "n" + name, Hostname: name, Ending: tt.ending})
				}
			}
			if tt.waits != "" {
				workers = append(workers, Worker{Namespace: "slurm", NodeSet: "gpu", Cluster: "a", Pod: tt.waits, Hostname: tt.waits})
			}
			if tt.others {
				workers = append(workers, Worker{Namespace: "slurm", NodeSet: "x", Cluster: "a", Pod: "x", Hostname: "x"}, Worker{Namespace: "other", NodeSet: "gpu", Cluster: "a", Pod: "y", Hostname: "y"})
			}
			snap.AddWorkers(workers)
			r := rules(t, Config{SlurmNames: "slinky:slurm/a"})
			names := strings.Fields(tt.names)
			for i := range snap.Nodes {
				n := &snap.Nodes[i]
				name := n.Name[1:]
				if got, there := r.OwnerOf(n, name), slices.Contains(tt.pods, name) && !tt.foreign; there != (got == Owner{"slurm", "gpu"}) {
					t.Errorf("%s is of %v", name, got)
				}
				if tt.names == "" && !slices.Contains(tt.pods, name) {
					names = append(names, name)
				}
			}
			fate, owner := r.PodFates(snap), Owner{"slurm", "gpu"}
			if tt.unknown {
				owner = Owner{}
			}
			got := ""
			for _, name := range names {
				got += map[PodFate]string{PodUnknown: "?", PodThere: "t", PodWanted: "w", PodGivenUp: "g"}[fate(name, owner, !tt.unknown)]
			}
			if got != tt.want {
				t.Errorf("%v are %q, want %q", names, got, tt.want)
			}
		})
	}
}

// TestPodFatesOfBridge has names that slurm-bridge's labels gave, or labels alone.
func TestPodFatesOfBridge(t *testing.T) {
	snap := &Snapshot{Whole: true, Nodes: []Node{{Name: "n1", Workers: []Worker{{Namespace: "slurm", Cluster: "a", Pod: "g1", Hostname: "g1"}}}}}
	r := rules(t, Config{SlurmNames: "slinky:slurm/a"})
	if fate := r.PodFates(snap)("x", Owner{}, true); fate != PodUnknown {
		t.Errorf("no pod gave the name, and its fate is %v", fate)
	}
	own := rules(t, Config{SlurmNames: "short"})
	if fate := own.PodFates(snap)("x", Owner{}, false); fate != PodUnknown {
		t.Errorf("pods give no names, and the fate is %v", fate)
	}
}

func TestNextNames(t *testing.T) {
	for name, tt := range map[string]struct {
		used        []string
		first, last string
		count       int
	}{
		"one":                       {[]string{"gpu-0"}, "gpu-0", "gpu-63", 64},
		"below a power of two":      {[]string{"gpu-62"}, "gpu-0", "gpu-63", 64},
		"a power of two":            {[]string{"gpu-63"}, "gpu-0", "gpu-127", 128},
		"another is below":          {[]string{"gpu-100", "gpu-0"}, "gpu-0", "gpu-127", 128},
		"padded":                    {[]string{"gpu-009", "gpu-010"}, "gpu-000", "gpu-063", 64},
		"no dash":                   {[]string{"n7"}, "n0", "n63", 64},
		"names differ":              {[]string{"gpu-0", "cpu-1"}, "", "", 0},
		"no numbers":                {[]string{"gpu-a"}, "", "", 0},
		"a number that is no pod's": {[]string{"gpu-20261128"}, "", "", 0},
		"none":                      {nil, "", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			got := nextNames(tt.used)
			if len(got) != tt.count || tt.count > 0 && (got[0] != tt.first || got[tt.count-1] != tt.last) {
				t.Errorf("%d names %v, want %d from %s to %s", len(got), got, tt.count, tt.first, tt.last)
			}
		})
	}
}

func TestIsCounted(t *testing.T) {
	names := []string{"gpu-0", "gpu-12", "pad-000", "pad-012", "ip-10-0-1-23"}
	for name, want := range map[string]bool{"gpu-0": true, "gpu-12": true, "pad-012": true, "ip-10-0-1-23": false, "cpu-1": false, "gpu-": false, "": false} {
		if got := IsCounted(name, func(name string) bool { return slices.Contains(names, name) }); got != want {
			t.Errorf("%q is counted: %t", name, got)
		}
	}
}
