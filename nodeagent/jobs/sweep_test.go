package jobs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/dcgm"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/test/rig/nodedir"
)

// TestSweepEnded releases a job whose external step is gone, and not before the
// grace.
func TestSweepEnded(t *testing.T) {
	r := newJobsRig(t)
	r.Step("17.extern")
	r.Step("17.0")
	r.Step("18.extern")
	r.prolog("17", 0, 1)
	r.prolog("18", 1, 2)
	r.after(time.Minute)
	r.wantSeries(`quoin_agent_job_records{state="alive"} 2`, `quoin_agent_job_records{state="unproven"} 0`)
	r.StepEnds("17.extern")
	r.after(5 * time.Minute)
	r.want("while a step of job 17 lives", "0:17 1:17,18 2:18")
	r.StepEnds("17.0")
	r.after(20 * time.Second)
	r.want("within the grace", "0:17 1:17,18 2:18")
	r.after(20 * time.Second)
	r.want("after the grace", "1:18 2:18")
	if r.hasRecord("17") || !r.hasRecord("18") {
		t.Error("want the record of job 18 only")
	}
	if s := r.summaries(); len(s) != 1 || s[0].Record.JobID != "17" || s[0].ExitCode != "" || s[0].Use == nil && len(s[0].Record.UUIDs) != 2 {
		t.Errorf("summaries %+v", s)
	}
	r.wantReleased(0, 2, 0, 0)
	r.after(time.Hour)
	r.want("for an hour", "1:18 2:18")
}

// TestSweepKeepsWhatItCannotSee leaves jobs alone of which nothing can be known.
func TestSweepKeepsWhatItCannotSee(t *testing.T) {
	r := newJobsRig(t)
	r.prolog("17", 0) // without a step, as an allocation that does nothing
	r.after(48 * time.Hour)
	r.want("a job that was never seen, a day after its end", "0:17")

	r.Step("18.extern")
	r.prolog("18", 1)
	r.after(time.Minute)
	r.must(os.Rename(r.Proc, r.Proc+".away"))
	r.after(time.Hour)
	r.want("no process is seen", "0:17 1:18")
	r.must(os.Mkdir(r.Proc, 0o755))
	r.Process(nodedir.Process{PID: 1, Name: "quoin", Start: 7})
	r.start()
	r.after(time.Hour)
	r.want("another agent, without the host's processes", "0:17 1:18")
	r.must(os.RemoveAll(r.Proc))
	r.must(os.Rename(r.Proc+".away", r.Proc))
	r.StepEnds("18.extern")
	r.after(40 * time.Second)
	r.want("they are back, without the step", "0:17")
}

// TestSweepRemembersOverRestart ends a job whose step an earlier agent saw.
func TestSweepRemembersOverRestart(t *testing.T) {
	r := newJobsRig(t)
	r.Step("17.batch")
	r.prolog("17", 0)
	r.StepEnds("17.batch")
	r.start()
	r.after(10 * time.Second)
	r.want("at once", "0:17")
	r.after(30 * time.Second)
	r.want("after the grace", "")
}

// TestSweepOverdue releases a job that should be over and that was never seen, if its slurmd starts an
// external step for each job. A job that began before PrologFlags=Contain was turned on has none.
func TestSweepOverdue(t *testing.T) {
	r := newJobsRig(t)
	r.slurmd()
	r.after(time.Minute)
	r.prolog("18", 1)
	r.after(time.Minute)
	r.slurmd() // slurmctld was told to read slurm.conf again
	r.after(time.Minute)
	r.prolog("17", 0)
	r.after(2 * time.Hour)
	r.want("no job was ever seen", "0:17 1:18")
	r.Step("19.batch")
	r.prolog("19", 2)
	r.after(time.Hour)
	r.want("a batch step is seen, which not each job has", "0:17 1:18 2:19")
	r.Step("19.extern")
	r.after(time.Minute)
	r.want("an external step is seen: job 17 is over, and 18 began under another slurmd", "1:18 2:19")
	r.wantReleased(0, 0, 1, 0)
}

