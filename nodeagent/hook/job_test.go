package hook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/quoin-hpc/quoin/dcgm"
	"github.com/quoin-hpc/quoin/dcgm/document"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

// place is a node's directories, and a hook with them.
type place struct {
	t            *testing.T
	run, mapping string
	conf         string        // an empty slurm.conf beside a gres.conf with all GPUs
	wait         time.Duration // of calls; 0: as of a site
}

func newPlace(t *testing.T) *place {
	t.Helper()
	return &place{t: t, run: filepath.Join(t.TempDir(), "run"), mapping: filepath.Join(t.TempDir(), "map"), conf: confOf(t, configless, allGPUs)}
}

// hook calls the hook with an environment of NAME=VALUE words, of which the first
// is the job's id, and returns what it said.
func (p *place) hook(verb, job string, words ...string) string {
	p.t.Helper()
	env := map[string]string{"SLURM_JOB_ID": job}
	for _, w := range words {
		name, value, _ := strings.Cut(w, "=")
		env[name] = value
	}
	code, said := call(p.t, env, verb, "--run-dir", p.run, "--mapping-dir", p.mapping, "--wait", p.wait.String())
	if code != 0 {
		p.t.Errorf("%s of job %s: exit %d", verb, job, code)
	}
	return said
}

func (p *place) check(step string, want map[string]string) {
	p.t.Helper()
	if diff := cmp.Diff(want, mapped(p.t, p.mapping)); diff != "" {
		p.t.Errorf("%s (-want +got):\n%s", step, diff)
	}
}

func (p *place) inventory(ids ...string) {
	p.t.Helper()
	inv := rundir.Inventory{Node: "n1"}
	for i, id := range ids {
		inv.Entries = append(inv.Entries, rundir.Entry{GRESIndex: i, Minor: i, UUID: fmt.Sprint("GPU-", i), ExporterID: id})
	}
	if err := rundir.Dir(p.run).WriteInventory(inv); err != nil {
		p.t.Fatal(err)
	}
}

// TestTwoClusters has jobs of one id of two clusters, and of two slurmds, on one
// node: each has a record and releases its own GPUs.
func TestTwoClusters(t *testing.T) {
	for name, who := range map[string][2][]string{
		"clusters": {{"SLURM_CLUSTER_NAME=a", "SLURMD_NODENAME=n1"}, {"SLURM_CLUSTER_NAME=b", "SLURMD_NODENAME=n1"}},
		"slurmds":  {{"SLURM_CLUSTER_NAME=a", "SLURMD_NODENAME=n1"}, {"SLURM_CLUSTER_NAME=a", "SLURMD_NODENAME=n2"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			first, second := who[0], who[1]
			p.hook("prolog", "7", append(first, "SLURM_JOB_GPUS=0,1", "SLURM_JOB_START_TIME=100")...)
			p.hook("prolog", "7", append(second, "SLURM_JOB_GPUS=2,3", "SLURM_JOB_START_TIME=90")...)
			p.check("both", map[string]string{"0": "7\n", "1": "7\n", "2": "7\n", "3": "7\n"})
			if records, failed := rundir.Dir(p.run).ReadRecords(); len(records) != 2 || len(failed) != 0 {
				t.Errorf("records %v, %v", records, failed)
			}
			p.hook("epilog", "7", append(first, "SLURM_JOB_START_TIME=100")...)
			p.check("the first has ended", map[string]string{"0": "\n", "1": "\n", "2": "7\n", "3": "7\n"})
			p.hook("prolog", "7", append(first, "SLURM_JOB_GPUS=1", "SLURM_JOB_START_TIME=110")...)
			p.hook("prolog", "7", append(first, "SLURM_JOB_GPUS=0", "SLURM_JOB_START_TIME=120")...)
			p.check("the first runs elsewhere", map[string]string{"0": "7\n", "1": "\n", "2": "7\n", "3": "7\n"})
			p.hook("epilog", "7", append(second, "SLURM_JOB_START_TIME=90")...)
			p.check("the second has ended", map[string]string{"0": "7\n", "1": "\n", "2": "\n", "3": "\n"})
			p.hook("epilog", "7", append(first, "SLURM_JOB_START_TIME=120")...)
			p.check("all have ended", map[string]string{"0": "\n", "1": "\n", "2": "\n", "3": "\n"})
			if records, _ := rundir.Dir(p.run).ReadRecords(); len(records) != 0 {
				t.Errorf("records are left: %v", records)
			}
		})
	}
}

