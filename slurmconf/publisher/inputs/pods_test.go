package inputs

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// has is a selector of pods with one label.
type has struct{ key, value string }

func (s has) Matches(of map[string]string) bool { return of[s.key] == s.value }
func (s has) Keys() []string                    { return []string{s.key} }

// parseHas reads key=value.
func parseHas(text string) (Selector, error) {
	key, value, ok := strings.Cut(text, "=")
	if !ok {
		return nil, errors.New("no =")
	}
	return has{key, value}, nil
}

const workersOnly = "slurm.nebius.ai/worker=true"

func podRules(t *testing.T) *Rules {
	t.Helper()
	return rules(t, Config{SlurmNames: "pod:" + workersOnly, ParseSelector: parseHas, Namespace: "soperator"})
}

// TestNamesByPods names nodes by the pods that a selector selects.
func TestNamesByPods(t *testing.T) {
	pod := func(namespace, name string) Worker {
		p := Pod{Namespace: namespace, Name: name, Node: "n1", Hostname: "host", Labels: map[string]string{labelPodHostname: "slinky"}}
		return p.Selected(workersOnly)
	}
	ending := pod("soperator", "worker-7")
	ending.Ending = true
	slinky := Worker{Namespace: "soperator", Pod: "gpu-0", Node: "n1", Hostname: "gpu-0"}
	for _, tt := range []struct {
		name   string
		pods   []Worker
		want   string
		reason string
		words  []string
	}{
		{"one pod", []Worker{pod("soperator", "worker-3")}, "worker-3", "", nil},
		{"beside a pod of Slinky and one of another namespace", []Worker{slinky, pod("elsewhere", "worker-9"), pod("soperator", "worker-3")}, "worker-3", "", nil},
		{"one that ends and the next", []Worker{ending, pod("soperator", "worker-3")}, "worker-3", "", nil},
		{"only one that ends", []Worker{ending}, "worker-7", "", nil},
		{"two pods", []Worker{pod("soperator", "worker-3"), pod("soperator", "worker-4")}, "worker-3 worker-4", "", nil},
		{"none", nil, "", ReasonNoWorkerPod, []string{"slurmNames: pod:" + workersOnly, "nor on any other node", "kubectl get nodes,pods -A -o json"}},
		{"only Slinky's", []Worker{slinky}, "", ReasonNoWorkerPod, nil},
		{"a name that Slurm can't have", []Worker{pod("soperator", "default")}, "", ReasonNoSlurmName, []string{"look at the pods that slurmNames: pod:" + workersOnly + " selects"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			snap := &Snapshot{Nodes: []Node{{Name: "n1"}}}
			snap.AddWorkers(tt.pods)
			g := podRules(t).Gather(snap)
			switch {
			case tt.reason == "":
				if namesIn(&g) != tt.want {
					t.Errorf("facts %+v, without a name %v", g.Facts, g.Unnamed)
				}
			case len(g.Unnamed) != 1 || g.Unnamed[0].Reason != tt.reason || slices.ContainsFunc(tt.words, func(w string) bool { return !strings.Contains(g.Unnamed[0].Message, w) }):
				t.Errorf("without a name %v, want %s with %q", g.Unnamed, tt.reason, tt.words)
			}
		})
	}
	whole := &Snapshot{Whole: true, Nodes: []Node{{Name: "n1"}}}
	if g := podRules(t).Gather(whole); len(g.Unnamed) != 1 || !strings.HasSuffix(g.Unnamed[0].Message, "look at kubectl get pods -n soperator -l '"+workersOnly+"'") {
		t.Errorf("a selector without any pod: %v", g.Unnamed)
	}
}

// TestWrongPodSelectors holds what is said of selectors that are none.
func TestWrongPodSelectors(t *testing.T) {
	for how, want := range map[string]string{
		"pod:":    "it would select every pod",
		"pod:  ":  "it would select every pod",
		"pod:a b": "no =",
		"pods:a":  "want short, full,",
		"pod":     "want short, full,",
	} {
		var got []string
		NewRules(Config{SlurmNames: how, ParseSelector: parseHas, Namespace: "slurm"}, func(key, message string) { got = append(got, key+": "+message) })
		if len(got) != 1 || !strings.HasPrefix(got[0], "slurmNames: ") || !strings.Contains(got[0], want) {
			t.Errorf("%q: %q, want %q", how, got, want)
		}
	}
}

// TestReadSelectedPods reads pods from lists: each pod once, also if it is in two lists.
func TestReadSelectedPods(t *testing.T) {
	pod := `{"kind":"Pod","metadata":{"name":"worker-0","namespace":"soperator","labels":{"slurm.nebius.ai/worker":"true"}},"spec":{"nodeName":"n1"}}`
	other := `{"kind":"Pod","metadata":{"name":"login-0","namespace":"soperator","labels":{"slurm.nebius.ai/worker":"false"}},"spec":{"nodeName":"n1"}}`
	r := podRules(t)
	r.FromLists()
	lr := ListReader{Keep: KeysOf(r), Pods: NamingPodsOf(r, r)}
	snap, err := lr.Read("pods", strings.NewReader(`{"kind":"List","items":[{"kind":"Node","metadata":{"name":"n1"}},`+pod+`,`+other+`]} {"kind":"List","items":[`+pod+`]}`))
	if err != nil {
		t.Fatal(err)
	}
	want := []Worker{{Selector: workersOnly, Namespace: "soperator", Pod: "worker-0", Node: "n1", Hostname: "worker-0"}}
	if diff := cmp.Diff(want, snap.Nodes[0].Workers); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if g := r.Gather(snap); len(g.Facts) != 1 || g.Facts[0].SlurmName != "worker-0" {
		t.Errorf("%+v", g)
	}
}

// namesIn are the Slurm names of all nodes that have one.
func namesIn(in *Inputs) string {
	var names []string
	for i := range in.Facts {
		names = append(names, in.Facts[i].SlurmName)
	}
	return strings.Join(names, " ")
}
