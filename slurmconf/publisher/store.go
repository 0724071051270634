package publisher

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
)

// The annotations of a publication.
const (
	AnnotationRevision = "quoin.dev/revision"
	AnnotationDigest   = "quoin.dev/digest"
	// AnnotationPublished is when the files last changed, in RFC 3339.
	AnnotationPublished = "quoin.dev/published"
	// AnnotationLeftOut says which nodes are in no block or switch, and why.
	AnnotationLeftOut = "quoin.dev/left-out"
	// AnnotationLeaving lists nodes that left the publication and whose annotation is
	// still to be taken back.
	AnnotationLeaving = "quoin.dev/leaving"
	// AnnotationHeld is the digest of files that wait for approval, or that were
	// refused; AnnotationHeldReason says why.
	AnnotationHeld       = "quoin.dev/held"
	AnnotationHeldReason = "quoin.dev/held-reason"
	// AnnotationApprove is written by people: the digest of the files to let
	// through.
	AnnotationApprove = "quoin.dev/approve"
)

// SpecAnnotation is the Node annotation that Slinky turns into slurmd's
// Topology= string.
const SpecAnnotation = "topology.slinky.slurm.net/spec"

// ReportLabel and ReportKey find the reports among ConfigMaps.
const (
	ReportLabel = "quoin.dev/kind=node-report"
	ReportKey   = "report.json"
)

// ErrConflict is returned by Annotate when another field manager owns the
// annotation.
var ErrConflict = errors.New("another writer owns the annotation " + SpecAnnotation)

// Published is one publication as it stands in the store.
type Published struct {
	Files       map[string]string
	Annotations map[string]string
	// version is the store's, so that a write never overwrites a change that was not
	// seen.
	version string
}

// ownAnnotations and ownFiles are what the publisher writes and may remove.
// AnnotationApprove is in it: an approval is used once.
var (
	ownAnnotations = []string{AnnotationRevision, AnnotationDigest, AnnotationPublished, AnnotationLeftOut, AnnotationLeaving, AnnotationHeld, AnnotationHeldReason, AnnotationApprove}
	ownFiles       = []string{"topology.conf", "topology.yaml", "gres.conf"}
)

// Source gives the facts and says when they change.
type Source interface {
	Snapshot(ctx context.Context) (*inputs.Snapshot, error)
	// Changes gets a value after a change. Several changes may give one value.
	Changes() <-chan struct{}
}

// Sink takes what is published.
type Sink interface {
	// Load returns nil when nothing has been published.
	Load(ctx context.Context, p *Publication) (*Published, error)
	Save(ctx context.Context, p *Publication, out *Published) error
	// Annotate sets the Node's SpecAnnotation, or gives it up if spec is empty.
	Annotate(ctx context.Context, node, spec string) error
}

// Store is where facts come from and publications go.
type Store interface {
	Source
	Sink
}

func (p *Published) empty() bool { return p == nil || len(own(p.Files)) == 0 }

// own returns the publisher's files of those in a publication.
func own(files map[string]string) map[string]string {
	out := make(map[string]string, len(ownFiles))
	for _, name := range ownFiles {
		if text, ok := files[name]; ok {
			out[name] = text
		}
	}
	return out
}

func (p *Published) sameFiles(other *Published) bool {
	return p != nil && other != nil && maps.Equal(own(p.Files), own(other.Files))
}

// touch is what somebody did to published files since.
type touch int

const (
	untouched touch = iota
	edited
	replaced // by a topology without a node, as a chart does that seeds it
)

// touched compares the files, parsed as prev, with their annotations. Files that the
// publisher has not written count as untouched.
func (p *Published) touched(prev Previous) touch {
	switch {
	case p.empty() || prev.Topology == nil || p.Annotations[AnnotationDigest] == Digest(own(p.Files)):
		return untouched
	case len(prev.Topology.Places()) == 0:
		return replaced
	case p.Annotations[AnnotationDigest] == "":
		return untouched
	}
	return edited
}

func (p *Published) clone() *Published {
	next := &Published{Files: map[string]string{}, Annotations: map[string]string{}}
	if p != nil {
		maps.Copy(next.Files, p.Files)
		maps.Copy(next.Annotations, p.Annotations)
		next.version = p.version
	}
	return next
}

// update puts the rendered files into p and drops what was said of held files. It reports
// whether anything changed.
func (p *Published) update(made *Rendered, now time.Time) bool {
	was := p.clone()
	for _, key := range []string{AnnotationHeld, AnnotationHeldReason, AnnotationApprove, AnnotationLeftOut, AnnotationLeaving} {
		delete(p.Annotations, key)
	}
	if made.LeftOut != "" {
		p.Annotations[AnnotationLeftOut] = made.LeftOut
	}
	if made.leaving != "" {
		p.Annotations[AnnotationLeaving] = made.leaving
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
	if _, err := p.written(); changed || err != nil || p.Annotations[AnnotationDigest] != made.Digest {
		p.Annotations[AnnotationDigest] = made.Digest
		p.Annotations[AnnotationPublished] = now.UTC().Format(time.RFC3339)
	}
	return !maps.Equal(was.Files, p.Files) || !maps.Equal(was.Annotations, p.Annotations)
}

// written returns when the files were.
func (p *Published) written() (time.Time, error) {
	at, err := time.Parse(time.RFC3339, p.Annotations[AnnotationPublished])
	if err != nil {
		return at, fmt.Errorf("read annotation %s: %w", AnnotationPublished, err)
	}
	return at, nil
}

// Digest names a set of files by its content.
func Digest(files map[string]string) string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		h.Write([]byte(name + " " + strconv.Itoa(len(files[name])) + "\n" + files[name]))
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}
