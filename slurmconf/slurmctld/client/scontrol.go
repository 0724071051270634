package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
	"github.com/quoin-hpc/quoin/topology"
)

// Scontrol asks by running scontrol on this machine.
type Scontrol struct {
	// Program is the path of scontrol, or its name.
	Program string
}

// maxShown is the most bytes of a topology or a configuration that scontrol shows.
const maxShown = 8 << 20

// Ask implements Asker. With --all Slurm also names what it hides from the user in whose name
// Quoin asks, such as the nodes of a hidden partition.
func (s *Scontrol) Ask(ctx context.Context, q Question) (*slurmctld.State, error) {
	state := &slurmctld.State{}
	err := q.ask(state, func(read func(out io.Reader) error, what ...string) error {
		return s.run(ctx, read, append([]string{"--all", "--json", "show"}, what...)...)
	})
	if err != nil {
		return nil, err
	}
	if q.Loaded {
		if config, err := s.text(ctx, "show", "config"); err == nil { // else the release is not known
			state.Release = slurmctld.ReleaseShown(string(config))
		}
	}
	for _, name := range q.Topologies {
		args := []string{"show", "topology"}
		if name != "" {
			args = append(args, name)
		}
		text, err := s.text(ctx, args...) // nothing for a name that Slurm does not have
		if err != nil {
			return nil, err
		}
		t, err := slurmctld.ParseShown("scontrol show topology", text)
		if err != nil {
			return nil, err
		}
		if name != "" {
			t.Name = name
		}
		state.Topologies = append(state.Topologies, t)
	}
	return state, nil
}

// text runs scontrol, and returns what it prints.
func (s *Scontrol) text(ctx context.Context, args ...string) (text []byte, err error) {
	err = s.run(ctx, func(out io.Reader) (err error) {
		if text, err = io.ReadAll(io.LimitReader(out, maxShown+1)); len(text) > maxShown {
			err = slurmctld.ErrTooLong
		}
		return err
	}, args...)
	return text, err
}

// Reconfigure asks slurmctld to read its files again.
func (s *Scontrol) Reconfigure(ctx context.Context) error {
	return s.run(ctx, skipRest, "reconfigure")
}

// run runs scontrol, and reads what it prints. If the question ends early, all that scontrol has
// started ends too.
func (s *Scontrol) run(ctx context.Context, read func(out io.Reader) error, args ...string) error {
	running, end := context.WithCancel(ctx)
	defer end()
	cmd := exec.CommandContext(running, s.Program, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // it may have ended
		return os.ErrProcessDone
	}
	cmd.WaitDelay = time.Second
	var said first
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", s.Program, strings.Join(args, " "), err)
	}
	if err = read(out); err == nil {
		err = skipRest(out)
	}
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		end() // it may print for ever
	}
	exit := new(exec.ExitError)
	switch ended := cmd.Wait(); {
	case ctx.Err() != nil:
		err = errNoAnswer
	case errors.As(ended, &exit) && exit.Exited():
		err = exit
	case err == nil:
		err = ended
	}
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%s %s: %w", s.Program, strings.Join(args, " "), err)
	if text := strings.TrimSpace(string(said)); text != "" {
		err = fmt.Errorf("%w: %s", err, topology.Cut(strings.ReplaceAll(text, "\n", "; "), topology.MaxText))
	}
	return err
}

// skipRest reads what is left of an answer.
func skipRest(out io.Reader) error {
	n, err := io.Copy(io.Discard, io.LimitReader(out, slurmctld.MaxBytes))
	if n == slurmctld.MaxBytes {
		return slurmctld.ErrTooLong
	}
	return err
}

// errNoAnswer is returned if scontrol does not answer in time.
var errNoAnswer = errors.New("no answer in time")

// first keeps the first bytes that are written.
type first []byte

// Write implements io.Writer.
func (f *first) Write(p []byte) (int, error) {
	*f = append(*f, p[:min(len(p), maxError-len(*f))]...)
	return len(p), nil
}
