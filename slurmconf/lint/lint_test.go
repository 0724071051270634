package lint

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/gres"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/topology"
)

// reasonsOf lists the findings as "line severity reason".
func reasonsOf(findings []topology.Finding) []string {
	var out []string
	for _, f := range findings {
		out = append(out, fmt.Sprintf("%d %s %s", f.Line, f.Severity, f.Reason))
	}
	return out
}

// chain is a tree with one leaf of 16 nodes below so many levels.
func chain(levels int) string {
	var b strings.Builder
	b.WriteString("SwitchName=s1 Nodes=n[001-016]\n")
	for i := 2; i <= levels; i++ {
		fmt.Fprintf(&b, "SwitchName=s%d Switches=s%d\n", i, i-1)
	}
	return b.String()
}

// columns is a tree of 64 switches: 16 leaves of one node, and 3 switches above each.
func columns() string {
	var b strings.Builder
	for i := 1; i <= 16; i++ {
		fmt.Fprintf(&b, "SwitchName=a%d Nodes=n%03d\nSwitchName=b%d Switches=a%d\nSwitchName=c%d Switches=b%d\nSwitchName=d%d Switches=c%d\n", i, i, i, i, i, i, i, i)
	}
	return b.String()
}

// empty is a leaf of 16 nodes beside so many empty ones.
func empty(leaves int) string {
	var b strings.Builder
	b.WriteString("SwitchName=s1 Nodes=n[001-016]\n")
	for i := range leaves {
		fmt.Fprintf(&b, "SwitchName=e%d\n", i)
	}
	return b.String()
}

// skeleton is 70 empty leaves below 14 spines and a core.
func skeleton() string {
	var b strings.Builder
	for i := range 70 {
		fmt.Fprintf(&b, "SwitchName=l%d\n", i)
	}
	for i := range 14 {
		fmt.Fprintf(&b, "SwitchName=s%d Switches=l[%d-%d]\n", i, 5*i, 5*i+4)
	}
	return b.String() + "SwitchName=core Switches=s[0-13]\n"
}

