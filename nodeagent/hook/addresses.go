package hook

import (
	"context"
	"net/netip"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/imex/child"
	"github.com/quoin-hpc/quoin/imex/gate"
)

const (
	// lookUpWait bounds all questions for the addresses of a job's nodes together.
	lookUpWait = time.Second
	// maxLookUps is how many names are looked up. A clique has at most 18 nodes as a rule.
	maxLookUps = 64
	// maxAddresses bounds what is read of an answer, in bytes.
	maxAddresses = 64 << 10
)

// lookUp returns the addresses of a name, none if they are not known.
type lookUp func(ctx context.Context, name string) []string

// resolver asks what the machine's programs ask: /etc/hosts, DNS and what else nsswitch.conf names. A
// program does it, because Go's own resolver would make each call of the hook slower.
func resolver(ctx context.Context, name string) (all []string) {
	getent := child.Program{Path: "/usr/bin/getent", Args: []string{"ahosts", "--", name}, Most: maxAddresses}
	out, err := getent.Output(ctx)
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(out)) {
		text, _, _ := strings.Cut(line, " ")
		if address, err := netip.ParseAddr(text); err == nil {
			all = append(all, address.Unmap().WithZone("").String())
		}
	}
	return all
}

// addressesOf looks up the addresses of nodes, all at once. A name without an answer in time
// has none, and so have names beyond maxLookUps.
func addressesOf(ctx context.Context, ask lookUp, names []string) gate.Addresses {
	ctx, cancel := context.WithTimeout(ctx, lookUpWait)
	defer cancel()
	names = names[:min(len(names), maxLookUps)]
	type answer struct {
		name string
		all  []string
	}
	answers := make(chan answer, len(names)) // with room for answers that come too late
	for _, name := range names {
		go func() { answers <- answer{name, ask(ctx, name)} }()
	}
	found := gate.Addresses{}
	for range names {
		select {
		case a := <-answers:
			found[a.name] = a.all
		case <-ctx.Done():
			return found
		}
	}
	return found
}
