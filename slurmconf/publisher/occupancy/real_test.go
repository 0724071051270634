package occupancy

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/slurmctld/client"
	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/hosts"
	"github.com/quoin-hpc/quoin/test/rig/slurmrig"
	"github.com/quoin-hpc/quoin/topology"
)

const (
	realNodes = 12
	perBlock  = 4
)

func blockOf(node int) string { return fmt.Sprint("nvl:b", (node-1)/perBlock+1) }

// realSlurm is a Slurm whose nodes d1 to d12 have registered dynamically, in three blocks.
type realSlurm struct {
	t     *testing.T
	slurm *slurmrig.Cluster
	k     *Keeper
	port  int
}

func startReal(t *testing.T, port int) *realSlurm {
	t.Helper()
	r := startSlurm(t, slurmrig.Config{
		SlurmConf: "MaxNodeCount=20\nSchedulerParameters=bf_interval=1,sched_interval=2\nPartitionName=p Nodes=ALL Default=YES\n",
		Files:     map[string]string{"topology.yaml": "- topology: nvl\n  cluster_default: true\n  block:\n    block_sizes: [4]\n    blocks:\n      - {block: b1}\n      - {block: b2}\n      - {block: b3}\n"}})
	r.port = port
	for i := 1; i <= realNodes; i++ {
		r.slurmd(i)
	}
	r.k.Set(name, r.blocks("d[1-4]", "d[5-8]", "d[9-12]"))
	r.until("idle nodes", func(v *View) bool { return idle(v) == realNodes })
	return r
}

// startSlurm starts a Slurm, and a Keeper that asks its slurmrestd.
func startSlurm(t *testing.T, conf slurmrig.Config) *realSlurm {
	t.Helper()
	c, url, token := slurmrig.StartRESTTest(t, "nobody", conf)
	log := slog.New(slog.DiscardHandler)
	k := New(map[string]*client.Client{name: client.New(name, client.NewREST(url, token), log)})
	return &realSlurm{t: t, slurm: c, k: k}
}

func (r *realSlurm) blocks(lists ...string) []topology.Topology {
	b := topology.Topology{Name: "nvl", Default: true, Kind: "block", Sizes: []int{perBlock}}
	for i, list := range lists {
		b.Blocks = append(b.Blocks, topology.Block{Name: fmt.Sprint("b", i+1), Nodes: hosts.In(list)})
	}
	return []topology.Topology{b}
}

func (r *realSlurm) slurmd(node int) {
	r.t.Helper()
	if err := r.slurm.Slurmd(r.t.Context(), fmt.Sprint("d", node), "-Z", "--conf", fmt.Sprintf("NodeAddr=127.0.0.1 Port=%d CPUs=2 Topology=%s", r.port+node, blockOf(node))); err != nil {
		r.t.Fatal(err)
	}
}

func (r *realSlurm) run(args ...string) string {
	r.t.Helper()
	out := r.slurm.RunTest(r.t, args...)
	return strings.TrimSpace(out)
}

// view asks slurmrestd now.
func (r *realSlurm) view() *View {
	r.t.Helper()
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) { // until Slurm has rested
		s := r.k.sites[name]
		s.slurm.Newer(r.t.Context(), r.k.question(s), began)
		v := r.k.View(name)
		if v.Err != nil {
			r.t.Fatal(v.Err)
		}
		if v.Asked.After(began) {
			return &v
		}
	}
}

func (r *realSlurm) until(what string, is func(*View) bool) (v *View) {
	r.t.Helper()
	await.Until(r.t, what, func() bool { v = r.view(); return is(v) },
		func() string { return fmt.Sprintf("%+v\n%s", v, r.run("scontrol", "show", "jobs")) })
	return v
}

func idle(v *View) (count int) {
	for _, n := range v.Nodes {
		if n.State == "IDLE+DYNAMIC_NORM" {
			count++
		}
	}
	return count
}

// clear ends all jobs.
func (r *realSlurm) clear() {
	r.t.Helper()
	r.run("scancel", "-u", "root")
	r.until("idle nodes", func(v *View) bool { return idle(v) == realNodes && len(v.Jobs) == 0 })
}

