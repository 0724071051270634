package hook

import (
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

// TestRunDirectoryFull has no room for the second run's record: its GPUs get no label, and those
// of the first run lose theirs.
func TestRunDirectoryFull(t *testing.T) {
	tmp := t.TempDir()
	buildHook(t, filepath.Join(tmp, "quoin-hook"))
	if out, err := exec.CommandContext(t.Context(), "unshare", "-rm", "true").CombinedOutput(); err != nil {
		t.Skipf("needs the right to mount: %v: %s", err, out)
	}
	script := `set -e; cd "$1"; conf=$2; mkdir run; mount -t tmpfs -o nr_inodes=50 none run
hook() { SLURM_JOB_ID=7 SLURM_JOB_GPUS=$2 SLURM_JOB_START_TIME=$3 SLURM_CONF="$conf" ./quoin-hook $1 --run-dir run --mapping-dir map; }
hook prolog 0,1 100
i=0; while touch run/full$i 2>/dev/null; do i=$((i + 1)); done
hook prolog 1,2 200; hook epilog 1,2 200`
	out, err := exec.CommandContext(t.Context(), "unshare", "-rm", "sh", "-c", script, "sh", tmp, configlessConf).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "no space left on device") {
		t.Errorf("%v: want calls that find the run directory full:\n%s", err, out)
	}
	if diff := cmp.Diff(map[string]string{"0": "\n", "1": "\n"}, mapped(t, filepath.Join(tmp, "map"))); diff != "" {
		t.Errorf("(-want +got):\n%s\n%s", diff, out)
	}
}

// TestEpilogWithoutLock has the next hook release what an Epilog could not.
func TestEpilogWithoutLock(t *testing.T) {
	run, dir := t.TempDir(), t.TempDir()
	hook := func(verb, job, gpus, start string) string {
		code, said := call(t, map[string]string{"SLURM_JOB_ID": job, "SLURM_JOB_GPUS": gpus, "SLURM_JOB_START_TIME": start}, verb, "--run-dir", run, "--mapping-dir", dir)
		if code != 0 {
			t.Errorf("exit %d", code)
		}
		return said
	}
	locked := func(what func() string) string {
		unlock, err := rundir.Dir(run).Lock(t.Context(), time.Second)
		if err != nil {
			t.Fatal(err)
		}
		defer unlock()
		return what()
	}
	check := func(step string, want map[string]string) {
		t.Helper()
		if diff := cmp.Diff(want, mapped(t, dir)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step, diff)
		}
	}
	hook("prolog", "7", "0,1", "100")
	if said := locked(func() string { return hook("epilog", "7", "0,1", "100") }); !strings.Contains(said, "its GPUs keep the job's label until another job starts or ends on this node") {
		t.Errorf("said %q", said)
	}
	check("without the lock", map[string]string{"0": "7\n", "1": "7\n"})
	hook("prolog", "8", "1", "150")
	check("next Prolog", map[string]string{"0": "\n", "1": "8\n"})
	if r, err := rundir.Dir(run).ReadRecord("7"); r != nil || err != nil {
		t.Errorf("the record is still there: %v, %v", r, err)
	}
	locked(func() string { return hook("epilog", "8", "1", "150") })
	hook("prolog", "8", "0", "200")
	check("Prolog of the job's next run", map[string]string{"0": "8\n", "1": "\n"})
	hook("epilog", "9", "", "300")
	check("the mark is used up", map[string]string{"0": "8\n", "1": "\n"})
	// Slurm's clock says that the run of the mark was before the one that holds.
	if err := rundir.Dir(run).End(rundir.MarkOf(rundir.JobIdentity{JobID: "8"}, rundir.Run{StartTime: "150"}, time.Now(), "")); err != nil {
		t.Fatal(err)
	}
	if said := hook("epilog", "9", "", "300"); !strings.Contains(said, "left alone") {
		t.Errorf("said %q", said)
	}
	check("mark of an earlier run", map[string]string{"0": "8\n", "1": "\n"})
	if marks, err := rundir.Dir(run).Marks(); len(marks) > 0 || err != nil {
		t.Errorf("marks left: %v, %v", marks, err)
	}
}

