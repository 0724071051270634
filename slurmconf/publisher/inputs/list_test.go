package inputs

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/nodelabels"
)

func TestReadNodes(t *testing.T) {
	list := func(names ...string) string {
		var items []string
		for _, n := range names {
			items = append(items, `{"kind":"Node","metadata":{"name":"`+n+`"}}`)
		}
		return `{"kind":"List","items":[` + strings.Join(items, ",") + "]}\n"
	}
	one := `{"kind":"Node","metadata":{"name":"c"}}`
	for _, tt := range []struct{ name, text, want string }{
		{"one list", list("a", "b"), "a b"},
		{"two lists", list("a", "b") + list("c"), "a b c"},
		{"lists and a node", list("a") + one + list("b"), "a c b"},
		{"blanks at the end", list("a") + " \n\n", "a"},
		{"byte order mark", "\xef\xbb\xbf" + list("a"), "a"},
		{"no node", list(), ""},
	} {
		snap, err := new(ListReader).Read("test", strings.NewReader(tt.text))
		var got []string
		if err == nil {
			for _, n := range snap.Nodes {
				got = append(got, n.Name)
			}
		}
		if err != nil || strings.Join(got, " ") != tt.want {
			t.Errorf("%s: %q, %v, want %q", tt.name, got, err, tt.want)
		}
	}
	for _, tt := range []struct{ name, text, want string }{
		{"nothing", "", "test: byte 0: the text ends early"},
		{"only a byte order mark", "\xef\xbb\xbf", "test: byte 0: the text ends early"},
		{"cut", list("a")[:30], "the text ends early"},
		{"second cut", list("a") + list("b")[:30], "the text ends early"},
		{"second of another kind", list("a") + "{}", "kind \"\" without items"},
		{"second with a Service", list("a") + `{"items":[{"kind":"Service"}]}`, "items[0] is a Service"},
		{"a Pod without a name", `{"items":[{"kind":"Pod"}]}`, "items[0] has no metadata.name"},
		{"something after it", list("a") + "error: timeout", "not JSON"},
		{"a node in both", list("a") + list("a"), `two nodes are named "a"`},
		{"UTF-16", "\xff\xfe{\x00}\x00", "test: text in UTF-16: want UTF-8, in PowerShell with | Out-File -Encoding utf8"},
		{"UTF-16, the other way", "\xfe\xff\x00{\x00}", "text in UTF-16"},
	} {
		if snap, err := new(ListReader).Read("test", strings.NewReader(tt.text)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %+v, error %v, want %q", tt.name, snap, err, tt.want)
		}
	}
	if _, err := new(ListReader).Read("test", iotest.ErrReader(errors.New("disk on fire"))); err == nil || !strings.Contains(err.Error(), "disk on fire") {
		t.Errorf("error %v, want that of the reader", err)
	}
}