// submit starts a job, and returns it when it runs. It is nil if Slurm refuses it or lets it wait.
func (r *realSlurm) submit(words ...string) *Job {
	r.t.Helper()
	id, err := r.slurm.Run(r.t.Context(), append(append([]string{"sbatch", "--parsable", "--exclusive"}, words...), "--wrap", "sleep 1000")...)
	if id = strings.TrimSpace(id); err != nil {
		if !strings.Contains(id, "Requested topology configuration is not available") {
			r.t.Fatalf("%v\n%s", err, id)
		}
		return nil
	}
	var found *Job
	r.until("decision about job "+id, func(v *View) bool {
		if i := slices.IndexFunc(v.Jobs, func(j Job) bool { return j.ID == id }); i >= 0 {
			found = &v.Jobs[i]
			return true
		}
		reason := r.run("squeue", "-h", "-j", id, "-o", "%r")
		return reason != "None" && reason != "Priority" && reason != "" // the scheduler has looked at it
	})
	return found
}

// TestRealObeyed gives dynamic nodes their unchanged block again, as SchedMD's pull request 225
// tells of, and does other things that are done to nodes, and starts jobs with segments among busy
// nodes after each. Slurm 26.05 keeps all segments whole.
func TestRealObeyed(t *testing.T) {
	t.Parallel()
	r := startReal(t, 20300)
	rng := rand.New(rand.NewPCG(225, 1))
	jobs, waits, more := 0, 0, 0
	for _, step := range []struct {
		name string
		do   func()
	}{
		{"registered", func() {}},
		{"the unchanged block again", r.again},
		{"again, by one command for each block", func() {
			for first := 1; first <= realNodes; first += perBlock {
				r.run("scontrol", "update", fmt.Sprintf("nodename=d[%d-%d]", first, first+perBlock-1), "topology="+blockOf(first))
			}
		}},
		{"again, then reconfigure", func() { r.again(); r.run("scontrol", "reconfigure") }},
		{"to another block and back", func() {
			r.run("scontrol", "update", "nodename=d[1,5]", "topology=nvl:b3")
			r.run("scontrol", "update", "nodename=d1", "topology=nvl:b1")
			r.run("scontrol", "update", "nodename=d5", "topology=nvl:b2")
		}},
		{"down, deleted, and registered anew", func() {
			for _, node := range []int{2, 9} {
				r.run("bash", "-c", fmt.Sprintf("kill $(cat /rig/run/slurmd.d%d.pid)", node))
				r.run("scontrol", "update", fmt.Sprintf("nodename=d%d", node), "state=down", "reason=x")
				r.run("scontrol", "delete", fmt.Sprintf("nodename=d%d", node))
				r.slurmd(node)
			}
			r.until("nodes that have registered", func(v *View) bool {
				return len(v.Nodes) == realNodes && v.Nodes["d2"].Registered && v.Nodes["d9"].Registered
			})
			r.again()
		}},
	} {
		step.do()
		for range 5 {
			r.clear()
			busy := rng.Perm(realNodes)[:rng.IntN(8)]
			script := &strings.Builder{}
			for _, i := range busy {
				fmt.Fprintf(script, "sbatch --exclusive -N1 -w d%d --wrap 'sleep 1000'\n", i+1)
			}
			r.run("bash", "-c", script.String())
			r.until("busy nodes", func(v *View) bool { return len(v.Jobs) == len(busy) })
			segment := []int{1, 2, 2, 3, 4, 4}[rng.IntN(6)]
			count := 1 + rng.IntN(max(1, (realNodes-len(busy))/segment))
			j := r.submit("-N", fmt.Sprint(count*segment), "--segment", fmt.Sprint(segment))
			if j == nil {
				waits++
				continue
			}
			jobs++
			if j.Segment != segment || len(j.Judgements) != 1 {
				t.Fatalf("%s: %+v", step.name, j)
			}
			if judged := j.Judgements[0]; judged.Split > 0 {
				t.Errorf("after %s: job of %d segments of %d on %s: %s", step.name, count, segment, j.Nodes, judged.Words())
			} else if judged.Fewest < len(judged.Names) {
				more++
			}
		}
	}
	t.Logf("%d jobs have all segments whole, %d of them in more blocks than needed; %d had to wait", jobs, more, waits)
	if jobs < 10 || more == 0 {
		t.Errorf("%d jobs, %d in more blocks than needed: too few", jobs, more)
	}
}

