package node_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/quoin-hpc/quoin/dcgm"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/programs"
	"github.com/quoin-hpc/quoin/test/rig/put"
	"github.com/quoin-hpc/quoin/test/rig/slurmrig"
)

const (
	jobNodes = 3
	nodeGPUs = 8
)

// jobsConf has partitions whose Prolog takes its time, whose Epilog is lost, and whose jobs are
// spread over the nodes.
const jobsConf = `GresTypes=gpu,shard
Prolog=/etc/slurm/prolog.sh
Epilog=/etc/slurm/epilog.sh
PrologFlags=Alloc,Contain
SelectType=select/cons_tres
DefMemPerCPU=10
KillWait=1
MinJobAge=600
BatchStartTimeout=2
NodeName=n[01-03] NodeAddr=127.0.0.1 Port=[21001-21003] CPUs=32 RealMemory=4000 Gres=gpu:h200:8,shard:32 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
PartitionName=slow Nodes=ALL MaxTime=INFINITE State=UP OverSubscribe=NO
PartitionName=lost Nodes=ALL MaxTime=INFINITE State=UP OverSubscribe=NO
PartitionName=storm Nodes=ALL MaxTime=INFINITE State=UP OverSubscribe=NO
`

// aroundHook runs the shipped script and writes down when and for whom. A hook may be
// killed after a random time; the file chaos has the seed. On a busy machine a hook may
// come to the end of its two seconds, or not get the lock within them, and say so: the agent
// does its work then.
const aroundHook = `#!/bin/bash
stamp() { echo "$EPOCHREALTIME %[1]s $1 $SLURM_JOB_ID $SLURMD_NODENAME ${SLURM_JOB_START_TIME:--} ${SLURM_JOB_GPUS:--} $2" >>/rig/stamps; }
exec 2>>/rig/log/hook.$SLURMD_NODENAME
stamp begin 0
if [ $SLURM_JOB_PARTITION = slow ] && [ %[1]s = prolog ]; then /usr/bin/sleep 1; fi
if [ $SLURM_JOB_PARTITION = lost ] && [ %[1]s = epilog ]; then stamp end 1; exit 0; fi
if [ -e /rig/chaos ]; then
  RANDOM=$(((SLURM_JOB_ID * 7919 + $(</rig/chaos)) %% 32768)); [ %[1]s = epilog ] && : $RANDOM
  if ((RANDOM %% 2)); then export QUOIN_HOOK=/rig/bin/dying-hook QUOIN_DIES=0.00$((RANDOM %% 10)); fi
fi
said=$(/etc/slurm/%[1]s-90-quoin.sh 2>&1); rc=$?
[ -z "$said" ] || echo "$said" >&2
case $said in *"ended with"*) rc=137;; *"not done in time"*|*"get no label"*) rc=1;; esac
stamp end $rc
exit 0
`

const dyingHook = `#!/bin/bash
exec /usr/bin/timeout -s KILL $QUOIN_DIES /opt/quoin/bin/quoin-hook "$@"
`

// jobsRig is a real Slurm with the shipped hooks, and with an agent on every node. The agent
// has only the flags that it needs on a machine without GPUs and Kubernetes.
// Each node has its own processes, run directory, mapping directory and boot id, at
// the places where a machine has them.
type jobsRig struct {
	*slurmrig.Cluster
	t       *testing.T
	release slurmrig.Release
	quoin   string
	nodes   []*jobNode
}

// jobNode is a node of the rig.
type jobNode struct {
	slurmrig.Node
	rig   *jobsRig
	agent *agentProcess
}

func startJobsRig(t *testing.T, release slurmrig.Release, controlGroups bool) *jobsRig {
	t.Helper()
	slurmrig.NeedTest(t)
	files := map[string]string{
		"gres.conf": fmt.Sprintf("Name=gpu Type=h200 File=/dev/nvidia[0-%d]\nName=shard Count=32\n", nodeGPUs-1),
		"prolog.sh": fmt.Sprintf(aroundHook, "prolog"), "epilog.sh": fmt.Sprintf(aroundHook, "epilog"),
		"job.sh": "#!/bin/bash\nexec sleep ${1:-600}\n",
	}
	shippedScripts(t, files)
	c := slurmrig.StartTest(t, release, slurmrig.Config{SlurmConf: jobsConf, Files: files, GPUs: nodeGPUs, ControlGroups: controlGroups})
	r := &jobsRig{Cluster: c, t: t, release: release, quoin: programs.QuoinTest(t)}
	r.buildPrograms()
	simulate := filepath.Join(c.Dir, ".rig/machines.yaml")
	put.File(t, simulate, usedMachines, 0o755)
	for i := range jobNodes {
		r.addNode(fmt.Sprintf("n%02d", i+1), simulate)
	}
	r.until("all nodes idle", func() bool {
		out, _ := r.Run(t.Context(), "sinfo", "-h", "-N", "-p", "main", "-o", "%T")
		return strings.Count(out, "idle\n") == jobNodes
	})
	return r
}

// shippedScripts takes the scripts out of the manifests.
func shippedScripts(t *testing.T, files map[string]string) {
	t.Helper()
	data, err := os.ReadFile("../../../manifests/plain/base/50-hook.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for d := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var object struct{ Data map[string]string }
		err := d.Decode(&object)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(files, object.Data)
	}
}

