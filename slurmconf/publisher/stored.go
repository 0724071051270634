package publisher

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/cables"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology"
)

// stored is what the store holds of a publication: the plan, which is the memory, and the
// files and annotations made from it.
type stored struct {
	doc *plandoc.Document  // nil if it cannot be read
	set *plandoc.Published // nil if no files are published
	// prev is what the next plan continues from.
	prev Previous
	// elsewhere are the Nodes in the stored plans of other publications. It is nil if this one has a
	// stored plan with nodes.
	elsewhere map[string]bool
}

// intact reports whether the stored files are the ones that the plan gives.
func (s *stored) intact() bool {
	return s.doc.Current.Number == 0 || plandoc.Digest(s.set.Own()) == s.doc.Current.OfFiles()
}

// written returns when the files were written, or now if nobody knows.
func (s *stored) written(now time.Time) time.Time {
	if at, err := s.set.Written(); err == nil {
		return at
	}
	return now
}

// request returns what people ask for in the annotation.
func (s *stored) request(key string) string {
	return topology.Cut(s.set.Annotation(key), topology.MaxText)
}

// archive reads and writes what the store holds of a publication. The plan is written
// before the files, so that a publisher that is killed in between goes on from the plan.
type archive struct {
	outlets
	pub *publication.Cluster
	// others are the other publications.
	others []*publication.Cluster
	// known is the plan as it was read or written last, or nil if it must be read. Nobody changes it.
	known *plandoc.Document
}

// forget makes the next recall read the plan again.
func (a *archive) forget() { a.known = nil }

// recall reads plan and files. If they cannot be continued from, it returns why nothing new can
// be published. snap says where nodes are of which files without a plan name none. seen is the release
// of the Slurm that runs, or 0: the publication follows it.
func (a *archive) recall(ctx context.Context, snap *inputs.Snapshot, seen slurmconf.Release) (s *stored, unreadable []plandoc.Held, err error) {
	s = &stored{}
	if s.set, err = a.store.Load(ctx, a.pub.Place()); err != nil {
		return nil, nil, err
	}
	if a.known != nil && a.store.PlanChanged(a.pub.Name, a.known.Version) { // somebody edited or deleted it
		a.forget()
	}
	if a.known == nil {
		a.known, err = a.store.LoadPlan(ctx, a.pub.Name)
		switch {
		case errors.Is(err, plandoc.ErrUnreadable):
			return s, []plandoc.Held{{Reason: reasonPlanUnreadable, Message: err.Error() + "; restore it, or remove it and it is made again from the published files"}}, nil
		case err != nil:
			return nil, nil, err
		case a.known == nil:
			if a.known, err = a.underOtherName(ctx, s.set); err != nil {
				return nil, nil, err
			}
		}
	}
	if s.doc = a.known; s.doc.Current.Number == 0 {
		s.doc = a.known.Clone()
		if err := s.takeOver(); err != nil {
			return s, []plandoc.Held{{Reason: reasonPublishedUnreadable, Message: err.Error() + "; restore the file, or remove its key and it is made again"}}, nil //nolint:nilerr // the message has it
		}
		if err := placeAsAnnotated(a.pub, snap, &s.doc.Current); err != nil {
			return nil, nil, err
		}
		if s.elsewhere, err = a.elsewhere(ctx); err != nil {
			return nil, nil, err
		}
	}
	a.pub.Follow(seen, &s.doc.Current.Plan)
	s.prev = ReadPlan(a.pub, &s.doc.Current.Plan)
	s.prev.seeded = s.doc.Current.Number == 0 && s.set.Annotation(plandoc.AnnotationSeed) != ""
	return s, nil, nil
}

