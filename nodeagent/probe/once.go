package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/topology"
)

// Once runs a probe that prints one report and ends.
func Once(ctx context.Context, command []string, timeout time.Duration) (*topology.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...) //nolint:gosec // this program itself
	cmd.WaitDelay = time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	ended := make(chan error, 1)
	go func() { ended <- cmd.Run() }()
	select {
	case err := <-ended:
		if ctx.Err() == nil {
			return reportOf(&stdout, &stderr, err)
		}
	case <-ctx.Done(): // the driver may hold the child for ever
	}
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil, ctx.Err()
	}
	return nil, fmt.Errorf("NVML has not answered within %s: a GPU may be sick; see dmesg for Xid, or give --timeout", timeout)
}

// reportOf reads what an ended probe printed.
func reportOf(stdout, stderr *bytes.Buffer, err error) (*topology.Node, error) {
	var exit *exec.ExitError
	said := strings.TrimPrefix(complaint(stderr.Bytes()), "quoin: ")
	switch {
	case errors.As(err, &exit) && exit.ExitCode() == 127:
		return nil, fmt.Errorf("NVML ended the probe: the driver is older than a call that was made, or broken: %s", said)
	case err != nil && said != "":
		return nil, errors.New(said)
	case err != nil:
		return nil, fmt.Errorf("probe: %w", err)
	}
	return topology.ParseReport("probe", bytes.TrimSpace(stdout.Bytes()))
}
