package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quoin-hpc/quoin/slurmconf"
)

// checkOptions are the flags of quoin check.
type checkOptions struct {
	shown  string
	plan   string
	render renderOptions
}

func newCheckCommand() *cobra.Command {
	var o checkOptions
	cmd := &cobra.Command{
		Use:   "check --topology FILE|- (--plan FILE|DIR | --nodes FILE | REPORT.json...)",
		Short: "Compare what Slurm has loaded with a published file or with the nodes",
		Long: `check reads the output of scontrol show topology and compares it with a
rendered or published topology file, or with the files that render makes from
nodes or reports with the same flags. It lists each node that differs, and what
does of blocks, switches and block sizes; Slurm shows no block size beyond the
first that spans all blocks.

Exit status: 0 the same, 1 it differs, 2 trouble.`,
		Example: `  scontrol show topology | quoin check --topology - --plan topology.conf
  kubectl get nodes -o json >nodes.json; scontrol show topology | quoin check --topology - --nodes nodes.json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return check(cmd.InOrStdin(), cmd.OutOrStdout(), &o, args)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.shown, "topology", "", "`file` with the output of scontrol show topology, - for standard input")
	f.StringVar(&o.plan, "plan", "", "topology.conf or topology.yaml, or a `path` of a directory that holds one")
	f.StringVar(&o.render.nodes, "nodes", "", "`file` with the output of kubectl get nodes -o json")
	f.StringVar(&o.render.previous, "previous", "", "topology `file` in use, whose names and order stay")
	addPublicationFlags(cmd, &o.render.pub)
	return cmd
}

func check(stdin io.Reader, stdout io.Writer, o *checkOptions, reports []string) error {
	if o.shown == "" {
		return errors.New("no --topology: want a file with the output of scontrol show topology, or - for standard input")
	}
	if o.shown == "-" && o.render.nodes == "-" {
		return errors.New("--topology - and --nodes -: standard input holds one of them; give a file for the other")
	}
	name, wanted, err := wantedFile(stdin, o, reports)
	if err != nil {
		return err
	}
	shown, err := readShown(stdin, o.shown)
	if err != nil {
		return err
	}
	differences, nodes, err := slurmconf.CompareShown(shown, name, wanted)
	if err != nil {
		return err
	}
	if len(differences) == 0 {
		fmt.Fprintf(stdout, "same: Slurm has all %d nodes where the plan has them\n", nodes)
		return nil
	}
	for _, d := range differences {
		fmt.Fprintln(stdout, d)
	}
	fmt.Fprintf(stdout, "differs: %d of %d nodes or units\n", len(differences), nodes)
	return exitError(1)
}

// wantedFile returns the topology file that Slurm should have loaded.
func wantedFile(stdin io.Reader, o *checkOptions, reports []string) (name string, data []byte, err error) {
	if o.plan == "" {
		made, err := makeOnce(stdin, &o.render, reports)
		if err != nil {
			return "", nil, err
		}
		if made.Refused != "" {
			return "", nil, errors.New(made.Message)
		}
		for name, text := range made.Files {
			if strings.HasPrefix(name, "topology.") {
				return name, []byte(text), nil
			}
		}
		return "", nil, errors.New("no topology file was made")
	}
	if o.render.nodes != "" || len(reports) > 0 {
		return "", nil, errors.New("--plan beside nodes or reports: want one of them")
	}
	path := o.plan
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		candidates := []string{filepath.Join(path, "topology.yaml"), filepath.Join(path, "topology.conf")}
		i := slices.IndexFunc(candidates, func(p string) bool { _, err := os.Stat(p); return err == nil })
		if i < 0 {
			return "", nil, fmt.Errorf("%s: no topology.yaml and no topology.conf in it", path)
		}
		path = candidates[i]
	}
	data, err = os.ReadFile(path)
	if err != nil {
		return "", nil, fmt.Errorf("read plan: %w", err)
	}
	return path, data, nil
}

func readShown(stdin io.Reader, name string) (slurmconf.Shown, error) {
	var text []byte
	var err error
	if name == "-" {
		name = "standard input"
		text, err = io.ReadAll(stdin)
	} else {
		text, err = os.ReadFile(name)
	}
	if err != nil {
		return slurmconf.Shown{}, fmt.Errorf("read topology: %w", err)
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return slurmconf.Shown{}, fmt.Errorf("%s: empty: want the output of scontrol show topology; does slurmctld answer, and is a topology plugin configured?", name)
	}
	return slurmconf.ParseShown(name, text)
}