// underOtherName returns the plan to begin with if none is stored under the publication's name: the plan
// of a publication that is configured no longer and has the same files, because the publication was
// renamed. Without such a plan it is an empty one.
func (a *archive) underOtherName(ctx context.Context, set *plandoc.Published) (*plandoc.Document, error) {
	empty := plandoc.New(a.pub.Name, a.pub.Place().String())
	if len(set.Own()) == 0 {
		return empty, nil
	}
	stored, err := a.store.Stored(ctx)
	if err != nil {
		return nil, err
	}
	for _, other := range a.others {
		delete(stored, other.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(stored)) {
		doc, err := a.store.LoadPlan(ctx, name)
		switch {
		case errors.Is(err, plandoc.ErrUnreadable) || err == nil && doc == nil:
		case err != nil:
			return nil, err
		case doc.Place == empty.Place:
			a.log.Info("the publication was renamed: it goes on with the plan that is stored under the other name", "publication", a.pub.Name, "other", name)
			doc.Publication, doc.Version = a.pub.Name, ""
			return doc, nil
		}
	}
	return empty, nil
}

// elsewhere returns the Nodes in the stored plans of the other publications. Of a plan that cannot be
// read, nobody knows the Nodes.
func (a *archive) elsewhere(ctx context.Context) (map[string]bool, error) {
	nodes := map[string]bool{}
	for _, other := range a.others {
		doc, err := a.store.LoadPlan(ctx, other.Name)
		switch {
		case errors.Is(err, plandoc.ErrUnreadable) || err == nil && doc == nil:
			continue
		case err != nil:
			return nil, err
		}
		for i := range doc.Current.Plan.Nodes {
			nodes[doc.Current.Plan.Nodes[i].Node] = true
		}
		for _, node := range doc.Leaving {
			nodes[node] = true
		}
	}
	return nodes, nil
}

// takeOver makes the first revision of files that are published without a plan. A topology
// without nodes is continued from only if the publisher wrote it, because charts seed such.
func (s *stored) takeOver() error {
	files := s.set.Own()
	ours := s.set.Annotation(plandoc.AnnotationDigest) == plandoc.Digest(files)
	if len(files) == 0 || !ours && files["topology.yaml"] == "" && files["topology.conf"] == "" {
		return nil
	}
	plan, err := plandoc.FromFiles(files)
	if err != nil {
		return err
	}
	plan.ByAnnotation = len(plan.Places()) == 0
	if plan.ByAnnotation && !ours {
		return nil
	}
	number, _ := strconv.Atoi(s.set.Annotations[plandoc.AnnotationRevision]) // absent or not ours: begin at 1
	written, _ := s.set.Written()
	s.doc.Current = plandoc.Revision{Number: max(number, 1), Time: written, Author: publisherAuthor, Why: "taken over from the published files",
		Digest: plandoc.Digest(files), Plan: *plan}
	return nil
}

// placeAsAnnotated puts nodes back into the units that their annotations name, if the files
// that were taken over name no nodes.
func placeAsAnnotated(p *publication.Cluster, snap *inputs.Snapshot, r *plandoc.Revision) error {
	if !r.Plan.ByAnnotation {
		return nil
	}
	specs := make(map[string]string)
	for name, n := range p.Rules.Gather(snap).Nodes {
		specs[name] = n.Annotations[plandoc.SpecAnnotation]
	}
	r.Plan.Place(specs)
	return r.SetDigests()
}

// publish writes the plan, and then the files, as far as they differ. leaving are the Nodes
// that left and still have an annotation. It returns what is stored then.
func (a *archive) publish(ctx context.Context, old *stored, in *gathered, act publish, leaving []string, now time.Time) (*stored, error) {
	made, doc, noneHeld := act.made, old.doc.Clone(), len(act.held.why) == 0
	if act.changes != nil {
		old.addRevision(a.pub, doc, act, now)
	} else {
		// The same files may be what other keys of the configuration give.
		doc.Current.Plan.Policy = made.FilePlan.Policy
		// Blocks whose nodes are all in another clique now stay as they are in the files, and the same switches may
		// be known from something else now.
		if len(made.found.Follows) > 0 || made.Plan.SwitchSource() != doc.Current.Plan.SwitchSource() {
			doc.Current.Plan.Topologies = made.FilePlan.Topologies
		}
	}
	doc.Place, doc.Leaving = a.pub.Place().String(), leaving
	if noneHeld {
		doc.Held, doc.Wanted = nil, nil
	}
	if doc.Version == "" || !reflect.DeepEqual(doc, old.doc) {
		doc.MissingSince = in.stillMissing(made, doc) // which alone is written by remember
		var err error
		if doc, err = a.savePlan(ctx, doc); err != nil {
			return nil, err
		}
	}
	next := old.set.Clone()
	delete(next.Annotations, plandoc.AnnotationSeed)
	if noneHeld {
		next.SayHeld(nil)
	}
	if noneHeld || act.approved { // an approval is for once
		delete(next.Annotations, plandoc.AnnotationApprove)
		delete(next.Annotations, plandoc.AnnotationBy)
	}
	delete(next.Annotations, plandoc.AnnotationLeftOut)
	if left := plandoc.LeftOut(made.Left); left != "" {
		next.Annotations[plandoc.AnnotationLeftOut] = left
	}
	next.Put(&doc.Current, made.Files, now)
	if old.set == nil || !maps.Equal(old.set.Files, next.Files) || !maps.Equal(old.set.Annotations, next.Annotations) {
		var err error
		if next, err = a.saveFiles(ctx, next); err != nil {
			return nil, err
		}
	}
	return &stored{doc: doc, set: next, prev: old.prev}, nil
}

// addRevision makes what was made the current revision of doc, which is a copy of the stored one.
// What changes counts for an hour.
func (s *stored) addRevision(p *publication.Cluster, doc *plandoc.Document, act publish, now time.Time) {
	made := act.made
	r := made.revision(&doc.Current, act.changes, now)
	if act.approved {
		r.Author, r.OnlyMembers = s.by(), false
	}
	written, err := s.set.Written()
	if err == nil && made.FilePlan.ByAnnotation && r.FilesDigest == doc.Current.OfFiles() {
		r.FilesTime = written
	}
	act.counted.remember(doc, s.request(plandoc.AnnotationApprove) == made.Digest, now)
	if err == nil && written.After(doc.Current.Time) {
		doc.Current.Time = written // a publisher that was killed wrote the files later
	}
	doc.Add(r)
	doc.RolledBack = 0
}

// by is who asks for what the annotations ask for.
func (s *stored) by() string { return cmp.Or(s.request(plandoc.AnnotationBy), "somebody") }

// restore writes the files of the stored plan doc over the published set, which loses the given
// annotations.
func (a *archive) restore(ctx context.Context, doc *plandoc.Document, set *plandoc.Published, now time.Time, done ...string) error {
	files, err := doc.Current.Plan.Files()
	if err != nil {
		return err
	}
	if digest := plandoc.Digest(files); digest != doc.Current.OfFiles() || doc.Version == "" { // another release wrote the same plan otherwise
		doc = doc.Clone()
		if err := doc.Current.SetDigests(); err != nil {
			return err
		}
		if doc, err = a.savePlan(ctx, doc); err != nil {
			return err
		}
	}
	next := set.Clone()
	for _, key := range done {
		delete(next.Annotations, key)
	}
	next.Put(&doc.Current, files, now)
	_, err = a.saveFiles(ctx, next)
	return err
}

// remember stores since when NVLink fabrics are not ready and names are missing, and the groups of switches, if they
// have changed. It returns what is stored then.
func (a *archive) remember(ctx context.Context, s *stored, in *gathered, made *Rendered) (*stored, error) {
	if s == nil || s.doc == nil || s.doc.Current.Number == 0 { // nothing is stored before the first publication
		return s, nil
	}
	missing := in.stillMissing(made, s.doc)
	if maps.Equal(s.doc.FabricSince, in.fabricSince) && maps.Equal(s.doc.MissingSince, missing) && cables.SameGroups(s.doc.Groups, in.groups) {
		return s, nil
	}
	doc := s.doc.Clone()
	doc.FabricSince, doc.MissingSince, doc.Groups = in.fabricSince, missing, in.groups
	doc, err := a.savePlan(ctx, doc)
	if err != nil {
		return s, err
	}
	return &stored{doc: doc, set: s.set, prev: s.prev}, nil
}

// savePlan returns the plan as it is stored then.
func (a *archive) savePlan(ctx context.Context, doc *plandoc.Document) (*plandoc.Document, error) {
	version, err := a.store.SavePlan(ctx, doc)
	if err != nil {
		a.forget()
		return nil, err
	}
	saved := *doc
	saved.Version = version
	a.known = &saved
	return a.known, nil
}

// saveFiles returns the files and annotations as they are stored then.
func (a *archive) saveFiles(ctx context.Context, set *plandoc.Published) (*plandoc.Published, error) {
	version, err := a.store.Save(ctx, a.pub.Place(), set)
	saved := *set
	saved.Version = version
	return &saved, err
}
