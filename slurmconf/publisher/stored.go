package publisher

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

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
}

// intact reports whether the stored files are the ones that the plan gives.
func (s *stored) intact() bool {
	return s.doc.Current.Number == 0 || plandoc.Digest(s.set.Own()) == s.doc.Current.OfFiles()
}

// asks returns what people ask for in the annotation.
func (s *stored) asks(key string) string {
	if s.set == nil {
		return ""
	}
	return topology.Cut(s.set.Annotations[key], topology.MaxText)
}

// archive reads and writes what the store holds of a publication. The plan is written
// before the files, so that a publisher that is killed in between goes on from the plan.
type archive struct {
	store  Store
	pub    *publication.Cluster
	writes *prometheus.CounterVec // or nil
	// known is the plan as it was read or written last, or nil if it must be read.
	known *plandoc.Document
}

// forget makes the next recall read the plan again.
func (a *archive) forget() { a.known = nil }

// Reconcile reads what the store holds. Files that cannot be continued from are held.
func (a *archive) Reconcile(ctx context.Context, _ *pass) (result, error) {
	s, reason, err := a.recall(ctx)
	if reason != "" {
		return result{stored: s, held: &plandoc.Held{Reason: reason, Message: err.Error()}}, nil
	}
	return result{stored: s}, err
}

// recall reads plan and files. If they cannot be continued from, it returns the reason why
// nothing new can be published, and the error.
func (a *archive) recall(ctx context.Context) (s *stored, reason string, err error) {
	s = &stored{}
	if s.set, err = a.store.Load(ctx, a.pub.Place()); err != nil {
		return nil, "", err
	}
	if a.known != nil && a.store.PlanChanged(a.pub.Name, a.known.Version) { // somebody edited or deleted it
		a.forget()
	}
	if a.known == nil {
		a.known, err = a.store.LoadPlan(ctx, a.pub.Name)
		switch {
		case errors.Is(err, plandoc.ErrUnreadable):
			return s, "PlanUnreadable", fmt.Errorf("%w; restore it, or remove it and it is made again from the published files", err)
		case err != nil:
			return nil, "", err
		case a.known == nil:
			a.known = plandoc.New(a.pub.Name, a.pub.Place().String())
		}
	}
	s.doc = a.known.Clone()
	if s.doc.Current.Number == 0 {
		if err := s.takeOver(); err != nil {
			return s, "PublishedUnreadable", fmt.Errorf("%w; restore the file, or remove its key and it is made again", err)
		}
		if err := a.placeAsAnnotated(ctx, &s.doc.Current); err != nil {
			return nil, "", err
		}
	}
	if s.prev, err = ReadPlan(a.pub, &s.doc.Current.Plan); err != nil {
		return nil, "", err
	}
	return s, "", nil
}

