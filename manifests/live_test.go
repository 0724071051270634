package manifests_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/quoin-hpc/quoin/test/rig/exporter"
	"github.com/quoin-hpc/quoin/test/rig/loopback"
	"github.com/quoin-hpc/quoin/test/rig/nodedir"
	"github.com/quoin-hpc/quoin/test/rig/programs"
	"github.com/quoin-hpc/quoin/test/rig/promrig"
	"github.com/quoin-hpc/quoin/test/rig/put"
	"github.com/quoin-hpc/quoin/topology"
)

// liveSite has two racks of one node each, and a node with MIG. GPU 1 of n1 does
// nothing, GPU 1 of n2 is unhealthy.
const liveSite = `name: live
groups:
- {racks: 2, nodes: 1, node: "n{node}", nvlink: rack, gpus: {count: 2, product: NVIDIA GB200, memoryMiB: 189471}, use: {processes: 1, utilization: 50, memoryMiB: 1024, power: 600}}
- {node: m1, gpus: {count: 1, product: NVIDIA A100-SXM4-80GB, memoryMiB: 81920}, mig: {profile: 3g.40gb, instances: 2, firstID: 1}, use: {processes: 1, memoryMiB: 1024}}
faults:
- {node: n1, gpu: 1, use: {}}
- {node: n2, gpu: 1, health: unhealthy}
`

// live is nodes with real agents and hooks, exporters that read what the hooks
// write, and a real Prometheus.
type live struct {
	t     *testing.T
	dir   string
	nodes []*liveNode
	*promrig.Server
}

type liveNode struct {
	*live
	nodedir.Dir
	name            string
	report          *topology.Node
	exporter, agent string
}

func startLive(t *testing.T) *live {
	t.Helper()
	promrig.NeedTest(t)
	l := &live{t: t, dir: t.TempDir()}
	programs.PutTest(t, l.dir, programs.Quoin, programs.Hook)
	l.write("site.yaml", liveSite)
	l.write("conf-cache/slurm.conf", "ClusterName=alpha\n")
	l.write("conf-cache/gres.conf", "Name=gpu File=/dev/nvidia[0-7]\n")
	var scrapes strings.Builder
	for i, name := range []string{"n1", "n2", "m1"} {
		n := l.startNode(name, i > 0)
		l.nodes = append(l.nodes, n)
		fmt.Fprintf(&scrapes, "- {job_name: agent-%[1]s, static_configs: [{targets: ['%[2]s'], labels: {job: quoin-agent, node: %[1]s}}]}\n- {job_name: dcgm-%[1]s, static_configs: [{targets: ['%[3]s'], labels: {job: dcgm-exporter}}]}\n",
			name, n.agent, n.exporter)
	}
	fmt.Fprintf(&scrapes, "- {job_name: publisher, static_configs: [{targets: ['%s'], labels: {job: quoin-publisher}}]}\n", l.startPublisher())
	for i, path := range allRules(t) {
		rules, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		l.write(fmt.Sprintf("%d.rules.yaml", i), strings.ReplaceAll(string(rules), "interval: 1m", "interval: 1s"))
	}
	l.Server = promrig.StartTest(t, fmt.Sprintf("global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\nrule_files: [%s]\nscrape_configs:\n%s", filepath.Join(l.dir, "*.rules.yaml"), &scrapes))
	return l
}

func (l *live) write(name, text string) {
	l.t.Helper()
	put.File(l.t, filepath.Join(l.dir, name), text, 0o600)
}

// startPublisher serves what a publisher says of where the nodes are, and returns its
// address.
func (l *live) startPublisher() string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for node, block := range map[string]string{"n1": "b1", "n2": "b2", "m1": ""} {
			fmt.Fprintf(w, "quoin_node_info{publication=\"slurm\",node=%q,block=%q,switch=\"\",clique=\"\"} 1\n", node, block)
		}
	}))
	l.t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// startNode starts a node's agent and its exporter, which is of 4.9 or before it.
