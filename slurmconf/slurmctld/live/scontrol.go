package live

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
	"github.com/quoin-hpc/quoin/topology"
)

// Scontrol asks by running scontrol on this machine.
type Scontrol struct {
	// Program is the path of scontrol, or its name.
	Program string
}

// Ask asks for all nodes, for running jobs, and for the topologies of the names.
func (s *Scontrol) Ask(ctx context.Context, q Question) (*State, error) {
	ctx, cancel := q.limit(ctx)
	defer cancel()
	state := &State{}
	if err := s.show(ctx, q, state); err != nil || q.Job != "" {
		return state, err
	}
	names := q.Topologies
	if len(names) == 0 {
		names = []string{""}
	}
	for _, name := range names {
		args := []string{"show", "topology"}
		if name != "" {
			args = append(args, name)
		}
		text, err := s.run(ctx, args...) // prints nothing for a name that Slurm does not have
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

// show asks for jobs, for reservations, and for nodes.
func (s *Scontrol) show(ctx context.Context, q Question, state *State) (err error) {
	read := func(read func(in io.Reader) error, things ...string) {
		if err != nil {
			return
		}
		var text []byte
		if text, err = s.run(ctx, append([]string{"--json", "show"}, things...)...); err != nil {
			return
		}
		if err = read(bytes.NewReader(text)); err != nil {
			err = fmt.Errorf("%s show %s: %w", s.Program, strings.Join(things, " "), err)
		}
	}
	if q.Job != "" {
		read(func(in io.Reader) (err error) { state.Jobs, err = ReadJobs(in); return err }, "job", q.Job)
		return err
	}
	if q.Jobs {
		read(func(in io.Reader) (err error) { state.Partitions, err = ReadPartitions(in); return err }, "partitions")
		read(func(in io.Reader) (err error) { state.Jobs, err = ReadJobs(in); return err }, "jobs")
	}
	if q.Reservations {
		read(func(in io.Reader) (err error) { state.Reservations, err = ReadReservations(in); return err }, "reservations")
	}
	if !q.Brief {
		read(func(in io.Reader) (err error) { state.Nodes, err = ReadNodes(in); return err }, "nodes")
	}
	return err
}

// Reconfigure asks slurmctld to read its files again.
func (s *Scontrol) Reconfigure(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	_, err := s.run(ctx, "reconfigure")
	return err
}

// run runs scontrol and returns what it prints.
func (s *Scontrol) run(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, s.Program, args...)
	cmd.WaitDelay = time.Second
	out, said := &bounded{max: maxBytes}, &bounded{max: maxError}
	cmd.Stdout, cmd.Stderr = out, said
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = errNoAnswer
		}
		return nil, fmt.Errorf("%s %s: %w: %s", s.Program, strings.Join(args, " "), err, topology.Cut(strings.TrimSpace(string(said.text)), topology.MaxText))
	}
	return out.text, nil
}

// errNoAnswer is returned if scontrol does not answer in time.
var errNoAnswer = errors.New("no answer in time")

// errTooLong is returned for an answer that is longer than is read.
var errTooLong = errors.New("the answer is too long")

// bounded takes so many bytes. It has no method but Write, so that nothing passes the bound.
type bounded struct {
	text []byte
	max  int
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	if len(b.text)+len(p) > b.max {
		return 0, errTooLong
	}
	b.text = append(b.text, p...)
	return len(p), nil
}
