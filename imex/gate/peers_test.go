package gate

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/quoin-hpc/quoin/topology"
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
		{"one of two", gate(here, ready), "n1", "n[1,3]", Peers{Missing: []string{"n1"}, Others: true}},
		{"both, and another's", gate(here, there, ready, other), "n1", "n[1-3]", Peers{Missing: []string{"n1", "n2"}, Others: true}},
		{"not joined yet", gate(there, ready), "n1", "n[1-3]", Peers{Missing: []string{"n1", "n2"}, Others: true}},
		{"nobody has joined", gate(), "n1", "n[1-2]", Peers{Missing: []string{"n1"}}},
		{"alone in its clique", gate(here, other), "n1", "n[1-2]", Peers{Missing: []string{"n1"}, Alone: true}},
		{"alone, but not joined yet", gate(other), "n1", "n[1-2]", Peers{Missing: []string{"n1"}}},
		{"domains and case", testGateOf("n1.example.org", Member{"n1.example.org", false}, Member{"n2.example.org", false}), "N1", "N[1-2]", Peers{Missing: []string{"N1", "N2"}, Others: true}},
		{"named otherwise in Slurm", gate(here, there), "slinky-0", "slinky-[0-1]", Peers{}},
		{"names of others", gate(here, there), "n2", "n[2-3]", Peers{}},
		{"this node is not of the job", gate(here, there), "n1", "n[2-3]", Peers{}},
		{"a list that cannot be read", gate(here, there), "n1", "n[1-2", Peers{}},
		{"nothing is said", gate(here, there), "", "", Peers{}},
		{"listed twice", gate(here, there), "n1", "n1,n2,n2,n1", Peers{Missing: []string{"n1", "n2"}, Others: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, tt.gate.PeersOf(tt.node, tt.list, nil)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func testGateOf(node string, members ...Member) State {
	g := testGate(false, members...)
	g.Node = node
	return g
}

// peersOf returns peers of words such as 10.0.0.2=n2:dead.
func peersOf(words ...string) (peers []topology.IMEXPeer) {
	for _, w := range words {
		address, rest, _ := strings.Cut(w, "=")
		name, state, _ := strings.Cut(rest, ":")
		peers = append(peers, topology.IMEXPeer{Address: address, Name: name, State: state})
	}
	return peers
}

// addressesOf returns addresses of words such as n2=10.0.0.2,10.1.0.2.
func addressesOf(words ...string) Addresses {
	out := Addresses{}
	for _, w := range words {
		name, all, _ := strings.Cut(w, "=")
		for address := range strings.SplitSeq(all, ",") {
			out[name] = append(out[name], address)
		}
	}
	return out
}

// TestPeersOfService looks for a job's nodes among the peers of the host's own service.
func TestPeersOfService(t *testing.T) {
	self := "10.0.0.1=n1:self"
	for _, tt := range []struct {
		name      string
		peers     []topology.IMEXPeer
		node      string
		list      string
		addresses Addresses
		want      string // missing, unknown, unnamed
	}{
		{"one is dead, by name", peersOf(self, "10.0.0.2=n2:dead", "10.0.0.3=n3:connected"), "n1", "n[1-3]", nil, "[n2] [] []"},
		{"two are dead", peersOf(self, "10.0.0.2=n2:dead", "10.0.0.3=n3:dead"), "n1", "n[1-3]", nil, "[n2 n3] [] []"},
		{"others' node is dead", peersOf(self, "10.0.0.2=n2:connected", "10.0.0.3=n3:dead"), "n1", "n[1-2]", nil, "[] [] []"},
		{"one node of the job is in another domain", peersOf(self, "10.0.0.3=n3:dead"), "n1", "n1,m1", nil, "[] [] []"},
		{"names with domains", peersOf("10.0.0.1=N1.example.org:self", "10.0.0.2=n2.example.org:dead"), "n1", "N[1-2]", nil, "[N2] [] []"},
		{"unknown, by name", peersOf(self, "10.0.0.2=n2:unknown"), "n1", "n[1-2]", nil, "[] [n2] []"},
		{"dead without a name", peersOf(self, "10.0.0.2=:dead", "10.0.0.3=n3:connected"), "n1", "n[1-3]", nil, "[] [n2] [10.0.0.2]"},
		{"dead without a name, and all nodes of the job have one", peersOf(self, "10.0.0.2=:dead", "10.0.0.3=n3:connected"), "n1", "n[1,3]", nil, "[] [] []"},
		{"its address tells", peersOf(self, "10.0.0.2=:dead", "10.0.0.3=n3:connected"), "n1", "n[1-3]", addressesOf("n2=192.0.2.2,10.0.0.2"), "[n2] [] []"},
		{"one of two without names", peersOf(self, "10.0.0.2=:dead", "10.0.0.3=:dead", "10.0.0.4=n4:connected"), "n1", "n[1-2,4]", addressesOf("n2=10.0.0.2"), "[n2] [] []"},
		{"both without names", peersOf(self, "10.0.0.2=:dead", "10.0.0.3=:unknown"), "n1", "n[1-3]", addressesOf("n2=10.0.0.2", "n3=10.0.0.3"), "[n2] [n3] []"},
		{"its address tells that it is another", peersOf("10.0.0.1=:self", "10.0.0.2=:connected", "10.0.0.3=:dead"), "n1", "n[1-2]", addressesOf("n2=10.0.0.2"), "[] [] []"},
		{"its address is not in the domain", peersOf("10.0.0.1=:self", "10.0.0.3=:dead"), "n1", "n1,m1", addressesOf("m1=10.0.1.1"), "[] [m1] [10.0.0.3]"},
		{"its address is in another network", peersOf("10.0.0.1=:self", "10.0.0.2=:dead"), "n1", "n[1-2]", addressesOf("n1=192.0.2.1", "n2=192.0.2.2"), "[] [n2] [10.0.0.2]"},
		{"it has no address", peersOf("10.0.0.1=:self", "10.0.0.2=:dead"), "n1", "n[1-2]", addressesOf("n1=10.0.0.1"), "[] [n2] [10.0.0.2]"},
		{"the address of this node", peersOf("10.0.0.1=:self", "10.0.0.2=:dead"), "n1", "n[1-2]", addressesOf("n1=192.0.2.1", "n2=10.0.0.1"), "[] [n2] [10.0.0.2]"},
		{"this node has another name in the domain", peersOf("10.0.0.1=ip-10-0-0-1:self", "10.0.0.2=n2:dead", "10.0.0.3=ip-10-0-0-3:dead"), "n1", "n[1-2]", nil, "[] [n2] [10.0.0.2 10.0.0.3]"},
		{"and the addresses tell", peersOf("10.0.0.1=ip-10-0-0-1:self", "10.0.0.2=n3:connected", "10.0.0.3=ip-10-0-0-3:dead"), "n1", "n[1-3]", addressesOf("n2=10.0.0.2", "n3=10.0.0.3"), "[n3] [] []"},
		{"this node has no name in the domain", peersOf("10.0.0.1=:self", "10.0.0.2=n2:dead"), "n1", "n[1-2]", nil, "[] [n2] [10.0.0.2]"},
		{"nobody has a name", peersOf("10.0.0.1=:self", "10.0.0.2=:dead"), "", "n[1-2]", nil, "[] [n1 n2] [10.0.0.2]"},
		{"addresses as names in Slurm", peersOf("10.0.0.1=:self", "10.0.0.2=:dead"), "10.0.0.1", "10.0.0.[1-2]", addressesOf("10.0.0.1=10.0.0.1", "10.0.0.2=10.0.0.2"), "[10.0.0.2] [] []"},
		{"a list that cannot be read", peersOf(self, "10.0.0.2=n2:dead"), "n1", "n[1-2", nil, "[] [n[1-2] []"},
		{"this node alone", peersOf(self, "10.0.0.2=:dead"), "n1", "n1", nil, "[] [] []"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := testGate(true)
			g.Node, g.Peers = "in-kubernetes", tt.peers
			p := g.PeersOf(tt.node, tt.list, tt.addresses)
			if got := fmt.Sprint(p.Missing, p.Unknown, p.Unnamed); got != tt.want || p.Apart != (len(p.Missing) > 0) {
				t.Errorf("got %s, apart %t, want %s", got, p.Apart, tt.want)
			}
		})
	}
	g := testGate(true)
	g.PeersUnknown = "nobody says it"
	if p := g.PeersOf("n1", "n[1-3]", nil); fmt.Sprint(p.Missing, p.Unknown, p.Unnamed) != "[] [n2 n3] []" || p.Apart {
		t.Errorf("%+v", p)
	}
}

// FuzzGate has whatever is read as a gate be written and read again, and compared
// with a job's nodes.
func FuzzGate(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"quoin.dev/v1alpha1","kind":"Gate","node":"n1","clique":"c.1","members":[{"node":"n1"},{"node":"n2","ready":true}]}`), "n1", "n[1-3]")
	f.Add([]byte(`{"apiVersion":"quoin.dev/v1alpha1","kind":"Gate","node":"","members":[{},{}]}`), "", ",")
	f.Add([]byte(`{"apiVersion":"quoin.dev/v1alpha1","kind":"Gate","node":"n1","ready":true,"peers":[{"address":"10.0.0.1","name":"n1","state":"self"},{"address":"10.0.0.2","state":"dead"}]}`), "n1", "n[1-3]")
	f.Fuzz(func(t *testing.T, data []byte, node, list string) {
		run := t.TempDir()
		if err := os.WriteFile(filepath.Join(run, FileName), data, 0o600); err != nil {
			t.Fatal(err)
		}
		g, _, err := Read(run)
		if err != nil {
			return
		}
		if err := Write(run, *g); err != nil {
			t.Fatal(err)
		}
		again, _, err := Read(run)
		if diff := cmp.Diff(g, again, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Fatalf("%v (-want +got):\n%s", err, diff)
		}
		for _, addresses := range []Addresses{nil, {"n2": {"10.0.0.2"}}} {
			p := g.PeersOf(node, list, addresses)
			if len(p.Unnamed) > 0 && len(p.Unknown) == 0 || p.Apart && len(p.Missing) == 0 {
				t.Errorf("%+v", p)
			}
		}
	})
}
