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
