package page

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/slurmconf/publisher"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/nodestatus"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/occupancy"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/fabric"
	"github.com/quoin-hpc/quoin/topology/picture"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// Store has the facts and the stored plans. Every replica of the publisher has one.
type Store interface {
	Snapshot(ctx context.Context) (*inputs.Snapshot, error)
	LoadPlan(ctx context.Context, publication string) (*plandoc.Document, error)
}

// States are a store's words for the state of nodes, by their names in Kubernetes.
type States interface {
	SlurmStates(namespaces []string) map[string]string
}

// Live says what is known of the running Slurm of a publication.
type Live interface {
	// Seen returns what was last seen, with the jobs judged by the published topologies.
	Seen(ctx context.Context, publication string, published []topology.Topology) occupancy.View
	Jobs
}

// Jobs says more of a running job than Seen does: the indices of its GPUs by node. It may ask
// Slurm, and wait for the answer. The error of a job that does not run is client.ErrNoJob.
type Jobs interface {
	JobGPUs(ctx context.Context, publication, id string) (map[string]string, error)
}

// errNobody is the error if nobody can be asked about jobs.
var errNobody = errors.New("no Slurm can be asked which jobs run")

// StoreSource draws what a store holds.
type StoreSource struct {
	store    Store
	clusters []*publication.Cluster
	live     Live // or nil
	hosts    *imex.Hosts
	passes   []*publisher.DryPass // beside clusters
}

// NewSource returns a source of the clusters. live may be nil: then no job is known. hosts judges
// IMEX on a site without Kubernetes, and is nil otherwise.
func NewSource(store Store, clusters []*publication.Cluster, live Live, hosts *imex.Hosts) *StoreSource {
	s := &StoreSource{store: store, clusters: clusters, live: live, hosts: hosts}
	for i := range clusters {
		s.passes = append(s.passes, publisher.NewDryPass(clusters, i))
	}
	return s
}

// Publications are the names of the clusters.
func (s *StoreSource) Publications() []string {
	var names []string
	for _, c := range s.clusters {
		names = append(names, c.Name)
	}
	return names
}

// JobGPUs says which GPUs a job has.
func (s *StoreSource) JobGPUs(ctx context.Context, publication, id string) (map[string]string, error) {
	if s.live == nil {
		return nil, errNobody
	}
	return s.live.JobGPUs(ctx, publication, id)
}