// again gives each node the block that it has.
func (r *realSlurm) again() {
	r.t.Helper()
	for i := 1; i <= realNodes; i++ {
		r.run("scontrol", "update", fmt.Sprint("nodename=d", i), "topology="+blockOf(i))
	}
}

// TestRealSeventeen is the case of SchedMD's pull request 225: three blocks of 17, and a job of
// three segments of 12. There it got 17+17+2 after each node was given its block again. Slurm
// 26.05.5 keeps its segments whole. No slurmd runs: the nodes never finish to power up.
func TestRealSeventeen(t *testing.T) {
	t.Parallel()
	const lists = "w0-[0-16] w1-[0-16] w2-[0-16]"
	conf, topology := &strings.Builder{}, &strings.Builder{}
	conf.WriteString("TopologyPlugin=topology/block\nSelectType=select/cons_tres\nResumeProgram=/bin/true\nSuspendProgram=/bin/true\nSuspendTime=86400\nResumeTimeout=60000\n")
	for i, list := range strings.Fields(lists) {
		fmt.Fprintf(conf, "NodeName=%s NodeAddr=127.0.0.1 Port=[%d-%d] State=CLOUD\n", list, 20340+i*17, 20356+i*17)
		fmt.Fprintf(topology, "BlockName=b%d Nodes=%s\n", i, list)
	}
	conf.WriteString("PartitionName=p Nodes=ALL Default=YES\n")
	topology.WriteString("BlockSizes=17\n")
	r := startSlurm(t, slurmrig.Config{SlurmConf: conf.String(), Files: map[string]string{"topology.conf": topology.String()}})
	places := r.blocks(strings.Fields(lists)...)
	places[0].Sizes = []int{17}
	r.k.Set(name, places)
	for i, list := range strings.Fields(lists) {
		r.run("scontrol", "update", "nodename="+list, fmt.Sprint("topology=default:b", i))
	}
	j := r.submit("-N36", "--segment=12")
	if j == nil || len(j.Judgements) != 1 || j.Judgements[0].Words() != "3 blocks" || j.Judgements[0].Parts() != "12+12+12" {
		t.Errorf("%+v", j)
	}
}

// TestRealSplit has a job that Slurm placed as it asked. Then two of its nodes are in another
// block, as after a repair. The job's segment is split then, and a job that could have fewer
// blocks is told of too.
func TestRealSplit(t *testing.T) {
	t.Parallel()
	r := startReal(t, 20320)
	say := func(j *Job) (said []string) {
		v := r.view()
		for i := range v.Jobs {
			if v.Jobs[i].ID == j.ID {
				for k := range v.Jobs[i].Judgements {
					said = append(said, v.Jobs[i].Judgements[k].Words())
				}
			}
		}
		return said
	}
	check := func(j *Job, want string) {
		t.Helper()
		if diff := cmp.Diff([]string{want}, say(j)); diff != "" {
			t.Errorf("job on %s (-want +got):\n%s", j.Nodes, diff)
		}
	}
	r.clear()
	busy := r.submit("-N5", "-w", "d1,d2,d5,d6,d7")
	if busy == nil {
		t.Fatal("no job runs")
	}
	loose := r.submit("-N4", "--segment=2")
	if loose == nil {
		t.Fatal("no job runs")
	}
	check(loose, "2 blocks, 1 would be large enough")
	r.run("scancel", busy.ID, loose.ID)
	r.clear()
	whole := r.submit("-N4", "--segment=4", "-w", "d1,d2,d3,d4")
	if whole == nil {
		t.Fatal("no job runs")
	}
	check(whole, "1 block")
	for node, block := range map[string]string{"d[3-4]": "nvl:b2", "d[5-6]": "nvl:b1"} {
		r.run("scontrol", "update", "nodename="+node, "topology="+block)
	}
	r.k.Set(name, r.blocks("d[1-2,5-6]", "d[3-4,7-8]", "d[9-12]"))
	check(whole, "2 blocks; segment 4 got 2+2")
}
