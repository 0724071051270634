package rundir

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/fabric"
)

// Counting are the counters of a GPU in the first and the last sample while a job had it.
type Counting struct {
	First *topology.Counts `json:"first"`
	Last  *topology.Counts `json:"last"`
	// At is the time of the last, Seconds the time between the two, and Energy the device's
	// energy in the last.
	At      time.Time `json:"at"`
	Seconds float64   `json:"seconds,omitempty"`
	Energy  *float64  `json:"energy,omitempty"`
	// Missed says that the newest sample has nothing of the device.
	Missed bool `json:"missed,omitempty"`
	// Xids are those that came between the two, by number, and XidGap says that nobody
	// watched for a part of the time.
	Xids   map[int]uint64 `json:"xids,omitempty"`
	XidGap bool           `json:"xidGap,omitempty"`
	// Broken says why the difference between the two is no count: see Hardware.Unknown.
	Broken string `json:"broken,omitempty"`
}

// add takes the counters of a sample, if it has them.
func (c *Counting) add(s *topology.DeviceUse, at time.Time) *Counting {
	now := s.Counts
	switch {
	case now == nil && (c == nil || !c.Missed):
		return c
	case now == nil: // it answers again
		out := *c
		out.Missed = false
		return &out
	case c == nil:
		return &Counting{First: now, Last: now, At: at, Energy: s.Energy}
	}
	out := *c
	back := now.WentBack(c.Last)
	if back == "" && s.Energy != nil && c.Energy != nil && *s.Energy < *c.Energy {
		back = "energy"
	}
	if back != "" && out.Broken == "" {
		out.Broken = fmt.Sprintf("the counter %s went back: the GPU was reset, or its driver was loaded again", back)
	}
	out.addXids(now)
	out.Last, out.Energy, out.Missed = now.Keep(c.Last), s.Energy, false
	out.Seconds += max(0, at.Sub(c.At).Seconds())
	out.At = at
	return &out
}

// addXids adds the Xids that came since the last sample.
func (c *Counting) addXids(now *topology.Counts) {
	came, gap := now.NewXids(c.Last)
	c.XidGap = c.XidGap || gap
	for code, n := range came {
		if c.Xids = maps.Clone(c.Xids); c.Xids == nil {
			c.Xids = map[int]uint64{}
		}
		if _, known := c.Xids[code]; known || len(c.Xids) < maxXids {
			c.Xids[code] += n
		}
	}
}

// maxXids bounds the different Xids of a GPU in a summary.
const maxXids = 32

// miss says that a sample has nothing of the device.
func (c *Counting) miss() *Counting {
	if c == nil || c.Missed {
		return c
	}
	out := *c
	out.Missed = true
	return &out
}

// leave says that the job had the device not all the time.
func (c *Counting) leave() *Counting {
	if c == nil || c.Broken != "" {
		return c
	}
	out := *c
	out.Broken = "the job did not have the GPU all the time"
	return &out
}

// Hardware is what the counters of a GPU have counted while a job had it. A counter that
// is not known is in Unknown and nowhere else.
type Hardware struct {
	// Seconds is the time over which was counted.
	Seconds float64 `json:"seconds"`
	// Counts are the counters by name, those of NVLinks for all links together. Times are
	// in seconds. topology.Counters names them all.
	Counts map[string]float64 `json:"counts,omitempty"`
	// Links has the counters of NVLinks by name and by link, without the links of zero.
	Links map[string]map[int]float64 `json:"links,omitempty"`
	// RowsPending says whether memory rows waited to be remapped in the end.
	RowsPending *bool `json:"rowsPending,omitempty"`
	// Xids are those that came, by number.
	Xids []XidCount `json:"xids,omitempty"`
	// Unknown says why a counter is not known, by its name; the name * stands for all. If Xids
	// are both here and in Xids, there may have been more of them.
	Unknown map[string]string `json:"unknown,omitempty"`
}

// XidCount is how often an Xid came, and what it asks of people.
type XidCount struct {
	Code  int             `json:"code"`
	Class fabric.XidClass `json:"class"`
	Count uint64          `json:"count"`
}

// Hardware returns what was counted, nil if no sample had counters.
func (c *Counting) Hardware() *Hardware {
	if c == nil {
		return nil
	}
	out := &Hardware{Seconds: c.Seconds, Counts: map[string]float64{}, RowsPending: c.Last.RowsPending, Unknown: map[string]string{}}
	for i := range topology.Counters {
		k := &topology.Counters[i]
		sum, links, why := c.count(k)
		if why != "" {
			out.Unknown[k.Name] = why
			continue
		}
		if out.Counts[k.Name] = sum; len(links) > 0 {
			if out.Links == nil {
				out.Links = map[string]map[int]float64{}
			}
			out.Links[k.Name] = links
		}
	}
	if why := c.why(topology.RowsPending); why != "" {
		out.RowsPending, out.Unknown[topology.RowsPending] = nil, why
	}
	for _, code := range slices.Sorted(maps.Keys(c.Xids)) {
		out.Xids = append(out.Xids, XidCount{code, fabric.XidOf(code).Class, c.Xids[code]})
	}
	switch why := c.why(topology.XidsName); {
	case why != "":
		out.Unknown[topology.XidsName] = why
	case c.XidGap:
		out.Unknown[topology.XidsName] = "Quoin's probe of NVML did not watch all the time"
	}
	if reasons := slices.Compact(slices.Sorted(maps.Values(out.Unknown))); len(reasons) == 1 && len(out.Counts)+len(out.Xids) == 0 && out.RowsPending == nil {
		out.Unknown = map[string]string{topology.AllCounters: reasons[0]}
	}
	return out
}

// sameErrors reports whether two sums have the same errors and Xids, and lack the same.
// Times go on while nothing happens.
func (h *Hardware) sameErrors(other *Hardware) bool {
	for i := range topology.Counters {
		k := &topology.Counters[i]
		if h.Unknown[k.Name] != other.Unknown[k.Name] || !k.Time && h.Counts[k.Name] != other.Counts[k.Name] {
			return false
		}
	}
	return slices.Equal(h.Xids, other.Xids) && (h.RowsPending == nil) == (other.RowsPending == nil) &&
		(h.RowsPending == nil || *h.RowsPending == *other.RowsPending)
}

// count returns what a counter has counted, or why that is not known.
func (c *Counting) count(k *topology.Counter) (sum float64, links map[int]float64, why string) {
	if why := c.why(k.Name); why != "" {
		return 0, nil, why
	}
	switch first := c.First.Why(k.Name); {
	case c.Broken != "":
		return 0, nil, c.Broken
	case c.Seconds == 0:
		return 0, nil, "only one sample was taken"
	case first != "":
		return 0, nil, "when the job began: " + first
	}
	sum, links, known := k.Growth(c.First, c.Last)
	switch {
	case !known:
		return 0, nil, "when the job began, other links were active"
	case k.Time && sum > c.Seconds*tooLong+1:
		return 0, nil, fmt.Sprintf("it counted %.0f s within %.0f s", sum, c.Seconds)
	}
	return sum, links, ""
}

// tooLong bounds a counted time: it may be that much longer than the time between its two
// samples.
const tooLong = 1.1

// why says why the last sample lacks a counter, if it does.
func (c *Counting) why(name string) string {
	if c.Missed {
		return "the GPU gave no answer to the last sample"
	}
	return c.Last.Why(name)
}
