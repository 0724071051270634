package lint_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/gres"
	"github.com/quoin-hpc/quoin/slurmconf/lint"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
	"github.com/quoin-hpc/quoin/topology"
)

// TestRealCounted compares what Gres= counts by ReadCounts with what Slurm shows of the node, and what Lint says
// of Gres= and gres.conf together with what Slurm does with the node.
func TestRealCounted(t *testing.T) {
	const (
		four  = "Name=gpu File=/dev/nvidia[0-3]\n"
		typed = "Name=gpu Type=a File=/dev/nvidia[0-3]\n"
		one   = "Name=gpu File=/dev/nvidia0\n"
		shard = one + "Name=shard Count=8 File=/dev/nvidia0\n"
	)
	shown := regexp.MustCompile(` Gres=(\S+)`)
	eachRelease(t, func(t *testing.T, release slurmconf.Release) {
		s := startSlurm(t, release)
		for _, c := range []struct{ types, words, lines string }{
			{"gpu", "Gres=gpu", four}, {"gpu", "Gres=gpu:", four}, {"gpu", "Gres=gpu:2", four}, {"gpu", "Gres=gpu::2", four}, {"gpu", "Gres=gpu:02", four}, {"gpu", "Gres=gpu:0", four},
			{"gpu", "Gres=gpu:a", typed}, {"gpu", "Gres=gpu:a:", typed}, {"gpu", "Gres=gpu:a:2", typed}, {"gpu", "Gres=gpu:a:1K", typed}, {"gpu", "Gres=gpu:+2", four}, {"gpu", "Gres=gpu:-1", four},
			{"gpu", "Gres=gpu:no_consume:2", four}, {"gpu", "Gres=gpu:a:no_consume:2", typed}, {"gpu", "Gres=gpu:2(S:0)", four}, {"gpu", "Gres=gpu:1(S:0),gpu:1(S:0)", four},
			{"gpu", "Gres=gpu:2,", four}, {"gpu", "Gres=,gpu:2", four}, {"gpu", "Gres=gpu:a:2,gpu:2", typed}, {"gpu", "Gres=gpu:4x", four}, {"gpu", "Gres=gpu:a:2x", typed}, {"gpu", "Gres=gpu:a:b:1", typed},
			// Names that are not in GresTypes.
			{"gpu", "Gres=GPU:2", four}, {"gpu", "Gres=GPU:a100:2", four}, {"gpu", "Gres=a100:2", four}, {"gpu", "Gres=gpu=2", four}, {"gpu", "Gres=gpus:2", four}, {"gpu", "Gres=gpu(S:0):2", four},
			{"gpu", "Gres=gpu:2,foo:3", four}, {"gpu,nic", `Gres="gpu:2, nic:1"`, four}, {"gpu", "Gres= CoreSpecCount=1", four}, {"gpu", "Gres=(null)", four}, {"gpu", "", four}, {"GPU", "Gres=gpu:2", four},
			// Shared GPUs, and others.
			{"gpu,shard", "Gres=gpu:1,shard:8", shard}, {"gpu,shard", "Gres=gpu:1,shard:16", shard}, {"gpu,shard", "Gres=gpu:1,shard:4", shard}, {"gpu,shard", "Gres=gpu:1", shard}, {"gpu,shard", "Gres=gpu:1,shard:8", one},
			{"gpu", "Gres=gpu:1,shard:8", shard}, {"gpu,shard", "Gres=gpu:1,shard:16", one + "Name=shard Count=8\n"}, {"gpu,mps", "Gres=gpu:1,mps:200", one + "Name=mps Count=100 File=/dev/nvidia0\n"}, {"gpu,mps", "Gres=gpu:1,mps:100", one + "Name=mps Count=200\n"},
			{"gpu,nic", "Gres=gpu:1,nic:4", one + "Name=nic Count=2\n"}, {"gpu,nic", "Gres=gpu:1,nic:4", one + "Name=nic Count=2 File=/dev/nvidia[1-2]\n"}, {"gpu,nic", "Gres=gpu:1,nic:4", one},
			// What slurmd ignores of a line.
			{"gpu", "Gres=gpu:1", "Name=gpu AutoDetect=nvml File=/dev/nvidia0\n"}, {"gpu", "Gres=gpu:1", "Name=gpu AutoDetect=off File=/dev/nvidia0\n"}, {"gpu", "Gres=gpu:4", "Name=gpu Type= File=/dev/nvidia[0-3]\n"},
			{"gpu", "Gres=gpu:2", "Name=gpu File=/dev/nvidia[0-1] Links=-1,x\n"}, {"gpu", "Gres=gpu:2", "NodeName=n001 File=/dev/nvidia[0-1]\n"},
		} {
			conf := "GresTypes=" + c.types + "\nNodeName=n[001-002] NodeAddr=127.0.0.1 Port=[20001-20002] CPUs=16 RealMemory=1000 State=UNKNOWN " + c.words + "\nPartitionName=main Nodes=ALL Default=YES State=UP\n"
			j, err := s.checker.Judge(t.Context(), map[string]string{"slurm.conf": conf, "gres.conf": c.lines}, gresNode)
			if err != nil {
				t.Fatalf("%s: %v", c.words, err)
			}
			log := strings.Join(j.Lines, "\n")
			read, err := slurmctld.ParseConf("slurm.conf", []byte(conf), nil)
			if err != nil {
				t.Fatalf("%s: %v", c.words, err)
			}
			o := read.Options(release)
			counts := o.Nodes[gresNode].Gres
			if m := shown.FindStringSubmatch(j.Node); m == nil {
				t.Errorf("%s: Slurm does not show the node: %s\n%s", c.words, j.Node, log)
			} else if diff := cmp.Diff(gres.ReadCounts(m[1]).GPUs, counts.GPUs, cmpopts.EquateEmpty()); diff != "" && counts.Err() == nil && o.GresTypes[0] == "gpu" && !strings.Contains(log, "have a type while others do not") {
				t.Errorf("%s: Slurm shows %s (-shown +read):\n%s", c.words, m[1], diff)
			}
			bad := j.Refused || strings.Contains(j.Node, "DRAIN") || strings.Contains(log, "fatal:")
			findings := lint.Lint([]lint.File{{Name: "gres.conf", Data: []byte(c.lines)}}, o)
			says := topology.Has(findings, topology.Fatal)
			if says != bad && !topology.Has(findings, topology.Unknown) && c.types != "GPU" { // Slurm starts, and the node has no GPUs
				t.Errorf("Slurm %s, %s: Lint says fatal=%t, Slurm %t\n%s\nfindings: %v\n%s\n%s", release, c.words, says, bad, c.lines, findings, j.Node, log)
			}
			if none := strings.Contains(j.Node, "Gres=(null)"); none && len(findings) == 0 {
				t.Errorf("%s: the node has no GPUs, and Lint says nothing", c.words)
			}
		}
	})
}
