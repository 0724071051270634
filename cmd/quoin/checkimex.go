package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/quoin-hpc/quoin/cmd/quoin/findings"
	"github.com/quoin-hpc/quoin/cmd/quoin/listing"
	"github.com/quoin-hpc/quoin/cmd/quoin/reports"
	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/imex/computedomain"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/nodestatus"
)

// checkIMEX names the nodes that are no members of the IMEX domain.
func checkIMEX(ctx context.Context, stdin io.Reader, o *checkOptions, paths []string) (*result, error) {
	c, err := o.render.load()
	if err != nil {
		return nil, err
	}
	objects := computedomain.NewObjects(c.IMEX)
	pods := false
	snap, err := readObjects(ctx, stdin, o, func(kind string, object []byte) error {
		pods = pods || kind == "Pod"
		return objects.Add(kind, object)
	})
	if err != nil {
		return nil, err
	}
	if !pods { // no cluster is without
		return nil, fmt.Errorf("%s: no Pod in it: want the output of %s", o.imex, computedomain.ListCommand)
	}
	if err := reports.Add(snap, paths); err != nil {
		return nil, err
	}
	seen := objects.Seen()
	seen.Nodes = nodestatus.Members(snap, seen.Workers)
	verdicts := imex.Judge(seen)
	r := &result{Findings: findings.Of(snap.Problems)}
	if p := seen.Domain.Problem; p.Reason != "" {
		r.Findings = append(r.Findings, findings.Finding{Remark: findings.Remark{Reason: p.Reason, Message: p.Message, Advice: seen.Domain.Remedy()}})
	}
	if note := seen.Domain.Note; note.Reason != "" {
		r.Findings = append(r.Findings, findings.Finding{Remark: findings.Remark{Reason: note.Reason, Message: note.Message}})
	}
	if seen.Why != "" {
		r.Summary = append(r.Summary, fmt.Sprintf("imex.join is auto, here %s: %s", seen.Join, seen.Why))
	}
	conflicts := r.addUnplaced(imex.JudgeUnplaced(seen))
	r.addMembership(verdicts, conflicts)
	return r, nil
}

// readObjects reads the output of computedomain.ListCommand from a file, - for standard
// input, or reads the same from the cluster.
func readObjects(ctx context.Context, stdin io.Reader, o *checkOptions, each func(kind string, object []byte) error) (*inputs.Snapshot, error) {
	if o.render.kubeconfig != "" && o.imex != "-" {
		return nil, fmt.Errorf("--imex %s beside --kubeconfig: want --imex - to read the cluster", o.imex)
	}
	file, name, err := o.render.open(ctx, stdin, o.imex, computedomain.ListCommand, listing.Domain)
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
	snap, err := reader.Read(name, in)
	return snap, listing.Cause(err)
}

// addUnplaced adds the claims that no node has, and returns how many of them are there
// by mistake. Other claims may get a node in a moment.
func (r *result) addUnplaced(all []imex.Unplaced) (conflicts int) {
	for _, u := range all {
		if u.Reason == imex.ReasonWrongClaim && u.Owner != imex.OwnerOther {
			conflicts += u.Claims
		}
		r.Findings = append(r.Findings, findings.Finding{Remark: findings.Remark{Reason: u.Reason, Message: u.Message, Advice: u.Remedy}})
	}
	return conflicts
}

// addMembership adds the nodes with a problem or a note. The result differs if there is a
// problem, or a conflict of claims that no node has.
func (r *result) addMembership(verdicts map[string]imex.Verdict, conflicts int) {
	ready, not := 0, 0
	for _, node := range slices.Sorted(maps.Keys(verdicts)) {
		v := verdicts[node]
		switch {
		case v.Reason == imex.ReasonDomainProblem: // which has a line of its own
			not++
			continue
		case v.Problem():
			not++
		case !v.Ready():
			continue
		default:
			ready++
			if v.Remedy == "" {
				continue
			}
		}
		r.Findings = append(r.Findings, findings.Finding{Nodes: []string{node}, Remark: findings.Remark{Reason: v.Reason, Message: v.Message, Advice: v.Remedy}})
	}
	r.Differs = not > 0 || conflicts > 0
	summary := fmt.Sprintf("same: all %d nodes that need it are members of the IMEX domain", ready)
	switch {
	case not > 0:
		summary = fmt.Sprintf("differs: %d of %d nodes are no members of the IMEX domain", not, not+ready)
	case conflicts > 0:
		summary = fmt.Sprintf("differs: %d claims wait in conflict with others, beside %d nodes that are members of the IMEX domain", conflicts, ready)
	case ready == 0:
		summary = "same: no node needs the IMEX domain"
	}
	r.Summary = append(r.Summary, summary)
}
