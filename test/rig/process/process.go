// Package process runs the programs of rigs, and reads what the kernel says of a process.
package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/quoin-hpc/quoin/test/rig/await"
)

// Output runs a program until it ends, and returns what it prints. The error of a program that fails has
// its output too.
func Output(cmd *exec.Cmd) (string, error) {
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return string(out), err
}

// Process is a program that runs until Stop. It ends with the process that started it, also when that is
// killed.
type Process struct {
	cmd   *exec.Cmd
	log   string
	ended chan struct{}
}

// Start starts a program. Its output goes to the end of a file.
func Start(cmd *exec.Cmd, log string) (*Process, error) {
	p := &Process{cmd: cmd, log: log, ended: make(chan struct{})}
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name(), err)
	}
	defer file.Close()
	cmd.Stdout, cmd.Stderr = file, file
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name(), err)
	}
	go func() {
		_ = cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

func (p *Process) name() string { return filepath.Base(p.cmd.Path) }

// ErrEnded is the error of a program that ended before it answered.
var ErrEnded = errors.New("it has ended")

// Ready waits until the program answers, so that ask returns no error. It waits no longer if the program
// has ended. Its error has the end of the program's output.
func (p *Process) Ready(ctx context.Context, ask func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-p.ended:
			cancel(ErrEnded)
		case <-ctx.Done():
		}
	}()
	if err := await.NoError(ctx, "start "+p.name(), ask); err != nil {
		said, _ := os.ReadFile(p.log)
		return fmt.Errorf("%w\n%s", err, said[max(0, len(said)-4000):])
	}
	return nil
}

// PID is the number of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends a signal.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// Ended is closed when the program has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Stop kills the program if it runs, and returns when it has ended.
func (p *Process) Stop() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}
