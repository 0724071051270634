package ibrig

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/test/rig/golden"
)

// TestRealIBNetDiscover compares the text of each kind of fabric with what is true of it: the
// switches, and for each adapter its GUIDs and the switch at its cable.
func TestRealIBNetDiscover(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		shape Shape
		parts int
		fault func(*Fabric)
	}{
		{"two tiers", Shape{Groups: 4, Nodes: 8, Rails: 1, Spines: 2}, 1, nil},
		{"three tiers", Shape{Pods: 3, Groups: 2, Nodes: 4, Rails: 2, Spines: 2, Cores: 2}, 1, nil},
		{"rails", Shape{Groups: 2, Nodes: 32, Rails: 8, RailLeaves: true, Spines: 4, Storage: true, Aggregation: true}, 2, nil},
		{"rails apart", Shape{Groups: 2, Nodes: 4, Rails: 4, RailsApart: true, Spines: 2}, 4, nil},
		{"two fabrics", Shape{Parts: 2, Groups: 2, Nodes: 4, Rails: 2, RailLeaves: true, Spines: 2}, 2, nil},
		{"faults", Shape{Groups: 2, Nodes: 16, Rails: 4, RailLeaves: true, Spines: 4, Aggregation: true}, 1, func(f *Fabric) {
			f.TakeNames(20)
			f.SwapSwitch(f.Nodes[3].Adapters[2])
			f.PullCable(f.Nodes[5].Adapters[1])
			f.PullCables(0.05)
			f.AddGroup(5)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := New(c.shape)
			if c.fault != nil {
				c.fault(f)
			}
			texts := DiscoverTest(t, f)
			if len(texts) != c.parts {
				t.Errorf("%d texts, want %d", len(texts), c.parts)
			}
			got := read{}
			for _, text := range texts {
				got.add(text)
			}
			if diff := cmp.Diff(f.truth(), got); diff != "" {
				t.Errorf("ibnetdiscover (-want +got):\n%s", diff)
			}
		})
	}
}

// recorded are fabrics of which a real ibnetdiscover has said what is in folder recorded, for tests
// without one.
func recorded() map[string]*Fabric {
	small := New(Shape{Seed: 7, Groups: 2, Nodes: 3, Rails: 2, RailLeaves: true, Spines: 2, Aggregation: true})
	small.TakeNames(3)
	small.PullCable(small.Nodes[4].Adapters[1])
	return map[string]*Fabric{
		"small":       small,
		"three-tiers": New(Shape{Seed: 7, Pods: 2, Groups: 2, Nodes: 4, Rails: 1, Spines: 2, Cores: 1}),
		"hgx64":       New(Shape{Seed: 7, Groups: 2, Nodes: 32, Rails: 8, RailLeaves: true, Spines: 4, Aggregation: true}),
	}
}

// date is the line that differs each time.
var date = regexp.MustCompile(`(?m)generated on .*$`)

// TestRealRecorded compares what was recorded with what is said now.
func TestRealRecorded(t *testing.T) {
	t.Parallel()
	for name, f := range recorded() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			texts := DiscoverTest(t, f)
			if len(texts) != 1 {
				t.Fatalf("%d texts, want 1", len(texts))
			}
			want, got := read{}, read{}
			want.add(record(t, name, texts[0]))
			got.add(texts[0])
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("recorded and said (-want +got):\n%s", diff)
			}
		})
	}
}

