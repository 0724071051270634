package main

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/nodeagent"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/slurmconf/gres"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/slurmrig"
	"github.com/quoin-hpc/quoin/topology"
)

// gresRig is a real Slurm whose slurm.conf lists the nodes as their reports are,
// with slurmds that take the rendered gres.conf.
type gresRig struct {
	*slurmrig.Cluster
	t       *testing.T
	naming  string
	detects string // AutoDetect of all nodes; empty where gres.conf lists the GPUs
	nodes   []*topology.Node
}

// gresType is the Type of a product by the way that it is named.
func gresType(product, naming string) string {
	switch {
	case product == "NVIDIA H100 80GB HBM3":
		return map[string]string{"model": "h100_80gb_hbm3", "full": "nvidia_h100_80gb_hbm3", "short": "h100"}[naming]
	case product == "NVIDIA H100 NVL":
		return map[string]string{"model": "h100_nvl", "full": "nvidia_h100_nvl", "short": "h100"}[naming]
	case product == "NVIDIA A100-SXM4-80GB":
		return map[string]string{"model": "a100-sxm4-80gb", "full": "nvidia_a100-sxm4-80gb", "short": "a100"}[naming]
	case naming == "full":
		return strings.ToLower(strings.ReplaceAll(product, " ", "_"))
	}
	return strings.ToLower(strings.TrimPrefix(product, "NVIDIA ")) // of one word
}

// gresProlog writes down what a job is given.
const gresProlog = "#!/bin/bash\nenv >/rig/log/job.$SLURM_JOB_ID.new\nmv /rig/log/job.$SLURM_JOB_ID.new /rig/log/job.$SLURM_JOB_ID\n"

// TestRealGres renders the files of one machine of every kind, and has real
// slurmds and slurmctld say what they make of them: devices, types, cores and
// links of slurmd -G, the node's Gres and state, and which GPU a job gets.
func TestRealGres(t *testing.T) {
	t.Parallel()
	slurmrig.NeedTest(t)
	for _, release := range slurmrig.Releases() {
		for _, naming := range []string{"model", "full", "short"} {
			t.Run(release.Slurm+"/"+naming, func(t *testing.T) {
				t.Parallel()
				r := startGresRig(t, release, naming)
				for _, n := range r.nodes {
					t.Run(n.Name, func(t *testing.T) {
						r := &gresRig{r.Cluster, t, naming, "", r.nodes}
						r.compareDevices(n)
						r.compareNode(n)
						if naming == "short" {
							r.compareJobs(n)
						}
					})
				}
			})
		}
	}
}

// given are settings of the publication's keys.
func given(pairs ...string) []string {
	var args []string
	for _, pair := range pairs {
		args = append(args, config.SetFlag, "publicationDefaults."+pair)
	}
	return args
}

func startGresRig(t *testing.T, release slurmrig.Release, naming string) *gresRig {
	t.Helper()
	nodes := gresMachines(t)
	out := t.TempDir()
	args := slices.Concat([]string{"render", "--dir", out}, given("slurmVersion="+release.Slurm, "topology=tree", "gres.cores=true", "gres.naming="+naming), reportFiles(t, nodes))
	if code, _, stderr := quoin(t, "", args...); code != 0 {
		t.Fatal(stderr)
	}
	files := map[string]string{"prolog.sh": gresProlog}
	for _, name := range []string{"topology.conf", "topology.yaml", "gres.conf"} {
		if text, err := os.ReadFile(filepath.Join(out, name)); err == nil {
			files[name] = string(text)
		}
	}
	r := &gresRig{nil, t, naming, "", nodes}
	files[nodesFile] = r.confLines(files["topology.conf"] != "")
	c := slurmrig.StartTest(t, release, slurmrig.Config{GPUs: 8, Files: files, SlurmConf: `Prolog=/etc/slurm/prolog.sh
PrologFlags=Alloc
KillWait=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
NodeName=DEFAULT RealMemory=1000
Include ` + nodesFile + `
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
`})
	r.Cluster = c
	r.makeCapabilities()
	r.register()
	return r
}

