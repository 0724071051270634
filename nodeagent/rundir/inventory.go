package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/quoin-hpc/quoin/dcgm"
	"github.com/quoin-hpc/quoin/dcgm/document"
)

// The names of the files in the run directory.
const (
	inventoryKey   = "inventory"
	InventoryFile  = inventoryKey + ".json"
	hookConfigKey  = "hook"
	HookConfigFile = hookConfigKey + ".json"
	unownedKey     = "unowned"
	jobsFolder     = "jobs"
	lockFile       = "lock"
)

// Dir is a run directory, by its path.
type Dir string

// DefaultRunDir is where agent and hook meet.
const DefaultRunDir = "/run/quoin"

// Inventory lists the GPUs and MIG instances of this node.
type Inventory struct {
	document.Head
	Node   string `json:"node"`
	BootID string `json:"bootID,omitempty"`
	// Clique is the NVLink clique of the node's GPUs, as the node's label names it. It is
	// empty without one.
	Clique string `json:"clique,omitempty"`
	// Entries are in the order of a gres.conf that has all devices of the machine.
	Entries []Entry `json:"entries" max:"1024"`
	// Unordered says that the order is not known, because nothing tells the place of a GPU
	// that NVML cannot read.
	Unordered bool `json:"unordered,omitempty"`
	// EmptyMIG says that a GPU has MIG on and no instance: the GPU has no entry.
	EmptyMIG bool `json:"emptyMIG,omitempty"`
	// Faults are what a Prolog warns of, by the agent's last report.
	Faults []Fault `json:"faults,omitempty" max:"1024"`
}

// Fault is what is wrong with a GPU, or with the whole node.
type Fault struct {
	// UUID is the GPU's. It is empty for a fault of the whole node.
	UUID string `json:"uuid,omitempty"`
	Text string `json:"text" max:"16384"`
}

// FaultsOf returns the faults of these GPUs and MIG instances, and of the node.
func (inv *Inventory) FaultsOf(uuids []string) (found []Fault) {
	if len(inv.Faults) == 0 {
		return nil
	}
	gpus := slices.Clone(uuids)
	for i := range inv.Entries {
		if e := &inv.Entries[i]; e.GPUUUID != "" && slices.Contains(uuids, e.UUID) {
			gpus = append(gpus, e.GPUUUID)
		}
	}
	for _, f := range inv.Faults {
		if f.UUID == "" || slices.Contains(gpus, f.UUID) {
			found = append(found, f)
		}
	}
	return found
}

// Entry is one GPU, or one MIG instance.
type Entry struct {
	// GRESIndex is the place of the device in a gres.conf that has all devices of the
	// machine, as Quoin writes it.
	GRESIndex int    `json:"gresIndex"`
	Device    string `json:"device,omitempty"`
	Minor     int    `json:"minor"`
	// Capabilities are the further device files of a MIG instance.
	Capabilities []string `json:"capabilities,omitempty" max:"16"`
	// Index is NVML's index of the GPU.
	Index int `json:"index"`
	// UUID is GPU-... or MIG-...; GPUUUID the GPU's of a MIG instance.
	UUID          string `json:"uuid"`
	GPUUUID       string `json:"gpuUUID,omitempty"`
	GPUInstanceID *int   `json:"gpuInstanceID,omitempty"`
	// Product is the GPU's product, with the profile of a MIG instance. Devices of one
	// product follow each other. Older agents leave it empty.
	Product string `json:"product,omitempty"`
	// ExporterID is the file's name in the mapping directory: the GPU's id in DCGM; for
	// a MIG instance a dot and the GPU instance id follow. It is empty for a lost GPU if
	// another GPU has its id now.
	ExporterID string `json:"exporterID"`
	// Lost says that the report lacks the device, and Slurm still counts it. If the
	// device was never read, its UUID is empty.
	Lost bool `json:"lost,omitempty"`
}

const inventoryKind = "Inventory"

func (d Dir) inventory() document.Store[Inventory] {
	return document.Store[Inventory]{Dir: string(d), Kind: inventoryKind, Mode: document.Public}
}

// WriteInventory writes the inventory into the run directory, unless it is there
// already.
func (d Dir) WriteInventory(inv Inventory) error { return d.inventory().Put(inventoryKey, inv) }

// ReadInventory reads the inventory. An error that is fs.ErrNotExist means that
// no agent has written one.
func (d Dir) ReadInventory() (*Inventory, error) {
	inv, _, err := d.inventory().Get(inventoryKey)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w; remove it and restart the agent, which writes it again", err)
	}
	return inv, err
}

// KeepInventory keeps a copy of the inventory in a folder that outlives a boot. It makes the folder,
// and not the directory that the folder is in.
func KeepInventory(folder dcgm.Folder, inv Inventory) error {
	if info, err := os.Stat(filepath.Dir(string(folder))); err != nil || !info.IsDir() {
		return nil //nolint:nilerr // nobody reads it
	}
	if err := folder.Make(); err != nil {
		return err
	}
	return Dir(folder).WriteInventory(inv)
}

// FindInventory reads the run directory's inventory. current reports whether the agent
// wrote the inventory in this boot. If not, FindInventory returns an error that says why,
// and the last known inventory or nil, because a boot seldom changes GPUs.
func (d Dir) FindInventory(kept dcgm.Folder, boot string) (inv *Inventory, current bool, err error) {
	inv, err = d.ReadInventory()
	switch {
	case err == nil && SameBoot(inv.BootID, boot):
		return inv, true, nil
	case err == nil:
		return inv, false, fmt.Errorf("%s is of another boot", filepath.Join(string(d), InventoryFile))
	}
	if kept != "" {
		inv, _ = Dir(kept).ReadInventory() // a broken copy counts as none
	}
	return inv, false, err
}

// Check refuses an inventory in another order, and exporter ids that are none.
func (inv *Inventory) Check(string) error {
	for i, e := range inv.Entries {
		if e.GRESIndex != i {
			return fmt.Errorf("entries[%d]: gresIndex %d: want %d, entries are in the order of GRES indices", i, e.GRESIndex, i)
		}
		if e.ExporterID != "" && !dcgm.IsExporterID(e.ExporterID) {
			return fmt.Errorf("entries[%d]: exporterID %.80q: want a number, or two with a dot between", i, e.ExporterID)
		}
	}
	return nil
}
