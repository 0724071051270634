package lint_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/lint"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
	"github.com/quoin-hpc/quoin/test/rig/slurmrig"
)

// TestRealPartitions asks slurmctld for jobs in partitions of a mixed site: nodes of blocks, nodes of switches alone, and
// nodes of neither. Slurm refuses a job that needs nodes which the topology of its partition lacks, and lint names them.
func TestRealPartitions(t *testing.T) {
	t.Parallel()
	slurmrig.NeedTest(t)
	const yaml = "- topology: nvl\n  cluster_default: true\n  block:\n    block_sizes: [2]\n    blocks:\n      - {block: b1, nodes: 'n[1-2]'}\n      - {block: b2, nodes: 'n[3-4]'}\n" +
		"- topology: fabric\n  cluster_default: false\n  tree:\n    switches:\n      - {switch: l1, nodes: 'n[1-4]'}\n      - {switch: l2, nodes: 'h[1-4]'}\n      - {switch: s, children: 'l[1-2]'}\n"
	partitions := []struct {
		line    string
		size    int
		refused bool
	}{
		{"PartitionName=gpu Nodes=n[1-4]", 4, false},
		{"PartitionName=both Nodes=n[1-4],h[1-4] Topology=nvl", 6, true},
		{"PartitionName=apart Nodes=h[1-4]", 4, false},
		{"PartitionName=apartnamed Nodes=h[1-4] Topology=nvl", 4, false},
		{"PartitionName=named Nodes=h[1-4] Topology=fabric", 4, false},
		{"PartitionName=cpu Nodes=cpu[1-4]", 4, false},
		{"PartitionName=cputree Nodes=cpu[1-4] Topology=fabric", 2, true},
		{"PartitionName=cpuboth Nodes=n[1-4],cpu[1-4] Topology=nvl", 6, true},
	}
	conf, jobs := &strings.Builder{}, &strings.Builder{}
	conf.WriteString("ResumeProgram=/bin/true\nSuspendProgram=/bin/true\nSuspendTime=86400\n")
	for i, kind := range []string{"n", "h", "cpu"} {
		fmt.Fprintf(conf, "NodeName=%s[1-4] NodeAddr=127.0.0.1 Port=[%d-%d] CPUs=2 RealMemory=1000 State=CLOUD\n", kind, 20001+4*i, 20004+4*i)
	}
	for _, p := range partitions {
		fmt.Fprintln(conf, p.line)
		name, _, _ := strings.Cut(strings.TrimPrefix(p.line, "PartitionName="), " ")
		fmt.Fprintln(jobs, name, p.size)
	}
	cluster := slurmrig.StartTest(t, slurmrig.Slurm2605, slurmrig.Config{SlurmConf: conf.String(), Files: map[string]string{
		"topology.yaml": yaml, "jobs": jobs.String(),
		"ask.sh": "while read -r p n; do said=$(sbatch --test-only -p $p -N $n --wrap true 2>&1); echo \"$p ${said//$'\\n'/ }\"; done </etc/slurm/jobs\n",
	}})
	answers := strings.Split(strings.TrimSpace(cluster.RunTest(t, "bash", "/etc/slurm/ask.sh")), "\n")
	parsed, err := slurmctld.ParseConf("slurm.conf", []byte(conf.String()), nil)
	if err != nil {
		t.Fatal(err)
	}
	warned := ""
	for _, f := range lint.Lint([]lint.File{{Name: "topology.yaml", Data: []byte(yaml)}}, parsed.Options(slurmconf.Release2605)) {
		warned += f.String() + "\n"
	}
	for i, p := range partitions {
		name, said, _ := strings.Cut(answers[i], " ")
		if refused := !strings.Contains(said, "to start at"); refused != p.refused {
			t.Errorf("%s: refused is %t, want %t: %s", name, refused, p.refused, said)
		}
		if says := strings.Contains(warned, "partition "+name+" uses topology"); says != p.refused {
			t.Errorf("%s: lint says refused %t, slurmctld: %s\n%s", name, says, said, warned)
		}
	}
}
