package publisher

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld/client"
	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/slurmrig"
)

// TestRealAnnotationsWait asks a real slurmrestd while a rack joins. Its nodes are annotated
// when slurmctld has loaded the new block, and not before.
func TestRealAnnotationsWait(t *testing.T) {
	t.Parallel()
	rig, url, token := slurmrig.StartRESTTest(t, "nobody", slurmrig.Config{
		SlurmConf: "MaxNodeCount=100\nResumeProgram=/bin/true\nSuspendProgram=/bin/true\nSuspendTime=86400\nPartitionName=main Nodes=ALL Default=YES State=UP\n",
		Files:     map[string]string{"topology.yaml": "- topology: flat\n  cluster_default: true\n  flat: true\n"},
	})
	// While Slurm gives no answer, time decides: on a busy machine an answer takes seconds.
	pubs := confirmAfter(50*time.Millisecond, complete(t, Publication{SlurmNames: "slinky:a", BaseBlockSize: rackNodes, SettleTime: Duration{Duration: 50 * time.Millisecond}, LoadTimeout: Duration{Duration: 20 * time.Second}}))
	store := newMemory(&inputs.Snapshot{})
	store.changes = make(chan struct{}, 1)
	r := &dynamicRig{t: t, store: store, slurm: rig, given: map[string]string{}}
	pub := newPublisher(store, pubs)
	pub.options.Slurm = map[string]*client.Client{"default": client.New("default", client.NewREST(url, token), pub.log)}
	inBackground(t, pub.Ask, pub.Run)
	pending := func() string {
		if set := store.get("slurm/quoin-slurm"); set != nil {
			return set.Annotations[plandoc.AnnotationPending]
		}
		return ""
	}
	until := func(what string, is func() bool) {
		t.Helper()
		await.Until(t, what, is, func() string { return fmt.Sprintf("pending %q, annotations %v", pending(), store.notes) })
	}
	r.join(0, 1)
	r.settle()

	old := time.Now()
	until("slurmctld's last reconfigure is older than its seconds tell", func() bool { return time.Since(old) > 4*time.Second })
	r.join(rackNodes, rackNodes+1)
	until("the publisher sees that the new block is not loaded", func() bool {
		return strings.HasPrefix(pending(), "loaded: gpu-[018-019]: ")
	})
	store.mu.Lock()
	early := store.notes["k8s-gpu-018"]
	store.mu.Unlock()
	if early != "" {
		t.Errorf("annotated with %q before slurmctld has the block", early)
	}
	r.settle() // which reconfigures first
	until("all nodes are as published", func() bool { return pending() == "" })
}
