package publisher

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/topology"
)

// reconcile makes one publication as the facts say and returns when it wants
// to be called again without a change, zero for not at all.
func (p *Publisher) reconcile(ctx context.Context, s *state) (time.Time, error) {
	snap, err := p.store.Snapshot(ctx)
	if err != nil {
		return time.Time{}, err
	}
	was, err := p.store.Load(ctx, s.pub)
	if err != nil {
		return time.Time{}, err
	}
	if was.empty() && s.last != nil { // it holds order, names and places, and is no less good for having been deleted
		if was != nil {
			s.last.version = was.version
		}
		p.log.Warn("the published files are gone, writing them again", "publication", s.pub.Name, "place", s.pub.key())
		return time.Now(), p.save(ctx, s, s.last)
	}
	prev, err := readPrevious(was)
	if err != nil {
		return time.Time{}, p.hold(ctx, s, was, "", "PublishedUnreadable", err.Error()+"; restore it, or remove the file's key to have it made anew")
	}
	now := time.Now()
	facts, nodes, wake := p.factsOf(s, snap, prev, now)
	made, err := Make(s.pub, facts, prev)
	if err != nil {
		return wake, p.hold(ctx, s, was, "", "NoPlan", err.Error())
	}
	p.nameOverlaps(s, made, nodes)
	p.observe(ctx, s, made, snap)
	if made.Refused != "" {
		return wake, p.hold(ctx, s, was, made.Digest, made.Refused, made.Message)
	}
	if s.settlesBase(prev.Topology, made.Plan, now) {
		if why, until := s.firstWaits(facts, now); why != "" {
			p.log.Info("first publication waits", "publication", s.pub.Name, "for", why, "upTo", time.Until(until).Round(time.Second))
			return earlier(wake, until), nil
		}
	}
	if reason, what := s.tooMuch(prev, was, made); reason != "" && was.Annotations[AnnotationApprove] != made.Digest {
		return wake, p.hold(ctx, s, was, made.Digest, reason, fmt.Sprintf("%s; to let it through, set the annotation %s=%s", what, AnnotationApprove, made.Digest))
	}
	if err := p.publish(ctx, s, was, made, now); err != nil {
		return wake, err
	}
	annotateAt, err := p.annotateDue(ctx, s, was, made, nodes, now)
	return earlier(wake, annotateAt), err
}

// firstQuiet is how long no node may have been added to those that are known
// before the first publication.
const firstQuiet = time.Minute

// settlesBase reports whether the plan is the first to be published, or the
// first with blocks: their base size stays for good, so it should be chosen when
// the site's largest domain is whole.
func (s *state) settlesBase(prev *topology.Previous, plan *topology.Plan, now time.Time) bool {
	switch {
	case prev == nil:
		s.firstSince = s.started
		return true
	case prev.BaseBlockSize > 0 || len(plan.Blocks) == 0:
		s.firstSince = time.Time{}
		return false
	case s.firstSince.IsZero():
		s.firstSince = now
	}
	return true
}

