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

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/publisher"
	"github.com/quoin-hpc/quoin/topology"
)

// renderOptions are the flags of commands that make files from facts once.
type renderOptions struct {
	nodes    string
	output   string
	previous string
	skeleton bool
	pub      publisher.Publication
}

func newRenderCommand() *cobra.Command {
	var o renderOptions
	cmd := &cobra.Command{
		Use:   "render (--nodes FILE|- | REPORT.json...)",
		Short: "Show the Slurm files of a cluster, from its node labels or reports, with nothing installed",
		Long: `render prints topology.conf or topology.yaml, and gres.conf, made from the
labels of a cluster's nodes or from reports of quoin agent. Nodes that are in no
block or switch are listed on stderr with the reason.

With --skeleton the topology file has every block, and of a tree the roots, but no
node: for nodes that register dynamically and name their place by themselves or get
it from Slinky. Slurm makes the switches below a root when a node names them.

With --slurm-conf there is a fragment of slurm.conf too, slurm-nodes.conf, for sites
that list their nodes: NodeName with sockets, cores and Gres, GresTypes, and beside
topology.conf TopologyPlugin. gres.conf then has Cores, which Slurm 26.05 takes only
when slurm.conf has the sockets that the nodes have.`,
		Example: `  kubectl get nodes -o json | quoin render --nodes -
  quoin render --slurm-conf --output DIR REPORT.json...
  quoin render --format conf --slurm-version 24.11 --output DIR REPORT.json...`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return render(cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr(), &o, args)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.nodes, "nodes", "", "`file` with the output of kubectl get nodes -o json, or of nodes,pods,resourceslices -A, - for standard input")
	f.StringVar(&o.output, "output", "", "write the files into this `directory` instead of printing them")
	f.StringVar(&o.previous, "previous", "", "topology `file` in use, whose names, order and base block size stay")
	f.BoolVar(&o.skeleton, "skeleton", false, "leave nodes and gres.conf out, for nodes that register dynamically (Slurm 25.05 and newer)")
	f.BoolVar(&o.pub.SlurmConf, "slurm-conf", false, "add "+slurmconf.SlurmNodesFile+", a fragment of slurm.conf for static nodes")
	addPublicationFlags(cmd, &o.pub)
	addGresFlags(cmd, &o.pub.Gres)
	return cmd
}

// addPublicationFlags adds the flags that say how a publication is made.
func addPublicationFlags(cmd *cobra.Command, p *publisher.Publication) {
	d := publisher.DefaultPublication()
	f := cmd.Flags()
	f.StringVar(&p.Format, "format", "", "conf (topology.conf) or yaml (topology.yaml, Slurm 25.05 and newer); default "+d.Format+", or conf for an older release")
	f.StringVar(&p.SlurmVersion, "slurm-version", d.SlurmVersion, "Slurm release that loads the files: "+strings.Join(releaseNames(), ", "))
	f.StringVar(&p.Topology, "kind", d.Topology, "block, tree, or auto: blocks where there are NVLink domains")
	f.StringVar(&p.SlurmNames, "slurm-names", d.SlurmNames, "how Slurm names a node: short (up to the first dot), full, label:KEY, annotation:KEY, s/REGEXP/REPLACEMENT/ (which the whole name must match), slinky or slinky:CONTROLLER (by its pods: kubectl get nodes,pods -A -o json)")
	f.StringVar(&p.Nodes.Selector, "selector", "", "label selector of the nodes to take; default all")
	f.StringSliceVar(&p.DomainLabels, "domain-labels", nil, "node labels that name the NVLink domain beside nvidia.com/gpu.clique, the first to be followed first; default auto: all that are known")
	f.StringSliceVar(&p.TierLabels, "tier-labels", nil, "node labels that name the switches above a node, nearest first; default auto: those of the known source that most nodes carry")
	f.IntVar(&p.BaseBlockSize, "base-block-size", 0, "first of Slurm's BlockSizes; default: chosen from the domains")
	f.IntSliceVar(&p.BlockSizes, "block-sizes", nil, "further BlockSizes, each the base times a power of two")
	f.IntVar(&p.MinBlockNodes, "min-block-nodes", 0, "nodes from which an NVLink domain becomes a block; default 2")
	f.StringVar(&p.BlocksBy, "blocks-by", d.BlocksBy, "what makes a block: nvlink (the NVLink domain), or leaf (the nearest switch)")
	f.IntVar(&p.ParentBlocks, "parent-blocks", 0, "blocks in a domain above them, such as racks in a scalable unit, which stay together: a power of two; default none")
	f.StringVar(&p.Unplaced.Block, "unplaced-block", d.Unplaced.Block, "nodes that get a block of their own where they fit in none: none, gpus or all")
	f.StringVar(&p.Unplaced.Switch, "unplaced-switch", d.Unplaced.Switch, "nodes that get a leaf switch of their own where none is known: none, gpus or all")
	f.StringVar(&p.DefaultTopology, "default-topology", "", "topology of partitions that name none: nvl, leaf, fabric or flat; default: the first there is")
	f.BoolVar(&p.FlatTopology, "flat-topology", false, "add a topology that knows no places, for partitions without GPUs")
}

