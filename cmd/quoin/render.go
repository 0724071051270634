package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quoin-hpc/quoin/dcgm/atomicfile"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/publisher"
	"github.com/quoin-hpc/quoin/topology"
)

func newRenderCommand() *cobra.Command {
	var o renderOptions
	cmd := &cobra.Command{
		Use:   "render (--nodes FILE|- | REPORT.json|DIR...)",
		Short: "Show the Slurm files of a cluster, from its node labels or reports, with nothing installed",
		Long: `render makes topology.conf or topology.yaml, and gres.conf. It makes them from the
labels of a cluster's nodes, or from reports of quoin agent. On stderr it lists nodes
that are in no block or switch, with the reason.

With --skeleton the topology file has every block and every switch, but no node. Such a
file is for nodes that register dynamically: the node names its block and its leaf
switch when it registers, or Slinky does.`,
		Example: `  kubectl get nodes -o json | quoin render --nodes -
  quoin render --format conf --slurm-version 24.11 --output DIR REPORT.json...
  quoin render --config quoin.yaml --set publications.baseBlockSize=18 --nodes nodes.json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return render(cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr(), &o, args)
		},
	}
	o.addFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&o.output, "output", "", "write the files into this `directory` instead of printing them")
	f.BoolVar(&o.skeleton, "skeleton", false, "leave nodes and gres.conf out, for nodes that register dynamically (Slurm 25.05 and newer)")
	return cmd
}

func render(stdin io.Reader, stdout, stderr io.Writer, o *renderOptions, reports []string) error {
	made, _, err := o.render(stdin, reports)
	if err != nil {
		return err
	}
	sayLeftOut(stderr, made)
	for _, f := range made.Findings {
		fmt.Fprintln(stderr, f)
	}
	if made.Refused != "" {
		return fmt.Errorf("%s; nothing was written", made.Message)
	}
	if o.output == "" {
		return printFiles(stdout, made.Files)
	}
	if err := os.MkdirAll(o.output, 0o755); err != nil {
		return fmt.Errorf("write files: %w", err)
	}
	for _, name := range publisher.FileNames(made.Files) {
		path := filepath.Join(o.output, name)
		if err := atomicfile.WriteDurably(path, []byte(made.Files[name]), 0o644); err != nil {
			return fmt.Errorf("write files: %w", err)
		}
		fmt.Fprintf(stdout, "wrote %s\n", path)
	}
	for _, name := range slurmFiles {
		if _, made := made.Files[name]; made {
			continue
		}
		if path := filepath.Join(o.output, name); exists(path) {
			fmt.Fprintf(stderr, "warning: %s is an older file that was not written now; remove it if Slurm would read it (topology.yaml goes before topology.conf)\n", path)
		}
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// printFiles prints each file under a comment with its name. Slurm can read the output as
// it is if there is one file only.
func printFiles(w io.Writer, files map[string]string) error {
	for i, name := range publisher.FileNames(files) {
		sep := ""
		if i > 0 {
			sep = "\n"
		}
		if _, err := fmt.Fprintf(w, "%s# ---- %s ----\n%s", sep, name, files[name]); err != nil {
			return fmt.Errorf("print files: %w", err)
		}
	}
	return nil
}

// sayLeftOut lists the nodes that have no place, and what else is wrong.
func sayLeftOut(w io.Writer, made *publisher.Rendered) {
	for line := range strings.SplitSeq(made.LeftOut, "\n") {
		if line != "" {
			fmt.Fprintf(w, "left out: %s\n", line)
		}
	}
	for _, p := range joinProblems(made.Problems) {
		fmt.Fprintf(w, "problem: %s\n", p)
	}
}

// joinProblems joins equal problems of many nodes into one, because a site may have
// thousands of nodes. The joined problem takes the place of the first.
func joinProblems(problems []topology.Problem) []topology.Problem {
	var out []topology.Problem
	at := map[topology.Problem]int{} // index in out of a problem that nodes have alike
	nodes := map[int][]string{}
	for _, p := range problems {
		alike := topology.Problem{Reason: p.Reason, Message: p.Message}
		i, known := at[alike]
		if p.Node == "" || !known {
			i = len(out)
			out = append(out, alike)
		}
		if p.Node != "" {
			at[alike] = i
			nodes[i] = append(nodes[i], p.Node)
		}
	}
	for i, names := range nodes {
		out[i].Node = hostlist.Compress(names)
	}
	return out
}
