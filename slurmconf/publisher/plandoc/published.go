package plandoc

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/topology"
)

// The annotations of a publication.
const (
	AnnotationRevision = "quoin.dev/revision"
	AnnotationDigest   = "quoin.dev/digest"
	// AnnotationPublished is when the files last changed, in RFC 3339.
	AnnotationPublished = "quoin.dev/published"
	// AnnotationSeed is the digest of files that were written before there is a plan.
	AnnotationSeed = "quoin.dev/seed"
	// AnnotationLeftOut says which nodes are in no block or switch, and why.
	AnnotationLeftOut = "quoin.dev/left-out"
	// AnnotationHeld are the digests of what waits for approval or was refused, with a space
	// between two. AnnotationHeldReason says why, a line each.
	AnnotationHeld       = "quoin.dev/held"
	AnnotationHeldReason = "quoin.dev/held-reason"
	// AnnotationPending says which nodes are pending in Slurm, and why.
	AnnotationPending = "quoin.dev/pending"
	// AnnotationAsked is when Slurm was asked what AnnotationPending tells of, in RFC 3339. A later
	// answer that says the same does not change it. It is absent if Slurm never answered.
	AnnotationAsked = "quoin.dev/asked"
	// AnnotationWaits says why new files wait for a time, and until when. NoteWaits writes it. A
	// line whose time is over says nothing.
	AnnotationWaits = "quoin.dev/waits"
	// AnnotationApprove is written by people: the digest of what to let through.
	AnnotationApprove = "quoin.dev/approve"
	// AnnotationRollback is written by people: the number of the revision to go back to.
	AnnotationRollback = "quoin.dev/rollback"
	// AnnotationBy is written by people beside one of the two: who asks for it.
	AnnotationBy = "quoin.dev/by"
)

// SpecAnnotation is the Node annotation that Slinky turns into slurmd's
// Topology= string.
const SpecAnnotation = "topology.slinky.slurm.net/spec"

// The Node labels that say where the published plan has the node: its block, its leaf switch, the
// switch above that, and the NVLink domain of its block.
const (
	LabelBlock  = "quoin.dev/block"
	LabelLeaf   = "quoin.dev/leaf"
	LabelSpine  = "quoin.dev/spine"
	LabelClique = "quoin.dev/clique"
)

// NodeLabels are the labels that the publisher writes on Nodes, beside SpecAnnotation and conditions.
var NodeLabels = []string{LabelBlock, LabelLeaf, LabelSpine, LabelClique}

// ErrNodeChanged is returned by a store when a Node has changed since it was read. The next pass
// sees the change.
var ErrNodeChanged = errors.New("the Node has changed since it was read")

// Location names where a publication is stored: a ConfigMap, or a folder of a directory.
type Location struct{ Namespace, Name string }

// String is NAMESPACE/NAME.
func (p Location) String() string { return p.Namespace + "/" + p.Name }

// location is what String returns. The names are Kubernetes', without characters of a shell.
var location = regexp.MustCompile(`^([a-z0-9-]+)/([a-z0-9][a-z0-9.-]*)$`)

// ReadLocation reads what String returns. It refuses all else, because people delete what a stored plan names.
func ReadLocation(text string) (Location, bool) {
	found := location.FindStringSubmatch(text)
	if found == nil {
		return Location{}, false
	}
	return Location{found[1], found[2]}, true
}

// Published is one publication as it stands in a store: its files, and what the publisher has
// to say of them in annotations.
type Published struct {
	Files       map[string]string
	Annotations map[string]string
	// Version is the store's, so that a write never overwrites a change that was not
	// seen.
	Version string `json:"-"`
}

// CannotAsk begins the text of AnnotationPending while Slurm does not answer. What Slurm answered last
// follows in further lines.
const CannotAsk = "Slurm cannot be asked; the publisher's log says why"

// LoadNotKnown is the text of AnnotationPending while Slurm answers, no node is seen to be pending, and
// nobody knows whether Slurm has loaded the files that place the nodes.
const LoadNotKnown = "Slurm does not say whether it has loaded the published files: before 26.05 slurmrestd says so only until midnight UTC; run scontrol reconfigure, or set slurm.scontrol"

// OwnAnnotations and OwnFiles are what the publisher writes and may remove.
// What people ask for is in it, because it is done once.
var (
	OwnAnnotations = append(slices.Clone(written), AnnotationSeed, AnnotationApprove, AnnotationRollback, AnnotationBy)
	OwnFiles       = []string{"topology.conf", "topology.yaml", gresFile}
)

const gresFile = "gres.conf"

// maxAnnotations is the most bytes of what the publisher writes into annotations, keys and
// values together.
const maxAnnotations = 16 << 10

