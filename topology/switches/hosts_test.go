package switches

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
)

func TestHostOf(t *testing.T) {
	for text, want := range map[string]string{
		"n07 mlx5_0": "n07", "a06-p1-dgx-02-c18 HCA-6": "a06-p1-dgx-02-c18", "n07.example.com hfi1_0": "n07.example.com", "n07 mlx5_bond_0": "n07",
		"atlas35": "atlas35", "n07 ibp12s0": "n07", "n07 rocep1s0f1": "n07",
		"MT4129 ConnectX7   Mellanox Technologies": "", "Mellanox Technologies Aggregation Node": "", "": "", "mlx5_0": "", "HCA-1": "",
		"a,b mlx5_0": "", "n[1-3] mlx5_0": "", "two words": "",
	} {
		if got := hostOf(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestHosts: descriptions name hosts, for those that have no reports.
func TestHosts(t *testing.T) {
	f, err := Read(strings.NewReader(small))
	if err != nil {
		t.Fatal(err)
	}
	l := newLab()
	l.leaf("leaf")
	l.host("n08", "leaf", "leaf")
	for i := range 5 {
		name := string(rune('a' + i))
		l.add(adapterKind, name, "MT4129 ConnectX7")
		l.join(name, "leaf", 1)
	}
	l.add(adapterKind, "odd", "x y z")
	l.join("odd", "leaf", 1)
	hosts, nameless := Hosts([]*Fabric{f, f, l.fabric()})
	if diff := cmp.Diff([]Node{
		{Name: "n07", Adapters: []Adapter{{GUIDs: []string{"e09d730300859298"}}}},
		{Name: "n08", Adapters: []Adapter{{GUIDs: []string{"e09d730300000020"}}, {GUIDs: []string{"e09d730300000030"}}}},
	}, hosts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]topology.Finding{
		{Severity: topology.Warning, Reason: ReasonAdapterNameless, Message: `the nodes of 5 adapters are not known: their description "MT4129 ConnectX7" names no host, and no report has their GUIDs: e09d730300000040, e09d730300000050, e09d730300000060 and 2 more`},
		{Severity: topology.Warning, Reason: ReasonAdapterNameless, Message: `the node of adapter e09d730300000090 is not known: its description "x y z" names no host, and no report has its GUID`},
	}, FindNameless(nameless)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
