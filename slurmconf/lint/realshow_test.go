package lint_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/lint"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
	"github.com/quoin-hpc/quoin/test/rig/hosts"
	"github.com/quoin-hpc/quoin/topology"
)

// shownCase is a topology that real Slurm loads and shows.
type shownCase struct {
	name        string
	topology    topology.Topology
	placeholder bool // needs 25.05
}

func shownCases() []shownCase {
	blocks := []topology.Block{{Name: "nvl-1", Nodes: hosts.In("n[001-004]")}, {Name: "nvl-2", Nodes: hosts.In("n[005-008]")}, {Name: "nvl-10", Nodes: hosts.In("n[009-012]")}, {Name: "nvl-x", Nodes: hosts.In("n[013-016]")}}
	holes := []topology.Block{{Name: "nvl-1", Nodes: hosts.In("n[001-004]")}, {Name: "nvl-2"}, {Name: "nvl-3", Nodes: hosts.In("n[009-011]")}}
	switches := []topology.Switch{{Name: "leaf1", Nodes: hosts.In("n[001-008]")}, {Name: "leaf2", Nodes: hosts.In("n[009-016]")}, {Name: "spine", Children: hosts.In("leaf[1-2]")}}
	make := func(sizes []int, b []topology.Block) topology.Topology {
		return topology.Topology{Name: "default", Default: true, Kind: "block", Sizes: sizes, Blocks: b}
	}
	return []shownCase{
		{name: "blocks", topology: make([]int{4}, blocks)},
		{name: "aggregates", topology: make([]int{4, 8, 16}, blocks)},
		{name: "placeholder", topology: make([]int{4, 8}, holes), placeholder: true},
		{name: "tree", topology: topology.Topology{Name: "default", Default: true, Kind: "tree", Switches: switches}},
	}
}

// TestRealShown loads topologies, as conf and as yaml, and reads back what
// scontrol shows of them.
func TestRealShown(t *testing.T) {
	eachRelease(t, func(t *testing.T, release slurmconf.Release) {
		s := startSlurm(t, release)
		for _, c := range shownCases() {
			if c.placeholder && !release.Does(slurmconf.EmptyUnits) {
				continue
			}
			plugin := lint.PluginBlock
			if c.topology.Kind == topology.KindTree {
				plugin = lint.PluginTree
			}
			conf, err := slurmconf.RenderConf(c.topology, "")
			if err != nil {
				t.Fatal(err)
			}
			s.shown(c.name+" conf", c.topology, realConfig{plugin: plugin, files: map[string]string{"topology.conf": string(conf)}})
			if !release.Does(slurmconf.TopologyYAML) {
				continue
			}
			yaml, err := slurmconf.RenderYAML([]topology.Topology{c.topology, {Name: "flat", Kind: "flat"}}, "")
			if err != nil {
				t.Fatal(err)
			}
			s.shown(c.name+" yaml", c.topology, realConfig{plugin: plugin, files: map[string]string{"topology.yaml": string(yaml)}})
		}
	})
}

func (s *realSlurm) shown(name string, want topology.Topology, c realConfig) {
	s.t.Helper()
	text, err := s.topology(c)
	if err != nil {
		s.t.Errorf("Slurm %s, %s: %v", s.release, name, err)
		return
	}
	shown, err := slurmctld.ParseShown("scontrol", []byte(text))
	if err != nil {
		s.t.Errorf("Slurm %s, %s: %v in\n%s", s.release, name, err, text)
		return
	}
	if diff := cmp.Diff(want, shown); diff != "" {
		s.t.Errorf("Slurm %s, %s (-loaded +shown):\n%s\nof\n%s", s.release, name, diff, text)
	}
}

// sizesCase has the BlockSizes that Slurm has loaded for so many blocks of two nodes, the
// BlockSizes that the file has now, and the difference, if Slurm shows one.
type sizesCase struct {
	blocks             int
	loaded, file       []int
	fileSays, slurmHas string
}

