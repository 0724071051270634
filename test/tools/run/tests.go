package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

type options struct {
	packages, parallel int
	run, skip          string
	out                io.Writer
}

// stuck is how long no test may end before the tests that run are ended, with the stacks of
// their goroutines. A test that waits for a slot is not stuck, because others end meanwhile.
const stuck = 25 * time.Minute

// quiet is the time without a line after which one says which tests run.
const quiet = time.Minute

// board is what is known of the tests of all packages.
type board struct {
	mu      sync.Mutex
	out     io.Writer
	running map[string]*results // by package
	done    []*results
	of      int
	spoken  time.Time // the last line
	ended   time.Time // the last end of a test
}

// results is what the tests of a package have said.
type results struct {
	pkg     string
	passed  []string
	failed  []string
	skipped []string
	text    map[string]*strings.Builder // of each test, "" for the package
	open    map[string]time.Time        // since when the tests run that have not ended; zero if they have to wait for others
	took    time.Duration
	cpu     time.Duration // of its processes
	err     error         // the end of the program, if no test explains it
	process int
}

// event is a line of test2json.
type event struct {
	Action, Test, Output string
}

func (o options) runAll(ctx context.Context, tests []testProgram) error {
	path, err := exec.CommandContext(ctx, "go", "tool", "-n", "test2json").Output()
	if err != nil {
		return fmt.Errorf("find test2json: %w", said(err))
	}
	b := &board{out: o.out, running: map[string]*results{}, of: len(tests), spoken: time.Now(), ended: time.Now()}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	go b.watch(watching)
	turns := make(chan struct{}, o.packages)
	var all sync.WaitGroup
	for _, t := range tests {
		turns <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		all.Go(func() {
			o.runPackage(ctx, strings.TrimSpace(string(path)), b, t)
			<-turns
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return b.summary()
}

// runPackage runs the tests of a package as go test does: in the package's folder.
func (o options) runPackage(ctx context.Context, test2json string, b *board, t testProgram) {
	r := &results{pkg: t.pkg, text: map[string]*strings.Builder{}, open: map[string]time.Time{}}
	args := []string{"-t", t.path, "-test.v=test2json", "-test.paniconexit0", "-test.timeout=0", fmt.Sprintf("-test.parallel=%d", o.parallel), "-test.run=" + o.run, "-test.skip=" + o.skip}
	cmd := exec.CommandContext(ctx, test2json, args...)
	cmd.Dir = t.dir
	// A tenth of the processor time of all tests, and of the programs that they start, would go
	// into collecting garbage. GOGC of the caller comes last, so it is the one that counts.
	cmd.Env = append([]string{"GOGC=400"}, os.Environ()...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.StdoutPipe()
	if err == nil {
		cmd.Stderr = cmd.Stdout
		err = cmd.Start()
	}
	if err != nil {
		r.err = err
		b.end(r)
		return
	}
	began := time.Now()
	b.begin(r, cmd.Process.Pid)
	for lines := bufio.NewReader(out); ; {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			b.line(r, line)
		}
		if err != nil {
			break
		}
	}
	r.err, r.took = cmd.Wait(), time.Since(began)
	r.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	b.end(r)
}

func (b *board) begin(r *results, process int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r.process = process
	b.running[r.pkg] = r
}

// line takes a line of test2json. A line that is none of its events is said by the program.
func (b *board) line(r *results, line []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var e event
	if json.Unmarshal(line, &e) != nil {
		e = event{Action: "output", Output: string(line)}
	}
	switch e.Action {
	case "output":
		if r.text[e.Test] == nil {
			r.text[e.Test] = &strings.Builder{}
		}
		r.text[e.Test].WriteString(e.Output)
	case "run", "cont":
		r.open[e.Test] = time.Now()
	case "pause":
		r.open[e.Test] = time.Time{}
	case "pass", "fail", "skip":
		if e.Test == "" {
			return
		}
		b.ended = time.Now()
		delete(r.open, e.Test)
		switch e.Action {
		case "fail":
			r.failed = append(r.failed, e.Test)
			return // its text is printed
		case "pass":
			r.passed = append(r.passed, e.Test)
		case "skip":
			r.skipped = append(r.skipped, e.Test)
			return // its text says why
		}
		delete(r.text, e.Test)
	}
}

// end prints the line of a package, and all that its failed tests have said.
func (b *board) end(r *results) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.running, r.pkg)
	b.done = append(b.done, r)
	for name := range r.open { // the program has ended in the midst of them
		if !r.open[name].IsZero() && !r.waits(name) {
			r.failed = append(r.failed, name)
		}
	}
	slices.Sort(r.failed)
	word := "ok  "
	if r.err != nil {
		word = "FAIL"
		for _, name := range append([]string{""}, r.failed...) {
			if text := r.text[name]; text != nil {
				fmt.Fprint(b.out, text)
			}
		}
	}
	b.say("%s  %-36s %6.1f s, %6.1f s of processor, %d of %d", word, short(r.pkg), r.took.Seconds(), r.cpu.Seconds(), len(b.done), b.of)
}

func (b *board) say(format string, args ...any) {
	fmt.Fprintf(b.out, format+"\n", args...)
	b.spoken = time.Now()
}

// watch says which tests run when there was no other line for a while, and ends tests that are
// stuck.
func (b *board) watch(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		b.mu.Lock()
		if time.Since(b.spoken) > quiet {
			b.say("== %s  run: %s", clock(time.Since(begun)), b.now())
		}
		if time.Since(b.ended) > stuck {
			b.say("no test has ended in %s: those that run are ended", stuck)
			for _, r := range b.running {
				_ = syscall.Kill(-r.process, syscall.SIGQUIT)
			}
			b.ended = time.Now()
		}
		b.mu.Unlock()
	}
}

