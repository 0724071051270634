package client

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/quoin-hpc/quoin/child"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
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
	text, err = (&child.Program{Path: s.Program, Args: args, Most: maxShown}).Output(ctx)
	return text, s.wrong(args, err)
}

// Reconfigure asks slurmctld to read its files again.
func (s *Scontrol) Reconfigure(ctx context.Context) error {
	_, err := s.text(ctx, "reconfigure")
	return err
}

// run runs scontrol, and reads what it prints.
func (s *Scontrol) run(ctx context.Context, read func(out io.Reader) error, args ...string) error {
	return s.wrong(args, (&child.Program{Path: s.Program, Args: args, Most: slurmctld.MaxBytes}).Read(ctx, read))
}

// wrong names the call in an error.
func (s *Scontrol) wrong(args []string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", s.Program, strings.Join(args, " "), err)
}
