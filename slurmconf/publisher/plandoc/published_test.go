package plandoc

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// TestBound cuts what the publisher writes, the list of nodes that are left out first.
func TestBound(t *testing.T) {
	long := strings.Repeat("x", 900<<10)
	for _, tt := range []struct {
		name string
		give map[string]string
		cut  []string
	}{
		{"nothing", nil, nil},
		{"as usual", map[string]string{AnnotationDigest: "d", AnnotationLeftOut: strings.Repeat("x", 9<<10), AnnotationHeldReason: strings.Repeat("r", 1<<10)}, nil},
		{"a long list", map[string]string{AnnotationDigest: "d", AnnotationLeftOut: long, AnnotationHeldReason: "r"}, []string{AnnotationLeftOut}},
		{"a long reason", map[string]string{AnnotationDigest: "d", AnnotationHeldReason: long}, []string{AnnotationHeldReason}},
		{"a long reason and a list", map[string]string{AnnotationDigest: "d", AnnotationLeftOut: "nodes", AnnotationHeldReason: long}, []string{AnnotationHeldReason, AnnotationLeftOut}},
		{"others' annotations", map[string]string{"example.com/note": long, AnnotationDigest: "d"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &Published{Annotations: maps.Clone(tt.give)}
			s.Bound()
			size := 0
			for _, key := range written {
				if value, is := s.Annotations[key]; is {
					size += len(key) + len(value)
				}
			}
			if size > maxAnnotations+len(AnnotationLeftOut)+len("...") {
				t.Errorf("%d bytes", size)
			}
			for _, key := range tt.cut {
				if !strings.HasSuffix(s.Annotations[key], "...") {
					t.Errorf("%s is not cut", key)
				}
				s.Annotations[key] = tt.give[key]
			}
			if diff := cmp.Diff(tt.give, s.Annotations); diff != "" {
				t.Errorf("changed too (-before +after):\n%s", diff)
			}
			again := &Published{Annotations: maps.Clone(tt.give)}
			again.Bound()
			once := maps.Clone(again.Annotations)
			if again.Bound(); !maps.Equal(once, again.Annotations) {
				t.Error("bounding twice changes more")
			}
		})
	}
}

// TestReadLocation reads places of stored plans, and refuses what is none.
func TestReadLocation(t *testing.T) {
	for text, want := range map[string]Location{
		"slurm/quoin-slurm":   {"slurm", "quoin-slurm"},
		"":                    {},
		"slurm":               {},
		"slurm/":              {},
		"/quoin-slurm":        {},
		"slurm/..":            {},
		"../x":                {},
		"slurm/quoin-slurm/x": {},
		"slurm/x;reboot":      {},
		"slurm/$(reboot)":     {},
	} {
		got, ok := ReadLocation(text)
		if diff := cmp.Diff(want, got); diff != "" || ok == (want == Location{}) {
			t.Errorf("%q: taken %t (-want +got):\n%s", text, ok, diff)
		}
	}
}

// TestSayHeld says in annotations what is held, and sees whether they say it.
func TestSayHeld(t *testing.T) {
	one, two, refused := Held{Reason: "A", Message: "x", Digest: "1"}, Held{Reason: "B", Message: "y", Digest: "2"}, Held{Reason: "C", Message: "z"}
	for _, tt := range []struct {
		held            []Held
		digests, reason string
	}{
		{[]Held{one}, "1", "A: x"},
		{[]Held{one, two}, "1 2", "A: x\nB: y"},
		{[]Held{refused, two}, "2", "C: z\nB: y"},
		{[]Held{refused}, "", "C: z"},
		{nil, "", ""},
	} {
		s := &Published{Annotations: map[string]string{AnnotationHeld: "old", AnnotationHeldReason: "old"}}
		if s.SaysHeld(tt.held) {
			t.Errorf("%v is said already", tt.held)
		}
		s.SayHeld(tt.held)
		if s.Annotations[AnnotationHeld] != tt.digests || s.Annotations[AnnotationHeldReason] != tt.reason || !s.SaysHeld(tt.held) {
			t.Errorf("held %v: annotations %q", tt.held, s.Annotations)
		}
	}
}

