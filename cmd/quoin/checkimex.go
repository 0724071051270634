package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/imex/computedomain"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/nodestatus"
)

// checkIMEX names the nodes that are no members of the IMEX domain.
func checkIMEX(stdin io.Reader, stdout io.Writer, o *checkOptions, reports []string) error {
	c, err := o.render.load()
	if err != nil {
		return err
	}
	objects := computedomain.NewObjects(c.IMEX)
	snap, err := readObjects(stdin, o.imex, objects.Add)
	if err != nil {
		return err
	}
	if err := addReports(snap, reports); err != nil {
		return err
	}
	seen := objects.Seen()
	seen.Nodes = nodestatus.Members(snap, seen.Workers)
	verdicts := imex.Judge(seen)
	conflicts := showUnplaced(stdout, imex.JudgeUnplaced(seen))
	if showMembership(stdout, verdicts, conflicts) {
		return exitError(1)
	}
	return nil
}

// readObjects reads the output of computedomain.ListCommand from a file, - for standard
// input.
func readObjects(stdin io.Reader, name string, each func(kind string, object []byte) error) (*inputs.Snapshot, error) {
	file, name, err := openInput(stdin, name)
	if err != nil {
		return nil, fmt.Errorf("read the cluster's objects: %w", err)
	}
	defer func() { _ = file.Close() }()
	in := bufio.NewReader(file)
	if _, err := in.Peek(1); errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: empty: want the output of %s: kubectl prints nothing if a kind is missing; are the CRDs of NVIDIA's DRA driver there? older releases of the driver have no computedomaincliques",
			name, computedomain.ListCommand)
	}
	reader := inputs.ListReader{Command: computedomain.ListCommand, Each: each}
	return reader.Read(name, in)
}

// showUnplaced lists the claims that no node has, and returns how many of them are there
// by mistake. Other claims may get a node in a moment.
func showUnplaced(w io.Writer, all []imex.Unplaced) (conflicts int) {
	for _, u := range all {
		if u.Reason == imex.ReasonClaimConflict {
			conflicts += u.Claims
		}
		fmt.Fprintf(w, "%s: %s\n  %s\n", u.Reason, u.Message, u.Remedy)
	}
	return conflicts
}

// showMembership lists the nodes with a problem or a note. It reports whether there is a
// problem, or a conflict of claims that no node has.
func showMembership(w io.Writer, verdicts map[string]imex.Verdict, conflicts int) (problem bool) {
	ready, not := 0, 0
	for _, node := range slices.Sorted(maps.Keys(verdicts)) {
		v := verdicts[node]
		switch {
		case v.Problem():
			not++
		case !v.Ready():
			continue
		default:
			ready++
			if v.Note == "" || v.Note == imex.NotePeersNotReady {
				continue // the peers have lines of their own
			}
		}
		fmt.Fprintf(w, "%s: %s: %s\n", node, verdictText(v), v.Message)
		if v.Remedy != "" {
			fmt.Fprintf(w, "  %s\n", v.Remedy)
		}
	}
	switch {
	case not > 0:
		fmt.Fprintf(w, "differs: %d of %d nodes are no members of the IMEX domain\n", not, not+ready)
		return true
	case conflicts > 0:
		fmt.Fprintf(w, "differs: %d claims wait in conflict with others, beside %d nodes that are members of the IMEX domain\n", conflicts, ready)
		return true
	case ready == 0:
		fmt.Fprintln(w, "same: no node needs the IMEX domain")
		return false
	}
	fmt.Fprintf(w, "same: all %d nodes that need it are members of the IMEX domain\n", ready)
	return false
}

// verdictText is such as "Ready" or "Ready, but PeersNotReady".
func verdictText(v imex.Verdict) string {
	if v.Note == "" {
		return v.Reason
	}
	return v.Reason + ", but " + v.Note
}
