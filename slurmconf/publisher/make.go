package publisher

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/gres"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/cables"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/slurmconf/syntax"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/nodelabels"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// Rendered is the result of one set of inputs: the plan, the files, and what is wrong
// with them.
type Rendered struct {
	// Plan is nil if none can be made.
	Plan *topology.Plan
	// FilePlan is the plan as the files have it, and what is stored if the files are published. It has no topology if
	// nothing may be written. For a while it also keeps a topology that is no longer in Plan. Its Problems are all that
	// is wrong with nodes.
	FilePlan plandoc.Plan
	// Files are by name: topology.conf or topology.yaml if places are known, and gres.conf if a
	// node has GPUs.
	Files map[string]string
	// Specs is the Topology= string of every node that has a place.
	Specs map[string]string
	// Digest names what the files hold, with all nodes in them.
	Digest string
	// Judged are the facts that the plan was made of, with the verdicts on the nodes' NVLink fabrics.
	Judged []topology.Facts
	// Left are the nodes without a place or without a Slurm name, with the reason.
	Left []topology.Finding
	// Findings are what lint says of the files.
	Findings []topology.Finding
	// topologies are the topologies of Plan that the configuration wants in the file.
	topologies []topology.Topology
	// found says which decisions wait for people, and which nodes for them.
	found placement.Waiting
	// Refused is the reason word if the files must not be published. Message says the
	// reason for people.
	Refused, Message string
}

// Partitions are the lines of slurm.conf that several block topologies need.
func (m *Rendered) Partitions() []string { return slurmconf.PartitionLines(m.topologies) }

// Summary says in a line what the files hold.
func (m *Rendered) Summary() string {
	var parts []string
	file := topology.Plan{Topologies: m.topologies}
	if n := len(file.Blocks()); n > 0 {
		parts = append(parts, fmt.Sprintf("%d blocks, base size %d", n, file.BaseBlockSize()))
	}
	if n := len(file.Switches()); n > 0 {
		parts = append(parts, fmt.Sprintf("%d switches", n))
	}
	if len(parts) == 0 {
		topology := "no topology"
		if len(m.FilePlan.Topologies) > 0 {
			topology = "a flat topology"
		}
		listed := gres.ByNode(m.FilePlan.Devices, nil)
		return fmt.Sprintf("%s, and the GPUs of %d nodes", topology, len(listed))
	}
	return fmt.Sprintf("%s, %d nodes", strings.Join(parts, ", "), len(m.Specs))
}

// FileNames lists files, the topology before gres.conf.
func FileNames(files map[string]string) []string {
	names := slices.Sorted(maps.Keys(files))
	slices.Reverse(names)
	return names
}

var errNoNode = errors.New("no node is in a block or switch: there is nothing to write")

// Make makes a plan and its files from what a cluster shows and from what is published. Nothing waits, and files may have
// any size. Nobody is there to approve decisions, so their published answers stay, and a problem
// says so of each. It returns an error only if no plan can be made. It puts the verdicts on NVLink fabrics into the
// facts of in.
func Make(p *publication.Cluster, in inputs.Inputs, prev Previous) (*Rendered, error) {
	cabled := findCables(&cables.Placer{Described: in.Described}, p, &ownNodes{in}, prev.Plan, prev.Groups)
	g := &gathered{Inputs: cabled.Inputs, prev: prev, ofFabrics: p.FabricSite(prev.Plan, nil).Judge(cabled.Facts, cabled.UnnamedFacts)}
	made, err := makeKept(p, g)
	if err != nil {
		return nil, err
	}
	for _, d := range made.waiting() {
		if !slices.ContainsFunc(made.Plan.Problems, func(f topology.Finding) bool { return f.Reason == d.Kind }) { // else the plan says it
			made.FilePlan.Problems = append(slices.Clone(made.FilePlan.Problems), topology.Finding{Reason: d.Kind, Message: d.Message})
		}
	}
	return made, nil
}

