//go:build cgo

package nvml

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/quoin-hpc/quoin/topology"
)

// counterFields are the fields of NVML that are a counter, the best first: the first
// that the GPU and its driver know is read. Blackwell has the counters of NVLink 5 and
// none of those before. The volatile counts of ECC are of the time since the driver was
// loaded, as all others are.
var counterFields = map[string][]uint32{
	"nvlink_replays":        {nvml.FI_DEV_NVLINK_ERROR_DL_REPLAY},
	"nvlink_recoveries":     {nvml.FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS, nvml.FI_DEV_NVLINK_ERROR_DL_RECOVERY},
	"nvlink_crc_errors":     {nvml.FI_DEV_NVLINK_ERROR_DL_CRC},
	"nvlink_receive_errors": {nvml.FI_DEV_NVLINK_COUNT_RCV_ERRORS},
	"ecc_corrected":         {nvml.FI_DEV_ECC_SBE_VOL_TOTAL},
	"ecc_uncorrected":       {nvml.FI_DEV_ECC_DBE_VOL_TOTAL},
	"pcie_replays":          {nvml.FI_DEV_PCIE_REPLAY_COUNTER},
	"power_cap":             {nvml.FI_DEV_PERF_POLICY_POWER},
	"thermal":               {nvml.FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN, nvml.FI_DEV_PERF_POLICY_THERMAL},
	"thermal_hardware":      {nvml.FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN},
	"power_brake":           {nvml.FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN},
	"sync_boost":            {nvml.FI_DEV_PERF_POLICY_SYNC_BOOST},
	topology.RowsPending:    {nvml.FI_DEV_REMAPPED_PENDING},
}

// counting is how the counters of one GPU are read.
type counting struct {
	// fields has the field that each counter is read from, or 0 if the GPU knows none.
	// A counter that is missing here was not tried yet, or its last reading failed.
	fields map[string]uint32
	// values are asked in one call.
	values []nvml.FieldValue
}

// noFieldsCall says why a driver has no counters.
const noFieldsCall = "the driver lacks " + fieldValues

// counts reads the counters of a device.
func (s *sampler) counts(uuid string, p place) *topology.Counts {
	out := &topology.Counts{Absent: map[string]string{}}
	if p.parent != nil {
		out.Absent[topology.AllCounters] = topology.OfWholeGPU
		return out
	}
	s.xids.count(uuid, out)
	if !s.has[fieldValues] {
		out.Absent[topology.AllCounters] = noFieldsCall
		return out
	}
	c := s.counting[uuid]
	if c == nil {
		c = &counting{fields: map[string]uint32{}}
		s.counting[uuid] = c
	}
	c.ask(p.links)
	if ret := p.device.GetFieldValues(c.values); ret != nvml.SUCCESS {
		out.Absent[topology.AllCounters] = code(ret)
		return out
	}
	for i := range topology.Counters {
		if k := &topology.Counters[i]; k.ByLink && len(p.links) == 0 {
			out.Absent[k.Name] = topology.NoLink
		} else {
			c.take(k, out)
		}
	}
	c.takeRows(out)
	return out
}

// ask prepares the fields of all counters, and for the counters of NVLinks those of each
// link. Of a counter that was read before only its field is asked.
func (c *counting) ask(links []int) {
	c.values = c.values[:0]
	for i := range topology.Counters {
		k := &topology.Counters[i]
		for _, field := range c.candidates(k.Name) {
			if !k.ByLink {
				c.values = append(c.values, nvml.FieldValue{FieldId: field})
				continue
			}
			for _, link := range links {
				c.values = append(c.values, nvml.FieldValue{FieldId: field, ScopeId: uint32(link)}) //nolint:gosec // at most NVLINK_MAX_LINKS
			}
		}
	}
	for _, field := range c.candidates(topology.RowsPending) {
		c.values = append(c.values, nvml.FieldValue{FieldId: field})
	}
}

// candidates are the fields to ask for a counter.
func (c *counting) candidates(name string) []uint32 {
	switch field, known := c.fields[name]; {
	case !known:
		return counterFields[name]
	case field == 0:
		return nil
	default:
		return []uint32{field}
	}
}

// take takes a counter from the answers. If one of several links cannot be read, the others are
// taken, and Absent says that they are not all.
func (c *counting) take(k *topology.Counter, out *topology.Counts) {
	why := topology.NoCounter
	for _, field := range c.candidates(k.Name) {
		read, missing := false, ""
		for i := range c.values {
			v := &c.values[i]
			if v.FieldId != field {
				continue
			}
			value, err := valueOf(v)
			if k.ByLink && err == nil && value > math.MaxInt64 {
				err = errAbsurd
			}
			switch {
			case err != nil:
				missing = cmp.Or(missing, fmt.Sprintf("NVLink %d: %v", v.ScopeId, err))
				if err != errUnsupported { //nolint:errorlint // never wrapped
					why = err.Error()
				}
				continue
			case k.ByLink:
				setLink(out, k.Name, int(v.ScopeId), int64(value)) //nolint:gosec // checked above
			default:
				if out.Whole == nil {
					out.Whole = map[string]uint64{}
				}
				out.Whole[k.Name] = value
			}
			read = true
		}
		if read {
			c.fields[k.Name] = field
			if missing != "" {
				out.Absent[k.Name] = missing
			}
			return
		}
	}
	c.lacks(k.Name, why, out)
}

// errAbsurd: no counter of a link gets so far.
var errAbsurd = errors.New("the value is absurd")

// setLink sets the counter of a link. Links in between have not been read so far.
func setLink(out *topology.Counts, name string, link int, value int64) {
	if out.Links == nil {
		out.Links = map[string]topology.LinkCounts{}
	}
	for len(out.Links[name]) <= link {
		out.Links[name] = append(out.Links[name], topology.NotRead)
	}
	out.Links[name][link] = value
}

// takeRows takes from the answers whether memory rows wait to be remapped.
func (c *counting) takeRows(out *topology.Counts) {
	why := topology.NoCounter
	for _, field := range c.candidates(topology.RowsPending) {
		i := slices.IndexFunc(c.values, func(v nvml.FieldValue) bool { return v.FieldId == field })
		value, err := valueOf(&c.values[i])
		if err == nil {
			pending := value != 0
			out.RowsPending = &pending
			return
		} else if err != errUnsupported { //nolint:errorlint // never wrapped
			why = err.Error()
		}
	}
	c.lacks(topology.RowsPending, why, out)
}

// lacks notes why a counter was not read. One that the GPU does not have is not asked
// again.
func (c *counting) lacks(name, why string, out *topology.Counts) {
	out.Absent[name] = why
	if why == topology.NoCounter {
		c.fields[name] = 0
	}
}
