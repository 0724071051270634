package picture

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/topology"
)

// View is what a page shows of a site, in a form that two of them can be compared in.
type View struct {
	// Layout names where everything stands. Views with another one need another drawing.
	Layout string
	// Version names the whole.
	Version string
	parts   map[string]json.RawMessage
	nodes   []json.RawMessage
	jobs    map[string]json.RawMessage
	draw    *drawing
}

// drawing is what the templates draw.
type drawing struct {
	*layout
	Publication string
	Summary     []string
	Legend      []legend
	Switches    []branch
	SwitchesBy  string // what they are known from (topology.Topology.Source)
	// Below are the lines below the drawing, and Whole is the size of all. A page does without them.
	Below []line
	Whole size
}

type legend struct {
	Class, Name string
	Count       int
}

// job is a job with the numbers of its nodes. Elsewhere are nodes that are not in the plan.
type job struct {
	Job
	Nodes     []int    `json:"nodes"`
	GPUs      []string `json:"gpus,omitempty"` // of each node, or of all if there is one
	Elsewhere []string `json:"elsewhere,omitempty"`
}

// group are nodes in no block for one reason.
type group struct {
	Reason string `json:"reason"`
	Why    string `json:"why"`
	Nodes  string `json:"nodes"`
	Count  int    `json:"count"`
}

// ViewOf returns what a page shows of the site.
func ViewOf(s *Site) (*View, error) {
	d := newDrawer(&strings.Builder{}, s, Options{Width: 1 << 20})
	plan := s.Plan
	v := &View{parts: map[string]json.RawMessage{}, jobs: map[string]json.RawMessage{}}
	v.draw = &drawing{layout: layoutOf(plan, d), Publication: s.Publication, Summary: summaryOf(d, s), Legend: legendOf(plan, d), Switches: branchesOf(plan), SwitchesBy: plan.SwitchSource()}
	numbers := make(map[string]int, len(plan.Nodes))
	for i := range plan.Nodes {
		numbers[plan.Nodes[i].SlurmName] = i
	}
	for _, n := range nodesOf(s, d) {
		if err := v.add(func(raw json.RawMessage) { v.nodes = append(v.nodes, raw) }, n); err != nil {
			return nil, err
		}
	}
	for i := range s.Jobs {
		if err := v.add(func(raw json.RawMessage) { v.jobs[s.Jobs[i].ID] = raw }, jobOf(&s.Jobs[i], numbers)); err != nil {
			return nil, err
		}
	}
	for name, part := range map[string]any{"summary": v.draw.Summary, "legend": v.draw.Legend, "apart": groupsOf(plan, d), "problems": plan.Problems, "held": s.Held, "segments": s.Segments, "trouble": s.Trouble, "asked": s.Asked, "remedies": remediesOf(s)} {
		if err := v.add(func(raw json.RawMessage) { v.parts[name] = raw }, part); err != nil {
			return nil, err
		}
	}
	v.sign()
	return v, nil
}

func (v *View) add(to func(json.RawMessage), part any) error {
	raw, err := json.Marshal(part)
	if err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	to(raw)
	return nil
}

// sign gives the view its names.
func (v *View) sign() {
	sum := sha256.New()
	fmt.Fprintln(sum, v.draw.Width, v.draw.Height, v.draw.Switches, v.draw.SwitchesBy)
	for _, g := range v.draw.Groups {
		fmt.Fprintln(sum, g.Title, g.X, g.Y)
		for i := range g.Racks {
			r := &g.Racks[i]
			fmt.Fprintln(sum, r.Name, r.Share, r.Under, r.X, r.Y)
			for k := range r.Cells {
				c := &r.Cells[k]
				fmt.Fprintln(sum, c.X, c.Y, c.At, c.Name)
			}
		}
	}
	v.Layout = hex.EncodeToString(sum.Sum(nil)[:8])
	for _, raw := range v.nodes {
		sum.Write(raw)
	}
	for _, all := range []map[string]json.RawMessage{v.jobs, v.parts} {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			fmt.Fprintln(sum, name)
			sum.Write(all[name])
		}
	}
	v.Version = hex.EncodeToString(sum.Sum(nil)[:8])
}

