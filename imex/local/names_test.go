package local

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/test/rig/put"
)

// TestCountNodes reads the configuration of the machine's own service.
func TestCountNodes(t *testing.T) {
	const config, nodes, elsewhere = "/etc/nvidia-imex/config.cfg", "/etc/nvidia-imex/nodes_config.cfg", "/run/peers"
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  *int
	}{
		{"no service", map[string]string{nodes: "10.0.0.1\n10.0.0.2\n"}, nil},
		{"no nodes", map[string]string{config: ""}, nil},
		{"comments", map[string]string{config: "", nodes: "# 10.0.0.1\n\n# 10.0.0.2\n"}, new(0)},
		{"itself", map[string]string{config: "", nodes: "10.0.0.1\n"}, new(1)},
		{"two", map[string]string{config: "", nodes: "10.0.0.1 # n1\n10.0.0.2\n"}, new(2)},
		{"two elsewhere", map[string]string{config: "IMEX_NODE_CONFIG_FILE=" + elsewhere + "\n", elsewhere: "10.0.0.1\n10.0.0.2"}, new(2)},
	} {
		root := t.TempDir()
		for path, text := range tt.files {
			put.File(t, root+path, text, 0o600)
		}
		if diff := cmp.Diff(tt.want, CountNodes(root)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}
