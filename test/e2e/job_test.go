package e2e_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/boxrig/machine"
	"github.com/quoin-hpc/quoin/test/rig/promrig"
)

// The GPUs of the job on each node, and the exporter's file of each that holds none.
const (
	jobGPUs  = 3
	jobNodes = 2
)

// job runs a job on two nodes of a rack: its Prolog runs the hook from the host's folder and the
// gate lets it pass, Prometheus sees its GPUs, and its Epilog leaves a summary.
func job(w *world) {
	w.untilFree(nodeWorkers)
	id := w.submit()
	w.untilFree(nodeWorkers - jobNodes)
	machines := w.jobMachines(id)
	for _, m := range machines {
		w.untilMapping(m, id)
		out, err := m.Run(w.t.Context(), "cat", "/run/quoin/jobs/"+id+".json")
		if err != nil {
			w.t.Fatal(err)
		}
		var got record
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			w.t.Fatalf("the record of job %s on %s: %v\n%s", id, m.Name, err, out)
		}
		want := record{JobID: id, User: "alice", Cluster: "box", NumNodes: "2", GPUs: []string{"0", "1", "2"}, UUIDs: w.uuids(m, jobGPUs)}
		if diff := cmp.Diff(want, got); diff != "" {
			w.t.Errorf("the record of job %s on %s (-want +got):\n%s", id, m.Name, diff)
		}
	}
	w.placed(id)
	w.mapped(jobNodes)
	server := w.scraped(id)
	w.counted(server, `sum(quoin_hook_duration_seconds_count{hook="prolog"})`, 2*jobNodes) // the page has a job, too
	w.counted(server, `sum(quoin_hook_errors_total{hook="prolog"})`, 0)
	w.counted(server, `sum(quoin_block_nodes{state="busy"})`, jobNodes)
	w.counted(server, `sum(quoin_free_segments{size="1"})`, nodeWorkers-jobNodes)
	w.counted(server, `sum(quoin_stranded_gpus{size="2"})`, nodeGPUs)
	w.finish(id)
	for _, m := range machines {
		w.untilMapping(m, "")
	}
	w.summary(id)
}

// placed holds that the tasks of a job learn the block of their node from Slurm, as the page says.
func (w *world) placed(id string) {
	w.t.Helper()
	for pod, node := range w.jobPods(id) {
		got, err := w.slurm.AsUser(w.t.Context(), pod, "cat", "/tmp/started."+id)
		if err != nil {
			w.t.Fatal(err)
		}
		_, block, _ := strings.Cut(w.kubectl("get", "node", node, `-o=jsonpath={.metadata.annotations.topology\.slinky\.slurm\.net/spec}`), ":")
		if want := "BlockName=" + block + " "; !strings.HasPrefix(got, want) {
			w.t.Errorf("%s, job %s: %s; want %q", pod, id, got, want)
		}
	}
}

// untilFree waits until quoin fit says that so many nodes are free. It reads the published plan,
// and the conditions that Slinky's operator writes.
func (w *world) untilFree(count int) {
	w.t.Helper()
	want := fmt.Sprintf("%d of %d nodes are free according to the conditions of Slinky's pods", count, nodeWorkers)
	var said string
	await.Until(w.t, want, func() bool {
		out, err := w.runQuoin("fit", "-N", "2")
		said = fmt.Sprintf("%v\n%s", err, out)
		return err == nil && strings.Contains(out, "\nnow: the job fits") && strings.Contains(out, want)
	}, func() string { return said })
}

