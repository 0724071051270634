package publisher

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/topology"
)

// nodeMarks are the features and labels of Nodes in a memory, by node and key, and who owns a key beside
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
	if value != "" && owner != "" && key != plandoc.FeaturesAnnotation {
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
	for key, value := range m.values[n.Name] {
		if key == plandoc.FeaturesAnnotation || key == plandoc.FeaturesWritten {
			n.Annotations[key] = value
		} else {
			n.Labels[key] = value
		}
	}
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
	for _, all := range []map[string]string{change.Annotations, change.Labels} {
		for key, value := range all {
			if key != plandoc.SpecAnnotation {
				m.set(n.Name, key, value, "")
			}
		}
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

func TestWithTokens(t *testing.T) {
	const own = "quoin-leaf-sw7,quoin-mig-1g.10gb"
	for _, tt := range []struct{ list, tokens, want string }{
		{"", own, own},
		{"", "", ""},
		{"nn-75bf,GPU", own, "nn-75bf,GPU," + own},
		{"quoin-leaf-sw6,nn-75bf,quoin-product-NVIDIA-GB200,GPU", own, "nn-75bf,GPU," + own},
		{"nn-75bf, quoin-leaf-sw6 ,, GPU", own, "nn-75bf, GPU," + own},
		{own, "", ""},
		{"nn-75bf," + own, "", "nn-75bf"},
		{"quoin-theirs,quoin", "", "quoin-theirs,quoin"},
	} {
		if got := withTokens(tt.list, tt.tokens); got != tt.want {
			t.Errorf("%q with %q: %q, want %q", tt.list, tt.tokens, got, tt.want)
		}
	}
}

func TestTokens(t *testing.T) {
	gpus := func(all ...topology.GPU) *topology.Node { return &topology.Node{Name: "n1", GPUs: all} }
	h100 := topology.GPU{Product: "NVIDIA H100 80GB HBM3"}
	mig := func(profiles ...string) topology.GPU {
		g := h100
		for _, p := range profiles {
			g.MIG = append(g.MIG, topology.MIGInstance{Profile: p})
		}
		return g
	}
	const product = "quoin-product-NVIDIA-H100-80GB-HBM3"
	var many []topology.GPU
	for i := range 20 {
		many = append(many, topology.GPU{Product: fmt.Sprintf("P%02d", i)})
	}
	for name, tt := range map[string]struct {
		facts     *topology.Facts
		leaf, old string
		want      string
	}{
		"nobody's node":       {nil, "", product + ",quoin-leaf-sw7", ""},
		"a report":            {&topology.Facts{Report: gpus(h100, h100)}, "sw7", "", product + ",quoin-leaf-sw7"},
		"no leaf":             {&topology.Facts{Report: gpus(h100)}, "", product + ",quoin-leaf-sw7", product},
		"MIG":                 {&topology.Facts{Report: gpus(mig("3g.40gb", "1g.10gb+me"), h100, mig("3g.40gb"))}, "", "", product + ",quoin-mig-1g.10gb.me,quoin-mig-3g.40gb"},
		"MIG is off now":      {&topology.Facts{Report: gpus(h100)}, "", product + ",quoin-mig-3g.40gb", product},
		"a profile unread":    {&topology.Facts{Report: gpus(mig("3g.40gb", ""))}, "", product + ",quoin-mig-1g.10gb", product + ",quoin-mig-1g.10gb"},
		"no report now":       {&topology.Facts{}, "sw8", product + ",quoin-leaf-sw7,quoin-mig-3g.40gb", product + ",quoin-leaf-sw8,quoin-mig-3g.40gb"},
		"labels alone":        {&topology.Facts{Labels: topology.Labels{Product: "NVIDIA H100 80GB HBM3"}}, "", "", product},
		"a report of no GPU":  {&topology.Facts{Report: gpus()}, "", product + ",quoin-mig-3g.40gb", product + ",quoin-mig-3g.40gb"},
		"products":            {&topology.Facts{Report: gpus(h100, topology.GPU{Product: "NVIDIA L4"})}, "", "", product + ",quoin-product-NVIDIA-L4"},
		"a product of no use": {&topology.Facts{Report: gpus(topology.GPU{Product: "a,b|c"})}, "", "", "quoin-product-" + markValue("a,b|c")},
	} {
		w := wanted{facts: tt.facts, labels: [4]string{1: tt.leaf}}
		if got := w.tokens(tt.old); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
	w := wanted{facts: &topology.Facts{Report: gpus(many...)}}
	if got := strings.Count(w.tokens(""), ","); got != maxTokens-1 {
		t.Errorf("%d commas of a machine that names 20 products", got)
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
