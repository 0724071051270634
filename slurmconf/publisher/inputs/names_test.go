package inputs

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/topology/nodelabels"
)

// rules compiles a configuration that has nothing wrong.
func rules(t testing.TB, c Config) *Rules {
	t.Helper()
	r := NewRules(c, func(key, message string) { t.Fatalf("%s: %s", key, message) })
	return &r
}

func TestGatherNames(t *testing.T) {
	long := strings.Repeat("n", 65)
	for _, tt := range []struct{ names, node, value, want, reason string }{
		{"short", "n1.example.com", "", "n1", ""},
		{"short", "10.140.71.100", "", "10.140.71.100", ""},
		{"full", "n1.example.com", "", "n1.example.com", ""},
		{"full", long, "", "", ReasonNoSlurmName},
		{"short", "default", "", "", ReasonNoSlurmName},
		{"short", "n1234567890123456789", "", "", ReasonNoSlurmName},
		{"short", ".n1", "", "", ReasonNoSlurmName},
		{"annotation:sn", "n1", "x_1", "x_1", ""},
		{"annotation:sn", "n1", "", "", ReasonNoSlurmName},
		{"label:sn", "n1", "", "", ReasonNoSlurmName},
		{"label:sn", "n1", "x-1", "x-1", ""},
		{"annotation:sn", "n1", "x[1-5],n2", "", ReasonNoSlurmName},
		{"annotation:sn", "n1", "x1,x2", "", ReasonNoSlurmName},
		{"annotation:sn", "n1", "a b", "", ReasonNoSlurmName},
		{"annotation:sn", "n1", "k#1", "", ReasonNoSlurmName},
		{"annotation:sn", "n1", "a\nb", "", ReasonNoSlurmName},
		{"annotation:sn", "n1", "a{b}", "", ReasonNoSlurmName},
		{"annotation:sn", "n1", "Default", "", ReasonNoSlurmName},
		{"annotation:sn", "n1", strings.Repeat("x", 300), "", ReasonNoSlurmName},
	} {
		t.Run(tt.names+" "+tt.node+" "+tt.value, func(t *testing.T) {
			r := rules(t, Config{SlurmNames: tt.names, Namespace: "slurm"})
			values := map[string]string{"sn": tt.value}
			g := r.Gather(&Snapshot{Nodes: []Node{{Name: tt.node, Labels: values, Annotations: values}}})
			if tt.reason == "" {
				if len(g.Unnamed) > 0 || len(g.Facts) != 1 || g.Facts[0].SlurmName != tt.want {
					t.Errorf("facts %+v, without a name %v: want %s", g.Facts, g.Unnamed, tt.want)
				}
				return
			}
			if len(g.Facts) > 0 || len(g.Unnamed) != 1 || g.Unnamed[0].Node != tt.node || g.Unnamed[0].Reason != tt.reason ||
				!strings.Contains(g.Unnamed[0].Message, fmt.Sprintf("%q", tt.value[:min(10, len(tt.value))])[:1]) && tt.value != "" {
				t.Errorf("facts %+v, without a name %v: want %s of %s with the value", g.Facts, g.Unnamed, tt.reason, tt.node)
			}
		})
	}
}

