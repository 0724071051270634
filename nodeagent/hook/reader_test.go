package hook

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/quoin-hpc/quoin/dcgm/atomicfile"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/test/rig/oracle"
)

// exporterFile is what DCGM Exporter 4.5.3 takes for a mapping file.
var exporterFile = regexp.MustCompile(`^\d+(\.\d+)?$`)

// scrapeMapping reads the directory as DCGM Exporter 4.1 to 4.8 does at a scrape. It
// fails if any of these releases fails the scrape or loses series, or if Prometheus
// refuses what they print.
func scrapeMapping(dir string) (map[string][]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	labels := make(map[string][]string)
	for _, e := range entries {
		if e.IsDir() || !exporterFile.MatchString(e.Name()) {
			continue
		}
		if e.Type()&fs.ModeNamedPipe != 0 {
			return nil, fmt.Errorf("%s is a named pipe: the scrape hangs", e.Name())
		}
		lines, err := mappingLines(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.Name(), err)
		}
		labels[e.Name()] = lines
	}
	return labels, nil
}

func mappingLines(path string) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var lines []string
	scanner := bufio.NewScanner(f) // an error for a line of 64 KiB, for a directory
	read := 0
	for scanner.Scan() {
		line := scanner.Text()
		read++
		switch {
		case line == "" && read == 1:
			continue // a sample with hpc_job="", which is one without the label
		case line == "" || read > len(lines)+1:
			return nil, fmt.Errorf("a blank line among others: a sample with no job")
		case slices.Contains(lines, line):
			return nil, fmt.Errorf("%q twice: a series twice", line)
		case !utf8.ValidString(line) || strings.ContainsAny(line, "\"\\"):
			return nil, fmt.Errorf("%q: Prometheus refuses the scrape", line)
		}
		lines = append(lines, line)
	}
	if read == 0 && scanner.Err() == nil {
		return nil, errors.New("empty: exporters before 4.3.1 drop the GPU's series")
	}
	return lines, scanner.Err()
}

// TestScrapeMapping has the reader meet all that fails an exporter's scrape.
func TestScrapeMapping(t *testing.T) {
	for _, tt := range []struct{ name, text, err string }{
		{"0", "7\n8\n", ""}, {"0.1", "7\n", ""}, {"x", "\n", ""}, {"0.x", "\n", ""}, {"0", "\n", ""},
		{"0", "", "empty"}, {"0", "7\n\n8\n", "blank"}, {"0", "\n8\n", "blank"}, {"0", "\n\n", "blank"}, {"0", "7\n7\n", "twice"}, {"0", "a\"b\n", "refuses"}, {"0", `a\b`, "refuses"}, {"0", "\xff\n", "refuses"},
		{"0", strings.Repeat("x", 1<<16), "too long"},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, tt.name), []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := scrapeMapping(dir); (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s with %.20q: error %v, want %q", tt.name, tt.text, err, tt.err)
		}
	}
	dir := t.TempDir()
	if err := os.Symlink("nowhere", filepath.Join(dir, "0")); err != nil {
		t.Fatal(err)
	}
	if _, err := scrapeMapping(dir); err == nil {
		t.Error("a link to nowhere was read")
	}
}

// heldJob is a job of the test: its label may be there within the outer times, and
// must within the inner ones.
type heldJob struct {
	files                              []string
	mayFrom, mustFrom, mustTo, mayTill time.Time
}

// node is one mapping directory, and what is true of it.
type node struct {
	t             *testing.T
	hook, run     string
	mapping, conf string
	mu            sync.Mutex
	jobs          map[string]*heldJob
	next          int
	calls, killed atomic.Int64
	processes     atomic.Int64
	// calling is held by each call. Whoever replaces the run directory has it alone.
	calling sync.RWMutex
}

// names are the exporter's names of the places in slurmd's list, which is the machine's backwards: six GPUs, and two with
// two MIG instances each.
var names = []string{"5", "4", "3", "2", "1", "0", "6.1", "6.2", "7.1", "7.5"}

// newNode returns a node whose run directory is in memory. Its mapping is in a folder.
func newNode(t *testing.T, folder string) *node {
	n := &node{t: t, hook: filepath.Join(t.TempDir(), "quoin-hook"), run: filepath.Join(memoryDir(t), "run"), mapping: filepath.Join(folder, "map"), jobs: map[string]*heldJob{}}
	buildHook(t, n.hook)
	n.conf = confOf(t, configless, "Name=gpu File=/dev/nvidia[9,8,7,6,5,4,3,2,1,0]\n")
	n.prepare()
	return n
}

