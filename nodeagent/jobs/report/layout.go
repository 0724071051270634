package report

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

// Layout is how a run lies in one topology of Slurm.
type Layout struct {
	Topology string `json:"topology"`
	// Unit is what it is divided into: block, or leaf switch. Units have the run's nodes.
	Unit  string `json:"unit"`
	Units []Unit `json:"units"`
	// Fewest is how many of the units are large enough for the job without other jobs. Text
	// says it in words.
	Fewest int    `json:"fewest"`
	Text   string `json:"text"`
	// SplitSegments are not together as the job asked.
	SplitSegments int `json:"splitSegments"`
}

// Unit is a block or switch, and how many nodes of the run it has.
type Unit struct {
	Name  string `json:"name"`
	Nodes int    `json:"nodes"`
}

// Lies adds how the run lies in the topologies.
func (r *Run) Lies(layouts []Layout) { r.layouts = layouts }

// ID is the job's own id, Start when the run began in seconds since 1970, and NodeList the host
// list of its nodes; each as far as it is known.
func (r *Run) ID() string       { return r.job.JobID }
func (r *Run) Start() string    { return r.job.StartTime }
func (r *Run) NodeList() string { return r.job.NodeList }

// OfSlurm is a run that only Slurm knows: no node's record is known.
func OfSlurm(job *rundir.Record) Run { return Run{job: *job} }

func printLayouts(w io.Writer, v View, r *Run) {
	for i := range r.layouts {
		l := &r.layouts[i]
		var names []string
		for _, u := range l.Units {
			names = append(names, Printable(u.Name)+" "+strconv.Itoa(u.Nodes))
		}
		text := strings.Join(names, ", ")
		if !v.Wide {
			text = few(names)
		}
		fmt.Fprintf(w, "Layout    %s: %s (%s)\n", Printable(l.Topology), Printable(l.Text), text)
	}
}

// split says what to do about segments that are not together.
func (r *Run) split() []string {
	if !slices.ContainsFunc(r.layouts, func(l Layout) bool { return l.SplitSegments > 0 }) {
		return nil
	}
	return []string{"Its segments are not together as it asked: Slurm ignored the blocks, or nodes have moved to other blocks since.", "See QuoinSegmentSplit in manifests/RUNBOOKS.md."}
}
