//go:build !cgo

package hostengine

import (
	"errors"

	"github.com/quoin-hpc/quoin/dcgm"
)

// Read returns an error that says that this program cannot load DCGM.
func Read(string) ([]dcgm.Identity, error) {
	return nil, errors.New("load DCGM: this quoin was built without cgo; build it with a C compiler and CGO_ENABLED=1")
}
