package node_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/imex/gate"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/test/rig/programs"
	"github.com/quoin-hpc/quoin/test/rig/slurmrig"
)

const gateConf = `GresTypes=gpu
Prolog=/etc/slurm/prolog.sh
Epilog=/etc/slurm/epilog.sh
PrologFlags=Alloc
KillWait=1
MinJobAge=5
SelectType=select/cons_tres
TopologyPlugin=topology/block
NodeName=n[01-04] NodeAddr=127.0.0.1 Port=[21001-21004] CPUs=16 RealMemory=1000 Gres=gpu:h200:8 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
`

// gateTopology has two racks. Its base of one node lets jobs of two nodes span them.
const gateTopology = "BlockName=b1 Nodes=n[01,03]\nBlockName=b2 Nodes=n[02,04]\nBlockSizes=1\n"

// gateHook hands on the status by which the gate refuses a job, and no other.
const gateHook = `#!/bin/bash
said=$(/rig/quoin-hook %s --run-dir /rig/run-$SLURMD_NODENAME --mapping-dir /rig/map-$SLURMD_NODENAME --wait 1m 2>&1)
rc=$?
[ -z "$said" ] || echo "$said" | tee -a /rig/log/hook.$SLURMD_NODENAME >&2
[ $rc != 1 ]
`

// gateRig is a real Slurm with the real hook and a gate on each of its nodes.
type gateRig struct{ *jobsRig }

func startGateRig(t *testing.T, release slurmrig.Release) *gateRig {
	t.Helper()
	c := slurmrig.StartTest(t, release, slurmrig.Config{SlurmConf: gateConf, GPUs: nodeGPUs, Files: map[string]string{
		"topology.conf": gateTopology,
		"gres.conf":     "Name=gpu Type=h200 File=/dev/nvidia[0-7]\n",
		"prolog.sh":     fmt.Sprintf(gateHook, "prolog"), "epilog.sh": fmt.Sprintf(gateHook, "epilog"),
		"job.sh": "#!/bin/bash\n: >/rig/tmp/ran.$SLURM_JOB_ID\nexec sleep 600\n",
	}})
	r := &gateRig{&jobsRig{Cluster: c, t: t, release: release}}
	programs.PutTest(t, r.path(""), programs.Hook)
	for _, node := range r.names() {
		inv := rundir.Inventory{Node: node}
		for i := range nodeGPUs {
			inv.Entries = append(inv.Entries, rundir.Entry{GRESIndex: i, Minor: i, UUID: fmt.Sprintf("GPU-%s-%d", node, i), ExporterID: fmt.Sprint(i)})
		}
		if err := rundir.Dir(r.path("run-" + node)).WriteInventory(inv); err != nil {
			t.Fatal(err)
		}
		if err := r.Slurmd(t.Context(), node); err != nil {
			t.Fatal(err)
		}
	}
	r.until("all nodes idle", func() bool { return r.inState("idle") == 4 })
	return r
}

func (r *gateRig) names() []string { return []string{"n01", "n02", "n03", "n04"} }

func (r *gateRig) inState(state string) int {
	out, _ := r.Run(r.t.Context(), "sinfo", "-h", "-N", "-o", "%T")
	return strings.Count(out, state+"\n")
}

// configure has the site want a gate, everywhere.
func (r *gateRig) configure(policy string, wait time.Duration) {
	r.t.Helper()
	for _, node := range r.names() {
		c := rundir.HookConfig{MappingDir: "/rig/map-" + node, Gate: &rundir.Gate{Policy: policy, Wait: rundir.Duration(wait)}, Scontrol: "/usr/bin/scontrol"}
		if err := rundir.Dir(r.path("run-" + node)).WriteHookConfig(c); err != nil {
			r.t.Fatal(err)
		}
	}
}

// agents writes the gates as the nodes' agents do: one clique of which the named
// are ready.
func (r *gateRig) agents(ready ...string) {
	r.t.Helper()
	g := gate.State{Clique: "c0ffee.1"}
	for _, node := range r.names() {
		g.Members = append(g.Members, gate.Member{Node: node, Ready: slices.Contains(ready, node)})
	}
	for _, m := range g.Members {
		g.Node, g.Ready, g.Reason, g.Message = m.Node, m.Ready, "Ready", ""
		if !m.Ready {
			g.Reason, g.Message = "EntryNotReady", "its daemon has not found its peers"
		}
		if err := gate.Write(r.path("run-"+m.Node), g); err != nil {
			r.t.Fatal(err)
		}
	}
}

