package hook

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/test/rig/oracle"
)

// check compares the files with the reference.
func (m *model) check() bool {
	must, may := map[string]bool{}, map[string]bool{}
	for _, j := range m.jobs {
		for _, gpu := range j.gpus {
			must[gpu+" "+j.id] = true
		}
		for _, gpu := range j.perhaps {
			may[gpu+" "+j.id] = true
		}
	}
	entries, _ := os.ReadDir(m.mapping)
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		text, err := os.ReadFile(filepath.Join(m.mapping, e.Name()))
		lines := strings.Fields(string(text))
		if string(text) == "\n" {
			continue // released
		}
		if err != nil || len(lines) == 0 || !slices.IsSorted(lines) || len(slices.Compact(slices.Clone(lines))) != len(lines) || strings.Count(string(text), "\n") != len(lines) {
			m.t.Errorf("GPU %s has %q, %v", e.Name(), text, err)
			return false
		}
		for _, line := range lines {
			held := e.Name() + " " + line
			if !must[held] && !may[held] {
				m.t.Errorf("GPU %s is labelled with job %s, which does not hold it", e.Name(), line)
				return false
			}
			delete(must, held)
		}
	}
	if len(must) > 0 {
		m.t.Errorf("labels lost (GPU, job): %v", must)
	}
	return len(must) == 0
}

// TestModel plays what can happen to a node's jobs at random, and compares the
// mapping with a plain reference after each step.
func TestModel(t *testing.T) {
	hook := filepath.Join(t.TempDir(), "quoin-hook")
	buildHook(t, hook)
	dir := memoryDir(t)
	before := time.Now()
	const probes = 20
	for range probes {
		if err := exec.Command(hook, "epilog", "--run-dir", filepath.Join(dir, "probe")).Run(); err != nil {
			t.Fatalf("an Epilog without a job: %v, want exit status 0", err)
		}
	}
	took := 2 * time.Since(before) / probes
	base := oracle.SeedOf(t)
	seeds := make(chan uint64)
	var players sync.WaitGroup
	var marks atomic.Int32
	for range 4 {
		players.Go(func() {
			for seed := range seeds {
				if !t.Failed() {
					play(t, seed, dir, hook, took, &marks)
				}
			}
		})
	}
	for i := range uint64(oracle.Rounds(300, 2000)) {
		seeds <- base + i
	}
	close(seeds)
	players.Wait()
	if marks.Load() == 0 {
		t.Error("no Epilog that found the lock held has left a mark")
	}
}

func play(t *testing.T, seed uint64, dir, hook string, took time.Duration, marks *atomic.Int32) {
	own := filepath.Join(dir, fmt.Sprint(seed))
	defer func() { _ = os.RemoveAll(own) }()
	m := newModel(t, seed, own, hook, took, marks)
	for range 10 {
		if m.step(); !m.check() {
			t.Errorf("seed %d:\n%s", seed, strings.Join(m.steps, "\n"))
			return
		}
	}
	m.did("agent at the end")
	if m.sweep(); !m.check() {
		t.Errorf("seed %d:\n%s", seed, strings.Join(m.steps, "\n"))
	}
}
