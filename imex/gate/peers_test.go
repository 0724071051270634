package gate

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestPeers(t *testing.T) {
	gate := func(members ...Member) State { return testGate(false, members...) }
	here, there, ready, other := Member{"n1", false}, Member{"n2", false}, Member{"n3", true}, Member{"n9", false}
	for _, tt := range []struct {
		name string
		gate State
		node string
		list string
		want Peers
	}{
		{"one of two", gate(here, ready), "n1", "n[1,3]", Peers{Known: true, Missing: []string{"n1"}, Others: true, NotReady: 1}},
		{"both, and another's", gate(here, there, ready, other), "n1", "n[1-3]", Peers{Known: true, Missing: []string{"n1", "n2"}, Others: true, NotReady: 3}},
		{"not joined yet", gate(there, ready), "n1", "n[1-3]", Peers{Known: true, Missing: []string{"n1", "n2"}, Others: true, NotReady: 1}},
		{"nobody has joined", gate(), "n1", "n[1-2]", Peers{Known: true, Missing: []string{"n1"}}},
		{"alone in its clique", gate(here, other), "n1", "n[1-2]", Peers{Known: true, Missing: []string{"n1"}, Alone: true, NotReady: 2}},
		{"alone, but not joined yet", gate(other), "n1", "n[1-2]", Peers{Known: true, Missing: []string{"n1"}, NotReady: 1}},
		{"domains and case", testGateOf("n1.example.org", Member{"n1.example.org", false}, Member{"n2.example.org", false}), "N1", "N[1-2]", Peers{Known: true, Missing: []string{"N1", "N2"}, Others: true, NotReady: 2}},
		{"named otherwise in Slurm", gate(here, there), "slinky-0", "slinky-[0-1]", Peers{NotReady: 2}},
		{"names of others", gate(here, there), "n2", "n[2-3]", Peers{NotReady: 2}},
		{"this node is not of the job", gate(here, there), "n1", "n[2-3]", Peers{NotReady: 2}},
		{"a list that cannot be read", gate(here, there), "n1", "n[1-2", Peers{NotReady: 2}},
		{"nothing is said", gate(here, there), "", "", Peers{NotReady: 2}},
		{"nodes that do not reach each other", testGateApart("n1/n2", "n4", "n3/n9"), "n1", "n[1-4]", Peers{Known: true, Missing: []string{"n1", "n2", "n4"}, Apart: true}},
		{"nodes that are named by addresses", testGateApart("10.0.0.1/10.0.0.2"), "10.0.0.1", "10.0.0.[1-4]", Peers{Missing: []string{"10.0.0.1", "10.0.0.2"}, Apart: true}},
		{"others' nodes that do not", testGateApart("n2/n9", "n8"), "n1", "n[1-4]", Peers{Known: true}},
		{"named otherwise in Kubernetes", testGateApart("w-0/w-1.example.org"), "W-0", "W-[0-1]", Peers{Missing: []string{"W-0", "W-1"}, Apart: true}},
		{"listed twice", gate(here, there), "n1", "n1,n2,n2,n1", Peers{Known: true, Missing: []string{"n1", "n2"}, Others: true, NotReady: 2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, tt.gate.Peers(tt.node, tt.list)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func testGateApart(apart ...string) State {
	g := testGate(true)
	g.Apart = apart
	return g
}

func testGateOf(node string, members ...Member) State {
	g := testGate(false, members...)
	g.Node = node
	return g
}

// FuzzGate has whatever is read as a gate be written and read again, and compared
// with a job's nodes.
func FuzzGate(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"quoin.dev/v1alpha1","kind":"Gate","node":"n1","clique":"c.1","members":[{"node":"n1"},{"node":"n2","ready":true}]}`), "n1", "n[1-3]")
	f.Add([]byte(`{"apiVersion":"quoin.dev/v1alpha1","kind":"Gate","node":"","members":[{},{}]}`), "", ",")
	f.Fuzz(func(t *testing.T, data []byte, node, list string) {
		g, err := parse(data)
		if err != nil {
			return
		}
		run := t.TempDir()
		if err := Write(run, *g); err != nil {
			t.Fatal(err)
		}
		again, _, err := Read(run)
		if diff := cmp.Diff(g, again, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Fatalf("%v (-want +got):\n%s", err, diff)
		}
		p := g.Peers(node, list)
		if p.NotReady > len(g.Members) || p.Known != (len(p.Missing) > 0) || p.Alone && !p.Known {
			t.Errorf("%+v", p)
		}
	})
}