// written are the annotations that the publisher writes, the most important first.
var written = []string{AnnotationRevision, AnnotationDigest, AnnotationPublished, AnnotationHeld, AnnotationHeldReason, AnnotationAsked, AnnotationPending, AnnotationWaits, AnnotationLeftOut}

// Bound cuts the publisher's annotations to maxAnnotations. An API server refuses an object
// whose annotations are too long, with its files.
func (s *Published) Bound() {
	left := maxAnnotations
	for _, key := range written {
		if value, is := s.Annotations[key]; is {
			s.Annotations[key] = topology.Cut(value, left-len(key))
			left -= len(key) + len(s.Annotations[key])
		}
	}
}

// SayHeld says in annotations what is held. If nothing is held, its waits are removed too.
func (s *Published) SayHeld(held []Held) {
	if len(held) == 0 && s.Annotations[AnnotationHeldReason] != "" {
		delete(s.Annotations, AnnotationWaits)
	}
	var digests, reasons []string
	for i := range held {
		if held[i].Digest != "" {
			digests = append(digests, held[i].Digest)
		}
		reasons = append(reasons, held[i].Reason+": "+held[i].Message)
	}
	s.Say(AnnotationHeld, strings.Join(digests, " "))
	s.Say(AnnotationHeldReason, strings.Join(reasons, "\n"))
}

// SaysHeld reports whether the annotations say what is held.
func (s *Published) SaysHeld(held []Held) bool {
	said := s.Clone()
	said.SayHeld(held)
	return maps.Equal(said.Annotations, s.Annotations)
}

// Say sets an annotation, or removes it if the text is empty.
func (s *Published) Say(key, text string) {
	if s.Annotations == nil {
		s.Annotations = map[string]string{}
	}
	if s.Annotations[key] = text; text == "" {
		delete(s.Annotations, key)
	}
	s.Bound()
}

// Put puts the files of a revision into the set, in place of the publisher's files there, with the
// annotations that say which they are. If they are there already, it stays as it was when they
// were published.
func (s *Published) Put(r *Revision, files map[string]string, now time.Time) {
	own := s.Own()
	// A topology file may be theirs if it is beside a gres.conf alone, or if something was edited.
	theirs := !hasTopology(files) && (!hasTopology(own) || Digest(own) != s.Annotation(AnnotationDigest))
	for _, name := range OwnFiles {
		if name == gresFile || !theirs {
			delete(s.Files, name)
		}
	}
	maps.Copy(s.Files, files)
	_, err := s.Written()
	same := err == nil && s.Annotations[AnnotationDigest] == r.OfFiles()
	if !same || r.FilesDigest == "" || s.Annotations[AnnotationRevision] == "" {
		s.Annotations[AnnotationRevision] = strconv.Itoa(r.Number)
	}
	if !same {
		s.Annotations[AnnotationDigest] = r.OfFiles()
		s.Annotations[AnnotationPublished] = now.UTC().Format(time.RFC3339)
		delete(s.Annotations, AnnotationWaits) // what waited for these files does so no longer
	}
	s.Bound()
}

// Asked returns when Slurm was asked what AnnotationPending tells of. It is zero if nobody noted that.
func Asked(annotations map[string]string) time.Time {
	at, _ := time.Parse(time.RFC3339, annotations[AnnotationAsked]) // what cannot be read is not known
	return at
}

// Own returns the publisher's files of the set. If the publisher wrote gres.conf alone, a
// topology file beside it is somebody else's, and stays until the publisher has one too.
func (s *Published) Own() map[string]string {
	out := make(map[string]string, len(OwnFiles))
	if s == nil {
		return out
	}
	for _, name := range OwnFiles {
		if text, ok := s.Files[name]; ok {
			out[name] = text
		}
	}
	if text, ok := out[gresFile]; ok {
		if alone := map[string]string{gresFile: text}; Digest(alone) == s.Annotation(AnnotationDigest) {
			return alone
		}
	}
	return out
}

// hasTopology reports whether there is a topology file among files.
func hasTopology(files map[string]string) bool {
	return files["topology.yaml"] != "" || files["topology.conf"] != ""
}

// Clone returns a copy. The copy of nothing is an empty set.
func (s *Published) Clone() *Published {
	next := &Published{Files: map[string]string{}, Annotations: map[string]string{}}
	if s != nil {
		maps.Copy(next.Files, s.Files)
		maps.Copy(next.Annotations, s.Annotations)
		next.Version = s.Version
	}
	return next
}

// Annotation returns an annotation, or "" if it or the whole set is not there.
func (s *Published) Annotation(key string) string {
	if s == nil {
		return ""
	}
	return s.Annotations[key]
}

// Written returns when the files last changed.
func (s *Published) Written() (time.Time, error) {
	at, err := time.Parse(time.RFC3339, s.Annotation(AnnotationPublished))
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
