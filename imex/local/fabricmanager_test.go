package local

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/test/rig/put"
)

func TestFabricMode(t *testing.T) {
	const driver = "run/nvidia/driver/usr/share/nvidia/nvswitch/fabricmanager.cfg"
	for _, tt := range []struct {
		name, file, text string
		want             *int
	}{
		{"no file", "other", "FABRIC_MODE=1\n", nil},
		{"the whole machine", managerConfigs[0], "# Fabric Manager\nLOG_LEVEL=4\nFABRIC_MODE=0\nFABRIC_MODE_RESTART=1\n", new(0)},
		{"partitions", managerConfigs[0], "#FABRIC_MODE=0\nFABRIC_MODE = 1 # shared\n", new(1)},
		{"GPU Operator's driver", driver, "FABRIC_MODE=2\n", new(2)},
		{"no such key", managerConfigs[0], "FABRIC_MODE_RESTART=1\n", nil},
		{"no number", managerConfigs[0], "FABRIC_MODE=shared\n", nil},
		{"below zero", managerConfigs[0], "FABRIC_MODE=-1\n", nil},
	} {
		root := t.TempDir()
		put.File(t, filepath.Join(root, tt.file), tt.text, 0o600)
		if diff := cmp.Diff(tt.want, FabricMode(root)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}