// prepare writes the run directory's files as the agent does.
func (n *node) prepare() {
	inv := rundir.Inventory{Node: "n1"}
	for i := range names {
		inv.Entries = append(inv.Entries, rundir.Entry{GRESIndex: i, Minor: i, UUID: fmt.Sprint("GPU-", i), ExporterID: names[len(names)-1-i]})
	}
	if err := rundir.Dir(n.run).WriteInventory(inv); err != nil {
		n.t.Error(err)
	}
	if err := rundir.Dir(n.run).WriteHookConfig(rundir.HookConfig{MappingDir: n.mapping}); err != nil {
		n.t.Error(err)
	}
}

// call runs the hook, in this process or as a program, and kills that after a time
// if it is to be killed.
func (n *node) call(verb, job string, indices []string, program bool, kill time.Duration) {
	env := map[string]string{"SLURM_JOB_ID": job, "SLURM_JOB_GPUS": strings.Join(indices, ","), "SLURM_JOB_START_TIME": "100", "SLURM_CONF": n.conf}
	n.calls.Add(1)
	n.calling.RLock()
	defer n.calling.RUnlock()
	var said bytes.Buffer
	if !program {
		if code := run(n.t.Context(), []string{verb, "--run-dir", n.run, "--wait", "30s"}, func(k string) string { return env[k] }, &said); code != 0 || said.Len() > 0 {
			n.t.Errorf("%s: exit %d, said %s", verb, code, said.String())
		}
		return
	}
	n.processes.Add(1)
	cmd := exec.Command(n.hook, verb, "--run-dir", n.run, "--wait", "30s")
	for k, v := range env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		n.t.Error(err)
		return
	}
	if kill > 0 {
		n.killed.Add(1)
		time.Sleep(kill)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	} else if err := cmd.Wait(); err != nil || said.Len() > 0 {
		n.t.Errorf("%s: %v, said %s", verb, err, said.String())
	}
}

// job starts a job on some GPUs, lets it live and ends it; one of ten calls of a
// program is killed and made again, as a requeue or the agent would.
func (n *node) job(r *rand.Rand, program bool) {
	var indices, files []string
	for i, name := range names {
		if r.IntN(3) == 0 {
			indices, files = append(indices, fmt.Sprint(i)), append(files, name)
		}
	}
	if len(indices) == 0 {
		return
	}
	n.mu.Lock()
	n.next++
	id := fmt.Sprint(n.next)
	j := &heldJob{files: files, mayFrom: time.Now()}
	n.jobs[id] = j
	n.mu.Unlock()
	do := func(verb string) {
		if program && r.IntN(10) == 0 {
			n.call(verb, id, indices, true, time.Duration(1+r.IntN(5000))*time.Microsecond)
		}
		n.call(verb, id, indices, program, 0)
	}
	stamp := func(at *time.Time) {
		n.mu.Lock()
		*at = time.Now()
		n.mu.Unlock()
	}
	do("prolog")
	stamp(&j.mustFrom)
	time.Sleep(time.Duration(r.IntN(20000)) * time.Microsecond)
	stamp(&j.mustTo)
	do("epilog")
	stamp(&j.mayTill)
}

// compare says what was wrong in a scrape between two times.
func (n *node) compare(labels map[string][]string, from, till time.Time) (lost, wrong []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for id, j := range n.jobs {
		if !j.mustFrom.IsZero() && j.mustFrom.Before(from) && (j.mustTo.IsZero() || j.mustTo.After(till)) {
			for _, file := range j.files {
				if !slices.Contains(labels[file], id) {
					lost = append(lost, file+" "+id)
				}
			}
		}
	}
	for file, ids := range labels {
		for _, id := range ids {
			j := n.jobs[id]
			if j == nil || !slices.Contains(j.files, file) || j.mayFrom.After(till) || !j.mayTill.IsZero() && j.mayTill.Before(from) {
				wrong = append(wrong, file+" "+id)
			}
		}
	}
	for id, j := range n.jobs { // each scrape begins after the last
		if !j.mayTill.IsZero() && j.mayTill.Before(from) {
			delete(n.jobs, id)
		}
	}
	return lost, wrong
}

// TestReader scrapes the directory as DCGM Exporter would, while hooks of six
// jobs at a time change it, two of them as programs that are killed now and then.
func TestReader(t *testing.T) {
	times := oracle.Rounds(4, 20)
	newNode(t, memoryDir(t)).scrape(1000*times, int64(50*times), int64(10*times), int64(times))
}

