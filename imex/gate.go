package imex

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/quoin-hpc/quoin/topology"
)

const (
	// GateFile is the gate's name in the run directory.
	GateFile = "gate.json"
	gateKind = "Gate"
	// GateStale is how old a gate may be: an older one says nothing.
	GateStale = time.Minute
	// maxGate bounds what is read of a gate, in bytes.
	maxGate = 1 << 20
)

// Gate says whether jobs across nodes may use IMEX on this node. The time of its
// file says as of when.
type Gate struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Node is the node's name in Kubernetes.
	Node   string `json:"node"`
	BootID string `json:"bootID,omitempty"`
	// Clique is empty on a node without multi-node NVLink, which needs no gate.
	Clique string `json:"clique,omitempty"`
	Ready  bool   `json:"ready"`
	// Reason is a CamelCase word, and Message what is seen and to be done, for
	// people.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Members are those that have joined in this clique, this node among them when
	// it has.
	Members []GateMember `json:"members,omitempty"`
}

// GateMember is a node of a clique by its name in Kubernetes.
type GateMember struct {
	Node  string `json:"node"`
	Ready bool   `json:"ready"`
}

// WriteGate writes the gate into the run directory by rename. Where it is there
// already only the time of the file is set anew, for that is the writer's sign of
// life: it is to be called more often than every GateStale.
func WriteGate(runDir string, g Gate) error {
	g.APIVersion, g.Kind = topology.APIVersion, gateKind
	data, err := json.MarshalIndent(g, "", "  ")
	if err != nil {
		return fmt.Errorf("write gate: %w", err)
	}
	data = append(data, '\n')
	path := filepath.Join(runDir, GateFile)
	if old, _, err := readGateFile(path); err == nil && bytes.Equal(old, data) {
		if now := time.Now(); os.Chtimes(path, now, now) == nil {
			return nil
		}
	}
	if err := replaceGate(runDir, path, data); err != nil {
		return fmt.Errorf("write gate: %w", err)
	}
	return nil
}

func replaceGate(runDir, path string, data []byte) error {
	if err := os.MkdirAll(runDir, 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(runDir, ".new-gate-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // it is of no use
	}
	return err
}

// ReadGate reads the gate, and says when it was last written or confirmed. An
// error that is fs.ErrNotExist means that no agent has written one.
func ReadGate(runDir string) (*Gate, time.Time, error) {
	path := filepath.Join(runDir, GateFile)
	data, at, err := readGateFile(path)
	if err != nil {
		return nil, at, fmt.Errorf("read gate: %w", err)
	}
	g, err := parseGate(data)
	if err != nil {
		return nil, at, fmt.Errorf("%s: %w", path, err)
	}
	return g, at, nil
}

// readGateFile opens nothing that it would wait for, as a named pipe.
func readGateFile(path string) (data []byte, at time.Time, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, at, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, at, err
	}
	if !info.Mode().IsRegular() {
		return nil, at, fmt.Errorf("%s is of mode %s: want a regular file", path, info.Mode())
	}
	if data, err = io.ReadAll(io.LimitReader(f, maxGate+1)); err == nil && len(data) > maxGate {
		err = fmt.Errorf("%s has more than %d bytes", path, maxGate)
	}
	return data, info.ModTime(), err
}

// parseGate reads a gate. A newer agent may say more than this hook knows.
func parseGate(data []byte) (*Gate, error) {
	var g Gate
	if err := json.Unmarshal(data, &g); err != nil {
		return nil, fmt.Errorf("%w; the agent writes it anew", err)
	}
	if g.APIVersion != topology.APIVersion || g.Kind != gateKind {
		return nil, fmt.Errorf("apiVersion %q, kind %q: want %q, %q", g.APIVersion, g.Kind, topology.APIVersion, gateKind)
	}
	return &g, nil
}
