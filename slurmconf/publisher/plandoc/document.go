// Package plandoc is the plan of a publication as a stored document: the publisher's whole
// memory, and what all its files, annotations and answers are made from. Beside it stands what
// is published: the files and annotations of one publication in a store.
//
// The package is pure: data in, data out. It plans nothing, reads no clock and opens no
// file. It refuses documents with unknown fields, and documents that are too large to store.
package plandoc

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/switches"
)

// The version and the kind of every document.
const (
	APIVersion = "quoin.dev/v1alpha1"
	Kind       = "Plan"
)

// MaxHistory is how many revisions before the current one are kept. The newest of them, as
// many as keptNewest, are kept whatever they changed.
const (
	MaxHistory = 10
	keptNewest = 5
)

// maxNames is how many names the host lists of all plans of a document may have together. It
// is enough for 100,000 nodes in three topologies, in as many plans as are kept.
const maxNames = 4 * hostlist.MaxHosts

// maxSwitches is how many switches all groups may have together.
const maxSwitches = 1 << 17

// ErrUnreadable is wrapped by the error of a document that cannot be read.
var ErrUnreadable = errors.New("the stored plan cannot be read")

// Stored is where the files of a stored publication are, and how people delete its plan and its files.
type Stored struct {
	// Place is empty if the plan cannot be read.
	Place Location
	// Files is in words, such as "ConfigMap slurm/quoin-slurm".
	Files string
	// RemovePlan and RemoveFiles are commands. RemoveFiles is empty if the plan cannot be read.
	RemovePlan, RemoveFiles string
}

// Document is the plan of one publication, with the revisions before it.
type Document struct {
	APIVersion  string `json:"apiVersion"`
	Kind        string `json:"kind"`
	Publication string `json:"publication"`
	// Place is where the files are: NAMESPACE/NAME.
	Place string `json:"place"`
	// Version is the store's, so that a write never overwrites a change that was not seen.
	Version string `json:"-"`
	// Current is what is published. Its number is 0 if nothing is.
	Current Revision `json:"current"`
	// Held says what is not published, and why.
	Held []Held `json:"held,omitempty"`
	// Wanted is the plan that would have been published if nothing had been held, when Held was written. It is nil if
	// nothing is held, or if no plan can be made.
	Wanted *Plan `json:"wanted,omitempty"`
	// RolledBack is the revision that people went back to: every change waits for an
	// approval. 0: none does.
	RolledBack int `json:"rolledBack,omitempty"`
	// Leaving are the Nodes that left the publication and still have its annotation.
	Leaving []string `json:"leaving,omitempty"`
	// FabricSince says by Node since when its NVLink fabric is not ready. A registration in progress
	// is here once it takes too long.
	FabricSince map[string]time.Time `json:"fabricSince,omitempty"`
	// MissingSince says since when nobody has published Slurm names that leave after removeAfter. A name is here
	// once it has been missing for a while.
	MissingSince map[string]time.Time `json:"missingSince,omitempty"`
	// Groups are the switches that cables show, by the names that they have in the tree: a group keeps
	// its name when switches come, go or are replaced.
	Groups []switches.Group `json:"groups,omitempty"`
	// Moves are the changes that the guard still counts, the oldest first.
	Moves []Step `json:"moves,omitempty"`
	// History has the revisions before the current one, the newest first.
	History []Revision `json:"history,omitempty"`
}

