package publisher

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/testdata/rig/slurmrig"
	"github.com/quoin-hpc/quoin/topology/simulated"
)

// TestRealSlurmLoadsEverySite loads the files of every shipped site into a real
// slurmctld and reads back exactly the plan.
func TestRealSlurmLoadsEverySite(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("needs a real Slurm")
	}
	for _, run := range []struct {
		release slurmrig.Release
		format  string
	}{{slurmrig.Slurm2605, "yaml"}, {slurmrig.Slurm2605, "conf"}, {slurmrig.Slurm2411, "conf"}} {
		for _, site := range simulated.Shipped() {
			t.Run(run.release.Slurm+" "+run.format+" "+site, func(t *testing.T) {
				loads(t, run.release, run.format, site)
			})
		}
	}
}

func loads(t *testing.T, release slurmrig.Release, format, site string) {
	t.Helper()
	pub := complete(t, Publication{SlurmVersion: release.Slurm, Format: format, SlurmConf: true})[0]
	facts := Gather(&pub, snapshotOf(openCluster(t, site)))
	made, err := Make(&pub, facts, Previous{})
	if err != nil || made.Refused != "" {
		t.Fatalf("%v %s", err, made.Message)
	}
	file := "topology." + format
	rig, err := slurmrig.Start(t.Context(), release, t.TempDir(), slurmrig.Config{
		SlurmConf: "NodeName=DEFAULT RealMemory=1000 State=UNKNOWN\nInclude slurm-nodes.conf\nPartitionName=main Nodes=ALL\n",
		Files:     map[string]string{file: made.Files[file], slurmconf.SlurmNodesFile: atPorts(t, made, facts)},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer rig.Stop()
	topologies := []string{""}
	if format == "yaml" {
		topologies = nil
		all, err := slurmconf.ParseYAML(file, []byte(made.Files[file]))
		if err != nil {
			t.Fatal(err)
		}
		for _, tp := range all {
			topologies = append(topologies, tp.Name)
		}
	}
	for _, name := range topologies {
		args := []string{"scontrol", "show", "topology"}
		if name != "" {
			args = append(args, name)
		}
		out, err := rig.Run(t.Context(), args...)
		if err != nil {
			t.Fatal(err)
		}
		shown, err := slurmconf.ParseShown("scontrol", []byte(out))
		if err != nil {
			t.Fatal(err)
		}
		differences, compared, err := slurmconf.CompareShown(shown, file, []byte(made.Files[file]))
		if err != nil || len(differences) > 0 || compared == 0 {
			t.Errorf("topology %q: %d nodes compared, %v\n%v\n%s", name, compared, err, differences, out)
		}
	}
	comparePartitions(t, rig, made, topologies)
}

// comparePartitions has slurmctld place the jobs of each partition that the
// fragment lists by its topology.
func comparePartitions(t *testing.T, rig *slurmrig.Cluster, made *Made, topologies []string) {
	t.Helper()
	out, err := rig.Run(t.Context(), "scontrol", "show", "partition", "-o")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range topologies {
		if name != "" && !slices.ContainsFunc(strings.Split(out, "\n"), func(l string) bool {
			return strings.HasPrefix(l, "PartitionName="+name+" ") && strings.Contains(l, " Topology="+name)
		}) {
			t.Errorf("no partition has topology %s:\n%s\n%s", name, out, made.Files[slurmconf.SlurmNodesFile])
		}
	}
}

// atPorts is the published fragment, with the partitions that it has in comments,
// for nodes that are all on this machine. Nodes that it does not know follow.
func atPorts(t *testing.T, made *Made, facts Gathered) string {
	t.Helper()
	var b strings.Builder
	port := 22000
	add := func(line string, nodes int) {
		fmt.Fprintf(&b, "%s NodeAddr=127.0.0.1 Port=[%d-%d]\n", strings.TrimSpace(line), port, port+nodes-1)
		port += nodes
	}
	for line := range strings.Lines(made.Files[slurmconf.SlurmNodesFile]) {
		list, isNode := strings.CutPrefix(line, "NodeName=")
		list, _, _ = strings.Cut(list, " ")
		hosts, err := hostlist.Expand(list)
		switch partition, found := strings.CutPrefix(line, "# PartitionName="); {
		case isNode && err != nil:
			t.Fatal(err)
		case isNode:
			add(line, len(hosts))
		case found:
			b.WriteString("PartitionName=" + partition)
		default:
			b.WriteString(line)
		}
	}
	for _, f := range facts.Facts {
		if _, ok := made.nodes[f.SlurmName]; !ok {
			add("NodeName="+f.SlurmName, 1)
		}
	}
	return b.String()
}
