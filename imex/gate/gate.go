// Package gate is the file gate.json in the run directory. The agent writes there
// whether jobs across nodes may use IMEX on the node, and the job hook reads it.
//
// A gate proves that this node's daemon is up, in this boot. It does not prove that each
// pair of daemons is connected, unless the host's own service tells its peers. The package
// knows no Kubernetes, because the hook is built on it.
package gate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/dcgm/atomicfile"
	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/topology"
)

const (
	// FileName is the file's name in the run directory.
	FileName = "gate.json"
	kind     = "Gate"
	// Stale is the age from which a gate says nothing any longer.
	Stale = time.Minute
)

// State says whether jobs across nodes may use IMEX on this node. The modification
// time of the file says when that was last confirmed.
type State struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Node is the node's name in Kubernetes.
	Node   string `json:"node"`
	BootID string `json:"bootID,omitempty"`
	// Clique is empty if jobs have nothing to wait for on this node.
	Clique string `json:"clique,omitempty"`
	Ready  bool   `json:"ready"`
	// Reason is a reason word of imex. Message says what is seen, and Remedy what to do, also on
	// a node that is ready.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	Remedy  string `json:"remedy,omitempty"`
	// Peers are the nodes of the domain of the host's own service: topology.IMEX has the
	// form. A job waits for those of its nodes that are dead although this node is ready.
	Peers []topology.IMEXPeer `json:"peers,omitempty"`
	// PeersUnknown says why nothing is known of the peers, empty if something is.
	PeersUnknown string `json:"peersUnknown,omitempty"`
	// Members have an entry in the node's clique. The node itself is among them once
	// it has one.
	Members []Member `json:"members,omitempty"`
}

// Member is a node of the clique, by its name in Kubernetes.
type Member struct {
	Node  string `json:"node"`
	Ready bool   `json:"ready"`
}

// NeedsNone reports whether no job ever needs IMEX on this node. That stays true when
// the file is old, because only other hardware changes it.
func (s *State) NeedsNone() bool { return s.Reason == imex.ReasonNoMultiNodeNVLink }

// Write replaces the gate in the run directory by rename. If the gate has not changed,
// Write only sets the file's time, which is the agent's sign of life: call it more
// often than every Stale.
func Write(runDir string, g State) error {
	g.APIVersion, g.Kind = topology.APIVersion, kind
	data, err := json.MarshalIndent(g, "", "  ")
	if err != nil {
		return fmt.Errorf("write gate: %w", err)
	}
	data = append(data, '\n')
	path := filepath.Join(runDir, FileName)
	if old, err := atomicfile.Read(path); err == nil && bytes.Equal(old, data) {
		if now := time.Now(); os.Chtimes(path, now, now) == nil {
			return nil
		}
	}
	err = os.MkdirAll(runDir, 0o755)
	if err == nil {
		err = atomicfile.Write(path, data)
	}
	if err != nil {
		return fmt.Errorf("write gate: %w", err)
	}
	return nil
}

// Read reads the gate, and says when it was last written or confirmed. The error is
// fs.ErrNotExist if no agent has written a gate.
func Read(runDir string) (*State, time.Time, error) {
	path := filepath.Join(runDir, FileName)
	data, at, err := atomicfile.ReadTime(path)
	if err != nil {
		return nil, at, fmt.Errorf("read gate: %w", err)
	}
	g, err := parse(data)
	if err != nil {
		return nil, at, fmt.Errorf("%s: %w", path, err)
	}
	return g, at, nil
}

// parse reads a gate. It ignores unknown fields, because the agent may be newer than
// the hook.
func parse(data []byte) (*State, error) {
	var g State
	if err := json.Unmarshal(data, &g); err != nil {
		return nil, fmt.Errorf("%w; the agent replaces it", err)
	}
	if g.APIVersion != topology.APIVersion || g.Kind != kind {
		return nil, fmt.Errorf("apiVersion %q, kind %q: want %q, %q", g.APIVersion, g.Kind, topology.APIVersion, kind)
	}
	return &g, nil
}

// shortName is a node's name without its domain, in lower case as in Kubernetes.
func shortName(name string) string {
	return strings.ToLower(hostlist.ShortName(name))
}
