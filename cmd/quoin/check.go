package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quoin-hpc/quoin/cmd/quoin/comparison"
	"github.com/quoin-hpc/quoin/cmd/quoin/reports"
	"github.com/quoin-hpc/quoin/cmd/quoin/show"
	"github.com/quoin-hpc/quoin/imex/computedomain"
	"github.com/quoin-hpc/quoin/slurmconf/lint"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
	"github.com/quoin-hpc/quoin/topology"
)

// checkOptions are the flags of quoin check.
type checkOptions struct {
	shown     string
	plan      string
	slurmConf string
	imex      string
	ask       bool
	render    renderOptions
}

func newCheckCommand() *cobra.Command {
	var o checkOptions
	cmd := &cobra.Command{
		Use:   "check ((--topology FILE|- | --slurm-conf FILE | --ask) (--plan FILE|DIR | --kubeconfig FILE | --nodes FILE | REPORT.json...) | --imex FILE|- [REPORT.json...])",
		Short: "Compare what Slurm has, loaded or in slurm.conf, with published files or with the nodes; name nodes without IMEX",
		Long: `check reads the output of scontrol show topology and compares it with a
rendered or published topology file, or with the files that render makes from
nodes or reports with the same flags and configuration. It lists the nodes that differ, and what
does of blocks, switches and block sizes; Slurm shows no block size beyond the
first that spans all blocks. Nodes of one reason and message share a line. With
--output json each of them has its message.

With --ask it asks the running Slurm as the publication says (slurm.url or
slurm.scontrol), and names each node that Slurm has in another place, or does not know.

With --slurm-conf it reads the nodes of a slurm.conf, and of the files that it
includes, and says where the plan's topology file and gres.conf do not go with them,
before Slurm does: nodes that are not there, fewer GPUs than Gres= counts or of
another type, and Cores that are not the sockets of the node's line, for all of which
Slurm drains nodes; and Topology= of a node's line that names what the file lacks, with
which slurmctld does not start. With --config it names the time limits of slurm.conf that are too
short for a Prolog that waits for IMEX.

With --imex it reads the cluster's nodes, ComputeDomains, claims and pods, and names
each node that is no member of the IMEX domain, and what to do there, and claims that
wait without a node. Reports add what NVML says and what the nodes say of their daemons
and channels.

Exit status: 1 if it differs, 3 if something could not be compared.`,
		Example: `  scontrol show topology | quoin check --topology - --plan topology.conf
  kubectl get nodes -o json >nodes.json; scontrol show topology | quoin check --topology - --nodes nodes.json
  quoin check --slurm-conf /etc/slurm/slurm.conf --plan /etc/slurm
  ` + computedomain.ListCommand + ` | quoin check --imex -`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return check(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), &o, args)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.shown, "topology", "", "`file` with the output of scontrol show topology, - for standard input")
	f.StringVar(&o.slurmConf, "slurm-conf", "", "slurm.conf `file` that the plan must go with")
	f.BoolVar(&o.ask, "ask", false, "ask the running Slurm, as slurm.url or slurm.scontrol of the publication say")
	f.StringVar(&o.imex, "imex", "", "`file` with the output of "+computedomain.ListCommand+", - for standard input, or for the cluster with --kubeconfig")
	f.StringVar(&o.plan, "plan", "", "topology.conf, topology.yaml or (with --slurm-conf) gres.conf, or a `path` of a directory that holds them")
	o.render.addFlags(cmd, "text", outputJSON)
	for _, other := range []string{"topology", "slurm-conf", "plan", "nodes", "ask"} {
		cmd.MarkFlagsMutuallyExclusive("imex", other)
	}
	cmd.MarkFlagsMutuallyExclusive("plan", "nodes")
	cmd.MarkFlagsMutuallyExclusive("plan", "kubeconfig")
	return cmd
}

func check(ctx context.Context, stdin io.Reader, stdout io.Writer, o *checkOptions, reports []string) error {
	r, err := compared(ctx, stdin, o, reports)
	if err != nil {
		return err
	}
	r.Kind = "CheckResult"
	if o.render.output == outputJSON {
		return r.JSON(stdout)
	}
	return r.Print(stdout).AsError()
}

