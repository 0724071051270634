package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/publisher"
	"github.com/quoin-hpc/quoin/topology"
)

// renderOptions are the flags of commands that make files from facts once.
type renderOptions struct {
	settings
	publication string
	nodes       string
	output      string
	previous    string
	skeleton    bool
}

// addFlags adds the flags that render has in common with map and check.
func (o *renderOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.nodes, "nodes", "", "`file` with the output of kubectl get nodes -o json, or of nodes,pods,resourceslices -A, - for standard input")
	f.StringVar(&o.previous, "previous", "", "topology `file` in use, whose names, order and base block size stay")
	f.StringVar(&o.publication, "publication", "", "`name` of the publication in the configuration; needed if there are several")
	o.settings.addFlags(cmd)
	o.fileFlags(cmd)
}

func newRenderCommand() *cobra.Command {
	var o renderOptions
	cmd := &cobra.Command{
		Use:   "render (--nodes FILE|- | REPORT.json...)",
		Short: "Show the Slurm files of a cluster, from its node labels or reports, with nothing installed",
		Long: `render prints topology.conf or topology.yaml, and gres.conf, made from the
labels of a cluster's nodes or from reports of quoin agent. It lists nodes that are
in no block or switch on stderr, with the reason.

With --skeleton the topology file has every block, and of a tree the roots, but no
node. Such a file is for nodes that register dynamically: they name their place by
themselves, or Slinky does. Slurm makes the switches below a root when a node names
them.`,
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

// choose returns the publication that a one-shot command works for.
func (o *renderOptions) choose() (*publisher.Publication, error) {
	conf, err := o.load()
	if err != nil {
		return nil, err
	}
	return onePublication(conf, o.publication)
}

// onePublication returns the publication of the name, or the only one.
func onePublication(conf *config.Config, name string) (*publisher.Publication, error) {
	var names []string
	for i := range conf.Publications {
		p := &conf.Publications[i]
		if p.Name == name || name == "" && len(conf.Publications) == 1 {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return nil, fmt.Errorf("--publication %q: want one of %s", name, strings.Join(names, ", "))
}

func render(stdin io.Reader, stdout, stderr io.Writer, o *renderOptions, reports []string) error {
	made, err := makeOnce(stdin, o, reports)
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
	for _, name := range fileNames(made.Files) {
		path := filepath.Join(o.output, name)
		if err := renameio.WriteFile(path, []byte(made.Files[name]), 0o644); err != nil {
			return fmt.Errorf("write files: %w", err)
		}
		fmt.Fprintf(stdout, "wrote %s\n", path)
	}
	for _, name := range []string{"topology.yaml", "topology.conf", "gres.conf"} {
		if _, made := made.Files[name]; made {
			continue
		}
		if path := filepath.Join(o.output, name); exists(path) {
			fmt.Fprintf(stderr, "warning: %s is from before and was not written now; remove it if Slurm would read it (topology.yaml goes before topology.conf)\n", path)
		}
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// makeOnce reads nodes and reports and makes the files from them.
func makeOnce(stdin io.Reader, o *renderOptions, reports []string) (*publisher.Made, error) {
	pub, facts, previous, err := gatherOnce(stdin, o, reports)
	if err != nil {
		return nil, err
	}
	made, err := publisher.Make(pub, facts, previous)
	if err == nil && o.skeleton && len(made.Specs) > 0 {
		return made.Skeleton(pub)
	}
	return made, err
}

// gatherOnce reads nodes and reports, and the files in use.
func gatherOnce(stdin io.Reader, o *renderOptions, reports []string) (pub *publisher.Publication, facts publisher.Gathered, previous publisher.Previous, err error) {
	if pub, err = o.choose(); err != nil {
		return nil, facts, previous, err
	}
	if o.nodes == "" && len(reports) == 0 {
		return nil, facts, previous, errors.New("no input: want --nodes FILE (- for standard input), or reports as arguments")
	}
	snap, err := readSnapshot(stdin, o.nodes, reports)
	if err != nil {
		return nil, facts, previous, err
	}
	if o.previous != "" {
		text, err := os.ReadFile(o.previous)
		if err != nil {
			return nil, facts, previous, fmt.Errorf("read previous topology: %w", err)
		}
		if previous.Topology, err = slurmconf.Previous(o.previous, text); err != nil {
			return nil, facts, previous, fmt.Errorf("read previous topology: %w", err)
		}
	}
	pub.OfAnyNamespace()
	pub.ResourceSlices = true // where the input has them
	facts = publisher.Gather(pub, snap)
	if len(facts.Facts) == 0 && len(facts.Unnamed) == 0 {
		return nil, facts, previous, fmt.Errorf("no node: publication %q takes none of the input, see its keys nodes and slurmNames", pub.Name)
	}
	return pub, facts, previous, nil
}

// readSnapshot joins a list of nodes with reports. Reports alone are nodes too.
func readSnapshot(stdin io.Reader, nodes string, reports []string) (*publisher.Snapshot, error) {
	snap := &publisher.Snapshot{Reports: map[string]*topology.Node{}}
	if nodes != "" {
		var err error
		if snap, err = readNodes(stdin, nodes); err != nil {
			return nil, err
		}
	}
	listed := make(map[string]bool, len(snap.Nodes))
	for _, n := range snap.Nodes {
		listed[n.Name] = true
	}
	from := map[string]string{}
	for _, path := range reports {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read report: %w", err)
		}
		node, err := topology.ParseReport(path, data)
		if err != nil {
			return nil, err
		}
		if other, dup := from[node.Name]; dup {
			return nil, fmt.Errorf("%s and %s are both reports of node %q: give one of them", other, path, node.Name)
		}
		from[node.Name], snap.Reports[node.Name] = path, node
		if !listed[node.Name] {
			snap.Nodes = append(snap.Nodes, publisher.Node{Name: node.Name})
		}
	}
	return snap, nil
}

func readNodes(stdin io.Reader, name string) (*publisher.Snapshot, error) {
	if name == "-" {
		return publisher.ReadNodes("standard input", stdin)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read nodes: %w", err)
	}
	defer f.Close()
	return publisher.ReadNodes(name, f)
}

func fileNames(files map[string]string) []string {
	var names []string
	for name := range files {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(b, a) }) // topology before gres
	return names
}

// printFiles prints each file under a comment with its name, so that one file
// alone can be piped on as it is.
func printFiles(w io.Writer, files map[string]string) error {
	for i, name := range fileNames(files) {
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
