package rundir

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxGPUs bounds what a list of indices can ask for.
const maxGPUs = 4096

// Resolve returns the exporter's ids of a job's GPUs, and the UUIDs that are known. UUIDs in
// visible (CUDA_VISIBLE_DEVICES) are exact and preferred. Indices (SLURM_JOB_GPUS) count in the
// order of GRES, if the inventory is in that order. Without an inventory an index is taken as
// the exporter's id. The error names what could not be resolved.
func Resolve(inv *Inventory, indices, visible string) (gpus, uuids []string, err error) {
	tokens := splitTokens(visible)
	if len(tokens) == 0 || !isUUID(tokens[0]) {
		return resolveIndices(inv, indices)
	}
	if inv == nil {
		mig := slices.ContainsFunc(tokens, func(t string) bool { return strings.HasPrefix(t, "MIG-") })
		if gpus, uuids, err := resolveIndices(nil, indices); len(gpus) > 0 && !mig {
			return gpus, uuids, err
		}
		return nil, tokens, fmt.Errorf("no inventory: %s cannot be resolved", strings.Join(tokens, ","))
	}
	for _, t := range tokens {
		e := inv.byUUID(t)
		if e == nil { // the index may name a GPU of another job
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

func resolveIndices(inv *Inventory, list string) (gpus, uuids []string, err error) {
	indices, err := parseIndices(list)
	if err != nil {
		return nil, nil, err
	}
	for _, i := range indices {
		switch {
		case inv == nil:
			gpus = append(gpus, strconv.Itoa(i))
		case inv.Unordered:
			err = errors.Join(err, fmt.Errorf("GRES index %d: NVML cannot read a GPU of this node, and nothing tells its place, so that the index may name any other", i))
		case i >= len(inv.Entries):
			err = errors.Join(err, fmt.Errorf("GRES index %d: the inventory has %d", i, len(inv.Entries)))
		case inv.Entries[i].ExporterID == "":
			err = errors.Join(err, fmt.Errorf("GRES index %d, %s, is lost: the exporter has no id for it", i, cmp.Or(inv.Entries[i].UUID, inv.Entries[i].Device)))
		default:
			gpus, uuids = append(gpus, inv.Entries[i].ExporterID), append(uuids, inv.Entries[i].UUID)
		}
	}
	return gpus, uuids, err
}

// parseIndices reads "0,2,4-7".
func parseIndices(list string) ([]int, error) {
	var out []int
	for _, t := range splitTokens(list) {
		from, to, ranged := strings.Cut(t, "-")
		if !ranged {
			to = from
		}
		a, err1 := strconv.ParseUint(from, 10, 16)
		b, err2 := strconv.ParseUint(to, 10, 16)
		if err1 != nil || err2 != nil || b < a || len(out)+int(b-a) >= maxGPUs {
			return nil, fmt.Errorf("GPU indices %q: %q: want numbers such as 0,2 or 0-3", list, t)
		}
		for i := a; i <= b; i++ {
			out = append(out, int(i))
		}
	}
	return out, nil
}
