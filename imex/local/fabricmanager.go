package local

import (
	"path/filepath"
	"strconv"

	"github.com/quoin-hpc/quoin/dcgm/atomicfile"
)

// managerConfigs are where Fabric Manager has its configuration: on the machine, or in the folder of the
// container from which GPU Operator runs the driver.
var managerConfigs = []string{"usr/share/nvidia/nvswitch/fabricmanager.cfg", "run/nvidia/driver/usr/share/nvidia/nvswitch/fabricmanager.cfg"}

// FabricMode returns FABRIC_MODE of the machine's Fabric Manager, below root. It is nil if no file says it.
func FabricMode(root string) *int {
	for _, file := range managerConfigs {
		text, err := atomicfile.Read(filepath.Join(root, file))
		if err != nil {
			continue
		}
		if mode, err := strconv.Atoi(valuesOf(text)["FABRIC_MODE"]); err == nil && mode >= 0 {
			return &mode
		}
	}
	return nil
}
