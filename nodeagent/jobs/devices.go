package jobs

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/topology"
)

// labelsOf returns the labels UUID, gpu and GPU_I_ID that DCGM Exporter gives a GPU or
// a MIG instance.
func labelsOf(d *rundir.Entry) [3]string {
	gpu, instance, _ := strings.Cut(d.ExporterID, ".")
	return [3]string{cmp.Or(d.GPUUUID, d.UUID), gpu, instance}
}

// stampedInventory is the inventory as it was last read.
type stampedInventory struct {
	file    fs.FileInfo
	boot    string            // of the last refresh
	of      *rundir.Inventory // nil while there is none of this boot
	problem error
}

// refresh reads the inventory if it has changed, and says so. An inventory of another
// boot is not taken: ids may differ, and the agent writes a new one soon.
func (s *stampedInventory) refresh(runDir rundir.Dir, boot string) (changed bool) {
	file, _ := os.Stat(filepath.Join(string(runDir), rundir.InventoryFile)) // nil if there is none
	if isSame(file, s.file) && boot == s.boot {
		return false
	}
	s.file, s.boot, s.of, s.problem = file, boot, nil, nil
	if file == nil {
		return true
	}
	inv, err := runDir.ReadInventory()
	if err != nil {
		s.problem = err
		return true
	}
	if rundir.SameBoot(inv.BootID, boot) {
		s.of = inv
	}
	return true
}

// resolved is what a job holds, by the current inventory.
type resolved struct {
	// devices are the inventory's entries. For a device that the inventory lacks there
	// is an entry of what the record says.
	devices []rundir.Entry
	// names are the exporter's ids of the devices.
	names []string
	// moved says that the record has other names. settled says that the
	// record does not guess them, or that the inventory has told them.
	moved, settled bool
}

func (r *resolved) add(d rundir.Entry) {
	r.devices = append(r.devices, d)
	if d.ExporterID != "" && !slices.Contains(r.names, d.ExporterID) {
		r.names = append(r.names, d.ExporterID)
	}
}

// resolveJob returns what a job holds. inv is nil if there is no inventory.
func resolveJob(inv *rundir.Inventory, r *rundir.Record) resolved {
	out := resolved{names: []string{}, settled: !r.Unresolved}
	gpus, uuids := r.GPUs, r.UUIDs
	if inv != nil && r.Unresolved && (r.Visible != "" || len(r.Devices) > 0) {
		g, u, err := rundir.Resolve(inv, r.Devices, r.Visible) // the hook has logged what is wrong
		if len(u) > 0 {
			gpus, uuids, out.settled = g, u, err == nil
		}
	}
	byUUID, byName := make(map[string]rundir.Entry), make(map[string]rundir.Entry)
	if inv != nil {
		for _, e := range inv.Entries {
			byUUID[e.UUID], byName[e.ExporterID] = e, e
		}
	}
	for i, uuid := range uuids {
		e, known := byUUID[uuid]
		if !known {
			e.UUID = uuid
			if len(gpus) == len(uuids) && byName[gpus[i]].UUID == "" { // no other device has the name now
				e.ExporterID = gpus[i]
			}
		}
		out.add(e)
	}
	if len(uuids) == 0 {
		for _, gpu := range gpus {
			e := byName[gpu]
			e.ExporterID = gpu
			out.add(e)
		}
	}
	out.moved = inv != nil && !sameNames(out.names, r.GPUs)
	return out
}

func sameNames(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(slices.Compact(a), slices.Compact(b))
}

// gpuOf returns the report's GPU of a device, nil if there is none.
func gpuOf(n *topology.Node, d *rundir.Entry) *topology.GPU {
	if n == nil {
		return nil
	}
	at := slices.IndexFunc(n.GPUs, func(g topology.GPU) bool { return g.UUID == cmp.Or(d.GPUUUID, d.UUID) })
	if at < 0 {
		return nil
	}
	return &n.GPUs[at]
}

// productOf returns the product's name as DCGM Exporter's label modelName has it.
func productOf(n *topology.Node, d *rundir.Entry) string {
	if g := gpuOf(n, d); g != nil && g.Product != "" {
		return g.Product
	}
	product, _, _ := strings.Cut(d.Product, " MIG ")
	return product
}

// cliqueOf returns a device's NVLink clique in the form of the label
// nvidia.com/gpu.clique: the clique of the GPU, else the confirmed one of the node.
func cliqueOf(n *topology.Node, d *rundir.Entry) string {
	g := gpuOf(n, d)
	if g == nil {
		return ""
	}
	if c, ok := g.Fabric.Clique(); ok {
		return c.String()
	}
	if !n.Domain.Clique.IsZero() {
		return n.Domain.Clique.String()
	}
	return ""
}
