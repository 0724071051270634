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

// keepMissing adds the entries of before whose device has none now, at the place
// that they had, and numbers all of them again. Among devices that were not
// there before that place is by minor.
func keepMissing(now, before []dcgm.Entry) []dcgm.Entry {
	have, ids, at := make(map[int]bool, len(now)), make(map[string]bool, len(now)), make(map[string]int, len(now))
	for i, e := range now {
		have[e.Minor], ids[e.ExporterID], at[e.UUID] = true, true, i
	}
	var all []dcgm.Entry
	known, missing := 0, 0
	for _, e := range before {
		i, same := at[e.UUID]
		switch {
		case same:
			all = append(all, now[i])
			known++
		case !have[e.Minor]:
			if ids[e.ExporterID] {
				e.ExporterID = "" // ids have moved up
			}
			all = append(all, e)
			missing++
		}
	}
	if missing == 0 {
		return now
	}
	if known < len(now) {
		all = slices.DeleteFunc(all, func(e dcgm.Entry) bool { return have[e.Minor] })
		all = append(slices.Clone(now), all...)
		slices.SortStableFunc(all, func(a, b dcgm.Entry) int { return cmp.Compare(a.Minor, b.Minor) })
	}
	for i := range all {
		all[i].GRESIndex = i
	}
	return all
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
	for _, d := range n.GRESDevices() {
		g := d.GPU
		if g.Minor == nil {
			return inv, fmt.Errorf("GPU %s has no minor number: its GRES index is not known", g.UUID)
		}
		e := dcgm.Entry{GRESIndex: len(inv.Entries), Device: fmt.Sprintf("/dev/nvidia%d", *g.Minor), Minor: *g.Minor, UUID: g.UUID, ExporterID: exporterIDOf(g, taken)}
		if d.MIG != nil {
			e.UUID, e.GPUUUID = d.MIG.UUID, g.UUID
			e.GPUInstanceID, e.ExporterID = &d.MIG.GPUInstanceID, instanceID(e.ExporterID, d.MIG.GPUInstanceID)
		}
		inv.Entries = append(inv.Entries, e)
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