func TestWorkerNames(t *testing.T) {
	label := func(kv ...string) map[string]string {
		out := map[string]string{}
		for i := 0; i < len(kv); i += 2 {
			out[kv[i]] = kv[i+1]
		}
		return out
	}
	for _, tt := range []struct {
		name     string
		pod      Pod
		override string
		want     string
	}{
		{"the label", Pod{Name: "gpu-0", Hostname: "h", Labels: label(labelPodHostname, "gpu-000")}, "", "gpu-000"},
		{"the label, on the host's network", Pod{Name: "gpu-0", HostNetwork: true, Labels: label(labelPodHostname, "gpu-000")}, "", "gpu-000"},
		{"the label before the override", Pod{Labels: label(labelPodHostname, "was", labelScalingMode, "DaemonSet")}, "will-be", "was"},
		{"hostname", Pod{Name: "gpu-0", Hostname: "h"}, "", "h"},
		{"name", Pod{Name: "gpu-0"}, "", "gpu-0"},
		{"on the host's network", Pod{Name: "gpu-0", Hostname: "h", HostNetwork: true}, "", "n1.example.com"},
		{"one for each node", Pod{Name: "gpu-x7k2p", Labels: label(labelScalingMode, "DaemonSet")}, "", "n1"},
		{"one for each node, in lower case", Pod{Name: "gpu-x7k2p", Labels: label(labelScalingMode, "daemonset")}, "", "n1"},
		{"one for each node, on the host's network", Pod{Name: "gpu-x7k2p", HostNetwork: true, Labels: label(labelScalingMode, "DaemonSet")}, "", "n1"},
		{"one for each node, called otherwise", Pod{Name: "gpu-x7k2p", Labels: label(labelScalingMode, "DaemonSet")}, "rack1-1", "rack1-1"},
	} {
		n := Node{Name: "n1.example.com", Annotations: map[string]string{annotationHostname: tt.override}}
		tt.pod.Node = n.Name
		w := tt.pod.Worker()
		if got := w.nameOn(&n); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestSlinkyNames(t *testing.T) {
	of := func(cluster, hostname string) Worker {
		ns, controller, _ := strings.Cut(cluster, "/")
		return Worker{Namespace: ns, Cluster: controller, Pod: hostname, Hostname: hostname}
	}
	ending := of("slurm/a", "old")
	ending.Ending = true
	bridge := map[string]string{labelSlurmNodeName: "bridged"}
	external := map[string]string{labelExternalNode: ""}
	for _, tt := range []struct {
		name, names  string
		labels       map[string]string
		workers      []Worker
		want, reason string
	}{
		{"a pod", "slinky", nil, []Worker{of("slurm/a", "g1")}, "g1", ""},
		{"a pod of the cluster", "slinky:a", nil, []Worker{of("slurm/a", "g1")}, "g1", ""},
		{"a pod of another cluster", "slinky:b", nil, []Worker{of("slurm/a", "g1")}, "", ReasonNoWorkerPod},
		{"a pod of another namespace", "slinky:a", nil, []Worker{of("hpc/a", "g1")}, "", ReasonNoWorkerPod},
		{"a pod of that namespace", "slinky:hpc/a", nil, []Worker{of("hpc/a", "g1")}, "g1", ""},
		{"no pod", "slinky", nil, nil, "", ReasonNoWorkerPod},
		{"one that ends and one that is there", "slinky", nil, []Worker{ending, of("slurm/a", "g1")}, "g1", ""},
		{"one that ends", "slinky", nil, []Worker{ending}, "old", ""},
		{"two of one name", "slinky", nil, []Worker{of("slurm/a", "g1"), of("slurm/a", "g1")}, "g1", ""},
		{"two", "slinky", nil, []Worker{of("slurm/a", "g1"), of("slurm/a", "g2")}, "g1 g2", ""},
		{"two, of two clusters", "slinky:b", nil, []Worker{of("slurm/a", "g1"), of("slurm/b", "g2")}, "g2", ""},
		{"two, of two clusters, and none is named", "slinky", nil, []Worker{of("slurm/a", "g1"), of("slurm/b", "g1")}, "", ReasonTwoSlurmClusters},
		{"slurm-bridge", "slinky", bridge, nil, "bridged", ""},
		{"slurm-bridge beside a pod", "slinky", bridge, []Worker{of("slurm/a", "g1")}, "g1", ""},
		{"slurm-bridge beside another cluster's pod", "slinky:b", bridge, []Worker{of("slurm/a", "g1")}, "", ReasonNoWorkerPod},
		{"slurm-bridge's external node", "slinky", external, nil, "n1.example.com", ""},
		{"no Slurm name", "slinky", nil, []Worker{of("slurm/a", "default")}, "", ReasonNoSlurmName},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := rules(t, Config{SlurmNames: tt.names, Namespace: "slurm"})
			g := r.Gather(&Snapshot{Nodes: []Node{{Name: "n1.example.com", Labels: tt.labels, Workers: tt.workers}}})
			switch {
			case tt.reason == "" && (namesIn(&g) != tt.want || len(g.Unnamed) > 0):
				t.Errorf("facts %+v, without a name %v: want %s", g.Facts, g.Unnamed, tt.want)
			case tt.reason != "" && (len(g.Facts) > 0 || len(g.Unnamed) != 1 || g.Unnamed[0].Reason != tt.reason):
				t.Errorf("facts %+v, without a name %v: want %s", g.Facts, g.Unnamed, tt.reason)
			}
		})
	}
}

