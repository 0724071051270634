package lint_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/lint"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
	"github.com/quoin-hpc/quoin/test/rig/oracle"
	"github.com/quoin-hpc/quoin/topology"
)

// placesYAML has blocks, a tree and a flat topology. The leaf lone and the block b2 are
// empty.
const placesYAML = `- topology: nvl
  cluster_default: true
  block:
    block_sizes: [4]
    blocks:
      - block: b1
        nodes: n[001-004]
      - block: b2
- topology: fabric
  cluster_default: false
  tree:
    switches:
      - switch: core
        children: spine[1-2]
      - switch: spine1
        children: leaf[1-2]
      - switch: spine2
        children: leaf3
      - switch: leaf1
        nodes: n[001-008]
      - switch: leaf2
        nodes: n[009-016]
      - switch: leaf3
      - switch: lone
- topology: flat
  cluster_default: false
  flat: true
`

// nodePlaces are values of Topology= of one node.
var nodePlaces = strings.Split(`nvl:b1|nvl:b2|nvl:b9|nvl:B1|NVL:b1|nvl|nvl:|""|,|nvl:b1,|,nvl:b1|nvl:b1,,fabric:leaf1|nvl:b1,fabric:leaf1|fabric:leaf1|fabric:leaf3|fabric:lone|fabric:leaf9|fabric:spine1|fabric:core|`+
	`fabric:core:spine1:leaf1|fabric:core:spine1:leaf9|fabric:core:spine9:leaf9|fabric:core9:spine9:leaf9|fabric:core:leaf1|fabric:spine1:leaf1|fabric:spine1:leaf9|fabric:spine2:leaf1|fabric:leaf1:core|fabric:core:spine1|`+
	`fabric:core:spine9|fabric:lone:leaf9|fabric:leaf1:x|fabric:lone:leaf1|fabric:core:|fabric::leaf1|fabric::|fabric:core::leaf1|fabric|fabric:|flat|flat:|flat:x|default|default:b1|gone|gone:b1|nvl:b1,gone|nvl:b1,nvl:b2|`+
	`nvl:b1:b2|nvl:b[1-2]|nvl:b1,b2|b1|leaf1|fabric:leaf[1-2]|fabric:leaf1,fabric:leaf2|"nvl:b1, fabric:leaf1"|" nvl:b1"|"nvl: b1"|"nvl:b1 "|nvl=b1|fabric:new:leaf9|fabric:core:leaf9|fabric:core:core|fabric:core:spine1:spine1|`+
	`fabric:core:spine1:leaf1:leaf9|fabric:leaf1:leaf9|nvl,fabric:leaf1|nvl,fabric|fabric,nvl:b9|fabric:leaf9,nvl:b1|flat:x,nvl:b1|:b1|:|nvl::b1|fabric:lone:a:b:c:d|fabric:core:a.b|fabric:leaf1,fabric:leaf1:x|fabric:core:leaf9:leaf9|fabric:lone:lone`, "|")

// twoPlaces are values of x1 and of w1, which Slurm places first. DEFAULT is a line before
// the node's.
var twoPlaces = [][2]string{{"fabric:lone", "fabric:lone:leaf9"}, {"fabric:lone:leaf9", "fabric:lone"}, {"fabric:core:leaf9", "fabric:leaf9"}, {"fabric:leaf9", "fabric:core:leaf9"},
	{"fabric:core:spine9:leaf9", "fabric:spine9"}, {"fabric:spine9:leaf8", "fabric:core:spine9:leaf9"}, {"DEFAULT nvl:b1", ""}, {"DEFAULT nvl:b9", ""}, {"DEFAULT nvl:b9", `""`}, {"DEFAULT nvl:b9", "nvl:b1"}, {"nvl:b1", "nvl:b9"}}

