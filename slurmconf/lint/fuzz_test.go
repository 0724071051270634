package lint

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/topology"
)

// lintAll lets Lint judge the file for every release, which must not panic.
func lintAll(t *testing.T, name string, data []byte) {
	t.Helper()
	for _, release := range slurmconf.Releases() {
		for _, known := range [][]string{nil, {"n1", "n001", "n002"}} {
			findings := Lint([]File{{Name: name, Data: data}}, Options{Release: release, KnownNodes: known})
			for _, f := range findings {
				if f.File != name || f.Line < 1 || f.Reason == "" || f.Message == "" || f.Remedy == "" {
					t.Fatalf("finding is not whole: %+v", f)
				}
			}
		}
	}
}

// small keeps fuzzed host lists from growing to millions of names.
func small(data []byte) bool { return len(data) < 2000 && !fiveDigits.Match(data) }

var fiveDigits = regexp.MustCompile(`\d{5}`)

// fuzzLint lints a file of a name.
func fuzzLint(f *testing.F, name string, seeds ...string) {
	f.Helper()
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if small(data) {
			lintAll(t, name, data)
		}
	})
}

func FuzzLintTopologyConf(f *testing.F) {
	fuzzLint(f, "topology.conf", "BlockName=nvl-1 Nodes=n[001-018]\nBlockName=nvl-2\nBlockSizes=18,36\n", "SwitchName=spine Switches=leaf[1-2]\nSwitchName=leaf1 Nodes=n[001-018]\n", "", "BlockSizes=4\n", "BlockName=\"a b\" Nodes= n1 \\\n# x\nblocksizes += 4,8", "SwitchName=s\nSwitchName=t Switches=s,t", "Include x\n", "BlockName=a[1 Nodes=n1]\nBlockName=b", `BlockName=a\#b Nodes=n1`, "BlockName=a Nodes=n[1z-3],block{a}\nBlockName=b Nodes=r[x]s[1]n[1]")
}

func FuzzLintTopologyYAML(f *testing.F) {
	fuzzLint(f, "topology.yaml", "%YAML 1.2\n---\n- topology: a\n  flat: true\n", "- topology: nvl\n  cluster_default: true\n  block:\n    block_sizes: [18, 36]\n    blocks:\n      - block: nvl-1\n        nodes: n[001-018]\n      - block: nvl-2\n", "", "[]", "topology: a\nflat: {}\n", "- topology: a\n  block: {block_sizes: 0x4, blocks: {block: b, nodes: }}\n", "- &a [*a]\n", "- ? [x]\n  : y\n", "- topology: !!binary aGk=\n  flat: yes\n", "- topology: |\n    a\n  tree: {switches: [{switch: s, nodes: n1, children: t}]}\n")
}

func FuzzLintGres(f *testing.F) {
	fuzzLint(f, "gres.conf", "NodeName=n[001-018] Name=gpu Type=gb200 File=/dev/nvidia[0-3] Cores=0-71 Flags=nvidia_gpu_env\n", "Name=gpu MultipleFiles=/dev/a,/dev/b Links=-1,4 Count=1\n", "AutoDetect=nvidia\n", "NodeName=a AutoDetect=off\n", "Name=gpu Count=2K\nname=gpu count=1 files=/dev/x", "NodeName=x[1 Name=gpu Flags=,,a", "Name=gpu Count=18446744073709551615P", "Name=gpu Flags=explicit Count=-3\nNodeName=n[1-2],n1 Name=gpu Name=x Count=1\nNodeName=n[2 Name=gpu", "NodeName=n[1-3] AutoDetect=off\nNodeName=n2 AutoDetect=nvml,x Name=gpu File=/dev/a,/dev/a Links=-1")
}

func FuzzLintCgroup(f *testing.F) {
	fuzzLint(f, "cgroup.conf", "CgroupPlugin=autodetect\nConstrainDevices=yes ConstrainCores=no\n", "constraindevices", "ConstrainDevices=\\\n1", "Include x\n", "")
}

// FuzzNodeTopology judges Topology= of two nodes. A word that names no topology is fatal,
// and so is one that names no block.
func FuzzNodeTopology(f *testing.F) {
	for _, s := range []string{"nvl:b1,fabric:leaf1", "fabric:core:x:y", "fabric:leaf9,flat", ",:,", "fabric::core"} {
		f.Add(s, "fabric:core:x")
	}
	file := File{Name: "topology.yaml", Data: []byte("- topology: nvl\n  cluster_default: true\n  block: {blocks: [{block: b1, nodes: n1}]}\n- topology: fabric\n  tree: {switches: [{switch: core, children: leaf1}, {switch: leaf1, nodes: n1}]}\n- topology: flat\n  flat: true\n")}
	f.Fuzz(func(t *testing.T, a, b string) {
		bad := false
		for word := range strings.SplitSeq(a+","+b, ",") {
			name, unit, _ := strings.Cut(word, ":")
			bad = bad || word != "" && (!slices.Contains([]string{"nvl", "fabric", "flat"}, name) || name == "nvl" && unit != "b1")
		}
		nodes := []NodeTopology{{Nodes: []string{"x1"}, Value: a, File: "slurm.conf", Line: 1}, {Nodes: []string{"x2"}, Value: b, File: "slurm.conf", Line: 2}}
		findings := Lint([]File{file}, Options{NodeTopologies: nodes})
		if bad && !topology.Has(findings, topology.Fatal) {
			t.Fatalf("%q and %q name what is not there, and nothing is fatal: %v", a, b, findings)
		}
		for _, f := range findings {
			if f.Line < 1 || f.Reason == "" || f.Message == "" || f.Remedy == "" {
				t.Fatalf("finding is not whole: %+v", f)
			}
		}
	})
}