// record returns what was recorded under a name. With -update, that is the text.
func record(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join("recorded", name+".gz")
	if golden.Updating() {
		var out bytes.Buffer
		w, _ := gzip.NewWriterLevel(&out, gzip.BestCompression) // there is such a level
		_, err := w.Write(date.ReplaceAll([]byte(text), []byte("generated on Thu Nov 26 20:00:00 2026")))
		if err := errors.Join(err, w.Close(), os.WriteFile(path, out.Bytes(), 0o644)); err != nil { //nolint:gosec // no secret
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err == nil {
		data, err = io.ReadAll(r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// read is what a text says: the switch of each adapter with its own words, and each switch.
type read map[string]string

var (
	head   = regexp.MustCompile(`^(Switch|Ca)\t\d+ "[SH]-([0-9a-f]{16})"\t\t# "(.*)"`)
	toPort = regexp.MustCompile(`^\[\d+\]\(([0-9a-f]+)\) \t"S-([0-9a-f]{16})"\[\d+\]`)
)

func (r read) add(text string) {
	var last []string
	for line := range strings.Lines(text) {
		if m := head.FindStringSubmatch(line); m != nil {
			last = m
			if m[1] == "Switch" {
				r["switch "+m[2]] = m[3]
			}
		} else if m := toPort.FindStringSubmatch(line); m != nil {
			r[fmt.Sprintf("adapter %s port %016s", last[2], m[1])] = m[2] + " " + last[3]
		}
	}
}

// truth is what the texts are to say.
func (f *Fabric) truth() read {
	all := read{}
	for _, s := range f.Switches {
		all[fmt.Sprintf("switch %016x", s.GUID)] = s.Description
	}
	add := func(guid, port, leaf uint64, description string) {
		all[fmt.Sprintf("adapter %016x port %016x", guid, port)] = fmt.Sprintf("%016x %s", leaf, description)
	}
	for _, n := range f.Nodes {
		for _, a := range n.Adapters {
			if a.Leaf() != 0 {
				add(a.GUID, a.Port, a.Leaf(), a.Description)
			}
		}
	}
	for _, e := range f.ends {
		if e.description == aggregation {
			add(e.guid, e.guid+1, e.cables[1].to.guid, e.description)
		}
	}
	return all
}

// TestFabric is about what a fabric says of itself: the same seed makes the same fabric, a group
// more changes no GUID, and nodes of a group have the same leaves.
func TestFabric(t *testing.T) {
	t.Parallel()
	shape := Shape{Seed: 3, Parts: 2, Pods: 2, Groups: 3, Nodes: 5, Rails: 8, RailLeaves: true, Spines: 4, Cores: 2, Storage: true, Aggregation: true}
	f, again := New(shape), New(shape)
	f.PullCables(0.2)
	again.PullCables(0.2)
	if !slices.Equal(f.net(), again.net()) {
		t.Error("one seed makes two fabrics")
	}
	cables := func(f *Fabric) (n int) {
		for _, e := range f.ends {
			n += len(e.cables)
		}
		return n
	}
	if all, left := cables(New(shape)), cables(f); left >= all*9/10 || left <= all*7/10 {
		t.Errorf("%d of %d ends of cables are left, want some 80 %%", left, all)
	}
	guids := map[uint64]string{}
	groups, pods := map[string]map[uint64]bool{}, map[string]bool{}
	f = New(shape)
	first := f.Nodes[0].Adapters[0].GUID
	f.AddGroup(5)
	if f.Nodes[0].Adapters[0].GUID != first || len(f.Nodes) != 2*2*3*5+5 {
		t.Errorf("a group more: first adapter %x, was %x; %d nodes", f.Nodes[0].Adapters[0].GUID, first, len(f.Nodes))
	}
	for _, n := range f.Nodes {
		pods[n.Pod] = true
		if groups[n.Group] == nil {
			groups[n.Group] = map[uint64]bool{}
		}
		for i, a := range n.Adapters {
			groups[n.Group][a.Leaf()] = true
			for _, guid := range []uint64{a.GUID, a.Port} {
				if other := guids[guid]; other != "" {
					t.Errorf("%x is of %s and %s", guid, other, n.Name)
				}
				guids[guid] = n.Name
			}
			if a.Storage != (i == 8) {
				t.Errorf("%s: adapter %d for storage: %t", n.Name, i, a.Storage)
			}
		}
	}
	if len(pods) != 4 || len(groups) != 13 {
		t.Errorf("%d pods, %d groups, want 4, 13", len(pods), len(groups))
	}
	for name, leaves := range groups {
		if len(leaves) != 9 {
			t.Errorf("group %s has leaves %v, want 8 and one for storage", name, slices.Collect(maps.Keys(leaves)))
		}
	}
}