// TestRealNodePlaces has Lint and slurmctld judge Topology= of NodeName in slurm.conf.
func TestRealNodePlaces(t *testing.T) {
	eachRelease(t, func(t *testing.T, release slurmconf.Release) {
		s := startSlurm(t, release)
		values := nodePlaces
		if !release.Does(slurmconf.DynamicTopology) {
			values = values[:3]
		}
		judged, fatal := 0, 0
		judge := func(c realConfig) {
			judged++
			if s.placesFatal(c) {
				fatal++
			}
		}
		blocks := realConfig{plugin: lint.PluginBlock, files: map[string]string{"topology.conf": "BlockName=b1 Nodes=n[001-016]\nBlockSizes=16\n"}}
		tree := realConfig{plugin: lint.PluginTree, files: map[string]string{"topology.conf": "SwitchName=s1 Nodes=n[001-016]\n"}}
		yaml := blocks
		if release.Does(slurmconf.TopologyYAML) {
			yaml.files = map[string]string{"topology.yaml": placesYAML}
		}
		for _, v := range values {
			judge(yaml.with(v))
		}
		for _, v := range []string{"default:b1", "default:b9", "nvl:b1", "default", "b1", `""`} {
			judge(blocks.with(v))
		}
		for _, v := range []string{"default:s1", "default:s9", "default:s1:s9", "default"} {
			judge(tree.with(v))
		}
		if release.Does(slurmconf.DynamicTopology) {
			for _, pair := range twoPlaces {
				judge(yaml.with(pair[0], pair[1]))
			}
			rng := oracle.Rand(t)
			for range oracle.Rounds(12, 40) {
				judge(yaml.with(generatePlace(rng), generatePlace(rng), generatePlace(rng)))
			}
			if fatal < judged/10 || fatal > judged*9/10 {
				t.Errorf("%d of %d are fatal: the cases are lopsided", fatal, judged)
			}
		}
		t.Logf("Slurm %s: %d of %d places are fatal", release, fatal, judged)
	})
}

// with returns the configuration with nodes x1, w1 and v1 that have the values.
func (c realConfig) with(values ...string) realConfig {
	for i, v := range values {
		name := fmt.Sprintf("%c1 NodeAddr=127.0.0.1 Port=%d CPUs=16 RealMemory=1000 State=UNKNOWN", 'x'-i, 20100+i)
		if rest, ok := strings.CutPrefix(v, "DEFAULT "); ok {
			name, v = "DEFAULT", rest
		}
		c.lines += "NodeName=" + name
		if v != "" {
			c.lines += " Topology=" + v
		}
		c.lines += "\n"
	}
	return c
}

// placesFatal has both judge a configuration.
func (s *realSlurm) placesFatal(c realConfig) bool {
	s.t.Helper()
	conf, err := slurmctld.ParseConf("slurm.conf", []byte("NodeName="+realNodes+"\nTopologyPlugin="+string(c.plugin)+"\n"+c.lines), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	var files []lint.File
	for name, text := range c.files {
		files = append(files, lint.File{Name: name, Data: []byte(text)})
	}
	findings := lint.Lint(files, conf.Options(s.release))
	real, complaints := s.fatal(c)
	if got := topology.Has(findings, topology.Fatal); got != real {
		s.t.Errorf("Slurm %s: Lint says fatal=%t, slurmctld %t\n%s%v\n%s", s.release, got, real, c.lines, findings, complaints)
	}
	return real
}

// generatePlace makes a place of one or two words, paths of switches among them.
func generatePlace(rng *rand.Rand) string {
	words := make([]string, 1+rng.IntN(2))
	for i := range words {
		words[i] = pick(rng, "nvl:b1", "nvl:b2", "flat:x", "nvl:b9", "fabric:"+pick(rng, "leaf1", "leaf3", "lone", "leaf9"))
		if rng.IntN(2) == 0 {
			path := []string{"fabric", pick(rng, "core", "core", "spine1", "lone", "new")}
			for range rng.IntN(3) {
				path = append(path, pick(rng, "spine1", "spine2", "leaf1", "leaf3", "new", "x", "y"))
			}
			words[i] = strings.Join(path, ":")
		}
	}
	return strings.Join(words, ",")
}