// Site reads plan and facts.
func (s *StoreSource) Site(ctx context.Context, name string) (*picture.Site, error) {
	i := slices.IndexFunc(s.clusters, func(c *publication.Cluster) bool { return c.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("no publication %q", name)
	}
	c := s.clusters[i]
	snap, err := s.store.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	site := &picture.Site{Publication: name}
	doc, err := s.store.LoadPlan(ctx, name)
	switch {
	case errors.Is(err, plandoc.ErrUnreadable):
		site.Trouble = append(site.Trouble, topology.Cut(err.Error(), topology.MaxMessage))
		fallthrough
	case err == nil && doc == nil:
		doc = plandoc.New(name, c.Place().String())
	case err != nil:
		return nil, err
	}
	if doc.Current.Number == 0 {
		site.Trouble = append(site.Trouble, NothingPublished)
	}
	in := c.Rules.Gather(snap)
	c.FabricSite(&doc.Current.Plan.Plan, doc.FabricSince).Judge(in.Facts, in.UnnamedFacts) // the plan of now has the findings
	site.Plan = planOf(&doc.Current.Plan.Plan, &in)
	if now, err := s.passes[i].Plan(snap, doc, time.Now()); err == nil {
		update(site.Plan, now)
	} else {
		site.Trouble = append(site.Trouble, fmt.Sprintf("what is wrong now is not known: %s; problems and reasons of nodes are those of revision %d of %s",
			topology.Cut(err.Error(), topology.MaxMessage), doc.Current.Number, plandoc.SinceText(doc.Current.Time)))
	}
	changes := changesOf(doc)
	site.Facts, site.Held = factsOf(site.Plan, &in), heldOf(doc.Held, &changes)
	if states, ok := s.store.(States); ok {
		pods := states.SlurmStates(c.Rules.PodNamespaces())
		for name, n := range in.Nodes {
			if state := pods[n.Name]; state != "" {
				in.States[name] = state
			}
		}
	}
	k := Known{Snapshot: snap, Inputs: &in, Slurm: s.live, Published: doc.Current.Plan.Topologies, Hosts: s.hosts, Moved: movedIn(&changes, &in), Fabrics: publication.AnyFabrics(s.clusters)}
	k.AddTo(ctx, site)
	return site, nil
}

// NothingPublished is the trouble of a site without a stored plan.
const NothingPublished = "nothing is published yet: nodes have no place"

// Known is what is known of a site beside its plan.
type Known struct {
	Snapshot *inputs.Snapshot
	Inputs   *inputs.Inputs
	// Slurm may be nil: then no job is known. Published are the topologies that jobs are judged by.
	Slurm     Live
	Published []topology.Topology
	// Fresh says that the plan was made just now: nothing is published that a place could agree with.
	Fresh bool
	// Hosts judges IMEX on a site without Kubernetes. It is nil otherwise.
	Hosts *imex.Hosts
	// Fabrics judges the NVLink fabrics of nodes that the publication does not take.
	Fabrics *fabric.Site
	// Moved names nodes whose published place is not the planned one.
	Moved []topology.Finding
}

// last says what is shown of a Slurm that does not answer.
func last(s *occupancy.View) string {
	switch {
	case s.Asked.IsZero():
		return ""
	case s.Nodes == nil:
		return "; its last answer is too old to be shown: it was asked at " + s.Asked.UTC().Format(time.RFC3339)
	}
	return "; what is shown was asked at " + s.Asked.UTC().Format(time.RFC3339)
}

// AddTo adds to a site what Kubernetes and Slurm say of its nodes, the running jobs, and the free
// segments.
func (k *Known) AddTo(ctx context.Context, site *picture.Site) {
	in := k.Inputs
	var slurm occupancy.View
	if k.Slurm != nil {
		slurm = k.Slurm.Seen(ctx, site.Publication, k.Published)
		for i := range slurm.Jobs {
			if j, ok := drawn(&slurm.Jobs[i]); ok {
				site.Jobs = append(site.Jobs, j)
			}
		}
		if !slurm.Asked.IsZero() && slurm.Nodes != nil {
			site.Asked = slurm.Asked.UTC().Format(time.RFC3339)
		}
		if slurm.Err != nil {
			site.Trouble = append(site.Trouble, "Slurm does not answer: "+topology.Cut(slurm.Err.Error(), topology.MaxMessage)+last(&slurm))
		}
	}
	fabrics := nodestatus.Fabrics(k.Snapshot, k.Fabrics, fabric.Verdicts(site.Facts, in.UnnamedFacts))
	judged := nodestatus.Judge(k.Snapshot, site.Plan, fabrics, k.Hosts, k.Moved)
	site.Said = make(map[string]picture.Said, len(site.Plan.Nodes))
	for i := range site.Plan.Nodes {
		name := site.Plan.Nodes[i].SlurmName
		says := picture.Said{Slurm: cmp.Or(slurm.Nodes[name].State, in.States[name]), Why: why(slurm.Nodes[name])}
		if n := in.Nodes[name]; n != nil {
			conditions := n.Conditions
			if len(conditions) == 0 {
				conditions = judged[n.Name]
			}
			says.IMEX, says.Drift, says.Fabric = verdict(conditions, nodestatus.ConditionIMEX), verdict(conditions, nodestatus.ConditionDrift), verdict(conditions, nodestatus.ConditionFabric)
			if k.Fresh && len(n.Conditions) == 0 && !says.Drift.Wrong {
				says.Drift = picture.Verdict{}
			}
		}
		if says != (picture.Said{}) {
			site.Said[name] = says
		}
	}
	Count(site)
}

// planOf returns a stored plan with the nodes that it does not know yet.
func planOf(stored *topology.Plan, in *inputs.Inputs) *topology.Plan {
	plan := *stored
	placed := make(map[string]topology.Placement, len(stored.Nodes))
	for name := range stored.Places() { // a plan that is too large to store has no nodes
		placed[name] = topology.Placement{Node: name, SlurmName: name, Reason: placement.ReasonPlaced}
	}
	for _, n := range stored.Nodes {
		placed[n.SlurmName] = n
	}
	for i := range in.Facts {
		f := &in.Facts[i]
		if _, known := placed[f.SlurmName]; !known {
			placed[f.SlurmName] = topology.Placement{Node: f.Name, SlurmName: f.SlurmName, Reason: notPublished, Message: "the node is seen, and in no published plan yet"}
		}
	}
	plan.Nodes = make([]topology.Placement, 0, len(placed))
	for _, name := range slices.Sorted(maps.Keys(placed)) {
		plan.Nodes = append(plan.Nodes, placed[name])
	}
	return &plan
}

// update gives a published plan the problems of now, and the reasons of the nodes whose published place is
// the right one now. Any other node keeps the reason of its published place.
func update(plan, now *topology.Plan) {
	plan.Problems = now.Problems
	placements := make(map[string]topology.Placement, len(now.Nodes))
	for _, n := range now.Nodes {
		placements[n.SlurmName] = n
	}
	want, published := now.Places(), plan.Places()
	for i := range plan.Nodes {
		name := plan.Nodes[i].SlurmName
		if n, known := placements[name]; known && want[name] == published[name] {
			plan.Nodes[i] = n
		}
	}
}

// notPublished is why a node has no place that no plan knows yet.
const notPublished = "NotPublished"

// factsOf are the facts of all nodes of the plan. A node without any is gone.
func factsOf(plan *topology.Plan, in *inputs.Inputs) []topology.Facts {
	known := make(map[string]bool, len(in.Facts))
	for i := range in.Facts {
		known[in.Facts[i].SlurmName] = true
	}
	facts := in.Facts
	for i := range plan.Nodes {
		if pl := &plan.Nodes[i]; !known[pl.SlurmName] {
			facts = append(facts, topology.Facts{Name: pl.Node, SlurmName: pl.SlurmName, Gone: true})
		}
	}
	return facts
}

// maxDifferences bounds the differences of a held change that are listed.
const maxDifferences = 200

// changesOf are what would change if nothing was held.
func changesOf(doc *plandoc.Document) plandoc.Changes {
	if doc.Wanted == nil {
		return plandoc.Changes{}
	}
	return plandoc.Diff(&doc.Current.Plan, doc.Wanted)
}

// heldOf says what is held, and what would change.
func heldOf(held []plandoc.Held, changes *plandoc.Changes) *picture.Held {
	if len(held) == 0 {
		return nil
	}
	out := &picture.Held{}
	for _, h := range held {
		out.Holds = append(out.Holds, picture.Hold{Reason: h.Reason, Message: h.Message, Since: plandoc.SinceText(h.Since), Digest: h.Digest, Waits: h.Waits, Alone: h.Alone, Ends: h.Ends()})
	}
	out.Differences = append(changes.Sentences(plandoc.ShortList), changes.Units...)
	if len(changes.Devices) > 0 {
		out.Differences = append(out.Differences, changes.OfDevices())
	}
	if more := len(out.Differences) - maxDifferences; more > 0 {
		out.Differences = append(out.Differences[:maxDifferences], fmt.Sprintf("and %d more: quoin plan diff lists all", more))
	}
	return out
}

// movedIn names the nodes that a held change would move.
func movedIn(changes *plandoc.Changes, in *inputs.Inputs) (out []topology.Finding) {
	for i := range changes.Moves {
		if n := in.Nodes[changes.Moves[i].Node]; n != nil {
			out = append(out, topology.Finding{Subject: topology.Subject{Node: n.Name}, Reason: nodestatus.ReasonPublishedDiffers, Message: changes.Moves[i].String()})
		}
	}
	return out
}

// why says in Slurm's words why a node takes no job, or who has it.
func why(n slurmctld.Node) string {
	if n.Reservation != "" {
		return strings.TrimPrefix(n.Reason+"; reservation "+n.Reservation, "; ")
	}
	return n.Reason
}

// verdict is what a condition says.
func verdict(of map[string]inputs.Condition, condition string) picture.Verdict {
	c := of[condition]
	return picture.Verdict{Wrong: c.True, Reason: c.Reason, Message: c.Message}
}
