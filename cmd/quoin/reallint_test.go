package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/test/rig/oracle"
	"github.com/quoin-hpc/quoin/test/rig/slurmrig"
)

// lintPair is a slurm.conf with its files. says24 and says26 are the reason word that keeps
// Slurm 24.11 and 26.05 from them, empty if nothing does.
type lintPair struct {
	name, conf     string
	files          map[string]string
	says24, says26 string
}

// The nodes of the pairs, and their files.
const (
	pairNodes = "NodeName=n[1-4] NodeAddr=127.0.0.1 Port=[20001-20004] Sockets=2 CoresPerSocket=8 RealMemory=1000\n"
	pairMain  = "PartitionName=main Nodes=ALL Default=YES\n"
	pairGPUs  = "GresTypes=gpu\nNodeName=DEFAULT Gres=gpu:a:2\n"

	pairBlocks = "BlockName=b1 Nodes=n[1-2]\nBlockName=b2 Nodes=n[3-4]\nBlockSizes=2\n"
	pairTree   = "SwitchName=l1 Nodes=n[1-2]\nSwitchName=l2 Nodes=n[3-4]\nSwitchName=s Switches=l[1-2]\n"
	pairYAML   = "- topology: nvl\n  cluster_default: true\n  block:\n    block_sizes: [2]\n    blocks:\n      - {block: b1, nodes: 'n[1-2]'}\n" +
		"- topology: fabric\n  cluster_default: false\n  tree:\n    switches:\n      - {switch: l1, nodes: 'n[1-2]'}\n      - {switch: l2, nodes: 'n[3-4]'}\n      - {switch: s, children: 'l[1-2]'}\n"
	pairDynamic = "GresTypes=gpu\nMaxNodeCount=4\nSelectType=select/cons_tres\nTreeWidth=65533\nPartitionName=main Nodes=ALL Default=YES\n"
	pairLines   = "Name=gpu Type=a File=/dev/nvidia[0-1]\n"
)