// TestSweepBoot releases what is of an earlier boot, at the start.
func TestSweepBoot(t *testing.T) {
	r := newJobsRig(t)
	r.prolog("17", 0, 1)
	r.must(os.MkdirAll(filepath.Join(r.maps, ".quoin"), 0o755))
	r.must(os.WriteFile(filepath.Join(r.maps, ".quoin/boot"), []byte("boot-1\n"), 0o600))
	r.must(os.WriteFile(filepath.Join(r.maps, "3"), []byte("99\n"), 0o600)) // without a record
	r.start()
	r.want("the same boot", "0:17 1:17 3:99")
	r.boot = "boot-2"
	r.start()
	r.want("another boot", "")
	if r.hasRecord("17") || len(r.summaries()) != 1 {
		t.Error("its record stays, or it has no summary")
	}
	r.wantReleased(3, 0, 0, 0)
	r.prolog("18", 0)
	r.after(time.Hour)
	r.want("a job of this boot, before its hook has said which boot it is", "0:18")
}

// TestShareThatHangs releases a job and keeps its summary while the site's folder does not answer,
// and copies the summary when it does.
func TestShareThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which fails if a round waits for the folder
		r := newJobsRig(t)
		r.site = filepath.Join(t.TempDir(), "shared")
		r.start()
		began, answers, copies := 0, make(chan struct{}), r.j.copies.copy
		r.hangs, r.j.copies.copy = true, func(site string, pruned []string) error {
			began++
			<-answers
			return copies(site, pruned)
		}
		for _, id := range []string{"17", "18"} {
			r.Step(id + ".extern")
			r.prolog(id, 0)
			r.StepEnds(id + ".extern")
			r.after(10 * time.Minute)
			r.want("job "+id+" is gone", "")
		}
		synctest.Wait()
		if n := strings.Count(r.log.String(), "does not answer"); len(r.summaries()) != 2 || began != 1 || n != 1 {
			t.Errorf("%d summaries, %d tries to copy them, %d lines in the log; want 2, 1, 1", len(r.summaries()), began, n)
		}
		close(answers)
		synctest.Wait()
		if all, err := rundir.ReadSummaries(r.site); len(all) != 2 || err != nil {
			t.Errorf("%d copies, %v, want 2", len(all), err)
		}
	})
}

// TestPrunedWhileShareHangs bounds what is remembered of summaries that have gone meanwhile. Only the oldest have a copy.
func TestPrunedWhileShareHangs(t *testing.T) {
	var c copies
	for i := range rundir.MaxSummaries + 1 {
		c.prune([]string{fmt.Sprint(i), fmt.Sprint(i, " too")})
	}
	if n := len(c.pruned); n != rundir.MaxSummaries || c.pruned[0] != "0" || c.pruned[1] != "0 too" {
		t.Errorf("%d keys, the first are %q; want %d", n, c.pruned[:2], rundir.MaxSummaries)
	}
}