func TestLintFindings(t *testing.T) {
	known, err := hostlist.Expand("n[001-016]")
	if err != nil {
		t.Fatal(err)
	}
	const good = "BlockName=b1 Nodes=n[001-008]\nBlockName=b2 Nodes=n[009-016]\nBlockSizes=8,16\n"
	const badSizes = "- topology: nvl\n  cluster_default: true\n  block:\n    block_sizes: [8, 12, 16]\n    blocks:\n      - {block: b1, nodes: 'n[001-008]'}\n      - {block: b2, nodes: 'n[009-016]'}\n"
	for _, c := range []struct {
		name, file, text string
		options          Options
		want             []string
	}{
		{name: "good", text: good},
		{name: "two blocks", text: strings.Replace(good, "n[009", "n[008", 1), want: []string{"2 warning Duplicate"}},
		{name: "unknown and nowhere", text: strings.Replace(good, "n[009-016]", "n[009-015],zz1,zz2", 1), want: []string{"2 warning UnknownNode"}},
		{name: "short, old", text: strings.Replace(good, "n[009", "n[010", 1), options: Options{Release: slurmconf.Release2411}, want: []string{"2 fatal BlockSizes"}},
		{name: "placeholder, old", text: "BlockName=b0\n" + good, options: Options{Release: slurmconf.Release2411}, want: []string{"1 fatal Placeholder"}},
		{name: "placeholder", text: "BlockName=b0\n" + good},
		{name: "no block has nodes, which slurm.conf has", text: "BlockName=b1\nBlockName=b2\nBlockSizes=8\n"},
		{name: "odd ranges", text: strings.Replace(strings.Replace(good, "n[001", "n[+01", 1), "n[009-016]", "n[009-016,9-],n{1}", 1), want: []string{"1 unknown NotJudged", "2 unknown NotJudged"}},
		{name: "function", text: strings.Replace(good, "n[009-016]", "n[009-016],block{b1}", 1), want: []string{"2 unknown NotJudged"}},
		{name: "function alone, no sizes", text: "BlockName=b1 Nodes=block{x}\n", options: Options{Release: slurmconf.Release2411}, want: []string{"1 unknown NotJudged"}},
		{name: "ring", file: "topology.yaml", text: "- topology: r\n  cluster_default: true\n  ring: {rings: []}\n", want: []string{"1 unknown NotJudged"}},
		{name: "ring conf", text: "RingName=r Nodes=n[001-016]\n", want: []string{"1 unknown NotJudged"}},
		{name: "ring plugin", text: "RingName=r Nodes=n[001-016]\n", options: Options{Plugin: "topology/ring"}, want: []string{"1 unknown NotJudged"}},
		{name: "ring under a tree", text: "RingName=r Nodes=n[001-016]\n", options: Options{Plugin: PluginTree}, want: []string{"1 fatal UnknownKey", "1 fatal NoTopology"}},
		{name: "sizes of yaml", file: "topology.yaml", text: badSizes, want: []string{"4 fatal BlockSizes"}},
		{name: "sizes of yaml, 25.11", file: "topology.yaml", text: badSizes, options: Options{Release: slurmconf.Release2511}, want: []string{"4 warning BlockSizes"}},
		{name: "gres that do not go together", file: "gres.conf", text: "NodeName=n001 Name=gpu File=/dev/a MultipleFiles=/dev/[b-c]\nNodeName=n002 Name=gpu MultipleFiles=/dev/a\nNodeName=n003 Name=gpu File=/dev/a\nNodeName=n003 Name=gpu Count=1\nNodeName=n004 Name=gpu Type=a File=/dev/a\nNodeName=n004 Name=gpu File=/dev/b\nNodeName=n005 Name=gpu Count=1\nNodeName=n005 Name=gpu Count=1\n", want: []string{"1 unknown NotJudged", "2 unknown NotJudged", "4 unknown NotJudged", "6 unknown NotJudged", "7 fatal FewerGPUs", "8 fatal GresLine", "8 fatal FewerGPUs"}},
		{name: "gres of other kinds", file: "gres.conf", text: "Name=mps Count=x\nName=mps Count=y\nName=gpu File=/dev/nvidia0 Flags=one_sharing\nNodeName=block{b} Name=gpu File=/dev/nvidia1\n", want: []string{"1 unknown NotJudged", "2 unknown NotJudged", "3 unknown NotJudged", "4 unknown NotJudged"}},
		{name: "duplicate", text: good + "BlockName=b2 Nodes=n001\n", want: []string{"4 fatal Duplicate", "4 warning Duplicate"}},
		{name: "sizes", text: strings.Replace(good, "8,16", "8,12", 1), want: []string{"3 fatal BlockSizes"}},
		{name: "sizes zero", text: strings.Replace(good, "8,16", "8,0", 1), want: []string{"3 fatal BlockSizes"}},
		{name: "base zero", text: strings.Replace(good, "8,16", "0,16", 1), want: []string{"3 fatal BlockSizes"}},
		{name: "sizes order", text: strings.Replace(good, "8,16", "8,32,16", 1), want: []string{"3 warning BlockSizes"}},
		{name: "name", text: strings.Replace(good, "b1", "b:1", 1), want: []string{"1 warning Name"}},
		{name: "digits", text: strings.Replace(good, "b1", "b1234567890123456789", 1), want: []string{"1 warning Name"}},
		{name: "tree line", text: good + "SwitchName=s Nodes=n001\n", want: []string{"4 fatal UnknownKey"}},
		{name: "tree plugin", text: good, options: Options{Plugin: PluginTree}, want: []string{"1 fatal UnknownKey", "1 fatal NoTopology", "2 fatal UnknownKey", "3 fatal UnknownKey"}},
		{name: "flat plugin", text: good, options: Options{Plugin: "topology/flat"}, want: []string{"1 fatal NotRead"}},
		{name: "empty", text: "", want: []string{"1 fatal NoTopology"}},
		{name: "empty, old", text: "", options: Options{Release: slurmconf.Release2411}, want: []string{"1 warning NoTopology"}},
		{name: "two leaves", text: "SwitchName=a Nodes=n[001-008]\nSwitchName=b Nodes=n[008-016]\nSwitchName=c Switches=a\nSwitchName=d Switches=[a-b],a\n", want: []string{"2 warning Duplicate", "4 unknown NotJudged"}},
		{name: "two parents", text: "SwitchName=a Nodes=n[001-016]\nSwitchName=c Switches=a\nSwitchName=d Switches=a,d\n", want: []string{"3 warning NotATree", "3 fatal NotATree", "3 fatal NotATree"}},
		{name: "20 levels", text: chain(20)},
		{name: "21 levels", text: chain(21), want: []string{"21 fatal TreeTooLarge"}},
		{name: "300 levels", text: chain(300), want: []string{"1 fatal TreeTooLarge", "21 fatal TreeTooLarge"}},
		{name: "64 switches of 16 nodes", text: columns()},
		{name: "a skeleton of three levels", text: skeleton()},
		{name: "65 switches of 16 empty leaves", text: regexp.MustCompile(" Nodes=.*").ReplaceAllString(columns(), "") + "SwitchName=top Switches=d[1-16]\n", want: []string{"1 fatal TreeTooLarge"}},
		{name: "65 switches of 16 nodes", text: columns() + "SwitchName=top Switches=d[1-16]\n", want: []string{"1 fatal TreeTooLarge"}},
		{name: "65 switches without nodes", text: empty(65)},
		{name: "yaml, old", file: "topology.yaml", text: "- x", options: Options{Release: slurmconf.Release2411}, want: []string{"1 fatal NotRead"}},
		{name: "yaml ring, 25.05", file: "topology.yaml", text: "- topology: r\n  cluster_default: true\n  ring: {rings: []}\n", options: Options{Release: slurmconf.Release2505}, want: []string{"1 unknown NotJudged"}},
		{name: "yaml names", file: "topology.yaml", text: "- topology: f\n  flat: true\n- topology: f\n  flat: perhaps\n  x: 1\n", options: Options{Partitions: []Partition{{Name: "p", Topology: "g", Line: 1}}}, want: []string{"1 warning BadTopology", "3 warning Duplicate", "4 warning BadValue", "5 warning UnknownKey", "1 fatal UnknownTopology"}},
		{name: "gres", file: "gres.conf", text: "NodeName=n[001-002],q Name=gpu File=/dev/nvidia[0-3] Flags=no_gpu_env,opencl_env Links=0\n", options: Options{Nodes: map[string]*Node{"n001": {Gres: gres.Counts{GPUs: []gres.GPUCount{{Count: 4}}}}, "n002": {Gres: gres.Counts{GPUs: []gres.GPUCount{{Count: 8}}}}}}, want: []string{"1 warning UnknownNode", "1 warning GresLine", "1 fatal GresLine", "1 fatal FewerGPUs"}},
		{name: "gres of another kind with an unknown key", file: "gres.conf", text: "NodeName=q Name=nic Foo=1 Count=x\n", options: Options{GresTypes: []string{"gpu", "nic"}}, want: []string{"1 fatal UnknownKey"}},
		{name: "gres for nobody", file: "gres.conf", text: "NodeName=q[1-2] Name=gpu File=/dev/a Count=2\n", want: []string{"1 warning UnknownNode", "1 warning GresLine"}},
		{name: "gres flags", file: "gres.conf", text: "NodeName=n[001-004] Name=gpu File=/dev/a Flags=nvidia_gpu_env\nNodeName=n[005-008] Name=gpu File=/dev/b\nNodeName=n[004-005] Name=gpu File=/dev/b Flags=amd_gpu_env,nvidia_gpu_env\n", want: []string{"3 fatal GresLine", "3 fatal GresLine"}},
		{name: "gres twice", file: "gres.conf", text: "Name=gpu Count=1\nNodeName=n003 Name=gpu Count=1\nNodeName=n003 AutoDetect=off\nNodeName=n003 AutoDetect=nvidia\n", want: []string{"1 fatal FewerGPUs", "4 unknown NotJudged"}},
		{name: "gres more than slurm.conf", file: "gres.conf", text: "Name=gpu File=/dev/nvidia[0-1]\nName=gpu File=/dev/nvidia[0-1]\nName=Gpu File=/dev/x\n", options: Options{Nodes: map[string]*Node{"n001": {Gres: gres.Counts{GPUs: []gres.GPUCount{{Count: 2}}}}}, GresTypes: []string{"gpu"}}, want: []string{"1 warning MoreGPUs", "2 warning GresLine", "3 unknown NotJudged"}},
		{name: "gres links", file: "gres.conf", text: "NodeName=n001 Name=gpu File=/dev/a Links=-1,4\nNodeName=n002 Name=gpu File=/dev/a Links=-1,-1\nNodeName=n003 Name=gpu File=/dev/a Links=-1,x\nNodeName=n004 Name=gpu File=/dev/a Links=4,-2\n", want: []string{"2 warning GresLine", "3 warning GresLine", "4 warning GresLine"}},
		{name: "gres for a broken list", file: "gres.conf", text: "NodeName=n[2-1] Name=gpu File=/dev/a\n", want: []string{"1 warning BadValue"}},
		{name: "gres autodetect that nobody knows", file: "gres.conf", text: "NodeName=n001 AutoDetect=magic\nNodeName=n002 AutoDetect=nvml,magic\n", want: []string{"1 warning AutoDetect", "2 unknown NotJudged"}},
		{name: "gres not judged", file: "gres.conf", text: "NodeName=n[001-002] Name=gpu Cores=3-1 Files=/dev/x File=/dev/y Flags=explicit Count=4x\nNodeName=n[002-003] Name=gpu Count=1\nNodeName=n003 Name=gpu Count=1\n", want: []string{"1 unknown NotJudged", "1 unknown NotJudged", "1 unknown NotJudged", "1 unknown NotJudged", "2 fatal FewerGPUs", "3 fatal GresLine", "3 fatal FewerGPUs"}},
		{name: "gres autodetect", file: "gres.conf", text: "AutoDetect=full\n", options: Options{Release: slurmconf.Release2511, Nodes: map[string]*Node{"n001": {Gres: gres.Counts{GPUs: []gres.GPUCount{{Count: 4}}}}}}, want: []string{"1 warning AutoDetect", "1 fatal FewerGPUs"}},
	} {
		if c.file == "" {
			c.file = "topology.conf"
		}
		c.options.KnownNodes = known
		findings := Lint([]File{{Name: c.file, Data: []byte(c.text)}}, c.options)
		if diff := cmp.Diff(c.want, reasonsOf(findings)); diff != "" {
			t.Errorf("%s (-want +got):\n%s\n%v", c.name, diff, findings)
		}
	}
}