// TestNoWorkerPodSays names the Slurm cluster whose pod is missing.
func TestNoWorkerPodSays(t *testing.T) {
	for _, tt := range []struct{ names, namespace, want string }{
		{"slinky", "slurm", "no worker pod of a Slurm cluster in namespace slurm runs on it"},
		{"slinky", "", "no worker pod of any Slurm cluster runs on it"},
		{"slinky:a", "slurm", "no worker pod of Slurm cluster slurm/a runs on it"},
		{"slinky:hpc/a", "slurm", "no worker pod of Slurm cluster hpc/a runs on it"},
	} {
		g := rules(t, Config{SlurmNames: tt.names, Namespace: tt.namespace}).Gather(&Snapshot{Nodes: []Node{{Name: "n1"}}})
		if len(g.Unnamed) != 1 || g.Unnamed[0].Message != tt.want {
			t.Errorf("%s in namespace %q: %v, want %s", tt.names, tt.namespace, g.Unnamed, tt.want)
		}
	}
}

// TestNameOfTwoNodes gives a name that two nodes have to neither, and says so of both.
func TestNameOfTwoNodes(t *testing.T) {
	r := rules(t, Config{SlurmNames: "short"})
	g := r.Gather(&Snapshot{Nodes: []Node{{Name: "n1.a"}, {Name: "n1.b"}, {Name: "n2.a"}}})
	if len(g.Facts) != 1 || g.Facts[0].SlurmName != "n2" || len(g.Nodes) != 1 || g.Claimed["n1"] == "" || len(g.Unnamed) != 2 {
		t.Errorf("facts %+v, nodes %v, claimed %v, without a name %v", g.Facts, g.Nodes, g.Claimed, g.Unnamed)
	}
	for _, p := range g.Unnamed {
		if p.Reason != ReasonSlurmNameTaken {
			t.Errorf("%v: want %s", p, ReasonSlurmNameTaken)
		}
	}
}

// hasLabel selects the nodes with a label.
type hasLabel string

func (h hasLabel) Matches(labels map[string]string) bool { return labels[string(h)] != "" }

func (h hasLabel) Keys() []string { return []string{string(h)} }

