package picture

import "github.com/quoin-hpc/quoin/topology"

// Document is the picture as data.
type Document struct {
	Plan *topology.Plan `json:"plan"`
	// Places are the block and the leaf switch of each node by Slurm name.
	Places map[string]topology.Place `json:"places"`
	// States are the states of nodes by Slurm name: healthy, without GPU, without report, with warning,
	// waiting or degraded.
	States map[string]string `json:"states"`
	// Nodes has what Slurm and the publisher say of nodes, by Slurm name.
	Nodes map[string]Said `json:"nodes,omitempty"`
	// Asked is when Slurm was asked for states and jobs, in RFC 3339. It is left out if Slurm did not answer.
	Asked string `json:"asked,omitempty"`
	// Jobs, Held and Segments are left out if nothing is known of them.
	Jobs     []Job      `json:"jobs,omitempty"`
	Held     *Held      `json:"held,omitempty"`
	Segments []Segments `json:"segments,omitempty"`
}

// DocumentOf returns what Terminal draws.
func DocumentOf(s *Site) Document {
	states, places := map[string]string{}, s.Plan.Places()
	for node, state := range statesOf(s, places) {
		states[node] = looks[state].short
	}
	return Document{s.Plan, places, states, s.Said, s.Asked, s.Jobs, s.Held, s.Segments}
}
