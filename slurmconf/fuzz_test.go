package slurmconf

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// small keeps fuzzed host lists from growing to millions of names.
func small(data []byte) bool {
	digits := 0
	for _, c := range data {
		if c-'0' <= 9 {
			if digits++; digits > 4 {
				return false
			}
		} else {
			digits = 0
		}
	}
	return len(data) < 2000
}

func FuzzTopologyConf(f *testing.F) {
	for _, s := range []string{blockConf, treeConf, "", "BlockSizes=4\n", "BlockName=\"a b\" Nodes= n1 \\\n# x\nblocksizes += 4,8", "SwitchName=s\nSwitchName=t Switches=s,t", "Include x\n", "BlockName=a[1 Nodes=n1]\nBlockName=b", `BlockName=a\#b Nodes=n1`, "BlockName=a Nodes=n[1z-3],block{a}\nBlockName=b Nodes=r[x]s[1]n[1]"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if !small(data) {
			return
		}
		first, err := ParseConf("topology.conf", data)
		if err != nil {
			return
		}
		text, err := RenderConf(first, "")
		if err != nil {
			return // a name that Slurm would take and we do not write
		}
		second, err := ParseConf("topology.conf", text)
		if err != nil {
			t.Fatalf("ParseConf of what RenderConf wrote: %v\n%s", err, text)
		}
		if diff := cmp.Diff(first, second); diff != "" {
			t.Fatalf("(-first +second):\n%s\nof\n%s", diff, text)
		}
		if _, err := Skeleton(first); err != nil && first.Block != nil {
			t.Fatalf("Skeleton of blocks: %v", err)
		}
	})
}

func FuzzTopologyYAML(f *testing.F) {
	for _, s := range []string{bothYAML, "", "[]", "topology: a\nflat: {}\n", "- topology: a\n  block: {block_sizes: 0x4, blocks: {block: b, nodes: }}\n", "- &a [*a]\n", "- ? [x]\n  : y\n", "- topology: !!binary aGk=\n  flat: yes\n", "- topology: |\n    a\n  tree: {switches: [{switch: s, nodes: n1, children: t}]}\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if !small(data) {
			return
		}
		first, err := ParseYAML("topology.yaml", data)
		if err != nil {
			return
		}
		text, err := RenderYAML(first, "a header")
		if err != nil {
			return
		}
		second, err := ParseYAML("topology.yaml", text)
		if err != nil {
			t.Fatalf("ParseYAML of what RenderYAML wrote: %v\n%s", err, text)
		}
		if diff := cmp.Diff(first, second); diff != "" {
			t.Fatalf("(-first +second):\n%s\nof\n%s", diff, text)
		}
	})
}

func FuzzGres(f *testing.F) {
	for _, s := range []string{"NodeName=n[001-018] Name=gpu Type=gb200 File=/dev/nvidia[0-3] Cores=0-71 Flags=nvidia_gpu_env\n", "Name=gpu MultipleFiles=/dev/a,/dev/b Links=-1,4 Count=1\n", "AutoDetect=nvidia\n", "NodeName=a AutoDetect=off\n", "Name=gpu Count=2K\nname=gpu count=1 files=/dev/x", "NodeName=x[1 Name=gpu Flags=,,a", "Name=gpu Count=18446744073709551615P", "Name=gpu Flags=explicit Count=-3\nNodeName=n[1-2],n1 Name=gpu Name=x Count=1\nNodeName=n[2 Name=gpu", "NodeName=n[1-3] AutoDetect=off\nNodeName=n2 AutoDetect=nvml,x Name=gpu File=/dev/a,/dev/a Links=-1"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if !small(data) {
			return
		}
		first, err := ParseGres("gres.conf", data)
		if err != nil {
			return
		}
		text, err := RenderGres(first, "")
		if err != nil {
			return
		}
		second, err := ParseGres("gres.conf", text)
		if err != nil {
			t.Fatalf("ParseGres of what RenderGres wrote: %v\n%s", err, text)
		}
		if diff := cmp.Diff(first, second); diff != "" {
			t.Fatalf("(-first +second):\n%s\nof\n%s", diff, text)
		}
	})
}
