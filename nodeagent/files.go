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

	"github.com/quoin-hpc/quoin/dcgm"
	"github.com/quoin-hpc/quoin/dcgm/atomicfile"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/fabric"
)

// HookFiles keeps the inventory and the configuration of the job hook.
type HookFiles struct {
	RunDir rundir.Dir
	// BootID is the boot of the inventory. If it is empty, the report's is taken: a
	// simulated machine has one of its own.
	BootID string
	// Hook is how the site wants the hook.
	Hook rundir.HookConfig
	// Fabric judges the node's NVLink fabric. nil judges nothing.
	Fabric func(n *topology.Node) topology.FabricVerdict
}

// Write implements Files. A GPU that the report lacks keeps its place in the
// inventory: jobs may still hold it, and Slurm's gres.conf still counts it. After a boot
// the copy in the mapping directory tells the places.
func (f *HookFiles) Write(n *topology.Node) error {
	err := f.RunDir.WriteHookConfig(f.Hook)
	inv, e := InventoryOf(n)
	if e != nil {
		return errors.Join(err, e)
	}
	inv.BootID = cmp.Or(f.BootID, inv.BootID)
	inv.Faults = f.faults(n)
	_, kept := dcgm.Open(f.Hook.MappingDir)
	if old, _, _ := f.RunDir.FindInventory(kept, inv.BootID); old != nil && old.Node == inv.Node && !old.Unordered {
		inv.Entries = keepMissing(inv.Entries, old.Entries)
	} else {
		known := false
		inv.Entries, known = AddUnreadable(inv.Entries, n)
		inv.Unordered = !known
	}
	if len(inv.Entries) == 0 { // there is no GPU, or all have MIG and there is no instance yet
		return err
	}
	return errors.Join(err, f.RunDir.WriteInventory(inv))
}

// warned are the problems of single GPUs that a Prolog warns of.
var warned = []string{topology.ReasonXidCritical, topology.ReasonRecoveryNeeded, topology.ReasonMemoryErrors, topology.ReasonGPULost, topology.ReasonGPUMissing}

// faults returns what a Prolog warns of: GPUs that are gone, or that somebody has to reset or repair, and
// the node's fabric. A GPU that NVML does not show has no UUID, so each job hears of it.
func (f *HookFiles) faults(n *topology.Node) (faults []rundir.Fault) {
	for _, p := range n.Problems {
		if slices.Contains(warned, p.Reason) {
			faults = append(faults, rundir.Fault{UUID: fabric.GPUOf(p), Text: p.Message})
		}
	}
	if f.Fabric == nil {
		return faults
	}
	if v := f.Fabric(n); v.Remedy != "" {
		faults = append(faults, rundir.Fault{Text: v.Reason + ": " + v.Message})
	}
	return faults
}

// keepMissing adds the old entries whose device has no new entry, at their old places,
// and numbers all entries again. A GPU that was replaced by one of its kind takes the
// place of its device file. If a new device has no old place, or if none is missing, the
// new entries stay as they are: they are what gres.conf lists.
func keepMissing(now, before []rundir.Entry) []rundir.Entry {
	places, ok := placesOf(now, before)
	if !ok || len(places) == len(before) {
		return now
	}
	have, ids := make(map[int]bool, len(now)), make(map[string]bool, len(now))
	for _, e := range now {
		have[e.Minor], ids[e.ExporterID] = true, true
	}
	var all []rundir.Entry
	for k, e := range before {
		i, taken := places[k]
		switch {
		case taken:
			all = append(all, now[i])
		case !have[e.Minor]:
			if ids[e.ExporterID] {
				e.ExporterID = "" // ids have moved up
			}
			e.Lost = true
			all = append(all, e)
		}
	}
	return numbered(all)
}

func numbered(entries []rundir.Entry) []rundir.Entry {
	for i := range entries {
		entries[i].GRESIndex = i
	}
	return entries
}