// compared makes the comparisons that the flags ask for.
func compared(ctx context.Context, stdin io.Reader, o *checkOptions, reports []string) (*show.Result, error) {
	switch {
	case o.imex != "":
		return checkIMEX(ctx, stdin, o, reports)
	case o.shown == "" && o.slurmConf == "" && !o.ask:
		return nil, errors.New("nothing to check: want --topology FILE (- for standard input), --slurm-conf FILE, --ask or --imex FILE; see quoin check --help")
	case o.plan == "" && o.render.nodes == "" && o.render.kubeconfig == "" && len(reports) == 0:
		return nil, errors.New("nothing to compare with: want --plan FILE or DIR, --nodes FILE, --kubeconfig FILE, or reports as arguments; see quoin check --help")
	}
	if o.shown == "-" && o.render.nodes == "-" {
		return nil, errors.New("--topology - and --nodes -: standard input holds one of them; give a file for the other")
	}
	r := &show.Result{}
	wanted, whole, err := wantedFiles(ctx, stdin, o, r, reports)
	if err != nil {
		return nil, err
	}
	if o.slurmConf != "" {
		one, err := checkSlurmConf(o, wanted)
		if err != nil {
			return nil, err
		}
		r.Add(one)
	}
	if o.ask {
		one, err := checkSlurm(ctx, o, whole)
		if err != nil {
			return nil, err
		}
		r.Add(one)
	}
	if o.shown != "" {
		one, err := checkShown(stdin, o, whole)
		if err != nil {
			return nil, err
		}
		r.Add(one)
	}
	return r, nil
}

// checkShown says where Slurm has loaded another topology than wanted.
func checkShown(stdin io.Reader, o *checkOptions, wanted []lint.File) (*show.Result, error) {
	i := slices.IndexFunc(wanted, isTopology)
	if i < 0 {
		return nil, fmt.Errorf("%s: no topology.yaml and no topology.conf in it", o.plan)
	}
	shown, err := readShown(stdin, o.shown)
	if err != nil {
		return nil, err
	}
	differences, nodes, err := slurmctld.CompareShown(shown, wanted[i].Name, wanted[i].Data)
	if err != nil {
		return nil, err
	}
	return comparison.OfShown(differences, nodes), nil
}

const gresFile = "gres.conf"

// slurmFiles are the files for Slurm, the topology that counts first.
var slurmFiles = []string{"topology.yaml", "topology.conf", gresFile}

// isTopology says that a file is no gres.conf.
func isTopology(f lint.File) bool { return !strings.HasSuffix(f.Name, gresFile) }

// wantedFiles returns the files that Slurm should have, the topology that counts first.
// whole have all nodes in them, as far as is known. r gets the reports that cannot be read.
func wantedFiles(ctx context.Context, stdin io.Reader, o *checkOptions, r *show.Result, paths []string) (wanted, whole []lint.File, err error) {
	if o.plan != "" {
		if len(paths) > 0 {
			return nil, nil, errors.New("--plan beside reports: want one of them")
		}
		wanted, err = readPlan(o.plan)
		return wanted, wanted, err
	}
	made, _, err := o.render.render(ctx, stdin, paths)
	if err != nil {
		return nil, nil, err
	}
	if made.Refused != "" {
		return nil, nil, errors.New(made.Message)
	}
	r.Found(reports.Unread(made.Problems)...)
	all, err := made.Whole()
	return inOrder(made.Files), inOrder(all), err
}

// inOrder returns files in the order of slurmFiles.
func inOrder(files map[string]string) (out []lint.File) {
	for _, name := range slurmFiles {
		if text, ok := files[name]; ok {
			out = append(out, lint.File{Name: name, Data: []byte(text)})
		}
	}
	return out
}

// readPlan reads a file, or the files for Slurm in a directory.
func readPlan(path string) ([]lint.File, error) {
	paths := []string{path}
	if isDirectory(path) {
		paths = nil
		for _, name := range slurmFiles {
			if p := filepath.Join(path, name); exists(p) {
				paths = append(paths, p)
			}
		}
		if len(paths) == 0 {
			return nil, fmt.Errorf("%s: no topology.yaml, no topology.conf and no gres.conf in it", path)
		}
	}
	out := make([]lint.File, len(paths))
	for i, p := range paths {
		data, err := os.ReadFile(p)
		if err != nil {
			return nil, fmt.Errorf("read plan: %w", err)
		}
		out[i] = lint.File{Name: p, Data: data}
	}
	return out, nil
}

func readShown(stdin io.Reader, name string) (topology.Topology, error) {
	in, name, err := openInput(stdin, name, "scontrol show topology")
	if err != nil {
		return topology.Topology{}, fmt.Errorf("read topology: %w", err)
	}
	defer func() { _ = in.Close() }()
	text, err := io.ReadAll(in)
	if err != nil {
		return topology.Topology{}, fmt.Errorf("read topology: %w", err)
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return topology.Topology{}, fmt.Errorf("%s: empty: want the output of scontrol show topology; does slurmctld answer, and is a topology plugin configured? where the default topology is flat, name another, as in scontrol show topology nvl", name)
	}
	return slurmctld.ParseShown(name, text)
}
