package main

import (
	"fmt"
	"maps"
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
// instances are listed.
func TestRealAutoDetect(t *testing.T) {
	slurmrig.NeedTest(t)
	for _, tt := range []struct {
		release     slurmrig.Release
		way, naming string
	}{{slurmrig.Slurm2411, "nvidia", "short"}, {slurmrig.Slurm2605, "nvidia", "model"}, {slurmrig.Slurm2605, "full", "full"}} {
		t.Run(tt.release.Slurm+"/"+tt.way, func(t *testing.T) {
			t.Parallel()
			r := startAutoDetectRig(t, tt.release, tt.way, tt.naming, autoDetectMachines(t, tt.way), nil)
			for _, n := range r.nodes {
				r.compareDetected(n)
			}
		})
	}
}

// detectedModel is what the driver says of the machine that detects its GPUs.
const detectedModel = "NVIDIA H100 80GB HBM3"

// autoDetectMachines are a machine without MIG and, where the way cannot see
// instances, one with.
func autoDetectMachines(t *testing.T, way string) []*topology.Node {
	t.Helper()
	return slices.DeleteFunc(gresMachines(t), func(n *topology.Node) bool {
		return n.Name != "h100-01" && (n.Name != "a100-mig" || way != "nvidia")
	})
}

// startAutoDetectRig has the slurmds of the nodes detect GPUs as the rendered files
// tell them to. /etc/slurm has more files; before the slurmds start, the script of
// prepare runs.
func startAutoDetectRig(t *testing.T, release slurmrig.Release, way, naming string, nodes []*topology.Node, more map[string]string, prepare ...string) *gresRig {
	t.Helper()
	out := t.TempDir()
	args := slices.Concat([]string{"render", "--dir", out}, given("slurmVersion="+release.Slurm, "format=conf", "topology=tree", "gres.cores=true", "gres.autoDetect="+way, "gres.naming="+naming), reportFiles(t, nodes))
	if code, _, stderr := quoin(t, "", args...); code != 0 {
		t.Fatal(stderr)
	}
	files := map[string]string{}
	maps.Copy(files, more)
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
	model := detectedModel
	if way == "nvml" {
		model = ""
	}
	c := slurmrig.StartTest(t, release, slurmrig.Config{GPUs: 8, Model: model, Files: files, SlurmConf: `SelectType=select/cons_tres
SelectTypeParameters=CR_Core
NodeName=DEFAULT RealMemory=1000
Include ` + nodesFile + `
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
`})
	r.Cluster = c
	r.makeCapabilities()
	for _, script := range prepare {
		r.must("bash", "-c", script)
	}
	r.register()
	return r
}

var detectedRecord = regexp.MustCompile(`Gres Name=gpu Type=(\S+) Count=1 .*?File=(\S+)`)

// compareDetected compares what slurmd finds or reads with the inventory: the
// devices in its order, by the type that slurm.conf gives them. A job gets one of
// that type.
func (r *gresRig) compareDetected(n *topology.Node) {
	r.t.Helper()
	if n.Name != "h100-01" {
		r.compareDevices(n)
		r.compareNode(n)
		return
	}
	typ := gresType(detectedModel, r.naming)
	out := r.must("slurmd", "-N", n.Name, "-G")
	var got, want []string
	for _, m := range detectedRecord.FindAllStringSubmatch(out, -1) {
		got = append(got, m[1]+" "+m[2])
	}
	for _, e := range r.inventory(n).Entries {
		want = append(want, typ+" "+e.Device)
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		r.t.Errorf("devices (-inventory +slurmd):\n%s\n%s", diff, out)
	}
	show := r.must("scontrol", "show", "node", n.Name)
	if !strings.Contains(show, "State=IDLE ") || strings.Contains(show, "Reason=") || !strings.Contains(show, "Gres=gpu:"+typ+":8") {
		r.t.Errorf("the node is not idle with its GPUs:\n%s", show)
	}
	if got := r.must("srun", "-w", n.Name, "-n1", "--gres=gpu:"+typ+":1", "printenv", "SLURM_STEP_GPUS"); got != "0\n" {
		r.t.Errorf("a job for one %s has the GPUs %q", typ, got)
	}
}

// TestRealDetectedOrder has real slurmds find GPUs of several kinds whose minors
// are in another order than NVML's, and compares their order with the job hook's.
// What gpu/nvml would find they read from the file that Slurm has for its own tests.
func TestRealDetectedOrder(t *testing.T) {
	slurmrig.NeedTest(t)
	merged := func() []*topology.Node {
		return slices.DeleteFunc(gresMachines(t), func(n *topology.Node) bool { return n.Name != "merged" })
	}
	for _, release := range slurmrig.Releases() {
		t.Run(release.Slurm+"/nvml/merged", func(t *testing.T) {
			t.Parallel()
			nodes := merged()
			r := startAutoDetectRig(t, release, "nvml", "model", nodes, map[string]string{"fake_gpus.conf": fakeGPUs(nodes[0])})
			r.compareDetectedOrder(nodes[0])
		})
		t.Run(release.Slurm+"/nvidia/merged", func(t *testing.T) {
			t.Parallel()
			nodes := merged()
			r := startAutoDetectRig(t, release, "nvidia", "model", nodes, nil, driverModels(nodes[0]))
			r.compareDetectedOrder(nodes[0])
		})
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

var detectedDevice = regexp.MustCompile(`Gres Name=gpu Type=(\S+) Count=1 .*?File=(\S+)`)

// compareDetectedOrder compares the devices of slurmd -G with the inventory, one by
// one, and has slurmctld take the node.
func (r *gresRig) compareDetectedOrder(n *topology.Node) {
	r.t.Helper()
	out := r.must("slurmd", "-N", n.Name, "-G")
	var got, want []string
	for _, m := range detectedDevice.FindAllStringSubmatch(out, -1) {
		got = append(got, m[1]+" "+m[2])
	}
	for _, d := range r.wantDevices(n) {
		want = append(want, d.Type+" "+d.Files)
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		r.t.Errorf("devices (-inventory +slurmd):\n%s\n%s", diff, out)
	}
	if show := r.must("scontrol", "show", "node", n.Name); !strings.Contains(show, "State=IDLE ") || strings.Contains(show, "Reason=") {
		r.t.Errorf("the node is not idle:\n%s", show)
	}
}
