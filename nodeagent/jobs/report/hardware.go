package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/fabric"
)

// counted is what the hardware counters of a GPU of the run have counted.
type counted struct {
	name  string // GPU 3 of n07
	of    *rundir.Hardware
	parts []string
}

func (r *Run) counted() (all []counted) {
	for i := range r.nodes {
		node := cmp.Or(Printable(r.nodes[i].record.Node), "this node")
		for _, d := range r.nodes[i].devices() {
			if d.Hardware != nil {
				all = append(all, counted{name: "GPU " + cmp.Or(d.ExporterID, d.UUID) + " of " + node, of: d.Hardware})
			}
		}
	}
	return all
}

// warnings are what was wrong with the run's hardware when it began.
func (r *Run) warnings() (lines []string) {
	for i := range r.nodes {
		for _, text := range r.nodes[i].record.Warnings {
			if len(lines) == mostGPUs {
				return append(lines, "There were more warnings: the records and summaries have them all.")
			}
			lines = append(lines, fmt.Sprintf("When the job began on %s: %s.", cmp.Or(Printable(r.nodes[i].record.Node), "this node"), Printable(text)))
		}
	}
	return lines
}

// hardware says in one sentence each what stands out of the GPUs' hardware counters.
func (r *Run) hardware() []string {
	all := r.counted()
	common := commonXids(all)
	for i := range topology.Counters {
		if line := standOut(all, &topology.Counters[i]); line != "" {
			common = append(common, line)
		}
	}
	var lines []string
	more := 0
	for i := range all {
		if p := all[i].of.RowsPending; p != nil && *p {
			all[i].parts = append(all[i].parts, "memory rows wait until a reset of the GPU remaps them")
		}
		switch {
		case len(all[i].parts) == 0:
		case len(lines) == mostGPUs:
			more++
		default:
			lines = append(lines, all[i].name+": "+strings.Join(all[i].parts, ". ")+".")
		}
	}
	switch {
	case more == 1:
		lines = append(lines, "The counters of one more GPU stand out: quoin job -o json has them all.")
	case more > 1:
		lines = append(lines, fmt.Sprintf("The counters of %d more GPUs stand out: quoin job -o json has them all.", more))
	}
	return slices.Concat(lines, common, unknown(all))
}

// commonXids adds a part to each GPU for each Xid that no other GPU had, and returns a
// sentence for each Xid that several had. Xids that ask for nothing are left out.
func commonXids(all []counted) (lines []string) {
	had := map[int][]*counted{}
	for i := range all {
		for _, x := range all[i].of.Xids {
			if asks := x.Class != fabric.XidIgnore; asks && (x.Code != fabric.XidCleanup || len(all[i].of.Xids) == 1) {
				had[x.Code] = append(had[x.Code], &all[i])
			}
		}
	}
	for _, code := range slices.Sorted(maps.Keys(had)) {
		x, gpus := fabric.XidOf(code), had[code]
		text := fmt.Sprintf("Xid %d (%s)", code, cmp.Or(x.Name, "which Quoin does not know"))
		if len(gpus) == 1 {
			if n := gpus[0].xids(code); n > 1 {
				text = fmt.Sprintf("%d times %s", n, text)
			}
			gpus[0].parts = append(gpus[0].parts, text+": "+x.Action)
			continue
		}
		var names []string
		for _, c := range gpus {
			names = append(names, c.name)
		}
		lines = append(lines, fmt.Sprintf("%s on %d of %d GPUs (%s): %s.", text, len(gpus), len(all), few(names), x.Action))
	}
	return lines
}

// xids is how often an Xid came.
func (c *counted) xids(code int) uint64 {
	i := slices.IndexFunc(c.of.Xids, func(x rundir.XidCount) bool { return x.Code == code })
	return c.of.Xids[i].Count
}

// mostGPUs is how many GPUs have a sentence of their own.
const mostGPUs = 8

// leastShare is a share of the time. If a GPU's clocks were held down for less, that is not
// worth a word.
const leastShare = 0.05