// firstWaits says what such a publication waits for, and until when at most.
func (s *state) firstWaits(facts []topology.Facts, now time.Time) (why string, until time.Time) {
	known := 0
	for i := range facts {
		if facts[i].Report != nil || !facts[i].Labels.Clique.IsZero() {
			known++
		}
	}
	if known != s.known || s.knownSince.IsZero() {
		s.known, s.knownSince = known, now
	}
	latest := s.firstSince.Add(s.pub.FirstWait.Duration)
	quiet := s.knownSince.Add(firstQuiet)
	switch node := unsettled(facts); {
	case !now.Before(latest):
		return "", latest
	case node != "":
		return "node " + node, latest
	case s.pub.BaseBlockSize == 0 && s.pub.Topology != string(slurmconf.KindTree) && now.Before(quiet):
		return "further nodes", earlier(latest, quiet)
	}
	return "", latest
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func (p *Published) empty() bool { return p == nil || len(p.Files) == 0 }

func (p *Published) clone() *Published {
	next := &Published{Files: map[string]string{}, Annotations: map[string]string{}}
	if p != nil {
		maps.Copy(next.Files, p.Files)
		maps.Copy(next.Annotations, p.Annotations)
		next.version = p.version
	}
	return next
}

// moves counts the published nodes that a plan puts elsewhere or nowhere.
func moves(prev *topology.Previous, plan *topology.Plan) (moved, of int) {
	was, is := placesOf(prev.Blocks, prev.Switches), placesOf(plan.Blocks, plan.Switches)
	for n, w := range was {
		i := is[n]
		if w.block != "" && i.block != w.block || w.leaf != "" && i.leaf != w.leaf {
			moved++
		}
	}
	return moved, len(was)
}

// tooMuch says what of a change is so much that people should look first.
func (s *state) tooMuch(prev Previous, was *Published, made *Made) (reason, what string) {
	if prev.Topology == nil {
		return "", ""
	}
	if moved, of := moves(prev.Topology, made.Plan); !s.allowed(moved, of) {
		return "BigChange", fmt.Sprintf("%d of %d nodes would move or leave, more than %.0f %%", moved, of, 100**s.pub.MaxChange)
	}
	if was.Files["gres.conf"] != made.Files["gres.conf"] {
		if changed, of := gresChanges(prev.Gres, made.gres); !s.allowed(changed, of) {
			return "BigChange", fmt.Sprintf("the lines of %d of %d nodes in gres.conf would change or go, more than %.0f %%", changed, of, 100**s.pub.MaxChange)
		}
	}
	blocks := len(made.Plan.Blocks) > 0 && s.pub.Topology == string(slurmconf.KindAuto)
	if blocks && len(prev.Topology.Blocks) == 0 && len(prev.Topology.Switches) > 0 {
		return "KindChange", "the first NVLink domains are known and the default topology would turn from tree to block, which slurm.conf's TopologyPlugin and the partitions must follow; configure topology: tree to keep it"
	}
	return "", ""
}

// gresChanges counts the nodes whose lines in gres.conf change or go. A node that
// detected its devices itself and now has them listed does not count.
func gresChanges(was map[string][]slurmconf.GresLine, lines []slurmconf.GresLine) (changed, of int) {
	is, err := slurmconf.GresByNode(lines)
	if err != nil {
		return 0, 0 // lines that were made have passed Lint
	}
	for node, before := range was {
		now := is[node]
		if detects := before[0].AutoDetect != "" && len(now) > 0; !detects && !reflect.DeepEqual(before, now) {
			changed++
		}
	}
	return changed, len(was)
}

// allowed reports whether that many moves may be published at once. One node
// always may.
func (s *state) allowed(moved, of int) bool {
	return moved <= 1 || float64(moved) <= *s.pub.MaxChange*float64(of)
}

// publish writes the files when their bytes differ, and takes back what was
// said of held ones.
func (p *Publisher) publish(ctx context.Context, s *state, was *Published, made *Made, now time.Time) error {
	p.metrics.setHeld(s.pub.Name, "")
	s.said = ""
	next := was.clone()
	same := !was.empty() && maps.Equal(was.Files, made.Files)
	last := &Published{Files: made.Files, Annotations: next.Annotations}
	if !next.update(made, now) {
		s.last = last
		p.metrics.passes.WithLabelValues(s.pub.Name, "unchanged").Inc()
		p.log.Debug("unchanged", "publication", s.pub.Name)
		return nil
	}
	if err := p.save(ctx, s, next); err != nil {
		return err
	}
	s.last = last
	if same {
		p.metrics.passes.WithLabelValues(s.pub.Name, "unchanged").Inc()
		return nil
	}
	p.metrics.passes.WithLabelValues(s.pub.Name, "published").Inc()
	message := fmt.Sprintf("revision %s, digest %s: %s", next.Annotations[AnnotationRevision], made.Digest, made.Summary())
	p.log.Info("published", "publication", s.pub.Name, "place", s.pub.key(), "revision", next.Annotations[AnnotationRevision], "digest", made.Digest,
		"blocks", len(made.Plan.Blocks), "switches", len(made.Plan.Switches), "nodes", len(made.Specs))
	if p.recorder != nil {
		p.recorder.Record(s.pub, false, "Published", message)
	}
	return nil
}

// update puts what was made into p and takes back what was said of held files.
// It reports whether anything changed.
func (p *Published) update(made *Made, now time.Time) bool {
	was := p.clone()
	for _, key := range []string{AnnotationHeld, AnnotationHeldReason, AnnotationApprove, AnnotationLeftOut} {
		delete(p.Annotations, key)
	}
	if made.LeftOut != "" {
		p.Annotations[AnnotationLeftOut] = made.LeftOut
	}
	for _, name := range ownFiles {
		delete(p.Files, name)
	}
	maps.Copy(p.Files, made.Files)
	changed := !maps.Equal(was.Files, p.Files)
	if changed {
		revision, _ := strconv.Atoi(p.Annotations[AnnotationRevision]) // absent or not ours: begin at 1
		p.Annotations[AnnotationRevision] = strconv.Itoa(revision + 1)
	}
	if _, err := time.Parse(time.RFC3339, p.Annotations[AnnotationPublished]); changed || err != nil || p.Annotations[AnnotationDigest] != made.Digest {
		p.Annotations[AnnotationDigest] = made.Digest
		p.Annotations[AnnotationPublished] = now.UTC().Format(time.RFC3339)
	}
	return !maps.Equal(was.Files, p.Files) || !maps.Equal(was.Annotations, p.Annotations)
}

// annotateDue annotates Nodes once slurmctld has had the time to load the
// files, and returns when to come back before that.
func (p *Publisher) annotateDue(ctx context.Context, s *state, was *Published, made *Made, nodes map[string]*Node, now time.Time) (time.Time, error) {
	if !*s.pub.Annotate || !s.pub.release.DynamicTopology() {
		return time.Time{}, nil
	}
	published := publishedAt(was, made, now)
	var due []annotation
	var next time.Time
	waiting := make(map[string]specSince)
	for slurm, n := range nodes {
		have, want := n.Annotations[SpecAnnotation], made.Specs[slurm]
		if have == want {
			delete(s.tried, n.Name) // should it change again, that is another case
			continue
		}
		if s.tried[n.Name] == have+"\n"+want || p.otherAnnotates(s, n) != "" {
			continue
		}
		since, ok := s.waiting[slurm]
		if !ok || since.spec != want { // other changes to the files do not put it off
			since = specSince{want, published}
		}
		if at := since.time.Add(s.pub.AnnotateAfter.Duration); now.Before(at) {
			waiting[slurm] = since
			next = earlier(next, at)
		} else {
			due = append(due, annotation{n.Name, have, want})
		}
	}
	s.waiting = waiting
	if len(due) == 0 {
		return next, nil
	}
	if err := p.annotate(ctx, s, due); err != nil {
		return next, err
	}
	p.log.Info("annotated nodes", "publication", s.pub.Name, "nodes", len(due))
	return next, nil
}

// specSince is an annotation to be, and since when the files are so.
type specSince struct {
	spec string
	time time.Time
}

// otherAnnotates names the publication before s that takes the node too and
// annotates it: a Node has one annotation.
func (p *Publisher) otherAnnotates(s *state, n *Node) string {
	for _, other := range p.states {
		if other == s {
			break
		}
		if *other.pub.Annotate && other.pub.release.DynamicTopology() && other.pub.takes(n) {
			return other.pub.Name
		}
	}
	return ""
}

// nameOverlaps adds a problem for each node that an earlier publication
// annotates.
func (p *Publisher) nameOverlaps(s *state, made *Made, nodes map[string]*Node) {
	if s == p.states[0] {
		return
	}
	for slurm, n := range nodes {
		if other := p.otherAnnotates(s, n); other != "" && made.Specs[slurm] != "" {
			made.Problems = append(made.Problems, topology.Problem{Node: n.Name, Reason: "NodeInTwoPublications",
				Message: fmt.Sprintf("publication %q takes it too and writes its annotation: give each its own nodes", other)})
		}
	}
}

// publishedAt is when the files that the plan gives were written: now, when
// they were not the published ones.
func publishedAt(was *Published, made *Made, now time.Time) time.Time {
	if was.empty() || was.Annotations[AnnotationDigest] != made.Digest {
		return now
	}
	at, err := time.Parse(time.RFC3339, was.Annotations[AnnotationPublished])
	if err != nil {
		return now
	}
	return at
}

// Summary says in a line what the files hold.
func (m *Made) Summary() string {
	var parts []string
	if n := len(m.Plan.Blocks); n > 0 {
		parts = append(parts, fmt.Sprintf("%d blocks, base size %d", n, m.Plan.BaseBlockSize))
	}
	if n := len(m.Plan.Switches); n > 0 {
		parts = append(parts, fmt.Sprintf("%d switches", n))
	}
	return fmt.Sprintf("%s, %d nodes", strings.Join(parts, ", "), len(m.Specs))
}