// TestSummaries makes the summary of an ending: with the use that the agent counted, when the
// last sample may have come, and as often as it takes.
func TestSummaries(t *testing.T) {
	r := newJobsRig(t)
	r.site = filepath.Join(t.TempDir(), "shared")
	r.start()
	end := func(key string, rec rundir.Record, exit string) {
		t.Helper()
		r.must(rundir.Dir(r.run).End(rundir.Summary{Key: key, Record: rec, Ended: r.now.wall.Unix(), ExitCode: exit}))
	}
	check := func(what string, want ...string) {
		t.Helper()
		for _, dir := range []string{rundir.Dir(r.run).SummaryDir(), r.site} {
			all, err := rundir.ReadSummaries(dir)
			var got []string
			for _, s := range all {
				use := "no use"
				if s.Use != nil && len(s.Use.Devices) > 0 {
					use = fmt.Sprint(s.Use.Devices[0].Seconds)
				}
				got = append(got, s.Record.JobID+" "+s.Record.StartTime+" "+s.ExitCode+" "+use)
			}
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("%s: %s: %v (-want +got):\n%s", what, dir, err, diff)
			}
		}
	}
	r.prolog("17", 0)
	r.sample(10*time.Second, busyGPU(0))
	end("17", r.record("17", 0), "1:0")
	r.after(10 * time.Second)
	check("its record is still there: the Epilog goes on")
	r.must(rundir.Dir(r.run).RemoveRecord("17"))
	again := r.record("17", 0)
	again.StartTime = "200"
	r.write("17", again) // the next run
	r.after(time.Second)
	check("its last sample may still come")
	r.sample(4*time.Second, busyGPU(0))
	r.after(10 * time.Second)
	check("one run ended, the next one has its key", "17 100 1:0 10")
	r.sample(6*time.Second, busyGPU(0))
	end("17", again, "0:0")
	r.must(rundir.Dir(r.run).RemoveRecord("17"))
	r.start() // another agent, which has the use by its file
	r.after(10 * time.Second)
	check("another agent", "17 100 1:0 10", "17 200 0:0 20")
	r.must(os.RemoveAll(r.site))
	r.must(os.WriteFile(r.site, nil, 0o600)) // no folder
	r.prolog("18", 1)
	r.sample(7*time.Second, busyGPU(1))
	end("18", r.record("18", 1), "0:0")
	r.must(rundir.Dir(r.run).RemoveRecord("18"))
	r.after(10 * time.Minute)
	if endings, err := rundir.Dir(r.run).Endings(); len(endings) != 0 || len(r.summaries()) != 3 || err != nil {
		t.Errorf("endings %v, %v, %d summaries; want none and 3: they wait for no folder of the site's", endings, err, len(r.summaries()))
	}
	r.start() // a summary that waits for its copy waits for the next agent too
	r.must(os.Remove(r.site))
	r.after(10 * time.Second)
	all, err := rundir.ReadSummaries(r.site)
	if err != nil || len(all) != 1 || all[0].Use == nil || len(all[0].Use.Devices) != 1 || all[0].Use.Devices[0].Seconds != 7 {
		t.Errorf("the site's summaries %+v, %v; want job 18 with its use of 7 seconds", all, err)
	}
	if isThere(filepath.Join(r.run, "use", "17.json")) {
		t.Error("the use of an ended job stays")
	}
}

// TestLostEpilogEndsWhen says when a job without an Epilog ended: now, where the agent has seen the end;
// at the last sample where the machine has booted since, else at its start.
func TestLostEpilogEndsWhen(t *testing.T) {
	for _, c := range []struct {
		what          string
		sample, boots bool
		want          time.Duration // after the job's start
	}{
		{"its step is gone", true, false, 60 * time.Second},
		{"another boot, with a sample", true, true, 10 * time.Second},
		{"another boot, no sample", false, true, 0},
	} {
		r := newJobsRig(t)
		r.Step("17.extern")
		started := r.now.wall
		r.prolog("17", 0)
		if c.sample {
			r.sample(10*time.Second, busyGPU(0))
		}
		r.after(20 * time.Second)
		if c.boots {
			r.boot = "boot-2"
			r.start()
		} else {
			r.StepEnds("17.extern")
			r.after(40 * time.Second)
		}
		s := r.summaries()
		if len(s) != 1 || s[0].Ended != started.Add(c.want).Unix() {
			t.Errorf("%s: summaries %+v, want one that ends %s after the start", c.what, s, c.want)
		}
	}
}

