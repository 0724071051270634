package live

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// errNoNodes is returned for an answer that has no list of nodes.
var errNoNodes = errors.New("no list of nodes in the answer")

// number is how Slurm writes numbers that may be missing.
type number struct {
	Set    bool  `json:"set"`
	Number int64 `json:"number"`
}

// jsonNode is the part of Slurm's node that is read. It is the same in the data parsers
// v0.0.42 to v0.0.45. v0.0.42 has no topology.
type jsonNode struct {
	Name     string   `json:"name"`
	State    []string `json:"state"`
	Topology string   `json:"topology"`
	Reason   string   `json:"reason"`
	Gres     string   `json:"gres"`
	Started  number   `json:"slurmd_start_time"`
}

// ReadNodes reads the nodes of slurmrestd's answer, or of the output of
// `scontrol --json show nodes`. It reads one node at a time, because 10,000 nodes have 30 MB.
func ReadNodes(in io.Reader) (map[string]Node, error) {
	d := json.NewDecoder(io.LimitReader(in, maxBytes))
	if err := expect(d, json.Delim('{')); err != nil {
		return nil, err
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("read nodes: %w", err)
		}
		if key == "nodes" {
			return readList(d)
		}
		var skipped json.RawMessage
		if err := d.Decode(&skipped); err != nil {
			return nil, fmt.Errorf("read nodes: %w", err)
		}
	}
	return nil, errNoNodes
}

func readList(d *json.Decoder) (map[string]Node, error) {
	if err := expect(d, json.Delim('[')); err != nil {
		return nil, err
	}
	nodes := map[string]Node{}
	for d.More() {
		var n jsonNode
		if err := d.Decode(&n); err != nil {
			return nil, fmt.Errorf("read node %d: %w", len(nodes)+1, err)
		}
		if len(nodes) == maxNodes {
			return nil, fmt.Errorf("read nodes: more than %d", maxNodes)
		}
		nodes[topology.Cut(n.Name, topology.MaxText)] = n.node()
	}
	return nodes, expect(d, json.Delim(']'))
}

// expect reads one token.
func expect(d *json.Decoder, want json.Delim) error {
	got, err := d.Token()
	if err != nil {
		return fmt.Errorf("read nodes: %w", err)
	}
	if got != want {
		return fmt.Errorf("read nodes: %v where %v should be", got, want)
	}
	return nil
}

func (n *jsonNode) node() Node {
	is := func(states ...string) bool {
		return slices.ContainsFunc(n.State, func(s string) bool { return slices.Contains(states, s) })
	}
	out := Node{Topology: topology.Cut(n.Topology, topology.MaxMessage), Reason: topology.Cut(n.Reason, topology.MaxMessage), Registered: n.Started.Number > 0,
		Invalid: is("INVALID_REG"), Off: is("POWERED_DOWN", "POWERING_DOWN", "POWER_DOWN", "POWERING_UP", "POWER_UP"), Gres: topology.Cut(n.Gres, topology.MaxMessage)}
	out.State = topology.Cut(strings.Join(n.State, "+"), topology.MaxMessage)
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
