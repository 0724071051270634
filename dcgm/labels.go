package dcgm

import (
	"maps"
	"slices"
)

// Labels say which jobs hold which devices, in the form of whoever reads them. Hook and agent know no more of
// them. Devices are named by the exporter's ids. Whoever changes labels holds the run directory's lock.
type Labels interface {
	// Set gives devices the job's label. A missing directory is made.
	Set(job string, ids []string) error
	// Clear takes the job's label, and no other, from devices.
	Clear(job string, ids []string) error
	// Held returns all labels. If some cannot be read, Held returns the others and an error.
	Held() (Held, error)
	// Sweep clears all labels once after a boot, because no job outlives a boot. It returns the ids of the
	// devices that had labels. An empty boot is not known, and then nothing is touched. Sweep makes a missing
	// directory only if mayMake is true.
	Sweep(boot string, mayMake bool) (released []string, err error)
}

// Held are the labels of a node.
type Held struct {
	// Boot is the boot of the labels, empty if it is not known.
	Boot string
	// Files are by the exporter's id of a device. They are nil if nobody reads labels, or if the directory is
	// missing or cannot be read.
	Files map[string]File
}

// File is what one device's file says.
type File struct {
	// Jobs are the ids that its lines name.
	Jobs []string
	// Odd says that the entry is no file, or that a line of the file is no job's id. The
	// exporter may fail on such an entry.
	Odd bool
}

// Of returns the ids of the devices that have the job's label.
func (h Held) Of(job string) (ids []string) {
	for _, id := range slices.Sorted(maps.Keys(h.Files)) {
		if slices.Contains(h.Files[id].Jobs, job) {
			ids = append(ids, id)
		}
	}
	return ids
}

// DefaultMappingDir is where the hook and the exporter look by default.
const DefaultMappingDir = "/var/lib/dcgm-exporter/job-mapping"

// NoMapping stands for the directory of a site whose exporter reads none.
const NoMapping = "none"

// Open returns the labels in a mapping directory, and Quoin's own folder there. Nothing is read or made yet.
func Open(dir string) (Labels, Folder) {
	if dir == NoMapping {
		return None{}, ""
	}
	m := Mapping{Dir: dir}
	return m, m.Folder()
}

// None are the labels of a site whose exporter reads none. They do nothing.
type None struct{}

func (None) Set(string, []string) error           { return nil }
func (None) Clear(string, []string) error         { return nil }
func (None) Held() (Held, error)                  { return Held{}, nil }
func (None) Sweep(string, bool) ([]string, error) { return nil, nil }