// TestRealSizes compares what Slurm shows of its sizes with files of other ones.
func TestRealSizes(t *testing.T) {
	cases := []sizesCase{
		{1, []int{2, 4}, []int{2}, "", ""},
		{2, []int{2, 4}, []int{2, 4, 8, 16}, "", ""},
		{2, []int{2, 4}, []int{2}, "none", "4"},
		{2, []int{2, 8}, []int{2, 4, 8}, "4", "8"},
		{3, []int{2, 4, 8}, []int{2, 4, 8}, "", ""},
		{3, []int{2}, []int{2, 16}, "16", "none"},
		{3, []int{2, 4}, []int{2, 4, 8}, "4,8", "4"},
		{3, []int{2, 4, 8, 16}, []int{2, 4, 8}, "", ""},
		{3, []int{2, 65536}, []int{2, 32768}, "32768", "65536"},
		{7, []int{2, 8}, []int{2, 4, 8}, "4,8", "8"},
		{7, []int{2, 8, 16, 32}, []int{2, 16, 8}, "", ""},
		{8, []int{2, 4, 16}, []int{2, 4, 8, 16}, "4,8,16", "4,16"},
		{8, nil, []int{2, 4, 8, 16, 32}, "", ""},
		{8, nil, []int{2, 16}, "16", "4,8,16"},
		{8, []int{2, 4}, nil, "", ""},
	}
	eachRelease(t, func(t *testing.T, release slurmconf.Release) {
		s := startSlurm(t, release)
		for _, c := range cases {
			s.sizes(c, false)
			if release.Does(slurmconf.EmptyUnits) {
				s.sizes(c, true)
			}
		}
	})
}

// topologies are two, the second, which is the default, with these sizes. Of
// three blocks two are empty where placeholders are asked for.
func (c sizesCase) topologies(sizes []int, placeholders bool) []topology.Topology {
	var blocks []topology.Block
	for i := range c.blocks {
		b := topology.Block{Name: fmt.Sprintf("nvl-%d", i)}
		if !placeholders || i%3 == 0 {
			b.Nodes = hosts.In(fmt.Sprintf("n[%03d-%03d]", 2*i+1, 2*i+2))
		}
		blocks = append(blocks, b)
	}
	return []topology.Topology{
		{Name: "pairs", Kind: "block", Sizes: []int{4, 8}, Blocks: blocks},
		{Name: "nvl", Default: true, Kind: "block", Sizes: sizes, Blocks: blocks},
	}
}

// sizes loads a case as topology.conf, and as topology.yaml where the release
// reads it, and compares what is shown.
func (s *realSlurm) sizes(c sizesCase, placeholders bool) {
	s.t.Helper()
	formats := map[string]func([]topology.Topology) ([]byte, error){
		"topology.conf": func(t []topology.Topology) ([]byte, error) { return slurmconf.RenderConf(t[1], "") },
	}
	if s.release.Does(slurmconf.TopologyYAML) {
		formats["topology.yaml"] = func(t []topology.Topology) ([]byte, error) { return slurmconf.RenderYAML(t, "") }
	}
	for name, render := range formats {
		loaded, err1 := render(c.topologies(c.loaded, placeholders))
		file, err2 := render(c.topologies(c.file, placeholders))
		if err := errors.Join(err1, err2); err != nil {
			s.t.Fatal(err)
		}
		text, failed := s.topology(realConfig{plugin: lint.PluginBlock, files: map[string]string{name: string(loaded)}})
		shown, err := slurmctld.ParseShown("scontrol", []byte(text))
		if err := errors.Join(failed, err); err != nil {
			s.t.Errorf("Slurm %s, %s: %v\n%s", s.release, loaded, err, text)
			continue
		}
		var want []slurmctld.Difference
		if c.fileSays != c.slurmHas {
			want = []slurmctld.Difference{{What: "further block sizes", Wanted: c.fileSays, Shown: c.slurmHas}}
		}
		topologies, err := slurmconf.ParseTopologies(name, file)
		if err != nil {
			s.t.Fatal(err)
		}
		differences, _ := slurmctld.CompareShown(shown, slurmctld.Like(shown, topologies))
		if diff := cmp.Diff(want, differences); diff != "" {
			s.t.Errorf("Slurm %s, sizes %v loaded, %v in the file (-want +got)\n%s\n%s", s.release, c.loaded, c.file, diff, text)
		}
	}
}

// TestRealSkeletons loads skeletons of topologies with nodes.
func TestRealSkeletons(t *testing.T) {
	eachRelease(t, func(t *testing.T, release slurmconf.Release) {
		if !release.Does(slurmconf.TopologyYAML) {
			return
		}
		s := startSlurm(t, release)
		for _, c := range shownCases() {
			yaml, err := slurmconf.RenderYAML([]topology.Topology{slurmconf.Skeleton(c.topology)}, "")
			if err != nil {
				t.Fatal(err)
			}
			fatal, complaints := s.fatal(realConfig{plugin: lint.PluginBlock, files: map[string]string{"topology.yaml": string(yaml)}})
			if fatal {
				t.Errorf("Slurm %s does not start with the skeleton of %s:\n%s\n%s", release, c.name, yaml, complaints)
			}
		}
	})
}
