package rundir

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/quoin-hpc/quoin/dcgm/atomicfile"
)

// BootID reads the id of the boot from the proc file system below root, such as "/".
func BootID(root string) (string, error) {
	boot, err := atomicfile.Read(filepath.Join(root, "proc/sys/kernel/random/boot_id"))
	if err != nil {
		return "", fmt.Errorf("read boot id: %w", err)
	}
	return strings.TrimSpace(string(boot)), nil
}

// SameBoot says whether two boots can be one. An empty one is not known and is equal to
// any other.
func SameBoot(a, b string) bool { return a == b || a == "" || b == "" }