func TestLintFilesTogether(t *testing.T) {
	yaml := File{Name: "dir/topology.yaml", Data: []byte("- topology: f\n  cluster_default: true\n  flat: true\n")}
	conf := File{Name: "dir/topology.conf", Data: []byte("nonsense\n")}
	gpus := File{Name: "dir/gres.conf", Data: []byte("Name=gpu File=/dev/nvidia[0-7]\n")}
	cgroup := func(text string) File { return File{Name: "dir/cgroup.conf", Data: []byte(text)} }
	for _, c := range []struct {
		name    string
		files   []File
		options Options
		want    []string
	}{
		{name: "none", options: Options{}},
		{name: "missing", options: Options{Plugin: PluginTree, Files: ThisHost}, want: []string{"topology.conf:1 fatal NoTopology"}},
		{name: "yaml wins", files: []File{conf, yaml}, options: Options{Plugin: PluginBlock}, want: []string{"dir/topology.conf:1 warning NotRead"}},
		{name: "conf wins", files: []File{yaml, conf}, options: Options{Plugin: PluginTree, Release: slurmconf.Release2411}, want: []string{"dir/topology.yaml:1 warning NotRead", "dir/topology.conf:1 fatal Syntax"}},
		{name: "devices of all", files: []File{gpus, cgroup("ConstrainCores=yes")}, want: []string{"dir/cgroup.conf:1 warning DevicesNotConstrained"}},
		{name: "devices of all, in words", files: []File{gpus, cgroup("ConstrainCores=yes\nconstraindevices=no")}, want: []string{"dir/cgroup.conf:2 warning DevicesNotConstrained"}},
		{name: "devices of all, the last word counts", files: []File{gpus, cgroup("ConstrainDevices=yes\nConstrainDevices=0")}, want: []string{"dir/cgroup.conf:2 warning DevicesNotConstrained"}},
		{name: "devices of all, by detection", files: []File{{Name: "gres.conf", Data: []byte("AutoDetect=nvidia\n")}, cgroup("")}, want: []string{"dir/cgroup.conf:1 warning DevicesNotConstrained"}},
		{name: "devices of all, by slurm.conf", files: []File{yaml, cgroup("")}, options: Options{Nodes: map[string]*Node{"n": {Gres: gres.Counts{GPUs: []gres.GPUCount{{Count: 8}}}}}}, want: []string{"dir/cgroup.conf:1 warning DevicesNotConstrained"}},
		{name: "own devices", files: []File{gpus, cgroup("ConstrainCores=yes\nconstrainDevices=TRUE")}},
		{name: "no GPUs", files: []File{yaml, {Name: "gres.conf", Data: []byte("AutoDetect=off\n")}, cgroup("")}},
		{name: "no cgroup.conf", files: []File{gpus}},
		{name: "cgroup.conf that is none", files: []File{gpus, cgroup("ConstrainDevices")}, want: []string{"dir/cgroup.conf:1 fatal Syntax"}},
		{name: "two keys on a line of cgroup.conf", files: []File{gpus, cgroup("\nConstrainCores=yes ConstrainDevices=yes")}, want: []string{"dir/cgroup.conf:2 fatal Syntax"}},
		{name: "neither yes nor no", files: []File{gpus, cgroup("ConstrainDevices=maybe")}, want: []string{"dir/cgroup.conf:1 fatal BadValue"}},
		{name: "gres too", files: []File{yaml, {Name: "gres.conf", Data: []byte("Foo=1\n")}}, want: []string{"gres.conf:1 fatal UnknownKey"}},
	} {
		var got []string
		for _, f := range Lint(c.files, c.options) {
			got = append(got, fmt.Sprintf("%s:%d %s %s", f.File, f.Line, f.Severity, f.Reason))
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}
