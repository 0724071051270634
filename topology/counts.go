package topology

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Counter is one of the counts that a GPU keeps of its own faults, or a time during which
// its clocks were held down. All of them begin at zero when the driver is loaded and when
// the GPU is reset.
type Counter struct {
	// Name is the counter's name in samples, summaries and series.
	Name string
	// One and Many are the words for 1 and for any other number. A time has only One,
	// which says what was so for the time.
	One, Many string
	// ByLink says that each NVLink has a count of its own.
	ByLink bool
	// Usual says that a busy GPU counts this as a rule.
	Usual bool
	// Time says that a time is counted: nanoseconds in a sample, seconds elsewhere.
	Time bool
}

// Counters are all counters. NVLink up to version 4, as Hopper has it, counts replays,
// recoveries and CRC errors; version 5, as Blackwell has it, recoveries and packets that
// came with errors.
var Counters = [...]Counter{
	{Name: "nvlink_replays", One: "NVLink replay", Many: "NVLink replays", ByLink: true},
	{Name: "nvlink_recoveries", One: "NVLink recovery", Many: "NVLink recoveries", ByLink: true},
	{Name: "nvlink_crc_errors", One: "NVLink CRC error", Many: "NVLink CRC errors", ByLink: true},
	{Name: "nvlink_receive_errors", One: "NVLink packet with errors", Many: "NVLink packets with errors", ByLink: true},
	{Name: "ecc_corrected", One: "corrected ECC error", Many: "corrected ECC errors"},
	{Name: "ecc_uncorrected", One: "uncorrected ECC error", Many: "uncorrected ECC errors"},
	{Name: "pcie_replays", One: "PCIe replay", Many: "PCIe replays"},
	{Name: "power_cap", One: "clocks held down by the power limit", Time: true, Usual: true},
	{Name: "thermal", One: "clocks held down by heat", Time: true},
	{Name: "thermal_hardware", One: "clocks cut by the hardware because of heat", Time: true},
	{Name: "power_brake", One: "clocks cut by the power brake of the machine", Time: true},
	{Name: "sync_boost", One: "clocks held down to those of other GPUs", Time: true, Usual: true},
}

// RowsPending is the name of a fact beside the counters: memory rows wait until a reset of
// the GPU remaps them.
const RowsPending = "rows_pending"

// ReasonRowsPending is the problem of a GPU that has such rows.
const ReasonRowsPending = "RowsPending"

// RowsPendingProblem returns the problem.
func RowsPendingProblem(uuid string) Finding {
	return Finding{Reason: ReasonRowsPending, Message: "GPU " + uuid + " has memory rows that wait to be remapped: reset the GPU when no job uses it"}
}

// ReasonUncorrectedECC is the problem of a GPU that has had uncorrected ECC errors since the driver was
// loaded.
const ReasonUncorrectedECC = "UncorrectedECC"

// UncorrectedECCProblem returns the problem. It has no number, which would have the report written at
// each error.
func UncorrectedECCProblem(uuid string) Finding {
	return Finding{Reason: ReasonUncorrectedECC, Message: "GPU " + uuid + " has had uncorrected ECC errors since the driver was loaded: reset the GPU when no job uses it; if errors come again, replace the GPU"}
}

// AllCounters stands in Absent for every counter that is not named there.
const AllCounters = "*"

// XidsName is the name of the Xids beside the counters.
const XidsName = "xids"

// MaxLinks is how many NVLinks a GPU can have, by NVML's header.
const MaxLinks = 36

// Counts are a GPU's counters at one moment, by the names of the counters.
type Counts struct {
	// Whole are the counters of the whole GPU.
	Whole map[string]uint64 `json:"whole,omitempty"`
	// Links are the counters of NVLinks.
	Links map[string]LinkCounts `json:"links,omitempty"`
	// RowsPending says whether memory rows wait to be remapped.
	RowsPending *bool `json:"rowsPending,omitempty"`
	// Xids are how many Xids came, by number, since Watched: Xids are counted from then on,
	// which is in nanoseconds since 1970.
	Xids    map[int]uint64 `json:"xids,omitempty"`
	Watched int64          `json:"watched,omitempty"`
	// Absent says why a counter, RowsPending or the Xids were not read, or a link's counter
	// among others. See Why.
	Absent map[string]string `json:"absent,omitempty"`
}

// LinkCounts are a counter of each NVLink, by the number of the link, or NotRead.
type LinkCounts []int64

// MarshalText writes the counters in one line, because there are many of them: "0 0 412 -".
func (l LinkCounts) MarshalText() ([]byte, error) {
	var out []byte
	for i, n := range l {
		if i > 0 {
			out = append(out, ' ')
		}
		if n == NotRead {
			out = append(out, '-')
		} else {
			out = strconv.AppendInt(out, n, 10)
		}
	}
	return out, nil
}

// UnmarshalText reads what MarshalText writes.
func (l *LinkCounts) UnmarshalText(text []byte) error {
	words := strings.Fields(string(text))
	if len(words) > MaxLinks {
		return fmt.Errorf("%d links: want at most %d", len(words), MaxLinks)
	}
	*l = make(LinkCounts, len(words))
	for i, word := range words {
		if (*l)[i] = NotRead; word == "-" {
			continue
		}
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil || n < 0 {
			return fmt.Errorf("link %d: %.30q: want a number, or -", i, word)
		}
		(*l)[i] = n
	}
	return nil
}

// NotRead stands for the counter of a link that is not active or could not be read.
const NotRead = -1

// Reasons why a GPU does not have a counter, which are no fault.
const (
	NoCounter  = "the GPU or its driver does not have it"
	NoLink     = "no NVLink is active"
	OfWholeGPU = "a MIG instance: the counter is of the whole GPU"
)