// TestReaderBesideTrouble does the same on a disk that somebody else keeps busy, beside a user
// who tries to get at the files, while the run directory is replaced now and then.
func TestReaderBesideTrouble(t *testing.T) {
	disk := t.TempDir()
	n := newNode(t, disk)
	ctx, cancel := context.WithCancel(t.Context())
	var troubles sync.WaitGroup
	defer troubles.Wait()
	defer cancel()
	troubles.Go(func() {
		junk := make([]byte, 16<<20)
		for ctx.Err() == nil {
			if err := atomicfile.WriteDurably(filepath.Join(disk, "junk"), junk, 0o600); err != nil {
				t.Error(err)
			}
		}
	})
	replaced := 0
	troubles.Go(func() {
		for ctx.Err() == nil {
			n.calling.Lock()
			if err := os.RemoveAll(n.run); err != nil {
				t.Error(err)
			}
			n.prepare()
			n.calling.Unlock()
			replaced++
			select {
			case <-ctx.Done():
			case <-time.After(200 * time.Millisecond):
			}
		}
	})
	hostile := n.hostile(ctx)
	times := oracle.Rounds(2, 20)
	n.scrape(1000*times, int64(50*times), int64(10*times), int64(times))
	cancel()
	troubles.Wait()
	if said := hostile(); said != "" {
		t.Errorf("a user without rights could do this: %s", said)
	}
	t.Logf("the run directory was replaced %d times", replaced)
}

// hostile starts a program of a user without rights that tries to hold the lock, to write
// into the mapping and to read records. It returns what ends it and says what it could do.
func (n *node) hostile(ctx context.Context) func() string {
	if os.Geteuid() != 0 {
		n.t.Log("needs root to run a program of another user")
		return func() string { return "" }
	}
	for _, path := range []string{n.run, n.mapping} { // the test's own folders are for root only
		for dir := filepath.Dir(path); dir != os.TempDir() && len(dir) > 1; dir = filepath.Dir(dir) {
			if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&0o011 != 0o011 {
				if err := os.Chmod(dir, info.Mode()|0o011); err != nil {
					n.t.Fatal(err)
				}
			}
		}
	}
	const script = `seen=
while :; do
  [ -e "$1/inventory.json" ] && [ -e "$2/0" ] && seen=1
  (exec 9<"$1/lock") && echo lock
  (: >>"$2/0") && echo map
  (: >"$2/99") && echo new
  (: >"$1/jobs/1.json") && echo record
  cat "$1"/jobs/*.json && echo read
  [ -z "$seen" ] || echo $seen >&3
done 2>/dev/null`
	var said bytes.Buffer
	r, w, err := os.Pipe()
	if err != nil {
		n.t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", script, "sh", n.run, n.mapping)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	cmd.Stdout, cmd.ExtraFiles = &said, []*os.File{w}
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	_ = w.Close()
	looks := make(chan int64, 1)
	go func() {
		lines, _ := io.Copy(io.Discard, r)
		looks <- lines
	}()
	return func() string {
		_ = cmd.Wait() // it was killed
		if <-looks == 0 {
			n.t.Error("the hostile user has never seen the files")
		}
		_ = r.Close()
		return said.String()
	}
}

// scrape scrapes until all has happened so often.
func (n *node) scrape(scrapes int, hooks, programs, kills int64) {
	t := n.t
	var stop atomic.Bool
	var workers sync.WaitGroup
	seed := oracle.SeedOf(t)
	for w := range uint64(6) {
		workers.Go(func() {
			r := rand.New(rand.NewPCG(seed, w))
			for !stop.Load() {
				n.job(r, w < 2)
			}
		})
	}
	failed, labels := 0, 0
	did := 0
	for ; !t.Failed() && (did < scrapes || n.calls.Load() < hooks || n.processes.Load() < programs || n.killed.Load() < kills); did++ {
		from := time.Now()
		got, err := scrapeMapping(n.mapping)
		if os.IsNotExist(err) && labels == 0 {
			continue // no job has started yet
		}
		if err != nil {
			failed++
			t.Errorf("scrape %d: %v", did, err)
			continue
		}
		for _, ids := range got {
			labels += len(ids)
		}
		if lost, wrong := n.compare(got, from, time.Now()); len(lost)+len(wrong) > 0 {
			t.Errorf("scrape %d, seed %d: lost %v, wrong %v", did, seed, lost, wrong)
		}
	}
	stop.Store(true)
	workers.Wait()
	t.Logf("%d scrapes, %d failed, %d labels; %d hooks, %d of them programs, %d killed", did, failed, labels, n.calls.Load(), n.processes.Load(), n.killed.Load())
	got, err := scrapeMapping(n.mapping)
	for file, ids := range got {
		if len(ids) > 0 {
			t.Errorf("%s keeps %v when all jobs have ended, %v", file, ids, err)
		}
	}
}