func (l *live) startNode(name string, since49 bool) *liveNode {
	l.t.Helper()
	n := &liveNode{live: l, Dir: nodedir.New(l.t, filepath.Join(l.dir, name)), name: name}
	out, err := exec.CommandContext(l.t.Context(), filepath.Join(l.dir, "quoin"), "probe", "--once", "--simulate", filepath.Join(l.dir, "site.yaml"), "--node", name).Output()
	if err != nil {
		l.t.Fatal(err)
	}
	if n.report, err = topology.ParseReport(name, bytes.TrimSpace(out)); err != nil {
		l.t.Fatal(err)
	}
	x := &exporter.Exporter{Since49: since49, Hostname: name, Driver: n.report.DriverVersion, Mapping: n.Mapping(), Counters: countersOf(l.t, since49)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		var body bytes.Buffer
		if err := x.Write(&body, n.devices()); err != nil { // as the exporter: the whole scrape fails
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_, _ = w.Write(body.Bytes())
	}))
	l.t.Cleanup(server.Close)
	n.exporter = strings.TrimPrefix(server.URL, "http://")
	n.startAgent()
	return n
}

// startAgent runs quoin agent until the test ends.
func (n *liveNode) startAgent() {
	n.t.Helper()
	n.agent = loopback.Address(9835)
	cmd := exec.Command(filepath.Join(n.dir, "quoin"), append([]string{"agent", "--simulate", filepath.Join(n.dir, "site.yaml"), "--node", n.name, "--store", n.dir,
		"--listen", n.agent, "--times", "read: 1s", "--times", "sample: 1s", "--times", "sweep: 1s"}, n.Settings()...)...)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if n.t.Failed() {
			n.t.Logf("agent of %s:\n%s", n.name, &log)
		}
	})
}

// devices are what the node's exporter shows: all busy but GPU 1 of n1.
func (n *liveNode) devices() []exporter.Device {
	var all []exporter.Device
	for _, g := range n.report.GPUs {
		d := exporter.Device{GPU: *g.DCGMID, UUID: g.UUID, Model: g.Product, Use: exporter.Use{Utilization: 0.5, Engine: 0.25, Used: gib, Size: 80 * gib, Watts: 600}}
		if n.name == "n1" && g.Index == 1 {
			d.Use = exporter.Use{Size: 80 * gib, Watts: 70}
		}
		if len(g.MIG) == 0 {
			all = append(all, d)
		}
		for _, m := range g.MIG {
			d.Profile, d.Instance = m.Profile, m.GPUInstanceID
			all = append(all, d)
		}
	}
	return all
}

// hook calls the real hook as slurmd does.
func (n *liveNode) hook(verb, job, user, account, gpus, visible, nodeList string) {
	n.t.Helper()
	cmd := exec.CommandContext(n.t.Context(), filepath.Join(n.dir, "quoin-hook"), append([]string{verb}, n.Hook()...)...)
	cmd.Env = []string{"SLURM_JOB_ID=" + job, "SLURM_JOB_USER=" + user, "SLURM_JOB_UID=1000", "SLURM_JOB_ACCOUNT=" + account, "SLURM_JOB_PARTITION=gpu", "SLURM_CLUSTER_NAME=alpha",
		"SLURMD_NODENAME=" + n.name, "SLURM_JOB_NODELIST=" + nodeList, "SLURM_JOB_NUM_NODES=1", "SLURM_JOB_START_TIME=1", "SLURM_JOB_END_TIME=4000000000",
		"SLURM_JOB_GPUS=" + gpus, "CUDA_VISIBLE_DEVICES=" + visible, "SLURM_CONF=" + filepath.Join(n.dir, "conf-cache/slurm.conf")}
	out, err := cmd.CombinedOutput()
	said := strings.TrimSuffix(string(out), "\n")
	if err != nil || said != "" && (strings.Contains(said, "\n") || !strings.Contains(said, ": warning: FabricUnhealthy: ")) {
		n.t.Fatalf("%s of job %s on %s: %v\n%s", verb, job, n.name, err, out)
	}
}
