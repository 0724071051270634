package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/quoin-hpc/quoin/cmd/quoin/session"
	"github.com/quoin-hpc/quoin/cmd/quoin/show"
	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/publisher"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/cables"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/slurmconf/syntax"
	"github.com/quoin-hpc/quoin/topology"
)

// freshOptions are the flags of commands that make a plan and its files. They make them of nodes and
// reports that are given, or else of a cluster or a directory.
type freshOptions struct {
	session.Flags
	// files is a path of Slurm's files, which a command took as an argument. Then no plan is made.
	files    string
	nodes    string
	output   string // text or json
	previous string
	fresh    bool // set by commands that otherwise take what is published
	skeleton bool
	// ibnetdiscover are files with the cables of fabrics.
	ibnetdiscover []string
}

// outputJSON is the value of --output for programs.
const outputJSON = "json"

func (o *freshOptions) addFlags(cmd *cobra.Command, outputs ...string) {
	cmd.Flags().StringVar(&o.nodes, "nodes", "", "`file` with the output of kubectl get nodes -o json, or of nodes,nodereports,pods,resourceslices -A, - for standard input")
	o.Add(cmd)
	o.AddSources(cmd)
	show.AddOutput(cmd, &o.output, outputs...)
	exclude(cmd, "nodes", sourceFlags...)
}

// addFileFlags adds the flags that say what files are made.
func (o *freshOptions) addFileFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.previous, "previous", "", "topology `file` in use: keep its names, order and base block size; default: the stored plan")
	o.AddFiles(cmd)
}

// addFresh adds the flag --fresh of commands that otherwise take what is published.
func (o *freshOptions) addFresh(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.fresh, "fresh", false, "make a new plan of the cluster or directory; default: what is published there")
	exclude(cmd, "fresh", "nodes")
}

// checkInput refuses a file that a flag names if both that and --nodes are standard input.
func (o *freshOptions) checkInput(flag, file string) error {
	if file == "-" && o.nodes == "-" {
		return fmt.Errorf("--%s - and --nodes -: standard input holds one of them; give a file for the other", flag)
	}
	return nil
}

// sourceFlags are the flags that name a cluster or a directory.
var sourceFlags = []string{"store", "kubeconfig", "context"}

// exclude says that a flag goes with none of the others.
func exclude(cmd *cobra.Command, name string, others ...string) {
	for _, other := range others {
		cmd.MarkFlagsMutuallyExclusive(name, other)
	}
}

// given reports whether files, nodes, reports or cables are given, so that no cluster is asked.
func (o *freshOptions) given(paths []string) bool {
	return o.files != "" || o.nodes != "" || len(paths) > 0 || len(o.ibnetdiscover) > 0
}

// opened is what a command works on.
type opened struct {
	*session.Session
	cmd *cobra.Command
	// pub is the publication that the command is about.
	pub *publication.Cluster
	// reports are the paths of the reports that are given.
	reports []string
}

// open opens what a command works on. It refuses flags that name something else to read than the arguments do.
func (o *freshOptions) open(cmd *cobra.Command, reports []string, other string) (*opened, error) {
	local := o.given(reports)
	arguments, others := "reports", append([]string{"fresh"}, sourceFlags...)
	if o.files != "" {
		arguments, others = o.files+", which is read as Slurm's", append(others, "nodes", "previous", "ibnetdiscover")
	}
	for _, name := range others {
		if local && cmd.Flags().Changed(name) {
			return nil, fmt.Errorf("--%s beside %s: want one of them", name, arguments)
		}
	}
	s, err := openSession(cmd, &o.Flags, local, other)
	if err != nil {
		return nil, err
	}
	pub, err := s.Publication()
	return &opened{s, cmd, pub, reports}, err
}

