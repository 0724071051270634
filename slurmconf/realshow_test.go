package slurmconf_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf"
)

// shownCase is a topology that real Slurm loads and shows.
type shownCase struct {
	name        string
	topology    slurmconf.Topology
	placeholder bool // needs 25.05
}

func shownCases() []shownCase {
	blocks := []slurmconf.Block{{Name: "nvl-1", Nodes: "n[001-004]"}, {Name: "nvl-2", Nodes: "n[005-008]"}, {Name: "nvl-10", Nodes: "n[009-012]"}, {Name: "nvl-x", Nodes: "n[013-016]"}}
	holes := []slurmconf.Block{{Name: "nvl-1", Nodes: "n[001-004]"}, {Name: "nvl-2"}, {Name: "nvl-3", Nodes: "n[009-011]"}}
	switches := []slurmconf.Switch{{Name: "leaf1", Nodes: "n[001-008]"}, {Name: "leaf2", Nodes: "n[009-016]"}, {Name: "spine", Children: "leaf[1-2]"}}
	make := func(sizes []int, b []slurmconf.Block) slurmconf.Topology {
		return slurmconf.Topology{Name: "default", Default: true, Block: &slurmconf.BlockTopology{Sizes: sizes, Blocks: b}}
	}
	return []shownCase{
		{name: "blocks", topology: make([]int{4}, blocks)},
		{name: "aggregates", topology: make([]int{4, 8, 16}, blocks)},
		{name: "placeholder", topology: make([]int{4, 8}, holes), placeholder: true},
		{name: "tree", topology: slurmconf.Topology{Name: "default", Default: true, Tree: &slurmconf.TreeTopology{Switches: switches}}},
	}
}

// TestRealShown loads topologies, as conf and as yaml, and reads back what
// scontrol shows of them.
func TestRealShown(t *testing.T) {
	eachRelease(t, func(t *testing.T, release slurmconf.Release) {
		s := startSlurm(t, release)
		for _, c := range shownCases() {
			if c.placeholder && !release.Placeholders() {
				continue
			}
			plugin := slurmconf.PluginBlock
			if c.topology.Tree != nil {
				plugin = slurmconf.PluginTree
			}
			conf, err := slurmconf.RenderConf(c.topology, "")
			if err != nil {
				t.Fatal(err)
			}
			s.shown(c.name+" conf", c.topology, realConfig{plugin: plugin, files: map[string]string{"topology.conf": string(conf)}})
			if !release.YAML() {
				continue
			}
			yaml, err := slurmconf.RenderYAML([]slurmconf.Topology{c.topology, {Name: "flat", Flat: true}}, "")
			if err != nil {
				t.Fatal(err)
			}
			s.shown(c.name+" yaml", c.topology, realConfig{plugin: plugin, files: map[string]string{"topology.yaml": string(yaml)}})
		}
	})
}

func (s *realSlurm) shown(name string, want slurmconf.Topology, c realConfig) {
	s.t.Helper()
	lines, rc := s.run("show", "", c)
	text := strings.Join(lines, "\n")
	if rc != "0" {
		s.t.Errorf("Slurm %s, %s: exit %s:\n%s", s.release, name, rc, text)
		return
	}
	shown, err := slurmconf.ParseShown("scontrol", []byte(text))
	if err != nil {
		s.t.Errorf("Slurm %s, %s: %v in\n%s", s.release, name, err, text)
		return
	}
	if diff := cmp.Diff(want, shown.Topology()); diff != "" {
		s.t.Errorf("Slurm %s, %s (-loaded +shown):\n%s\nof\n%s", s.release, name, diff, text)
	}
}

// TestRealSkeletons loads skeletons of topologies with nodes.
func TestRealSkeletons(t *testing.T) {
	eachRelease(t, func(t *testing.T, release slurmconf.Release) {
		if !release.YAML() {
			return
		}
		s := startSlurm(t, release)
		for _, c := range shownCases() {
			skeleton, err := slurmconf.Skeleton(c.topology)
			if err != nil {
				t.Fatal(err)
			}
			yaml, err := slurmconf.RenderYAML([]slurmconf.Topology{skeleton}, "")
			if err != nil {
				t.Fatal(err)
			}
			lines, rc := s.run("ctl", "", realConfig{plugin: slurmconf.PluginBlock, files: map[string]string{"topology.yaml": string(yaml)}})
			if rc != "0" {
				t.Errorf("Slurm %s does not start with the skeleton of %s:\n%s\n%s", release, c.name, yaml, complaints(lines))
			}
		}
	})
}