// AddUnreadable adds the GPUs that NVML counts and cannot read, if nothing tells the
// places of before: their minor numbers are free below the others. Without a free number
// they are behind the others and shift none. The places are not known if more numbers are
// free than GPUs are unreadable, because nobody knows whether Slurm counts those, if the
// order is not that of the device files, or if GPUs differ or have MIG instances: an
// unreadable one may be of any kind, and have any instances.
func AddUnreadable(now []rundir.Entry, n *topology.Node) (all []rundir.Entry, known bool) {
	unreadable := 0
	for _, p := range n.Problems {
		if p.Reason == topology.ReasonGPUUnreadable {
			unreadable++
		}
	}
	if unreadable == 0 {
		return now, true
	}
	alike := !slices.ContainsFunc(now, func(e rundir.Entry) bool { return e.GPUInstanceID != nil || e.Product != now[0].Product })
	next := 0 // the lowest minor number that no entry has
	for _, e := range now {
		if e.Minor < next-1 || e.Minor == next-1 && e.GPUInstanceID == nil {
			return now, false
		}
		for ; next < e.Minor; next++ {
			if unreadable == 0 || !alike {
				return now, false
			}
			unreadable--
			all = append(all, rundir.Entry{Device: rundir.DeviceFile(next), Minor: next, Product: e.Product, Lost: true})
		}
		next = e.Minor + 1
		all = append(all, e)
	}
	return numbered(all), true
}

// placesOf returns which new entry is at which old place: the place of the same device,
// else of the same device file, MIG instance and product. It is not ok if an entry has
// no place.
func placesOf(now, before []rundir.Entry) (places map[int]int, ok bool) {
	places = make(map[int]int, len(now))
	for i := range now {
		at := slices.IndexFunc(before, func(e rundir.Entry) bool { return e.UUID == now[i].UUID })
		if at < 0 {
			at = slices.IndexFunc(before, func(e rundir.Entry) bool { return sameFile(&e, &now[i]) })
		}
		if _, taken := places[at]; taken || at < 0 {
			return nil, false
		}
		places[at] = i
	}
	return places, true
}

// sameFile reports whether two entries have one device file and product, and the same
// MIG instance if they have one.
func sameFile(a, b *rundir.Entry) bool {
	if a.Minor != b.Minor || a.Product != b.Product && a.Product != "" && b.Product != "" || (a.GPUInstanceID == nil) != (b.GPUInstanceID == nil) {
		return false
	}
	return a.GPUInstanceID == nil || *a.GPUInstanceID == *b.GPUInstanceID
}

// InventoryOf lists the node's devices in the order of topology.Node.GRESDevices.
//
// The exporter's id is DCGM's if it is known, else NVML's index: DCGM counts as NVML
// does unless it sees other GPUs. An index that is another GPU's id is not taken.
func InventoryOf(n *topology.Node) (rundir.Inventory, error) {
	inv := rundir.Inventory{Node: n.Name, BootID: n.BootID, Clique: cliqueName(n), EmptyMIG: slices.ContainsFunc(n.GPUs, func(g topology.GPU) bool { return g.MIGEmpty })}
	taken := make(map[int]bool)
	for _, g := range n.GPUs {
		if g.DCGMID != nil {
			taken[*g.DCGMID] = true
		}
	}
	for _, d := range n.GRESDevices() {
		g := d.GPU
		if g.Minor == nil {
			return inv, fmt.Errorf("GPU %s has no minor number: its device file is not known", g.UUID)
		}
		e := rundir.Entry{GRESIndex: len(inv.Entries), Device: rundir.DeviceFile(*g.Minor), Minor: *g.Minor, Index: g.Index, UUID: g.UUID, Product: g.Product, ExporterID: exporterIDOf(g, taken)}
		if d.MIG != nil {
			e.UUID, e.GPUUUID, e.Product = d.MIG.UUID, g.UUID, g.Product+" MIG "+d.MIG.Profile
			e.Capabilities = d.MIG.Capabilities
			e.GPUInstanceID, e.ExporterID = &d.MIG.GPUInstanceID, instanceID(e.ExporterID, d.MIG.GPUInstanceID)
		}
		inv.Entries = append(inv.Entries, e)
	}
	return inv, nil
}

// cliqueName is the name of the clique that the node's GPUs have joined, as the label
// nvidia.com/gpu.clique has it. It is empty if none has joined one, or two differ.
func cliqueName(n *topology.Node) (name string) {
	for i := range n.GPUs {
		c, joined := n.GPUs[i].Fabric.Clique()
		if !joined {
			continue
		}
		if name != "" && name != c.String() {
			return ""
		}
		name = c.String()
	}
	return name
}

// exporterIDOf returns the exporter's id of a GPU. It is empty if another GPU has that
// id.
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

// InstallHook copies quoin-hook, which is beside this program, into dir by rename. It
// does nothing if the same one is there.
func InstallHook(dir string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("install hook: %w", err)
	}
	return installFile(filepath.Join(filepath.Dir(self), "quoin-hook"), dir)
}

// installFile copies a program into dir. The old one is replaced and not overwritten,
// because a job may run it.
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
	if err := atomicfile.WriteDurably(path, data, 0o755); err != nil {
		return fmt.Errorf("install hook: %w", err)
	}
	return nil
}
