package publisher

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/test/rig/put"
	"github.com/quoin-hpc/quoin/test/rig/sites"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/placement"
	"github.com/quoin-hpc/quoin/topology/simulated"
	"github.com/quoin-hpc/quoin/topology/switches"
)

// cabling is a fabric that tests build, break and write as ibnetdiscover does.
type cabling struct {
	wires []wire
	// swapped counts how often a switch was replaced.
	swapped map[string]int
}

// wire joins two boxes. The first is a switch, and so is the second unless it has a rail.
type wire struct {
	a, b string
	rail int // of the machine b, or -1
}

func newCabling() *cabling { return &cabling{swapped: map[string]int{}} }

// rack puts machines on one leaf for each rail, and the leaves on spines.
func (c *cabling) rack(name string, machines []string, rails, spines int) {
	for rail := range rails {
		leaf := fmt.Sprintf("%s-rail%d", name, rail)
		for _, m := range machines {
			c.wires = append(c.wires, wire{leaf, m, rail})
		}
		for s := range spines {
			c.wires = append(c.wires, wire{leaf, fmt.Sprintf("spine%d", s), -1})
		}
	}
}

// pull takes a machine's cable out.
func (c *cabling) pull(machine string, rail int) {
	c.wires = slices.DeleteFunc(slices.Clone(c.wires), func(w wire) bool { return w.b == machine && w.rail == rail })
}

func (c *cabling) guid(of string, rail int) string {
	if rail >= 0 {
		return simulated.GUID(of, rail)
	}
	sum := sha256.Sum256(fmt.Append(nil, of, c.swapped[of]))
	return fmt.Sprintf("%x", sum[:8])
}

// text writes the fabric.
func (c *cabling) text() string {
	type box struct {
		name, guid string
		rail       int
		lines      []string
	}
	boxes, order := map[string]*box{}, []*box(nil)
	get := func(name string, rail int) *box {
		key := fmt.Sprint(name, " ", rail)
		if boxes[key] == nil {
			boxes[key] = &box{name: name, guid: c.guid(name, rail), rail: rail}
			order = append(order, boxes[key])
		}
		return boxes[key]
	}
	for _, w := range c.wires {
		a, b := get(w.a, -1), get(w.b, w.rail)
		portA, portB := len(a.lines)+1, len(b.lines)+1
		if w.rail < 0 {
			a.lines = append(a.lines, fmt.Sprintf("[%d]\t\"S-%s\"[%d]\t\t# %q lid 7 4xNDR\n", portA, b.guid, portB, b.name))
			b.lines = append(b.lines, fmt.Sprintf("[%d]\t\"S-%s\"[%d]\t\t# %q lid 7 4xNDR\n", portB, a.guid, portA, a.name))
			continue
		}
		a.lines = append(a.lines, fmt.Sprintf("[%d]\t\"H-%s\"[%d](%s) \t\t# \"%s mlx5_%d\" lid 7 4xNDR\n", portA, b.guid, portB, b.guid, b.name, b.rail))
		b.lines = append(b.lines, fmt.Sprintf("[%d](%s) \t\"S-%s\"[%d]\t\t# lid 9 lmc 0 %q lid 7 4xNDR\n", portB, b.guid, a.guid, portA, a.name))
	}
	var s strings.Builder
	s.WriteString("#\n# Topology file: generated on Wed Aug  6 16:11:23 2025\n#\n")
	for _, b := range order {
		fmt.Fprintf(&s, "\nvendid=0x2c9\ndevid=0xd2f2\nsysimgguid=0x%s\n", b.guid)
		if b.rail < 0 {
			fmt.Fprintf(&s, "switchguid=0x%[1]s(%[1]s)\nSwitch\t65 \"S-%[1]s\"\t\t# %[2]q enhanced port 0 lid 73 lmc 0\n", b.guid, b.name)
		} else {
			fmt.Fprintf(&s, "caguid=0x%[1]s\nCa\t1 \"H-%[1]s\"\t\t# \"%[2]s mlx5_%[3]d\"\n", b.guid, b.name, b.rail)
		}
		s.WriteString(strings.Join(b.lines, ""))
	}
	return s.String()
}

