package jobs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/topology"
)

// device is a GPU or a MIG instance, by the labels that DCGM Exporter gives it.
type device struct {
	// entry is the inventory's. For a device that the inventory lacks it has what the
	// record says.
	entry rundir.Entry
}

// labels returns the labels UUID, gpu and GPU_I_ID.
func (d *device) labels() (uuid, gpu, instance string) {
	uuid = d.entry.UUID
	if d.entry.GPUUUID != "" {
		uuid = d.entry.GPUUUID
	}
	gpu, instance, _ = strings.Cut(d.entry.ExporterID, ".")
	return uuid, gpu, instance
}

// stampedInventory is the inventory as it was last read.
type stampedInventory struct {
	stamp   fileStamp
	boot    string            // of the last refresh
	of      *rundir.Inventory // nil while there is none of this boot
	problem error
}

// refresh reads the inventory if it has changed, and says so. An inventory of another
// boot is not taken: ids may differ, and the agent writes a new one soon.
func (s *stampedInventory) refresh(runDir, boot string) (changed bool) {
	var stamp fileStamp
	if info, err := os.Stat(filepath.Join(runDir, rundir.InventoryFile)); err == nil {
		stamp = stampOf(info)
	}
	if stamp == s.stamp && boot == s.boot {
		return false
	}
	s.stamp, s.boot, s.of, s.problem = stamp, boot, nil, nil
	if stamp == (fileStamp{}) {
		return true
	}
	inv, err := rundir.Dir(runDir).ReadInventory()
	if err != nil {
		s.problem = err
		return true
	}
	if ofOneBoot(inv.BootID, boot) {
		s.of = inv
	}
	return true
}

func ofOneBoot(a, b string) bool { return a == "" || b == "" || a == b }

// resolved is what a job holds, by the current inventory.
type resolved struct {
	devices []device
	// names are the exporter's ids of the devices.
	names []string
	// moved says that the names are not those of the record. settled says that the
	// record does not guess them, or that the inventory has told them.
	moved, settled bool
}

func (r *resolved) add(d device) {
	r.devices = append(r.devices, d)
	if d.entry.ExporterID != "" && !slices.Contains(r.names, d.entry.ExporterID) {
		r.names = append(r.names, d.entry.ExporterID)
	}
}

// resolveJob returns what a job holds.
func resolveJob(inv *rundir.Inventory, r *rundir.Record) resolved {
	out := resolved{names: []string{}, settled: !r.Unresolved}
	gpus, uuids := r.GPUs, r.UUIDs
	if inv != nil && r.Unresolved && r.Indices+r.Visible != "" {
		g, u, err := rundir.Resolve(inv, r.Indices, r.Visible) // the hook has logged what is wrong
		if len(u) > 0 {
			gpus, uuids, out.settled = g, u, err == nil
		}
	}
	for i, uuid := range uuids {
		if e := entryOf(inv, func(e *rundir.Entry) bool { return e.UUID == uuid }); e != nil {
			out.add(device{*e})
			continue
		}
		unknown := rundir.Entry{UUID: uuid}
		if len(gpus) == len(uuids) && entryOf(inv, func(e *rundir.Entry) bool { return e.ExporterID == gpus[i] }) == nil {
			unknown.ExporterID = gpus[i] // no other device has the name now
		}
		out.add(device{unknown})
	}
	if len(uuids) == 0 {
		for _, gpu := range gpus {
			if e := entryOf(inv, func(e *rundir.Entry) bool { return e.ExporterID == gpu }); e != nil {
				out.add(device{*e})
			} else {
				out.add(device{rundir.Entry{ExporterID: gpu}})
			}
		}
	}
	out.moved = inv != nil && !sameNames(out.names, r.GPUs)
	return out
}

func entryOf(inv *rundir.Inventory, is func(*rundir.Entry) bool) *rundir.Entry {
	if inv == nil {
		return nil
	}
	for i := range inv.Entries {
		if is(&inv.Entries[i]) {
			return &inv.Entries[i]
		}
	}
	return nil
}

func sameNames(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(slices.Compact(a), slices.Compact(b))
}

// gpuOf returns the report's GPU of a device, nil if there is none.
func gpuOf(n *topology.Node, d *device) *topology.GPU {
	if n == nil {
		return nil
	}
	uuid, _, _ := d.labels()
	at := slices.IndexFunc(n.GPUs, func(g topology.GPU) bool { return g.UUID == uuid })
	if at < 0 {
		return nil
	}
	return &n.GPUs[at]
}

// productOf returns the product's name as DCGM Exporter's label modelName has it.
func productOf(n *topology.Node, d *device) string {
	if g := gpuOf(n, d); g != nil && g.Product != "" {
		return g.Product
	}
	product, _, _ := strings.Cut(d.entry.Product, " MIG ")
	return product
}

// cliqueOf returns a device's NVLink clique in the form of the label
// nvidia.com/gpu.clique: the clique of the GPU, else the confirmed one of the node.
func cliqueOf(n *topology.Node, d *device) string {
	g := gpuOf(n, d)
	if n == nil || g == nil {
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
