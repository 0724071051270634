package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// A program of Go reads the clock without asking the kernel, so that no library can put
// another time before it. So the publisher is built with a package time that adds a number of
// seconds, and a main that reads the number from a file. The monotonic clock stays as it is,
// as when a real clock is set.
const (
	clockAnchor = "sec, nsec, mono := runtimeNow()\n\tif mono == 0 {"
	clockNow    = "sec, nsec, mono := runtimeNow()\n\tsec += Jumped.Load()\n\tif mono == 0 {"
	clockVar    = "\n// Jumped is how many seconds the clock is ahead.\nvar Jumped atomic.Int64\n"
	clockMain   = `package main

import (
	"os"
	"strconv"
	"time"
)

func init() {
	go func() {
		for range time.Tick(20 * time.Millisecond) {
			if text, err := os.ReadFile(os.Getenv("QUOIN_CLOCK")); err == nil {
				if n, err := strconv.ParseInt(string(text), 10, 64); err == nil {
					time.Jumped.Store(n)
				}
			}
		}
	}()
}
`
)

// buildWithClock builds a publisher whose clock follows the file $QUOIN_CLOCK.
func (b *bencher) buildWithClock(ctx context.Context) (program string, err error) {
	_, file, _, _ := runtime.Caller(0)
	root := filepath.Join(filepath.Dir(file), "../../..")
	goroot, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("find Go's own source: %w", err)
	}
	original := filepath.Join(strings.TrimSpace(string(goroot)), "src/time/time.go")
	text, err := os.ReadFile(original)
	if err != nil {
		return "", fmt.Errorf("read Go's own source: %w", err)
	}
	changed := strings.Replace(string(text), clockAnchor, clockNow, 1)
	changed = strings.Replace(changed, "import (\n", "import (\n\t\"sync/atomic\"\n", 1) + clockVar
	if !strings.Contains(changed, "Jumped.Load()") {
		return "", errors.New("this release of Go has another time.Now: change clockAnchor")
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {original: b.path("time.go"), filepath.Join(root, "cmd/quoin/clock.go"): b.path("clock.go")}})
	if err != nil {
		return "", err
	}
	for name, text := range map[string]string{"time.go": changed, "clock.go": clockMain, "overlay.json": string(overlay)} {
		if err := os.WriteFile(b.path(name), []byte(text), 0o600); err != nil {
			return "", fmt.Errorf("build with a clock: %w", err)
		}
	}
	program = b.path("quoin-clock")
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-overlay", b.path("overlay.json"), "-o", program, "./cmd/quoin")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build with a clock: %w\n%s", err, out)
	}
	return program, nil
}

// setClock puts the clock that follows the file ahead by so many seconds.
func setClock(path string, seconds int) error {
	if err := os.WriteFile(path+".new", []byte(strconv.Itoa(seconds)), 0o600); err != nil {
		return fmt.Errorf("set clock: %w", err)
	}
	return os.Rename(path+".new", path)
}

// hour is in seconds.
const hour = 3600

// hourPasses puts the clocks of all publishers an hour ahead. They write the times of plans
// and files and count moves of the last hour, so that what was saved before is an hour old
// for them.
func (t *trial) hourPasses(ctx context.Context) error {
	for _, r := range t.replicas {
		if err := setClock(r.clock, hour); err != nil {
			return err
		}
	}
	return t.move(ctx)
}

// clockJumps sets how far the leader's clock is ahead, while nodes move.
func (t *trial) clockJumps(ctx context.Context, seconds int) error {
	leader, _, err := t.leader(ctx)
	if err != nil {
		return err
	}
	if err := setClock(leader.clock, seconds); err != nil {
		return err
	}
	return t.move(ctx)
}
