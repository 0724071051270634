package loaded

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/gres"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
	"github.com/quoin-hpc/quoin/topology"
)

// Stage is the first thing that differs from the one before it: planned, published, loaded,
// registered.
type Stage string

// The stages at which a node can be pending: Slurm does not have it in its planned place yet.
const (
	StagePublished  Stage = "published"
	StageLoaded     Stage = "loaded"
	StageRegistered Stage = "registered"
)

// Stages lists the stages in their order.
var Stages = []Stage{StagePublished, StageLoaded, StageRegistered}

// Node is a node whose place has not come as far as Slurm.
type Node struct {
	Name  string // in Slurm
	Stage Stage
	// Why says what differs, and what to do.
	Why string
}

// Pending returns the nodes whose place in Slurm is not the planned one, sorted by name.
func (v *View) Pending() []Node {
	loaded := v.loadedPlaces()
	var out []Node
	for _, name := range slices.Sorted(maps.Keys(v.in.Nodes)) {
		if stage, why := v.pending(name, loaded); stage != "" {
			out = append(out, Node{name, stage, why})
		}
	}
	return out
}

func (v *View) pending(name string, loaded map[string]string) (Stage, string) {
	planned, published := v.in.Planned[name], v.in.Published[name]
	switch {
	case planned != published:
		return StagePublished, fmt.Sprintf("the published files have it in %s, the plan has it in %s", orNone(published), orNone(planned))
	case v.slurm == nil:
		return "", ""
	case published == "": // only gres.conf may have it
		return v.registered(name, published)
	case v.Knows(published) == No:
		if v.written.IsZero() { // files of which nobody knows when they were written
			return StageLoaded, "Slurm has not loaded the file that has it in " + published
		}
		return StageLoaded, v.WhyNot(published)
	case loaded != nil && !sameUnits(loaded[name], published):
		return StageLoaded, v.whyLoaded()
	}
	return v.registered(name, published)
}

// registered compares a node with its published place.
func (v *View) registered(name, published string) (Stage, string) {
	n, known := v.slurm.Nodes[name]
	refused := slurmctld.Refused(n.Reason)
	byAnnotation := v.in.Doc.Current.Plan.ByAnnotation
	why := ""
	switch {
	case published == "":
	case !known:
		why = "Slurm has no such node: look at slurmd there; if its Node or its worker pod is gone, it leaves the files after removeAfter"
	case n.Off:
	case n.Topology != "" && !sameUnits(n.Topology, published):
		why = fmt.Sprintf("Slurm has it in %s by its own Topology=, published is %s: %s", n.Topology, published, update(published))
	case n.Topology == "" && refused != "" && (n.Invalid || byAnnotation):
		why = fmt.Sprintf("Slurm refused its place %s when it registered: %s, then resume it", refused, update(published))
	case !n.Registered:
		why = "slurmd has not registered: look at slurmd there"
	case n.Topology == "" && byAnnotation:
		why = fmt.Sprintf("Slurm has it in no block and no switch, published is %s: %s", published, update(published))
	case n.Topology == "" && v.shown != nil && !v.shownIn(name, published):
		why = "scontrol show topology does not have it in " + published + ": run scontrol reconfigure"
	}
	if why == "" && known {
		why = v.fewerGPUs(name, &n)
	}
	if why == "" {
		return "", ""
	}
	return StageRegistered, why
}

// fewerGPUs says that the node has fewer GPUs in the published gres.conf than Slurm's Gres= has, or
// "". If gres.conf has slurmd detect GPUs, the plan has those of reports. Their Types are not judged
// then, because a part of the detected Type is enough in Gres=.
func (v *View) fewerGPUs(name string, n *slurmctld.Node) string {
	if v.gres == nil {
		v.gres = gres.ByNode(v.in.Doc.Current.Plan.Devices, nil)
	}
	lines, listed := v.gres[name]
	counts := gres.ReadCounts(n.Gres)
	has, known := gres.Count(lines)
	if counts.Err() != nil || !listed || !known {
		return ""
	}
	who, want := "gres.conf", counts.GPUs
	if v.in.Doc.Current.Plan.Detect != "" {
		who, want = "the node", []gres.GPUCount{{Count: gres.Total(want)}}
	}
	short := gres.Fewer(want, has)
	if len(short) == 0 {
		return ""
	}
	return fmt.Sprintf("%s has %d %s, and Gres= in slurm.conf has %d: slurm.conf must follow, or slurmctld drains the node", who, short[0].Has, short[0].Kind(), short[0].Count)
}

