package publisher

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/ibrig"
	"github.com/quoin-hpc/quoin/test/rig/put"
	"github.com/quoin-hpc/quoin/test/rig/sites"
	"github.com/quoin-hpc/quoin/test/rig/slurmrig"
	"github.com/quoin-hpc/quoin/topology"
)

// TestRealCables publishes a site of 64 HGX machines with 8 rails and no label, from reports in a
// directory and one text of the real ibnetdiscover, into a real slurmctld. A cable that is pulled
// and a switch that is swapped change no line. A rack that comes has the line of its leaf, and
// changes the one of the switch above.
func TestRealCables(t *testing.T) {
	t.Parallel()
	slurmrig.NeedTest(t)
	machines := sites.Parse(t, fmt.Sprintf(railed, 5)).Machines()
	fabric := ibrig.New(ibrig.Shape{Seed: 64, Groups: 4, Nodes: 16, Rails: 8, RailLeaves: true, Spines: 4, Aggregation: true,
		Name: func(number int) string { return machines[number-1].Name }})
	text := filepath.Join(t.TempDir(), "fabric.txt")
	discover := func() {
		t.Helper()
		put.File(t, text+".new", ibrig.DiscoverTest(t, fabric)[0], 0o600)
		if err := os.Rename(text+".new", text); err != nil {
			t.Fatal(err)
		}
	}
	discover()
	report := func(r *dirRig, from int) {
		t.Helper()
		for i, node := range fabric.Nodes[from:] {
			machine := machines[from+i]
			for rail, a := range node.Adapters {
				adapter := &machine.Report.Adapters[rail]
				adapter.NodeGUID, adapter.Ports[0].GUID = fmt.Sprintf("%016x", a.GUID), fmt.Sprintf("%016x", a.Port)
			}
			data, err := topology.EncodeReport(machine.Report)
			if err != nil {
				t.Fatal(err)
			}
			r.write(string(data), "reports", machine.Name+".json")
		}
	}
	r := newDirRig(t, func(r *dirRig) {
		r.fabricFiles(text)
		report(r, 0)
	})
	racks := []string{"h[01-16]", "h[17-32]", "h[33-48]", "h[49-64]"}
	published := func() string {
		t.Helper()
		return r.until("each rack has a leaf", func(p *plandoc.Published) bool {
			return !slices.ContainsFunc(racks, func(nodes string) bool { return !strings.Contains(p.Files["topology.yaml"], "nodes: "+nodes+"\n") })
		}).Files["topology.yaml"]
	}
	first := published()

	conf := "PartitionName=main Nodes=ALL\n"
	for i, m := range machines {
		conf = fmt.Sprintf("NodeName=%s NodeAddr=127.0.0.1 Port=%d State=UNKNOWN\n", m.Name, 22000+i) + conf
	}
	slurm := slurmrig.StartTest(t, slurmrig.Slurm2605, slurmrig.Config{SlurmConf: conf, Files: map[string]string{"topology.yaml": first}})
	loaded := func(file string) {
		t.Helper()
		all, err := slurmconf.ParseTopologies("topology.yaml", []byte(file))
		if err != nil {
			t.Fatal(err)
		}
		out := slurm.RunTest(t, "scontrol", "show", "topology")
		shown, err := slurmctld.ParseShown("scontrol", []byte(out))
		if err != nil {
			t.Fatal(err)
		}
		if differences, compared := slurmctld.CompareShown(shown, slurmctld.Like(shown, all)); len(differences) > 0 || compared != 16*len(racks) {
			t.Errorf("%d nodes compared\n%v", compared, differences)
		}
		for _, nodes := range racks {
			if !strings.Contains(out, " Level=0 LinkSpeed=0 Nodes="+nodes+"\n") {
				t.Errorf("no leaf with %s in\n%s", nodes, out)
			}
		}
		if n := strings.Count(out, " Level=1 "); n != 1 || strings.Count(out, "SwitchName=") != len(racks)+1 {
			t.Errorf("want a leaf for each rack and one switch above:\n%s", out)
		}
	}
	loaded(first)

	stored := func() *plandoc.Document {
		plan, err := r.store.LoadPlan(t.Context(), r.pub.Name)
		if err != nil || plan == nil {
			t.Fatalf("the stored plan: %v", err)
		}
		return plan
	}
	number := stored().Current.Number
	fabric.PullCable(fabric.Nodes[18].Adapters[5])
	discover()
	fabric.SwapSwitch(fabric.Nodes[40].Adapters[2])
	discover()
	swapped := fmt.Sprintf("%016x", fabric.Nodes[40].Adapters[2].Leaf())
	await.Until(t, "the new switch is remembered", func() bool { return strings.Contains(fmt.Sprint(stored().Groups), swapped) },
		func() string { return fmt.Sprintf("%s in %v", swapped, stored().Groups) })
	if n := stored().Current.Number; n != number {
		t.Errorf("a cable is out, and a switch is swapped: plan %d follows %d", n, number)
	}
	if diff := cmp.Diff(first, published()); diff != "" {
		t.Errorf("a cable is out, and a switch is swapped (-old +new):\n%s", diff)
	}

	fabric.AddGroup(16)
	discover()
	report(r, 64)
	racks = append(racks, "h[65-80]")
	second := published()
	if lines := changed(first, second); len(lines) != 4 || strings.Count(strings.Join(lines, "\n"), "children: ") != 2 {
		t.Errorf("want the leaf and its line, and the line of the switch above:\n%s", strings.Join(lines, "\n"))
	}
	put.File(t, filepath.Join(slurm.Dir, "topology.yaml"), second, 0o644)
	slurm.RunTest(t, "scontrol", "reconfigure")
	loaded(second)
}