// makeKept makes a plan and its files from the inputs of a pass, with the published answer of each decision, because
// nobody approves any. An error says why there is no plan.
func makeKept(p *publication.Cluster, g *gathered) (*Rendered, error) {
	made := renderFiles(p, g, makePlan(p, g, nil, everyDecision), anySize)
	if made.Plan == nil {
		return nil, errors.New(made.Message)
	}
	return made, nil
}

// makePlan makes the plan from the inputs of a pass. settling is nil if all nodes may move. waits says which decisions
// keep their published answers.
func makePlan(p *publication.Cluster, g *gathered, settling *placement.Settling, waits func(placement.Decision) bool) placed {
	facts, policy := nodelabels.Level(g.Facts, g.prev.Plan.InnerSwitches()), p.Policy()
	policy.Waits = waits
	policy.LookFirst = func(r *placement.Repartition, all []*placement.Repartition) string {
		why, _ := whyLook(p, g, r, all)
		return why
	}
	out := placed{settling: settling}
	out.plan, out.found, out.err = placement.MakePlan(placement.Observed{Facts: facts, Unnamed: g.UnnamedFacts, InUse: g.inUse, Settling: settling, OfFabrics: g.ofFabrics}, g.prev.placement(facts), policy)
	return out
}

// renderFiles renders the files of a plan and lints them. room is how many bytes they may have.
func renderFiles(p *publication.Cluster, g *gathered, at placed, room int) *Rendered {
	p = keptKind(p, at.found.Choices)
	m, err := &Rendered{Plan: at.plan, Judged: g.Facts, found: at.found}, at.err
	if err == nil {
		err = m.render(p, g, room)
	}
	if err != nil {
		return &Rendered{found: at.found, Refused: reasonNoPlan, Message: err.Error()}
	}
	return lint(p, m)
}

// render renders the plan as p wants it, into files that have room bytes at most.
func (m *Rendered) render(p *publication.Cluster, g *gathered, room int) error {
	why, err := m.choose(p, g)
	if err != nil {
		return err
	}
	lines, problems := gres.FromFacts(g.Facts, g.prev.Gres, p.GresOptions())
	m.FilePlan.Devices, m.FilePlan.Problems = lines, slices.Concat(m.FilePlan.Problems, problems)
	if m.refuseEmpty(p, g, why); m.Refused != "" {
		return nil
	}
	m.FilePlan.Topologies = m.keepTopologies(p, &g.prev, g.inUse)
	m.FilePlan.ByAnnotation = m.placedByAnnotation(p, g)
	if err := m.write(p, g); err != nil {
		return err
	}
	m.sayUnchecked(p.GresOptions(), g.Facts)
	m.limitSize(p, room)
	return nil
}

// sayUnchecked says that nothing but labels is known of nodes whose slurmd detects their GPUs.
func (m *Rendered) sayUnchecked(o gres.Options, facts []topology.Facts) {
	if o.AutoDetect != "" || m.FilePlan.AllNodes {
		return
	}
	detects := slices.DeleteFunc(slices.Clone(m.FilePlan.Devices), func(l gres.Line) bool { return l.AutoDetect == "" })
	byNode := gres.ByNode(detects, nil)
	for i := range facts {
		if facts[i].Shared { // TwoWorkerPods says it
			delete(byNode, facts[i].SlurmName)
		}
	}
	for i := range m.FilePlan.Gres {
		if l := &m.FilePlan.Gres[i]; l.Name != "" && len(byNode) > 0 {
			_ = hostlist.Walk(l.Nodes, func(name []byte) { delete(byNode, string(name)) })
		}
	}
	if len(byNode) > 0 {
		m.FilePlan.Problems = append(m.FilePlan.Problems, topology.Finding{Severity: topology.Warning, Reason: syntax.ReasonNotJudged,
			Message: fmt.Sprintf("%s: no report, so slurmd detects the GPUs (AutoDetect=%s); it is not checked whether they are next to whole sockets, else slurmctld drains the node",
				plandoc.ShortList(slices.Collect(maps.Keys(byNode))), gres.AutoDetectNvidia),
			Remedy: "run Quoin's agent there"})
	}
}

