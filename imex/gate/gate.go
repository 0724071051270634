// Package gate is the file gate.json in the run directory. The agent writes there
// whether jobs across nodes may use IMEX on the node, and the job hook reads it.
//
// A gate proves that this node's daemon is up, in this boot. It does not prove that each
// pair of daemons is connected, unless the host's own service tells its peers. The package
// knows no Kubernetes, because the hook is built on it.
package gate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/dcgm/document"
	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/topology"
)

const (
	// FileName is the file's name in the run directory.
	FileName = key + ".json"
	key      = "gate"
	// Stale is the age from which a gate says nothing any longer.
	Stale = time.Minute
)

// State says whether jobs across nodes may use IMEX on this node. The modification
// time of the file says when that was last confirmed.
type State struct {
	document.Head
	// Node is the node's name in Kubernetes.
	Node   string `json:"node"`
	BootID string `json:"bootID,omitempty"`
	// Clique is empty if jobs have nothing to wait for on this node.
	Clique string `json:"clique,omitempty"`
	Ready  bool   `json:"ready"`
	// Reason is a reason word of imex. Message says what is seen, and Remedy what to do, also on
	// a node that is ready.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty" max:"65536"`
	Remedy  string `json:"remedy,omitempty" max:"65536"`
	// Peers are the nodes of the domain of the host's own service: topology.IMEX has the
	// form. A job waits for those of its nodes that are dead although this node is ready.
	Peers []topology.IMEXPeer `json:"peers,omitempty" max:"16384"`
	// PeersUnknown says why nothing is known of the peers, empty if something is.
	PeersUnknown string `json:"peersUnknown,omitempty" max:"65536"`
	// Members have an entry in the node's clique. The node itself is among them once
	// it has one.
	Members []Member `json:"members,omitempty" max:"16384"`
}

// Member is a node of the clique, by its name in Kubernetes.
type Member struct {
	Node  string `json:"node"`
	Ready bool   `json:"ready"`
}

// NeedsNone reports whether no job ever needs IMEX on this node. That stays true when
// the file is old, because only other hardware changes it.
func (s *State) NeedsNone() bool { return s.Reason == imex.ReasonNoMultiNodeNVLink }

func inDir(runDir string) document.Store[State] {
	return document.Store[State]{Dir: runDir, Kind: "Gate", Mode: document.Public}
}

// Write replaces the gate in the run directory by rename. If the gate has not changed,
// Write only sets the file's time, which is the agent's sign of life: call it more
// often than every Stale.
func Write(runDir string, g State) error {
	err := inDir(runDir).Put(key, g)
	if now := time.Now(); err == nil {
		err = os.Chtimes(filepath.Join(runDir, FileName), now, now)
	}
	if err != nil {
		return fmt.Errorf("write gate: %w", err)
	}
	return nil
}

// Read reads the gate, and says when it was last written or confirmed. The error is
// fs.ErrNotExist if no agent has written a gate.
func Read(runDir string) (*State, time.Time, error) {
	g, at, err := inDir(runDir).Get(key)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w; the agent replaces it", err)
	}
	if err != nil {
		return nil, at, fmt.Errorf("read gate: %w", err)
	}
	return g, at, nil
}

// shortName is a node's name without its domain, in lower case as in Kubernetes.
func shortName(name string) string {
	return strings.ToLower(hostlist.ShortName(name))
}
