package main

import (
	"context"
	"fmt"
	"time"

	"github.com/quoin-hpc/quoin/topology"
)

const (
	flapShare  = 20               // one node in so many flaps
	flapPeriod = 20 * time.Second // from one state to the other and back, at most
)

// flaps has 5 % of the nodes change all the time: every second one of them between booted and
// rebooting, the others between their own rack and the next one. Then all are as before.
func (b *bencher) flaps(ctx context.Context) (changed, stored time.Time, err error) {
	var flapping []*machine
	for i := 0; i < len(b.joined()); i += flapShare {
		flapping = append(flapping, b.joined()[i])
	}
	for end := time.Now().Add(b.flap); time.Now().Before(end); {
		if err := b.flapOnce(ctx, flapping); err != nil {
			return changed, stored, err
		}
	}
	return b.published(ctx)
}

// flapOnce changes each machine twice within the period, one after another.
func (b *bencher) flapOnce(ctx context.Context, flapping []*machine) error {
	pause := time.NewTicker(min(flapPeriod, b.flap/2) / 2 / time.Duration(len(flapping)))
	defer pause.Stop()
	for _, back := range []bool{false, true} {
		for i, m := range flapping {
			next := m.report
			switch {
			case back:
			case i%2 == 0:
				next = rebooted(m.report)
			default:
				next = b.elsewhere(m)
			}
			if err := m.say(ctx, next); err != nil {
				return err
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-pause.C:
			}
		}
	}
	return nil
}

// elsewhere returns the report of a machine that is in the next rack now, after a reboot.
func (b *bencher) elsewhere(m *machine) *topology.Node {
	at := 0
	for i, other := range b.joined() {
		if other == m {
			at = i
		}
	}
	there := b.joined()[(at+rackNodes)%len(b.joined())].report
	next := *m.report
	next.BootID, next.Domain = fmt.Sprintf("boot-%d", time.Now().UnixNano()), there.Domain
	next.GPUs = append([]topology.GPU(nil), m.report.GPUs...)
	for i := range next.GPUs {
		next.GPUs[i].Fabric = there.GPUs[0].Fabric
	}
	return &next
}
