package gres

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
)

// gpu is the name of GPUs in gres.conf and in Gres=, in small letters alone.
const gpu = "gpu"

// Count counts the gpus of each Type that a node has by its lines, as slurmctld compares them with Gres= of
// slurm.conf. known is false if the node detects its devices.
func Count(lines []Line) (gpus []GPUCount, known bool) {
	for i := range lines {
		if l := &lines[i]; l.Name == gpu && l.HasFile() {
			gpus = add(gpus, GPUCount{l.Type, l.Devices()})
		}
	}
	way, err := Detects(lines)
	return gpus, err == nil && (way == "" || way == AutoDetectOff)
}

// devices counts the gpus that lines give.
func devices(lines []Line) uint64 {
	gpus, _ := Count(lines)
	return Total(gpus)
}

// Shortage is a count of gpus in Gres= of slurm.conf, and the smaller number that a node has. slurmctld drains
// such a node.
type Shortage struct {
	GPUCount
	Has uint64
}

// Fewer returns the counts of want of which a node has fewer gpus. A count without a Type is of all gpus.
func Fewer(want, has []GPUCount) (short []Shortage) {
	for _, w := range want {
		s := Shortage{GPUCount: w}
		for _, h := range has {
			if w.Type == "" || h.Type == w.Type {
				s.Has += h.Count
			}
		}
		if s.Has < s.Count {
			short = append(short, s)
		}
	}
	return short
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

// Kind is what is counted, in people's words.
func (c *GPUCount) Kind() string {
	if c.Type == "" {
		return "gpus"
	}
	return "gpus of type " + c.Type
}

// add adds gpus to those of the same Type.
func add(gpus []GPUCount, more GPUCount) []GPUCount {
	for i := range gpus {
		if gpus[i].Type == more.Type {
			gpus[i].Count += more.Count
			return gpus
		}
	}
	return append(gpus, more)
}

// withoutSockets cuts what Slurm writes behind a word of Gres=, such as (S:0,1) or (IDX:0-3). A regular expression
// would be compiled at each start of the job hook.
func withoutSockets(value string) string {
	var out strings.Builder
	for {
		word, rest, _ := strings.Cut(value, "(")
		inside, after, closed := strings.Cut(rest, ")")
		out.WriteString(word)
		switch {
		case !closed:
			out.WriteString(value[len(word):])
			return out.String()
		case after != "" && after[0] != ',':
			out.WriteString("(" + inside + ")")
		}
		value = after
	}
}

// ReadCounts reads a value of Gres=, such as "gpu:h100:4(S:0),gpu:h100:4(S:1),nic:2". A name ends at the
// first colon. A count is the last part if that begins with a digit, and else 1.
func ReadCounts(value string) (c Counts) {
	c.Others = map[string]uint64{}
	if value == "(null)" || value == "N/A" { // as scontrol and sinfo say that there are none
		return c
	}
	for word := range strings.SplitSeq(withoutSockets(value), ",") {
		name, rest, _ := strings.Cut(word, ":")
		typ, count, ok := readRest(rest)
		switch {
		case word == "":
		case name == gpu && !ok:
			c.Unread = append(c.Unread, word)
		case name == gpu:
			c.GPUs = add(c.GPUs, GPUCount{typ, count})
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
