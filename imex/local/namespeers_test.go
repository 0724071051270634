package local

import (
	"testing"

	"github.com/quoin-hpc/quoin/testdata/rig/put"
)

// TestNamesPeers reads the configuration of the machine's own service.
func TestNamesPeers(t *testing.T) {
	const config, nodes, elsewhere = "/etc/nvidia-imex/config.cfg", "/etc/nvidia-imex/nodes_config.cfg", "/run/peers"
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  bool
	}{
		{"no service", map[string]string{nodes: "10.0.0.1\n10.0.0.2\n"}, false},
		{"no nodes", map[string]string{config: ""}, false},
		{"comments", map[string]string{config: "", nodes: "# 10.0.0.1\n\n# 10.0.0.2\n"}, false},
		{"itself", map[string]string{config: "", nodes: "10.0.0.1\n"}, false},
		{"two", map[string]string{config: "", nodes: "10.0.0.1 # n1\n10.0.0.2\n"}, true},
		{"two elsewhere", map[string]string{config: "IMEX_NODE_CONFIG_FILE=" + elsewhere + "\n", elsewhere: "10.0.0.1\n10.0.0.2"}, true},
	} {
		root := t.TempDir()
		for path, text := range tt.files {
			put.File(t, root+path, text, 0o600)
		}
		if got := NamesPeers(root); got != tt.want {
			t.Errorf("%s: %t, want %t", tt.name, got, tt.want)
		}
	}
}