// TestSweepOrphan releases a line of no record after the grace, unless the job is
// seen or its record cannot be read.
func TestSweepOrphan(t *testing.T) {
	r := newJobsRig(t)
	r.Step("18.3")
	r.prolog("20", 2)
	r.must(os.WriteFile(filepath.Join(r.run, "jobs", "19.json"), []byte("{"), 0o600))
	r.must(os.WriteFile(filepath.Join(r.maps, "0"), []byte("17\n18\n19\n20\n"), 0o600))
	r.after(20 * time.Second)
	r.want("within the grace", "0:17,18,19,20 2:20")
	r.wantSeries(`quoin_agent_mapping_files{state="foreign"} 1`, `quoin_agent_mapping_files{state="held"} 1`, `quoin_agent_job_records{state="unreadable"} 1`)
	r.start()
	r.after(30 * time.Second)
	r.want("after it, another agent", "0:18,19 2:20")
}

// TestSweepReplacedRunDirectory releases the lines whose records went away with the
// run directory, and keeps those of jobs that are seen.
func TestSweepReplacedRunDirectory(t *testing.T) {
	for _, restart := range []bool{false, true} {
		r := newJobsRig(t)
		r.Step("18.extern")
		r.prolog("17", 0, 1)
		r.prolog("18", 1)
		r.after(time.Minute)
		r.must(os.Rename(r.run, r.run+".away"))
		r.must(os.Mkdir(r.run, 0o755))
		r.inventory(0, 1, 2, 3)
		if restart {
			r.start()
		}
		r.prolog("19", 2)
		r.want("at once", "0:17 1:17,18 2:19")
		r.after(time.Minute)
		r.want("after the grace", "1:18 2:19")
		r.StepEnds("18.extern")
		r.after(time.Minute)
		r.want("when the job that was seen has ended", "2:19")
		r.wantReleased(0, 0, 0, 3)
	}
}

// TestSweepMarks makes up for an Epilog that did not get the lock.
func TestSweepMarks(t *testing.T) {
	r := newJobsRig(t)
	r.prolog("17", 0)
	r.prolog("18", 1)
	mark := func(id, start string) {
		r.must(rundir.Dir(r.run).End(rundir.MarkOf(rundir.JobIdentity{JobID: id, Cluster: "c1", Node: "n1"}, rundir.Run{StartTime: start}, r.now.wall, "3:0")))
	}
	mark("17", "100")
	mark("18", "50") // of an earlier run
	r.after(10 * time.Second)
	r.want("released at the next look", "1:18")
	if marks, err := rundir.Dir(r.run).Marks(); len(marks) > 0 || err != nil {
		t.Errorf("marks %v, %v are left", marks, err)
	}
	r.after(10 * time.Second)
	if s := r.summaries(); len(s) != 1 || s[0].ExitCode != "3:0" || s[0].Record.JobID != "17" {
		t.Errorf("summaries %+v, want one of job 17 with the Epilog's word", s)
	}
}

// TestNoMapping follows jobs of a site whose exporter reads no mapping: a job that ends
// without its Epilog gets its summary, and no series tells of files.
func TestNoMapping(t *testing.T) {
	r := newJobsRig(t)
	r.maps = dcgm.NoMapping
	r.start()
	r.Step("17.extern")
	r.write("17", r.record("17", 0))
	r.after(10 * time.Second)
	got := scrape(t, handler(r.j, processSeries()))
	if !strings.Contains(jobLines(got), `job_id="17"`) || strings.Contains(got, "quoin_agent_mapping_files") || !strings.Contains(got, "quoin_agent_sweep_errors_total 0") {
		t.Errorf("series\n%s", got)
	}
	r.StepEnds("17.extern")
	r.after(40 * time.Second)
	if r.hasRecord("17") {
		t.Error("the record stays")
	}
	if summaries, err := rundir.ReadSummaries(rundir.Dir(r.run).SummaryDir()); len(summaries) != 1 || err != nil {
		t.Errorf("summaries %+v, %v", summaries, err)
	}
}
