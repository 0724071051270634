package dcgm

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/quoin-hpc/quoin/dcgm/atomicfile"
)

const (
	ownFolder = ".quoin"
	bootFile  = "boot"
	// spareFile keeps room for one file of a GPU on a disk that is full.
	spareFile = "spare"
)

// Folder is Quoin's own folder in the mapping directory. It has files that are not yet in place and what is to
// outlive a boot. It is on the exporter's mount, and the exporter ignores its name. It is empty for a site
// without a mapping directory.
type Folder string

// Make makes the folder if it is missing. A link in its place is refused, because files would be written where
// the link leads.
func (f Folder) Make() error {
	info, err := os.Lstat(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		err = os.MkdirAll(string(f), 0o755)
	} else if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is no folder: remove it", f)
	}
	if err != nil {
		return fmt.Errorf("make mapping directory: %w", err)
	}
	return nil
}

// Tidy removes what killed writers have left.
func (f Folder) Tidy() {
	if info, err := os.Lstat(string(f)); err == nil && info.IsDir() {
		atomicfile.Tidy(string(f))
	}
}

func (f Folder) boot() string  { return filepath.Join(string(f), bootFile) }
func (f Folder) spare() string { return filepath.Join(string(f), spareFile) }
