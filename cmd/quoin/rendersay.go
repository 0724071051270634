package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/publisher"
	"github.com/quoin-hpc/quoin/topology"
)

// sayLeftOut lists the nodes that have no place, and what else is wrong.
func sayLeftOut(w io.Writer, made *publisher.Rendered) {
	for line := range strings.SplitSeq(made.LeftOut, "\n") {
		if line != "" {
			fmt.Fprintf(w, "left out: %s\n", line)
		}
	}
	for _, p := range joinProblems(made.Problems) {
		fmt.Fprintf(w, "problem: %s\n", p)
	}
}

// joinProblems makes one problem of those that many nodes have alike, because a site may
// have thousands of nodes. The joined problem is at the place of the first.
func joinProblems(problems []topology.Problem) []topology.Problem {
	var out []topology.Problem
	at := map[topology.Problem]int{} // index in out of a problem that nodes have alike
	nodes := map[int][]string{}
	for _, p := range problems {
		alike := topology.Problem{Reason: p.Reason, Message: p.Message}
		i, known := at[alike]
		if p.Node == "" || !known {
			i = len(out)
			out = append(out, alike)
		}
		if p.Node != "" {
			at[alike] = i
			nodes[i] = append(nodes[i], p.Node)
		}
	}
	for i, names := range nodes {
		out[i].Node = hostlist.Compress(names)
	}
	return out
}
