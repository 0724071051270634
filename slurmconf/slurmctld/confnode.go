package slurmctld

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/gres"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/lint"
)

// confNode reads the values of a line NodeName, by key in lower case.
func confNode(values map[string]string) (*lint.Node, error) {
	n := &lint.Node{}
	var err error
	number := func(keys ...string) int {
		for _, key := range keys {
			text := values[key]
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
	n.Cloud = strings.Contains(strings.ToUpper(values["state"]), "CLOUD")
	n.CoresPerSocket, n.ThreadsPerCore = max(1, number("corespersocket")), max(1, number("threadspercore"))
	if err != nil {
		return nil, err
	}
	n.Sockets = totalSockets(cpus, boards, sockets, perBoard, n.CoresPerSocket*n.ThreadsPerCore)
	n.Gres = gres.ReadCounts(values["gres"]) // one that is empty takes the default away
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