func lintPairs() []lintPair {
	conf := func(text string) map[string]string { return map[string]string{"topology.conf": text} }
	yaml := map[string]string{"topology.yaml": pairYAML}
	gres := func(text string) map[string]string { return map[string]string{"gres.conf": text} }
	none := map[string]string{}
	plugin := func(word string) string { return pairNodes + pairMain + "TopologyPlugin=" + word + "\n" }
	plain, gpus := pairNodes+pairMain, pairGPUs+pairNodes+pairMain
	inYAML := func(partition string) string {
		return pairNodes + pairMain + "PartitionName=p Nodes=n[3-4] Topology=" + partition + "\n"
	}
	return []lintPair{
		// Each word of TopologyPlugin.
		{"blocks", plugin("topology/block"), conf(pairBlocks), "", ""},
		{"a tree", plugin("topology/tree"), conf(pairTree), "", ""},
		{"no plugin", plain, conf(pairBlocks), "NotRead", "NotRead"},
		{"flat", plugin("topology/flat"), conf(pairBlocks), "BadValue", "NotRead"},
		{"default", plugin("topology/default"), conf(pairBlocks), "NotRead", "NotRead"},
		{"topology/none", plugin("topology/none"), conf(pairTree), "NotRead", "NotRead"},
		{"none", plugin("none"), conf(pairTree), "NotRead", "NotRead"},
		{"a typing error", plugin("topology/blocks"), conf(pairBlocks), "BadValue", "BadValue"},
		{"3d_torus", plugin("topology/3d_torus"), none, "BadValue", "BadValue"},
		{"capitals", plugin("TOPOLOGY/BLOCK"), conf(pairBlocks), "BadValue", "BadValue"},
		{"without its prefix", plugin("tree"), conf(pairTree), "BadValue", "BadValue"},
		{"blocks without a file", plugin("topology/block"), none, "NoTopology", "NoTopology"},
		{"a tree without a file", plugin("topology/tree"), none, "NoTopology", "NoTopology"},
		{"a tree and gres.conf alone", pairGPUs + plugin("topology/tree"), gres(pairLines), "NoTopology", "NoTopology"},
		{"flat without a file", plugin("topology/flat"), none, "BadValue", ""},
		{"default without a file", plugin("topology/default"), none, "", ""},
		{"topology/none without a file", plugin("topology/none"), none, "", ""},
		{"none without a file", plugin("none"), none, "", ""},
		{"None without a file", plugin("None"), none, "", ""},
		{"Topology/Default without a file", plugin("Topology/Default"), none, "BadValue", ""},
		{"Topology/None without a file", plugin("Topology/None"), none, "", ""},
		{"nothing at all", plain, none, "", ""},
		{"a ring without a file", plugin("topology/ring"), none, "BadValue", "NoTopology"},
		{"a torus without a file", plugin("topology/torus3d"), none, "BadValue", "NoTopology"},
		{"a ring", plugin("topology/ring"), conf("RingName=r Nodes=n[1-4]\n"), "BadValue", "NotJudged"},
		{"a tree in a file of blocks", plugin("topology/block"), conf(pairTree), "UnknownKey", "UnknownKey"},
		{"blocks in a file of a tree", plugin("topology/tree"), conf(pairBlocks), "UnknownKey", "UnknownKey"},
		// topology.yaml.
		{"yaml alone", plain, yaml, "NotRead", ""},
		{"yaml and a wrong plugin", plugin("topology/blocks"), yaml, "BadValue", ""},
		{"yaml and flat", plugin("topology/flat"), yaml, "BadValue", ""},
		{"both files", plugin("topology/block"), map[string]string{"topology.yaml": pairYAML, "topology.conf": pairBlocks}, "", ""},
		{"a partition's topology", inYAML("fabric"), yaml, "UnknownTopology", ""},
		{"a topology that is not there", inYAML("gone"), yaml, "UnknownTopology", "UnknownTopology"},
		{"a topology in capitals", inYAML("Fabric"), yaml, "UnknownTopology", "UnknownTopology"},
		{"a partition outside its topology", inYAML("nvl"), yaml, "UnknownTopology", ""},
		{"Topology=default", plugin("topology/block") + "PartitionName=p Nodes=ALL Topology=default\n", conf(pairBlocks), "UnknownTopology", ""},
		{"Topology= of a topology.conf", plugin("topology/block") + "PartitionName=p Nodes=ALL Topology=nvl\n", conf(pairBlocks), "UnknownTopology", "UnknownTopology"},
		{"Topology= without a file", plain + "PartitionName=p Nodes=ALL Topology=tree\n", none, "UnknownTopology", "UnknownTopology"},
		{"Topology=default without a file", plain + "PartitionName=p Nodes=ALL Topology=default\n", none, "UnknownTopology", ""},
		{"a node's place", strings.Replace(plain, "RealMemory", "Topology=nvl:b1 RealMemory", 1), yaml, "NodeTopology", ""},
		{"a node's place that is not there", strings.Replace(plain, "RealMemory", "Topology=nvl:b9 RealMemory", 1), yaml, "NodeTopology", "NodeTopology"},
		{"a node's place without a file", strings.Replace(plain, "RealMemory", "Topology=default:b1 RealMemory", 1), none, "NodeTopology", ""},
		// What a release takes of the files.
		{"a short block", plugin("topology/block"), conf("BlockName=b1 Nodes=n[1-2]\nBlockName=b2 Nodes=n3\nBlockSizes=2\n"), "BlockSizes", ""},
		{"a placeholder", plugin("topology/block"), conf(pairBlocks + "BlockName=b3\n"), "Placeholder", ""},
		{"two roots", plugin("topology/tree"), conf("SwitchName=l1 Nodes=n[1-2]\nSwitchName=l2 Nodes=n[3-4]\n"), "", ""},
		// Files that others include.
		{"an include", plugin("topology/block"), map[string]string{"topology.conf": "include b.conf\nBlockSizes=2\n", "b.conf": "BlockName=b1 Nodes=n[1-2]\nBlockName=b2 Nodes=n[3-4]"}, "", ""},
		{"an include of two levels", plugin("topology/tree"), map[string]string{"topology.conf": "Include b.conf\n", "b.conf": "include c.conf\nSwitchName=s Switches=l[1-2]\n", "c.conf": "SwitchName=l1 Nodes=n[1-2]\nSwitchName=l2 Nodes=n[3-4] \\"}, "", ""},
		{"an error in an included file", plugin("topology/tree"), map[string]string{"topology.conf": "include b.conf\n", "b.conf": "SwitchName=s Switches=gone\n"}, "NotATree", "NotATree"},
		{"an include that is not there", plugin("topology/block"), conf(pairBlocks + "include gone.conf\n"), "Include", "Include"},
		{"an include of a pattern", plugin("topology/block"), map[string]string{"topology.conf": "include b*.conf\n", "b1.conf": pairBlocks}, "Include", "Include"},
		{"%c in topology.conf", plugin("topology/block"), map[string]string{"topology.conf": "include %c.conf\n", "rig.conf": pairBlocks}, "Include", "Include"},
		{"an include of slurm.conf", plugin("topology/block") + "Include more.conf\n", map[string]string{"topology.conf": pairBlocks, "more.conf": "NodeName=n5 NodeAddr=127.0.0.1 Port=20005\n"}, "", ""},
		{"the plugin in an included file", plain + "ClusterName=rig\nInclude %c.conf\n", map[string]string{"topology.conf": pairBlocks, "rig.conf": "TopologyPlugin=topology/block\n"}, "", ""},
		{"slurm.conf includes what is not there", plain + "Include gone.conf\n", none, "Include", "Include"},
		{"an include of itself", plugin("topology/block"), conf("include topology.conf\n"), "Include", "Include"},
		// slurm.conf itself.
		{"a node twice", plain + "NodeName=n1 NodeAddr=127.0.0.1 Port=20009\n", none, "Syntax", "Syntax"},
		{"a word for a number", plain + "NodeName=n5 NodeAddr=127.0.0.1 Port=20009 Sockets=x\n", none, "Syntax", "Syntax"},
		{"no CPUs", plain + "NodeName=n5 NodeAddr=127.0.0.1 Port=20009 CPUs=0\n", none, "", ""},
		{"a broken list", plain + "NodeName=n[5- NodeAddr=127.0.0.1 Port=20009\n", none, "Syntax", "Syntax"},
		{"no pair", plain + "hello\n", none, "Syntax", "Syntax"},
		{"an odd count", strings.Replace(gpus, "gpu:a:2", "gpu:4x", 1), gres(pairLines), "NotJudged", "NotJudged"},
		{"a function in a list", plain + "NodeName=n5 NodeAddr=127.0.0.1 Port=20009\nPartitionName=p Nodes=nodes{n5}\n", none, "NotJudged", "NotJudged"},
		{"a broken list of a partition", plain + "PartitionName=p Nodes=n[1-\n", none, "BadValue", "BadValue"},
		{"a node set that is not there", plain + "PartitionName=p Nodes=s\n", none, "UnknownNode", "UnknownNode"},
		{"all, in small letters", pairNodes + "PartitionName=p Nodes=all\n", none, "", ""},
		{"all and one more", pairNodes + "PartitionName=p Nodes=ALL,n1\n", none, "UnknownNode", "UnknownNode"},
		{"node sets", plain + "NodeSet=s Nodes=n[1-2]\nPartitionName=p Nodes=s\n", none, "", ""},
		{"keys in small letters", strings.Replace(plugin("topology/block"), "TopologyPlugin", "topologyplugin", 1), conf("blockname=b1 nodes=n[1-2]\nBLOCKNAME=b2 NODES=n[3-4]\nblocksizes=2\n"), "", ""},
		{"a quoted plugin", plugin("\"topology/tree\""), conf(pairTree), "", ""},
		{"two plugins, the last counts", plugin("topology/tree") + "TopologyPlugin=topology/block\n", conf(pairBlocks), "", ""},
		{"two sizes", plugin("topology/block"), conf(strings.Replace(pairBlocks, "=2\n", "=2,4\n", 1)), "", ""},
		{"a tree of three levels", plugin("topology/tree"), conf(pairTree + "SwitchName=core Switches=s\n"), "", ""},
		{"a node that is not in slurm.conf", plugin("topology/block"), conf(strings.Replace(pairBlocks, "n[3-4]", "n[3-5]", 1)), "", ""},
		{"nodes in no block", plugin("topology/block"), conf("BlockName=b1 Nodes=n[1-2]\nBlockSizes=2\n"), "", ""},
		{"a partition's defaults", pairNodes + "PartitionName=DEFAULT State=UP Nodes=ALL\nPartitionName=p\n", none, "", ""},
		// Words of slurm.conf.
		{"an unknown key of nodes", plain + "NodeName=n5 NodeAddr=127.0.0.1 Port=20009 Blocks=b1\n", none, "UnknownKey", "UnknownKey"},
		{"an unknown key of a partition", plain + "PartitionName=p Nodes=n1 SegmentSize=2\n", none, "UnknownKey", "UnknownKey"},
		{"keys of an article", plugin("topology/block") + "TopologyBlockSched=yes\nSwitchNames=sw0 Nodes=n[1-2]\n", conf(pairBlocks), "UnknownKey", "UnknownKey"},
		{"GresType", plain + "GresType=gpu\n", none, "UnknownKey", "UnknownKey"},
		{"a removed SelectType", plain + "SelectType=select/cons_res\n", none, "BadValue", "BadValue"},
		{"linear", plain + "SelectType=select/linear\n", none, "", ""},
		{"linear with a tree", plugin("topology/tree") + "SelectType=select/linear\n", conf(pairTree), "BadValue", "BadValue"},
		{"linear with blocks", plugin("topology/block") + "SelectType=select/linear\n", conf(pairBlocks), "", ""},
		{"a SwitchType", plain + "SwitchType=switch/nvidia_imex\n", none, "", ""},
		{"no SwitchType", plain + "SwitchType=switch/none\n", none, "", ""},
		{"an unknown SwitchType", plain + "SwitchType=switch/nvidia_imexx\n", none, "BadValue", "BadValue"},
		{"PrologFlags", plain + "PrologFlags=alloc,,DeferBatch,Serial,ForceRequeueOnFail\n", none, "", ""},
		{"unknown PrologFlags", plain + "PrologFlags=Alloc,Foo\n", none, "BadValue", "BadValue"},
		{"PrologFlags that do not go together", plain + "PrologFlags=NoHold,Contain\n", none, "BadValue", "BadValue"},
		{"an unknown TopologyParam", plugin("topology/tree") + "TopologyParam=Foo\n", conf(pairTree), "", ""},
		// gres.conf.
		{"nodes that register themselves", pairDynamic, gres(pairLines), "", ""},
		{"the same without File", pairDynamic, gres("Name=gpu Type=a Count=2\n"), "FewerGPUs", "FewerGPUs"},
		{"the same without a known AutoDetect", pairDynamic, gres("AutoDetect=amdgpu\nName=gpu Type=a Count=2\n"), "FewerGPUs", "FewerGPUs"},
		{"AutoDetect=off and lines", gpus, gres("AutoDetect=off\n" + pairLines), "", ""},
		{"a line for each node", gpus, gres("NodeName=n1 Name=gpu Type=a File=/dev/nvidia[0-1]\nNodename=n[2-4]  Name=gpu\tType=a  File=/dev/nvidia[2-3]\n"), "", ""},
		{"a line for other nodes alone", gpus, gres("NodeName=n[2-4] " + pairLines), "FewerGPUs", "FewerGPUs"},
		{"two types", strings.Replace(gpus, "gpu:a:2", "gpu:a:1,gpu:b:1", 1), gres("Name=gpu Type=a File=/dev/nvidia0\nName=gpu Type=b File=/dev/nvidia1\n"), "", ""},
		{"two files of a device", strings.Replace(gpus, "gpu:a:2", "gpu:a:1", 1), gres("Name=gpu Type=a MultipleFiles=/dev/nvidia[0-1]\n"), "", ""},
		{"sockets in Gres=", strings.Replace(gpus, "gpu:a:2", "gpu:a:2(S:0-1)", 1), gres(pairLines), "", ""},
		{"flags", gpus, gres("Name=gpu Type=a File=/dev/nvidia0 Flags=nvidia_gpu_env\nName=gpu Type=a File=/dev/nvidia1\n"), "", ""},
		{"a device twice", gpus, gres("Name=gpu Type=a File=/dev/nvidia0\nName=gpu Type=a File=/dev/nvidia0\n"), "GresLine", "GresLine"},
		{"blocks and gpus", pairGPUs + plugin("topology/block"), map[string]string{"topology.conf": pairBlocks, "gres.conf": pairLines}, "", ""},
		{"blocks that are not read, and gpus", gpus, map[string]string{"topology.conf": pairBlocks, "gres.conf": pairLines}, "NotRead", "NotRead"},
		{"a tree and gpus", pairGPUs + plugin("topology/tree"), map[string]string{"topology.conf": pairTree, "gres.conf": pairLines}, "", ""},
		{"yaml and gpus", gpus, map[string]string{"topology.yaml": pairYAML, "gres.conf": pairLines}, "NotRead", ""},
		{"gpus", gpus, gres(pairLines), "", ""},
		{"an include of gres.conf", gpus, map[string]string{"gres.conf": "include a.conf\n", "a.conf": "include b.conf\n", "b.conf": pairLines}, "", ""},
		{"gres.conf includes what is not there", gpus, gres(pairLines + "include gone.conf\n"), "Include", "Include"},
		{"no GresTypes", strings.Replace(gpus, "GresTypes=gpu\n", "", 1), gres(pairLines), "NotRead", "NotRead"},
		{"other GresTypes", strings.Replace(gpus, "GresTypes=gpu", "GresTypes=nic", 1), gres(pairLines), "UnknownGres", "UnknownGres"},
		{"no GresTypes and no gres.conf", strings.Replace(gpus, "GresTypes=gpu\n", "", 1), none, "UnknownGres", "UnknownGres"},
		{"other GresTypes and no gres.conf", strings.Replace(gpus, "GresTypes=gpu", "GresTypes=nic", 1), none, "UnknownGres", "UnknownGres"},
		{"gpus that no node counts", "GresTypes=gpu\n" + plain, gres(pairLines), "", ""},
		{"lines of Windows", pairGPUs + strings.ReplaceAll(plugin("topology/block"), "\n", "\r\n"), map[string]string{"topology.conf": strings.ReplaceAll(pairBlocks, "\n", "\r\n"), "gres.conf": strings.ReplaceAll(pairLines, "\n", "\r\n")}, "", ""},
		{"a partition of nodes that are not there", plain + "PartitionName=p Nodes=n[3-9]\n", none, "UnknownNode", "UnknownNode"},
		{"two words for a plugin", plugin("topology/block,topology/tree"), conf(pairBlocks), "BadValue", "BadValue"},
		{"no gres.conf", gpus, none, "NotJudged", "NotJudged"},
		{"no Type in gres.conf", gpus, gres("Name=gpu File=/dev/nvidia[0-1]\n"), "FewerGPUs", "FewerGPUs"},
		{"no Type in slurm.conf", strings.Replace(gpus, "gpu:a:2", "gpu:2", 1), gres(pairLines), "", ""},
		{"a longer Type", gpus, gres("Name=gpu Type=a100 File=/dev/nvidia[0-1]\n"), "FewerGPUs", "FewerGPUs"},
		{"no File", gpus, gres("Name=gpu Type=a Count=2\n"), "FewerGPUs", "FewerGPUs"},
		{"fewer", gpus, gres("Name=gpu Type=a File=/dev/nvidia0\n"), "FewerGPUs", "FewerGPUs"},
		{"more", gpus, gres("Name=gpu Type=a File=/dev/nvidia[0-3]\n"), "", ""},
		{"amdgpu alone", gpus, gres("AutoDetect=amdgpu\n"), "FewerGPUs", "FewerGPUs"},
		{"amdgpu beside lines", gpus, gres("AutoDetect=amdgpu\n" + pairLines), "", ""},
		{"amdgpu of a node", gpus, gres("NodeName=n[1-4] AutoDetect=amdgpu " + pairLines), "", ""},
		{"hardware threads for cores", strings.Replace(gpus, "CoresPerSocket=8", "CoresPerSocket=8 ThreadsPerCore=2", 1), gres("Name=gpu Type=a File=/dev/nvidia0 Cores=0-7,16-23\nName=gpu Type=a File=/dev/nvidia1 Cores=8-15,24-31\n"), "Cores", "Cores"},
		{"cores", gpus, gres("Name=gpu Type=a File=/dev/nvidia0 Cores=0-7\nName=gpu Type=a File=/dev/nvidia1 Cores=8-15\n"), "", ""},
		{"a wrong Count", gpus, gres("Name=gpu Type=a File=/dev/nvidia[0-1] Count=4\n"), "GresLine", "GresLine"},
		{"cloud nodes that detect", gpus + "NodeName=c1 State=CLOUD\n", gres(pairLines + "NodeName=c1 AutoDetect=nvidia\n"), "NotJudged", "NotJudged"},
	}
}

