package lint_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/lint"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
)

// TestWords judges the words of a slurm.conf. Slurm itself judges keys in TestRealWords, and values in TestRealLint.
func TestWords(t *testing.T) {
	const key = ", and does not start (UnknownKey); correct the key, or take it out"
	for name, tt := range map[string]struct {
		text    string
		release slurmconf.Release
		want    []string
	}{
		"known words":       {"nodename=n1 CPUS=4 gresConf=x Parameters=y\nPartitionName=p nodes=n1 LLN=YES\nGresTypes=gpu\nSwitchType=none\n", slurmconf.Release2605, nil},
		"other settings":    {"ClusterName=c\nFooBar=1\n", slurmconf.Release2605, nil},
		"a key of a node":   {"NodeName=n1\nNodeName=n2 Blocks=b\nNodeName=n3 blocks=b\n", slurmconf.Release2605, []string{"slurm.conf:2: fatal: Slurm 26.05 does not know the key Blocks on this line" + key}},
		"a node's default":  {"NodeName=DEFAULT Segment=2\n", slurmconf.Release2605, []string{"slurm.conf:1: fatal: Slurm 26.05 does not know the key Segment on this line" + key}},
		"an older release":  {"NodeName=n1 GresConf=x\n", slurmconf.Release2411, []string{"slurm.conf:1: fatal: Slurm 24.11 does not know the key GresConf on this line" + key}},
		"of a partition":    {"NodeName=n1\nPartitionName=p Nodes=n1 SegmentSize=18 Features=x\n", slurmconf.Release2605, []string{"slurm.conf:2: fatal: Slurm 26.05 does not know the key Features on this line" + key, "slurm.conf:2: fatal: Slurm 26.05 does not know the key SegmentSize on this line" + key}},
		"of another page":   {"TopologyBlockSched=yes\nSwitchNames=s0 Nodes=n1\nGresType=gpu\n", slurmconf.Release2605, []string{"slurm.conf:1: fatal: Slurm 26.05 does not know the key TopologyBlockSched in slurm.conf" + key, "slurm.conf:2: fatal: Slurm 26.05 does not know the key SwitchNames in slurm.conf" + key, "slurm.conf:3: fatal: Slurm 26.05 does not know the key GresType in slurm.conf" + key}},
		"a removed plugin":  {"SelectType=select/cons_res\n", slurmconf.Release2605, []string{`slurm.conf:1: fatal: Slurm 26.05 has no SelectType "select/cons_res", in upper and lower case as written, and does not start (BadValue); write one of select/cons_tres, select/linear`}},
		"a switch":          {"SwitchType=switch/nvidia_imexx\n", slurmconf.Release2605, []string{`slurm.conf:1: fatal: Slurm 26.05 has no SwitchType "switch/nvidia_imexx", in upper and lower case as written, and does not start (BadValue); write one of switch/nvidia_imex, switch/hpe_slingshot, switch/none, none`}},
		"linear and a tree": {"SelectType=select/linear\nTopologyPlugin=topology/tree\n", slurmconf.Release2605, []string{"slurm.conf:1: fatal: select/linear does not go with topology/tree: slurmctld does not start (BadValue); write SelectType=select/cons_tres"}},
		"flags":             {"PrologFlags=alloc,,Serial\n", slurmconf.Release2605, nil},
		"an unknown flag":   {"PrologFlags=Alloc,Foo\n", slurmconf.Release2605, []string{`slurm.conf:1: fatal: PrologFlags has no word "foo", and slurmctld does not start (BadValue); want words of serial, alloc, contain, nohold, forcerequeueonfail, runinjob, x11, deferbatch`}},
		"NoHold beside X11": {"PrologFlags=NoHold,X11\n", slurmconf.Release2605, []string{"slurm.conf:1: fatal: NoHold of PrologFlags does not go with Contain, RunInJob and X11: slurmctld does not start (BadValue); leave NoHold out"}},
		"parameters":        {"TopologyParam=RouteTree,TopoMaxSizeUnroll=4,BlockAsNodeRank\n", slurmconf.Release2605, nil},
		"parameters, older": {"TopologyParam=BlockAsNodeRank,Foo=1\n", slurmconf.Release2505, []string{`slurm.conf:1: warning: TopologyParam of Slurm 25.05 has no word "blockasnoderank": Slurm ignores it (BadValue); correct the word, or take it out`, `slurm.conf:1: warning: TopologyParam of Slurm 25.05 has no word "foo=1": Slurm ignores it (BadValue); correct the word, or take it out`}},
	} {
		t.Run(name, func(t *testing.T) {
			conf, err := slurmctld.ParseConf("slurm.conf", []byte(tt.text), nil)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range lint.Lint(nil, conf.Options(tt.release)) {
				got = append(got, f.String())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