// maxXidNumbers bounds the different Xids of a GPU.
const maxXidNumbers = 256

// maxAbsent bounds the reason why a counter was not read, in bytes.
const maxAbsent = 160

// Check refuses counts that no GPU can have.
func (c *Counts) Check() error {
	for _, name := range slices.Sorted(maps.Keys(c.Whole)) {
		if k := counterOf(name); k == nil || k.ByLink {
			return fmt.Errorf("whole: %.40q: want a counter of the whole GPU", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Links)) {
		if k := counterOf(name); k == nil || !k.ByLink {
			return fmt.Errorf("links: %.40q: want a counter of NVLinks", name)
		}
		if n := len(c.Links[name]); n == 0 || n > MaxLinks {
			return fmt.Errorf("links: %s: %d links: want 1 to %d", name, n, MaxLinks)
		}
	}
	if n := len(c.Xids); n > maxXidNumbers {
		return fmt.Errorf("xids: %d numbers: want at most %d", n, maxXidNumbers)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Absent)) {
		if counterOf(name) == nil && name != RowsPending && name != XidsName && name != AllCounters {
			return fmt.Errorf("absent: %.40q: want a counter", name)
		}
		if n := len(c.Absent[name]); n == 0 || n > maxAbsent {
			return fmt.Errorf("absent: %s: a reason of %d bytes: want 1 to %d", name, n, maxAbsent)
		}
	}
	return nil
}

// Why says why a counter, RowsPending or the Xids were not read, or not on all links. It is empty
// if they were.
func (c *Counts) Why(name string) string {
	if why := c.Absent[name]; why != "" {
		return why
	}
	_, whole := c.Whole[name]
	_, links := c.Links[name]
	if whole || links || name == RowsPending && c.RowsPending != nil || name == XidsName && c.Watched != 0 {
		return ""
	}
	return cmp.Or(c.Absent[AllCounters], "the sample lacks it")
}

func counterOf(name string) *Counter {
	for i := range Counters {
		if Counters[i].Name == name {
			return &Counters[i]
		}
	}
	return nil
}

// link returns the counter of a link, or NotRead.
func (c *Counts) link(name string, link int) int64 {
	if all := c.Links[name]; link < len(all) {
		return all[link]
	}
	return NotRead
}

// WentBack names a counter that is smaller than before, or is empty. Such a counter says
// that the GPU was reset, or its driver loaded again: then all counters began at zero.
func (c *Counts) WentBack(before *Counts) string {
	for i := range Counters {
		name := Counters[i].Name
		if now, is := c.Whole[name]; is && now < before.Whole[name] {
			return name
		}
		for link, now := range c.Links[name] {
			if now != NotRead && now < before.link(name, link) {
				return name
			}
		}
	}
	return ""
}

// Growth is by how much a counter has grown between two moments, in its unit: for a
// counter of NVLinks on all links together, and on each link on which it has grown. A link
// that one of the moments lacks is left out. known is false if nothing is left.
func (k *Counter) Growth(before, now *Counts) (sum float64, links map[int]float64, known bool) {
	if !k.ByLink {
		a, was := before.Whole[k.Name]
		b, is := now.Whole[k.Name]
		if !was || !is {
			return 0, nil, false
		}
		sum = float64(b - a)
		if k.Time {
			sum /= 1e9
		}
		return sum, nil, true
	}
	for link, b := range now.Links[k.Name] {
		a := before.link(k.Name, link)
		if a == NotRead || b == NotRead {
			continue
		}
		if known = true; a == b {
			continue
		}
		if links == nil {
			links = map[int]float64{}
		}
		links[link] = float64(b - a)
		sum += links[link]
	}
	return sum, links, known
}

// NewXids are the Xids that came between two moments, by number. gap says that nobody
// watched for a time in between, so that there may have been more.
func (c *Counts) NewXids(before *Counts) (came map[int]uint64, gap bool) {
	if c.Watched == 0 {
		return nil, false
	}
	known := before.Xids
	if gap = c.Watched != before.Watched; gap {
		known = nil // they were counted by another watch
	}
	for code, n := range c.Xids {
		if n > known[code] {
			if came == nil {
				came = map[int]uint64{}
			}
			came[code] = n - known[code]
		}
	}
	return came, gap
}

// Keep returns the counts with what an earlier moment had and they lack. Absent says of that
// why they lack it.
func (c *Counts) Keep(before *Counts) *Counts {
	out := Counts{RowsPending: c.RowsPending, Xids: c.Xids, Watched: c.Watched, Absent: map[string]string{}, Whole: maps.Clone(before.Whole), Links: maps.Clone(before.Links)}
	maps.Copy(out.Absent, c.Absent)
	for i := range Counters {
		name := Counters[i].Name
		_, whole := before.Whole[name]
		_, links := before.Links[name]
		if why := c.Why(name); why != "" && (whole || links) {
			out.Absent[name] = why
		}
	}
	if c.Watched == 0 {
		out.Xids, out.Watched, out.Absent[XidsName] = before.Xids, before.Watched, c.Why(XidsName)
	}
	if out.Whole == nil {
		out.Whole = c.Whole
	} else {
		maps.Copy(out.Whole, c.Whole)
	}
	for name, now := range c.Links {
		all := slices.Clone(now)
		for link := range max(len(now), len(before.Links[name])) {
			if link >= len(all) {
				all = append(all, NotRead)
			}
			if all[link] == NotRead {
				all[link] = before.link(name, link)
			}
		}
		if out.Links == nil {
			out.Links = map[string]LinkCounts{}
		}
		out.Links[name] = all
	}
	return &out
}
