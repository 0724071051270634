package publisher

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/testdata/rig/slurmrig"
	"github.com/quoin-hpc/quoin/topology/simulated"
)

// TestRealSlurmLoadsEverySite loads the files of every shipped site into a real
// slurmctld and reads back exactly the plan.
func TestRealSlurmLoadsEverySite(t *testing.T) {
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
	pub := complete(t, Publication{SlurmVersion: release.Slurm, Format: format})[0]
	facts := Gather(&pub, snapshotOf(openCluster(t, site)))
	made, err := Make(&pub, facts, Previous{})
	if err != nil || made.Refused != "" {
		t.Fatalf("%v %s", err, made.Message)
	}
	var names []string
	for _, f := range facts.Facts {
		names = append(names, f.SlurmName)
	}
	plugin := "block"
	if len(made.Plan.Blocks) == 0 {
		plugin = "tree"
	}
	file := "topology." + format
	rig, err := slurmrig.Start(t.Context(), release, t.TempDir(), slurmrig.Config{
		SlurmConf: fmt.Sprintf("TopologyPlugin=topology/%s\nNodeName=%s NodeAddr=127.0.0.1 Port=[22001-%d] CPUs=16 RealMemory=1000 State=UNKNOWN\nPartitionName=main Nodes=ALL\n",
			plugin, slurmconf.CompressHostlist(names), 22000+len(names)),
		Files: map[string]string{file: made.Files[file]},
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
	if i := slices.IndexFunc(strings.Split(rig.Log("slurmctld"), "\n"), func(l string) bool { return strings.Contains(l, "fatal") }); i >= 0 {
		t.Error("slurmctld's log has a fatal line")
	}
}
