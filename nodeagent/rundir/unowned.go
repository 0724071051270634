package rundir

import (
	"slices"

	"github.com/quoin-hpc/quoin/dcgm/document"
)

// Unowned is how much memory programs have on a device that no job and no Pod holds.
type Unowned struct {
	// UUID is the device's.
	UUID string `json:"uuid"`
	GiB  uint64 `json:"gib"`
}

type unowned struct {
	document.Head
	Devices []Unowned `json:"devices" max:"1024"`
}

func (d Dir) unowned() document.Store[unowned] {
	return document.Store[unowned]{Dir: string(d), Kind: "UnownedMemory", Mode: document.Public}
}

// WriteUnowned tells Prologs of memory that is in use before their jobs.
func (d Dir) WriteUnowned(devices []Unowned) error {
	if len(devices) == 0 {
		return d.unowned().Remove(unownedKey)
	}
	return d.unowned().Put(unownedKey, unowned{Devices: devices})
}

// UnownedOn reads what is known of these devices.
func (d Dir) UnownedOn(uuids []string) ([]Unowned, error) {
	known, _, err := d.unowned().Find(unownedKey)
	if known == nil {
		return nil, err
	}
	return slices.DeleteFunc(known.Devices, func(u Unowned) bool { return !slices.Contains(uuids, u.UUID) }), nil
}
