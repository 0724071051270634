package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/cmd/quoin/listing"
	"github.com/quoin-hpc/quoin/cmd/quoin/reports"
	"github.com/quoin-hpc/quoin/cmd/quoin/show"
	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/publisher"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/kube"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology"
)

// renderOptions are the flags of one-shot commands that make files.
type renderOptions struct {
	settings
	publication string
	nodes       string
	kubeconfig  string
	output      string // text or json
	dir         string
	previous    string
	skeleton    bool
}

// outputJSON is the value of --output for programs.
const outputJSON = "json"

// addFlags adds the flags that render has in common with map and check.
func (o *renderOptions) addFlags(cmd *cobra.Command, outputs ...string) {
	f := cmd.Flags()
	f.StringVar(&o.nodes, "nodes", "", "`file` with the output of kubectl get nodes -o json, or of nodes,nodereports,pods,resourceslices -A, - for standard input")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "`file` that says how to reach the API server: read the cluster in place of a file")
	cmd.MarkFlagsMutuallyExclusive("kubeconfig", "nodes")
	f.StringVar(&o.previous, "previous", "", "topology `file` in use; its names, order and base block size stay")
	f.StringVar(&o.publication, "publication", "", "`name` of the publication in the configuration; needed if there are several")
	o.settings.addFlags(cmd)
	o.fileFlags(cmd)
	outputFlag(cmd, &o.output, outputs...)
}

// cluster reads the configuration, and returns it with the publication of the name, or the only one.
func (s *settings) cluster(name string) (*config.Config, *publication.Cluster, error) {
	conf, err := s.load()
	if err != nil {
		return nil, nil, err
	}
	var names []string
	for _, p := range conf.Clusters() {
		if p.Name == name || name == "" && len(conf.Clusters()) == 1 {
			return conf, p, nil
		}
		names = append(names, p.Name)
	}
	if name == "" {
		return nil, nil, fmt.Errorf("the configuration has %d publications: choose one by --publication: %s", len(names), strings.Join(names, ", "))
	}
	return nil, nil, fmt.Errorf("--publication %q: want one of %s", name, strings.Join(names, ", "))
}

// seen is what files are made of.
type seen struct {
	conf *config.Config
	pub  *publication.Cluster
	snap *inputs.Snapshot
	in   inputs.Inputs
}

// render makes the files of nodes and reports, and returns what it made them of.
func (o *renderOptions) render(ctx context.Context, stdin io.Reader, paths []string) (*publisher.Rendered, *seen, error) {
	conf, pub, err := o.cluster(o.publication)
	if err != nil {
		return nil, nil, err
	}
	if o.skeleton {
		if !pub.Release.DynamicTopology() {
			return nil, nil, fmt.Errorf("skeleton: nodes of Slurm %s cannot join a topology when they register: want 25.05 or newer", pub.SlurmVersion)
		}
		pub.Membership, pub.Annotates = publication.MembershipAnnotation, true
	}
	if o.nodes == "" && o.kubeconfig == "" && len(paths) == 0 {
		return nil, nil, errors.New("no input: want --nodes FILE (- for standard input), --kubeconfig FILE, or reports as arguments")
	}
	snap := &inputs.Snapshot{Reports: map[string]*topology.Node{}}
	if o.nodes != "" || o.kubeconfig != "" {
		snap, err = o.readNodes(ctx, stdin, pub)
	}
	if err == nil {
		err = reports.Add(snap, paths)
	}
	if err != nil {
		return nil, nil, err
	}
	var previous publisher.Previous
	if o.previous != "" {
		text, err := os.ReadFile(o.previous)
		if err == nil {
			previous.Plan, err = slurmconf.ReadPlan(o.previous, text)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("read previous topology: %w", err)
		}
	}
	if len(snap.Nodes)+len(snap.Reports) == 0 {
		return nil, nil, errors.New("no node in the input: want the output of kubectl get nodes -o json from a cluster with nodes, or reports")
	}
	pub.Rules.FromLists()
	in := pub.Rules.Gather(snap)
	if len(in.Facts) == 0 && len(in.Unnamed) == 0 {
		return nil, nil, fmt.Errorf("no node: publication %q takes none of the input; see its keys nodes and slurmNames", pub.Name)
	}
	made, err := publisher.Make(pub, in, previous)
	if err == nil && o.skeleton {
		delete(made.Files, gresFile)
	}
	if err == nil {
		made.Problems = append(made.Problems, snap.Problems...)
	}
	return made, &seen{conf, pub, snap, in}, err
}

// errUnread says that a command did its work without some reports, and returns the exit code.
func errUnread(stderr io.Writer, made *publisher.Rendered) error {
	unread := len(reports.Unread(made.Problems))
	if unread == 0 {
		return nil
	}
	fmt.Fprintf(stderr, "not known: %d reports could not be read\n", unread)
	return show.NotKnown
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func (o *renderOptions) readNodes(ctx context.Context, stdin io.Reader, pub *publication.Cluster) (*inputs.Snapshot, error) {
	in, name, err := o.open(ctx, stdin, o.nodes, "kubectl get nodes -o json", listing.Nodes)
	if err != nil {
		return nil, fmt.Errorf("read nodes: %w", err)
	}
	defer func() { _ = in.Close() }()
	reader := inputs.ListReader{Keep: inputs.KeysOf(&pub.Rules), Slices: kube.ReadSlice}
	snap, err := reader.Read(name, in)
	return snap, listing.Cause(err)
}

// open opens lists of the cluster, if there is a kubeconfig, and else a file with the output of
// a command.
func (o *renderOptions) open(ctx context.Context, stdin io.Reader, name, command string, lists []string) (in io.ReadCloser, shown string, err error) {
	if o.kubeconfig == "" {
		return openInput(stdin, name, command)
	}
	rc, _, err := kubeClient(o.kubeconfig, "quoin", 50)
	if err == nil {
		in, err = listing.Open(ctx, rc, lists)
	}
	return in, "the cluster", err
}

// openInput opens a file with the output of a command, or standard input if name is a dash.
// shown names it in errors.
func openInput(stdin io.Reader, name, command string) (in io.ReadCloser, shown string, err error) {
	switch {
	case name == "-":
		return io.NopCloser(stdin), "standard input", nil
	case isDirectory(name):
		return nil, name, fmt.Errorf("%s is a directory: want a file with the output of %s", name, command)
	}
	in, err = os.Open(name)
	return in, name, err
}
