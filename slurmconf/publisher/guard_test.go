package publisher

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/gres"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/topology"
)

// twenty returns n01 to n20, without the nodes of a list.
func twenty(without ...string) []string {
	var out []string
	for i := range 20 {
		if name := fmt.Sprintf("n%02d", i+1); !strings.Contains(strings.Join(without, " "), name) {
			out = append(out, name)
		}
	}
	return out
}

func oneBlock(names []string) *topology.Plan {
	return inBlocks(topology.Block{Name: "b1", Nodes: names})
}

func inBlocks(all ...topology.Block) *topology.Plan {
	return &topology.Plan{Topologies: []topology.Topology{{Name: "nvl", Kind: "block", Sizes: []int{18}, Blocks: all}}}
}

// planned returns a plan with the nodes in their block, and all others in another block.
func planned(stay []string, move ...string) *topology.Plan {
	plan := inBlocks(topology.Block{Name: "b1", Nodes: stay}, topology.Block{Name: "b2", Nodes: move})
	for _, n := range slices.Concat(stay, move) {
		plan.Nodes = append(plan.Nodes, topology.Placement{Node: n, SlurmName: n})
	}
	return plan
}

// Some fates of missing names.
var (
	nodeGone      = absence{fate: leavesLaterFree, why: "gone"}
	reportDeleted = absence{fate: leavesLater, why: "without a report"}
	podWanted     = absence{fate: leavesLater, why: "without a worker pod, and the NodeSet has not made it again"}
	notSelected   = absence{fate: leavesLater, why: "not selected any more (nodes.selector)"}
	namesChanged  = absence{fate: leavesLater, why: "without a worker pod by slurmNames: slinky, which was short", bySettings: true}
	notKnown      = absence{fate: leavesLater, why: "on no Node that is known", bySettings: true}
)

// leave are nodes that leave for one reason.
func leave(why absence, names ...string) leavers {
	out := leavers{}
	for _, n := range names {
		out[n] = why
	}
	return out
}

// renames are Nodes with other names than before.
func renames(names ...string) (out []renamed) {
	for _, n := range names {
		out = append(out, renamed{"node-of-" + n, "old-" + n, n})
	}
	return out
}

// leaveFor are nodes that leave for several reasons.
func leaveFor(all ...leavers) leavers {
	out := leavers{}
	for _, l := range all {
		maps.Copy(out, l)
	}
	return out
}

// gresLines returns lines of gres.conf, with devices of a type.
func gresLines(kind string, names ...string) (lines []gres.Line) {
	for _, n := range names {
		lines = append(lines, gres.Line{Nodes: n, Name: "gpu", Type: kind, Files: []string{"/dev/nvidia0"}})
	}
	return lines
}

// between completes a change with what differs between two plans. old is nil if nothing is published.
func between(old, next *topology.Plan, oldGres, newGres []gres.Line, c change) change {
	if old != nil {
		c.old = &plandoc.Plan{Plan: *old, Devices: oldGres}
	}
	c.compare(&plandoc.Plan{Plan: *next, Devices: newGres})
	return c
}

