package slurmctld

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/gres"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/lint"
)

// confNode reads the values of a line NodeName and the defaults before it, both by
// key in lower case.
func confNode(values, defaults map[string]string) (*lint.Node, error) {
	get := func(key string) string { return cmp.Or(values[key], defaults[key]) }
	n := &lint.Node{}
	var err error
	number := func(keys ...string) int {
		for _, key := range keys {
			text := get(key)
			if text == "" {
				continue
			}
			v, parsed := strconv.ParseUint(text, 10, 16)
			if parsed != nil || v >= math.MaxUint16-1 {
				err = cmp.Or(err, fmt.Errorf("%s=%q: want a number", key, hostlist.Shorten(text)))
			}
			if v == 0 && strings.HasPrefix(key, "sockets") {
				return 1 // Slurm's words: invalid, reset to 1
			}
			return int(v)
		}
		return 0
	}
	cpus, boards := number("cpus", "procs"), max(1, number("boards"))
	sockets, perBoard := number("sockets"), number("socketsperboard")
	n.Cloud = strings.Contains(strings.ToUpper(get("state")), "CLOUD")
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

// totalSockets returns the sockets of all boards. If the line does not give them,
// they follow from its CPUs, or there is one for each board. If CPUs are no multiple,
// Slurm logs an error and goes on with one for each board.
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

// socketsOfGres matches the sockets of a gres, such as (S:0).
var socketsOfGres = regexp.MustCompile(`\([^)]*\)`)

// parseNodeGres reads the gpus of a value of Gres=, such as
// "gpu:h100:4(S:0),gpu:h100:4(S:1),nic:2".
func parseNodeGres(value string) ([]lint.GPUCount, error) {
	var gpus []lint.GPUCount
	for word := range strings.SplitSeq(socketsOfGres.ReplaceAllString(value, ""), ",") {
		parts := strings.Split(word, ":")
		if !strings.EqualFold(parts[0], "gpu") {
			continue
		}
		parts = slices.DeleteFunc(parts[1:], func(p string) bool { return p == "no_consume" })
		g := lint.GPUCount{Count: 1}
		if n := len(parts); n > 0 && parts[n-1] != "" && parts[n-1][0]-'0' <= 9 {
			count, ok := gres.ReadCount(parts[n-1])
			if !ok {
				return nil, fmt.Errorf("gres %q: %q is no count", hostlist.Shorten(word), hostlist.Shorten(parts[n-1]))
			}
			g.Count, parts = count, parts[:n-1]
		}
		if len(parts) > 1 || len(parts) == 1 && parts[0] == "" {
			return nil, fmt.Errorf("gres %q: want such as gpu:h100:8", hostlist.Shorten(word))
		}
		g.Type = strings.Join(parts, "")
		if at := slices.IndexFunc(gpus, func(other lint.GPUCount) bool { return other.Type == g.Type }); at >= 0 {
			gpus[at].Count += g.Count
		} else {
			gpus = append(gpus, g)
		}
	}
	return slices.DeleteFunc(gpus, func(g lint.GPUCount) bool { return g.Count == 0 }), nil
}