// document is a view as the page reads it, or the difference between two.
type document struct {
	Layout  string `json:"layout"`
	Version string `json:"version"`
	// From is the version that a difference is to.
	From  string                     `json:"from,omitempty"`
	Parts map[string]json.RawMessage `json:"parts,omitempty"`
	Nodes map[int]json.RawMessage    `json:"nodes,omitempty"`
	Jobs  map[string]json.RawMessage `json:"jobs,omitempty"`
	// Ended are the jobs that are gone.
	Ended []string `json:"ended,omitempty"`
}

// Data returns the whole view.
func (v *View) Data() any {
	return struct {
		document
		Nodes []json.RawMessage `json:"nodes"`
	}{document: document{Layout: v.Layout, Version: v.Version, Parts: v.parts, Jobs: v.jobs}, Nodes: v.nodes}
}

// Changes returns what is different since the view old, as JSON. It returns nil if the drawing
// is another one, and the page has to be read again.
func (v *View) Changes(old *View) ([]byte, error) {
	if v.Layout != old.Layout || len(v.nodes) != len(old.nodes) {
		return nil, nil
	}
	d := document{Layout: v.Layout, Version: v.Version, From: old.Version, Parts: changed(old.parts, v.parts), Jobs: changed(old.jobs, v.jobs), Nodes: map[int]json.RawMessage{}}
	for i := range v.nodes {
		if !bytes.Equal(v.nodes[i], old.nodes[i]) {
			d.Nodes[i] = v.nodes[i]
		}
	}
	for id := range old.jobs {
		if v.jobs[id] == nil {
			d.Ended = append(d.Ended, id)
		}
	}
	slices.Sort(d.Ended)
	text, err := json.Marshal(&d)
	if err != nil {
		return nil, fmt.Errorf("write changes of the page: %w", err)
	}
	return text, nil
}

func changed(old, next map[string]json.RawMessage) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	for name, raw := range next {
		if !bytes.Equal(raw, old[name]) {
			out[name] = raw
		}
	}
	return out
}

// summaryOf are the counts.
func summaryOf(d *drawer, s *Site) []string {
	var line strings.Builder
	d.w = &line
	d.summary(s.Plan)
	out := strings.Split(strings.TrimSpace(line.String()), " · ")
	if len(s.Jobs) > 0 {
		out = append(out, countOf(len(s.Jobs), "running job"))
	}
	return out
}

func legendOf(plan *topology.Plan, d *drawer) []legend {
	counts := map[state]int{}
	for i := range plan.Nodes {
		counts[d.stateOf(plan.Nodes[i].SlurmName)]++
	}
	var out []legend
	for s, l := range looks {
		if s := state(s); counts[s] > 0 || d.seen[s] {
			out = append(out, legend{classOf(s), l.name, counts[s]})
		}
	}
	return out
}

// classOf is the class of a state's cells.
func classOf(s state) string { return strings.ReplaceAll(looks[s].short, " ", "-") }

// jobOf replaces the names of the job's nodes by their numbers.
func jobOf(j *Job, numbers map[string]int) job {
	out := job{Job: *j, Nodes: []int{}}
	alike := map[string]bool{}
	for _, name := range inOrder(j.Nodes) {
		at, known := numbers[name]
		if !known {
			out.Elsewhere = append(out.Elsewhere, name)
			continue
		}
		out.Nodes, out.GPUs = append(out.Nodes, at), append(out.GPUs, j.GPUs[name])
		alike[j.GPUs[name]] = true
	}
	if len(alike) == 1 {
		out.GPUs = out.GPUs[:1]
	}
	return out
}

// groupsOf are the nodes in no block, by reason.
func groupsOf(plan *topology.Plan, d *drawer) []group {
	byReason := map[string][]string{}
	for i := range plan.Nodes {
		pl := &plan.Nodes[i]
		if at := d.places[pl.SlurmName]; at.Block == "" && (len(d.racks) > 0 || at.Leaf == "") {
			byReason[pl.Reason] = append(byReason[pl.Reason], pl.SlurmName)
		}
	}
	out := make([]group, 0, len(byReason))
	for reason, names := range byReason {
		out = append(out, group{reason, whyLeftOut(reason), hostlist.Compress(names), len(names)})
	}
	slices.SortFunc(out, func(a, b group) int { return cmp.Compare(a.Reason, b.Reason) })
	return out
}
