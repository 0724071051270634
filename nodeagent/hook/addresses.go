package hook

import (
	"context"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/child"
	"github.com/quoin-hpc/quoin/imex/gate"
)

const (
	// lookUpWait bounds all questions for the addresses of a job's nodes together.
	lookUpWait = time.Second
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
		address, _, _ := strings.Cut(line, " ")
		address, _, _ = strings.Cut(address, "%") // the interface
		all = append(all, strings.TrimPrefix(address, "::ffff:"))
	}
	return all
}

// addressesOf looks up the addresses of nodes, one after the other. A name that is not answered in time
// has none, and so have the names after it.
func addressesOf(ctx context.Context, ask lookUp, names []string) gate.Addresses {
	ctx, cancel := context.WithTimeout(ctx, lookUpWait)
	defer cancel()
	found := gate.Addresses{}
	for _, name := range names {
		if ctx.Err() != nil {
			break
		}
		found[name] = ask(ctx, name)
	}
	return found
}
