package publisher

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
	"github.com/quoin-hpc/quoin/test/rig/slurmrig"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/nodelabels"
)

// dynamicRig is a real slurmctld with dynamic nodes, and what Slinky does beside it: worker
// pods become Slurm nodes, annotations become Topology=, and changed files are loaded.
type dynamicRig struct {
	t     *testing.T
	store *memory
	slurm *slurmrig.Cluster
	nodes []inputs.Node
	// given are the Topology= strings that Slurm has.
	given map[string]string
	// reconfigures counts the loads of a changed file.
	file         string
	reconfigures int
}

// rackNodes is how many nodes a rack has.
const rackNodes = 18

// join adds nodes, each with a worker pod of its name.
func (r *dynamicRig) join(numbers ...int) {
	r.t.Helper()
	for _, n := range numbers {
		name, rack := fmt.Sprintf("gpu-%03d", n), n/rackNodes
		r.nodes = append(r.nodes, inputs.Node{Name: "k8s-" + name, Labels: map[string]string{
			topology.CliqueLabel: fmt.Sprintf("8a61c302-0000-4000-8000-000000000001.%d", rack), nodelabels.Count: "4", nodelabels.Product: "NVIDIA-GB200",
			"network.topology.nvidia.com/leaf": fmt.Sprintf("leaf-%02d", rack), "network.topology.nvidia.com/spine": "spine"},
			Workers: []inputs.Worker{{Namespace: "slurm", Cluster: "a", Pod: name, Node: "k8s-" + name, Hostname: name}}})
	}
	r.store.change(&inputs.Snapshot{Nodes: slices.Clone(r.nodes), Whole: true})
}

// settle plays Slinky until each node has its annotation, and Slurm has it too.
func (r *dynamicRig) settle() {
	r.t.Helper()
	for end := time.Now().Add(3 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("%d of %d nodes have their annotation after 3 minutes", len(r.given), len(r.nodes))
		}
		r.load()
		r.store.mu.Lock()
		notes := maps.Clone(r.store.notes)
		r.store.mu.Unlock()
		bySpec := map[string][]string{}
		for node, spec := range notes {
			if name := strings.TrimPrefix(node, "k8s-"); r.given[name] != spec {
				bySpec[spec] = append(bySpec[spec], name)
			}
		}
		for spec, names := range bySpec {
			r.place(spec, names)
		}
		if len(notes) == len(r.nodes) && len(bySpec) == 0 {
			return
		}
	}
}

// place makes nodes that are new, and gives all of them their place.
func (r *dynamicRig) place(spec string, names []string) {
	r.t.Helper()
	var fresh []string
	for _, name := range names {
		if r.given[name] == "" {
			fresh = append(fresh, name)
		}
		r.given[name] = spec
	}
	if len(fresh) > 0 {
		r.scontrol("create", "nodename="+hostlist.Compress(fresh), "CPUs=2", "RealMemory=1000", "State=CLOUD")
	}
	r.scontrol("update", "nodename="+hostlist.Compress(names), "topology="+spec)
}

// load loads the topology file if its text changed, as the sidecar of slurmctld does.
func (r *dynamicRig) load() {
	r.t.Helper()
	set := r.store.get("slurm/quoin-slurm")
	if set == nil || set.Files["topology.yaml"] == r.file {
		return
	}
	r.file = set.Files["topology.yaml"]
	next := filepath.Join(r.slurm.Dir, "next")
	err := os.WriteFile(next, []byte(r.file), 0o600)
	if err == nil {
		err = os.Rename(next, filepath.Join(r.slurm.Dir, "topology.yaml"))
	}
	if err != nil {
		r.t.Fatal(err)
	}
	r.scontrol("reconfigure")
	r.reconfigures++
}

func (r *dynamicRig) scontrol(args ...string) string {
	r.t.Helper()
	out := r.slurm.RunTest(r.t, append([]string{"scontrol"}, args...)...)
	return out
}

// logged counts the reconfigures in slurmctld's log.
func (r *dynamicRig) logged() int {
	return strings.Count(r.slurm.Log("slurmctld"), "Processing Reconfiguration Request")
}

