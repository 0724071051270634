package gres

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
)

// Count counts the devices of a Type that the lines give, as slurmctld compares them with Gres= of
// slurm.conf. An empty Type stands for all. known is false if nodes detect their devices.
func Count(lines []Line, typ string) (n int, known bool) {
	of := slices.DeleteFunc(slices.Clone(lines), func(l Line) bool { return typ != "" && l.Type != typ })
	return devices(of), !slices.ContainsFunc(lines, func(l Line) bool { return l.AutoDetect != "" && l.AutoDetect != AutoDetectOff })
}

// GPUCount is a number of gpus of one Type. Type is empty if Gres= has none.
type GPUCount struct {
	Type  string
	Count uint64
}

// ReadGPUCounts reads the gpus of a value of Gres=, such as
// "gpu:h100:4(S:0),gpu:h100:4(S:1),nic:2".
func ReadGPUCounts(value string) ([]GPUCount, error) {
	var gpus []GPUCount
	for word := range strings.SplitSeq(withoutSockets(value), ",") {
		parts := strings.Split(word, ":")
		if !strings.EqualFold(parts[0], "gpu") {
			continue
		}
		parts = slices.DeleteFunc(parts[1:], func(p string) bool { return p == "no_consume" })
		g := GPUCount{Count: 1}
		if n := len(parts); n > 0 && parts[n-1] != "" && parts[n-1][0]-'0' <= 9 {
			count, ok := ReadCount(parts[n-1])
			if !ok {
				return nil, fmt.Errorf("gres %q: %q is no count", hostlist.Shorten(word), hostlist.Shorten(parts[n-1]))
			}
			g.Count, parts = count, parts[:n-1]
		}
		if len(parts) > 1 || len(parts) == 1 && parts[0] == "" {
			return nil, fmt.Errorf("gres %q: want such as gpu:h100:8", hostlist.Shorten(word))
		}
		g.Type = strings.Join(parts, "")
		if at := slices.IndexFunc(gpus, func(other GPUCount) bool { return other.Type == g.Type }); at >= 0 {
			gpus[at].Count += g.Count
		} else {
			gpus = append(gpus, g)
		}
	}
	return slices.DeleteFunc(gpus, func(g GPUCount) bool { return g.Count == 0 }), nil
}

// withoutSockets takes the sockets out of a value of Gres=, such as (S:0,1).
func withoutSockets(value string) string {
	var out strings.Builder
	for {
		before, after, found := strings.Cut(value, "(")
		_, rest, closed := strings.Cut(after, ")")
		if !found || !closed {
			return out.String() + value
		}
		out.WriteString(before)
		value = rest
	}
}