// fabric reads the text.
func (c *cabling) fabric(t testing.TB) *switches.Fabric {
	t.Helper()
	f, err := switches.Read(strings.NewReader(c.text()))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// railed are HGX machines with 8 rails and without a label. Each rack has 16.
const railed = `name: HGX
groups:
- {name: a, racks: %d, nodes: 16, node: "h{node:02}", rails: 8, gpus: {count: 8, product: NVIDIA H100 80GB HBM3, memoryMiB: 81559, numaNodes: 2, cpus: 112, nvlinks: 18}}
`

// railedSite is a site of racks with its cables.
func railedSite(t testing.TB, racks int) (*inputs.Snapshot, *cabling) {
	t.Helper()
	c := newCabling()
	for r := range racks {
		var machines []string
		for i := range 16 {
			machines = append(machines, fmt.Sprintf("h%02d", 16*r+i+1))
		}
		c.rack(fmt.Sprintf("rack%d", r+1), machines, 8, 4)
	}
	snap := snapshotOf(sites.Parse(t, fmt.Sprintf(railed, racks)))
	snap.Fabrics = map[string][]inputs.FabricText{fabricPath: {{Name: fabricPath, Fabric: c.fabric(t)}}}
	return snap, c
}

const fabricPath = "/fabric.txt"

// with returns the snapshot with another text.
func with(t testing.TB, snap *inputs.Snapshot, c *cabling) *inputs.Snapshot {
	t.Helper()
	next := *snap
	next.Fabrics = map[string][]inputs.FabricText{fabricPath: {{Name: fabricPath, Fabric: c.fabric(t)}}}
	return &next
}

// changed returns the lines of topology.yaml that differ.
func changed(old, next string) []string {
	var out []string
	before, after := strings.Split(old, "\n"), strings.Split(next, "\n")
	for _, line := range before {
		if !slices.Contains(after, line) {
			out = append(out, "-"+line)
		}
	}
	for _, line := range after {
		if !slices.Contains(before, line) {
			out = append(out, "+"+line)
		}
	}
	return out
}

// TestCables publishes a site of 64 machines with 8 rails and no label, and changes its cables.
func TestCables(t *testing.T) {
	snap, c := railedSite(t, 4)
	store := newMemory(snap)
	inBubble(t, store, complete(t, Publication{SettleTime: Duration{Duration: 10 * time.Second}, FabricFiles: []string{fabricPath}}), func() {
		store.pass(10 * time.Minute)
		first := topologyOf(store)
		for r := range 4 {
			if list := fmt.Sprintf("nodes: h[%02d-%02d]\n", 16*r+1, 16*r+16); !strings.Contains(first, list) {
				t.Fatalf("no leaf with %s:\n%s", list, first)
			}
		}
		if n := strings.Count(first, "- switch:"); n != 5 {
			t.Errorf("%d switches, want a leaf for each rack and one switch above them:\n%s", n, first)
		}
		plan := store.plan(t)
		if plan.Current.Plan.SwitchSource() != "cables" || len(plan.Groups) == 0 {
			t.Errorf("source %q, %d groups are remembered", plan.Current.Plan.SwitchSource(), len(plan.Groups))
		}
		store.rests(t, time.Hour)
		same := func(what string) {
			t.Helper()
			store.pass(time.Hour)
			if diff := cmp.Diff(first, topologyOf(store)); diff != "" {
				t.Errorf("%s (-old +new):\n%s", what, diff)
			}
		}
		c.pull("h19", 5)
		store.change(with(t, snap, c))
		same("a cable is out")
		c.swapped["rack3-rail2"]++
		store.change(with(t, snap, c))
		same("a switch is replaced")
		if plan := store.plan(t); !slices.ContainsFunc(plan.Groups, func(g switches.Group) bool { return slices.Contains(g.Switches, c.guid("rack3-rail2", -1)) }) {
			t.Error("the new switch is not remembered")
		}
		for rail := range 8 { // one after the other, each switch of a leaf group is replaced
			c.swapped[fmt.Sprint("rack1-rail", rail)]++
			store.change(with(t, snap, c))
			same("a further switch is replaced")
		}
		wires := c.wires
		c.wires = slices.DeleteFunc(slices.Clone(wires), func(w wire) bool { return strings.HasPrefix(w.a, "rack2-") && w.rail < 0 })
		store.change(with(t, snap, c))
		same("no cable leads up from a rack")
		doc := store.plan(t)
		pub := complete(t, Publication{FabricFiles: []string{fabricPath}})[0]
		made := makeOf(t, pub, pub.Rules.Gather(with(t, snap, c)), Previous{Plan: &doc.Current.Plan.Plan, Groups: doc.Groups})
		want := topology.Finding{Reason: placement.ReasonCablesMissing, Message: "no cable leads up from " + doc.Current.Plan.Places()["h17"].Leaf + "; the switches published above stay"}
		if !slices.Contains(made.FilePlan.Problems, want) {
			t.Errorf("problems %v, want %v", made.FilePlan.Problems, want)
		}
		c.wires = wires
		store.change(with(t, snap, c))
		same("the cables are back")
		unread := *snap
		unread.Fabrics = map[string][]inputs.FabricText{fabricPath: {{Name: fabricPath, Problem: "line 3: cut"}}}
		store.change(&unread)
		same("the text can't be read")
	})
	t.Run("a rack is added", func(t *testing.T) {
		small, _ := railedSite(t, 4)
		store := newMemory(small)
		inBubble(t, store, complete(t, Publication{SettleTime: Duration{Duration: 10 * time.Second}, FabricFiles: []string{fabricPath}}), func() {
			store.pass(10 * time.Minute)
			first := topologyOf(store)
			large, _ := railedSite(t, 5)
			store.change(large)
			store.pass(time.Hour)
			lines := changed(first, topologyOf(store))
			if len(lines) != 4 || !strings.Contains(strings.Join(lines, " "), "h[65-80]") {
				t.Errorf("want the leaf's line and the line of the switch above:\n%s", strings.Join(lines, "\n"))
			}
		})
	})
}

// TestCablesInDirectory publishes from reports and a text in the directory store, in real time.
func TestCablesInDirectory(t *testing.T) {
	texts := t.TempDir()
	_, c := railedSite(t, 2)
	put.File(t, filepath.Join(texts, "a.txt"), c.text(), 0o600)
	r := newDirRig(t, func(r *dirRig) {
		r.fabricFiles(texts)
		r.reports(sites.Parse(t, fmt.Sprintf(railed, 2)))
	})
	first := r.until("published", func(p *plandoc.Published) bool {
		return strings.Contains(p.Files["topology.yaml"], "nodes: h[01-16]\n") && strings.Contains(p.Files["topology.yaml"], "nodes: h[17-32]\n")
	})
	// h01 is moved to the other rack.
	for i := range c.wires {
		if w := &c.wires[i]; w.b == "h01" {
			w.a = fmt.Sprint("rack2-rail", w.rail)
		}
	}
	put.File(t, filepath.Join(texts, ".a.txt"), c.text(), 0o600)
	if err := os.Rename(filepath.Join(texts, ".a.txt"), filepath.Join(texts, "a.txt")); err != nil {
		t.Fatal(err)
	}
	r.until("moved", func(p *plandoc.Published) bool {
		return strings.Contains(p.Files["topology.yaml"], "nodes: h[01,17-32]\n") && p.Files["topology.yaml"] != first.Files["topology.yaml"]
	})
}

// leavesOf has for each leaf with nodes its name, its nodes and the switches above it.
func leavesOf(plan *topology.Plan) map[string]string {
	out := map[string]string{}
	paths := topology.PathsAbove(plan.Switches())
	for _, s := range plan.Switches() {
		if len(s.Nodes) > 0 {
			out[hostlist.Compress(s.Nodes)] = strings.Trim(paths[s.Name], "/")
		}
	}
	return out
}

// TestCablesOfTexts makes plans of texts that are apart, cut or lack nodes, and of neighbours by LLDP.
func TestCablesOfTexts(t *testing.T) {
	pub := complete(t, Publication{FabricFiles: []string{fabricPath}})[0]
	planOf := func(t *testing.T, snap *inputs.Snapshot, prev Previous) *Rendered {
		t.Helper()
		made := makeOf(t, pub, pub.Rules.Gather(snap), prev)
		return made
	}
	found := func(made *Rendered, reason string) (out []string) {
		for _, f := range made.FilePlan.Problems {
			if f.Reason == reason {
				out = append(out, strings.TrimPrefix(f.Node+": "+f.Message, ": "))
			}
		}
		return out
	}
	t.Run("two fabrics", func(t *testing.T) {
		snap, c := railedSite(t, 4)
		apart := newCabling()
		apart.wires = slices.DeleteFunc(slices.Clone(c.wires), func(w wire) bool { return w.a < "rack3" })
		c.wires = slices.DeleteFunc(slices.Clone(c.wires), func(w wire) bool { return w.a >= "rack3" })
		for i := range apart.wires { // they have spines of their own
			if w := &apart.wires[i]; w.rail < 0 {
				w.b = "other-" + w.b
			}
		}
		snap.Fabrics[fabricPath] = []inputs.FabricText{{Name: "a", Fabric: c.fabric(t)}, {Name: "b", Fabric: apart.fabric(t)}}
		made := planOf(t, snap, Previous{})
		leaves := leavesOf(made.Plan)
		a, b := leaves["h[01-16]"], leaves["h[33-48]"]
		if diff := cmp.Diff(map[string]string{"h[01-16]": a, "h[17-32]": a, "h[33-48]": b, "h[49-64]": b}, leaves); diff != "" || a == b {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if said := found(made, placement.ReasonLeavesApart); len(said) != 1 || !strings.HasPrefix(said[0], "no job of more than 32 nodes") {
			t.Errorf("%q", said)
		}
	})
	t.Run("a text can't be read", func(t *testing.T) {
		snap, c := railedSite(t, 2)
		snap.Fabrics[fabricPath] = []inputs.FabricText{{Name: "/f/a", Fabric: c.fabric(t), Problem: "line 7: cut"}, {Name: "/f/b", Problem: "permission denied"}}
		made := planOf(t, snap, Previous{})
		if n := len(leavesOf(made.Plan)); n != 2 {
			t.Errorf("%d leaves", n)
		}
		want := []string{"/f/a: line 7: cut; the last text that could be read counts", "/f/b: permission denied; nodes that only this text has stay below their published switches"}
		if diff := cmp.Diff(want, found(made, inputs.ReasonFabricUnread)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("nodes that cables say nothing of", func(t *testing.T) {
		snap, c := railedSite(t, 2)
		for rail := range 8 {
			c.pull("h03", rail)
		}
		snap = with(t, snap, c)
		delete(snap.Reports, "h04")
		snap.Nodes[3].Labels = map[string]string{"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.count": "8"}
		want := []string{"h03: no cable of its adapters (8) is in a text of ibnetdiscover, and LLDP names no neighbour of them; the node is below no switch", "h04: no report says its adapters; the node is below no switch"}
		if diff := cmp.Diff(want, found(planOf(t, snap, Previous{}), placement.ReasonCablesMissing)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		whole, _ := railedSite(t, 2)
		first := planOf(t, whole, Previous{})
		prev := recalled(t, pub, first)
		if diff := cmp.Diff(first.Files["topology.yaml"], planOf(t, snap, prev).Files["topology.yaml"]); diff != "" {
			t.Errorf("published nodes move (-old +new):\n%s", diff)
		}
	})
	t.Run("LLDP", func(t *testing.T) {
		snap, _ := railedSite(t, 2)
		snap.Fabrics = nil
		for i := range snap.Nodes {
			report := *snap.Reports[snap.Nodes[i].Name]
			report.Adapters = slices.Clone(report.Adapters)
			for k := range report.Adapters {
				report.Adapters[k].Ports = []topology.AdapterPort{{Port: 1, LinkLayer: topology.LinkEthernet, RateGbps: 400, Neighbor: topology.Neighbor{ChassisID: fmt.Sprintf("fc:6a:1c:00:%02d:%02d", i/16, k)}}}
			}
			snap.Reports[snap.Nodes[i].Name] = &report
		}
		made := planOf(t, snap, Previous{})
		if diff := cmp.Diff(map[string]string{"h[01-16]": "fabric", "h[17-32]": "fabric"}, leavesOf(made.Plan)); diff != "" || made.Plan.SwitchSource() != "LLDP" {
			t.Errorf("by %s (-want +got):\n%s", made.Plan.SwitchSource(), diff)
		}
		if said := found(made, placement.ReasonRootAssumed); len(said) != 1 {
			t.Errorf("nobody knows whether the leaves are joined: %q", said)
		}
	})
	t.Run("racks of GB200", func(t *testing.T) {
		site := sites.Parse(t, "groups:\n- {racks: 4, nodes: 18, node: \"g{node:02}\", nvlink: rack, rails: 4, gpus: {count: 4, product: NVIDIA GB200, memoryMiB: 189471, numaNodes: 2, cpus: 144}}\n")
		snap, c := snapshotOf(site), newCabling()
		for rack := range 4 {
			var machines []string
			for i := range 18 {
				machines = append(machines, fmt.Sprintf("g%02d", 18*rack+i+1))
			}
			c.rack(fmt.Sprint("rack", rack), machines, 4, 0)
			for rail := range 4 { // the first and the third rack share spines
				c.wires = append(c.wires, wire{fmt.Sprintf("rack%d-rail%d", rack, rail), fmt.Sprint("unit", rack%2), -1})
			}
		}
		c.wires = append(c.wires, wire{"unit0", "core", -1}, wire{"unit1", "core", -1})
		snap = with(t, snap, c)
		parents := complete(t, Publication{FabricFiles: []string{fabricPath}, ParentBlocks: 2})[0]
		made := makeOf(t, parents, parents.Rules.Gather(snap), Previous{})
		var order []string
		for _, b := range made.Plan.Blocks() {
			order = append(order, hostlist.Compress(b.Nodes))
		}
		slices.Sort(order[:2])
		if first := strings.Join(order[:2], " "); len(order) != 4 || first != "g[01-18] g[37-54]" && first != "g[19-36] g[55-72]" {
			t.Errorf("blocks %q: the first two are not below one spine", order)
		}
		if said := found(made, placement.ReasonParentBlocks); said != nil {
			t.Errorf("%q", said)
		}
	})
}
