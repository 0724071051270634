package hour

import (
	"fmt"
	"strings"
)

// States are Slurm's nodes by state at all minutes, as slurmctld tells them.
var States = map[string]float64{"idle": 1, "alloc": 0, "mixed": 2, "drained": 1}

// Waiting is how many jobs wait in a partition at a minute.
func Waiting(partition string, minute int) float64 {
	return map[string]float64{"gpu": float64(minute), "large": 2}[partition]
}

// SlurmText is what slurmctld of 25.11 and newer says of the queue and the nodes at a
// minute, at its endpoints /metrics/partitions and /metrics/nodes.
func SlurmText(minute int) string {
	var b strings.Builder
	b.WriteString("# TYPE slurm_partition_jobs_pending gauge\n")
	for _, p := range []string{"gpu", "large"} {
		fmt.Fprintf(&b, "slurm_partition_jobs_pending{partition=%q} %v\n", p, Waiting(p, minute))
	}
	for state, n := range States {
		fmt.Fprintf(&b, "# TYPE slurm_nodes_%s gauge\nslurm_nodes_%s %v\n", state, state, n)
	}
	return b.String()
}

// Host is how a node's host is used: the share of its processors, of its memory, and the
// bytes in a second over InfiniBand.
func (n *Node) Host() (processors, memory, infiniband float64) {
	if n.Name == "n2" {
		return 0.625, 0.75, 3 << 20
	}
	return 0.375, 0.5, 3 << 19
}

// HostText is what node_exporter says of a node's host at a minute.
func (n *Node) HostText(minute int) string {
	processors, memory, infiniband := n.Host()
	seconds := 60 * float64(minute)
	var b strings.Builder
	fmt.Fprintf(&b, "# TYPE node_uname_info gauge\nnode_uname_info{machine=\"x86_64\",nodename=%q} 1\n# TYPE node_cpu_seconds_total counter\n", n.Name)
	for cpu, more := range []float64{-0.25, 0.25} { // one is busier than the other
		fmt.Fprintf(&b, "node_cpu_seconds_total{cpu=\"%d\",mode=\"idle\"} %v\nnode_cpu_seconds_total{cpu=\"%d\",mode=\"user\"} %v\n",
			cpu, seconds*(1-processors-more), cpu, seconds*(processors+more))
	}
	const tebi = 1 << 40
	fmt.Fprintf(&b, "# TYPE node_memory_MemTotal_bytes gauge\nnode_memory_MemTotal_bytes %v\n# TYPE node_memory_MemAvailable_bytes gauge\nnode_memory_MemAvailable_bytes %v\n", float64(tebi), tebi*(1-memory))
	for name, part := range map[string]float64{"received": 2. / 3, "transmitted": 1. / 3} {
		name = "node_infiniband_port_data_" + name + "_bytes_total"
		fmt.Fprintf(&b, "# TYPE %s counter\n", name)
		for _, device := range []string{"mlx5_0", "mlx5_1"} {
			fmt.Fprintf(&b, "%s{device=%q,port=\"1\"} %v\n", name, device, seconds*infiniband*part/2)
		}
	}
	return b.String()
}
