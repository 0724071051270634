package rundir

import (
	"strings"

	"github.com/quoin-hpc/quoin/dcgm/atomicfile"
)

// bootIDFile is a variable for tests.
var bootIDFile = "/proc/sys/kernel/random/boot_id"

// BootID is the node's boot; empty if it cannot be read.
func BootID() string {
	boot, _ := atomicfile.Read(bootIDFile)
	return strings.TrimSpace(string(boot))
}