// TestEpilogOfAnUnlabelledRun has a run whose Prolog got no lock, after a run whose Epilog was
// lost: by SLUIDs the second run's Epilog does not release the first, and a mark does.
func TestEpilogOfAnUnlabelledRun(t *testing.T) {
	p := newPlace(t)
	first := []string{"SLURM_JOB_GPUS=0", "SLURM_JOB_START_TIME=200", "SLURM_JOB_SLUID=s1"}
	second := []string{"SLURM_JOB_GPUS=1", "SLURM_JOB_START_TIME=100", "SLURM_JOB_SLUID=s2"}
	p.hook("prolog", "7", first...)
	unlock, err := rundir.Dir(p.run).Lock(t.Context(), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if said := p.hook("prolog", "7", second...); !strings.Contains(said, "its GPUs get no label") {
		t.Errorf("said %q", said)
	}
	unlock()
	p.hook("epilog", "7", second...)
	p.check("the second run's Epilog", map[string]string{"0": "\n"})
	endings, err := rundir.Dir(p.run).Endings()
	if err != nil || len(endings) != 1 || endings[0].Record.SLUID != "s1" {
		t.Errorf("endings %+v, %v; want the first run's", endings, err)
	}
}

// TestRecordFirst watches a Prolog that has releases to make up for: its record is there
// before it touches the others' labels.
func TestRecordFirst(t *testing.T) {
	p := newPlace(t)
	for i := range 4 {
		job := strconv.Itoa(10 + i)
		p.hook("prolog", job, "SLURM_JOB_GPUS="+strconv.Itoa(i), "SLURM_JOB_START_TIME=100")
		if err := rundir.Dir(p.run).End(rundir.MarkOf(rundir.JobIdentity{JobID: job}, rundir.Run{StartTime: "100"}, time.Now(), "")); err != nil {
			t.Fatal(err)
		}
	}
	watcher, err := fsnotify.NewBufferedWatcher(1000)
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Close()
	for _, dir := range []string{filepath.Join(p.run, "jobs"), p.mapping} {
		if err := watcher.Add(dir); err != nil {
			t.Fatal(err)
		}
	}
	p.hook("prolog", "7", "SLURM_JOB_GPUS=5", "SLURM_JOB_START_TIME=200")
	p.check("all is made up for", map[string]string{"0": "\n", "1": "\n", "2": "\n", "3": "\n", "5": "7\n"})
	for event := range watcher.Events {
		if filepath.Base(event.Name) == "7.json" {
			return
		}
		if filepath.Dir(event.Name) == p.mapping || event.Has(fsnotify.Remove) && filepath.Ext(event.Name) == ".json" {
			t.Fatalf("%v comes before the record", event)
		}
	}
}

// TestKilledAnywhere kills hooks at random points; the next ones must find
// everything in order.
func TestKilledAnywhere(t *testing.T) {
	hook := filepath.Join(t.TempDir(), "quoin-hook")
	buildHook(t, hook)
	run, dir := t.TempDir(), t.TempDir()
	start := func(verb, job string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), hook, verb, "--run-dir", run, "--mapping-dir", dir)
		cmd.Env = []string{"SLURM_JOB_ID=" + job, "SLURM_JOB_GPUS=0-7", "SLURM_JOB_START_TIME=1", "SLURM_CONF=" + configlessConf}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	// One that is not killed makes the folders, and tells how long a hook takes now.
	began := time.Now()
	if err := start("prolog", "7").Wait(); err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	for i := range 200 {
		cmd := start([]string{"epilog", "prolog"}[i%2], "7")
		time.Sleep(took * time.Duration(i) / 180)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		for name, text := range mapped(t, dir) {
			if text != "\n" && text != "7\n" {
				t.Fatalf("after a kill file %s holds %q", name, text)
			}
		}
	}
	for _, verb := range []string{"prolog", "epilog"} {
		if err := start(verb, "7").Wait(); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range mapped(t, dir) {
		if text != "\n" {
			t.Errorf("after the last Epilog file %s holds %q", name, text)
		}
	}
}

// TestKilledOnFullDisk kills hooks at random points while the mapping's disk is full and two
// jobs share a GPU. The exporter never fails, and never sees a job that does not hold it.
func TestKilledOnFullDisk(t *testing.T) {
	p := newPlace(t)
	if err := errors.Join(os.MkdirAll(p.mapping, 0o755), unix.Mount("none", p.mapping, "tmpfs", 0, "nr_inodes=9")); err != nil {
		t.Skipf("mount a small file system: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(p.mapping, unix.MNT_DETACH) })
	run := func(verb, job string) *exec.Cmd {
		return p.program(verb, job, "SLURM_JOB_GPUS=0", "SLURM_JOB_START_TIME=1")
	}
	began := time.Now()
	for _, job := range []string{"1", "22"} {
		if out, err := run("prolog", job).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	took := time.Since(began) / 2
	for i := 0; os.WriteFile(filepath.Join(p.mapping, ".quoin", "fill"+strconv.Itoa(i)), nil, 0o600) == nil; i++ {
	}
	look := func(when string, allowed ...string) {
		t.Helper()
		labels, err := scrapeMapping(p.mapping)
		if err != nil || !slices.Contains(allowed, strings.Join(labels["0"], ",")) {
			t.Fatalf("%s: the exporter reads %q, %v; want one of %q", when, labels, err, allowed)
		}
	}
	for range 40 {
		for _, step := range []struct{ verb, before, after string }{{"epilog", "1,22", "22"}, {"prolog", "22", "1,22"}} {
			killed := run(step.verb, "1")
			if err := killed.Start(); err != nil {
				t.Fatal(err)
			}
			for limit := rand.N(took); limit > 0; limit -= time.Millisecond { //nolint:gosec // no secret
				look("while a hook runs", step.before, step.after)
				time.Sleep(min(limit, time.Millisecond))
			}
			_ = killed.Process.Kill()
			_ = killed.Wait()
			look("after a kill", step.before, step.after)
			if out, err := run(step.verb, "1").CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			look("after the next "+step.verb, step.after)
		}
	}
}