// buildPrograms puts the hook into the rig.
func (r *jobsRig) buildPrograms() {
	r.t.Helper()
	put.File(r.t, r.path("bin/dying-hook"), dyingHook, 0o755)
	programs.PutTest(r.t, r.path("bin"), programs.Hook)
}

// path is a file of the rig's own folder.
func (r *jobsRig) path(name string) string { return filepath.Join(r.Dir, ".rig", name) }

func (r *jobsRig) addNode(name, simulate string) {
	r.t.Helper()
	n := &jobNode{rig: r, Node: slurmrig.Node{Cluster: r.Cluster, Name: name}}
	for _, folder := range []string{"run-", "map-", "spool/"} {
		if err := os.MkdirAll(r.path(folder+name), 0o755); err != nil {
			r.t.Fatal(err)
		}
	}
	if err := os.MkdirAll(r.path("summaries"), 0o755); err != nil {
		r.t.Fatal(err)
	}
	n.boot()
	n.Mounts = append([]string{"tmpfs:/opt", "/rig/bin:/opt/quoin/bin"}, n.mounts("/rig")...)
	n.agent = newAgentProcess(r.t)
	n.agent.simulate = simulate
	n.startAgent()
	n.agent.until("the inventory", func() bool { return n.inventory() != nil })
	if err := n.Start(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	r.nodes = append(r.nodes, n)
}

// mounts are what hook and agent see of the node, at the places where a machine
// has them.
func (n *jobNode) mounts(rig string) []string {
	at := func(name, to string) string { return rig + "/" + name + ":" + to }
	return []string{
		"tmpfs:/var/lib", "tmpfs:/var/spool", at("run-"+n.Name, "/run/quoin"),
		at("map-"+n.Name, dcgm.DefaultMappingDir), at("summaries", "/var/spool/quoin"),
		at("boot-"+n.Name, "/proc/sys/kernel/random/boot_id"),
	}
}

// boot gives the node another boot id, as every boot does.
func (n *jobNode) boot() {
	id := make([]byte, 16)
	if f, err := os.Open("/dev/urandom"); err == nil {
		_, _ = io.ReadFull(f, id)
		_ = f.Close()
	}
	put.File(n.rig.t, n.rig.path("boot-"+n.Name), fmt.Sprintf("%x-%x-%x-%x-%x\n", id[:4], id[4:6], id[6:8], id[8:10], id[10:]), 0o755)
}

// startAgent starts the agent as the node's, without capabilities as in its pod. The
// agent sees the slurmds of its own cluster: it cannot read for which job a slurmd has
// a child, and other clusters of this machine have Prologs all the time.
func (n *jobNode) startAgent() {
	const host = "/run/host"
	mounts := append([]string{"tmpfs:/run"}, n.mounts(n.rig.path(""))...)
	mounts = append(mounts, "proc:"+host+"/proc", n.rig.path("boot-"+n.Name)+":"+host+"/proc/sys/kernel/random/boot_id")
	cmd := exec.Command("/usr/bin/setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs", n.rig.quoin, "agent", "--simulate", n.agent.simulate, "--node", n.Name,
		"--store", "/run/quoin", "--listen", n.agent.address, "--times", "sample: "+sampleInterval, "--times", "sweep: 2s", "--set", "agent.hookSummaryDir=/var/spool/quoin",
		"--set", "agent.hostRoot="+host)
	n.agent.startBy(cmd, func() error { return n.StartOutside(cmd, mounts...) })
}

func (n *jobNode) killAgent() {
	_ = n.agent.cmd.Process.Kill()
	_ = n.agent.cmd.Wait()
}

// inventory is the node's exporter ids by GRES index, nil when there is none.
func (n *jobNode) inventory() map[string]string {
	inv, err := rundir.Dir(n.rig.path("run-" + n.Name)).ReadInventory()
	if err != nil || len(inv.Entries) != nodeGPUs {
		return nil
	}
	out := map[string]string{}
	for _, e := range inv.Entries {
		out[fmt.Sprint(e.GRESIndex)] = e.ExporterID
	}
	return out
}

func (r *jobsRig) must(args ...string) string {
	r.t.Helper()
	return r.RunTest(r.t, args...)
}

// jobsTime bounds what must come; all comes much earlier.
const jobsTime = 5 * time.Minute

func (r *jobsRig) until(what string, is func() bool) {
	r.t.Helper()
	await.Until(r.t, what, is, func() string {
		jobs, _ := r.Run(r.t.Context(), "squeue", "-a")
		nodes, _ := r.Run(r.t.Context(), "sinfo", "-N", "-o", "%N %T %E")
		var said strings.Builder
		for _, n := range r.nodes {
			text, _ := os.ReadFile(r.path("log/hook." + n.Name))
			records, _ := rundir.Dir(r.path("run-" + n.Name)).ReadRecords()
			spool, _ := filepath.Glob(r.path("spool/" + n.Name + "/" + n.Name + "_*"))
			fmt.Fprintf(&said, "%s: mapping %v, spool %v, records %+v\n%s", n.Name, n.mapping(), spool, records, text)
		}
		return jobs + nodes + said.String()
	})
}

var submittedJob = regexp.MustCompile(`Submitted batch job (\d+)`)

// submit starts a batch job that sleeps.
func (r *jobsRig) submit(args ...string) string {
	r.t.Helper()
	out := r.must(append([]string{"sbatch", "-o", "/dev/null"}, args...)...)
	m := submittedJob.FindStringSubmatch(out)
	if m == nil {
		r.t.Fatalf("sbatch said %q", out)
	}
	return m[1]
}
