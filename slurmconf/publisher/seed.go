package publisher

import (
	"cmp"
	"context"
	"fmt"
	"maps"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/gres"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology"
)

// seedUnit is the block or switch without nodes that the seed has.
const seedUnit = "seed"

// seedOf returns the seed to publish, or nil if something else is published or the seed is there.
func (l *loop) seedOf(snap *inputs.Snapshot, mem *stored) (*plandoc.Published, error) {
	if !l.options.Seed || mem.doc.Current.Number > 0 {
		return nil, nil
	}
	set, why, err := seedSet(l.pub, snap, mem.set, mem.elsewhere)
	switch {
	case why == "":
		l.noSeed.Forget()
	case l.noSeed.IsNew(why):
		l.log.Info("files without nodes are not written first: Slurm gets its files with the first plan", "publication", l.pub.Name, "why", why)
	}
	return set, err
}

// seed publishes a seed, so that slurmctld can start.
func (l *loop) seed(ctx context.Context, act seed) error {
	l.log.Info("wrote files without nodes, so that slurmctld can start before there is a plan", "publication", l.pub.Name)
	_, err := l.archive.saveFiles(ctx, act.set)
	return err
}

// seedAtOnce publishes a seed before the first pass, if nothing is published. The first pass tries
// again what fails here.
func (l *loop) seedAtOnce(ctx context.Context) {
	snap, err := l.store.Snapshot(ctx)
	if err != nil {
		return
	}
	seen, _ := l.seenRelease(snap) // nobody waits for an answer, because slurmctld may wait for these files
	mem, unreadable, err := l.archive.recall(ctx, snap, seen)
	if err != nil || unreadable != nil {
		return
	}
	if set, err := l.seedOf(snap, mem); err == nil && set != nil {
		_ = l.seed(ctx, seed{set})
	}
}

// seedSet returns what to publish before there is a plan, or nil if what is there must stay:
// files that slurmctld can start with. Slinky's worker pods, which name the nodes, wait for
// slurmctld. slurmctld's pod waits for the ConfigMap. And a worker pod that registers without
// a gres.conf is drained. published may be nil. If no seed may be published, why says why not.
//
// There is no seed if the annotation of a Node that the publication selects names a place, and the
// place is not that of another publication: Slurm has nodes in units that the seed lacks. elsewhere
// are the Nodes of other publications. Releases without dynamic topology take no unit without
// nodes, and get no seed.
func seedSet(p *publication.Cluster, snap *inputs.Snapshot, published *plandoc.Published, elsewhere map[string]bool) (set *plandoc.Published, why string, err error) {
	old := published.Own()
	if !p.Release.Does(slurmconf.DynamicTopology) {
		return nil, "Slurm " + p.Release.String() + " takes no block without nodes", nil
	}
	if len(old) > 0 && published.Annotations[plandoc.AnnotationSeed] != plandoc.Digest(old) {
		return nil, fmt.Sprintf("%s has files that Quoin did not write; they stay until there is a plan", p.Place()), nil
	}
	rules := p.Rules.ByOwnNames() // pods may not be there yet
	for i := range snap.Nodes {
		n := &snap.Nodes[i]
		if spec := n.Annotations[plandoc.SpecAnnotation]; spec != "" && rules.Takes(n) && !elsewhere[n.Name] {
			return nil, fmt.Sprintf("Node %s has the annotation %s=%s, and is in no stored plan of another publication: Slurm may have it in %s, and files without nodes lack that; "+
				"if that Slurm and its stored plan are gone for good, remove the annotation", n.Name, plandoc.SpecAnnotation, spec, spec), nil
		}
	}
	files, err := seedFiles(p, snap)
	if err != nil || maps.Equal(old, files) {
		return nil, "", err
	}
	next := published.Clone()
	for _, name := range plandoc.OwnFiles {
		delete(next.Files, name)
	}
	maps.Copy(next.Files, files)
	next.Annotations[plandoc.AnnotationSeed] = plandoc.Digest(files)
	return next, "", nil
}

// seedFiles renders one unit without nodes, and the GPUs that all reports show.
func seedFiles(p *publication.Cluster, snap *inputs.Snapshot) (map[string]string, error) {
	// All Nodes that the selector takes, those too that Slinky's pods do not name yet.
	rules := p.Rules.ByOwnNames()
	facts := rules.Gather(snap).Facts
	names := slurmconf.NamesOf(p.Policy().ByLeaf, p.YAML)
	t := topology.Topology{Name: names.Blocks, Default: true, Kind: topology.KindBlock,
		Sizes: []int{cmp.Or(p.BaseBlockSize, 2)}, Blocks: []topology.Block{{Name: seedUnit}}}
	if treeOnly(p, facts) {
		t = topology.Topology{Name: names.Tree, Default: true, Kind: topology.KindTree, Switches: []topology.Switch{{Name: seedUnit}}}
	}
	plan := namedPods(p, snap)
	if len(plan.Gres) == 0 && plan.Detect == "" && !plan.AllNodes {
		// Pods have not said the names yet. slurmctld would drain a node that registers without its GPUs, until
		// somebody resumes the node.
		o := p.GresOptions()
		plan.Devices = o.ForAll(facts)
	}
	plan.Format, plan.Topologies = p.FileFormat(), []topology.Topology{t}
	return plan.Files()
}

// treeOnly reports whether the site will have a tree and no blocks, as far as is known.
func treeOnly(p *publication.Cluster, facts []topology.Facts) bool {
	if p.Topology != string(slurmconf.KindAuto) {
		return p.Topology == string(slurmconf.KindTree)
	}
	tiers := false
	for i := range facts {
		if f := &facts[i]; f.Report != nil && !f.Report.Domain.IsZero() && !f.Report.Domain.None || f.Labels.NamesDomain() {
			return false
		}
		tiers = tiers || len(facts[i].Tiers()) > 0 || len(p.FabricFiles) > 0 && facts[i].Report != nil && len(facts[i].Report.Adapters) > 0
	}
	return tiers
}

// namedPods returns a plan with the lines of gres.conf that the first plan will have for nodes that worker pods name
// already. The plan has none if no such node has GPUs. Slinky restarts worker pods when a Controller gets the files, and
// slurmctld drains a node that registers without its GPUs.
func namedPods(p *publication.Cluster, snap *inputs.Snapshot) (plan plandoc.Plan) {
	if p.Rules.BySlinky() {
		in := p.Rules.Gather(snap)
		plan.Nodes = make([]topology.Placement, len(in.Facts))
		plan.Devices, _ = gres.FromFacts(in.Facts, nil, p.GresOptions())
		linesByAnnotation(&plan, p, &gathered{Inputs: in})
	}
	return plan
}
