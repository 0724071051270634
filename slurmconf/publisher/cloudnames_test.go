package publisher

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/kube"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/topology"
)

// gkeName is a name as GKE gives it: it ends in four random letters and digits.
func gkeName(pool string, i int) string {
	const letters = "0123456789bcdfghjklmnpqrstvwxz"
	sum, end := sha256.Sum256(fmt.Append(nil, pool, i)), make([]byte, 4)
	for k := range end {
		end[k] = letters[int(sum[k])%len(letters)]
	}
	return "gke-a4x-train-" + pool + "-7d3f19c2-" + string(end)
}

// a4x are nodes of GKE in racks of 18, with labels and with reports, and ten nodes without GPUs.
func a4x(nodes int) *inputs.Snapshot {
	snap := &inputs.Snapshot{Whole: true, Reports: map[string]*topology.Node{}}
	seen := map[string]bool{}
	for i := 0; len(seen) < nodes; i++ {
		name := gkeName("a4x-pool", i)
		if seen[name] {
			continue
		}
		rack := len(seen) / 18
		seen[name] = true
		subblock := fmt.Sprintf("%x", sha256.Sum256(fmt.Append(nil, rack)))[:32]
		snap.Nodes = append(snap.Nodes, inputs.Node{Name: name, Labels: map[string]string{
			"cloud.google.com/gke-accelerator": "nvidia-gb200", "cloud.google.com/gke-accelerator-count": "4",
			"cloud.google.com/gce-topology-subblock": subblock,
			"cloud.google.com/gce-topology-block":    fmt.Sprintf("%x", sha256.Sum256(fmt.Append(nil, "block", rack/28)))[:32],
		}})
		report := &topology.Node{Name: name, Sockets: []topology.Socket{{CPUs: "0-71", Cores: 72}, {CPUs: "72-143", Cores: 72}}}
		for gpu := range 4 {
			report.GPUs = append(report.GPUs, topology.GPU{Index: gpu, UUID: fmt.Sprintf("GPU-%08x-0000-4000-8000-%012x", i, gpu), Minor: &gpu, Product: "NVIDIA GB200", CPUAffinity: report.Sockets[gpu/2].CPUs,
				Fabric: topology.Fabric{State: topology.FabricCompleted, ClusterUUID: topology.UUID{1, 2, byte(rack >> 8), byte(rack), 15: 1}, CliqueID: 1}})
		}
		snap.Reports[name] = report
	}
	for i := range 10 {
		snap.Nodes = append(snap.Nodes, inputs.Node{Name: gkeName("default-pool", i)})
	}
	return snap
}

// TestCloudNames makes what is published of 12,010 nodes whose names Slurm's host lists can't fold:
// 10,008 and a fifth more. Files with all names are held. If annotations place the nodes, each object fits
// an API server.
func TestCloudNames(t *testing.T) {
	pub := complete(t, Publication{})[0]
	made := makeOf(t, pub, pub.Rules.Gather(a4x(12010)), Previous{})
	named := sizeOf(made.Files)
	if made.limitSize(pub, kube.MaxBytes); made.Refused != "TooLarge" || !strings.Contains(made.Message, "set membership: annotation") {
		t.Errorf("refused: %q %s", made.Refused, made.Message)
	}
	pub = complete(t, Publication{Membership: "annotation"})[0]
	made = makeOf(t, pub, pub.Rules.Gather(a4x(12010)), Previous{})
	made.limitSize(pub, kube.MaxBytes)
	plan := made.FilePlan
	again, err := plan.Files()
	if diff := cmp.Diff(made.Files, again); diff != "" || err != nil {
		t.Errorf("the files of the stored plan: %v (-want +got):\n%.1000s", err, diff)
	}
	packed, err := plandoc.Pack(&plandoc.Document{Current: plandoc.Revision{Number: 1, Plan: plan}})
	if err != nil {
		t.Fatal(err)
	}
	left := len(plandoc.LeftOut(made.Left))
	t.Logf("files %d bytes, with the names in gres.conf %d, packed plan %d, nodes left out %d", sizeOf(made.Files), named, len(packed), left)
	if made.Refused != "" || named <= kube.MaxBytes || sizeOf(made.Files) > kube.MaxBytes || len(packed) > plandoc.MaxPacked/3 || left > 1024 {
		t.Errorf("refused: %q %s", made.Refused, made.Message)
	}
	if got := made.Files["gres.conf"]; !strings.HasSuffix(got, "\nAutoDetect=nvidia\n") {
		t.Errorf("gres.conf %.300q", got)
	}
	if n := len(made.Plan.Blocks()); n != 668 {
		t.Errorf("%d blocks, want 668", n)
	}
}
