package picture

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// node is what the page tells of a node.
type node struct {
	Name     string   `json:"name"`
	Node     string   `json:"node,omitempty"`
	Block    string   `json:"block,omitempty"`
	Switches []string `json:"switches,omitempty"` // the leaf first
	// Class is the colour of the state, and State says it in words.
	Class    string   `json:"class"`
	State    string   `json:"state"`
	Source   string   `json:"source,omitempty"`
	Reason   string   `json:"reason"`
	Message  string   `json:"message,omitempty"`
	GPUs     string   `json:"gpus,omitempty"`
	Place    string   `json:"place,omitempty"`
	Slurm    string   `json:"slurm,omitempty"`
	Use      string   `json:"use,omitempty"`
	Said     said     `json:"said,omitzero"`
	Problems []string `json:"problems,omitempty"`
}

// said are verdicts in words. Bad names the verdicts that say that something is wrong.
type said struct {
	IMEX   string   `json:"imex,omitempty"`
	Drift  string   `json:"drift,omitempty"`
	Fabric string   `json:"fabric,omitempty"`
	Why    string   `json:"why,omitempty"` // Slurm's reason for its state
	Bad    []string `json:"bad,omitempty"`
}

// nodesOf are the facts of all nodes, in the plan's order.
func nodesOf(s *Site, d *drawer) []node {
	reports := make(map[string]*topology.Node, len(s.Facts))
	for i := range s.Facts {
		reports[s.Facts[i].SlurmName] = s.Facts[i].Report
	}
	problems := map[string][]string{}
	for _, p := range s.Plan.Problems {
		problems[p.Node] = append(problems[p.Node], p.Reason+": "+p.Message)
	}
	above := parents(topology.ParentsOf(s.Plan.Switches()))
	out := make([]node, 0, len(s.Plan.Nodes))
	for i := range s.Plan.Nodes {
		pl := &s.Plan.Nodes[i]
		state, says, at := d.stateOf(pl.SlurmName), s.Said[pl.SlurmName], d.places[pl.SlurmName]
		n := node{Name: pl.SlurmName, Block: at.Block, Switches: above.path(at.Leaf), Class: classOf(state), State: looks[state].name, Source: pl.Source,
			Reason: pl.Reason, Message: pl.Message, Slurm: says.Slurm, Use: says.Use, Said: says.words(), Problems: problems[pl.Node]}
		if pl.Node != pl.SlurmName {
			n.Node = pl.Node
		}
		n.read(reports[pl.SlurmName])
		out = append(out, n)
	}
	return out
}

// read adds what the node's report says.
func (n *node) read(r *topology.Node) {
	if r == nil {
		return
	}
	if len(r.GPUs) > 0 {
		n.GPUs = fmt.Sprintf("%d × %s", len(r.GPUs), r.GPUs[0].Product)
	}
	if r.Platform != nil {
		n.Place = fmt.Sprintf("slot %d, tray %d", r.Platform.Slot, r.Platform.Tray)
		if r.Platform.ChassisSerial != "" {
			n.Place = "chassis " + r.Platform.ChassisSerial + ", " + n.Place
		}
	}
	for _, problem := range r.Problems {
		if text := problem.Reason + ": " + problem.Message; !slices.Contains(n.Problems, text) { // the plan names some of them too
			n.Problems = append(n.Problems, text)
		}
	}
}

// words turns verdicts into text.
func (s *Said) words() said {
	out := said{Why: s.Why}
	for _, of := range []struct {
		name string
		v    *Verdict
		to   *string
	}{{"imex", &s.IMEX, &out.IMEX}, {"drift", &s.Drift, &out.Drift}, {"fabric", &s.Fabric, &out.Fabric}} {
		if of.v.Reason == "" {
			continue
		}
		*of.to = strings.TrimSuffix(of.v.Reason+": "+of.v.Message, ": ")
		if of.v.Wrong {
			out.Bad = append(out.Bad, of.name)
		}
	}
	return out
}
