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
	"strconv"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/test/rig/loopback"
	"github.com/quoin-hpc/quoin/test/rig/process"
)

// publisher is a running publisher.
type publisher struct {
	*process.Process
	address string
	began   time.Time
}

// startPublisher starts the program as its manifest does. It dies with this process.
func startPublisher(program, config, kubeconfig, log string) (*publisher, error) {
	address, began := loopback.Address(9836), time.Now()
	cmd := exec.Command(program, "publisher", "--times", confirm, "--config", config, "--kubeconfig", kubeconfig, "--listen", address)
	cmd.Env = append(os.Environ(), "GOMEMLIMIT="+memoryLimit, "GOGC=100")
	p, err := process.Start(cmd, log)
	if err != nil {
		return nil, err
	}
	return &publisher{p, address, began}, nil
}

// memoryLimit is GOMEMLIMIT of manifests/plain/base/41-publisher.yaml.
const memoryLimit = "175MiB"

// usage is the memory of a process.
type usage struct{ peakMiB, residentMiB int }

// forgetPeak makes the next usage tell the peak from now on.
func (p *publisher) forgetPeak() error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.PID()), []byte("5"), 0)
}

// usage reads what the process uses now.
func (p *publisher) usage() (usage, error) {
	peak, err1 := process.Status(p.PID(), "VmHWM")
	resident, err2 := process.Status(p.PID(), "VmRSS")
	return usage{peak / 1024, resident / 1024}, errors.Join(err1, err2)
}

// series returns a value of /metrics.
func (p *publisher) series(ctx context.Context, name string) (float64, error) {
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