// TestSay bounds the annotations.
func TestSay(t *testing.T) {
	s := &Published{}
	s.Say(AnnotationHeldReason, strings.Repeat("r", maxAnnotations+1))
	if n := len(s.Annotations[AnnotationHeldReason]); n == 0 || n > maxAnnotations {
		t.Errorf("%d bytes", n)
	}
	if s.Say(AnnotationHeldReason, ""); len(s.Annotations) > 0 {
		t.Errorf("annotations %v", s.Annotations)
	}
}

// TestPut leaves the revision and the time of files without nodes as they are while the files stay,
// and says them if they are absent.
func TestPut(t *testing.T) {
	files := map[string]string{"topology.yaml": "x"}
	r := Revision{Number: 2, Digest: "whole", FilesDigest: Digest(files)}
	s := (*Published)(nil).Clone()
	s.Put(&r, files, noon)
	first := maps.Clone(s.Annotations)
	if s.Annotations[AnnotationRevision] != "2" || s.Annotations[AnnotationPublished] != "2026-03-01T12:00:00Z" {
		t.Errorf("annotations %v", s.Annotations)
	}
	r.Number = 3
	if s.Put(&r, files, noon.Add(time.Hour)); !maps.Equal(first, s.Annotations) {
		t.Errorf("annotations %v after another revision of the same files, want %v", s.Annotations, first)
	}
	delete(s.Annotations, AnnotationRevision)
	if s.Put(&r, files, noon.Add(time.Hour)); s.Annotations[AnnotationRevision] != "3" {
		t.Errorf("annotations %v, want revision 3", s.Annotations)
	}
}

// TestForeignTopology leaves a topology file alone that stands beside a gres.conf of the publisher, until
// the publisher has a topology.
func TestForeignTopology(t *testing.T) {
	gresAlone, theirs := map[string]string{"gres.conf": "g"}, "SwitchName=s Nodes=n1\n"
	r := Revision{Number: 1, Digest: Digest(gresAlone)}
	s := (*Published)(nil).Clone()
	s.Put(&r, gresAlone, noon)
	s.Files["topology.conf"] = theirs
	if got := s.Own(); !maps.Equal(got, gresAlone) {
		t.Errorf("own files %v", got)
	}
	s.Files["gres.conf"] = "edited"
	s.Put(&r, gresAlone, noon)
	if want := map[string]string{"gres.conf": "g", "topology.conf": theirs}; !maps.Equal(s.Files, want) {
		t.Errorf("written again: %v, want %v", s.Files, want)
	}
	both := map[string]string{"gres.conf": "g", "topology.yaml": "y"}
	s.Put(&Revision{Number: 2, Digest: Digest(both)}, both, noon)
	if !maps.Equal(s.Files, both) || !maps.Equal(s.Own(), both) {
		t.Errorf("with a topology: %v, own %v", s.Files, s.Own())
	}
	s.Put(&r, gresAlone, noon) // as people ask for it
	if !maps.Equal(s.Files, gresAlone) {
		t.Errorf("gone back: %v", s.Files)
	}
	alone := map[string]string{"topology.yaml": "y"}
	s.Put(&Revision{Number: 3, Digest: Digest(alone)}, alone, noon)
	if s.Put(&r, gresAlone, noon); !maps.Equal(s.Files, gresAlone) {
		t.Errorf("gone back from a topology alone: %v", s.Files)
	}
}

// TestFilesByAnnotation renders no nodes if annotations alone place them.
func TestFilesByAnnotation(t *testing.T) {
	p := plan("n[1-2]", "n3")
	for _, byAnnotation := range []bool{false, true} {
		p.ByAnnotation = byAnnotation
		files, err := p.Files()
		if err != nil || strings.Contains(files["topology.yaml"], "n[1-2]") == byAnnotation {
			t.Errorf("by annotation %t: %v, %v", byAnnotation, files, err)
		}
		if whole, err := p.Whole(); err != nil || !strings.Contains(whole["topology.yaml"], "n[1-2]") {
			t.Errorf("whole: %v, %v", whole, err)
		}
	}
}

