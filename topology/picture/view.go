package picture

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// View is what a page shows of a site at one moment.
type View struct {
	// ETag names all that is shown, as HTTP writes it.
	ETag string
	// Data is what the page's script reads, as JSON.
	Data        json.RawMessage
	Publication string
	Groups      []rackGroup
	Summary     []string
	Legend      []legend
	Switches    []branch
	SwitchesBy  string // what they are known from (topology.Topology.Source)
}

// pageData is what the page's script reads.
type pageData struct {
	// Layout names where everything stands. Data with another one need another drawing.
	Layout   string             `json:"layout"`
	Nodes    []node             `json:"nodes"`
	Jobs     map[string]job     `json:"jobs,omitempty"`
	Summary  []string           `json:"summary"`
	Apart    []group            `json:"apart,omitempty"`
	Problems []topology.Finding `json:"problems,omitempty"`
	Held     *Held              `json:"held,omitempty"`
	Segments []Segments         `json:"segments,omitempty"`
	Trouble  []string           `json:"trouble,omitempty"`
	Asked    string             `json:"asked,omitempty"`
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

// ViewOf returns what a page shows of the site.
func ViewOf(s *Site) (*View, error) {
	d := newDrawer(&strings.Builder{}, s, Options{Width: 1 << 20})
	plan := s.Plan
	v := &View{Publication: s.Publication, Groups: rackGroupsOf(plan, d), Summary: summaryOf(d, s), Legend: legendOf(plan, d), Switches: branchesOf(plan), SwitchesBy: plan.SwitchSource()}
	data := pageData{Layout: v.layout(), Nodes: nodesOf(s, d), Jobs: jobsOf(s), Summary: v.Summary, Apart: groupsOf(plan, d), Problems: plan.Problems, Held: s.Held,
		Segments: s.Segments, Trouble: s.Trouble, Asked: s.Asked}
	var err error
	if v.Data, err = json.Marshal(&data); err != nil {
		return nil, fmt.Errorf("write the page: %w", err)
	}
	v.ETag = fmt.Sprintf(`"%x"`, sha256.Sum256(v.Data))
	return v, nil
}

// layout names where everything stands.
func (v *View) layout() string {
	sum := sha256.New()
	fmt.Fprintln(sum, v.Switches, v.SwitchesBy)
	for _, g := range v.Groups {
		fmt.Fprintln(sum, g.Title)
		for i := range g.Racks {
			r := &g.Racks[i]
			fmt.Fprintln(sum, r.Name, r.Share, r.Under)
			for k := range r.Cells {
				c := &r.Cells[k]
				fmt.Fprintln(sum, c.X, c.Y, c.At, c.Name)
			}
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
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

// jobsOf are the jobs by their ids.
func jobsOf(s *Site) map[string]job {
	numbers := make(map[string]int, len(s.Plan.Nodes))
	for i := range s.Plan.Nodes {
		numbers[s.Plan.Nodes[i].SlurmName] = i
	}
	out := make(map[string]job, len(s.Jobs))
	for i := range s.Jobs {
		out[s.Jobs[i].ID] = jobOf(&s.Jobs[i], numbers)
	}
	return out
}

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
