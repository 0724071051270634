package switches

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTogether(t *testing.T) {
	for _, test := range []struct {
		name string
		sets [][]int32
		want []int32
	}{
		{"nothing", nil, []int32{}},
		{"alike", [][]int32{{0, 1}, {0, 1}, {2}}, []int32{0, 0, 2}},
		{"a set without members", [][]int32{nil, {0}, nil, {0}}, []int32{0, 1, 2, 1}},
		{"most of the smaller one", [][]int32{{0, 1, 2, 3, 4, 5, 6, 7}, {0, 1, 8}}, []int32{0, 0}},
		{"half of the smaller one", [][]int32{{0, 1, 2, 3}, {0, 8}}, []int32{0, 1}},
		{"one that two others share", [][]int32{{0, 1}, {2, 3}, {0, 1, 2, 3}}, []int32{0, 1, 0}},
		{"one that two groups share", [][]int32{{0, 1}, {0, 1}, {2, 3}, {2, 3}, {0, 1, 2, 3}}, []int32{0, 0, 2, 2, 0}},
		{"one member that is in all", [][]int32{{0, 1, 2, 9}, {3, 4, 5, 9}, {9}}, []int32{0, 1, 0}},
		{"a chain", [][]int32{{0, 1, 2}, {1, 2, 3}, {2, 3, 4}, {3, 4, 5}}, []int32{0, 0, 2, 2}},
		{"half of many", [][]int32{{0, 1, 2, 3}, {0, 1, 2, 3}, {0, 1, 2, 3}, {0, 1, 8, 9}}, []int32{0, 0, 0, 0}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, together(test.sets, 10)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestPortGUIDs: the ports report calls a switch by the GUID of its port 0, which may differ from the
// switch's own. A text of the other form says both.
func TestPortGUIDs(t *testing.T) {
	l := racks(2, 2, 2, 2)
	text := l.text(newRand(1))
	stanzas, err := Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	own := "2c5eab0300000300" // leaf1-1
	report, err := Read(strings.NewReader(strings.ReplaceAll(l.report(newRand(1)), own, "2c5eab03000003ff")))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text, "("+own+")") {
		t.Fatal("the text does not say the GUID of port 0")
	}
	both, err := Read(strings.NewReader(strings.ReplaceAll(text, "("+own+")", "(2c5eab03000003ff)")))
	if err != nil {
		t.Fatal(err)
	}
	want := Place([]*Fabric{stanzas}, l.nodes(), nil)
	if diff := cmp.Diff(want, Place([]*Fabric{report, both}, l.nodes(), nil)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