// choose chooses what is published of the plan, and where each node is in it. why says why there is
// no topology, if there is none.
func (m *Rendered) choose(p *publication.Cluster, g *gathered) (why, err error) {
	m.Files = map[string]string{}
	m.FilePlan = plandoc.Plan{Plan: *m.Plan, Policy: p.Keys()}
	m.FilePlan.Topologies, m.FilePlan.Problems = nil, slices.Concat(m.Plan.Problems, g.UnnamedProblems(), g.Problems)
	choice := p.Choice()
	choice.Flat = choice.Flat || g.prev.staysFlat(m.Plan, g.Facts)
	if m.topologies, err = slurmconf.FromPlan(m.Plan, choice); errors.Is(err, slurmconf.ErrEmptyPlan) {
		why, err = err, nil
	}
	if !slices.ContainsFunc(m.topologies, func(t topology.Topology) bool { return t.Kind == topology.KindTree }) {
		m.FilePlan.Problems = slices.DeleteFunc(m.FilePlan.Problems, func(f topology.Finding) bool { return f.Reason == placement.ReasonLeavesApart })
	}
	m.Specs = topology.SpecsOf(m.topologies)
	m.Left = plandoc.Left(m.Plan, m.Specs, g.Unnamed)
	return why, err
}

// refuseEmpty refuses files without any place that say nothing of GPUs either, and files that lack
// the topology that is published or seeded: slurmctld would lose it, and what is missing may only be
// late. A seed in topology.conf can't become flat, and stays beside gres.conf. In all other cases
// gres.conf is published alone: nobody has named the switches, and the GPUs are known.
func (m *Rendered) refuseEmpty(p *publication.Cluster, g *gathered, why error) {
	if len(m.Specs) > 0 {
		return
	}
	units := len(topology.UnitsOf(m.topologies)) > 0 // blocks may still hold the places of domains that have gone
	published := g.prev.Plan != nil && len(g.prev.Plan.Own()) > 0
	lost := published && !units || g.prev.seeded && p.YAML && len(m.topologies) == 0
	empty := len(m.FilePlan.Devices) == 0 && (units || len(m.topologies) == 0)
	if lost || empty {
		m.Refused, m.Message = ReasonNothingToPublish, cmp.Or(why, errNoNode).Error()+cmp.Or(plandoc.Reasons(m.Plan, g.Unnamed), "; "+p.Nodes.WhyNone())
		if why := g.gone.why(slices.Collect(maps.Keys(g.gone))); why != "" && g.settings.changed() {
			m.Message += "; of the published nodes " + why
		}
	}
}

// placement returns what a plan continues from. If no node has a report now, it says which
// nodes had one: those with devices in gres.conf.
func (prev *Previous) placement(facts []topology.Facts) placement.Previous {
	before := placement.Previous{Plan: prev.Plan}
	if prev.Plan == nil || slices.ContainsFunc(facts, func(f topology.Facts) bool { return f.Report != nil }) {
		return before
	}
	before.Reported = make(map[string]bool, len(prev.Gres))
	for node, lines := range prev.Gres {
		before.Reported[node] = len(lines) > 0 && lines[0].AutoDetect == ""
	}
	return before
}

// write writes the files. The digest names what is published of all nodes.
func (m *Rendered) write(p *publication.Cluster, g *gathered) error {
	m.FilePlan.Format = p.FileFormat()
	if len(m.FilePlan.Topologies) > 1 {
		m.FilePlan.Format = "yaml"
	}
	whole, err := m.FilePlan.Whole()
	m.Files, m.Digest = whole, plandoc.Digest(whole)
	if err != nil || !m.FilePlan.ByAnnotation {
		return err
	}
	linesByAnnotation(&m.FilePlan, p, g)
	m.Files, err = m.FilePlan.Files()
	return err
}