func releaseNames() []string {
	var names []string
	for _, r := range slurmconf.Releases() {
		names = append(names, r.String())
	}
	return names
}

// completeFlags fills in what the flags of addPublicationFlags leave out. Its
// errors name them.
func completeFlags(p *publisher.Publication) (*publisher.Publication, error) {
	settleFormat(p)
	pubs, err := publisher.Complete([]publisher.Publication{*p})
	if err != nil {
		return nil, nameFlags(err)
	}
	return &pubs[0], nil
}

// flagOf has the flags of addPublicationFlags by the keys that they set.
var flagOf = map[string]string{
	"format": "--format", "slurmVersion": "--slurm-version", "topology": "--kind", "slurmNames": "--slurm-names", "nodes.selector": "--selector",
	"domainLabels": "--domain-labels", "tierLabels": "--tier-labels", "baseBlockSize": "--base-block-size", "blockSizes": "--block-sizes", "minBlockNodes": "--min-block-nodes",
	"blocksBy": "--blocks-by", "parentBlocks": "--parent-blocks", "unplaced.block": "--unplaced-block", "unplaced.switch": "--unplaced-switch",
	"defaultTopology": "--default-topology", "flatTopology": "--flat-topology",
	"gres.naming": "--gres-naming", "gres.types": "--gres-types", "gres.autoDetect": "--gres-autodetect",
}

// nameFlags puts flags in the place of a publication's keys.
func nameFlags(err error) error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return err
	}
	var out []error
	for _, e := range joined.Unwrap() {
		var field *publisher.FieldError
		if errors.As(e, &field) && flagOf[field.Key] != "" {
			e = fmt.Errorf("%s: %s", flagOf[field.Key], field.Message)
		}
		out = append(out, e)
	}
	return errors.Join(out...)
}

// settleFormat chooses the format that the release takes, where none was asked
// for.
func settleFormat(p *publisher.Publication) {
	if p.Format != "" {
		return
	}
	if r, err := slurmconf.ParseRelease(p.SlurmVersion); err == nil && !r.YAML() {
		p.Format = "conf"
	}
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
	for _, name := range []string{"topology.yaml", "topology.conf", "gres.conf", slurmconf.SlurmNodesFile} {
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
	if o.skeleton && o.pub.SlurmConf {
		return nil, errors.New("--skeleton and --slurm-conf: want one of them, for nodes register dynamically or are listed in slurm.conf")
	}
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
	if pub, err = completeFlags(&o.pub); err != nil {
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
		return nil, facts, previous, errors.New("no node: the input has none that --selector and --slurm-names take")
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
