package hook

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

// TestPrologWithoutLock leaves a record for the agent, but not in the place of an
// earlier run's.
func TestPrologWithoutLock(t *testing.T) {
	p := newPlace(t)
	p.hook("prolog", "8", "SLURM_JOB_GPUS=1", "SLURM_JOB_START_TIME=100")
	unlock, err := rundir.Dir(p.run).Lock(t.Context(), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	p.wait = 4 * time.Second
	if said := p.hook("prolog", "7", "SLURM_JOB_GPUS=0", "SLURM_JOB_START_TIME=100"); !strings.Contains(said, "get no label until the agent") {
		t.Errorf("said %q", said)
	}
	if said := p.hook("prolog", "8", "SLURM_JOB_GPUS=0", "SLURM_JOB_START_TIME=200"); !strings.Contains(said, "get no label\n") {
		t.Errorf("said %q", said)
	}
	unlock()
	p.check("no label without the lock", map[string]string{"1": "8\n"})
	records, _ := rundir.Dir(p.run).ReadRecords()
	if r := records["7"]; len(r.GPUs) != 1 || r.GPUs[0] != "0" || records["8"].StartTime != "100" {
		t.Errorf("records %+v", records)
	}
	p.hook("epilog", "7", "SLURM_JOB_START_TIME=100")
	p.hook("epilog", "8", "SLURM_JOB_START_TIME=200")
	p.check("both have ended", map[string]string{"1": "\n"})
}

// TestBootMarkLost sweeps again in the same boot: the labels of its jobs are there
// afterwards, and what no record names is not.
func TestBootMarkLost(t *testing.T) {
	p := newPlace(t)
	p.hook("prolog", "7", "SLURM_JOB_GPUS=0,1")
	if err := os.WriteFile(filepath.Join(p.mapping, "1"), []byte("6\n7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(p.mapping, ".quoin")); err != nil {
		t.Fatal(err)
	}
	p.hook("prolog", "8", "SLURM_JOB_GPUS=0")
	p.check("swept", map[string]string{"0": "7\n8\n", "1": "7\n"})
}

// TestLostEpilog has a run end unseen: its ending says no more than the hook knows.
func TestLostEpilog(t *testing.T) {
	for _, tt := range []struct {
		name, boot, verb string
		want             int64 // 0: when its record was written
	}{
		{"next Prolog", "", "prolog", 200},
		{"next run's Epilog, its Prolog lost too", "", "epilog", 200},
		{"a boot before the next Prolog", "another", "prolog", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlace(t)
			p.hook("prolog", "7", "SLURM_JOB_GPUS=0", "SLURM_JOB_START_TIME=100")
			r, err := rundir.Dir(p.run).ReadRecord("7")
			if err != nil {
				t.Fatal(err)
			}
			if tt.boot != "" {
				r.BootID = tt.boot
			}
			if err := rundir.Dir(p.run).WriteRecord("7", *r); err != nil {
				t.Fatal(err)
			}
			written := time.Unix(120, 0)
			if err := os.Chtimes(filepath.Join(p.run, "jobs/7.json"), time.Time{}, written); err != nil {
				t.Fatal(err)
			}
			p.hook(tt.verb, "7", "SLURM_JOB_GPUS=1", "SLURM_JOB_START_TIME=200", "SLURM_JOB_END_TIME=300", "SLURM_JOB_EXIT_CODE2=1:0")
			all, err := rundir.Dir(p.run).Endings()
			want := tt.want
			if want == 0 {
				want = written.Unix()
			}
			if err != nil || len(all) != 1 || all[0].Record.StartTime != "100" || all[0].Ended != want || all[0].ExitCode != "" {
				t.Errorf("%+v, %v; want an end at %d", all, err, want)
			}
		})
	}
}

// TestLateEpilog has the Epilog of a run come after the Prolog of the next, as each
// Slurm says which run it is.
func TestLateEpilog(t *testing.T) {
	run := func(sluid, start string) (words []string) {
		if sluid != "" {
			words = append(words, "SLURM_JOB_SLUID="+sluid)
		}
		if start != "" {
			words = append(words, "SLURM_JOB_START_TIME="+start)
		}
		return words
	}
	for name, runs := range map[string][2][]string{
		"by time":                      {run("", "100"), run("", "200")},
		"by SLUID and time":            {run("s1", "100"), run("s2", "200")},
		"SLUIDs that sort otherwise":   {run("s2", "100"), run("s1", "200")},
		"the clock went back":          {run("s1", "200"), run("s2", "100")},
		"within one second":            {run("s1", "100"), run("s2", "100")},
		"no time":                      {run("s1", ""), run("s2", "")},
		"Slurm upgraded in between":    {run("", "100"), run("s2", "200")},
		"Slurm downgraded in between":  {run("s1", "100"), run("", "200")},
		"times with different lengths": {run("", "999"), run("", "1000")},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			p.hook("prolog", "7", append(runs[0], "SLURM_JOB_GPUS=0,1")...)
			p.hook("prolog", "7", append(runs[1], "SLURM_JOB_GPUS=1,2")...)
			if said := p.hook("epilog", "7", append(runs[0], "SLURM_JOB_GPUS=0,1")...); !strings.Contains(said, "left alone") {
				t.Errorf("said %q", said)
			}
			p.check("the first run's Epilog", map[string]string{"0": "\n", "1": "7\n", "2": "7\n"})
			p.hook("epilog", "7", append(runs[1], "SLURM_JOB_GPUS=1,2")...)
			p.check("the second's", map[string]string{"0": "\n", "1": "\n", "2": "\n"})
			if all, err := rundir.Dir(p.run).Endings(); len(all) != 2 || err != nil {
				t.Errorf("%d endings, %v; want one of each run", len(all), err)
			}
		})
	}
}

// TestWithoutInventory says what stands in for the inventory only if something does.
func TestWithoutInventory(t *testing.T) {
	for _, tt := range []struct {
		name, conf, visible string
		gpus                map[string]string
		want, not           string
	}{
		{"numbers", configlessConf, "", map[string]string{"1": "7\n"}, ": numbers of device files are taken as the exporter's ids\n", "no label"},
		{"numbers beside UUIDs", configlessConf, "GPU-1", map[string]string{"1": "7\n"}, ": numbers of device files are taken as the exporter's ids\n", "no label"},
		{"no list of slurmd", "/nowhere/slurm.conf", "", map[string]string{}, "these GPUs get no label", "numbers"},
		{"UUIDs of MIG instances", configlessConf, "MIG-1", map[string]string{}, "MIG-1 cannot be resolved", "numbers"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlace(t)
			said := p.hook("prolog", "7", "SLURM_JOB_GPUS=1", "CUDA_VISIBLE_DEVICES="+tt.visible, "SLURM_CONF="+tt.conf)
			if !strings.HasPrefix(said, "quoin-hook: job 7: no inventory in "+p.run) || !strings.Contains(said, tt.want) || strings.Contains(said, tt.not) {
				t.Errorf("said %q", said)
			}
			p.check("without an inventory", tt.gpus)
		})
	}
}
