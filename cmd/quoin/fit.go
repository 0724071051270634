package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/quoin-hpc/quoin/cmd/quoin/session"
	"github.com/quoin-hpc/quoin/cmd/quoin/show"
	"github.com/quoin-hpc/quoin/slurmconf/fit"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld/client"
	"github.com/quoin-hpc/quoin/topology"
)

// fitOptions are the flags of quoin fit.
type fitOptions struct {
	freshOptions
	fit.Job
	topology, sinfo, exclusive string
}

func newFitCommand() *cobra.Command {
	var o fitOptions
	cmd := &cobra.Command{
		Use:   "fit [-N NODES] [PATH | --fresh | --nodes FILE]",
		Short: "Say whether a job fits into the topology now, later or never, and how many segments are free",
		Long: `fit says whether a job fits: now, not now, never or unknown. It follows the rules of
Slurm's topology plugins: blocks with their base block size and segments, and trees, where
all nodes of a job are below one switch. unknown says what is missing: which nodes are
free, or how many GPUs they have. Where fit has no rule, it prints the command that asks Slurm:
if Slurm must try a second place, for a job of several blocks or with --switches beside nodes
that are powered down, for nodes with different numbers of GPUs, for --spread-segments,
--consolidate-segments and --exclusive=topo. It also counts the free segments.

It reads the stored plan of a publication, or makes one with --fresh or from --nodes. With
PATH it reads topology files of any Slurm, of a directory or one file, if lint finds that
Slurm would start with them. Which nodes are free it takes from --sinfo, else from Slurm
(slurm.url or slurm.scontrol of the configuration), else from the conditions of Slinky's
worker pods.

A job here has whole nodes: a node with another job is not free. fit knows no partition,
priority, limit or time. A job that fits may still wait for these.

Exit status: 1 if the job does not fit now or can never fit; 3 if the answer is unknown, a
report cannot be read, or it is not known whether Slurm takes the files.`,
		Example: `  quoin fit
  quoin fit -N 64 --segment 16
  sinfo -h -N -o '%N %T %G' | quoin fit /etc/slurm --sinfo - -N 64 --segment 16
  sinfo -h -N -o '%N %T %G' | quoin fit --nodes nodes.json --sinfo - -N 36 --exclusive=topo`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.files = args[0]
			}
			return o.run(cmd)
		},
	}
	o.addFlags(cmd, "text", outputJSON)
	o.AddRelease(cmd)
	o.addFresh(cmd)
	f := cmd.Flags()
	f.IntVarP(&o.Nodes, "job-nodes", "N", 0, "`number` of nodes of the job")
	f.IntVar(&o.Segment, "segment", 0, "segment size in `nodes`")
	f.StringVar(&o.exclusive, "exclusive", "", "with the `word` topo, no other job may be in the job's blocks")
	f.Lookup("exclusive").NoOptDefVal = "node"
	show.Complete(cmd, "exclusive", cobra.ShellCompDirectiveNoFileComp, "topo")
	f.BoolVar(&o.Consolidate, "consolidate-segments", false, "all segments are in the smallest aggregate that is large enough")
	f.BoolVar(&o.Spread, "spread-segments", false, "no two segments are in one base block")
	f.IntVar(&o.Switches, "switches", 0, "most leaf `switches` of a tree that the job uses")
	f.IntVar(&o.GPUs, "gpus-per-node", 0, "minimum `GPUs` per node")
	f.StringVar(&o.topology, "topology", "", "`name` of the partition's topology; default: the one of partitions that name none")
	f.StringVar(&o.sinfo, "sinfo", "", "`file` with the states of nodes: sinfo -N, or scontrol --json show nodes; - for standard input")
	return cmd
}

func (o *fitOptions) run(cmd *cobra.Command) error {
	if o.exclusive != "" && o.exclusive != "topo" && o.exclusive != "node" {
		return fmt.Errorf("--exclusive=%s: want topo, or nothing", o.exclusive)
	}
	for _, name := range []string{"job-nodes", "segment", "switches", "gpus-per-node"} {
		if f := cmd.Flags().Lookup(name); f.Changed && (f.Value.String() == "0" || f.Value.String()[0] == '-') {
			return fmt.Errorf("--%s %s: want 1 or more", name, f.Value)
		}
	}
	if err := o.checkInput("sinfo", o.sinfo); err != nil {
		return err
	}
	o.Exclusive = o.exclusive == "topo"
	p, err := o.plan(cmd)
	if err != nil {
		return err
	}
	if err := o.states(cmd, p); err != nil {
		return err
	}
	sayGuess(cmd.ErrOrStderr(), p.pub, "the answer is by the rules of Slurm %s")
	answer, err := p.ask(&o.Job, o.topology)
	if err != nil {
		return err
	}
	if o.output == outputJSON {
		err = show.JSON(cmd.OutOrStdout(), answer)
	} else {
		answer.Print(cmd.OutOrStdout(), time.Now())
	}
	if err != nil {
		return err
	}
	return answer.Code().AsError()
}