// TestReadNodesWithPods reads what kubectl get nodes,pods -A prints, with keys in
// any order.
func TestReadNodesWithPods(t *testing.T) {
	worker := `"labels":{"app.kubernetes.io/name":"slurmd","app.kubernetes.io/component":"worker","app.kubernetes.io/instance":"gpu","slinky.slurm.net/cluster":"slurm"`
	owned := `"ownerReferences":[{"apiVersion":"slinky.slurm.net/v1beta1","kind":"NodeSet","name":"gpu","uid":"1","controller":true}],`
	text := `{"kind":"List","items":[
		{"kind":"Pod","metadata":{"name":"coredns","namespace":"kube-system"},"spec":{"nodeName":"a"}},
		{"kind":"Pod","metadata":{"name":"gpu-0","namespace":"slurm",` + owned + worker + `,"nodeset.slinky.slurm.net/pod-hostname":"g0"}},"spec":{"nodeName":"a","hostNetwork":false},"status":{"phase":"Running"}},
		{"spec":{"nodeName":"b","hostNetwork":true,"tolerations":[]},"metadata":{"name":"gpu-1","namespace":"slurm","deletionTimestamp":"2026-01-01T00:00:00Z",` + owned + worker + `}},"kind":"Pod"},
		{"kind":"Pod","metadata":{"name":"gpu-2","namespace":"slurm",` + owned + worker + `}},"spec":{"hostname":"g2"},"status":{"phase":"Failed"}},
		{"kind":"Pod","metadata":{"name":"gpu-3","namespace":"slurm",` + owned + worker + `}},"spec":null,"status":null},
		{"kind":"Pod","metadata":{"name":"evil","namespace":"slurm",` + worker + `}},"spec":{"nodeName":"a"}},
		{"kind":"Node","metadata":{"name":"a"},"spec":{"providerID":"x"},"status":{"phase":"?"}},
		{"kind":"Node","metadata":{"name":"b"}}]}`
	snap, err := new(ListReader).Read("test", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	want := &Snapshot{
		Nodes: []Node{
			{Name: "a", Workers: []Worker{{Namespace: "slurm", Pod: "gpu-0", Node: "a", Cluster: "slurm", NodeSet: "gpu", Hostname: "g0"}}},
			{Name: "b", Workers: []Worker{{Namespace: "slurm", Pod: "gpu-1", Node: "b", Cluster: "slurm", NodeSet: "gpu", Hostname: "b", Ending: true}}},
		},
		Unplaced: []Worker{
			{Namespace: "slurm", Pod: "gpu-2", Cluster: "slurm", NodeSet: "gpu", Hostname: "g2", Ending: true},
			{Namespace: "slurm", Pod: "gpu-3", Cluster: "slurm", NodeSet: "gpu", Hostname: "gpu-3"},
		},
		Reports: map[string]*topology.Node{},
	}
	if diff := cmp.Diff(want, snap); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestReadNodesWithCapacity(t *testing.T) {
	for status, want := range map[string]int{
		`{"capacity":{"cpu":"192","nvidia.com/gpu":"8"},"allocatable":{"nvidia.com/gpu":"7"}}`: 8,
		`{"images":[{"names":["x"]}],"capacity":{"nvidia.com/gpu":4}}`:                         4,
		`{"capacity":{"nvidia.com/gpu":"0","nvidia.com/mig-1g.10gb":"56"}}`:                    1,
		`{"capacity":{"nvidia.com/gpu":"8Gi"}}`:                                                0,
		`{"capacity":{"nvidia.com/gpu":["8"]}}`:                                                0,
		`{"conditions":[{"type":"Ready","status":"Unknown"}],"capacity":{"nvidia.com/gpu":2}}`: 2,
		`{"capacity":{"amd.com/gpu":"8"}}`:                                                     0,
		`{"capacity":null}`:                                                                    0,
		`{"capacity":"?"}`:                                                                     0,
		`null`:                                                                                 0,
	} {
		for _, text := range []string{`{"kind":"Node","metadata":{"name":"n"},"status":` + status + `}`, `{"items":[{"status":` + status + `,"metadata":{"name":"n"}}]}`} {
			snap, err := new(ListReader).Read("test", strings.NewReader(text))
			if err != nil || snap.Nodes[0].GPUs != want {
				t.Errorf("%s: %+v, %v, want %d GPUs", text, snap, err, want)
			}
		}
	}
	if _, err := new(ListReader).Read("test", strings.NewReader(`{"kind":"Node","metadata":{"name":"n"},"status":{"capacity":{"nvidia.com/gpu":}}}`)); err == nil {
		t.Error("a capacity that is no JSON is read")
	}
}

// TestReadLostNodes reads whether Kubernetes hears from a Node.
func TestReadLostNodes(t *testing.T) {
	for conditions, want := range map[string]bool{
		`[{"type":"MemoryPressure","status":"Unknown"},{"status":"Unknown","reason":"NodeStatusUnknown","type":"Ready"}]`: true,
		`[{"type":"MemoryPressure","status":"Unknown"},{"type":"Ready","status":"False"}]`:                                false,
		`[{"type":"Ready","status":"True"}]`: false,
		`[]`:                                 false,
		`null`:                               false,
	} {
		snap, err := new(ListReader).Read("test", strings.NewReader(`{"kind":"Node","metadata":{"name":"n"},"status":{"conditions":`+conditions+`}}`))
		if err != nil || snap.Nodes[0].Lost != want {
			t.Errorf("%s: %+v, %v, want %t", conditions, snap, err, want)
		}
	}
	if _, err := new(ListReader).Read("test", strings.NewReader(`{"kind":"Node","metadata":{"name":"n"},"status":{"conditions":[7,"Unknown"]}}`)); err == nil {
		t.Error("a condition that is a number is read")
	}
}

// TestReadConditions reads the publisher's own conditions of Nodes, and Slurm's words for the
// state of a node from the conditions of its worker pod.
func TestReadConditions(t *testing.T) {
	const pod = `{"kind":"Pod","metadata":{"name":"w-%[1]s","namespace":"%[2]s","labels":{"app.kubernetes.io/name":"slurmd","app.kubernetes.io/component":"worker","app.kubernetes.io/instance":"gpu","slinky.slurm.net/cluster":"slurm","nodeset.slinky.slurm.net/pod-hostname":"s-%[1]s"},
		"ownerReferences":[{"apiVersion":"slinky.slurm.net/v1beta1","kind":"NodeSet","name":"gpu","controller":true}]%[4]s},"spec":{"nodeName":"%[1]s"},
		"status":{"conditions":[{"type":"SlurmNodeStateDown","status":"False"},%[3]s]}}`
	const idle, drained = `{"type":"SlurmNodeStateIdle","status":"True"}`, `{"type":"SlurmNodeStateIdle","status":"True"},{"type":"SlurmNodeStateDrain","status":"True","message":"by hand"}`
	text := `{"kind":"NodeList","items":[{"metadata":{"name":"a","labels":{"nvidia.com/gpu.count":"4"}},"status":{"conditions":[{"type":"Ready","status":"True"},
		{"type":"QuoinImexNotReady","status":"True","reason":"FabricNotReady","message":"wait"},{"type":"QuoinTopologyDrift","status":"False","reason":"Agrees","message":"all agree"}]}},
		{"metadata":{"name":"b"},"status":{"conditions":[{"type":"Ready","status":"True"}]}},{"metadata":{"name":"c"}}]}` +
		fmt.Sprintf(pod, "a", "slurm", drained, "") + fmt.Sprintf(pod, "b", "slurm", idle, "") + fmt.Sprintf(pod, "c", "slurm", idle, `,"deletionTimestamp":"2026-01-02T03:04:05Z"`)
	snap, err := new(ListReader).Read("test", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]Condition{"QuoinImexNotReady": {"QuoinImexNotReady", "FabricNotReady", "wait", true}, "QuoinTopologyDrift": {"QuoinTopologyDrift", "Agrees", "all agree", false}}
	if diff := cmp.Diff(want, snap.Nodes[0].Conditions); diff != "" || snap.Nodes[1].Conditions != nil {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	for names, want := range map[string]map[string]string{
		"slinky":             {"s-a": "idle+drain", "s-b": "idle"},
		"slinky:slurm/slurm": {"s-a": "idle+drain", "s-b": "idle"},
		"slinky:slurm/other": {},
		"short":              {"a": "idle+drain", "b": "idle"},
	} {
		in := rules(t, Config{SlurmNames: names, Namespace: "slurm"}).Gather(snap)
		if diff := cmp.Diff(want, in.States); diff != "" {
			t.Errorf("slurmNames %s (-want +got):\n%s", names, diff)
		}
	}
}

// someSlice stands for a reader of ResourceSlices.
func someSlice(name string, _ []byte) (*Slice, error) { return &Slice{Name: name, Node: "a"}, nil }

// TestNoSliceReader refuses a ResourceSlice that nobody reads.
func TestNoSliceReader(t *testing.T) {
	const text = `{"kind":"ResourceSlice","metadata":{"name":"s"},"spec":{"driver":"gpu.nvidia.com"}}`
	if _, err := new(ListReader).Read("test", strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), "ResourceSlice s: want a list without ResourceSlices") {
		t.Errorf("error %v", err)
	}
	if snap, err := (&ListReader{Slices: someSlice}).Read("test", strings.NewReader(text)); err != nil || snap.Slices["a"] == nil {
		t.Errorf("%+v, %v: want a slice of node a", snap, err)
	}
}

func FuzzReadNodes(f *testing.F) {
	f.Add(`{"kind":"List","items":[{"spec":{"nodeName":"n"},"metadata":{"name":"p"},"kind":"Pod"},{"kind":"Node","metadata":{"name":"n","labels":{"a":"b"}}}]}`)
	f.Add(`{"kind":"Node","metadata":{"name":"n"},"spec":null,"status":{"phase":"x"}}`)
	f.Add(`{"kind":"Node","metadata":{"name":"n"},"status":{"capacity":{"nvidia.com/gpu":"8","nvidia.com/mig-1g.10gb":7}}}`)
	f.Add(`{"items":[{"kind":"ResourceSlice","metadata":{"name":"s"},"spec":{"driver":"gpu.nvidia.com","nodeName":"n","pool":{"name":"n","resourceSliceCount":1},"devices":[{"name":"gpu-0","basic":{"attributes":{"type":{"string":"mig"}}}}]}}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		snap, err := (&ListReader{Slices: someSlice}).Read("fuzz", strings.NewReader(text))
		if (snap == nil) == (err == nil) {
			t.Fatalf("snapshot %v, error %v", snap, err)
		}
		if err != nil {
			return
		}
		for _, n := range snap.Nodes {
			if n.Name == "" {
				t.Error("a node without a name")
			}
		}
	})
}

// TestItemKinds gives items that name no kind that of their list.
func TestItemKinds(t *testing.T) {
	const worker = `{"metadata":{"name":"gpu-0","namespace":"slurm","labels":{"app.kubernetes.io/name":"slurmd","app.kubernetes.io/component":"worker","app.kubernetes.io/instance":"gpu"},"ownerReferences":[{"apiVersion":"slinky.slurm.net/v1beta1","kind":"NodeSet","name":"gpu","controller":true}]},"spec":{"nodeName":"a"}}`
	for _, tt := range []struct{ name, text, nodes, workers string }{
		{"a list of nodes", `{"kind":"NodeList","items":[{"metadata":{"name":"a"}}]}`, "a", ""},
		{"a list of pods", `{"kind":"PodList","items":[` + worker + `]}`, "", "gpu-0"},
		{"a list of any kind", `{"items":[{"metadata":{"name":"a"}}],"kind":"List"}`, "a", ""},
		{"both", `{"kind":"NodeList","items":[{"metadata":{"name":"a"}}]}{"kind":"PodList","items":[` + worker + `]}`, "a", "gpu-0"},
		{"an item of another kind", `{"kind":"PodList","items":[{"kind":"Node","metadata":{"name":"a"}}]}`, "a", ""},
	} {
		for _, each := range []func(string, []byte) error{nil, func(string, []byte) error { return nil }} {
			snap, err := (&ListReader{Each: each}).Read("test", strings.NewReader(tt.text))
			if err != nil {
				t.Errorf("%s: %v", tt.name, err)
				continue
			}
			var nodes, workers []string
			for i := range snap.Nodes {
				nodes = append(nodes, snap.Nodes[i].Name)
				snap.Unplaced = append(snap.Unplaced, snap.Nodes[i].Workers...)
			}
			for _, w := range snap.Unplaced {
				workers = append(workers, w.Pod)
			}
			if strings.Join(nodes, " ") != tt.nodes || strings.Join(workers, " ") != tt.workers {
				t.Errorf("%s: nodes %q, worker pods %q, want %q and %q", tt.name, nodes, workers, tt.nodes, tt.workers)
			}
		}
	}
	if _, err := new(ListReader).Read("test", strings.NewReader(`{"kind":"ServiceList","items":[{"metadata":{"name":"a"}}]}`)); err == nil || !strings.Contains(err.Error(), "items[0] is a Service") {
		t.Errorf("a list of services: %v", err)
	}
	if _, err := new(ListReader).Read("test", strings.NewReader(`{"items":[`+worker+`],"kind":"PodList"}`)); err == nil || !strings.Contains(err.Error(), "PodList comes after items without a kind") {
		t.Errorf("a list of pods that says so last: %v", err)
	}
}

// TestListReaderEach hands on every object with its text.
func TestListReaderEach(t *testing.T) {
	const claim = `{"kind":"ResourceClaim","metadata":{"name":"c"}}`
	text := `{"items":[{"kind":"Node","metadata":{"name":"a"}},` + claim + `]}{"kind":"PodList","items":[{"metadata":{"name":"p"}}]}`
	var got []string
	r := ListReader{Command: "kubectl get all", Each: func(kind string, object []byte) error {
		got = append(got, kind+" "+string(object))
		return nil
	}}
	if _, err := r.Read("test", strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{`Node {"kind":"Node","metadata":{"name":"a"}}`, "ResourceClaim " + claim, `Pod {"metadata":{"name":"p"}}`}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for text, want := range map[string]string{
		claim:     `kind "ResourceClaim" without items: want the output of kubectl get all`,
		text[:60]: "want the whole output of kubectl get all",
		"[]":      "byte 0: this is a JSON array: want kubectl's List, an object with \"items\", as kubectl get all prints",
		"7":       "want a list of objects",
		`{"items":[{"kind":"Service","metadata":{"name":"s"}}]}`: "items[0] is a Service",
	} {
		if _, err := r.Read("test", strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	r.Each = func(string, []byte) error { return errors.New("broken") }
	if _, err := r.Read("test", strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), "items[0]: broken") {
		t.Errorf("error %v, want that of Each", err)
	}
}

// TestListReaderKeep keeps the labels and annotations that the rules look at, of a Node and of a
// worker pod, whatever form the others have.
func TestListReaderKeep(t *testing.T) {
	const text = `{"items":[{"kind":"Node","metadata":{"labels":{"other":7,"nvidia.com\/gpu.count":"4","rack":"r1","name":"a1"},
		"annotations":{"other":{"a":[]},"nodeset.slinky.slurm.net/hostname-override":"b1","topology.slinky.slurm.net/spec":"t:u"},"name":"a"}},
		{"kind":"Node","metadata":{"name":"b","labels":null,"annotations":{"other":"x"}}},
		{"kind":"Pod","metadata":{"name":"p","namespace":"slurm","labels":{"app.kubernetes.io/name":"slurmd","app.kubernetes.io/component":"worker","app.kubernetes.io/instance":"gpu","slinky.slurm.net/cluster":"c","nodeset.slinky.slurm.net/scaling-mode":"DaemonSet","rack":"r2"},
		"ownerReferences":[{"apiVersion":"slinky.slurm.net/v1beta1","kind":"NodeSet","name":"gpu","controller":true}]},"spec":{"nodeName":"a"}}]}`
	for _, tt := range []struct{ names, tier, labels, annotations string }{
		{"short", "", "map[nvidia.com/gpu.count:4]", "map[nodeset.slinky.slurm.net/hostname-override:b1 topology.slinky.slurm.net/spec:t:u]"},
		{"slinky", "", "map[nvidia.com/gpu.count:4]", "map[nodeset.slinky.slurm.net/hostname-override:b1 topology.slinky.slurm.net/spec:t:u]"},
		{"label:name", "rack", "map[name:a1 nvidia.com/gpu.count:4 rack:r1]", "map[topology.slinky.slurm.net/spec:t:u]"},
	} {
		c := Config{SlurmNames: tt.names}
		if tt.tier != "" {
			c.Labels.Tiers = []string{tt.tier}
		}
		snap, err := (&ListReader{Keep: KeysOf(rules(t, c))}).Read("test", strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		a, b := snap.Nodes[0], snap.Nodes[1]
		if got := fmt.Sprint(a.Labels); got != tt.labels {
			t.Errorf("slurmNames %s: labels %s, want %s", tt.names, got, tt.labels)
		}
		if got := fmt.Sprint(a.Annotations); got != tt.annotations {
			t.Errorf("slurmNames %s: annotations %s, want %s", tt.names, got, tt.annotations)
		}
		if len(b.Labels)+len(b.Annotations) > 0 {
			t.Errorf("slurmNames %s: b has labels %v, annotations %v", tt.names, b.Labels, b.Annotations)
		}
		if want := []Worker{{Namespace: "slurm", Pod: "p", Node: "a", Cluster: "c", NodeSet: "gpu"}}; !slices.Equal(a.Workers, want) {
			t.Errorf("slurmNames %s: worker pods %+v, want %+v", tt.names, a.Workers, want)
		}
	}
}

func FuzzListReader(f *testing.F) {
	f.Add(`{"kind":"PodList","items":[{"metadata":{"name":"p"},"spec":{"nodeName":"a"},"status":{"phase":"Failed"}}]}`)
	f.Add(`{"items":[{"kind":"Node","metadata":{"name":"a"},"status":{"capacity":{"nvidia.com/gpu":"4"}}}],"kind":"List"}`)
	f.Add(`{"items":[{"kind":"Node","metadata":{"name":"a","labels":{"rack":"r","x":"y","slinky.slurm.net/slurm-nodename":"s"}}}],"kind":"List"}`)
	r := rules(f, Config{SlurmNames: "slinky", Labels: nodelabels.Keys{Domains: []string{"rack"}}})
	f.Fuzz(func(t *testing.T, text string) {
		plain, err := (&ListReader{Slices: someSlice}).Read("test", strings.NewReader(text))
		if (err == nil) != (plain != nil) {
			t.Fatal(plain, err)
		}
		each, errEach := (&ListReader{Slices: someSlice, Each: func(string, []byte) error { return nil }}).Read("test", strings.NewReader(text))
		if err != nil || errEach != nil { // a single object is for the one, and not for the other
			return
		}
		if diff := cmp.Diff(plain, each); diff != "" {
			t.Errorf("(-streamed +whole):\n%s", diff)
		}
		kept, err := (&ListReader{Keep: KeysOf(r), Slices: someSlice}).Read("test", strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(r.Gather(plain).Facts, r.Gather(kept).Facts); diff != "" {
			t.Errorf("(-all labels +those that are kept):\n%s", diff)
		}
	})
}

// TestListReportsAlone has Nodes in the order of their names if a list has reports alone.
func TestListReportsAlone(t *testing.T) {
	var items []string
	for _, name := range []string{"e", "b", "d", "a", "c", "f"} {
		items = append(items, `{"apiVersion":"quoin.dev/v1alpha1","kind":"NodeReport","metadata":{"name":"`+name+`"},"node":"`+name+`"}`)
	}
	snap, err := new(ListReader).Read("test", strings.NewReader(`{"items":[`+strings.Join(items, ",")+`]}`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range snap.Nodes {
		got = append(got, snap.Nodes[i].Name)
	}
	if strings.Join(got, "") != "abcdef" {
		t.Errorf("nodes %v", got)
	}
}

// TestListNodeReports reads NodeReports as kubectl prints them, where the kind follows most
// facts.
func TestListNodeReports(t *testing.T) {
	const (
		report = `{"apiVersion":"quoin.dev/v1alpha1","bootID":"b","gpus":[{"index":0,"uuid":"GPU-1"}],"kind":"NodeReport","metadata":{"name":"a","annotations":{"x":"y"}},"node":"a","summary":{"gpus":1},"tiers":["leaf-1"]}`
		node   = `{"apiVersion":"v1","kind":"Node","metadata":{"name":"c"}}`
		bad    = `{"apiVersion":"quoin.dev/v1alpha1","kind":"NodeReport","metadata":{"name":"b"},"node":"a"}`
		empty  = `{"kind":"NodeReport","metadata":{"name":"b"}}`
	)
	want := map[string]*topology.Node{"a": {Name: "a", BootID: "b", GPUs: []topology.GPU{{UUID: "GPU-1"}}}}
	for _, tt := range []struct{ name, text, nodes, problems string }{
		{"one", report, "a", ""},
		{"a list of reports", `{"kind":"List","items":[` + report + `]}`, "a", ""},
		{"beside Nodes", `{"items":[` + node + "," + report + `],"kind":"List"}`, "c", ""},
		{"another node's", `{"items":[` + report + "," + bad + `]}`, "a b", `b: ReportUnreadable: nodereport b: report of node "a"`},
		{"nothing in it", `{"items":[` + report + "," + empty + `]}`, "a b", `b: ReportUnreadable: nodereport b: `},
	} {
		t.Run(tt.name, func(t *testing.T) {
			snap, err := new(ListReader).Read("test", strings.NewReader(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			var nodes, problems []string
			for i := range snap.Nodes {
				nodes = append(nodes, snap.Nodes[i].Name)
			}
			for _, p := range snap.Problems {
				problems = append(problems, p.String())
			}
			if got := strings.Join(problems, "\n"); strings.Join(nodes, " ") != tt.nodes || !strings.HasPrefix(got, tt.problems) || tt.problems == "" && got != "" {
				t.Errorf("nodes %q, problems %q: want %q, %q", nodes, got, tt.nodes, tt.problems)
			}
			if diff := cmp.Diff(want, snap.Reports); diff != "" {
				t.Errorf("reports (-want +got):\n%s", diff)
			}
		})
	}
}