// publisherAuthor is the author of revisions that nobody asked for.
const publisherAuthor = "quoin-publisher"

// firstMoves is how many sentences about nodes that move a revision has.
const firstMoves = 10

// isRevision reports whether the revision has the same plan and the same files.
func (m *Rendered) isRevision(r *plandoc.Revision) bool {
	return r.Number > 0 && r.Digest == m.Digest && r.OfFiles() == plandoc.Digest(m.Files)
}

// changes returns what is different from the revision, or nil if nothing is. Nothing changes with the first revision.
func (m *Rendered) changes(old *plandoc.Revision) *plandoc.Changes {
	switch {
	case m.isRevision(old):
		return nil
	case old.Number == 0:
		return &plandoc.Changes{}
	}
	c := plandoc.Diff(&old.Plan, &m.FilePlan)
	return &c
}

// revision returns what was made as the revision that follows old. changes is what is different.
func (m *Rendered) revision(old *plandoc.Revision, changes *plandoc.Changes, now time.Time) plandoc.Revision {
	next := plandoc.Revision{Time: now.UTC().Truncate(time.Second), Author: publisherAuthor, Why: "first publication", Digest: m.Digest, Plan: m.FilePlan}
	if m.FilePlan.ByAnnotation {
		next.FilesDigest = plandoc.Digest(m.Files)
	}
	if old.Number > 0 {
		next.Why, next.OnlyMembers = changes.Summary(firstMoves), changes.OnlyMembers()
	}
	return next
}

// lint parses the files back and lints them for the release that loads them. It returns what was
// made with the findings, and refuses what must not be published. Files with blocks for a release that
// is too old for them are not linted, because the findings would be many, and the cause is one.
func lint(p *publication.Cluster, made *Rendered) *Rendered {
	if len(made.Files) == 0 {
		return made
	}
	m := *made
	if why := tooOldForBlocks(p, m.FilePlan.Topologies); why != "" {
		m.Refused, m.Message = reasonLintFatal, why
		return &m
	}
	m.Findings = p.Lint(m.Files, m.FilePlan.Topologies)
	if f := fatal(m.Findings); f != nil {
		m.Refused, m.Message = reasonLintFatal, f.String()
	} else if f := JudgeRelease(p, m.Files); f != nil && f.Severity == topology.Fatal {
		m.Refused, m.Message = f.Reason, f.Message+"; "+f.Remedy
	} else if f != nil {
		m.FilePlan.Problems = append(slices.Clone(m.FilePlan.Problems), *f)
	}
	return &m
}

// Reasons of problems, holds and events of a publication.
const (
	ReasonGresNamesNodes           = "GresNamesNodes"
	ReasonMembershipWaits          = "MembershipWaits"
	ReasonNodeInTwoPublications    = "NodeInTwoPublications"
	ReasonPublicationNotConfigured = "PublicationNotConfigured"
	ReasonReleaseDiffers           = "ReleaseDiffers"
	ReasonStoreEmpty               = "StoreEmpty"
	ReasonNothingToPublish         = "NothingToPublish"
	reasonNoPlan                   = "NoPlan"
	reasonLintFatal                = "LintFatal"
	reasonTooLarge                 = "TooLarge"
	reasonBigChange                = "BigChange"
	reasonRolledBack               = "RolledBack"
	reasonRevisionUnknown          = "RevisionUnknown"
	reasonPlanUnreadable           = "PlanUnreadable"
	reasonPublishedUnreadable      = "PublishedUnreadable"
	reasonPublishedEdited          = "PublishedEdited"
	reasonMoved                    = "PublicationMoved"
	reasonAnnotationConflict       = "AnnotationConflict"
)

// fatal returns the first finding that keeps slurmctld from loading files, or nil.
func fatal(findings []topology.Finding) *topology.Finding {
	i := slices.IndexFunc(findings, func(f topology.Finding) bool { return f.Severity == topology.Fatal })
	if i < 0 {
		return nil
	}
	return &findings[i]
}