// TestRecordSaysAll compares the record with the environment.
func TestRecordSaysAll(t *testing.T) {
	p := newPlace(t)
	p.inventory("3", "2")
	conf := filepath.Join(t.TempDir(), "slurm.conf")
	if err := os.WriteFile(conf, []byte("ClusterName=c\nprologflags = Alloc,contain\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"SLURM_JOB_GPUS=0-1", "CUDA_VISIBLE_DEVICES=GPU-1, GPU-0", "SLURM_JOB_USER=u", "SLURM_JOB_UID=1000", "SLURM_JOB_PARTITION=p", "SLURM_JOB_ACCOUNT=a", "SLURM_JOB_QOS=q",
		"SLURM_CLUSTER_NAME=c", "SLURMD_NODENAME=n1", "SLURM_JOB_NODELIST=n[1-2]", "SLURM_JOB_NUM_NODES=2", "SLURM_JOB_START_TIME=100", "SLURM_JOB_END_TIME=200",
		"SLURM_JOB_SLUID=s1", "SLURM_CONF=" + conf}
	if said := p.hook("prolog", "7", env...); said != "" {
		t.Errorf("said %q", said)
	}
	want := rundir.Record{Head: document.HeadOf("JobRecord"), JobID: "7", Run: rundir.Run{SLUID: "s1", StartTime: "100"}, BootID: testBoot, User: "u", UID: "1000",
		Partition: "p", Account: "a", QOS: "q", Cluster: "c", Node: "n1", NodeList: "n[1-2]", NumNodes: "2", EndTime: "200",
		GPUs: []string{"2", "3"}, UUIDs: []string{"GPU-1", "GPU-0"}, Indices: "0-1", Visible: "GPU-1,GPU-0"}
	got, err := rundir.Dir(p.run).ReadRecord("7")
	if diff := cmp.Diff(&want, got, cmpopts.IgnoreFields(rundir.Record{}, "Written")); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	p.hook("prolog", "9", "CUDA_VISIBLE_DEVICES=GPU-1") // all that a Slurm may say of the GPUs
	if r, err := rundir.Dir(p.run).ReadRecord("9"); err != nil || r == nil || strings.Join(r.GPUs, " ") != "2" {
		t.Errorf("by a UUID alone: %+v, %v", r, err)
	}
	for step, words := range map[string][]string{"no inventory": {"SLURM_JOB_GPUS=1"}, "stale inventory": {"CUDA_VISIBLE_DEVICES=GPU-9", "SLURM_JOB_GPUS=1"}} {
		if step == "no inventory" {
			if err := os.Remove(filepath.Join(p.run, rundir.InventoryFile)); err != nil {
				t.Fatal(err)
			}
		} else {
			p.inventory("3", "2")
		}
		p.hook("prolog", "8", words...)
		if r, err := rundir.Dir(p.run).ReadRecord("8"); err != nil || r == nil || !r.Unresolved || r.Indices != "1" {
			t.Errorf("%s: %+v, %v", step, r, err)
		}
	}
}

// TestAfterBoot has a job's labels be right before the agent is there again: the
// run directory is empty, and GRES indices are not the exporter's ids.
func TestAfterBoot(t *testing.T) {
	p := newPlace(t)
	p.inventory("3", "2")
	inv, err := rundir.Dir(p.run).ReadInventory()
	if err := errors.Join(err, os.MkdirAll(p.mapping, 0o755)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(rundir.KeepInventory(dcgm.Mapping{Dir: p.mapping}.Folder(), *inv), os.RemoveAll(p.run)); err != nil {
		t.Fatal(err)
	}
	said := p.hook("prolog", "7", "SLURM_JOB_GPUS=1")
	if want := "no inventory in " + p.run + ": the last known inventory is used"; !strings.Contains(said, want) {
		t.Errorf("said %q, want %q", said, want)
	}
	p.check("after the boot", map[string]string{"2": "7\n"})
	if r, err := rundir.Dir(p.run).ReadRecord("7"); err != nil || r == nil || !r.Unresolved || r.Indices != "1" {
		t.Errorf("the agent is to have the last word: %+v, %v", r, err)
	}
}

// TestEndings has an Epilog leave what is known of the job's end, and a requeue what was
// known of its first run. The agent's part is TestSummaries in nodeagent/jobs.
func TestEndings(t *testing.T) {
	p := newPlace(t)
	p.inventory("0", "1")
	now := time.Now().Unix()
	p.hook("prolog", "7", "SLURM_JOB_GPUS=0", "SLURM_JOB_START_TIME=100", "SLURMD_NODENAME=n1")
	p.hook("prolog", "7", "SLURM_JOB_GPUS=1", "SLURM_JOB_START_TIME=200", "SLURMD_NODENAME=n1")
	p.hook("prolog", "7", "SLURM_JOB_GPUS=1", "SLURM_JOB_START_TIME=200", "SLURMD_NODENAME=n1") // twice, for whatever reason
	p.hook("epilog", "7", "SLURM_JOB_START_TIME=200", "SLURMD_NODENAME=n1", "SLURM_JOB_EXIT_CODE2=1:0")
	p.hook("prolog", "7", "SLURM_JOB_GPUS=1", "SLURM_JOB_START_TIME=300", "SLURMD_NODENAME=n1")
	p.hook("epilog", "7", "SLURM_JOB_START_TIME=300", "SLURMD_NODENAME=n1", "SLURM_JOB_EXIT_CODE2=0:15")
	type short struct{ Start, GPUs, Exit string }
	all, err := rundir.Dir(p.run).Endings()
	var got []short
	for _, s := range all {
		got = append(got, short{Start: s.Record.StartTime, GPUs: strings.Join(s.Record.GPUs, ","), Exit: s.ExitCode})
		if next := s.Record.StartTime == "100" && s.Ended == 200; s.Key != "7" || s.Use != nil || !next && (s.Ended < now || s.Ended > now+60) {
			t.Errorf("key %q, use %v, ended %d", s.Key, s.Use, s.Ended)
		}
	}
	want := []short{{"100", "0", ""}, {"200", "1", "1:0"}, {"300", "1", "0:15"}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for end, want := range map[string]int64{"350": 350, "299": now, "9999999999": now, "x": now} {
		p.hook("prolog", "9", "SLURM_JOB_GPUS=1", "SLURM_JOB_START_TIME=300")
		p.hook("epilog", "9", "SLURM_JOB_START_TIME=300", "SLURM_JOB_END_TIME="+end)
		all, _ := rundir.Dir(p.run).Endings()
		for _, s := range all {
			if s.Key != "9" {
				continue
			}
			if s.Ended < want || s.Ended > want+60 {
				t.Errorf("end %s: ended %d, want %d", end, s.Ended, want)
			}
			if err := rundir.Dir(p.run).RemoveEnding(s); err != nil {
				t.Error(err)
			}
		}
	}
	p.hook("epilog", "8", "SLURM_JOB_START_TIME=300")
	if all, _ := rundir.Dir(p.run).Endings(); len(all) != 3 {
		t.Errorf("%d endings, want none of a job without GPUs, and that job 9's went", len(all))
	}
}

// TestEndingsAreBounded keeps the newest endings where no agent takes them.
func TestEndingsAreBounded(t *testing.T) {
	p := newPlace(t)
	dir := rundir.Dir(p.run)
	for i := range rundir.MaxSummaries + 8 {
		id := fmt.Sprint(100 + i)
		if err := dir.End(rundir.Summary{Key: id, Record: rundir.Record{JobID: id}, Ended: int64(i)}); err != nil {
			t.Fatal(err)
		}
	}
	p.hook("prolog", "7", "SLURM_JOB_GPUS=0", "SLURM_JOB_START_TIME=100")
	p.hook("epilog", "7", "SLURM_JOB_START_TIME=100")
	all, err := dir.Endings()
	if err != nil || len(all) > rundir.MaxSummaries || all[len(all)-1].Record.JobID != "7" {
		t.Errorf("%d endings, %v; want %d at most, and the last one", len(all), err, rundir.MaxSummaries)
	}
}

// TestCallsAreLogged has a line for each call, with what went wrong.
func TestCallsAreLogged(t *testing.T) {
	p := newPlace(t)
	p.hook("prolog", "7") // no GPUs: it makes no run directory
	if _, err := os.Stat(p.run); err == nil {
		t.Error("a job without GPUs has made a run directory")
	}
	p.hook("prolog", "7", "SLURM_JOB_GPUS=0")
	p.inventory("0")
	p.hook("prolog", "8", "SLURM_JOB_GPUS=0")
	p.hook("prolog", "8", "SLURM_JOB_GPUS=9")
	p.hook("epilog", "8\n9")
	p.hook("epilog", "8")
	if err := os.WriteFile(filepath.Join(p.run, "jobs/7.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.hook("epilog", "7")
	p.check("a broken record", map[string]string{"0": "\n"})
	text, err := os.ReadFile(filepath.Join(p.run, "calls.log"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range bytes.Lines(text) {
		var c rundir.Call
		if err := json.Unmarshal(line, &c); err != nil || c.Ns <= 0 || c.LockNs >= c.Ns || time.Since(time.Unix(0, c.Start)) > time.Hour {
			t.Errorf("%s: %v", line, err)
		}
		got = append(got, strings.TrimSpace(c.Hook+" "+c.Job+" "+c.Error))
	}
	want := []string{"prolog 7 inventory", "prolog 8", "prolog 8 environment", "epilog  environment", "epilog 8", "epilog 7 record"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