// TestRealMembersJoin lets 500 nodes join a real slurmctld. Their blocks are known, so no
// file changes, and slurmctld is not reconfigured.
func TestRealMembersJoin(t *testing.T) {
	t.Parallel()
	const racks, joining = 32, 500
	rig := slurmrig.StartTest(t, slurmrig.Slurm2605, slurmrig.Config{
		SlurmConf: "MaxNodeCount=600\nResumeProgram=/bin/true\nSuspendProgram=/bin/true\nSuspendTime=86400\nNodeName=static NodeAddr=127.0.0.1 Port=22001 CPUs=2 RealMemory=100 State=UNKNOWN\n" +
			"PartitionName=main Nodes=ALL Default=YES State=UP\n",
		Files: map[string]string{"topology.yaml": "- topology: flat\n  cluster_default: true\n  flat: true\n"},
	})
	ms := Duration{Duration: time.Millisecond}
	pubs := confirmAfter(50*time.Millisecond, complete(t, Publication{SlurmNames: "slinky:a", BaseBlockSize: rackNodes, SettleTime: Duration{Duration: 50 * time.Millisecond}, LoadTimeout: ms}))
	store := newMemory(&inputs.Snapshot{})
	store.changes = make(chan struct{}, 1)
	r := &dynamicRig{t: t, store: store, slurm: rig, given: map[string]string{}}
	inBackground(t, func(ctx context.Context) error { return newPublisher(store, pubs).Run(ctx) })
	for rack := range racks { // two nodes make a block
		r.join(rack*rackNodes, rack*rackNodes+1)
	}
	r.settle()
	first, revision, before, began := store.get("slurm/quoin-slurm").Clone(), store.plan(t).Current.Number, r.logged(), time.Now()
	if before == 0 || r.reconfigures == 0 {
		t.Fatalf("%d reconfigures in the log, %d made: want the first", before, r.reconfigures)
	}
	made := r.reconfigures
	var rest []int
	for n := range racks * rackNodes {
		if n%rackNodes > 1 && len(rest) < joining {
			rest = append(rest, n)
		}
	}
	for step := range slices.Chunk(rest, 25) {
		r.join(step...)
		r.settle()
	}
	set := store.get("slurm/quoin-slurm")
	t.Logf("%d nodes joined in %s: %d reconfigures by files, %d in the log, %d revisions of the plan", len(rest), time.Since(began).Round(time.Millisecond), r.reconfigures-made, r.logged()-before,
		store.plan(t).Current.Number-revision)
	if r.reconfigures != made || r.logged() != before || !maps.Equal(first.Files, set.Files) || set.Annotations[plandoc.AnnotationRevision] != first.Annotations[plandoc.AnnotationRevision] {
		t.Errorf("%d reconfigures, %d in the log, files %v", r.reconfigures-made, r.logged()-before, set.Files)
	}
	r.compare()
	r.jobs()
	r.join(racks*rackNodes, racks*rackNodes+1) // a new block: slurmctld loads it, and all nodes keep their places
	r.settle()
	if r.reconfigures != made+1 || r.logged() != before+1 {
		t.Errorf("%d reconfigures for a new block, %d in the log, want 1", r.reconfigures-made, r.logged()-before)
	}
	r.compare()
}

// compare compares what Slurm shows with the plan.
func (r *dynamicRig) compare() {
	r.t.Helper()
	for _, name := range []string{"nvl", "fabric"} {
		shown, err := slurmctld.ParseShown("scontrol", []byte(r.scontrol("show", "topology", name)))
		if err != nil {
			r.t.Fatal(err)
		}
		topologies, err := slurmconf.ParseTopologies("topology.yaml", []byte(topologyOf(r.store)))
		if err != nil {
			r.t.Fatal(err)
		}
		differences, nodes := slurmctld.CompareShown(shown, slurmctld.Like(shown, topologies))
		if len(differences) > 0 || nodes != len(r.nodes) {
			r.t.Errorf("%s: %d of %d nodes compared, %v", name, nodes, len(r.nodes), differences)
		}
	}
}

// jobs asks where jobs would start.
func (r *dynamicRig) jobs() {
	r.t.Helper()
	for _, size := range []int{2, 9, 18} {
		out, err := r.slurm.Run(r.t.Context(), "sbatch", "--test-only", "-N", fmt.Sprint(size), "--wrap", "true")
		_, list, found := strings.Cut(out, " on nodes ")
		names, bad := hostlist.Expand(strings.Fields(list + " ?")[0])
		if err != nil || !found || bad != nil || len(names) != size {
			r.t.Errorf("a job of %d nodes: %v\n%s", size, err, out)
			continue
		}
		for _, name := range names {
			if r.given[name] != r.given[names[0]] {
				r.t.Errorf("a job of %d nodes starts in several blocks: %s", size, out)
				break
			}
		}
	}
}
