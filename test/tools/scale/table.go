package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// row is what one event cost.
type row struct {
	event string
	// toFile is the time from the end of the change to the stored file, zero if no file was
	// wanted. revisions is how many files were stored.
	toFile    time.Duration
	revisions int
	lasted    time.Duration
	publisher map[string]int // its requests by verb and resource
	used      usage          // of the publisher, with the peak since the event began
}

// meter measures events, one after another.
type meter struct {
	bench  *bencher
	offset int64 // in the audit log
}

// measure calls event, and prints what it cost. event returns when the change was made
// and when the file was stored, or zero times.
func (m *meter) measure(ctx context.Context, name string, event func(context.Context) (changed, stored time.Time, err error)) error {
	b := m.bench
	if err := m.skip(); err != nil {
		return err
	}
	if b.publisher != nil {
		if err := b.publisher.forgetPeak(); err != nil {
			return err
		}
	}
	r := row{event: name, publisher: map[string]int{}}
	revisions, began := b.revisions.count(), time.Now()
	changed, stored, err := event(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	r.lasted, r.toFile = time.Since(began), max(0, stored.Sub(changed)) // the right file may have been there before
	r.revisions = b.revisions.count() - revisions
	if r.used, err = b.publisher.usage(); err != nil {
		return err
	}
	if err := m.requests(&r); err != nil {
		return err
	}
	fmt.Fprintln(b.stdout, r.String())
	return b.revisions.err()
}

// skip leaves out the requests until now.
func (m *meter) skip() (err error) {
	_, m.offset, err = m.bench.cluster.Requests(m.offset)
	return err
}

// requests counts the publisher's requests of the audit log since the last time.
func (m *meter) requests(r *row) error {
	all, end, err := m.bench.cluster.Requests(m.offset)
	if err != nil {
		return err
	}
	m.offset = end
	for i := range all {
		if strings.HasSuffix(all[i].User, ":quoin-publisher") {
			r.publisher[all[i].Verb+" "+all[i].Resource]++
		}
	}
	return nil
}

// String returns the row for a log.
func (r *row) String() string {
	return fmt.Sprintf("%s: %s, to file %s, %d revisions; publisher %s, peak %d MiB, resident %d MiB",
		r.event, r.lasted.Round(time.Millisecond), r.toFile.Round(time.Millisecond), r.revisions, counted(r.publisher), r.used.peakMiB, r.used.residentMiB)
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