// TestUnselected names the nodes that the selector does not take.
func TestUnselected(t *testing.T) {
	snap := &Snapshot{Nodes: []Node{{Name: "n1", Labels: map[string]string{"gpu": "x"}}, {Name: "n2"}, {Name: "default"}}}
	for _, tt := range []struct {
		name   string
		config Config
		want   []string
	}{
		{"no selector", Config{SlurmNames: "full"}, nil},
		{"a selector", Config{SlurmNames: "full", Selector: hasLabel("gpu")}, []string{"n2"}},
	} {
		got := slices.Sorted(maps.Keys(rules(t, tt.config).Unselected(snap)))
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestTierLabels takes the word auto alone.
func TestTierLabels(t *testing.T) {
	for _, tt := range []struct {
		tiers []string
		wrong int
	}{{nil, 0}, {[]string{"auto"}, 0}, {[]string{"a", "b"}, 0}, {[]string{"a", "auto"}, 1}, {[]string{"a b"}, 1}} {
		wrong := 0
		NewRules(Config{SlurmNames: "full", Labels: nodelabels.Keys{Tiers: tt.tiers}}, func(string, string) { wrong++ })
		if wrong != tt.wrong {
			t.Errorf("tierLabels %v: %d are wrong, want %d", tt.tiers, wrong, tt.wrong)
		}
	}
}

// TestOwnLabelsAreNoWitness refuses the labels that the publisher writes itself, wherever a label may be
// named, and reads nothing from them.
func TestOwnLabelsAreNoWitness(t *testing.T) {
	for _, label := range plandoc.NodeLabels {
		var got []string
		NewRules(Config{SlurmNames: "label:" + label, Selector: hasLabel(label), Labels: nodelabels.Keys{Domains: []string{"auto", label}, Tiers: []string{"rack", label}}},
			func(key, message string) { got = append(got, key+": "+message) })
		const says = ": Quoin itself writes this label from the plan (labels: true): want another label"
		var want []string
		for _, key := range []string{"domainLabels", "tierLabels", "nodes.selector", "slurmNames"} {
			want = append(want, fmt.Sprintf("%s: %q%s", key, label, says))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", label, got, want)
		}
	}
	own := map[string]string{plandoc.LabelBlock: "nvl-1", plandoc.LabelLeaf: "sw7", plandoc.LabelSpine: "s1", plandoc.LabelClique: "8a61c302-0000-4000-8000-000000000001.1"}
	auto := nodelabels.Keys{Domains: []string{nodelabels.Auto}, Tiers: []string{nodelabels.Auto}}
	if diff := cmp.Diff(nodelabels.Read(map[string]string{}, auto), nodelabels.Read(own, auto)); diff != "" {
		t.Errorf("facts from the publisher's own labels (-none +own):\n%s", diff)
	}
	NewRules(Config{SlurmNames: "full", Selector: hasLabel("quoin.dev/agent")}, func(key, message string) { t.Errorf("%s: %s", key, message) })
}

// TestSlicesOfInstances reads the minor number of a GPU from its instances.
func TestSlicesOfInstances(t *testing.T) {
	of := func(name, uuid string) Device {
		return Device{Name: name, Kind: "mig", UUID: uuid, Parent: "GPU-1", Product: "NVIDIA H100", Profile: "1g.10gb", Minor: 3}
	}
	got := ReadSlices([]*Slice{{Name: "s", Node: "n", Pool: "n", Count: 1, Devices: []Device{of("a", "MIG-1"), of("b", "MIG-2"), of("not there yet", "")}}})["n"]
	if len(got.GPUs) != 1 || got.GPUs[0].Minor == nil || *got.GPUs[0].Minor != 3 || len(got.GPUs[0].MIG) != 2 || len(got.Problems) > 0 {
		t.Errorf("%+v", got)
	}
}

// TestSameSlice compares all that is used of a slice.
func TestSameSlice(t *testing.T) {
	slice := func(change func(*Slice)) *Slice {
		s := &Slice{Name: "s", Node: "n", Pool: "p", Generation: 1, Count: 1, Devices: []Device{{Name: "d"}}}
		change(s)
		return s
	}
	if as := slice(func(*Slice) {}); !as.Same(slice(func(*Slice) {})) {
		t.Error("equal slices differ")
	}
	for name, change := range map[string]func(*Slice){
		"node": func(s *Slice) { s.Node = "x" }, "pool": func(s *Slice) { s.Pool = "x" }, "generation": func(s *Slice) { s.Generation = 2 },
		"count": func(s *Slice) { s.Count = 2 }, "devices": func(s *Slice) { s.Devices = nil },
	} {
		if slice(func(*Slice) {}).Same(slice(change)) {
			t.Errorf("another %s is the same", name)
		}
	}
}

// TestPending has the names of worker pods that wait for a node, of the one cluster and while they live.
func TestPending(t *testing.T) {
	ours := Worker{Namespace: "slurm", Cluster: "a", Hostname: "g1"}
	ending, nameless, other, elsewhere := ours, ours, ours, ours
	ending.Ending, ending.Hostname, nameless.Hostname = true, "g2", ""
	other.Cluster, other.Hostname, elsewhere.Namespace, elsewhere.Hostname = "b", "g3", "hpc", "g4"
	g := rules(t, Config{SlurmNames: "slinky:a", Namespace: "slurm"}).Gather(&Snapshot{Unplaced: []Worker{ours, ending, nameless, other, elsewhere}})
	if len(g.Pending) != 1 || !g.Pending["g1"] {
		t.Errorf("pending %v, want g1", g.Pending)
	}
}

// TestOtherNames holds which keys the messages name if Slurm names clash or Slurm can't have them.
func TestOtherNames(t *testing.T) {
	const keys = "set slurmNames: full, annotation:KEY, such as annotation:nodeset.slinky.slurm.net/hostname-override, or label:KEY"
	for _, tt := range []struct {
		names string
		nodes []string
		want  string
	}{
		{"short", []string{"n.a", "n.b"}, "nodes n.a, n.b have the Slurm name n, by slurmNames: short: " + keys},
		{"short", []string{"default.a"}, keys},
		{"full", []string{"all"}, "set slurmNames: annotation:KEY, such as"},
		{"s/.*/x/", []string{"a", "b"}, keys},
		{"label:sn", []string{"a", "b"}, "correct the label sn"},
		{"annotation:sn", []string{"a", "b"}, "correct the annotation sn"},
		{"slinky", []string{"10.0.0.1", "10.0.0.2"}, "look at the pods of its NodeSet, or annotate the Node with nodeset.slinky.slurm.net/hostname-override"},
	} {
		snap := &Snapshot{}
		for _, name := range tt.nodes {
			same := map[string]string{"sn": "x"}
			snap.Nodes = append(snap.Nodes, Node{Name: name, Labels: same, Annotations: same, Workers: []Worker{{Namespace: "slurm", Cluster: "a", Pod: "p-" + name, Node: name}}})
		}
		g := rules(t, Config{SlurmNames: tt.names, Namespace: "slurm"}).Gather(snap)
		if len(g.Facts) > 0 || len(g.Unnamed) != len(tt.nodes) {
			t.Errorf("%s: facts %v, without a name %v", tt.names, g.Facts, g.Unnamed)
			continue
		}
		if message := g.Unnamed[0].Message; !strings.Contains(message, tt.want) {
			t.Errorf("%s: %q, want %q", tt.names, message, tt.want)
		}
	}
}

// TestOverrideHint holds when an annotation of Slinky with other names is spoken of.
func TestOverrideHint(t *testing.T) {
	node := func(name, override string) Node {
		return Node{Name: name, Annotations: map[string]string{annotationHostname: override}, Labels: map[string]string{"sn": name}}
	}
	const hint = " nodes are called by their own names, and their annotation nodeset.slinky.slurm.net/hostname-override has other names: " +
		"if Slurm has these, give --set publicationDefaults.slurmNames=annotation:nodeset.slinky.slurm.net/hostname-override"
	for _, tt := range []struct {
		name, slurmNames string
		nodes            []Node
		want             string
	}{
		{"addresses as names", "short", []Node{node("10.1.0.13", "gb300-0"), node("10.1.0.15", "gb300-1"), node("10.1.0.20", "")}, "2" + hint},
		{"whole names", "full", []Node{node("a.b", "a")}, "1" + hint},
		{"the same name", "short", []Node{node("a.b", "a")}, ""},
		{"no annotation", "short", []Node{node("a", "")}, ""},
		{"the annotation is taken", "annotation:" + annotationHostname, []Node{node("10.1.0.13", "gb300-0")}, ""},
		{"a label that the site has chosen", "label:sn", []Node{node("a", "b")}, ""},
		{"a pattern that the site has chosen", "s/(.*)/n-$1/", []Node{node("a", "b")}, ""},
		{"worker pods", "slinky", []Node{node("a", "b")}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := rules(t, Config{SlurmNames: tt.slurmNames})
			in := r.Gather(&Snapshot{Nodes: tt.nodes})
			if diff := cmp.Diff(tt.want, r.OverrideHint(&in)); diff != "" {
				t.Errorf("hint (-want +got):\n%s", diff)
			}
		})
	}
}
