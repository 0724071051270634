package publisher

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/gres"
	slurmlint "github.com/quoin-hpc/quoin/slurmconf/lint"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/slurmconf/syntax"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/simulated"
)

// namesNodes reports whether the published topology file names nodes.
func namesNodes(store *memory) bool {
	return strings.Contains(store.get("slurm/quoin-slurm").Files["topology.yaml"], "nodes:")
}

// TestMembershipChanges changes the key on a running site whose nodes are not those of worker pods.
// Nodes leave the file when all of them have their annotations, and people have approved it. No
// annotation ever goes.
func TestMembershipChanges(t *testing.T) {
	store := newMemory(racks(t))
	long := Duration{Duration: 3 * time.Hour}
	for _, step := range []struct {
		name   string
		pub    Publication
		notes  int
		inFile bool
		asks   bool
	}{
		{"file, nobody is annotated yet", Publication{Membership: "file", LoadTimeout: long}, 0, true, false},
		{"annotation, but nobody is annotated yet", Publication{Membership: "annotation", LoadTimeout: long}, 0, true, false},
		{"annotation", Publication{Membership: "annotation"}, 72, false, true},
		{"file again", Publication{Membership: "file"}, 72, true, false},
		{"annotation again", Publication{Membership: "annotation"}, 72, false, true},
	} {
		saves := 0
		inBubble(t, store, complete(t, step.pub), func() {
			store.pass(20 * time.Minute)
			store.change(racks(t))
			store.pass(time.Minute)
			const held = "BigChange: 72 of 72 nodes would leave the topology file, more than 20 %: membership is annotation now, and only nodes that register dynamically (slurmd -Z)"
			if got := store.get("slurm/quoin-slurm").Annotations[plandoc.AnnotationHeldReason]; strings.HasPrefix(got, held) != step.asks || !step.asks && got != "" {
				t.Errorf("%s: held %q", step.name, got)
			}
			if step.asks {
				store.approve()
			}
			for range 2 { // annotations were written in the first, which the store does not tell
				store.pass(20 * time.Minute)
				saves = store.saves
				store.change(racks(t))
				store.pass(20 * time.Minute)
			}
		})
		got := store.get("slurm/quoin-slurm")
		if len(store.notes) != step.notes || namesNodes(store) != step.inFile || store.saves != saves || got.Annotations[plandoc.AnnotationHeldReason] != "" {
			t.Errorf("%s: %d annotations, nodes in the file %v, %d writes at rest, held %q", step.name, len(store.notes), namesNodes(store), store.saves-saves, got.Annotations[plandoc.AnnotationHeldReason])
		}
		if !strings.Contains(topologyOf(store), "nodes: gb200-[001-018]\n") {
			t.Errorf("%s: the plan has not all nodes:\n%s", step.name, topologyOf(store))
		}
	}
}

// TestMembershipWaits has a published node without an annotation.
func TestMembershipWaits(t *testing.T) {
	pub := complete(t, Publication{Membership: "annotation"})[0]
	made := func(prev Previous, notYet ...string) (inFile bool, problems []topology.Finding) {
		t.Helper()
		snap := racks(t)
		for i := range snap.Nodes {
			if n := &snap.Nodes[i]; !slices.Contains(notYet, n.Name) {
				n.Annotations = map[string]string{plandoc.SpecAnnotation: "some:where"}
			}
		}
		m := makeFiles(t, pub, pub.Rules.Gather(snap), prev)
		return strings.Contains(m.Files["topology.yaml"], "nodes:"), m.FilePlan.Problems
	}
	file := makeOf(t, complete(t, Publication{Gres: Gres{AutoDetect: "nvidia"}})[0], pub.Rules.Gather(racksWithout(t, 1)), Previous{})
	inFile := previousOf(t, pub, file.Files)
	want := []topology.Finding{{Reason: ReasonMembershipWaits, Message: "all nodes stay in the topology file until these nodes of it have an annotation: gb200-[002,072]"}}
	if named, problems := made(inFile, "gb200-001", "gb200-002", "gb200-072"); !named || !cmp.Equal(problems, want) {
		t.Errorf("nodes in the file %v, problems %v", named, problems)
	}
	if named, problems := made(inFile, "gb200-001"); named || len(problems) > 0 {
		t.Errorf("only a new node waits: nodes in the file %v, problems %v", named, problems)
	}
	inFile.stored.ByAnnotation = true
	if named, problems := made(inFile, "gb200-002"); named || len(problems) > 0 {
		t.Errorf("no node was in the file: nodes in the file %v, problems %v", named, problems)
	}
}

