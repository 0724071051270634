package slurmctld

import (
	"io"
	"slices"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/topology"
)

// number is how Slurm writes numbers that may be missing.
type number struct {
	Set    bool  `json:"set"`
	Number int64 `json:"number"`
}

// time is when that was, in seconds since 1970; zero if it is missing.
func (n number) time() time.Time {
	if n.Number <= 0 {
		return time.Time{}
	}
	return time.Unix(n.Number, 0)
}

// jsonNode is the part of Slurm's node that is read. It is the same in the data parsers
// v0.0.42 to v0.0.46. v0.0.42 has no topology.
type jsonNode struct {
	Name     string   `json:"name"`
	State    []string `json:"state"`
	Topology string   `json:"topology"`
	Reason   string   `json:"reason"`
	Gres     string   `json:"gres"`
	Started  number   `json:"slurmd_start_time"`
	// Reservation is in v0.0.43 to v0.0.46.
	Reservation string `json:"reservation"`
}

// ReadNodes reads the nodes of slurmrestd's answer, or of the output of
// `scontrol --json show nodes`. It reads one node at a time, because 10,000 nodes have 30 MB.
func ReadNodes(in io.Reader) (map[string]Node, error) {
	nodes := map[string]Node{}
	err := readList(in, "node", func(n *jsonNode) (int, error) {
		name, node := topology.Cut(n.Name, topology.MaxText), n.node()
		nodes[name] = node
		return nodeBytes + len(name+node.Topology+node.Reason+node.Gres+node.State+node.Reservation), nil
	})
	if err != nil {
		return nil, err
	}
	return nodes, nil
}

// nodeBytes is about what a node takes beside its texts.
const nodeBytes = 256

func (n *jsonNode) node() Node {
	is := func(states ...string) bool {
		return slices.ContainsFunc(n.State, func(s string) bool { return slices.Contains(states, s) })
	}
	out := Node{Topology: topology.Cut(n.Topology, topology.MaxMessage), Reason: topology.Cut(n.Reason, topology.MaxMessage), Registered: n.Started.Number > 0,
		Invalid: is("INVALID_REG"), Off: is("POWERED_DOWN", "POWERING_DOWN", "POWER_DOWN", "POWERING_UP", "POWER_UP"), Gres: topology.Cut(n.Gres, topology.MaxMessage)}
	out.State = topology.Cut(strings.Join(n.State, "+"), topology.MaxMessage)
	out.Reservation = topology.Cut(n.Reservation, topology.MaxText)
	return out
}

// Refused returns the Topology= string that Slurm refused when a node registered, as the
// node's reason has it, or "".
func Refused(reason string) string {
	const before = "Failed to set topology '"
	_, rest, found := strings.Cut(reason, before)
	spec, _, closed := strings.Cut(rest, "'")
	if !found || !closed {
		return ""
	}
	return spec
}
