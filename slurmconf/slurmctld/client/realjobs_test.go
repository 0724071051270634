package client

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
	"github.com/quoin-hpc/quoin/test/rig/slurmrig"
)

const realJobNodes = 8

// TestRealJobs asks a real Slurm about its jobs by each data parser and by scontrol. Nodes have
// registered in another order than that of their names, which is the order of a job's GPUs.
func TestRealJobs(t *testing.T) {
	t.Parallel()
	c, rest, socket := startREST(t, slurmrig.Config{GPUs: 4,
		SlurmConf: "GresTypes=gpu\nMaxNodeCount=10\nPartitionName=p Nodes=ALL Default=YES\nPartitionName=q Nodes=ALL Topology=fabric\n",
		Files: map[string]string{"gres.conf": "Name=gpu Type=gb200 File=/dev/nvidia[0-3]\n",
			"topology.yaml": "- topology: nvl\n  cluster_default: true\n  block:\n    block_sizes: [2]\n    blocks: [{block: b1}, {block: b2}, {block: b3}, {block: b4}]\n" +
				"- topology: fabric\n  cluster_default: false\n  tree:\n    switches: [{switch: s1}]\n"}})
	for i := realJobNodes; i >= 1; i-- {
		if err := c.Slurmd(t.Context(), fmt.Sprint("d", i), "-Z", "--conf", fmt.Sprintf("NodeAddr=127.0.0.1 Port=%d CPUs=4 Gres=gpu:gb200:4 Topology=nvl:b%d", 20140+i, (i+1)/2)); err != nil {
			t.Fatal(err)
		}
		untilJobs(t, rest, 0, func(s *slurmctld.State) bool { return len(s.Nodes) == realJobNodes+1-i }) // slurmctld has the nodes in this order
	}
	program, err := c.Scontrol()
	if err != nil {
		t.Fatal(err)
	}
	untilJobs(t, rest, 0, func(s *slurmctld.State) bool {
		free := 0
		for _, n := range s.Nodes {
			if n.State == "IDLE+DYNAMIC_NORM" {
				free++
			}
		}
		return free == realJobNodes
	})
	for _, words := range []string{"-J first -N2 -w d1,d2 --gpus=5 --ntasks=2 --segment=2", "-J second -N1 -w d3 --gpus-per-node=4 --exclusive=topo --array=7", "-J third -N2 --segment=1 --spread-segments", "-J waits -N1 -w d3"} {
		args := append(append([]string{"sbatch"}, strings.Fields(words)...), "--wrap", "sleep 1000")
		c.RunTest(t, args...)
	}
	state := untilJobs(t, rest, 3, nil)
	first, second, third := state.Jobs[0], state.Jobs[1], state.Jobs[2]
	if first.Nodes != "d[2,1]" || !cmp.Equal(first.GPUs, []string{"gpu:gb200:4(IDX:0-3)", "gpu:gb200:1(IDX:0)"}) || first.Segment != 2 || first.Spread || first.User != "root" {
		t.Errorf("%+v", first)
	}
	if second.Nodes != "d3" || !strings.HasSuffix(second.Array, "_7") || second.Start.IsZero() {
		t.Errorf("%+v", second)
	}
	if third.Segment != 1 || !third.Spread {
		t.Errorf("%+v", third)
	}
	if diff := cmp.Diff(map[string]string{"p": "", "q": "fabric"}, state.Partitions); diff != "" {
		t.Errorf("partitions (-want +got):\n%s", diff)
	}
	for _, j := range state.Jobs {
		if j.Cluster != "rig" || j.HoldsGPUs == (j.Name == "third") {
			t.Errorf("job %s: cluster %q, holds GPUs %t", j.Name, j.Cluster, j.HoldsGPUs)
		}
	}
	askers := map[string]Asker{"scontrol": &Scontrol{Program: program}}
	for _, parser := range parsers[1:] { // 26.05 has all but v0.0.46
		old := NewREST(socket, rest.tokenFile)
		old.parser = parser
		askers[parser] = old
	}
	for name, slurm := range askers {
		unsaid := cmpopts.IgnoreFields(slurmctld.Job{})
		if name == "v0.0.43" {
			unsaid = cmpopts.IgnoreFields(slurmctld.Job{}, "Spread")
		}
		brief, err := slurm.Ask(t.Context(), Question{Jobs: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range brief.Jobs { // without details all else is the same
			with := state.Jobs[slices.IndexFunc(state.Jobs, func(other slurmctld.Job) bool { return other.ID == j.ID })]
			j.GPUs, j.Spread = with.GPUs, with.Spread
			if diff := cmp.Diff(with, j); diff != "" {
				t.Errorf("%s without details (-want +got):\n%s", name, diff)
			}
		}
		one, err := slurm.Ask(t.Context(), Question{Job: first.ID})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(state.Jobs[:1], one.Jobs); diff != "" {
			t.Errorf("%s, one job (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(state.Jobs, untilJobs(t, slurm, 3, nil).Jobs, unsaid); diff != "" {
			t.Errorf("%s (-v0.0.45 +got):\n%s", name, diff)
		}
	}
}

// untilJobs asks until so many jobs run and the answer is as wanted. It sorts the jobs by name.
func untilJobs(t *testing.T, slurm Asker, count int, is func(*slurmctld.State) bool) *slurmctld.State {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		got, err := slurm.Ask(t.Context(), Question{Nodes: true, Jobs: true, Details: true})
		if err == nil && len(got.Jobs) == count && (is == nil || is(got)) {
			slices.SortFunc(got.Jobs, func(a, b slurmctld.Job) int { return strings.Compare(a.Name, b.Name) })
			return got
		}
		if time.Now().After(end) {
			t.Fatalf("%v: %+v", err, got)
		}
	}
}