// TestPlanLostByAnnotation loses the stored plan, the reports and the labels. The nodes stay
// where their annotations say.
func TestPlanLostByAnnotation(t *testing.T) {
	store := newMemory(racks(t))
	pubs := complete(t, Publication{Membership: "annotation"})
	inBubble(t, store, pubs, func() { store.pass(20 * time.Minute) })
	notes, whole, files := maps.Clone(store.notes), topologyOf(store), store.get("slurm/quoin-slurm").Files["topology.yaml"]
	clear(store.plans)
	for i := range store.snap.Nodes {
		store.snap.Nodes[i].Labels = nil
	}
	clear(store.snap.Reports)
	inBubble(t, store, pubs, func() { store.pass(20 * time.Minute) })
	if diff := cmp.Diff(notes, store.notes); diff != "" || len(notes) != 72 {
		t.Errorf("annotations (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(whole, topologyOf(store)); diff != "" || store.get("slurm/quoin-slurm").Files["topology.yaml"] != files {
		t.Errorf("plan (-before +after):\n%s", diff)
	}
}

// nodeSets is a Slurm of Slinky's with so many nodes of the NodeSets a (two A100 next to a part of a socket), h (four
// H100) and cpu. The last node of each has a report if all are ready.
func nodeSets(counts map[string]int, ready bool) *inputs.Snapshot {
	snap := &inputs.Snapshot{Whole: true, Reports: map[string]*topology.Node{}}
	var workers []inputs.Worker
	for _, set := range slices.Sorted(maps.Keys(counts)) {
		snap.NodeSets = append(snap.NodeSets, inputs.NodeSet{Namespace: "slurm", Name: set, Cluster: "slurm", Replicas: counts[set]})
		for i := range counts[set] {
			node := fmt.Sprintf("node-%s%d", set, i)
			labels := map[string]string{"network.topology.nvidia.com/leaf": "leaf-" + set}
			workers = append(workers, inputs.Worker{Namespace: "slurm", Cluster: "slurm", NodeSet: set, Pod: node, Node: node, Hostname: fmt.Sprintf("%s%d", set, i)})
			report := &topology.Node{Name: node, Sockets: []topology.Socket{{CPUs: "0-3", Cores: 4}, {CPUs: "4-7", Cores: 4}}}
			for gpu := range map[string]int{"a": 2, "h": 4}[set] {
				g := topology.GPU{Index: gpu, UUID: fmt.Sprintf("GPU-%s-%d-%d", set, i, gpu), Minor: &gpu, Product: "NVIDIA H100", CPUAffinity: "0-3"}
				if set == "a" {
					g.Product, g.CPUAffinity = "NVIDIA A100", "0-1"
				}
				report.GPUs = append(report.GPUs, g)
				labels["nvidia.com/gpu.count"] = fmt.Sprint(gpu + 1)
			}
			if last := i == counts[set]-1; ready || !last {
				snap.Reports[node] = report
			}
			snap.Nodes = append(snap.Nodes, inputs.Node{Name: node, Labels: labels})
		}
	}
	snap.AddWorkers(workers)
	return snap
}

// TestGresByNodeSets has two kinds of machines with GPUs and one without, each of a NodeSet. slurmd finds
// the GPUs of one kind by itself. Each NodeSet grows by one, and the file stays as it is. When nothing but
// one kind of machine is left, and that is known, no node is named.
func TestGresByNodeSets(t *testing.T) {
	const a100, devices = "NodeName=a[0-63] ", "Name=gpu Type=a100 File=/dev/nvidia[0-1] Flags=nvidia_gpu_env"
	three := map[string]int{"a": 4, "cpu": 1, "h": 2}
	daemonSet := func(snap *inputs.Snapshot) { // its last pod is still to come
		snap.NodeSets[0].PerNode = true
		for i := range 4 {
			snap.Nodes[i].Workers[0].Hostname = ""
		}
		snap.Nodes[3].Workers = nil
	}
	for _, tt := range []struct {
		name   string
		counts map[string]int
		ready  bool // the last node of each NodeSet has a report
		change func(*inputs.Snapshot)
		gres   Gres
		before map[string]int // published before
		want   string
	}{
		{"three kinds", three, true, nil, Gres{}, nil, detect + a100 + devices + " AutoDetect=off\n"},
		{"each grows by one", map[string]int{"a": 5, "cpu": 2, "h": 3}, true, nil, Gres{}, three, detect + a100 + devices + " AutoDetect=off\n"},
		{"each grows by one, without a report yet", map[string]int{"a": 5, "cpu": 2, "h": 3}, false, nil, Gres{}, three, detect + a100 + devices + " AutoDetect=off\n"},
		{"it grows above 64", map[string]int{"a": 64, "cpu": 1}, true, nil, Gres{AutoDetect: "off"}, three, "NodeName=a[0-127] " + devices + "\n"},
		{"it shrinks", map[string]int{"a": 1, "cpu": 1, "h": 1}, true, nil, Gres{}, three, detect + a100 + devices + " AutoDetect=off\n"},
		{"the NodeSet of a kind is gone", map[string]int{"cpu": 1, "h": 1}, true, nil, Gres{}, three, detect},
		{"three kinds are listed", three, true, nil, Gres{AutoDetect: "off"}, nil, a100 + devices + "\nNodeName=h[0-63] Name=gpu Type=h100 File=/dev/nvidia[0-3] Flags=nvidia_gpu_env\n"},
		{"one kind is all that there is", map[string]int{"a": 4}, true, nil, Gres{}, nil, devices + "\n"},
		{"one kind, and a NodeSet without a pod", map[string]int{"a": 4, "cpu": 0}, true, nil, Gres{}, nil, detect + a100 + devices + " AutoDetect=off\n"},
		{"one kind, and a node that is not selected", map[string]int{"a": 4, "cpu": 1}, true, func(snap *inputs.Snapshot) { snap.Nodes[4].Labels["pool"] = "other" }, Gres{AutoDetect: "off"}, nil, a100 + devices + "\n"},
		{"one kind, and NodeSets are not known", map[string]int{"a": 4}, true, func(snap *inputs.Snapshot) { snap.NodeSets = nil }, Gres{}, nil, detect + a100 + devices + " AutoDetect=off\n"},
		{"one kind as before, and a NodeSet without a pod", map[string]int{"a": 4, "cpu": 0}, true, nil, Gres{}, map[string]int{"a": 4}, a100 + devices + "\n"},
		{"one kind as before, and NodeSets cannot be read", map[string]int{"a": 4}, true, func(snap *inputs.Snapshot) { snap.NodeSets = nil }, Gres{}, map[string]int{"a": 4}, devices + "\n"},
		{"one of a NodeSet has other GPUs", three, true, func(snap *inputs.Snapshot) { snap.Reports["node-a1"].GPUs = snap.Reports["node-a1"].GPUs[:1] }, Gres{}, nil,
			detect + "NodeName=a[0,2-63] " + devices + " AutoDetect=off\nNodeName=a1 Name=gpu Type=a100 File=/dev/nvidia0 Flags=nvidia_gpu_env AutoDetect=off\n"},
		{"a Node has neither labels nor a report yet", map[string]int{"a": 5, "cpu": 1, "h": 2}, false, func(snap *inputs.Snapshot) { snap.Nodes[4].Labels = nil }, Gres{}, three, detect + a100 + devices + " AutoDetect=off\n"},
		{"a DaemonSet's next node", map[string]int{"a": 4, "cpu": 1}, true, daemonSet, Gres{AutoDetect: "off"}, nil, "NodeName=node-a[0-3] " + devices + "\n"},
		{"a DaemonSet's next node detects its GPUs as all do", map[string]int{"a": 4}, true, daemonSet, Gres{AutoDetect: "nvidia"}, nil, detect},
		{"one kind, and a DaemonSet's next node", map[string]int{"a": 4}, true, daemonSet, Gres{}, nil, detect + "NodeName=node-a[0-3] " + devices + " AutoDetect=off\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pub := complete(t, Publication{SlurmNames: "slinky", Nodes: Selection{Selector: "pool!=other"}, Namespace: "slurm", Gres: tt.gres})[0]
			var prev Previous
			if tt.before != nil {
				prev = recalled(t, pub, makeOf(t, pub, pub.Rules.Gather(nodeSets(tt.before, true)), Previous{}))
			}
			snap := nodeSets(tt.counts, tt.ready)
			if tt.change != nil {
				tt.change(snap)
			}
			made, err := Make(pub, pub.Rules.Gather(snap), prev)
			if err != nil || made.Refused != "" || !made.FilePlan.ByAnnotation {
				t.Fatalf("%v %s by annotation %t", err, made.Message, made.FilePlan.ByAnnotation)
			}
			if _, got, _ := strings.Cut(made.Files["gres.conf"], "overwritten.\n"); got != tt.want {
				t.Errorf("gres.conf (-want +got):\n%s\nproblems %v", cmp.Diff(tt.want, got), made.FilePlan.Problems)
			}
			forAll := func(f topology.Finding) bool { return f.Reason == slurmlint.ReasonForAll }
			if slices.ContainsFunc(made.FilePlan.Problems, forAll) != strings.HasPrefix(tt.want, "Name=gpu") {
				t.Errorf("all nodes list the same devices, and problems are %v", made.FilePlan.Problems)
			}
			unchecked := func(f topology.Finding) bool {
				return f.Reason == syntax.ReasonNotJudged && strings.HasPrefix(f.Message, "a")
			}
			if slices.ContainsFunc(made.FilePlan.Problems, unchecked) {
				t.Errorf("GPUs that are listed are said to be detected: %v", made.FilePlan.Problems)
			}
			plan := made.FilePlan
			files, err := plan.Files()
			if diff := cmp.Diff(made.Files, files); diff != "" || err != nil {
				t.Errorf("files of the stored plan: %v (-made +stored):\n%s", err, diff)
			}
		})
	}
}

