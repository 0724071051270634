package publisher

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/topology"
)

// nodeMarks are the labels of Nodes in a memory, by node and key, and who owns a key beside
// the publisher.
type nodeMarks struct {
	values, owners map[string]map[string]string
	// changed are Nodes of which somebody changes something at each write, so often.
	changed map[string]int
}

// set sets a key as another writer does. Nobody owns what is empty.
func (m *nodeMarks) set(node, key, value, owner string) {
	for _, all := range []*map[string]map[string]string{&m.values, &m.owners} {
		if *all == nil {
			*all = map[string]map[string]string{}
		}
		if (*all)[node] == nil {
			(*all)[node] = map[string]string{}
		}
	}
	delete(m.values[node], key)
	delete(m.owners[node], key)
	if value != "" {
		m.values[node][key] = value
	}
	if value != "" && owner != "" {
		m.owners[node][key] = owner
	}
}

// show adds the marks to the Node of a snapshot.
func (m *nodeMarks) show(n *inputs.Node) {
	n.Labels = maps.Clone(n.Labels) // the snapshot before had the labels of that time
	maps.DeleteFunc(n.Labels, func(key, _ string) bool { return slices.Contains(plandoc.NodeLabels, key) })
	if n.Labels == nil && len(m.values[n.Name]) > 0 {
		n.Labels = map[string]string{}
	}
	maps.Copy(n.Labels, m.values[n.Name])
	for key, owner := range m.owners[n.Name] {
		if n.Foreign == nil {
			n.Foreign = map[string]string{}
		}
		n.Foreign[key] = owner
	}
}

// write writes what the publisher changes.
func (m *nodeMarks) write(n *inputs.Node, change inputs.Marks) error {
	if m.changed[n.Name] > 0 {
		m.changed[n.Name]--
		return plandoc.ErrNodeChanged
	}
	for key, value := range change.Labels {
		m.set(n.Name, key, value, "")
	}
	return nil
}

func TestMarkValue(t *testing.T) {
	for name, want := range map[string]string{
		"": "", "nvl-8a61c302-1": "nvl-8a61c302-1", "NVIDIA-GB200": "NVIDIA-GB200", "1g.10gb.me": "1g.10gb.me", strings.Repeat("x", 63): strings.Repeat("x", 63),
		"sw7/p3": "sw7-p3-HASH", "-x": "x-HASH", "Ä": "HASH", "sw7-": "sw7-HASH", strings.Repeat("leaf.", 13): strings.Repeat("leaf.", 10) + "leaf-HASH",
	} {
		sum := sha256.Sum256([]byte(name))
		want = strings.Replace(want, "HASH", hex.EncodeToString(sum[:4]), 1)
		if got := markValue(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

func TestPlacesOfPlan(t *testing.T) {
	clique, err := topology.ParseClique("8a61c302-0000-4000-8000-000000000001.3")
	if err != nil {
		t.Fatal(err)
	}
	places := placesOfPlan(&topology.Plan{Topologies: []topology.Topology{
		{Name: "nvl", Kind: topology.KindBlock, Blocks: []topology.Block{{Name: "nvl-a", Clique: clique}, {Name: "nvl-b"}}},
		{Name: "fabric", Kind: topology.KindTree, Switches: []topology.Switch{
			{Name: "sw1"}, {Name: "sw2"}, {Name: "sw3", Joined: true}, {Name: "spine/1", Children: topology.Names{"sw1", "sw2"}}, {Name: "root", Children: topology.Names{"spine/1", "sw3"}}}},
		{Name: "flat", Kind: topology.KindFlat},
	}})
	for spec, want := range map[string][4]string{
		"nvl:nvl-a,fabric:sw1": {"nvl-a", "sw1", markValue("spine/1"), clique.String()},
		"nvl:nvl-b":            {"nvl-b"},
		"fabric:sw3":           {1: "sw3"}, // no label names the switch above it
		"nvl:gone,fabric:sw2":  {1: "sw2", 2: markValue("spine/1")},
		"":                     {},
		"fabric:root":          {},
	} {
		if got := places.of(spec); got != want {
			t.Errorf("%q: %q, want %q", spec, got, want)
		}
	}
}

func FuzzMarkValue(f *testing.F) {
	for _, name := range []string{"", "a", "sw7/p3", "-", "a b", strings.Repeat("x", 64), "é", "a.", "\xff"} {
		f.Add(name, name+"x")
	}
	f.Fuzz(func(t *testing.T, name, other string) {
		got := markValue(name)
		if got != "" && !inputs.IsLabelValue(got) || (got == "") != (name == "") {
			t.Errorf("%q: %q is no label's value", name, got)
		}
		if name != other && !inputs.IsLabelValue(other) && markValue(other) == got {
			t.Errorf("%q and %q are both %q", name, other, got)
		}
	})
}
