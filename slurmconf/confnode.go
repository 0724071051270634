package slurmconf

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
)

// ConfNode is what slurm.conf says of a node's processors and GPUs.
type ConfNode struct {
	// Sockets, CoresPerSocket and ThreadsPerCore are as slurmctld reads the line,
	// all of them 1 or more. Sockets are those of all boards.
	Sockets, CoresPerSocket, ThreadsPerCore int
	// GPUs are those that Gres= counts, in its order.
	GPUs []GPUCount
}

// GPUCount is a number of gpus of one Type, which is empty where Gres= has none.
type GPUCount struct {
	Type  string
	Count uint64
}

// Cores is how many cores the node has, hyperthreads not counted.
func (n *ConfNode) Cores() int { return n.Sockets * n.CoresPerSocket }

// confNode reads the values of a line NodeName, and of those for all nodes, by
// key in lower case.
func confNode(values, defaults map[string]string) (*ConfNode, error) {
	get := func(key string) string { return cmp.Or(values[key], defaults[key]) }
	n := &ConfNode{}
	var err error
	number := func(keys ...string) int {
		for _, key := range keys {
			text := get(key)
			if text == "" {
				continue
			}
			v, parsed := strconv.ParseUint(text, 10, 16)
			if parsed != nil || v == 0 || v >= math.MaxUint16-1 {
				err = cmp.Or(err, fmt.Errorf("%s=%q: want a number of 1 or more", key, hostlist.Shorten(text)))
			}
			return int(v)
		}
		return 0
	}
	cpus, boards := number("cpus", "procs"), max(1, number("boards"))
	sockets, perBoard := number("sockets"), number("socketsperboard")
	n.CoresPerSocket, n.ThreadsPerCore = max(1, number("corespersocket")), max(1, number("threadspercore"))
	if err != nil {
		return nil, err
	}
	n.Sockets = totalSockets(cpus, boards, sockets, perBoard, n.CoresPerSocket*n.ThreadsPerCore)
	gres, ok := values["gres"]
	if !ok { // one that is empty takes the default away
		gres = defaults["gres"]
	}
	if n.GPUs, err = parseNodeGres(gres); err != nil {
		return nil, err
	}
	return n, nil
}

// totalSockets are the sockets of all boards. Those that a line does not say are
// what its CPUs make with so many in each, or one of each board. Slurm says an
// error where CPUs are no multiple, and goes on with one.
func totalSockets(cpus, boards, sockets, perBoard, cpusOfSocket int) int {
	switch {
	case sockets > 0:
		return sockets
	case perBoard > 0:
		return boards * perBoard
	case cpus > 0 && cpus%cpusOfSocket == 0:
		return cpus / cpusOfSocket
	}
	return boards
}

// parseNodeGres reads the gpus of a value of Gres=, such as
// "gpu:h100:4(S:0),gpu:h100:4(S:1),nic:2".
func parseNodeGres(value string) ([]GPUCount, error) {
	var gpus []GPUCount
	for word := range strings.SplitSeq(withoutParentheses(value), ",") {
		parts := strings.Split(word, ":")
		if !strings.EqualFold(parts[0], "gpu") {
			continue
		}
		parts = slices.DeleteFunc(parts[1:], func(p string) bool { return p == "no_consume" })
		g := GPUCount{Count: 1}
		if n := len(parts); n > 0 && parts[n-1] != "" && isDigit(parts[n-1][0]) {
			count, ok := slurmCount(parts[n-1])
			if !ok {
				return nil, fmt.Errorf("gres %q: %q is no count", hostlist.Shorten(word), hostlist.Shorten(parts[n-1]))
			}
			g.Count, parts = count, parts[:n-1]
		}
		if len(parts) > 1 || len(parts) == 1 && parts[0] == "" {
			return nil, fmt.Errorf("gres %q: want such as gpu:h100:8", hostlist.Shorten(word))
		}
		g.Type = strings.Join(parts, "")
		at := indexType(gpus, g.Type)
		if at >= 0 {
			gpus[at].Count += g.Count
		} else {
			gpus = append(gpus, g)
		}
	}
	return slices.DeleteFunc(gpus, func(g GPUCount) bool { return g.Count == 0 }), nil
}

// withoutParentheses takes out what says of a gres where it is.
func withoutParentheses(value string) string {
	var b strings.Builder
	depth := 0
	for _, c := range value {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth = max(0, depth-1)
		case depth == 0:
			b.WriteRune(c)
		}
	}
	return b.String()
}

func indexType(gpus []GPUCount, typ string) int {
	return slices.IndexFunc(gpus, func(g GPUCount) bool { return g.Type == typ })
}

// gresWords writes the value of Gres=.
func gresWords(gpus []GPUCount) string {
	words := make([]string, len(gpus))
	for i, g := range gpus {
		words[i] = fmt.Sprintf("gpu:%d", g.Count)
		if g.Type != "" {
			words[i] = fmt.Sprintf("gpu:%s:%d", g.Type, g.Count)
		}
	}
	return strings.Join(words, ",")
}
