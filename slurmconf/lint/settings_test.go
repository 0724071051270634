package lint_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/lint"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
)

// TestLintSettings judges settings for a Prolog that waits for IMEX. What Slurm reads from
// them is compared with Slurm itself.
func TestLintSettings(t *testing.T) {
	waits, host := lint.Hook{PrologSeconds: 45}, lint.Hook{HostChannels: true}
	const lost = " but a Prolog that waits for IMEX may take 45 s, and without PrologFlags=Alloc it runs as the job starts: slurmctld may treat the job as lost (PrologTooShort); set PrologFlags=Alloc, or BatchStartTimeout to 45 or more"
	const ends = " but a Prolog that waits for IMEX may take 45 s: slurmd ends it, drains the node and holds the job (PrologTooShort); set it to 45 or more, or leave it out"
	for name, tt := range map[string]struct {
		text string
		hook lint.Hook
		want []string
	}{
		"long enough":       {"Prolog=/p\nPrologFlags=Alloc\nPrologEpilogTimeout=45", waits, nil},
		"no limit":          {"Prolog=/p\nPrologFlags=Alloc\nPrologEpilogTimeout=0", waits, nil},
		"none said":         {"Prolog=/p\nPrologFlags=Serial,contain", waits, nil},
		"too short":         {"prolog=/p\nPrologFlags=Alloc\nPROLOGEPILOGTIMEOUT=20 # s\n", waits, []string{"slurm.conf:3: warning: PrologEpilogTimeout is 20," + ends}},
		"one second":        {"Prolog=/p\nPrologFlags=Alloc\nPrologEpilogTimeout=44", waits, []string{"slurm.conf:3: warning: PrologEpilogTimeout is 44," + ends}},
		"of its own, short": {"Prolog=/p\nPrologFlags=Alloc\nPrologTimeout=30\nPrologEpilogTimeout=60", waits, []string{"slurm.conf:3: warning: PrologTimeout is 30," + ends}},
		"of its own, long":  {"Prolog=/p\nPrologFlags=Alloc\nPrologTimeout=60\nPrologEpilogTimeout=30", waits, nil},
		"the last counts":   {"Prolog=/p\nPrologFlags=Alloc\nPrologEpilogTimeout=20\nInclude more.conf", waits, []string{"more.conf:2: warning: PrologEpilogTimeout is 30," + ends}},
		"no number":         {"Prolog=/p\nPrologFlags=Alloc\nPrologEpilogTimeout=20s", waits, nil},
		"no Prolog":         {"Epilog=/p\nPrologEpilogTimeout=20", waits, nil},
		"no gate":           {"Prolog=/p\nPrologEpilogTimeout=20", lint.Hook{}, nil},
		"batch by default":  {"\nProlog=/p\n", waits, []string{"slurm.conf:1: warning: BatchStartTimeout is 10 by default," + lost}},
		"batch":             {"Prolog=/p\nBatchStartTimeout=44\nPrologFlags=Serial", waits, []string{"slurm.conf:2: warning: BatchStartTimeout is 44," + lost}},
		"long batch":        {"Prolog=/p\nBatchStartTimeout=45", waits, nil},
		"channels":          {"SwitchType=switch/nvidia_imex\nSwitchParameters=imex_dev_major=235,imex_channel_count=2048", host, []string{"slurm.conf:1: warning: switch/nvidia_imex gives jobs channel devices of their own, but imex.hostChannels says that they use those of the machine (ImexChannels); leave imex.hostChannels out, or SwitchType"}},
		"more channels":     {"SwitchType=switch/nvidia_imex\nSwitchParameters=imex_channel_count=4096", lint.Hook{}, []string{"slurm.conf:2: warning: imex_channel_count is 4096, but NVIDIA's driver makes 2048 channels: a job that gets a later one has none (ImexChannels); set it to 2048, or NVreg_ImexChannelCount=4096 for the driver of each node"}},
		"another switch":    {"SwitchType=switch/hpe_slingshot\nSwitchParameters=imex_channel_count=4096", host, nil},
	} {
		t.Run(name, func(t *testing.T) {
			conf, err := slurmctld.ParseConf("slurm.conf", []byte(tt.text), func(file string) (string, []byte, error) {
				return file, []byte("NodeName=n1\nPrologEpilogTimeout=30\n"), nil
			})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range lint.LintSettings("slurm.conf", conf.Settings, tt.hook) {
				got = append(got, f.String())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
