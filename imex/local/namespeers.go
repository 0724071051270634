package local

import (
	"os"
	"path/filepath"
	"strings"
)

// NamesPeers reports whether the configuration of the machine's own IMEX service names several nodes. A file that
// cannot be read names none.
func NamesPeers(root string) bool {
	text, err := os.ReadFile(filepath.Join(root, hostConfig))
	if err != nil {
		return false
	}
	config := parseConfig(text)
	nodes, err := os.ReadFile(filepath.Join(root, config.nodes))
	if err != nil {
		return false
	}
	names := 0
	for line := range strings.Lines(string(nodes)) {
		if line, _, _ = strings.Cut(line, "#"); strings.TrimSpace(line) != "" {
			names++
		}
	}
	return names > 1
}