// standOut adds a part to each GPU that counted at least twice the median of the others. If
// no GPU stands out but most have counted, standOut returns a sentence about all of them.
func standOut(all []counted, k *topology.Counter) string {
	least := func(c *counted) float64 {
		if k.Time {
			return leastShare * c.of.Seconds
		}
		return 0
	}
	var values []float64 // sorted
	for i := range all {
		if v, known := all[i].of.Counts[k.Name]; known {
			values = append(values, v)
		}
	}
	slices.Sort(values)
	var out []*counted
	var others []float64
	over := 0
	for i := range all {
		v, known := all[i].of.Counts[k.Name]
		if !known {
			continue
		}
		if v > least(&all[i]) {
			over++
			if v >= 2*medianOfOthers(values, v) {
				out = append(out, &all[i])
				continue
			}
		}
		others = append(others, v)
	}
	for _, c := range out {
		c.parts = append(c.parts, part(k, c.of)+theOthers(k, others))
	}
	if len(out) > 0 || over == 0 || k.Usual {
		return ""
	}
	return fmt.Sprintf("%d of %d GPUs: %s on each.", over, len(values), span(k, slices.Min(others), slices.Max(others)))
}

// medianOfOthers is the lower median of sorted values without one of them.
func medianOfOthers(values []float64, without float64) float64 {
	i, _ := slices.BinarySearch(values, without)
	rest := slices.Delete(slices.Clone(values), i, i+1)
	if len(rest) == 0 {
		return 0
	}
	return rest[(len(rest)-1)/2]
}

// part says what a GPU has counted, and on which links.
func part(k *topology.Counter, h *rundir.Hardware) string {
	text := span(k, h.Counts[k.Name], h.Counts[k.Name])
	links := h.Links[k.Name]
	if len(links) == 0 {
		return text
	}
	worst := slices.SortedFunc(maps.Keys(links), func(a, b int) int { return cmp.Or(cmp.Compare(links[b], links[a]), cmp.Compare(a, b)) })
	if len(worst) == 1 {
		return text + " on link " + strconv.Itoa(worst[0])
	}
	var named []string
	for _, link := range worst {
		named = append(named, fmt.Sprintf("%d (%.0f)", link, links[link]))
	}
	return text + " on links " + few(named)
}

// span is a count or a time with its words, or the least and the largest of several.
func span(k *topology.Counter, least, most float64) string {
	amount := func(v float64) string {
		if k.Time {
			return clock(seconds(v))
		}
		return fmt.Sprintf("%.0f", v)
	}
	text := amount(most)
	if amount(least) != text {
		text = amount(least) + " to " + text
	}
	switch {
	case k.Time:
		return k.One + " for " + text
	case text == "1":
		return text + " " + k.One
	}
	return text + " " + k.Many
}

func theOthers(k *topology.Counter, values []float64) string {
	if len(values) == 0 {
		return ""
	}
	most := slices.Max(values)
	switch {
	case k.Time:
		return "; the others at most " + clock(seconds(most))
	case most == 0:
		return "; the others 0"
	}
	return fmt.Sprintf("; the others at most %.0f", most)
}

// unknown says which GPUs' counters are not known, and why. What a GPU does not have is no
// news.
func unknown(all []counted) (lines []string) {
	type fault struct{ what, why string }
	var order []fault
	names := map[fault][]string{}
	for i := range all {
		for _, name := range slices.Sorted(maps.Keys(all[i].of.Unknown)) {
			f := fault{"Hardware counters", all[i].of.Unknown[name]}
			if f.why == topology.NoCounter || f.why == topology.NoLink {
				continue
			}
			if name == topology.XidsName {
				f.what = "Xids"
			}
			if names[f] == nil {
				order = append(order, f)
			}
			if !slices.Contains(names[f], all[i].name) {
				names[f] = append(names[f], all[i].name)
			}
		}
	}
	for _, f := range order {
		lines = append(lines, fmt.Sprintf("%s of %s are not all known: %s.", f.what, few(names[f]), f.why))
	}
	return lines
}