// TestRealLint has `quoin lint` and Slurm itself judge a slurm.conf with its files. A pair is
// good if slurmctld starts, reads the topology file, and node n1 registers with its GPUs.
func TestRealLint(t *testing.T) {
	t.Parallel()
	slurmrig.NeedTest(t)
	pairs := lintPairs()
	every := oracle.Rounds(7, 1)
	for _, release := range slurmrig.Releases() {
		t.Run(release.Slurm, func(t *testing.T) {
			t.Parallel()
			checker := slurmrig.NewCheckerTest(t, release)
			judged, good, notJudged := 0, 0, []string{}
			for i, p := range pairs {
				if i%every != 0 {
					continue
				}
				judged++
				says := p.says26
				if release == slurmrig.Slurm2411 {
					says = p.says24
				}
				why := judgePair(t, checker, p)
				if why == "" {
					good++
				}
				code, out := lintPairOf(t, p, release.Slurm)
				switch {
				case code == 3:
					notJudged = append(notJudged, p.name)
					if says != "NotJudged" {
						t.Errorf("%s: lint does not judge it, Slurm: %q\n%s", p.name, why, out)
					}
				case (code == 1) != (why != "") || code > 1:
					t.Errorf("%s: lint says %d, Slurm: %q\n%s\n%s", p.name, code, why, p.conf, out)
				case (says != "") != (why != ""), says != "" && !strings.Contains(out, "("+says+")"):
					t.Errorf("%s: lint should say %q, Slurm: %q\n%s", p.name, says, why, out)
				}
			}
			t.Logf("Slurm %s: %d pairs, %d good, not judged: %q", release.Slurm, judged, good, notJudged)
			if len(notJudged) > 5 {
				t.Errorf("%d pairs were not judged", len(notJudged))
			}
		})
	}
}

