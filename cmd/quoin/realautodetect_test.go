package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/gres"
	"github.com/quoin-hpc/quoin/test/rig/slurmrig"
	"github.com/quoin-hpc/quoin/topology"
)

// TestRealAutoDetect has real slurmds find the GPUs of a machine by themselves,
// as the rendered gres.conf tells them to, beside a machine with MIG whose
// instances are listed. The machine "merged" has GPUs of several kinds, whose minors
// are in another order than NVML's: what gpu/nvml would find there is in the file that Slurm has for its own tests.
func TestRealAutoDetect(t *testing.T) {
	slurmrig.NeedTest(t)
	for _, tt := range []struct {
		release     slurmrig.Release
		way, naming string
		nodes       string
	}{
		{slurmrig.Slurm2411, "nvidia", "short", "h100-01 a100-mig"}, {slurmrig.Slurm2605, "nvidia", "model", "h100-01 a100-mig"}, {slurmrig.Slurm2605, "full", "full", "h100-01"},
		{slurmrig.Slurm2411, "nvml", "model", "merged"}, {slurmrig.Slurm2411, "nvidia", "model", "merged"}, {slurmrig.Slurm2605, "nvml", "model", "merged"}, {slurmrig.Slurm2605, "nvidia", "model", "merged"},
	} {
		t.Run(tt.release.Slurm+"/"+tt.way+"/"+tt.nodes, func(t *testing.T) {
			t.Parallel()
			nodes := slices.DeleteFunc(gresMachines(t), func(n *topology.Node) bool { return !slices.Contains(strings.Fields(tt.nodes), n.Name) })
			r := startAutoDetectRig(t, tt.release, tt.way, tt.naming, nodes)
			for _, n := range r.nodes {
				r.compareDetected(n)
			}
		})
	}
}

// detectedModel is what the driver says of the machine that detects its GPUs.
const detectedModel = "NVIDIA H100 80GB HBM3"

// startAutoDetectRig has the slurmds of the nodes detect GPUs as the rendered files tell them to.
func startAutoDetectRig(t *testing.T, release slurmrig.Release, way, naming string, nodes []*topology.Node) *gresRig {
	t.Helper()
	out := t.TempDir()
	args := slices.Concat([]string{"render", "--dir", out}, given("slurmVersion="+release.Slurm, "format=conf", "topology=tree", "gres.cores=true", "gres.autoDetect="+way, "gres.naming="+naming), reportFiles(t, nodes))
	if code, _, stderr := quoin(t, "", args...); code != 0 {
		t.Fatal(stderr)
	}
	files := map[string]string{}
	for _, name := range []string{"topology.conf", "gres.conf"} {
		text, err := os.ReadFile(filepath.Join(out, name))
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(text)
	}
	lines, err := gres.Parse("gres.conf", []byte(files["gres.conf"]))
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines {
		if detects := l.AutoDetect != ""; detects == (l.Nodes == "a100-mig") || detects && l.Name != "" {
			t.Errorf("a line with values beside AutoDetect, or for the wrong node: %+v", l)
		}
	}
	r := &gresRig{nil, t, naming, strings.Replace(way, "full", "nvidia", 1), nodes} // Debian's slurmd has no NVML
	files[nodesFile] = r.confLines(true)
	model, mixed := detectedModel, nodes[0].Name == "merged"
	if way == "nvml" {
		model, files["fake_gpus.conf"] = "", fakeGPUs(nodes[0])
	}
	c := slurmrig.StartTest(t, release, slurmrig.Config{GPUs: 8, Model: model, Files: files, SlurmConf: `SelectType=select/cons_tres
SelectTypeParameters=CR_Core
NodeName=DEFAULT RealMemory=1000
Include ` + nodesFile + `
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
`})
	r.Cluster = c
	r.makeCapabilities()
	if mixed && way != "nvml" {
		r.must("bash", "-c", driverModels(nodes[0]))
	}
	r.register()
	return r
}

var detectedRecord = regexp.MustCompile(`Gres Name=gpu Type=(\S+) Count=1 .*?File=(\S+)`)

// compareDetected compares what slurmd finds or reads with the inventory, one by one, and has slurmctld take the
// node. A job gets a GPU of the type that it asks for.
func (r *gresRig) compareDetected(n *topology.Node) {
	r.t.Helper()
	if (&topology.Facts{Report: n}).HasMIG() {
		r.compareDevices(n)
		r.compareNode(n)
		return
	}
	out := r.must("slurmd", "-N", n.Name, "-G")
	var got, want []string
	for _, m := range detectedRecord.FindAllStringSubmatch(out, -1) {
		got = append(got, m[1]+" "+m[2])
	}
	devices := r.wantDevices(n)
	for _, d := range devices {
		want = append(want, d.Type+" "+d.Files)
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		r.t.Errorf("devices (-inventory +slurmd):\n%s\n%s", diff, out)
	}
	show := r.must("scontrol", "show", "node", n.Name)
	if typ := devices[0].Type; !strings.Contains(show, "State=IDLE ") || strings.Contains(show, "Reason=") || !strings.Contains(show, "Gres=gpu:"+typ+":") {
		r.t.Errorf("the node is not idle with its GPUs:\n%s", show)
	} else if got := r.must("srun", "-w", n.Name, "-n1", "--gres=gpu:"+typ+":1", "printenv", "SLURM_STEP_GPUS"); got != "0\n" {
		r.t.Errorf("a job for one %s has the GPUs %q", typ, got)
	}
}

// driverModels is a script that has the driver's files of the rig name the products
// of a node.
func driverModels(n *topology.Node) string {
	var b strings.Builder
	for _, g := range n.GPUs {
		fmt.Fprintf(&b, "sed -i 's/%s/%s/' $(grep -l 'Minor:[^0-9]*%d$' /proc/driver/nvidia/gpus/*/information)\n", detectedModel, g.Product, *g.Minor)
	}
	return b.String()
}

// fakeGPUs is what gpu/nvml finds on a node, as in Slurm's testsuite: type, number
// of CPUs and which of them, links and files of every GPU in the order of NVML.
func fakeGPUs(n *topology.Node) string {
	var b strings.Builder
	links := func(at int) string {
		words := slices.Repeat([]string{"0"}, len(n.GPUs))
		words[at] = "-1"
		return strings.Join(words, ",")
	}
	gpus := slices.Clone(n.GPUs)
	slices.SortFunc(gpus, func(a, b topology.GPU) int { return a.Index - b.Index })
	cores := 0
	for _, s := range n.Sockets {
		cores += s.Cores
	}
	cpus := fmt.Sprintf("%d|0-%d", cores, cores-1)
	for _, g := range gpus {
		fmt.Fprintf(&b, "%s|%s|%s|/dev/nvidia%d\n", gresType(g.Product, "full"), cpus, links(g.Index), *g.Minor)
	}
	return b.String()
}