// submit starts a job on two nodes that runs until finish, and waits until its steps run.
// Its id may have been another job's: a slurmctld that starts again counts from 1.
func (w *world) submit(more ...string) string {
	w.t.Helper()
	workers := w.workers()
	first := slices.Min(slices.Collect(maps.Keys(workers)))
	for pod := range workers {
		if _, err := w.slurm.AsUser(w.t.Context(), pod, "sh", "-c", "rm -f /tmp/started.* /tmp/finish.*"); err != nil {
			w.t.Fatal(err)
		}
	}
	const script = `srun --mpi=none sh -c 'scontrol show topology node=$SLURMD_NODENAME >/tmp/env; mv /tmp/env /tmp/started.$SLURM_JOB_ID; while [ ! -e /tmp/finish.$SLURM_JOB_ID ]; do sleep 0.2; done'`
	args := append([]string{"sbatch", "--parsable", "-N2", fmt.Sprintf("--gres=gpu:%d", jobGPUs), "--output=/tmp/job.%j", "--wrap", script}, more...)
	out, err := w.slurm.AsUser(w.t.Context(), first, args...)
	if err != nil {
		w.t.Fatal(err)
	}
	id := strings.TrimSpace(out)
	await.Until(w.t, "job "+id+" starts", func() bool { return len(w.jobPods(id)) == jobNodes },
		func() string { out, _ := w.slurm.Scontrol(w.t.Context(), "show", "job", id); return out })
	for pod := range w.jobPods(id) {
		await.Until(w.t, "job "+id+" runs in "+pod, func() bool {
			_, err := w.slurm.AsUser(w.t.Context(), pod, "test", "-e", "/tmp/started."+id)
			return err == nil
		}, func() string { out, _ := w.slurm.Scontrol(w.t.Context(), "show", "job", id); return out })
	}
	return id
}

// finish lets a job end, and waits until Slurm has completed the job.
func (w *world) finish(id string) {
	w.t.Helper()
	for pod := range w.workers() {
		if _, err := w.slurm.AsUser(w.t.Context(), pod, "touch", "/tmp/finish."+id); err != nil {
			w.t.Fatal(err)
		}
	}
	w.untilSlurm("job "+id+" complete", func(out string) bool { return strings.Contains(out, "JobState=COMPLETED") }, "show", "job", id)
}

// jobNodeList finds the nodes of a job in what scontrol shows.
var jobNodeList = regexp.MustCompile(` NodeList=(\S+)`)

// jobPods are the worker pods of a job, and the node of each.
func (w *world) jobPods(id string) map[string]string {
	w.t.Helper()
	found := jobNodeList.FindStringSubmatch(w.scontrol("show", "job", id, "-o"))
	if found == nil || found[1] == "(null)" {
		return nil
	}
	names, err := hostlist.Expand(found[1])
	if err != nil {
		w.t.Fatal(err)
	}
	pods := w.workers()
	maps.DeleteFunc(pods, func(pod, _ string) bool { return !slices.Contains(names, pod) })
	return pods
}

// jobMachines are the machines of a job, which are in one rack.
func (w *world) jobMachines(id string) []*machine.Machine {
	w.t.Helper()
	racks := map[int]bool{}
	out := w.machines(w.jobPods(id))
	for _, m := range out {
		racks[slices.Index(w.box.Machines, m)/rackNodes] = true
	}
	if len(out) != jobNodes || len(racks) != 1 {
		w.t.Fatalf("job %s is on %v, want %d nodes of one rack", id, w.jobPods(id), jobNodes)
	}
	return out
}

// machines are those that the worker pods are on.
func (w *world) machines(pods map[string]string) (out []*machine.Machine) {
	nodes := slices.Collect(maps.Values(pods))
	for _, m := range w.box.Machines {
		if slices.Contains(nodes, m.Name) {
			out = append(out, m)
		}
	}
	return out
}

// untilMapping waits until the machine's job mapping has the job at the GPUs that it was
// given, or no job at all: then its files are empty, or no job ever ran there.
func (w *world) untilMapping(m *machine.Machine, id string) {
	w.t.Helper()
	want := strings.Repeat(id+"\n", jobGPUs)
	var out string
	await.Until(w.t, fmt.Sprintf("job mapping of %s has %q", m.Name, want), func() bool {
		var err error
		out, err = m.Run(w.t.Context(), "find", "/var/lib/dcgm-exporter/job-mapping", "-maxdepth", "1", "-type", "f", "-exec", "cat", "{}", "+")
		return err == nil && strings.TrimSpace(out) == strings.TrimSpace(want)
	}, func() string { return out })
}

// record is what the hook has written of a job.
type record struct {
	JobID    string   `json:"jobID"`
	User     string   `json:"user"`
	Cluster  string   `json:"cluster"`
	NumNodes string   `json:"numNodes"`
	GPUs     []string `json:"gpus"`
	UUIDs    []string `json:"uuids"`
}