// TestGresByNodeSetsStays lets worker pods come and go after a publication. The file stays as it is, and so
// each node finds its line when it registers.
func TestGresByNodeSetsStays(t *testing.T) {
	three := map[string]int{"a": 4, "cpu": 1, "h": 2}
	unknown := func(snap *inputs.Snapshot) { snap.NodeSets = nil }
	waits := func(snap *inputs.Snapshot) { // the pod of the first Node
		w := snap.Nodes[0].Workers[0]
		w.Node, snap.Nodes[0].Workers = "", nil
		snap.AddWorkers([]inputs.Worker{w})
	}
	type step struct {
		what   string
		counts map[string]int
		ready  bool
		change func(*inputs.Snapshot)
	}
	const planLost = "the stored plan is lost, and NodeSets cannot be read"
	for _, tt := range []struct {
		name, want string
		flat       bool // nobody names a place
		steps      []step
	}{
		{"scaled to nothing and back", detect + "NodeName=a[0-63] ", false, []step{
			{"three kinds", three, true, nil},
			{"the last pod of a kind goes", map[string]int{"a": 0, "cpu": 1, "h": 2}, true, nil},
			{"NodeSets cannot be read", map[string]int{"a": 0, "cpu": 1, "h": 2}, true, unknown},
			{"NodeSets can be read again", map[string]int{"a": 0, "cpu": 1, "h": 2}, true, nil},
			{"a pod waits for a Node", map[string]int{"a": 1, "cpu": 1, "h": 2}, false, waits},
			{"a Node without labels", map[string]int{"a": 1, "cpu": 1, "h": 2}, false, func(snap *inputs.Snapshot) { snap.Nodes[0].Labels = nil }},
			{"no report yet", map[string]int{"a": 1, "cpu": 1, "h": 2}, false, nil},
			{"a MIG label and no report", map[string]int{"a": 1, "cpu": 1, "h": 2}, false, func(snap *inputs.Snapshot) { snap.Nodes[0].Labels["nvidia.com/mig-1g.5gb.count"] = "7" }},
			{"the report", map[string]int{"a": 1, "cpu": 1, "h": 2}, true, nil},
			{"as in the beginning", three, true, nil},
			{"each grows by one, and ResourceSlices come before reports", map[string]int{"a": 5, "cpu": 2, "h": 3}, true, func(snap *inputs.Snapshot) {
				snap.Slices = map[string]*topology.Node{}
				for _, node := range []string{"node-a4", "node-h2"} {
					r := snap.Reports[node]
					delete(snap.Reports, node)
					for i := range r.GPUs {
						r.GPUs[i].CPUAffinity = ""
					}
					r.Sockets, snap.Slices[node] = nil, r
				}
			}},
			{"a report is gone", three, false, nil},
			{"all are gone", three, false, func(snap *inputs.Snapshot) { clear(snap.Reports) }},
		}},
		{"no node with GPUs is left, and no place was known", detect + "NodeName=a[0-63] ", true, []step{
			{"three kinds", three, true, nil},
			{"no pod has GPUs", map[string]int{"a": 0, "cpu": 1, "h": 0}, true, nil},
			{"nor later", map[string]int{"a": 0, "cpu": 1, "h": 0}, true, nil},
			{"as in the beginning", three, true, nil},
		}},
		{"a NodeSet gets its first pod and loses its last", detect + "NodeName=a[0-63] ", false, []step{
			{"it has none", map[string]int{"a": 4, "h": 0}, true, func(snap *inputs.Snapshot) { snap.NodeSets[1].Name = "more" }},
			{"there is no such NodeSet", map[string]int{"a": 4}, true, nil},
			{planLost, map[string]int{"a": 4}, true, unknown},
		}},
		{"the only pod of a NodeSet waits for a Node", detect + "NodeName=a[0-63] ", false, []step{
			{"it waits", map[string]int{"a": 4, "cpu": 1}, true, func(snap *inputs.Snapshot) { slices.Reverse(snap.Nodes); waits(snap) }},
			{"it has one", map[string]int{"a": 4, "cpu": 1}, true, nil},
		}},
		{"nodes of a NodeSet differ, and Nodes come in any order", detect + "NodeName=a[0,2-63] ", false, []step{
			{"one is first", map[string]int{"a": 2, "cpu": 1}, true, func(snap *inputs.Snapshot) { snap.Reports["node-a1"].GPUs = snap.Reports["node-a1"].GPUs[:1] }},
			{"the other is first", map[string]int{"a": 2, "cpu": 1}, true, func(snap *inputs.Snapshot) {
				snap.Reports["node-a1"].GPUs = snap.Reports["node-a1"].GPUs[:1]
				slices.Reverse(snap.Nodes)
			}},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pub := complete(t, Publication{SlurmNames: "slinky", Namespace: "slurm", FlatTopology: tt.flat})[0]
			var prev Previous
			var files map[string]string
			first := ""
			for _, step := range tt.steps {
				if step.what == planLost {
					prev = previousOf(t, pub, files)
				}
				snap := nodeSets(step.counts, step.ready)
				if step.change != nil {
					step.change(snap)
				}
				for i := range snap.Nodes {
					if tt.flat {
						delete(snap.Nodes[i].Labels, "network.topology.nvidia.com/leaf")
					}
				}
				made := makeFiles(t, pub, pub.Rules.Gather(snap), prev)
				files = made.Files
				file := files["gres.conf"]
				if first == "" {
					first = file
				}
				if diff := cmp.Diff(first, file); diff != "" || !strings.Contains(file, "\n"+tt.want) {
					t.Errorf("%s: want %q (-first +now):\n%s\n%s", step.what, tt.want, diff, file)
				}
				differ := func(f topology.Finding) bool { return strings.Contains(f.Message, "different lines") }
				if slices.ContainsFunc(made.FilePlan.Problems, differ) != strings.Contains(tt.name, "differ") {
					t.Errorf("%s: problems %v", step.what, made.FilePlan.Problems)
				}
				prev = recalled(t, pub, made)
			}
		})
	}
}

