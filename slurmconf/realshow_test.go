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

// TestRealGres has Lint and slurmd judge lines of gres.conf.
func TestRealGres(t *testing.T) {
	const files = "File=/dev/nvidia[0-3]"
	texts := []string{
		"Name=gpu Type=h200 " + files, "Name=gpu Type=h200 Count=8 " + files, "Name=gpu Count=2 " + files, "Name=gpu Count=4 " + files, "Name=gpu Count=0 " + files, "Name=gpu Count=4",
		"Name=gpu Foo=1 " + files, "Name=gpu MultipleFiles=/dev/nvidia0", "Name=gpu MultipleFiles=/dev/nvidia[0-1]", "Name=gpu Count=2 MultipleFiles=/dev/nvidia[0-1]", "Name=gpu MultipleFiles=/dev/nvidia[0-1] " + files,
		"Name=gpu File=/dev/nvidia[0-", "NodeName=n[001 Name=gpu " + files, "NodeName=zz Name=gpu " + files, "NodeName=n001 " + files, "NodeName=n001", "Type=a Name=gpu " + files,
		"Name=gpu Links=0,0,0,0 " + files, "Name=gpu Links=abc File=/dev/nvidia0", "Name=gpu Flags=bogus " + files, "Name=gpu Cores=abc " + files, "Name=gpu CPUs=0-3 Files=/dev/nvidia[0-3]", "Name=gpu Link=-1 File=/dev/nvidia0",
		"AutoDetect=off", "AutoDetect=bogus", "AutoDetect=nvidia", "AutoDetect=off Name=gpu", "Name=gpu AutoDetect=off " + files, "NodeName=n001 AutoDetect=off", "AutoDetect=nvidia\nName=gpu " + files,
		"Name=gpu Count=0", "Name=gpu Count=abc", "Name=gpu Count=-1", "Name=gpu Count=1K", "Name=gpu Count=4 Count=4 " + files, "Name=gpu File=/dev/nvidia0 " + files, "Name=license Count=4", "Name=gpu", "hello", "# nothing", "Name=gpu File=",
		"Name=gpu Type=h200 Count=4\nName=gpu Type=h200 File=/dev/nvidia0", "Name=gpu Type=h200 File=/dev/nvidia[0-1]\nName=gpu File=/dev/nvidia[2-3]", "NodeName=n001 Name=gpu Type=h200 File=/dev/nvidia0\nNodeName=n002 Name=gpu File=/dev/nvidia0",
		"NodeName=n001 Name=gpu File=/dev/nvidia0\nNodeName=n[001-002] Name=gpu Count=1", "name=GPU TYPE=h200 file=/dev/nvidia[0-3]", "Name=gpu File=/dev/nvidia0,/dev/nvidia2 # two",
		"Name=gpu Type=a,b " + files, "Name=gpu Count=4x", `Name=gpu Count=""`, "Name=gpu Count=00", "Name=gpu Count=0K", "Name=gpu Count=0x4", "Name=gpu Count=+4", `Name=gpu Count=" 4"`, `Name=gpu Type=""`, `Name="" Count=1`, `Name=gpu File=""`, `Name=gpu MultipleFiles=""`, "Name=gpu Count=99999999999999999999", "Name=gpu Count=9223372036854775808", "Name=gpu Count=4294967296P",
		"Name=gpu Count=4kb", "Name=gpu Count=K", "Name=gpu Count=1T", `NodeName="" Name=gpu Foo=1`, "Name=gpu Flags=, File=/dev/nvidia0", "Name=gpu Count=2k " + files, "Name=gpu Flags=nvidia_gpu_env,one_sharing " + files,
	}
	known, err := slurmconf.ExpandHostlist(realNodes)
	if err != nil {
		t.Fatal(err)
	}
	eachRelease(t, func(t *testing.T, release slurmconf.Release) {
		s := startSlurm(t, release)
		for _, text := range texts {
			lines, rc := s.run("gres", "", realConfig{gres: " Gres=gpu:h200:4", files: map[string]string{"gres.conf": text + "\n"}})
			findings := slurmconf.Lint([]slurmconf.File{{Name: "gres.conf", Data: []byte(text + "\n")}}, slurmconf.Options{Release: release, KnownNodes: known})
			if got, want := slurmconf.HasFatal(findings), rc != "0"; got != want {
				t.Errorf("Slurm %s: Lint says fatal=%t, slurmd %t\n%s\nfindings: %v\nlog:\n%s", release, got, want, text, findings, complaints(lines))
			}
		}
	})
}
