package manifests_test

import (
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/slurmrig"
)

// TestRealSlurmMetrics asks a real slurmctld for its metrics: every series that
// site.series has of Slurm is there, with these labels.
func TestRealSlurmMetrics(t *testing.T) {
	t.Parallel()
	c := slurmrig.StartTest(t, slurmrig.Slurm2605, slurmrig.Config{
		SlurmConf: "MetricsType=metrics/openmetrics\nNodeName=n[1-2] NodeAddr=127.0.0.1 Port=[20001-20002] CPUs=1 State=UNKNOWN\nPartitionName=gpu Nodes=ALL Default=YES\n", Slurmd: "all"})
	if out, err := c.As(t.Context(), "alice", "sbatch", "-D/tmp", "-o/dev/null", "-N2", "--begin=now+1hour", "--wrap", "true"); err != nil {
		t.Fatal(err, out)
	}
	const get = `exec 3<>/dev/tcp/127.0.0.1/6817; printf 'GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n' "$1" >&3; cat <&3`
	var text string
	await.Until(t, "two idle nodes and a job that waits", func() bool {
		text = ""
		for _, path := range []string{"/metrics/partitions", "/metrics/nodes"} {
			out := c.RunTest(t, "bash", "-c", get, "get", path)
			text += out
		}
		return strings.Contains(text, "\nslurm_nodes_idle 2\n") && strings.Contains(text, "\nslurm_partition_jobs_pending{partition=\"gpu\"} 1\n")
	}, func() string { return text })
	real := shapes(text)
	for name, labels := range siteShapes(t, "slurmctld") {
		if got, ok := real[name]; !ok || got != labels {
			t.Errorf("%s has labels %q at a real slurmctld, and %q in site.series", name, got, labels)
		}
	}
}