// problems returns what is wrong with those of the pending nodes whose place is right.
func (v *View) problems(pending []Node) (out []topology.Finding) {
	for _, p := range pending {
		n, node := v.slurm.Nodes[p.Name], v.in.Nodes[p.Name]
		if p.Stage == StageRegistered && node != nil && p.Why == v.fewerGPUs(p.Name, &n) {
			out = append(out, topology.Finding{Subject: topology.Subject{Node: node.Name}, Reason: gres.ReasonFewerGPUs, Message: p.Why, Remedy: topology.Explain(gres.ReasonFewerGPUs).Remedy})
		}
	}
	return out
}

// update is the command that gives a node its place.
func update(spec string) string { return "scontrol update nodename=NAME topology=" + spec }

// shownIn reports whether scontrol shows the node in all units of the string.
func (v *View) shownIn(name, spec string) bool {
	shown := slices.Collect(topology.SpecUnits(v.places[name]))
	return !slices.ContainsFunc(slices.Collect(topology.SpecUnits(spec)), func(unit string) bool { return !slices.Contains(shown, unit) })
}

// WhyNot says why Slurm does not know the units of a Topology= string.
func (v *View) WhyNot(spec string) string {
	for unit := range topology.SpecUnits(spec) {
		if v.refused[unit] && !v.named[unit] {
			return "Slurm refused " + unit + " when a node registered with it: " + loadIt
		}
	}
	return v.whyLoaded()
}

// loadIt is what makes Slurm load files.
const loadIt = "set inplaceReconfigure: true of Slinky's Controller, or run scontrol reconfigure and read slurmctld's log"

// whyLoaded says that the files are not loaded.
func (v *View) whyLoaded() string {
	if !v.Never() {
		why := "Slurm has not loaded the published file yet"
		if !v.written.IsZero() { // as of files that are only compared
			why += ": it has time (loadTimeout) until " + v.written.Add(v.in.LoadTimeout).UTC().Format(time.RFC3339)
		}
		return why
	}
	return fmt.Sprintf("%s, which was published at %s: %s", NeverLoaded, v.written.UTC().Format(time.RFC3339), loadIt)
}

// loadedPlaces returns the Topology= strings of the files that Slurm loaded last, if they are
// older than the published ones and say where nodes are. It returns nil otherwise, or if that
// is not known.
func (v *View) loadedPlaces() map[string]string {
	if v.in.Doc.Current.Plan.ByAnnotation || v.slurm == nil || v.slurm.Read.IsZero() || v.Loaded() != No {
		return nil
	}
	for i := range v.in.Doc.History {
		if r := &v.in.Doc.History[i]; !v.slurm.Read.Before(r.Written().Add(-rounding)) {
			return topology.SpecsOf(r.Plan.Topologies)
		}
	}
	return nil // older than what is kept
}

func orNone(spec string) string { return cmp.Or(spec, "no block and no switch") }

// maxText bounds what Text returns.
const maxText = 4 << 10

// Text says for people which nodes are pending and why, one line for each stage and reason. It
// has no times of now, so that it only changes if something does.
func (v *View) Text(pending []Node) string {
	groups := map[string][]string{}
	for _, n := range pending {
		key := string(n.Stage) + ": " + n.Why
		groups[key] = append(groups[key], n.Name)
	}
	var lines []string
	for _, stage := range Stages {
		for _, key := range slices.Sorted(maps.Keys(groups)) {
			if why, is := strings.CutPrefix(key, string(stage)+": "); is {
				lines = append(lines, fmt.Sprintf("%s: %s: %s", stage, hostlist.Compress(groups[key]), why))
			}
		}
	}
	if never := v.whyLoaded(); v.Never() && !slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, NeverLoaded) }) {
		lines = slices.Insert(lines, 0, string(StageLoaded)+": "+never)
	}
	return topology.Cut(strings.Join(lines, "\n"), maxText)
}
