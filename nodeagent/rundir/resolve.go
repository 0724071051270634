package rundir

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Resolve returns the exporter's ids of a job's GPUs, and the UUIDs that are known. UUIDs in
// visible (CUDA_VISIBLE_DEVICES) are exact and preferred. devices are those of the job's places
// in slurmd's list, by their files. Without an inventory the number of a GPU's device file is
// taken as the exporter's id. The error names what could not be resolved.
func Resolve(inv *Inventory, devices []string, visible string) (gpus, uuids []string, err error) {
	tokens := splitTokens(visible)
	if !HasUUIDs(visible) {
		return resolveDevices(inv, devices)
	}
	if inv == nil {
		mig := slices.ContainsFunc(tokens, func(t string) bool { return strings.HasPrefix(t, "MIG-") })
		if gpus, uuids, err := resolveDevices(nil, devices); len(gpus) > 0 && !mig {
			return gpus, uuids, err
		}
		return nil, tokens, fmt.Errorf("no inventory: %s cannot be resolved", strings.Join(tokens, ","))
	}
	for _, t := range tokens {
		e := inv.byUUID(t)
		if e == nil { // the device may be of another job
			err = errors.Join(err, fmt.Errorf("the inventory has no %s", t))
			continue
		}
		if e.ExporterID == "" {
			err = errors.Join(err, fmt.Errorf("%s is lost: the exporter has no id for it", t))
			continue
		}
		gpus, uuids = append(gpus, e.ExporterID), append(uuids, e.UUID)
	}
	return gpus, uuids, err
}

// HasUUIDs reports whether CUDA_VISIBLE_DEVICES names devices by UUIDs.
func HasUUIDs(visible string) bool {
	tokens := splitTokens(visible)
	return len(tokens) > 0 && isUUID(tokens[0])
}

func isUUID(token string) bool {
	return strings.HasPrefix(token, "GPU-") || strings.HasPrefix(token, "MIG-")
}

func splitTokens(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
}

func (inv *Inventory) byUUID(uuid string) *Entry {
	for i := range inv.Entries {
		if inv.Entries[i].UUID == uuid {
			return &inv.Entries[i]
		}
	}
	return nil
}

func resolveDevices(inv *Inventory, devices []string) (gpus, uuids []string, err error) {
	for _, device := range devices {
		minor, numbered := minorOf(device)
		if inv == nil && numbered {
			gpus = append(gpus, strconv.Itoa(minor))
			continue
		}
		var e *Entry
		if inv != nil {
			e = inv.byDevice(device)
		}
		switch {
		case e == nil:
			err = errors.Join(err, fmt.Errorf("the inventory has no %s", device))
		case e.ExporterID == "":
			err = errors.Join(err, fmt.Errorf("%s, %s, is lost: the exporter has no id for it", device, cmp.Or(e.UUID, "whose UUID was never read")))
		default:
			gpus, uuids = append(gpus, e.ExporterID), append(uuids, e.UUID)
		}
	}
	return gpus, uuids, err
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
// instance may be in any order. An entry of a whole GPU is none of its instances.
func (inv *Inventory) byDevice(device string) *Entry {
	wanted := strings.Split(device, ",")
	slices.Sort(wanted[1:])
	for i := range inv.Entries {
		e := &inv.Entries[i]
		if e.GPUInstanceID != nil && len(e.Capabilities) == 0 || len(wanted) != 1+len(e.Capabilities) || wanted[0] != DeviceFile(e.Minor) {
			continue
		}
		has := slices.Clone(e.Capabilities)
		if slices.Sort(has); slices.Equal(has, wanted[1:]) {
			return e
		}
	}
	return nil
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