// register starts the slurmd of every node and waits for them all.
func (r *gresRig) register() {
	r.t.Helper()
	for _, n := range r.nodes {
		if err := r.Slurmd(r.t.Context(), n.Name); err != nil {
			r.t.Fatal(err)
		}
	}
	r.until("every node has registered", func() bool {
		out, _ := r.Run(r.t.Context(), "sinfo", "-h", "-N", "-o", "%N %T")
		return strings.Count(out, "\n") == len(r.nodes) && !strings.Contains(out, "unknown") && !strings.Contains(out, "*")
	})
}

// nodesFile is a part of slurm.conf.
const nodesFile = "nodes.conf"

// confLines lists the nodes for a slurm.conf, all of them on this machine, with the
// sockets and the GPUs of their reports.
func (r *gresRig) confLines(tree bool) string {
	r.t.Helper()
	var b strings.Builder
	b.WriteString("GresTypes=gpu\n")
	if tree {
		b.WriteString("TopologyPlugin=topology/tree\n")
	}
	for i, n := range r.nodes {
		// In the order of gres.conf: slurmd takes the order of types from this line.
		var gres, types []string
		counts := map[string]int{}
		for _, d := range r.wantDevices(n) {
			if counts[d.Type]++; counts[d.Type] == 1 {
				types = append(types, d.Type)
			}
		}
		for _, typ := range types {
			gres = append(gres, fmt.Sprintf("gpu:%s:%d", typ, counts[typ]))
		}
		fmt.Fprintf(&b, "NodeName=%s NodeAddr=127.0.0.1 Port=%d Sockets=%d CoresPerSocket=%d ThreadsPerCore=%d", n.Name, 21000+i, len(n.Sockets), n.Sockets[0].Cores, threadsOf(n))
		if len(gres) > 0 {
			b.WriteString(" Gres=" + strings.Join(gres, ","))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// makeCapabilities makes the device files of MIG instances.
func (r *gresRig) makeCapabilities() {
	r.t.Helper()
	var script strings.Builder
	script.WriteString("mkdir -p /dev/nvidia-caps")
	for _, n := range r.nodes {
		for _, g := range n.GPUs {
			for _, m := range g.MIG {
				for _, file := range m.Capabilities {
					fmt.Fprintf(&script, "; [ -e %s ] || mknod -m 666 %s c 236 %s", file, file, strings.TrimPrefix(file, "/dev/nvidia-caps/nvidia-cap"))
				}
			}
		}
	}
	r.must("bash", "-c", script.String())
}

func (r *gresRig) must(args ...string) string {
	r.t.Helper()
	return r.RunTest(r.t, args...)
}

// until waits for what must come.
func (r *gresRig) until(what string, is func() bool) {
	r.t.Helper()
	await.Until(r.t, what, is, func() string {
		jobs, _ := r.Run(r.t.Context(), "squeue")
		nodes, _ := r.Run(r.t.Context(), "sinfo", "-N", "-o", "%N %T %E")
		return jobs + nodes
	})
}

// device is one GRES device, as slurmd understands it or as the report has it.
type device struct {
	Files, Type, Cores, Links string
}

var gresRecord = regexp.MustCompile(`Gres Name=gpu Type=(\S+) Count=(\d+) .*?File=(\S+) (?:Cores=(\S+) CoreCnt=\d+ )?Links=(\S+)`)

// compareDevices compares what slurmd reads in gres.conf with the report, in the
// order of the inventory that the job hook goes by.
func (r *gresRig) compareDevices(n *topology.Node) {
	r.t.Helper()
	out := r.must("slurmd", "-N", n.Name, "-G")
	if strings.Contains(out, "error") || strings.Contains(out, "warning") {
		r.t.Errorf("slurmd complains:\n%s", out)
	}
	var got []device
	for _, m := range gresRecord.FindAllStringSubmatch(out, -1) {
		files, err := hostlist.Expand(m[3])
		if err != nil {
			r.t.Fatal(err)
		}
		count, _ := strconv.Atoi(m[2])
		if count == 1 { // a MIG instance has several files
			files = []string{strings.Join(files, ",")}
		}
		if len(files) != count {
			r.t.Errorf("%d devices of the files %v", count, files)
		}
		for _, f := range files {
			got = append(got, device{Files: f, Type: m[1], Cores: m[4], Links: m[5]})
		}
	}
	want := r.wantDevices(n)
	if diff := gocmp.Diff(want, got); diff != "" {
		r.t.Errorf("devices (-report +slurmd):\n%s\n%s", diff, out)
	}
}

// wantDevices are the node's devices by its inventory and its report.
func (r *gresRig) wantDevices(n *topology.Node) []device {
	r.t.Helper()
	var out []device
	for _, e := range r.inventory(n).Entries {
		g := gpuOf(n, e)
		d := device{Files: e.Device, Type: gresType(g.Product, r.naming), Links: "(null)"}
		for s := range n.Sockets {
			if n.Sockets[s].CPUs == g.CPUAffinity {
				d.Cores = fmt.Sprintf("%d-%d", s*n.Sockets[s].Cores, (s+1)*n.Sockets[s].Cores-1)
			}
		}
		for _, m := range g.MIG {
			if m.UUID == e.UUID {
				d.Files += "," + strings.Join(m.Capabilities, ",")
				d.Type += "_" + m.Profile
			}
		}
		if n.Name == "bridged" {
			links := []string{"0", "0", "0", "0", "0", "0", "0", "0"}
			links[e.GRESIndex], links[e.GRESIndex^1] = "-1", "12"
			d.Links = strings.Join(links, ",")
		}
		out = append(out, d)
	}
	return out
}

// inventory has the node's devices in slurmd's order: that of device files or of NVML if slurmd finds
// the GPUs, otherwise as gres.conf lists them.
func (r *gresRig) inventory(n *topology.Node) rundir.Inventory {
	r.t.Helper()
	inv, err := nodeagent.InventoryOf(n)
	if err != nil {
		r.t.Fatal(err)
	}
	var places []gres.Device
	if r.detects == "" || (&topology.Facts{Report: n}).HasMIG() {
		for _, d := range n.GRESDevicesBy(func(product string) string { return gresType(product, r.naming) }) {
			e := rundir.Entry{Minor: *d.GPU.Minor}
			if d.MIG != nil {
				e.Capabilities = d.MIG.Capabilities
			}
			places = append(places, gres.Device(e.Files()))
		}
	} else {
		gpus := n.GRESOrder()
		if r.detects == gres.AutoDetectNVML {
			slices.SortFunc(gpus, func(a, b topology.GPU) int { return cmp.Compare(a.Index, b.Index) })
		}
		for i := range gpus {
			places = append(places, gres.Device(rundir.DeviceFile(*gpus[i].Minor)))
		}
	}
	slices.SortFunc(inv.Entries, func(a, b rundir.Entry) int {
		return slices.Index(places, gres.Device(a.Files())) - slices.Index(places, gres.Device(b.Files()))
	})
	for i := range inv.Entries {
		inv.Entries[i].GRESIndex = i
	}
	if len(places) != len(inv.Entries) {
		r.t.Errorf("%d places, and %d devices", len(places), len(inv.Entries))
	}
	return inv
}

// gpuOf is the GPU of an entry of the inventory.
func gpuOf(n *topology.Node, e rundir.Entry) *topology.GPU {
	uuid := cmp.Or(e.GPUUUID, e.UUID)
	return &n.GPUs[slices.IndexFunc(n.GPUs, func(g topology.GPU) bool { return g.UUID == uuid })]
}

// compareNode has slurmctld take the node as it registered, with all devices.
func (r *gresRig) compareNode(n *topology.Node) {
	r.t.Helper()
	out := r.must("scontrol", "show", "node", n.Name)
	if !strings.Contains(out, "State=IDLE ") || strings.Contains(out, "Reason=") {
		r.t.Errorf("the node is not idle:\n%s", out)
	}
	var types []string
	counts, sockets := map[string]int{}, map[string]map[int]bool{}
	for _, d := range r.wantDevices(n) {
		if counts[d.Type] == 0 {
			types, sockets[d.Type] = append(types, d.Type), map[int]bool{}
		}
		counts[d.Type]++
		for s := range n.Sockets {
			if strings.HasPrefix(d.Cores, fmt.Sprintf("%d-", s*n.Sockets[s].Cores)) {
				sockets[d.Type][s] = true
			}
		}
	}
	for i, typ := range types {
		where := "0-1"
		if len(sockets[typ]) == 1 {
			where = fmt.Sprint(slices.Collect(maps.Keys(sockets[typ]))[0])
		}
		types[i] = fmt.Sprintf("gpu:%s:%d(S:%s)", typ, counts[typ], where)
	}
	if want := cmp.Or(strings.Join(types, ","), "(null)"); !strings.Contains(out, "Gres="+want+"\n") {
		r.t.Errorf("want Gres=%s:\n%s", want, out)
	}
}

var jobGres = regexp.MustCompile(`JobId=(\d+) [^\n]*|CPU_IDs=(\d+)[^\n]*GRES=gpu:([^:]+):1\(IDX:(\d+)\)`)

// compareJobs gives every device of the node to a job that asks for its type,
// and follows the index that the job is given to the GPU: by the inventory to the
// UUID, and by that to the report. Its type must be what the job asked for, and
// its socket where the job's CPU is.
func (r *gresRig) compareJobs(n *topology.Node) {
	r.t.Helper()
	want := r.wantDevices(n)
	if len(want) == 0 {
		return
	}
	script := "#!/bin/bash\n: >/rig/log/ran.$SLURM_JOB_ID\nexec sleep 600\n"
	if err := os.WriteFile(filepath.Join(r.Dir, "job.sh"), []byte(script), 0o755); err != nil {
		r.t.Fatal(err)
	}
	for _, d := range want { // one starts at a time
		id := strings.TrimSpace(r.must("sbatch", "--parsable", "-o", "/dev/null", "-w", n.Name, "-n1", "-c1", "--gres=gpu:"+d.Type+":1", "/etc/slurm/job.sh"))
		r.until("job "+id+" runs", func() bool {
			_, err := os.Stat(filepath.Join(r.Dir, ".rig/log/ran."+id))
			return err == nil
		})
	}
	shown := r.must("bash", "-c", "for id in $(squeue -h -r -w "+n.Name+" -o %A); do scontrol show job -d $id; done")
	seen := map[int]bool{}
	job := ""
	for _, m := range jobGres.FindAllStringSubmatch(shown, -1) {
		if m[1] != "" {
			job = m[1]
			continue
		}
		index, _ := strconv.Atoi(m[4])
		env := r.must("cat", "/rig/log/job."+job)
		if !strings.Contains(env, "\nSLURM_JOB_GPUS="+m[4]+"\n") && !strings.HasPrefix(env, "SLURM_JOB_GPUS="+m[4]+"\n") {
			r.t.Errorf("job %s has index %d by slurmctld, and this environment in its Prolog:\n%s", job, index, env)
		}
		if seen[index] || index >= len(want) {
			r.t.Errorf("index %d is given twice, or beyond the inventory's %d", index, len(want))
			continue
		}
		seen[index] = true
		cpu, _ := strconv.Atoi(m[2])
		if want[index].Type != m[3] || r.socketOf(n, index) != cpu/(n.Sockets[0].Cores*threadsOf(n)) {
			r.t.Errorf("a job for %s on CPU %d got index %d, which is %v by the inventory", m[3], cpu, index, want[index])
		}
	}
	if len(seen) != len(want) {
		r.t.Errorf("%d of %d devices were given to jobs:\n%s", len(seen), len(want), shown)
	}
	r.Kill("sleep") // which ends the jobs
	r.until("all jobs end", func() bool { return r.must("squeue", "-h") == "" })
}

// socketOf is the socket of the GPU that the inventory has at an index.
func (r *gresRig) socketOf(n *topology.Node, index int) int {
	g := gpuOf(n, r.inventory(n).Entries[index])
	return slices.IndexFunc(n.Sockets, func(s topology.Socket) bool { return s.CPUs == g.CPUAffinity })
}