func TestTooBig(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	five := []string{"n01", "n02", "n03", "n04", "n05"}
	short := settings{old: map[string]string{keyNames: "label:x"}, now: map[string]string{keyNames: "label:x"}}
	toShort := settings{old: map[string]string{keyNames: "slinky", keyNamespace: "slurm"}, now: map[string]string{keyNames: "short"}}
	toPods := settings{old: map[string]string{keyNames: "short"}, now: map[string]string{keyNames: "slinky", keyNamespace: "slurm"}}
	h100 := gresLines("h100", twenty()...)
	h200 := gresLines("h200", twenty()...)
	fewer := gresLines("h100", twenty(five...)...)
	for _, tt := range []struct {
		name   string
		change change
		pub    Publication
		before []string // nodes that moved half an hour ago
		want   string
	}{
		{name: "nothing is published", change: between(nil, planned(twenty()), nil, nil, change{})},
		{name: "nothing changes", change: between(oneBlock(twenty()), planned(twenty()), nil, nil, change{})},
		{name: "a fifth moves", change: between(oneBlock(twenty()), planned(twenty(five[:4]...), five[:4]...), nil, nil, change{})},
		{name: "more than a fifth moves", change: between(oneBlock(twenty()), planned(twenty(five...), five...), nil, nil, change{}), want: "5 of 20 nodes would move or leave, more than 20 %"},
		{name: "more than a fifth leaves", change: between(oneBlock(twenty()), planned(twenty(five...)), nil, nil, change{}), want: "5 of 20 nodes would move or leave, more than 20 %"},
		{name: "those that leave are gone", change: between(oneBlock(twenty()), planned(twenty(five...)), nil, nil, change{gone: leave(nodeGone, five...)})},
		{name: "all but one are gone", change: between(oneBlock(twenty()), planned([]string{"n20"}), nil, nil, change{gone: leave(nodeGone, twenty("n20")...)})},
		{name: "four of nine that leave are gone", change: between(oneBlock(twenty()), planned(twenty("n06", "n07", "n08", "n09", "n01 n02 n03 n04 n05")), nil, nil, change{gone: leave(nodeGone, "n06", "n07", "n08", "n09")}),
			want: "5 of 20 nodes would move or leave, more than 20 %"},
		{name: "all leave for one reason", change: between(oneBlock(twenty()), planned(twenty(five...)), nil, nil, change{gone: leave(notSelected, five...)}),
			want: "5 of 20 nodes would move or leave, more than 20 %: 5 are not selected any more (nodes.selector)"},
		{name: "nodes leave for several reasons, and one moves", change: between(oneBlock(twenty()), planned(twenty("n01", "n02", "n03", "n04", "n05", "n06", "n07"), "n07"), nil, nil, change{gone: leaveFor(leave(nodeGone, "n01"), leave(podWanted, "n02"), leave(notSelected, "n03", "n04", "n05", "n06"))}),
			want: "6 of 20 nodes would move or leave, more than 20 %: 4 are not selected any more (nodes.selector), 1 is without a worker pod, and the NodeSet has not made it again, 1 moves or loses its place"},
		{name: "others left before", change: between(oneBlock(twenty()), planned(twenty("n06", "n07")), nil, nil, change{}), before: five[:3], want: "5 of 20 nodes would move or leave, with 3 that did within the last hour, more than 20 %"},
		{name: "others left before, and those that leave are gone", change: between(oneBlock(twenty()), planned(twenty("n06", "n07")), nil, nil, change{gone: leave(nodeGone, "n06", "n07")}), before: five},
		{name: "the same moved before", change: between(oneBlock(twenty()), planned(twenty(five[:3]...), five[:3]...), nil, nil, change{}), before: five[:3]},
		{name: "one node may always move", change: between(oneBlock(twenty()), planned(twenty("n01"), "n01"), nil, nil, change{}), pub: Publication{MaxChange: new(0.0)}},
		{name: "names change", change: between(oneBlock(twenty()), planned(twenty()), nil, nil, change{renamed: renames(five...), settings: short}), want: "5 of 20 nodes would get another Slurm name, more than 20 %: Node node-of-n01 was named old-n01 until now; by slurmNames: label:x it is n01"},
		{name: "pods change the names", change: between(oneBlock(twenty()), planned(twenty()), nil, nil, change{renamed: renames(five...)}), pub: Publication{SlurmNames: "slinky"}},
		{name: "slurmNames gives other names", change: between(oneBlock(twenty()), planned(twenty()), nil, nil, change{renamed: renames(five...), settings: toShort}),
			want: "5 of 20 nodes would get another Slurm name, more than 20 %: Node node-of-n01 was named old-n01 until now (slurmNames: slinky, namespace: slurm); by slurmNames: short it is n01"},
		{name: "slurmNames lets pods give other names", change: between(oneBlock(twenty()), planned(twenty()), nil, nil, change{renamed: renames(five...), settings: toPods}), pub: Publication{SlurmNames: "slinky"},
			want: "5 of 20 nodes would get another Slurm name, more than 20 %: Node node-of-n01 was named old-n01 until now (slurmNames: short); by slurmNames: slinky, namespace: slurm it is n01"},
		{name: "slurmNames gives few other names", change: between(oneBlock(twenty()), planned(twenty()), nil, nil, change{renamed: renames(five[:4]...), settings: toPods}), pub: Publication{SlurmNames: "slinky"}},
		{name: "of the others none has a pod", change: between(oneBlock(twenty()), planned(twenty()), nil, nil, change{renamed: renames("n01", "n02"), lost: leave(namesChanged, "n03", "n04", "n05"), settings: toPods}), pub: Publication{SlurmNames: "slinky"},
			want: "5 of 20 nodes would get another Slurm name, move or leave, more than 20 %: Node node-of-n01 was named old-n01 until now (slurmNames: short); by slurmNames: slinky, namespace: slurm it is n01; 3 are without a worker pod by slurmNames: slinky, which was short"},
		{name: "none has a pod", change: between(oneBlock(twenty()), planned(twenty()), nil, nil, change{lost: leave(namesChanged, five...), settings: toPods}), pub: Publication{SlurmNames: "slinky"},
			want: "5 of 20 nodes would move or leave, more than 20 %: 5 are without a worker pod by slurmNames: slinky, which was short"},
		{name: "few have no pod", change: between(oneBlock(twenty()), planned(twenty()), nil, nil, change{lost: leave(namesChanged, five[:4]...), settings: toPods}), pub: Publication{SlurmNames: "slinky"}},
		{name: "nobody knows the names", change: between(oneBlock(twenty()), planned(twenty()), nil, nil, change{lost: leave(notKnown, five...), settings: settings{unknown: true, now: short.now}}),
			want: "5 of 20 nodes would move or leave, more than 20 %: 5 are on no Node that is known"},
		{name: "nodes without a place get other names", change: between(oneBlock(nil), planned(nil), h100, nil, change{sameGres: true, renamed: renames(five...), settings: toShort}),
			want: "5 of 20 nodes would get another Slurm name, more than 20 %: Node node-of-n01 was named old-n01 until now (slurmNames: slinky, namespace: slurm); by slurmNames: short it is n01"},
		{name: "few nodes without a place get other names", change: between(oneBlock(nil), planned(nil), h100, nil, change{sameGres: true, renamed: renames(five[:4]...), settings: short})},
		{name: "nodes without a place have no pod", change: between(oneBlock(nil), planned(nil), h100, nil, change{sameGres: true, lost: leave(namesChanged, five...), settings: toPods}), pub: Publication{SlurmNames: "slinky"},
			want: "5 of 20 nodes would move or leave, more than 20 %: 5 are without a worker pod by slurmNames: slinky, which was short"},
		{name: "nodes leave the file", change: between(oneBlock(twenty()), planned(twenty()), nil, nil, change{unfiled: five}),
			want: "5 of 20 nodes would leave the topology file, more than 20 %: membership is annotation now, and only nodes that register dynamically (slurmd -Z) take their place from an annotation"},
		{name: "devices change", change: between(oneBlock(twenty()), planned(twenty()), h100, h200, change{}), want: "the lines of 20 of 20 nodes in gres.conf would change or be removed, more than 20 %"},
		{name: "gres.conf stays", change: between(oneBlock(twenty()), planned(twenty()), h100, h200, change{sameGres: true})},
		{name: "lines are removed", change: between(oneBlock(twenty()), planned(twenty()), h100, fewer, change{gone: leave(reportDeleted, five...)}),
			want: "the lines of 5 of 20 nodes in gres.conf would change or be removed, more than 20 %: 5 are without a report"},
		{name: "lines of nodes that are gone are removed", change: between(oneBlock(twenty()), planned(twenty(five...)), h100, fewer, change{gone: leave(nodeGone, five...)})},
	} {
		t.Run(tt.name, func(t *testing.T) {
			doc := plandoc.New("default", "here")
			doc.Remember(now.Add(-30*time.Minute), tt.before, nil)
			if got := tt.change.tooBig(complete(t, tt.pub)[0], doc, now); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