// judgePair says why the pair is not good, or nothing.
func judgePair(t *testing.T, checker *slurmrig.Checker, p lintPair) (why string) {
	t.Helper()
	files := map[string]string{"slurm.conf": p.conf}
	maps.Copy(files, p.files)
	node, read, args := "", false, []string(nil)
	for name := range files {
		read = read || strings.HasPrefix(name, "topology.")
	}
	if strings.Contains(p.conf, "Gres=") {
		node = "n1"
	}
	if strings.Contains(p.conf, "MaxNodeCount=") {
		node, args = "n1", []string{"-Z", "--conf", "Gres=gpu:a:2 RealMemory=100"}
	}
	j, err := checker.Judge(t.Context(), files, node, args...)
	switch log := strings.Join(j.Lines, "\n"); {
	case err != nil:
		t.Errorf("%s: %v\n%s", p.name, err, log)
	case j.Refused:
		return "slurmctld does not start: " + log
	case read && strings.TrimSpace(strings.TrimPrefix(j.Topology, "No topology information available")) == "":
		return "the topology file is not read: " + log
	case node != "" && (!strings.Contains(j.Node, "State=IDLE") || strings.Contains(j.Node, "DRAIN") || !strings.Contains(j.Node, "Gres=gpu:")):
		return "node n1 is not as in slurm.conf: " + j.Node + log
	}
	return ""
}

// lintPairOf returns the exit status and the output of quoin lint.
func lintPairOf(t *testing.T, p lintPair, release string) (code int, out string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range p.files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "slurm.conf"), []byte(p.conf), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := quoin(t, "", "lint", dir, "--slurm-version", release)
	return code, fmt.Sprint(out, errs)
}
