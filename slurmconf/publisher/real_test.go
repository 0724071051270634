package publisher

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
	"github.com/quoin-hpc/quoin/test/rig/sites"
	"github.com/quoin-hpc/quoin/test/rig/slurmrig"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/simulated"
)

// TestRealSlurmLoadsEverySite loads the files of every shipped site into a real
// slurmctld and reads back exactly the plan. Slurm 24.11 gets the switches alone.
func TestRealSlurmLoadsEverySite(t *testing.T) {
	t.Parallel()
	slurmrig.NeedTest(t)
	for _, run := range []struct {
		release slurmrig.Release
		keys    Publication
	}{{slurmrig.Slurm2605, Publication{Format: "yaml"}}, {slurmrig.Slurm2605, Publication{Format: "conf"}}, {slurmrig.Slurm2411, Publication{Format: "conf", Topology: "tree"}}} {
		for _, site := range simulated.Shipped() {
			if run.keys.Topology == "tree" && site == "gb300-nvl72" {
				continue // nothing names a switch
			}
			t.Run(run.release.Slurm+" "+run.keys.Format+" "+site, func(t *testing.T) {
				loads(t, run.release, run.keys, site)
			})
		}
	}
}

func loads(t *testing.T, release slurmrig.Release, keys Publication, site string) {
	t.Helper()
	keys.SlurmVersion = release.Slurm
	pub, format := complete(t, keys)[0], keys.Format
	facts := pub.Rules.Gather(snapshotOf(sites.Open(t, site)))
	made := makeFiles(t, pub, facts, Previous{})
	loadsMade(t, release, format, made, facts)
}

// TestRealOwnNames: people have a topology file with names of their own. The first plan that goes on from it keeps
// all names, and a real slurmctld loads the file.
func TestRealOwnNames(t *testing.T) {
	t.Parallel()
	slurmrig.NeedTest(t)
	for _, format := range []string{"yaml", "conf"} {
		t.Run(format, func(t *testing.T) {
			pub := complete(t, Publication{SlurmVersion: slurmrig.Slurm2605.Slurm, Format: format})[0]
			facts := pub.Rules.Gather(snapshotOf(sites.Open(t, "gb200-nvl72x4")))
			first := makeFiles(t, pub, facts, Previous{})
			file := "topology." + format
			theirs := strings.NewReplacer("nvl-", "rack-", "leaf-", "ib-").Replace(first.Files[file])
			plan, err := slurmconf.ReadPlan(file, []byte(theirs))
			if err != nil {
				t.Fatal(err)
			}
			made := makeFiles(t, pub, facts, Previous{Plan: plan})
			if diff := cmp.Diff(theirs, made.Files[file]); diff != "" || theirs == first.Files[file] {
				t.Errorf("(-theirs +made):\n%s", diff)
			}
			loadsMade(t, slurmrig.Slurm2605, format, made, facts)
		})
	}
}

// loadsMade loads files that were made into a real slurmctld and reads back the plan.
func loadsMade(t *testing.T, release slurmrig.Release, format string, made *Rendered, facts inputs.Inputs) {
	t.Helper()
	file := "topology." + format
	rig := slurmrig.StartTest(t, release, slurmrig.Config{
		SlurmConf: nodesAndPartitions(made, facts, format),
		Files:     map[string]string{file: made.Files[file]},
	})
	all, err := slurmconf.ParseTopologies(file, []byte(made.Files[file]))
	if err != nil {
		t.Fatal(err)
	}
	topologies := []string{""}
	if format == "yaml" {
		topologies = nil
		for _, tp := range all {
			topologies = append(topologies, tp.Name)
		}
	}
	for _, name := range topologies {
		args := []string{"scontrol", "show", "topology"}
		if name != "" {
			args = append(args, name)
		}
		out := rig.RunTest(t, args...)
		shown, err := slurmctld.ParseShown("scontrol", []byte(out))
		if err != nil {
			t.Fatal(err)
		}
		differences, compared := slurmctld.CompareShown(shown, slurmctld.Like(shown, all))
		if len(differences) > 0 || compared == 0 {
			t.Errorf("topology %q: %d nodes compared\n%v\n%s", name, compared, differences, out)
		}
	}
	comparePartitions(t, rig, topologies)
}

// comparePartitions reads back that the jobs of each partition are placed by its
// topology.
func comparePartitions(t *testing.T, rig *slurmrig.Cluster, topologies []string) {
	t.Helper()
	out := rig.RunTest(t, "scontrol", "show", "partition", "-o")
	for _, name := range topologies {
		if name != "" && !slices.ContainsFunc(strings.Split(out, "\n"), func(l string) bool {
			return strings.HasPrefix(l, "PartitionName="+name+" ") && strings.Contains(l, " Topology="+name)
		}) {
			t.Errorf("no partition has topology %s:\n%s", name, out)
		}
	}
}

// nodesAndPartitions are the lines of a slurm.conf with all nodes on this machine, and
// of topology.yaml with a partition for each topology.
func nodesAndPartitions(made *Rendered, facts inputs.Inputs, format string) string {
	var b strings.Builder
	b.WriteString("NodeName=DEFAULT RealMemory=1000 State=UNKNOWN\n")
	for i, f := range facts.Facts {
		fmt.Fprintf(&b, "NodeName=%s NodeAddr=127.0.0.1 Port=%d\n", f.SlurmName, 22000+i)
	}
	for _, tp := range made.topologies {
		if format == "yaml" {
			fmt.Fprintf(&b, "PartitionName=%s Nodes=ALL Topology=%s\n", tp.Name, tp.Name)
		} else if tp.Kind == topology.KindTree {
			b.WriteString("TopologyPlugin=topology/tree\n")
		} else {
			b.WriteString("TopologyPlugin=topology/block\n")
		}
	}
	b.WriteString("PartitionName=main Nodes=ALL\n")
	return b.String()
}