// openSession opens a local session for what is given, or else a cluster or a directory. other names
// what the command takes in place of these.
func openSession(cmd *cobra.Command, flags *session.Flags, local bool, other string) (*session.Session, error) {
	if local {
		return flags.OpenLocal(cmd.ErrOrStderr())
	}
	s, err := flags.Open(cmd.Context(), cmd.ErrOrStderr())
	if errors.Is(err, session.ErrNoCluster) {
		err = fmt.Errorf("%w; or give %s", err, other)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// nodesOrReports are what render takes in place of a cluster. map, lint and check take files too.
const (
	nodesOrReports = "--nodes FILE (- for standard input), or reports as arguments"
	filesOrThese   = "a path of Slurm's files, " + nodesOrReports
)

// fresh is a plan that was made, its files, and what it was made of.
type fresh struct {
	*publisher.Rendered
	pub  *publication.Cluster
	snap *inputs.Snapshot
	in   inputs.Inputs
}

// makeFresh makes a plan and its files of nodes, reports and cables: those that are given, or those of the store.
func (o *freshOptions) makeFresh(w *opened) (*fresh, error) {
	texts, err := o.readCables(w.cmd.InOrStdin())
	if err != nil {
		return nil, err
	}
	snap, err := o.snapshot(w)
	if err != nil {
		return nil, err
	}
	previous, err := o.previousPlan(w)
	if err != nil {
		return nil, err
	}
	pub := w.pub
	if o.skeleton {
		if !pub.Release.Does(slurmconf.DynamicTopology) {
			return nil, fmt.Errorf("skeleton: nodes of Slurm %s cannot join a topology when they register: want 25.05 or newer", pub.Release)
		}
		pub.Membership, pub.Annotates = publication.MembershipAnnotation, true
	}
	var described *cableTexts
	if len(texts) > 0 {
		if described, err = describe(texts, snap, o.nodes == "" && len(w.reports) == 0); err != nil {
			return nil, err
		}
	}
	if len(snap.Nodes)+len(snap.Reports) == 0 {
		return nil, errors.New("no node in the input: want the output of kubectl get nodes -o json from a cluster with nodes, or reports")
	}
	in := pub.Rules.Gather(snap)
	if len(in.Facts) == 0 && len(in.Unnamed) == 0 {
		return nil, fmt.Errorf("no node: publication %q takes none of the input; see its keys nodes and slurmNames", pub.Name)
	}
	if described != nil {
		if others := described.addTo(&in); len(others) > 0 {
			fmt.Fprintf(w.cmd.ErrOrStderr(), "quoin: hosts in the fabric that are not among the nodes: %s\n", hostlist.Shorten(hostlist.Compress(others)))
		}
	}
	made, err := publisher.Make(pub, in, previous)
	if err != nil {
		return nil, err
	}
	if o.skeleton {
		delete(made.Files, gresFile)
		if len(made.Files) == 0 && made.Refused == "" {
			made.Refused, made.Message = publisher.ReasonNothingToPublish, "no node is in a block or switch: there is no skeleton"
		}
	}
	// As in a stored plan. Whether slurmd finds the GPUs is a question about gres.conf, which a map does not show.
	made.Plan.Problems = slices.DeleteFunc(slices.Clone(made.FilePlan.Problems), func(f topology.Finding) bool { return f.Reason == syntax.ReasonNotJudged })
	made.FilePlan.Problems = append(made.FilePlan.Problems, snap.Problems...)
	return &fresh{made, pub, snap, in}, nil
}

// snapshot reads nodes and reports.
func (o *freshOptions) snapshot(w *opened) (*inputs.Snapshot, error) {
	if w.Store != nil {
		return w.Store.Snapshot(w.cmd.Context())
	}
	snap := &inputs.Snapshot{Reports: map[string]*topology.Node{}}
	if o.nodes != "" {
		var err error
		if snap, err = w.ReadNodes(w.cmd.InOrStdin(), o.nodes); err != nil {
			return nil, err
		}
	}
	snap.Fabrics = cables.NewReader(publication.FabricFiles(w.Config.Clusters()), nil).Read()
	return snap, session.AddReports(snap, w.reports)
}

// previousPlan returns what the plan continues from: the file of --previous, or the stored plan.
func (o *freshOptions) previousPlan(w *opened) (previous publisher.Previous, err error) {
	if o.previous != "" {
		text, err := os.ReadFile(o.previous)
		if err == nil {
			previous.Plan, err = slurmconf.ReadPlan(o.previous, text)
		}
		if err != nil {
			return previous, fmt.Errorf("read previous topology: %w", show.Unopened(err, o.previous, "a topology.conf or topology.yaml"))
		}
		return previous, nil
	}
	if w.Store == nil {
		return previous, nil
	}
	doc, err := w.Store.LoadPlan(w.cmd.Context(), w.pub.Name)
	if err != nil || doc == nil {
		return previous, err
	}
	w.pub.Follow(0, &doc.Current.Plan)
	previous = publisher.ReadPlan(w.pub, &doc.Current.Plan)
	previous.Groups = doc.Groups
	return previous, nil
}

// sayNames says that nodes may have other names in Slurm.
func (f *fresh) sayNames(stderr io.Writer) {
	if hint := f.pub.Rules.OverrideHint(&f.in); hint != "" {
		fmt.Fprintln(stderr, hint)
	}
}

// sayGuess names the release that a result is for, if the release that runs is not known.
func sayGuess(stderr io.Writer, pub *publication.Cluster, result string) {
	if pub.Guesses() {
		fmt.Fprintf(stderr, result+", because no release is given: --slurm-version names another\n", pub.Release)
	}
}

// errUnread says that a command did its work without some reports, and returns the exit code.
func errUnread(stderr io.Writer, problems []topology.Finding) error {
	unread := len(session.Unread(problems))
	if unread == 0 {
		return nil
	}
	fmt.Fprintf(stderr, "not known: %d reports could not be read\n", unread)
	return show.NotKnown
}
