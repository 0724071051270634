package rundir

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// SetDevices notes the devices that the job holds.
func (r *Record) SetDevices(held []Entry) {
	r.GPUs, r.UUIDs = []string{}, nil
	for i := range held {
		if id := held[i].ExporterID; id != "" && !slices.Contains(r.GPUs, id) {
			r.GPUs = append(r.GPUs, id)
		}
		if uuid := held[i].UUID; uuid != "" {
			r.UUIDs = append(r.UUIDs, uuid)
		}
	}
}

// Resolve returns the record as an inventory has its devices now, and the devices. If the record is
// unresolved and the inventory has what Slurm said, that counts, else the devices of the record. A
// device that the inventory lacks keeps its exporter's id, unless another device has this id now.
// Without an inventory (nil) the record stays as it is.
func (r *Record) Resolve(inv *Inventory) (now Record, held []Entry) {
	now = *r
	if inv != nil && r.Unresolved {
		said, err := inv.Resolve(r.Devices, r.Visible) // the hook has logged what is wrong
		if len(said) > 0 {
			now.SetDevices(said)
			now.Unresolved = err != nil
			return now, said
		}
	}
	for i, uuid := range r.UUIDs {
		e := inv.find(func(e *Entry) bool { return e.UUID == uuid })
		if e == nil {
			e = &Entry{UUID: uuid}
			if len(r.GPUs) == len(r.UUIDs) && inv.find(func(e *Entry) bool { return e.ExporterID == r.GPUs[i] && e.UUID != "" }) == nil {
				e.ExporterID = r.GPUs[i]
			}
		}
		held = append(held, *e)
	}
	if len(r.UUIDs) == 0 {
		for _, id := range r.GPUs {
			e := inv.find(func(e *Entry) bool { return e.ExporterID == id })
			held = append(held, *cmp.Or(e, &Entry{ExporterID: id}))
		}
	}
	if inv != nil {
		now.SetDevices(held)
	}
	return now, held
}

// Resolve returns the devices that Slurm named. UUIDs in visible (CUDA_VISIBLE_DEVICES) are exact and
// preferred. devices are those of the job's places in slurmd's list, by their files. Without an
// inventory (nil) the number of a GPU's device file is taken as the exporter's id, and of UUIDs alone
// no id is known. The error names what could not be resolved.
func (inv *Inventory) Resolve(devices []string, visible string) (held []Entry, err error) {
	names, find := devices, inv.byDevice
	if uuids := UUIDsIn(visible); len(uuids) > 0 {
		names = uuids
		if inv == nil {
			return withoutInventory(devices, names)
		}
		find = func(uuid string) *Entry { return inv.find(func(e *Entry) bool { return e.UUID == uuid }) }
	}
	for _, name := range names {
		switch e := find(name); {
		case e == nil: // the device may be of another job
			err = errors.Join(err, fmt.Errorf("the inventory has no %s", name))
		case e.ExporterID == "":
			err = errors.Join(err, fmt.Errorf("%s is lost: the exporter has no id for it", name))
		default:
			held = append(held, *e)
		}
	}
	return held, err
}

// withoutInventory returns what is known of a job whose GPUs Slurm named by UUIDs. Whole GPUs may have
// device files too.
func withoutInventory(devices, uuids []string) (held []Entry, err error) {
	if !slices.ContainsFunc(uuids, func(uuid string) bool { return strings.HasPrefix(uuid, "MIG-") }) {
		var none *Inventory
		if held, err = none.Resolve(devices, ""); len(held) > 0 {
			return held, err
		}
	}
	for _, uuid := range uuids {
		held = append(held, Entry{UUID: uuid})
	}
	return held, fmt.Errorf("no inventory: %s cannot be resolved", strings.Join(uuids, ","))
}

// UUIDsIn returns what CUDA_VISIBLE_DEVICES names, if it names devices by UUIDs, else nothing. It keeps a number
// after a UUID, because Resolve then says that the inventory has no such device.
func UUIDsIn(visible string) []string {
	tokens := splitTokens(visible)
	if len(tokens) == 0 || !strings.HasPrefix(tokens[0], "GPU-") && !strings.HasPrefix(tokens[0], "MIG-") {
		return nil
	}
	return tokens
}

func splitTokens(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
}

// find returns the first entry that is so, nil without one or without an inventory.
func (inv *Inventory) find(isSo func(*Entry) bool) *Entry {
	if inv == nil {
		return nil
	}
	at := slices.IndexFunc(inv.Entries, func(e Entry) bool { return isSo(&e) })
	if at < 0 {
		return nil
	}
	return &inv.Entries[at]
}

// Files returns the device files of an entry, with commas between them.
func (e *Entry) Files() string {
	return strings.Join(append([]string{DeviceFile(e.Minor)}, e.Capabilities...), ",")
}

// DeviceFile is the device file of a GPU.
func DeviceFile(minor int) string { return deviceFile + strconv.Itoa(minor) }

const deviceFile = "/dev/nvidia"

// minorOf returns the number of a GPU's device file. It is not ok for the files of a MIG
// instance, and for a file of another name.
func minorOf(device string) (minor int, ok bool) {
	text, is := strings.CutPrefix(device, deviceFile)
	n, err := strconv.ParseUint(text, 10, 16)
	return int(n), is && err == nil
}

// byDevice returns the entry that has these files, nil without one. The capabilities of a MIG
// instance may be in any order. An entry of a whole GPU is none of its instances. Without an
// inventory the entry of a whole GPU has the number of its file as the exporter's id.
func (inv *Inventory) byDevice(device string) *Entry {
	if minor, whole := minorOf(device); inv == nil && whole {
		return &Entry{ExporterID: strconv.Itoa(minor)}
	}
	wanted := strings.Split(device, ",")
	slices.Sort(wanted[1:])
	return inv.find(func(e *Entry) bool {
		if e.GPUInstanceID != nil && len(e.Capabilities) == 0 || len(wanted) != 1+len(e.Capabilities) || wanted[0] != DeviceFile(e.Minor) {
			return false
		}
		return slices.Equal(slices.Sorted(slices.Values(e.Capabilities)), wanted[1:])
	})
}

// ParseIndices reads SLURM_JOB_GPUS, such as "0,2,4-7".
func ParseIndices(list string) ([]int, error) {
	var out []int
	for _, t := range splitTokens(list) {
		from, to, ranged := strings.Cut(t, "-")
		if !ranged {
			to = from
		}
		a, err1 := strconv.ParseUint(from, 10, 16)
		b, err2 := strconv.ParseUint(to, 10, 16)
		if err1 != nil || err2 != nil || b < a || len(out)+int(b-a) >= MaxDevices {
			return nil, fmt.Errorf("GPU indices %q: %q: want numbers such as 0,2 or 0-3", list, t)
		}
		for i := a; i <= b; i++ {
			out = append(out, int(i))
		}
	}
	return out, nil
}