// takeOver makes the first revision of files that are published without a plan. A topology
// without nodes is continued from only if the publisher wrote it, because charts seed such.
func (s *stored) takeOver() error {
	files := s.set.Own()
	if files["topology.yaml"] == "" && files["topology.conf"] == "" {
		return nil
	}
	plan, err := plandoc.FromFiles(files)
	if err != nil {
		return err
	}
	plan.ByAnnotation = len(plan.Places()) == 0
	if plan.ByAnnotation && s.set.Annotations[plandoc.AnnotationDigest] != plandoc.Digest(files) {
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
func (a *archive) placeAsAnnotated(ctx context.Context, r *plandoc.Revision) error {
	if !r.Plan.ByAnnotation {
		return nil
	}
	snap, err := a.store.Snapshot(ctx)
	if err != nil {
		return err
	}
	specs := make(map[string]string)
	for name, n := range a.pub.Rules.Gather(snap).Nodes {
		specs[name] = n.Annotations[plandoc.SpecAnnotation]
	}
	plandoc.Place(&r.Plan, specs)
	return r.SetDigests()
}

// publish writes the plan, and then the files, as far as they differ. leaving are the Nodes
// that left and still have an annotation. It returns when the files were written, and what
// changed.
func (a *archive) publish(ctx context.Context, p *pass, made *Rendered, leaving []string) (written time.Time, changes *plandoc.Changes, err error) {
	s, doc, part, now := p.stored, p.stored.doc, p.held != nil, p.now
	place := a.pub.Place().String()
	if !made.IsRevision(&doc.Current) {
		if changes, err = p.addRevision(made); err != nil {
			return now, nil, err
		}
	}
	if changes != nil || doc.Version == "" || doc.Held != nil && !part || doc.Place != place || !slices.Equal(doc.Leaving, leaving) {
		doc.Place, doc.Leaving = place, leaving
		if !part {
			doc.Held = nil
		}
		if err := a.savePlan(ctx, doc); err != nil {
			return now, nil, err
		}
	}
	next := s.set.Clone()
	delete(next.Annotations, plandoc.AnnotationSeed)
	delete(next.Annotations, plandoc.AnnotationLeftOut)
	if !part {
		for _, key := range []string{plandoc.AnnotationHeld, plandoc.AnnotationHeldReason, plandoc.AnnotationApprove, plandoc.AnnotationBy} {
			delete(next.Annotations, key)
		}
	}
	if made.LeftOut != "" {
		next.Annotations[plandoc.AnnotationLeftOut] = made.LeftOut
	}
	next.Put(&doc.Current, made.Files, now)
	if s.set == nil || !maps.Equal(s.set.Files, next.Files) || !maps.Equal(s.set.Annotations, next.Annotations) {
		if err := a.saveFiles(ctx, next); err != nil {
			return now, nil, err
		}
	}
	written, err = next.Written()
	return written, changes, err
}

// addRevision makes what was made the current revision.
func (p *pass) addRevision(made *Rendered) (*plandoc.Changes, error) {
	s, now := p.stored, p.now
	r, changes, err := made.Revision(&s.doc.Current, now)
	if err != nil {
		return nil, err
	}
	approved := s.asks(plandoc.AnnotationApprove) == made.Digest
	if approved {
		r.Author, r.OnlyMembers = s.by(), false
	}
	written, err := s.set.Clone().Written()
	if err == nil && made.ByAnnotation && r.FilesDigest == s.doc.Current.OfFiles() {
		r.FilesTime = written
	}
	p.change(made).remember(s.doc, approved, now)
	if err == nil && written.After(s.doc.Current.Time) {
		s.doc.Current.Time = written // a publisher that was killed wrote the files later
	}
	s.doc.Add(r)
	s.doc.RolledBack = 0
	return &changes, nil
}

// by is who asks for what the annotations ask for.
func (s *stored) by() string {
	if by := s.asks(plandoc.AnnotationBy); by != "" {
		return by
	}
	return "somebody"
}

// restore writes the files of the plan again.
func (a *archive) restore(ctx context.Context, s *stored, now time.Time) error {
	files, err := plandoc.Files(&s.doc.Current.Plan)
	if err != nil {
		return err
	}
	if digest := plandoc.Digest(files); digest != s.doc.Current.OfFiles() || s.doc.Version == "" { // another release wrote the same plan otherwise
		if err := s.doc.Current.SetDigests(); err != nil {
			return err
		}
		if err := a.savePlan(ctx, s.doc); err != nil {
			return err
		}
	}
	next := s.set.Clone()
	next.Put(&s.doc.Current, files, now)
	return a.saveFiles(ctx, next)
}

func (a *archive) savePlan(ctx context.Context, doc *plandoc.Document) error {
	a.count("plan")
	if err := a.store.SavePlan(ctx, doc); err != nil {
		a.forget()
		return err
	}
	a.known = doc.Clone()
	return nil
}

func (a *archive) saveFiles(ctx context.Context, set *plandoc.Published) error {
	a.count("publication")
	return a.store.Save(ctx, a.pub.Place(), set)
}

func (a *archive) count(object string) {
	if a.writes != nil {
		a.writes.WithLabelValues(object).Inc()
	}
}
