package gres

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
)

// gpu is the name of GPUs in gres.conf and in Gres=, in small letters alone.
const gpu = "gpu"

// Count counts the gpus of a Type that the lines give, as slurmctld compares them with Gres= of
// slurm.conf. An empty Type stands for all. known is false if nodes detect their devices.
func Count(lines []Line, typ string) (n int, known bool) {
	for i := range lines {
		if l := &lines[i]; l.Name == gpu && (typ == "" || l.Type == typ) {
			n += int(min(l.Devices(), 1<<20)) //nolint:gosec // bounded
		}
	}
	way, err := Detects(lines)
	return n, err == nil && (way == "" || way == AutoDetectOff)
}

// devices counts the gpus that lines give.
func devices(lines []Line) int {
	n, _ := Count(lines, "")
	return n
}

// Counts are what a value of Gres= counts, as Slurm reads it: in slurm.conf, and as Slurm shows it for a node.
type Counts struct {
	// GPUs are the gpus of each Type.
	GPUs []GPUCount
	// Others are the counts of other names. Slurm ignores a name that is not in GresTypes.
	Others map[string]uint64
	// Unread are words for which it is not known what Slurm counts.
	Unread []string
}

// GPUCount is a number of gpus of one Type. Type is empty if Gres= has none.
type GPUCount struct {
	Type  string
	Count uint64
}

// sockets are what Slurm writes behind a word of Gres=, such as (S:0,1) or (IDX:0-3).
var sockets = regexp.MustCompile(`\([^)]*\)(,|$)`)

// ReadCounts reads a value of Gres=, such as "gpu:h100:4(S:0),gpu:h100:4(S:1),nic:2". A name ends at the
// first colon. A count is the last part if that begins with a digit, and else 1.
func ReadCounts(value string) (c Counts) {
	c.Others = map[string]uint64{}
	if value == "(null)" || value == "N/A" { // as scontrol and sinfo say that there are none
		return c
	}
	for word := range strings.SplitSeq(sockets.ReplaceAllString(value, "$1"), ",") {
		name, rest, _ := strings.Cut(word, ":")
		typ, count, ok := readRest(rest)
		switch {
		case word == "":
		case name == gpu && !ok:
			c.Unread = append(c.Unread, word)
		case name == gpu:
			at := slices.IndexFunc(c.GPUs, func(g GPUCount) bool { return g.Type == typ })
			if at < 0 {
				at, c.GPUs = len(c.GPUs), append(c.GPUs, GPUCount{Type: typ})
			}
			c.GPUs[at].Count += count
		default:
			c.Others[name] += count
		}
	}
	c.GPUs = slices.DeleteFunc(c.GPUs, func(g GPUCount) bool { return g.Count == 0 })
	return c
}

// readRest reads what follows the name: a Type, a count, or both. It is not ok if Slurm may read it otherwise.
func readRest(rest string) (typ string, count uint64, ok bool) {
	parts := slices.DeleteFunc(strings.Split(rest, ":"), func(p string) bool { return p == "no_consume" || p == "" })
	count, ok = 1, true
	if n := len(parts); n > 0 && parts[n-1][0]-'0' <= 9 {
		count, ok = ReadCount(parts[n-1])
		parts = parts[:n-1]
	}
	return strings.Join(parts, ":"), count, ok && len(parts) < 2
}

// Err is an error if it is not known how many gpus are counted.
func (c *Counts) Err() error {
	if len(c.Unread) == 0 {
		return nil
	}
	return fmt.Errorf("gres %q: want such as gpu:h100:8", hostlist.Shorten(c.Unread[0]))
}

// Total is how many gpus are counted, of all Types.
func Total(gpus []GPUCount) (n uint64) {
	for _, g := range gpus {
		n += g.Count
	}
	return n
}
