package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/quoin-hpc/quoin/test/rig/loopback"
)

// process is a running publisher.
type process struct {
	cmd     *exec.Cmd
	address string
	began   time.Time
	ended   chan struct{}
}

// startPublisher starts the program as its manifest does. It dies with this process.
func startPublisher(program, config, kubeconfig, log string) (*process, error) {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start publisher: %w", err)
	}
	defer file.Close()
	p := &process{address: loopback.Address(9836), began: time.Now(), ended: make(chan struct{})}
	p.cmd = exec.Command(program, "publisher", "--times", confirm, "--config", config, "--kubeconfig", kubeconfig, "--listen", p.address)
	p.cmd.Env = append(os.Environ(), "GOMEMLIMIT="+memoryLimit, "GOGC=100")
	p.cmd.Stdout, p.cmd.Stderr = file, file
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start publisher: %w", err)
	}
	go func() {
		_ = p.cmd.Wait() // it is killed
		close(p.ended)
	}()
	return p, nil
}

// memoryLimit is GOMEMLIMIT of manifests/plain/base/41-publisher.yaml.
const memoryLimit = "175MiB"

// kill ends the publisher at once.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
}

// usage is the memory of a process.
type usage struct{ peakMiB, residentMiB int }

// forgetPeak makes the next usage tell the peak from now on.
func (p *process) forgetPeak() error {
	return os.WriteFile(p.file("clear_refs"), []byte("5"), 0)
}

func (p *process) file(name string) string {
	return filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid), name)
}

// usage reads what the process uses now.
func (p *process) usage() (usage, error) {
	status, err := numbers(p.file("status"))
	return usage{int(status["VmHWM"] / 1024), int(status["VmRSS"] / 1024)}, err
}

// numbers reads the lines "key: number" of a file.
func numbers(path string) (map[string]int64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	out := map[string]int64{}
	for line := range strings.Lines(string(text)) {
		key, rest, _ := strings.Cut(line, ":")
		if fields := strings.Fields(rest); len(fields) > 0 {
			if n, err := strconv.ParseInt(fields[0], 10, 64); err == nil {
				out[key] = n
			}
		}
	}
	return out, nil
}

// series returns a value of /metrics.
func (p *process) series(ctx context.Context, name string) (float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, fmt.Errorf("read metrics: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	for lines := bufio.NewReader(resp.Body); ; {
		line, err := lines.ReadString('\n')
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
		if errors.Is(err, io.EOF) {
			return 0, fmt.Errorf("read metrics: no %s", name)
		} else if err != nil {
			return 0, fmt.Errorf("read metrics: %w", err)
		}
	}
}
