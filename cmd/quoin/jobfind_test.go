package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/cmd/quoin/show"
	"github.com/quoin-hpc/quoin/nodeagent/jobs/report"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

func TestJobNotKnown(t *testing.T) {
	runDir, shared := jobSite(t)
	for _, id := range []string{"999", "10", "1000", "401_9", "_2"} {
		out, said, err := jobOutput(t, jobOptions{Source: jobsIn(runDir, shared)}, id)
		var code show.ExitCode
		if out != "" || !errors.As(err, &code) || code != 1 || !strings.Contains(said, "quoin: job "+id+" is not known here: no record in "+runDir) || !strings.Contains(said, shared) {
			t.Errorf("%s: %q, said %q, %v", id, out, said, err)
		}
	}
	if _, said, err := jobOutput(t, jobOptions{Source: report.Source{RunDir: rundir.Dir(runDir), Cluster: "other"}}, "100"); err == nil {
		t.Errorf("a job of another cluster was found; said %q", said)
	}
}

// TestJobSkipsBrokenFiles breaks one file of each kind: it is named and passed over,
// and all else is shown.
func TestJobSkipsBrokenFiles(t *testing.T) {
	runDir, _ := jobSite(t)
	whole, _, err := jobOutput(t, jobOptions{Source: jobsIn(runDir), all: true}, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"jobs/55.json", "use/101.json", "summaries/1-56-n1.json", "summaries/1-57-n1.json", "hook.json"} {
		path := filepath.Join(runDir, name)
		text := "{"
		if strings.Contains(name, "57") {
			text = `{"apiVersion":"quoin.dev/v1alpha1","kind":"JobSummary","key":"57","record":{"kind":"JobRecord","jobID":"58"}}`
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, said, err := jobOutput(t, jobOptions{Source: jobsIn(runDir), all: true}, "")
		if err != nil || out != whole {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, cmp.Diff(whole, out))
		}
		if strings.Count(said, "quoin: skipped: ") != 1 || !strings.Contains(said, path) {
			t.Errorf("%s: said %q", name, said)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

func TestJobMissingDirectories(t *testing.T) {
	runDir, shared := jobSite(t)
	missing := filepath.Join(t.TempDir(), "missing")
	for name, o := range map[string]jobOptions{
		"correct --summary-dir":                   {Source: jobsIn(runDir, shared, missing)},
		"does quoin agent run on this node":       {Source: jobsIn(missing)},
		"Set agent.runDir, or give --summary-dir": {Source: jobsIn(missing, shared)}, // it was given
		missing + ": no such file or directory":   {Source: jobsIn(missing), all: true},
	} {
		out, said, err := jobOutput(t, o, "200")
		var code show.ExitCode
		if out != "" || said != "" || err == nil || errors.As(err, &code) || !strings.Contains(err.Error(), name) {
			t.Errorf("%q, said %q, %v; want %q", out, said, err, name)
		}
	}
	if _, err := jobsIn(missing, shared).Read(); err != nil {
		t.Errorf("slurmctld's machine has no run directory: %v", err)
	}
}

// TestJobOfTwoClusters has two jobs of one id, and a use that is of an earlier run.
func TestJobOfTwoClusters(t *testing.T) {
	runDir := t.TempDir()
	a, b := jobOn("7", "n1"), jobOn("7", "n1")
	b.Cluster = "test"
	for key, r := range map[string]rundir.Record{"7": a, "7@test@n1": b} {
		if err := rundir.Dir(runDir).WriteRecord(key, r); err != nil {
			t.Fatal(err)
		}
		u := usedFor(r, time.Minute, h100("n1", len(key), 1, 1))
		if r.Cluster == "test" {
			u.StartTime = "5" // of a run before
		}
		if err := rundir.Dir(runDir).Uses().Write(key, u); err != nil {
			t.Fatal(err)
		}
	}
	both, _, err := jobOutput(t, jobOptions{Source: jobsIn(runDir)}, "7")
	if err != nil || strings.Count(both, "Job       7\n") != 2 || strings.Count(both, "\nn1 ") != 1 {
		t.Errorf("%v\n%s", err, both)
	}
	one, _, err := jobOutput(t, jobOptions{Source: report.Source{RunDir: rundir.Dir(runDir), Cluster: "hpc"}}, "7")
	if err != nil || strings.Count(one, "Job       7\n") != 1 || !strings.Contains(one, "cluster hpc") {
		t.Errorf("%v\n%s", err, one)
	}
}

// TestJobWithSummaryAndRecord is the moment between the summary and the end of the
// record: the job has ended, and is not there twice.
func TestJobWithSummaryAndRecord(t *testing.T) {
	runDir := t.TempDir()
	r := jobOn("7", "n1")
	u := usedFor(r, time.Minute, h100("n1", 0, 1, 1))
	writeRunning(t, runDir, r, u)
	writeEnded(t, rundir.Dir(runDir).SummaryDir(), r, u, time.Hour, "3:0")
	out, _, err := jobOutput(t, jobOptions{Source: jobsIn(runDir), all: true}, "7")
	if err != nil || strings.Count(out, "Job ") != 1 || strings.Count(out, "\nn1 ") != 1 || !strings.Contains(out, "ended") || !strings.Contains(out, "exit code 3:0") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, _, err = jobOutput(t, jobOptions{Source: jobsIn(runDir)}, ""); err != nil || out != "no job runs here\n" {
		t.Errorf("%q, %v", out, err)
	}
}

// TestJobRunByStart shows a run that is not the last.
func TestJobRunByStart(t *testing.T) {
	runDir, shared := jobSite(t)
	early := fmt.Sprint(jobStart.Add(-time.Hour).Unix())
	out, _, err := jobOutput(t, jobOptions{Source: report.Source{RunDir: rundir.Dir(runDir), SummaryDirs: []string{shared}, Start: early}}, "300")
	if err != nil || !strings.Contains(out, "since 2026-03-01 11:00:00") || strings.Count(out, "Job ") != 1 {
		t.Errorf("%v\n%s", err, out)
	}
	if _, _, err := jobOutput(t, jobOptions{Source: report.Source{RunDir: rundir.Dir(runDir), SummaryDirs: []string{shared}, Start: "5"}}, "300"); err == nil {
		t.Error("a run that there was not")
	}
}

// TestJobHookSummaryDir finds the directory that the hook is told.
func TestJobHookSummaryDir(t *testing.T) {
	runDir, shared := jobSite(t)
	if err := rundir.Dir(runDir).WriteHookConfig(rundir.HookConfig{MappingDir: "/m", SummaryDir: shared}); err != nil {
		t.Fatal(err)
	}
	out, said, err := jobOutput(t, jobOptions{Source: jobsIn(runDir)}, "200")
	if err != nil || said != "" || !strings.Contains(out, "n2, n10") {
		t.Errorf("%v, said %q\n%s", err, said, out)
	}
}

// TestJobKnownInPart has one of a job's two nodes here: what the other's GPUs do is
// not known.
func TestJobKnownInPart(t *testing.T) {
	runDir := t.TempDir()
	for job, nodes := range map[string]string{"7": "1", "8": "2"} {
		r := jobOn(job, "n1")
		r.NumNodes = nodes
		writeEnded(t, rundir.Dir(runDir).SummaryDir(), r, usedFor(r, time.Minute, h100("n1", 0, 0, 0)), time.Minute, "0:0")
	}
	const without = "may run without a GPU"
	if out, _, err := jobOutput(t, jobOptions{Source: jobsIn(runDir)}, "7"); err != nil || !strings.Contains(out, without) {
		t.Errorf("%v\n%s", err, out)
	}
	if out, _, err := jobOutput(t, jobOptions{Source: jobsIn(runDir)}, "8"); err != nil || strings.Contains(out, without) || !strings.Contains(out, "1 of 2 are known here") || !strings.Contains(out, "Ask for 1 less") {
		t.Errorf("%v\n%s", err, out)
	}
}
