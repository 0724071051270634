package publisher

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
)

// TestFate has every line of the table in the order of precedence: each case
// also knows what all lines after it would go by.
func TestFate(t *testing.T) {
	n := &inputs.Node{Name: "n"}
	for _, tt := range []struct {
		name string
		m    missing
		want fate
		why  string
	}{
		{"nodes contend for it", missing{claimed: "two nodes have it", owner: "n", nameless: n, byPods: true, movedOn: true, perhaps: "x"}, stays, "two nodes have it"},
		{"nodes contend for it, and nobody knows whose it was", missing{claimed: "two nodes have it", perhaps: "x"}, stays, "two nodes have it"},
		{"its Node's label is gone", missing{owner: "n", nameless: n, perhaps: "x"}, stays, ""},
		{"its Node's pod is gone", missing{owner: "n", nameless: n, byPods: true}, leavesLater, ""},
		{"its Node's pod waits to be scheduled", missing{owner: "n", nameless: n, byPods: true, pending: true}, leavesLater, ""},
		{"its Node's pod has another name", missing{owner: "n", renamed: true, byPods: true}, leavesNow, ""},
		{"its Node's pod has another name, and one of its name waits", missing{owner: "n", renamed: true, byPods: true, pending: true}, leavesLater, ""},
		{"its Node's label says another name", missing{owner: "n", renamed: true}, leavesLater, ""},
		{"another publication took its Node", missing{owner: "n", elsewhere: n, movedOn: true, perhaps: "x"}, leavesNow, ""},
		{"its Node is no longer taken", missing{owner: "n", elsewhere: n, perhaps: "x"}, leavesLater, ""},
		{"nobody knows its Node, which is not taken", missing{elsewhere: n, perhaps: "x"}, leavesLater, ""},
		{"nobody knows its Node, which may be one", missing{perhaps: "x"}, stays, "it may be node x, which has no Slurm name now"},
		{"its Node is known and gone, and there is a nameless one", missing{owner: "n", perhaps: "x"}, leavesLater, ""},
		{"nothing is known", missing{}, leavesLater, ""},
	} {
		if got, why := tt.m.fate(); got != tt.want || why != tt.why {
			t.Errorf("%s: %v %q, want %v %q", tt.name, got, why, tt.want, tt.why)
		}
	}
}

// TestRenamedThenNameless takes the label from nodes that have just been renamed:
// each stays under its last name, not the one before.
func TestRenamedThenNameless(t *testing.T) {
	call := func(format string) *inputs.Snapshot {
		others := map[string]string{}
		for i := 1; i <= 8; i++ {
			others[fmt.Sprintf("gb200-%03d", i)] = format
			if format != "" {
				others[fmt.Sprintf("gb200-%03d", i)] = fmt.Sprintf(format, i)
			}
		}
		return named(t, others)
	}
	store := newMemory(call("old%d"))
	inBubble(t, store, complete(t, Publication{SlurmNames: "label:sn"}), func() {
		store.pass(5 * time.Minute)
		store.change(call("new%d"))
		store.pass(5 * time.Minute)
		wantNodes(t, store, "renamed", "gb200-[009-018],new[1-8]")
		store.change(call(""))
		store.pass(time.Hour)
		wantNodes(t, store, "nameless", "gb200-[009-018],new[1-8]")
		if left := store.get("slurm/quoin-slurm").Annotations[plandoc.AnnotationLeftOut]; strings.Contains(left, "gb200") {
			t.Errorf("left out %q", left)
		}
	})
}

// TestOnlyTheLastNameKeepsANode takes two published names from one node. The pod of the last
// name has ended, and a pod of the earlier name waits.
func TestOnlyTheLastNameKeepsANode(t *testing.T) {
	now, n := time.Now(), &inputs.Node{Name: "n"}
	h := nodeHistory{gone: map[string]time.Time{"b": now, "a": now.Add(time.Second)}}
	all := []missing{{name: "a", owner: "n", nameless: n}, {name: "b", owner: "n", nameless: n}, {name: "c", owner: "n", nameless: n}, {name: "x"}}
	h.onlyLast(all)
	for _, m := range all {
		if (m.nameless != nil) != (m.name == "c") {
			t.Errorf("%s keeps the node: %t, want it of c alone", m.name, m.nameless != nil)
		}
	}
	two := []missing{{name: "b", owner: "n", nameless: n}, {name: "a", owner: "n", nameless: n}}
	if h.onlyLast(two); two[0].name != "a" || two[0].nameless == nil || two[1].nameless != nil {
		t.Errorf("%+v, want a, which was missed later", two)
	}
}
