package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/quoin-hpc/quoin/test/rig/kuberig"
)

// row is what one event cost.
type row struct {
	event string
	// toFile is the time from the end of the change to the stored file, zero if no file was
	// wanted. revisions is how many files were stored.
	toFile    time.Duration
	revisions int
	lasted    time.Duration
	// publisher and agents are the requests by verb and resource.
	publisher, agents map[string]int
	read, written     int64 // bytes of the publisher's connections
	sent              int64 // bytes of the agents' bodies
	used              usage // of the publisher, with the peak since the event began
}

// meter measures events, one after another.
type meter struct {
	bench  *bencher
	offset int64 // in the audit log
	rows   []row
}

// measure calls event, and adds a row of what it cost. event returns when the change was made
// and when the file was stored, or zero times.
func (m *meter) measure(ctx context.Context, name string, event func(context.Context) (changed, stored time.Time, err error)) error {
	b := m.bench
	if err := m.skip(); err != nil {
		return err
	}
	var before usage
	if b.publisher != nil {
		var err error
		if before, err = b.publisher.usage(ctx); err != nil {
			return err
		}
		if err := b.publisher.forgetPeak(); err != nil {
			return err
		}
	}
	r := row{event: name, publisher: map[string]int{}, agents: map[string]int{}}
	revisions, sent, began := b.revisions.count(), b.site.agents.transport.sent.Load(), time.Now()
	changed, stored, err := event(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	r.lasted, r.toFile = time.Since(began), max(0, stored.Sub(changed)) // the right file may have been there before
	r.revisions, r.sent = b.revisions.count()-revisions, b.site.agents.transport.sent.Load()-sent
	if r.used, err = b.publisher.usage(ctx); err != nil {
		return err
	}
	r.read, r.written = r.used.read-before.read, r.used.written-before.written
	if err := m.requests(&r); err != nil {
		return err
	}
	m.rows = append(m.rows, r)
	fmt.Fprintln(b.stdout, r.String())
	return b.revisions.err()
}

// skip leaves out the requests until now.
func (m *meter) skip() (err error) {
	_, m.offset, err = m.bench.cluster.Requests(m.offset)
	return err
}

// requests counts those of the audit log since the last time.
func (m *meter) requests(r *row) error {
	all, end, err := m.bench.cluster.Requests(m.offset)
	if err != nil {
		return err
	}
	m.offset = end
	for i := range all {
		counts := r.agents
		if strings.HasSuffix(all[i].User, ":quoin-publisher") {
			counts = r.publisher
		}
		counts[requestKind(&all[i])]++
	}
	return nil
}

func requestKind(r *kuberig.Request) string { return r.Verb + " " + r.Resource }

// String returns the row for a log.
func (r *row) String() string {
	return fmt.Sprintf("%s: %s, to file %s, %d revisions; publisher %s, read %s, wrote %s, peak %d MiB, resident %d MiB, heap %d MiB; agents %s, sent %s",
		r.event, r.lasted.Round(time.Millisecond), r.toFile.Round(time.Millisecond), r.revisions, counted(r.publisher), size(r.read), size(r.written),
		r.used.peakMiB, r.used.residentMiB, r.used.heapMiB, counted(r.agents), size(r.sent))
}

// counted lists counts by name.
func counted(counts map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[name], name))
	}
	if parts == nil {
		return "no requests"
	}
	return strings.Join(parts, ", ")
}

// size returns a number of bytes for people.
func size(n int64) string {
	switch {
	case n >= 1e6:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	case n >= 1e3:
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	}
	return fmt.Sprintf("%d B", n)
}

// print prints all rows as a table.
func (m *meter) print() error {
	w := tabwriter.NewWriter(m.bench.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "event\tlasted\tto file\trevisions\tpublisher's requests\tread\twritten\tpeak\tresident\theap\tagents' requests\tsent")
	for i := range m.rows {
		r := &m.rows[i]
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t%d MiB\t%d MiB\t%d MiB\t%s\t%s\n", r.event, r.lasted.Round(time.Millisecond), r.toFile.Round(time.Millisecond), r.revisions,
			counted(r.publisher), size(r.read), size(r.written), r.used.peakMiB, r.used.residentMiB, r.used.heapMiB, counted(r.agents), size(r.sent))
	}
	return w.Flush()
}