// SinceText returns a time as messages have it.
func SinceText(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 MST") }

// Revision is one plan that was published.
type Revision struct {
	Number int       `json:"number,omitempty"`
	Time   time.Time `json:"time,omitzero"`
	// Author is who approved the revision or rolled back to it, or the publisher.
	Author string `json:"author,omitempty"`
	// Why says what changed.
	Why string `json:"why,omitempty"`
	// OnlyMembers says that nobody asked for the revision, and that it only changed which
	// nodes known units have.
	OnlyMembers bool `json:"onlyMembers,omitempty"`
	// Digest names the plan: it is that of the files with all nodes in them.
	Digest string `json:"digest,omitempty"`
	// FilesDigest is that of the files, and FilesTime is when they were written, if they have
	// no nodes. Then several revisions may have the same files.
	FilesDigest string    `json:"filesDigest,omitempty"`
	FilesTime   time.Time `json:"filesTime,omitzero"`
	Plan        Plan      `json:"plan,omitzero"`
}

// OfFiles returns the digest of the revision's files.
func (r *Revision) OfFiles() string { return cmp.Or(r.FilesDigest, r.Digest) }

// Written returns when the revision's files were written.
func (r *Revision) Written() time.Time { return cmp.Or(r.FilesTime, r.Time) }

// SetDigests gives the revision the digests of its plan.
func (r *Revision) SetDigests() error {
	files, err := r.Plan.Files()
	r.Digest, r.FilesDigest = Digest(files), ""
	if err != nil || !r.Plan.ByAnnotation {
		return err
	}
	whole, err := r.Plan.Whole()
	r.Digest, r.FilesDigest = Digest(whole), r.Digest
	return err
}

// Held is a change that waits, or that must not be published.
type Held struct {
	// Since is when the change was first held. Of files it is when files were first held for
	// the reason.
	Since   time.Time `json:"since"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	// Digest names what is held: the decision, or the files. It is empty if no files could be
	// made.
	Digest string `json:"digest,omitempty"`
	// Waits says that an approval of the digest publishes the change.
	Waits bool `json:"waits,omitempty"`
	// Alone says that one decision is held, and that all else is published.
	Alone bool `json:"alone,omitempty"`
}

// Compare puts what holds all files before decisions: no approval of a decision helps before that ends.
func (h Held) Compare(other Held) int {
	switch {
	case h.Alone == other.Alone:
		return 0
	case other.Alone:
		return -1
	}
	return 1
}

// Same reports whether both are the same hold: of one decision, or of files for one reason.
func (h Held) Same(other Held) bool {
	return h.Reason == other.Reason && h.Alone == other.Alone && (!h.Alone || h.Digest == other.Digest)
}

// Ends says what ends the hold, beside an approval of one that waits for it.
func (h *Held) Ends() string {
	return cmp.Or(topology.Explain(h.Reason).Ends, "by itself when the nodes and the configuration give files that can be published")
}

// New returns the document of a publication that has published nothing.
func New(publication, place string) *Document {
	return &Document{APIVersion: APIVersion, Kind: Kind, Publication: publication, Place: place}
}

// Clone returns a copy that Add, Remember and assignments to fields may change. Plans are
// shared, because nobody changes a plan.
func (d *Document) Clone() *Document {
	c := *d
	c.Held, c.Leaving, c.Moves, c.History = slices.Clone(d.Held), slices.Clone(d.Leaving), slices.Clone(d.Moves), slices.Clone(d.History)
	return &c
}

// Add makes r the current revision, with the next number. If there are more revisions than
// are kept, one goes: the oldest that only changed members, else the oldest of all. So nodes
// that come and go all day do not push out the changes that people go back to.
func (d *Document) Add(r Revision) {
	if d.Current.Number > 0 {
		d.History = slices.Insert(d.History, 0, d.Current)
	}
	if last := len(d.History) - 1; last >= MaxHistory {
		goes := last
		for goes >= keptNewest && !d.History[goes].OnlyMembers {
			goes--
		}
		if goes < keptNewest {
			goes = last
		}
		d.History = slices.Delete(d.History, goes, goes+1)
	}
	r.Number = d.Current.Number + 1
	d.Current = r
}

// Find returns the revision of the number, or nil.
func (d *Document) Find(number int) *Revision {
	if number > 0 && number == d.Current.Number {
		return &d.Current
	}
	for i := range d.History {
		if d.History[i].Number == number {
			return &d.History[i]
		}
	}
	return nil
}

// Numbers lists the revisions that are kept, the newest first.
func (d *Document) Numbers() string {
	numbers := []string{strconv.Itoa(d.Current.Number)}
	for i := range d.History {
		numbers = append(numbers, strconv.Itoa(d.History[i].Number))
	}
	return strings.Join(numbers, ", ")
}

// Marshal returns the document as JSON, sorted, so that one document has one text.
func Marshal(d *Document) ([]byte, error) {
	s := *d
	s.Leaving = slices.Sorted(slices.Values(d.Leaving))
	s.Current.Plan = sorted(&d.Current.Plan)
	if d.Wanted != nil {
		plan := sorted(d.Wanted)
		s.Wanted = &plan
	}
	s.History = slices.Clone(d.History)
	for i := range s.History {
		s.History[i].Plan = sorted(&s.History[i].Plan)
	}
	text, err := json.Marshal(&s)
	if err != nil {
		return nil, fmt.Errorf("write plan of %s: %w", d.Publication, err)
	}
	return append(text, '\n'), nil
}

// sorted returns the plan as it is stored: its nodes and problems are sorted, and a node has
// its name in Kubernetes only if that is another one.
func sorted(p *Plan) Plan {
	s := *p
	s.Nodes = slices.Clone(p.Nodes)
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.Node == n.SlurmName {
			n.Node = ""
		}
	}
	byName := func(a, b topology.Placement) int { return strings.Compare(a.SlurmName, b.SlurmName) }
	if !slices.IsSortedFunc(s.Nodes, byName) {
		slices.SortFunc(s.Nodes, byName)
	}
	s.Problems = slices.SortedFunc(slices.Values(p.Problems), topology.CompareFindings)
	return s
}

// Unmarshal reads a document and checks it. Its error wraps ErrUnreadable.
func Unmarshal(text []byte) (*Document, error) {
	d, names := &Document{}, 0
	lists := jsonv2.UnmarshalFromFunc(func(dec *jsontext.Decoder, list *topology.Names) error {
		quoted, err := dec.ReadToken()
		if err == nil {
			err = list.UnmarshalText([]byte(quoted.String()))
		}
		if names += len(*list); err == nil && names > maxNames {
			err = fmt.Errorf("more than %d names in one document: no site is so large", maxNames)
		}
		return err
	})
	err := jsonv2.Unmarshal(text, d, jsonv2.RejectUnknownMembers(true), jsonv2.WithUnmarshalers(lists))
	if err == nil {
		err = d.check()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	return d, nil
}

// check refuses what the publisher could not continue from.
func (d *Document) check() error {
	if d.APIVersion != APIVersion || d.Kind != Kind {
		return fmt.Errorf("it is %q of %q: want %s of %s", d.Kind, d.APIVersion, Kind, APIVersion)
	}
	if len(d.History) > MaxHistory {
		return fmt.Errorf("%d revisions before the current one: want at most %d", len(d.History), MaxHistory)
	}
	switches := 0
	for i := range d.Groups {
		if switches += len(d.Groups[i].Switches); switches > maxSwitches {
			return fmt.Errorf("groups: more than %d switches: no site is so large", maxSwitches)
		}
	}
	moved := 0
	for _, step := range d.Moves {
		for _, list := range []string{step.Places, step.Devices} {
			if err := hostlist.Walk(list, func([]byte) { moved++ }); err != nil {
				return fmt.Errorf("moves: %w", err)
			}
			if moved > hostlist.MaxHosts {
				return fmt.Errorf("moves: more than %d names: no site is so large", hostlist.MaxHosts)
			}
		}
	}
	if d.Current.Number < 0 {
		return fmt.Errorf("revision %d: want 1 or more", d.Current.Number)
	}
	last := d.Current.Number
	if last > 0 {
		if err := d.Current.check(); err != nil {
			return err
		}
	}
	for i := range d.History {
		r := &d.History[i]
		if r.Number < 1 || r.Number >= last {
			return fmt.Errorf("revision %d after revision %d: want a number below it", r.Number, last)
		}
		if err := r.check(); err != nil {
			return err
		}
		last = r.Number
	}
	if d.Wanted != nil {
		if err := check(d.Wanted); err != nil {
			return fmt.Errorf("wanted plan: %w", err)
		}
	}
	return nil
}

func (r *Revision) check() error {
	if err := check(&r.Plan); err != nil {
		return fmt.Errorf("revision %d: %w", r.Number, err)
	}
	return nil
}

// check refuses a plan that gives no files. It gives every node its name in Kubernetes.
func check(p *Plan) error {
	if p.Format != "yaml" && p.Format != "conf" {
		return fmt.Errorf("format %q: want yaml or conf", p.Format)
	}
	for i := range p.Topologies {
		switch t := &p.Topologies[i]; t.Kind {
		case topology.KindBlock, topology.KindTree, topology.KindFlat:
		default:
			return fmt.Errorf("topology %q: kind %q: want block, tree or flat", t.Name, t.Kind)
		}
	}
	for i := range p.Nodes {
		if n := &p.Nodes[i]; n.Node == "" {
			n.Node = n.SlurmName
		}
	}
	return nil
}
