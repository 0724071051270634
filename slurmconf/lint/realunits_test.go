package lint_test

import (
	"testing"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/lint"
	"github.com/quoin-hpc/quoin/topology"
)

// TestRealEmptyUnits has Lint and slurmctld judge a leaf without nodes below a
// switch, first and last of its siblings, and a block without nodes.
func TestRealEmptyUnits(t *testing.T) {
	plan := &topology.Plan{
		Topologies: []topology.Topology{{Name: "nvl", Kind: "block", Sizes: []int{8}, Blocks: []topology.Block{{Name: "b1"}, {Name: "b2", Nodes: []string{"n001", "n002"}}}}, {Name: "fabric", Kind: "tree", Switches: []topology.Switch{{Name: "l1"}, {Name: "l2", Nodes: []string{"n001", "n002"}}, {Name: "l3"}, {Name: "l4"},
			{Name: "s1", Children: []string{"l1", "l2", "l3"}}, {Name: "s2", Children: []string{"l4"}}, {Name: "core", Children: []string{"s1", "s2"}}}}},
	}
	eachRelease(t, func(t *testing.T, release slurmconf.Release) {
		var cases []topologyCase
		for kind, plugin := range map[slurmconf.Kind]lint.Plugin{slurmconf.KindBlock: lint.PluginBlock, slurmconf.KindTree: lint.PluginTree} {
			topologies, err := slurmconf.FromPlan(plan, slurmconf.Choice{Kind: kind})
			if err != nil {
				t.Fatal(err)
			}
			conf, err := slurmconf.RenderConf(topologies[0], "")
			if err != nil {
				t.Fatal(err)
			}
			cases = append(cases, topologyCase{name: "conf " + string(kind), plugin: plugin, conf: string(conf)})
		}
		topologies, err := slurmconf.FromPlan(plan, slurmconf.Choice{Kind: slurmconf.KindAuto, YAML: true})
		if err != nil {
			t.Fatal(err)
		}
		yaml, err := slurmconf.RenderYAML(topologies, "")
		if err != nil {
			t.Fatal(err)
		}
		if release.Does(slurmconf.TopologyYAML) {
			cases = append(cases, topologyCase{name: "yaml", plugin: lint.PluginBlock, yaml: string(yaml), noConf: true})
		}
		if fatal := compare(t, release, cases); release.Does(slurmconf.EmptyUnits) != (fatal == 0) {
			t.Errorf("Slurm %s: %d of %d are fatal", release, fatal, len(cases))
		}
	})
}