// eachGate does something to the gates' files.
func (r *gateRig) eachGate(do func(path string) error) {
	r.t.Helper()
	for _, node := range r.names() {
		if err := do(filepath.Join(r.path("run-"+node), gate.FileName)); err != nil {
			r.t.Fatal(err)
		}
	}
}

// aged has the gates' agents be dead for a while.
func aged(by time.Duration) func(path string) error {
	return func(path string) error {
		at := time.Now().Add(-by)
		return os.Chtimes(path, at, at)
	}
}

func (r *gateRig) ran(job string) bool {
	_, err := os.Stat(r.path("tmp/ran." + job))
	return err == nil
}

func (r *gateRig) state(job string) string {
	out, _ := r.Run(r.t.Context(), "squeue", "-h", "-j", job, "-o", "%T %r")
	return strings.TrimSpace(out)
}

// said takes what the hooks of all nodes have said.
func (r *gateRig) said() string {
	var all strings.Builder
	for _, node := range r.names() {
		text, err := os.ReadFile(r.path("log/hook." + node))
		if err == nil {
			err = os.Remove(r.path("log/hook." + node))
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			r.t.Error(err)
		}
		all.Write(text)
	}
	return all.String()
}

// words counts how Prologs came through the gates since it was last asked.
func (r *gateRig) words() map[string]int {
	words := map[string]int{}
	for _, node := range r.names() {
		for range 2 {
			calls, err := rundir.Dir(r.path("run-" + node)).TakeCalls()
			if err != nil {
				r.t.Error(err)
			}
			for _, c := range calls {
				if c.Hook == "prolog" {
					words[c.Gate]++
				}
				if c.Error != "" {
					r.t.Errorf("node %s: %+v", node, c)
				}
			}
		}
	}
	return words
}

// settled cancels a job, and checks what was said and logged since the last.
func (r *gateRig) settled(job, said string, words map[string]int) {
	r.t.Helper()
	r.must("scancel", job)
	r.until("all nodes idle", func() bool { return r.inState("idle") == 4 })
	if text := r.said(); !regexp.MustCompile(said).MatchString(text) {
		r.t.Errorf("the hooks said %q, want %s", text, said)
	}
	if got := r.words(); !maps.Equal(got, words) {
		r.t.Errorf("the Prologs came through as %v, want %v", got, words)
	}
}

func (r *gateRig) wide() string {
	return r.submit("-N", "2", "-w", "n01,n02", "--gres=gpu:2", "/etc/slurm/job.sh")
}

// again lets a job run that was put back.
func (r *gateRig) again(job string) {
	r.t.Helper()
	_ = os.Remove(r.path("tmp/ran." + job))
	// The requeue revokes the credentials of its second.
	time.Sleep(2 * time.Second)
	r.must("scontrol", "release", job)
	r.until("runs again", func() bool {
		_, _ = r.Run(r.t.Context(), "scontrol", "update", "job="+job, "StartTime=now") // refused while it completes
		return r.ran(job)
	})
}

// TestRealGate has jobs of a real Slurm come to the gate.
func TestRealGate(t *testing.T) {
	t.Parallel()
	for _, release := range slurmrig.Releases() {
		t.Run(release.Slurm, func(t *testing.T) {
			t.Parallel()
			r := startGateRig(t, release)
			for _, tt := range []struct {
				name string
				do   func(r *gateRig)
			}{
				{"ready", (*gateRig).ready}, {"late", (*gateRig).late}, {"one node", (*gateRig).single},
				{"never, warn", (*gateRig).warn}, {"never, fail", (*gateRig).fail}, {"never, hold", (*gateRig).held}, {"array", (*gateRig).array}, {"components", (*gateRig).components}, {"components of one node", (*gateRig).smallComponents}, {"interactive", (*gateRig).interactive},
				{"racks", (*gateRig).racks}, {"unjoined", (*gateRig).unjoined},
				{"stale", (*gateRig).stale}, {"no file", (*gateRig).missing}, {"agent dies", (*gateRig).dies},
			} {
				if !t.Run(tt.name, func(t *testing.T) {
					own := *r.jobsRig
					own.t = t
					tt.do(&gateRig{&own})
				}) {
					return // its jobs are in the way of the others
				}
			}
		})
	}
}
