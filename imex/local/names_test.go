package local

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/testdata/rig/put"
)

// TestNamesPeers reads the configuration of the machine's own service.
func TestNamesPeers(t *testing.T) {
	const config, nodes, elsewhere = "/etc/nvidia-imex/config.cfg", "/etc/nvidia-imex/nodes_config.cfg", "/run/peers"
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  *bool
	}{
		{"no service", map[string]string{nodes: "10.0.0.1\n10.0.0.2\n"}, nil},
		{"no nodes", map[string]string{config: ""}, nil},
		{"comments", map[string]string{config: "", nodes: "# 10.0.0.1\n\n# 10.0.0.2\n"}, new(false)},
		{"itself", map[string]string{config: "", nodes: "10.0.0.1\n"}, new(false)},
		{"two", map[string]string{config: "", nodes: "10.0.0.1 # n1\n10.0.0.2\n"}, new(true)},
		{"two elsewhere", map[string]string{config: "IMEX_NODE_CONFIG_FILE=" + elsewhere + "\n", elsewhere: "10.0.0.1\n10.0.0.2"}, new(true)},
	} {
		root := t.TempDir()
		for path, text := range tt.files {
			put.File(t, root+path, text, 0o600)
		}
		if diff := cmp.Diff(tt.want, NamesPeers(root)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}
