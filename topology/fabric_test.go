package topology_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/topology"
)

// TestCliqueString holds that the text of a clique costs one allocation: a pass over
// 10,000 nodes makes as many.
func TestCliqueString(t *testing.T) {
	c := topology.Clique{ClusterUUID: topology.UUID{0: 0x8a, 1: 0x61, 2: 0xc3, 3: 0x02, 7: 0x45, 15: 0xff}, ID: 4294967295}
	const want = "8a61c302-0000-0045-0000-0000000000ff.4294967295"
	if got := c.String(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if n := testing.AllocsPerRun(100, func() { _ = c.String() }); n != 1 {
		t.Errorf("%v allocations, want 1", n)
	}
}

func TestParseClique(t *testing.T) {
	const uuid = "8a61c302-0000-0045-0000-0000000000ff"
	for text, want := range map[string]string{
		uuid + ".7":                              "",
		"00000000-0000-0000-0000-000000000000.0": "no NVLink domain",
		"N/A":                                    "no NVLink domain", "N/A.N/A": "no NVLink domain", "n_a.n_a": "no NVLink domain", "NA.NA": "no NVLink domain",
		uuid: "want <cluster UUID>.<clique id>", "x.7": "want <cluster UUID>.<clique id>", uuid + ".x": "want",
	} {
		c, err := topology.ParseClique(text)
		if want == "" && (err != nil || c.String() != text) || want != "" && (err == nil || !strings.Contains(err.Error(), want) || errors.Is(err, topology.ErrNoDomain) != (want == "no NVLink domain")) {
			t.Errorf("%s: %s, %v, want %q", text, c, err, want)
		}
	}
}

// TestJoined takes a domain only if all GPUs say the same of it.
func TestJoined(t *testing.T) {
	clique := topology.Clique{ClusterUUID: topology.UUID{1}, ID: 7}
	in := topology.Fabric{ClusterUUID: clique.ClusterUUID, CliqueID: 7, State: topology.FabricCompleted}
	other, none, waits := in, topology.Fabric{State: topology.FabricNotSupported}, topology.Fabric{State: topology.FabricInProgress}
	other.CliqueID = 8
	joined := topology.NVLinkDomain{Clique: clique}
	for _, tt := range []struct {
		name string
		gpus []topology.Fabric
		want topology.NVLinkDomain
	}{
		{"no GPU", nil, topology.NVLinkDomain{}},
		{"one", []topology.Fabric{in}, joined},
		{"two", []topology.Fabric{in, in}, joined},
		{"two that differ", []topology.Fabric{in, other}, topology.NVLinkDomain{}},
		{"one waits", []topology.Fabric{in, waits}, topology.NVLinkDomain{}},
		{"the first waits", []topology.Fabric{waits, in}, topology.NVLinkDomain{}},
		{"none to join", []topology.Fabric{none, none}, topology.NVLinkDomain{None: true}},
		{"none, and one that joined", []topology.Fabric{none, in}, topology.NVLinkDomain{}},
	} {
		n := topology.Node{Name: "n"}
		for _, f := range tt.gpus {
			n.GPUs = append(n.GPUs, topology.GPU{Fabric: f})
		}
		if got := n.Joined(); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

// TestTiers takes the switches of the report before those of labels, and none of a node that stays.
func TestTiers(t *testing.T) {
	labels := topology.Labels{Tiers: []string{"label"}}
	for _, tt := range []struct {
		name  string
		facts topology.Facts
		want  string
	}{
		{"labels", topology.Facts{Labels: labels}, "[label]"},
		{"a report without switches", topology.Facts{Labels: labels, Report: &topology.Node{}}, "[label]"},
		{"a report", topology.Facts{Labels: labels, Report: &topology.Node{Tiers: []string{"report"}}}, "[report]"},
		{"a node that stays", topology.Facts{Labels: labels, Stays: "it is gone"}, "[]"},
	} {
		if got := fmt.Sprint(tt.facts.Tiers()); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestNamesDomain(t *testing.T) {
	for _, tt := range []struct {
		labels topology.Labels
		want   bool
		text   string
	}{
		{topology.Labels{}, false, ""},
		{topology.Labels{Domains: []topology.Domain{{Key: "k", Value: "v"}}}, true, topology.Domain{Key: "k", Value: "v"}.String()},
		{topology.Labels{Clique: topology.Clique{ClusterUUID: topology.UUID{1}, ID: 2}}, true, "clique 01000000-0000-0000-0000-000000000000.2"},
	} {
		if got := tt.labels.NamesDomain(); got != tt.want || got && tt.labels.DomainText() != tt.text {
			t.Errorf("%+v: %t, want %t and %q", tt.labels, got, tt.want, tt.text)
		}
	}
}

// TestGPUCount takes the report first, then labels, slices and capacity.
func TestGPUCount(t *testing.T) {
	node := func(gpus int) *topology.Node {
		minor := 0
		n := &topology.Node{}
		for range gpus {
			n.GPUs = append(n.GPUs, topology.GPU{Minor: &minor, Product: "NVIDIA H100"})
		}
		return n
	}
	for _, tt := range []struct {
		name   string
		facts  topology.Facts
		want   int
		listed bool
	}{
		{"capacity", topology.Facts{Capacity: 1}, 1, false},
		{"slices without a GPU", topology.Facts{Capacity: 1, Slices: node(0)}, 1, false},
		{"slices", topology.Facts{Capacity: 1, Slices: node(2)}, 2, true},
		{"slices of a product that nobody knows", topology.Facts{Slices: &topology.Node{GPUs: []topology.GPU{{Minor: new(0)}}}}, 1, false},
		{"slices without a minor number", topology.Facts{Slices: &topology.Node{GPUs: []topology.GPU{{Product: "NVIDIA H100"}}}}, 1, false},
		{"labels", topology.Facts{Capacity: 1, Slices: node(2), Labels: topology.Labels{GPUs: 3}}, 3, true},
		{"a report", topology.Facts{Capacity: 1, Slices: node(2), Labels: topology.Labels{GPUs: 3}, Report: node(4)}, 4, false},
		{"a report without a GPU", topology.Facts{Capacity: 1, Slices: node(2), Report: node(0)}, 0, false},
	} {
		if got := tt.facts.GPUCount(); got != tt.want {
			t.Errorf("%s: %d GPUs, want %d", tt.name, got, tt.want)
		}
		if got := tt.facts.Listed(); (got != &tt.facts) != tt.listed || tt.listed && got.Report != tt.facts.Slices {
			t.Errorf("%s: %+v has the slices as its report: want %t", tt.name, got, tt.listed)
		}
	}
}