// TestSameHold holds decisions apart by their digests, and files by their reason.
func TestSameHold(t *testing.T) {
	decision, files := Held{Reason: "A", Digest: "1", Alone: true}, Held{Reason: "A", Digest: "1"}
	for _, tt := range []struct {
		a, b Held
		want bool
	}{
		{decision, Held{Reason: "A", Digest: "1", Alone: true, Message: "other"}, true},
		{decision, Held{Reason: "A", Digest: "2", Alone: true}, false},
		{decision, files, false},
		{files, Held{Reason: "A", Digest: "2"}, true},
		{files, Held{Reason: "B", Digest: "1"}, false},
	} {
		if got := tt.a.Same(tt.b); got != tt.want {
			t.Errorf("%+v and %+v: %t", tt.a, tt.b, got)
		}
	}
}

// TestUntil says when the oldest step that counts no longer does.
func TestUntil(t *testing.T) {
	d := New("a", "b/c")
	d.Moves = []Step{{Time: noon}, {Time: noon.Add(40 * time.Minute)}, {Time: noon.Add(20 * time.Minute)}}
	for after, want := range map[time.Duration]time.Time{0: noon.Add(time.Hour), time.Hour: noon.Add(20*time.Minute + time.Hour), 3 * time.Hour: {}} {
		if got := d.Until(noon.Add(after)); !got.Equal(want) {
			t.Errorf("after %s: %s, want %s", after, got, want)
		}
	}
}

// TestNone counts every kind of change.
func TestNone(t *testing.T) {
	for want, c := range map[bool]Changes{true: {}, false: {Moves: make([]Move, 1), Units: []string{"u"}}} {
		if c.None() != want {
			t.Errorf("%+v: %t", c, !want)
		}
	}
}

// TestClone copies files and annotations.
func TestClone(t *testing.T) {
	s := &Published{Files: map[string]string{"topology.yaml": "x"}, Annotations: map[string]string{"a": "b"}, Version: "7"}
	if diff := cmp.Diff(s, s.Clone()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	s.Clone().Files["topology.yaml"] = "y"
	if s.Files["topology.yaml"] != "x" {
		t.Error("the copy shares the files")
	}
}

// TestLeftSays says why a node that has a place is in no file.
func TestLeftSays(t *testing.T) {
	p := &topology.Plan{
		Topologies: []topology.Topology{{Name: "nvl", Kind: "block", Blocks: []topology.Block{{Name: "b", Nodes: topology.Names{"n1"}}}}, {Name: "fabric", Kind: "tree", Switches: []topology.Switch{{Name: "s", Nodes: topology.Names{"n2"}}}}},
		Nodes:      []topology.Placement{{SlurmName: "n1", Reason: placement.ReasonPlaced}, {SlurmName: "n2", Reason: placement.ReasonPlaced}, {SlurmName: "n3", Reason: "NoGPUs", Message: "m"}, {SlurmName: "n4", Reason: placement.ReasonPlaced}},
	}
	var got []string
	for _, f := range Left(p, map[string]string{"n4": "nvl:b"}, []topology.Finding{{Subject: topology.Subject{Node: "k5"}, Reason: "NoSlurmName"}}) {
		got = append(got, f.Node+" "+f.Reason)
	}
	if diff := cmp.Diff([]string{"n1 " + placement.ReasonNoSwitch, "n2 " + placement.ReasonNoDomain, "n3 NoGPUs", "k5 NoSlurmName"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestOnlyMembers takes other devices of a node that joins, and of no other.
func TestOnlyMembers(t *testing.T) {
	c := Changes{Moves: []Move{{Node: "n1", To: topology.Place{Block: "b"}}}, Devices: []string{"n1"}}
	if !c.OnlyMembers() {
		t.Error("the devices of a node that joins are another change")
	}
	if got := c.Summary(1); strings.Contains(got, "more") {
		t.Errorf("%s: want no more than is there", got)
	}
	if c.Devices = append(c.Devices, "n2"); c.OnlyMembers() {
		t.Error("other devices of n2 are no change")
	}
}