// now names the packages that run, and the test of each that runs for longest.
func (b *board) now() string {
	var out []string
	for _, r := range b.running {
		oldest := ""
		for name, since := range r.open {
			if !since.IsZero() && !r.waits(name) && (oldest == "" || since.Before(r.open[oldest])) {
				oldest = name
			}
		}
		out = append(out, strings.TrimSpace(short(r.pkg)+" "+oldest))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// waits reports whether a test waits for its subtests.
func (r *results) waits(name string) bool {
	for other := range r.open {
		if strings.HasPrefix(other, name+"/") {
			return true
		}
	}
	return false
}

// short is a package's path in the checkout.
func short(pkg string) string {
	return "./" + strings.TrimPrefix(strings.TrimPrefix(pkg, "github.com/quoin-hpc/quoin"), "/")
}

// most is the number of failed tests that are listed: with their lines the end of a run fits a
// screen.
const most = 9

// summary prints how many tests passed and failed. For each that failed it says the first line
// of its error, and the command that runs it alone.
func (b *board) summary() error {
	slices.SortFunc(b.done, func(x, y *results) int { return strings.Compare(x.pkg, y.pkg) })
	passed, skipped := 0, 0
	var failures [][3]string
	for _, r := range b.done {
		for _, name := range r.skipped {
			fmt.Fprintf(b.out, "skipped: %s %s: %s\n", short(r.pkg), name, r.firstError(name))
		}
		skipped += len(r.skipped)
	}
	for _, r := range b.done {
		passed += len(r.passed)
		for _, name := range r.failed {
			if slices.ContainsFunc(r.failed, func(other string) bool { return strings.HasPrefix(other, name+"/") }) {
				continue // a subtest says it
			}
			failures = append(failures, [3]string{short(r.pkg) + " " + name, r.firstError(name),
				fmt.Sprintf("go test -count=1 -run '%s' %s", pattern(name), short(r.pkg))})
		}
		if r.err != nil && len(r.failed) == 0 {
			failures = append(failures, [3]string{short(r.pkg), fmt.Sprintf("%v: %s", r.err, r.firstError("")), "go test -count=1 " + short(r.pkg)})
		}
	}
	if len(failures) > 0 {
		fmt.Fprintln(b.out, "\nfailed:")
	}
	for i, f := range failures {
		if i == most && len(failures) > most+1 {
			fmt.Fprintf(b.out, "and %d more, above\n", len(failures)-most)
			break
		}
		fmt.Fprintf(b.out, "%s\n    %s\n    %s\n", f[0], f[1], f[2])
	}
	fmt.Fprintf(b.out, "\n%d packages in %s\n%d passed, %d failed, %d skipped\n", len(b.done), clock(time.Since(begun)), passed, len(failures), skipped)
	if len(failures) > 0 {
		return errFailed
	}
	return nil
}

// firstError is the first line of a test's text that is not go test's own. The reason of a
// skipped test is such a line too.
func (r *results) firstError(name string) string {
	for ; ; name = filepath.Dir(name) {
		if text := r.text[name]; text != nil {
			for line := range strings.Lines(text.String()) {
				line = strings.TrimSpace(line)
				if line != "" && !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(line, "--- ") {
					return line
				}
			}
		}
		if !strings.Contains(name, "/") {
			return "it said nothing"
		}
	}
}

// pattern is what go test -run wants for one test.
func pattern(name string) string {
	return "^" + strings.Join(strings.Split(name, "/"), "$/^") + "$"
}