// TestGresByAnnotation makes gres.conf for nodes that are alike as far as is known, and that
// are not.
func TestGresByAnnotation(t *testing.T) {
	cpu := func(snap *inputs.Snapshot) { snap.Nodes = append(snap.Nodes, inputs.Node{Name: "cpu"}) }
	labelled := func(snap *inputs.Snapshot) { snap.Nodes = append(snap.Nodes, inputs.Node{Name: "new", GPUs: 4}) }
	mig := func(snap *inputs.Snapshot) {
		for i := range snap.Reports["gb200-005"].GPUs {
			snap.Reports["gb200-005"].GPUs[i].MIG = []topology.MIGInstance{{UUID: fmt.Sprintf("MIG-%d", i), Profile: "1g.24gb", Capabilities: []string{"/dev/nvidia-caps/nvidia-cap21", "/dev/nvidia-caps/nvidia-cap22"}}}
		}
	}
	none := func(*inputs.Snapshot) {}
	lost := []simulated.Fault{{Node: "gb200-005", GPU: new(1), Lost: true}}
	listed := Gres{Types: publication.Pairs[string]{"NVIDIA GB200": "big"}}
	const alone, big = "Name=gpu Type=gb200 File=/dev/nvidia[0-3] Flags=nvidia_gpu_env\n", " Name=gpu Type=big File=/dev/nvidia[0-3] Flags=nvidia_gpu_env AutoDetect=off\n"
	const oneMIG = detect + "NodeName=gb200-005 Name=gpu Type=gb200_1g.24gb MultipleFiles=/dev/nvidia0,"
	part := func(snap *inputs.Snapshot) {
		for i := range snap.Reports["gb200-005"].GPUs {
			snap.Reports["gb200-005"].GPUs[i].CPUAffinity = "0-1"
		}
	}
	migLabel := func(snap *inputs.Snapshot) {
		snap.Nodes = append(snap.Nodes, inputs.Node{Name: "new", Labels: map[string]string{"nvidia.com/gpu.count": "4", "nvidia.com/gpu.product": "NVIDIA-GB200-MIG-1g.24gb"}})
	}
	for _, tt := range []struct {
		name   string
		faults []simulated.Fault
		more   func(*inputs.Snapshot)
		gres   Gres
		before *Publication // published before, of all 72 nodes
		want   string
		said   string
	}{
		{"all alike", nil, none, Gres{}, nil, detect, ""},
		{"one has no report", []simulated.Fault{{Node: "gb200-005", NoReport: true}}, none, Gres{}, nil, detect, "NotJudged"},
		{"one has GPUs and nothing else yet", nil, labelled, Gres{}, nil, detect, "NotJudged"},
		{"one has lost a GPU", lost, none, Gres{}, nil, detect, ""},
		{"one has no GPU", nil, cpu, Gres{}, nil, detect, ""},
		{"one has MIG instances", nil, mig, Gres{}, nil, oneMIG, ReasonGresNamesNodes},
		{"one has MIG by its labels", nil, migLabel, Gres{}, nil, detect, gres.ReasonNoGresLine},
		{"one has GPUs next to a part of a socket", nil, part, Gres{}, nil, detect + "NodeName=gb200-005 Name=gpu Type=gb200 File=/dev/nvidia[0-3] Flags=nvidia_gpu_env AutoDetect=off\n", ReasonGresNamesNodes},
		{"detected before", nil, cpu, Gres{}, &Publication{Membership: "annotation"}, detect, ""},
		{"detected before, one has MIG instances", nil, mig, Gres{}, &Publication{Membership: "annotation"}, oneMIG, ReasonGresNamesNodes},
		{"detected before, by the configuration", nil, none, Gres{}, &Publication{Gres: Gres{AutoDetect: "nvidia"}}, detect, ""},
		{"listed before", nil, none, Gres{}, &Publication{}, "NodeName=gb200-[001-072] " + alone, ReasonGresNamesNodes},
		{"listed before, one has no GPU", nil, cpu, Gres{}, &Publication{}, "NodeName=gb200-[001-072] " + alone, ReasonGresNamesNodes},
		{"listed, all alike", nil, none, listed, nil, detect + "NodeName=gb200-[001-072]" + big, ReasonGresNamesNodes},
		{"listed, one has no report", []simulated.Fault{{Node: "gb200-005", NoReport: true}}, none, listed, nil, detect + "NodeName=gb200-[001-004,006-072]" + big, ReasonGresNamesNodes + "NotJudged"},
		{"listed, one has GPUs and nothing else yet", nil, labelled, listed, nil, detect + "NodeName=gb200-[001-072]" + big, ReasonGresNamesNodes + "NotJudged"},
		{"listed, one has lost a GPU", lost, none, listed, nil, detect + "NodeName=gb200-[001-004,006-072]" + big + "NodeName=gb200-005 ", ReasonGresNamesNodes},
		{"listed, one has no GPU", nil, cpu, listed, nil, detect + "NodeName=gb200-[001-072]" + big, ReasonGresNamesNodes},
		{"nothing is detected", nil, none, Gres{AutoDetect: "off"}, nil, "NodeName=gb200-[001-072] " + alone, ReasonGresNamesNodes},
		{"all detect", nil, none, Gres{AutoDetect: "nvidia"}, nil, detect, ""},
		{"all detect, one has no GPU", nil, cpu, Gres{AutoDetect: "nvidia"}, nil, detect, ""},
		{"all detect, one has MIG instances", nil, mig, Gres{AutoDetect: "nvidia"}, nil, oneMIG, ReasonGresNamesNodes},
		{"all detect, listed before", nil, none, Gres{AutoDetect: "nvidia"}, &Publication{}, detect, ""},
		{"nvml", nil, none, Gres{AutoDetect: "nvml"}, nil, "AutoDetect=nvml\n", ""},
		{"nvml, one has no GPU", nil, cpu, Gres{AutoDetect: "nvml"}, nil, "NodeName=gb200-[001-072] AutoDetect=nvml\n", ReasonGresNamesNodes},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var prev Previous
			if tt.before != nil {
				before := complete(t, *tt.before)[0]
				prev = recalled(t, before, makeOf(t, before, before.Rules.Gather(racks(t)), Previous{}))
			}
			snap := racks(t, tt.faults...)
			tt.more(snap)
			pub := complete(t, Publication{Membership: "annotation", Gres: tt.gres})[0]
			specs := prev.specs(pub)
			for i := range snap.Nodes { // nodes of a published file wait for their annotation
				snap.Nodes[i].Annotations = map[string]string{plandoc.SpecAnnotation: specs[snap.Nodes[i].Name]}
			}
			made, err := Make(pub, pub.Rules.Gather(snap), prev)
			if err != nil || made.Refused != "" || len(made.Findings) > 0 || !made.FilePlan.ByAnnotation {
				t.Fatalf("%v %s %v %v", err, made.Message, made.Findings, made.FilePlan.Problems)
			}
			said := ""
			for _, p := range made.FilePlan.Problems {
				if p.Reason != "GPULost" {
					said += p.Reason
				}
			}
			if got := made.Files["gres.conf"]; !strings.Contains(got, "\n"+tt.want) || said != tt.said || strings.Contains(got, "NodeName=") != strings.HasPrefix(tt.said, ReasonGresNamesNodes) {
				t.Errorf("said %q:\n%s", said, got)
			}
			plan := made.FilePlan
			files, err := plan.Files()
			if diff := cmp.Diff(made.Files, files); diff != "" || err != nil {
				t.Errorf("files of the stored plan: %v (-made +stored):\n%s", err, diff)
			}
			whole, err := plan.Whole()
			if err != nil || plandoc.Digest(whole) != made.Digest {
				t.Errorf("digest %s: %v, want %s", plandoc.Digest(whole), err, made.Digest)
			}
		})
	}
}

// TestBridgeKeepsNodesInTheFile has a node of slurm-bridge beside nodes of worker pods.
func TestBridgeKeepsNodesInTheFile(t *testing.T) {
	for _, membership := range []string{"", "annotation"} {
		snap := podsOn(71).on(t)
		snap.Nodes[71].Labels["slinky.slurm.net/slurm-nodename"] = "bridge"
		pub := complete(t, Publication{SlurmNames: "slinky:a", Membership: membership})[0]
		made, err := Make(pub, pub.Rules.Gather(snap), Previous{})
		if err != nil || made.Specs["bridge"] == "" || strings.Contains(made.Files["topology.yaml"], "bridge") != (membership == "") {
			t.Errorf("membership %q: %v\n%s", membership, err, made.Files["topology.yaml"])
		}
	}
}
