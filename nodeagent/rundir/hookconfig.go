package rundir

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/quoin-hpc/quoin/dcgm/document"
)

const hookConfigKind = "HookConfig"

// HookConfig is how the site wants the hook.
type HookConfig struct {
	document.Head
	MappingDir string `json:"mappingDir" max:"4096"`
	// SummaryDir gets a copy of each job's summary; it may be shared by nodes.
	SummaryDir string `json:"summaryDir,omitempty" max:"4096"`
	// Scontrol is the absolute path of scontrol. Only a gate with the policy GateHold needs it.
	Scontrol string `json:"scontrol,omitempty" max:"4096"`
	// Gate holds jobs across nodes back until IMEX is ready, if set.
	Gate *Gate `json:"gate,omitempty"`
}

// Gate says how long a Prolog waits for IMEX on its node, and what it does then.
type Gate struct {
	// Wait is beside the time of the call itself; DefaultGateWait if zero.
	Wait Duration `json:"wait,omitzero"`
	// Policy is GateWarn, GateFail or GateHold; GateWarn if empty.
	Policy string `json:"policy,omitempty"`
}

// DefaultWait is the longest that one call delays a job or a node, without the gate. DefaultGateWait is
// the longest that the gate does.
const (
	DefaultWait     = 2 * time.Second
	DefaultGateWait = 30 * time.Second
)

// Duration is written as text such as 2s.
type Duration time.Duration

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = Duration(v)
	return err
}

// maxGateWait is longer than an IMEX daemon needs to find all its peers.
const maxGateWait = 10 * time.Minute

// Check refuses values that the hook cannot use.
func (c *HookConfig) Check(string) error {
	switch {
	case c.MappingDir == "":
		return errors.New("no mapping directory")
	case c.SummaryDir != "" && !filepath.IsAbs(c.SummaryDir):
		return fmt.Errorf("summaryDir %q: want an absolute path", c.SummaryDir)
	case c.Scontrol != "" && !filepath.IsAbs(c.Scontrol):
		return fmt.Errorf("scontrol %q: want its absolute path, because slurmd gives a hook no PATH", c.Scontrol)
	}
	return c.Gate.check()
}

func (g *Gate) check() error {
	switch {
	case g == nil:
		return nil
	case g.Wait < 0 || time.Duration(g.Wait) > maxGateWait:
		return fmt.Errorf("gate.wait %s: want 0s to %s", time.Duration(g.Wait), maxGateWait)
	case g.Policy != "" && g.Policy != GateWarn && g.Policy != GateFail && g.Policy != GateHold:
		return fmt.Errorf("gate.policy %q: want %s, %s or %s", g.Policy, GateWarn, GateFail, GateHold)
	}
	return nil
}

func (d Dir) hookConfig() document.Store[HookConfig] {
	return document.Store[HookConfig]{Dir: string(d), Kind: hookConfigKind, Mode: document.Public}
}

// WriteHookConfig writes the hook's configuration into the run directory, unless it
// is there already.
func (d Dir) WriteHookConfig(c HookConfig) error {
	if c.Gate != nil && c.Gate.Policy == GateHold && c.Scontrol == "" {
		return fmt.Errorf("write hook configuration: gate.policy %s: want scontrol too, because it holds the job", GateHold)
	}
	return d.hookConfig().Put(hookConfigKey, c)
}

// ReadHookConfig reads the hook's configuration, nil without one. If only other keys
// are wrong, it returns the mapping directory beside the error: labels in another
// directory would be lost.
func (d Dir) ReadHookConfig() (*HookConfig, error) {
	c, _, err := d.hookConfig().Find(hookConfigKey)
	if err == nil {
		return c, nil
	}
	type labels struct {
		document.Head
		MappingDir string `json:"mappingDir" max:"4096"`
	}
	l, _, _ := document.Store[labels]{Dir: string(d), Kind: hookConfigKind}.Find(hookConfigKey)
	if l == nil || l.MappingDir == "" {
		return nil, err
	}
	return &HookConfig{Head: l.Head, MappingDir: l.MappingDir}, err
}