// plan returns the topologies of PATH, else of the stored plan, else of a plan that it makes.
func (o *fitOptions) plan(cmd *cobra.Command) (p *fitPlan, err error) {
	w, err := o.open(cmd, nil, "a path of Slurm's files, or --nodes FILE (- for standard input)")
	if err != nil {
		return nil, err
	}
	workers := func() (*inputs.Snapshot, error) { return w.Workers(cmd.Context()) }
	switch {
	case o.files != "":
		read, err := readTopologies(o.files, w.pub)
		if err == nil && len(read.trouble) > 0 {
			fmt.Fprintf(cmd.ErrOrStderr(), "quoin: where a job fits is not known, because %s\n", read.trouble[0].Message)
			err = show.NotKnown
		}
		if err == nil {
			err = o.checkNamed(&read.Plan, w.pub)
		}
		if err != nil {
			return nil, err
		}
		p = newFitPlan(w.pub, read.Topologies, read.Nodes)
		p.future = read.future
	case w.Store != nil && !o.fresh:
		doc, err := w.Plan(cmd.Context(), w.pub.Name)
		if err != nil {
			return nil, err
		}
		stored := &doc.Current.Plan
		w.pub.Follow(0, stored)
		p = newFitPlan(w.pub, stored.Topologies, stored.Nodes)
		p.devices(stored)
	default:
		made, err := o.makeFresh(w)
		if err != nil {
			return nil, err
		}
		p = newFitPlan(w.pub, made.FilePlan.Topologies, made.Plan.Nodes)
		options := w.pub.GresOptions()
		p.facts(options.Without(made.Judged))
		p.source.Unread = session.Unread(made.FilePlan.Problems)
		workers = func() (*inputs.Snapshot, error) { return made.snap, nil }
	}
	p.workers = workers
	return p, nil
}

// checkNamed refuses files that name no node, unless a flat topology has the nodes that Slurm names.
func (o *fitOptions) checkNamed(plan *topology.Plan, pub *publication.Cluster) error {
	for _, u := range plan.Units() {
		if len(u.Nodes) > 0 {
			return nil
		}
	}
	if slices.ContainsFunc(plan.Topologies, func(t topology.Topology) bool { return t.Kind != topology.KindFlat }) {
		return fmt.Errorf("%s: no block and no switch has nodes: nodes tell Slurm their places when they register, so the files do not say where a job fits", o.files)
	}
	if len(plan.Nodes) == 0 && o.sinfo == "" && slurmOnce(pub) == nil {
		return fmt.Errorf("%s: a flat topology names no nodes: give --sinfo FILE", o.files)
	}
	return nil
}

// states asks who knows which nodes are free: the file, Slurm, or Slinky's pods.
func (o *fitOptions) states(cmd *cobra.Command, p *fitPlan) error {
	if o.sinfo != "" {
		in, name, err := session.OpenInput(cmd.InOrStdin(), o.sinfo, "sinfo -N")
		if err != nil {
			return fmt.Errorf("read states: %w", err)
		}
		defer func() { _ = in.Close() }()
		return p.sinfo(name, in)
	}
	if slurm := slurmOnce(p.pub); slurm != nil {
		a := slurm.Newer(cmd.Context(), client.Question{Loaded: true, Nodes: true, Reservations: true}, time.Now())
		if a.Err != nil {
			return fmt.Errorf("ask Slurm which nodes are free: %w; --sinfo takes the output of sinfo -N instead", a.Err)
		}
		p.live(&a.State, "Slurm", a.Asked.Nodes)
		if a.State.Release != 0 {
			p.pub.Follow(a.State.Release, nil)
		}
		return nil
	}
	snap, err := p.workers()
	if err == nil {
		p.pods(snap)
	}
	return err
}
