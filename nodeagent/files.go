package nodeagent

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/google/renameio/v2"

	"github.com/quoin-hpc/quoin/dcgm"
	"github.com/quoin-hpc/quoin/topology"
)

// HookFiles keeps the inventory and the configuration of the job hook.
type HookFiles struct {
	runDir, mappingDir string
	// Unlink has the hook release a GPU by removing its file, for exporters
	// before 4.3.1.
	Unlink bool
}

// NewHookFiles returns the files of a run directory.
func NewHookFiles(runDir, mappingDir string) *HookFiles {
	return &HookFiles{runDir: runDir, mappingDir: mappingDir}
}

// Write implements Files. A GPU that the report lacks keeps its place in the
// inventory: jobs may still hold it, and Slurm's gres.conf still counts it.
func (f *HookFiles) Write(n *topology.Node) error {
	err := dcgm.WriteHookConfig(f.runDir, dcgm.HookConfig{MappingDir: f.mappingDir, Unlink: f.Unlink})
	if len(n.GPUs) == 0 {
		return err
	}
	inv, e := InventoryOf(n)
	if e != nil {
		return errors.Join(err, e)
	}
	if was, e := dcgm.ReadInventory(f.runDir); e == nil && was.Node == inv.Node {
		inv.Entries = keepMissing(inv.Entries, was.Entries)
	}
	return errors.Join(err, dcgm.WriteInventory(f.runDir, inv))
}

// keepMissing adds the entries of before whose device has none now, and numbers
// all of them again, by minor.
func keepMissing(now, before []dcgm.Entry) []dcgm.Entry {
	have, ids := make(map[int]bool, len(now)), make(map[string]bool, len(now))
	for _, e := range now {
		have[e.Minor], ids[e.ExporterID] = true, true
	}
	for _, e := range before {
		if have[e.Minor] {
			continue
		}
		if ids[e.ExporterID] {
			e.ExporterID = "" // ids have moved up
		}
		now = append(now, e)
	}
	slices.SortStableFunc(now, func(a, b dcgm.Entry) int { return cmp.Compare(a.Minor, b.Minor) })
	for i := range now {
		now[i].GRESIndex = i
	}
	return now
}

// InventoryOf lists the node's devices in the order of Slurm's GRES indices.
// The exporter's id is DCGM's where it is known, else NVML's index, which DCGM
// follows unless it sees other GPUs than we do, and none where that is the id of
// another GPU.
func InventoryOf(n *topology.Node) (dcgm.Inventory, error) {
	inv := dcgm.Inventory{Node: n.Name, BootID: n.BootID}
	taken := make(map[int]bool)
	for _, g := range n.GPUs {
		if g.DCGMID != nil {
			taken[*g.DCGMID] = true
		}
	}
	for _, g := range n.GRESOrder() {
		if g.Minor == nil {
			return inv, fmt.Errorf("GPU %s has no minor number: its GRES index is not known", g.UUID)
		}
		id := exporterIDOf(&g, taken)
		e := dcgm.Entry{Device: fmt.Sprintf("/dev/nvidia%d", *g.Minor), Minor: *g.Minor, UUID: g.UUID, ExporterID: id}
		if len(g.MIG) == 0 {
			e.GRESIndex = len(inv.Entries)
			inv.Entries = append(inv.Entries, e)
			continue
		}
		for _, m := range g.MIG {
			e.GRESIndex, e.UUID, e.GPUUUID = len(inv.Entries), m.UUID, g.UUID
			e.GPUInstanceID, e.ExporterID = &m.GPUInstanceID, instanceID(id, m.GPUInstanceID)
			inv.Entries = append(inv.Entries, e)
		}
	}
	return inv, nil
}

// exporterIDOf returns the name that the exporter has for a GPU, empty when
// another GPU has it.
func exporterIDOf(g *topology.GPU, taken map[int]bool) string {
	switch {
	case g.DCGMID != nil:
		return strconv.Itoa(*g.DCGMID)
	case taken[g.Index]:
		return ""
	}
	return strconv.Itoa(g.Index)
}

// instanceID returns the exporter's name for a MIG instance of a GPU.
func instanceID(gpu string, instance int) string {
	if gpu == "" {
		return ""
	}
	return gpu + "." + strconv.Itoa(instance)
}

// InstallHook copies quoin-hook, which lies beside this program, into dir by
// rename, and nothing when the same one is there.
func InstallHook(dir string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("install hook: %w", err)
	}
	return installFile(filepath.Join(filepath.Dir(self), "quoin-hook"), dir)
}

// installFile copies a program into dir. The old one is replaced and not
// written over, for a job may run it.
func installFile(program, dir string) error {
	data, err := os.ReadFile(program)
	if err != nil {
		return fmt.Errorf("install hook: %w", err)
	}
	path := filepath.Join(dir, filepath.Base(program))
	if info, err := os.Stat(path); err == nil && info.Mode() == 0o755 {
		if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, data) {
			return nil
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("install hook: %w", err)
	}
	if err := replaceProgram(path, data); err != nil {
		return fmt.Errorf("install hook: %w", err)
	}
	return nil
}

// replaceProgram writes a program that everybody may run, whatever the mode of
// the one before.
func replaceProgram(path string, data []byte) error {
	f, err := renameio.NewPendingFile(path, renameio.WithStaticPermissions(0o755))
	if err != nil {
		return err
	}
	defer f.Cleanup() //nolint:errcheck // nothing is left after the replacement
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.CloseAtomicallyReplace()
}
