package rundir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/quoin-hpc/quoin/dcgm/atomicfile"
	"github.com/quoin-hpc/quoin/dcgm/document"
)

// Call is one call of the hook, for the agent to count.
type Call struct {
	// Hook is prolog or epilog.
	Hook string `json:"hook"`
	Job  string `json:"job,omitempty"`
	// Start is in nanoseconds since 1970. Ns is how long the call took without the
	// gate, LockNs the part of it that it waited for the lock.
	Start  int64 `json:"start"`
	Ns     int64 `json:"ns"`
	LockNs int64 `json:"lockNs,omitempty"`
	// Error is one word for what went wrong first, empty if nothing did.
	Error string `json:"error,omitempty"`
	// Gate is one word for how a job across nodes came through the gate, empty for
	// other jobs. GateNs is how long that took.
	Gate   string `json:"gate,omitempty"`
	GateNs int64  `json:"gateNs,omitempty"`
}

// How a job comes through the gate. Three of these are also the policies of a shut
// gate.
const (
	GateReady  = "ready"  // IMEX was ready
	GateWaited = "waited" // IMEX became ready
	GateAlone  = "alone"  // no other node of the job is in this node's clique
	GateWarn   = "warn"   // IMEX was not ready: the job goes on
	GateFail   = "fail"   // IMEX was not ready: the Prolog fails
	GateHold   = "hold"   // IMEX was not ready: the job is back in the queue, held
	GateStale  = "stale"  // nobody says whether IMEX is ready: the job goes on
	// GateUnknown: IMEX is ready here, and nobody says whether the job's other nodes are
	// connected: the job goes on.
	GateUnknown = "unknown"
	GateSignal  = "signal" // the hook was told to stop
	GateFault   = "fault"  // a fault of the hook's own: the job goes on
)

// What may go wrong in a call.
const (
	CallLock        = "lock"
	CallInventory   = "inventory"
	CallGresConf    = "gresconf"
	CallMapping     = "mapping"
	CallRecord      = "record"
	CallConfig      = "config"
	CallEnvironment = "environment"
	CallSummary     = "summary"
	CallTimeout     = "timeout"
	CallSignal      = "signal"
	CallPanic       = "panic"
)

const (
	callsFile = "calls.log"
	takenFile = "calls.log.1"
	// maxCalls bounds the log, in bytes: there may be no agent that takes it.
	maxCalls = 1 << 20
)

// AppendCall adds a call to the run directory's log by one write. A full log stays as
// it is.
func (d Dir) AppendCall(c Call) error {
	line, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("log the call: %w", err)
	}
	path := filepath.Join(string(d), callsFile)
	f, err := atomicfile.Open(path, unix.O_WRONLY|unix.O_APPEND|unix.O_CREAT|unix.O_NOFOLLOW, document.Own)
	if err != nil {
		return fmt.Errorf("log the call: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return errors.Join(err, fmt.Errorf("log the call: %s: want a regular file", path))
	}
	if info.Size()+int64(len(line)) >= maxCalls {
		return nil
	}
	if _, err := f.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("log the call: %w", err)
	}
	return nil
}

// TakeCalls returns the calls that it set aside the last time, and sets aside the
// calls logged since: a hook that has just opened the log still writes to it. Lines
// that cannot be read are left out and counted in the error.
func (d Dir) TakeCalls() ([]Call, error) {
	taken := filepath.Join(string(d), takenFile)
	data, failed := atomicfile.Read(taken)
	if errors.Is(failed, fs.ErrNotExist) {
		failed = nil
	}
	calls, err := parseCalls(data)
	failed = errors.Join(failed, err)
	// Removed before the calls are counted: to lose a call is better than to count it
	// twice.
	if err := os.Remove(taken); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("take hook calls: %w", err)
	}
	if err := os.Rename(filepath.Join(string(d), callsFile), taken); err != nil && !errors.Is(err, fs.ErrNotExist) {
		failed = errors.Join(failed, fmt.Errorf("take hook calls: %w", err))
	}
	return calls, failed
}

func parseCalls(data []byte) ([]Call, error) {
	var calls []Call
	bad := 0
	for line := range bytes.Lines(data) {
		var c Call
		if err := json.Unmarshal(line, &c); err != nil || c.Hook != "prolog" && c.Hook != "epilog" || c.Ns < 0 || c.LockNs < 0 || c.GateNs < 0 {
			bad++
			continue
		}
		calls = append(calls, c)
	}
	if bad > 0 {
		return calls, fmt.Errorf("%s: %d lines are not hook calls and are left out", callsFile, bad)
	}
	return calls, nil
}
