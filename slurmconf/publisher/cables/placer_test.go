package cables

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/switches"
)

// hosts is a text of two leaves that a cable joins. Each adapter, by GUID, is on one of them.
func hosts(t *testing.T, leaf map[uint64]int) []inputs.FabricText {
	t.Helper()
	var text strings.Builder
	for s := range 2 {
		fmt.Fprintf(&text, "Switch\t64 \"S-%016x\"\t\t# \"leaf\" base port 0 lid 1 lmc 0\n[60]\t\"S-%016x\"[60]\t\t# \"leaf\" lid 1 4xNDR\n", s+1, 2-s)
		for guid, at := range leaf {
			if at == s {
				fmt.Fprintf(&text, "[%d]\t\"H-%016x\"[1](%x) \t\t# \"a b c\" lid 1 4xNDR\n", guid, guid, guid)
			}
		}
	}
	for guid, at := range leaf {
		fmt.Fprintf(&text, "Ca\t1 \"H-%016x\"\t\t# \"a b c\"\n[1](%x) \t\"S-%016x\"[%d]\t\t# lid 1 lmc 0 \"leaf\" lid 1 4xNDR\n", guid, guid, at+1, guid)
	}
	fabric, err := switches.Read(strings.NewReader(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	return []inputs.FabricText{{Name: "text", Fabric: fabric}}
}

// report returns a report with adapters by GUID and rate.
func report(node string, rates map[string]int) *topology.Node {
	n := &topology.Node{Name: node}
	for _, guid := range []string{"000000000000000b", "000000000000000c"} {
		if rate, ok := rates[guid]; ok {
			n.Adapters = append(n.Adapters, topology.Adapter{Name: "mlx5_" + guid[15:], NodeGUID: guid, Ports: []topology.AdapterPort{{Port: 1, GUID: guid, LinkLayer: topology.LinkInfiniBand, RateGbps: rate}}})
		}
	}
	return n
}

// TestAdaptersWithoutCable: an adapter that never had a link does not keep a node where it is published
// when the node has moved. One that had a link does, because its cable is missing.
func TestAdaptersWithoutCable(t *testing.T) {
	prev := &topology.Plan{Topologies: []topology.Topology{{Kind: topology.KindTree, Switches: []topology.Switch{
		{Name: "here", Nodes: topology.Names{"n1", "n2", "n2b"}}, {Name: "there", Nodes: topology.Names{"n3"}}}}}}
	texts := hosts(t, map[uint64]int{1: 0, 2: 0, 0xb: 1, 5: 1})
	for want, rate := range map[string]int{"there": 0, "here": 400} {
		facts := []topology.Facts{{Name: "n1", SlurmName: "n1", Report: report("n1", map[string]int{"000000000000000b": 400, "000000000000000c": rate})}}
		placer := &Placer{Described: map[string][]switches.Adapter{}}
		for node, guid := range map[string]string{"n2": "1", "n2b": "2", "n3": "5"} {
			facts = append(facts, topology.Facts{Name: node, SlurmName: node})
			placer.Described[node] = []switches.Adapter{{GUIDs: []string{guid}}}
		}
		placed, _, _ := placer.Place(texts, nil, facts, prev, nil)
		if got := placed[0].Cables.Tiers[0]; got != want {
			t.Errorf("the second adapter had %d Gbit/s: n1 is below %q, want %q", rate, got, want)
		}
	}
}

// TestDescribed: descriptions count for nodes whose report has no adapters.
func TestDescribed(t *testing.T) {
	texts := hosts(t, map[uint64]int{0xb: 0, 0xc: 1})
	facts := []topology.Facts{
		{Name: "n1", SlurmName: "n1", Report: report("n1", map[string]int{"000000000000000b": 400})},
		{Name: "n2", SlurmName: "n2", Report: report("n2", nil)}, {Name: "n3", SlurmName: "n3"}, {Name: "n4", SlurmName: "n4"},
	}
	there := []switches.Adapter{{GUIDs: []string{"c"}}}
	placed, _, _ := (&Placer{Described: map[string][]switches.Adapter{"n1": there, "n2": there, "n3": there}}).Place(texts, nil, facts, nil, nil)
	var got []string
	for _, f := range placed {
		got = append(got, f.Name+" "+strings.Join(f.Cables.Tiers, " ")+f.Cables.Missing)
	}
	if diff := cmp.Diff([]string{
		"n1 leaf-0000000000000001 fabric-0000000000000001", "n2 leaf-0000000000000002 fabric-0000000000000001",
		"n3 leaf-0000000000000002 fabric-0000000000000001", "n4 no report says its adapters, and no adapter is described with its name",
	}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	placed, _, _ = new(Placer).Place(texts, nil, facts, nil, nil)
	if got := placed[2].Cables.Missing; got != "no report says its adapters" {
		t.Errorf("without descriptions: %q", got)
	}
}

// TestLLDPBesideText: LLDP counts for nodes that no text has, and a later look at a node says the same.
func TestLLDPBesideText(t *testing.T) {
	far := report("n2", nil)
	far.Adapters = []topology.Adapter{{Name: "eth1", Ports: []topology.AdapterPort{{Port: 1, RateGbps: 400, Neighbor: topology.Neighbor{ChassisID: "0c:42:a1:00:00:01"}}}}}
	facts := []topology.Facts{{Name: "n1", SlurmName: "n1", Report: report("n1", map[string]int{"000000000000000b": 400})}, {Name: "n2", SlurmName: "n2", Report: far}, {Name: "n3", SlurmName: "n3"}}
	texts := hosts(t, map[uint64]int{0xb: 0})
	all := topology.SourceTiers{TierSource: topology.SourceCables, Tiers: []string{"leaf-0000000000000001", "spine-0000000000000002"}}
	leaf := topology.SourceTiers{TierSource: topology.SourceCables, Tiers: []string{"leaf-0c42a1000001"}}
	var placer Placer
	placed, _, _ := placer.Place(texts, nil, facts, nil, nil)
	want := []topology.Cables{{SourceTiers: all}, {SourceTiers: leaf, ByLLDP: true}, {Missing: "no report says its adapters"}}
	for i, f := range placed {
		if diff := cmp.Diff(want[i], f.Cables); diff != "" {
			t.Errorf("%s (-want +got):\n%s", f.Name, diff)
		}
		want[i].Missing = ""
		if diff := cmp.Diff(want[i], placer.Last(texts, f.Name)); diff != "" {
			t.Errorf("%s, later (-want +got):\n%s", f.Name, diff)
		}
		if diff := cmp.Diff(topology.Cables{}, placer.Last(hosts(t, nil), f.Name)); diff != "" {
			t.Errorf("%s, by another text (-want +got):\n%s", f.Name, diff)
		}
	}
}

// TestLLDPWithoutTexts: neighbours count if they are at an adapter for compute. Neighbours of other adapters say nothing of
// the cables.
func TestLLDPWithoutTexts(t *testing.T) {
	swp := topology.Neighbor{ChassisID: "0c:42:a1:00:00:01"}
	leaf := topology.SourceTiers{TierSource: topology.SourceLLDP, Tiers: []string{"leaf-0c42a1000001"}}
	for name, at := range map[string]struct {
		compute, other topology.Neighbor
		cables         topology.Cables
	}{
		"at compute": {swp, topology.Neighbor{}, topology.Cables{SourceTiers: leaf, ByLLDP: true}},
		"at another": {topology.Neighbor{}, swp, topology.Cables{}},
	} {
		n := report("n1", nil)
		for adapter, neighbor := range map[string]topology.Neighbor{"compute": at.compute, "other": at.other} {
			n.Adapters = append(n.Adapters, topology.Adapter{Name: adapter, Ports: []topology.AdapterPort{{Port: 1, RateGbps: 400, Neighbor: neighbor}}})
		}
		placed, _, _ := new(Placer).Place(nil, []string{"compute"}, []topology.Facts{{Name: "n1", SlurmName: "n1", Report: n}}, nil, nil)
		if diff := cmp.Diff(at.cables, placed[0].Cables); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestCutOff bounds the finding: all leaves may be cut off when the spines are off.
func TestCutOff(t *testing.T) {
	for want, names := range map[string][]string{
		"": nil,
		"no cable leads up from a, b; the switches published above stay":               {"a", "b"},
		"no cable leads up from a, b, c and 2 more; the switches published above stay": {"a", "b", "c", "d", "e"},
	} {
		got := ""
		for _, f := range cutOff(names) {
			got += f.Message
		}
		if got != want {
			t.Errorf("%q: %q, want %q", names, got, want)
		}
	}
}

// TestDoubtfulAdapters: a node whose adapters for compute are not certain has a problem, while cables
// place nodes and the site does not name the adapters.
func TestDoubtfulAdapters(t *testing.T) {
	of := func(name, layer string, rate int) topology.Adapter {
		guid := "000000000000000" + name[len(name)-1:]
		return topology.Adapter{Name: name, NodeGUID: guid, Ports: []topology.AdapterPort{{Port: 1, GUID: guid, LinkLayer: layer, RateGbps: rate}}}
	}
	facts := []topology.Facts{
		{Name: "sure", SlurmName: "sure", Report: report("sure", map[string]int{"000000000000000b": 400})},
		{Name: "unsure", SlurmName: "unsure", Report: &topology.Node{Name: "unsure", Adapters: []topology.Adapter{of("mlx5_c", topology.LinkInfiniBand, 100), of("eth_d", topology.LinkEthernet, 400)}}},
	}
	texts := hosts(t, map[uint64]int{0xb: 0, 0xc: 1})
	doubt := []topology.Finding{{Subject: topology.Subject{Node: "unsure"}, Severity: topology.Warning, Reason: topology.ReasonAdaptersUnsure,
		Message: "jobs may compute with mlx5_c, with eth_d, or with both; set computeAdapters"}}
	for _, tt := range []struct {
		name  string
		texts []inputs.FabricText
		names []string
		want  []topology.Finding
	}{
		{"cables place the nodes", texts, nil, doubt},
		{"nothing shows cables", nil, nil, nil},
		{"the site names the adapters", texts, []string{"mlx5_*"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			placer := &Placer{}
			for range 2 { // the second time from memory
				_, _, got := placer.Place(tt.texts, tt.names, facts, nil, nil)
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("(-want +got)\n%s", diff)
				}
			}
		})
	}
}