// uuids are the UUIDs of the machine's first GPUs.
func (w *world) uuids(m *machine.Machine, count int) []string {
	var out []string
	for gpu := range count {
		out = append(out, uuid(slices.Index(w.box.Machines, m), gpu))
	}
	return out
}

// scraped asks Prometheus for the GPUs of a job.
func (w *world) scraped(id string) *promrig.Server {
	w.t.Helper()
	server := w.prometheus()
	w.counted(server, `count(quoin_gpu_job_info{job_id="`+id+`", user="alice", partition="gpu"})`, jobGPUs*jobNodes)
	w.counted(server, `count(up{job="quoin"} == 1)`, nodes)
	w.counted(server, `sum(quoin_gpus)`, nodes*nodeGPUs)
	return server
}

// prometheus starts a real Prometheus that scrapes the pods of agents and publishers, through
// a proxy into the cluster's network.
func (w *world) prometheus() *promrig.Server {
	w.t.Helper()
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(*httputil.ProxyRequest) {}, Transport: &http.Transport{DialContext: w.box.Machines[0].Dial}})
	w.t.Cleanup(proxy.Close)
	rules := w.t.TempDir()
	shipped, err := filepath.Glob("../../manifests/chart/files/*.rules.yaml")
	for _, path := range shipped {
		text, failed := os.ReadFile(path)
		if failed == nil {
			failed = os.WriteFile(filepath.Join(rules, filepath.Base(path)), []byte(strings.ReplaceAll(string(text), "interval: 1m", "interval: 1s")), 0o600)
		}
		err = errors.Join(err, failed)
	}
	if err != nil || len(shipped) != 2 {
		w.t.Fatal(shipped, err)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "global: {evaluation_interval: 1s}\nrule_files: [%s/*.yaml]\nscrape_configs:\n", rules)
	for _, of := range []struct{ job, namespace, component, port string }{{"quoin", "quoin-node", "agent", ":9835"}, {"publisher", "quoin-system", "publisher", ":9836"}} {
		pods := strings.Fields(w.kubectl("-n", of.namespace, "get", "pods", "-l", "app.kubernetes.io/component="+of.component, "-o=jsonpath={.items[*].status.podIP}"))
		fmt.Fprintf(&text, "- {job_name: %s, scrape_interval: 1s, scrape_timeout: 1s, proxy_url: '%s', static_configs: [{targets: [%s]}]}\n",
			of.job, proxy.URL, strings.Join(pods, of.port+", ")+of.port)
	}
	return promrig.StartTest(w.t, text.String())
}

// counted waits until Prometheus says a number.
func (w *world) counted(server *promrig.Server, query string, want float64) {
	w.t.Helper()
	var rows []promrig.Row
	await.Until(w.t, fmt.Sprintf("%s is %v", query, want), func() bool {
		var err error
		rows, err = server.Query(w.t.Context(), query)
		return err == nil && len(rows) == 1 && rows[0].Value == want
	}, func() string { return fmt.Sprint(rows) })
}

// summary holds that the Epilog of each node has left what the job has done.
func (w *world) summary(id string) {
	w.t.Helper()
	for pod, node := range w.jobPods(id) {
		agent := w.kubectl(agentOf(node, "-o=name")...)
		var got struct {
			Runs []struct {
				JobID, User string
				Running     bool
				Nodes       []struct {
					Node, ExitCode string
					Devices        []struct{ UUID string }
				}
			}
		}
		out, err := w.box.Command(w.t.Context(), "-n", "quoin-node", "exec", agent, "--", "quoin", "job", id, "-o", "json").Output()
		if err == nil {
			err = json.Unmarshal(out, &got)
		}
		if err != nil {
			w.t.Fatalf("the summary of job %s on %s: %v\n%s", id, node, err, out)
		}
		if len(got.Runs) != 1 || got.Runs[0].Running || len(got.Runs[0].Nodes) != 1 {
			w.t.Errorf("the summary of job %s on %s: %s", id, node, out)
			continue
		}
		if n := got.Runs[0].Nodes[0]; n.Node != pod || n.ExitCode != "0:0" || len(n.Devices) != jobGPUs {
			w.t.Errorf("the summary of job %s on %s is of node %s, exit code %s, with %d GPUs", id, node, n.Node, n.ExitCode, len(n.Devices))
		}
	}
}
