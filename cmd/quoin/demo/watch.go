package demo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/publisher"
	"github.com/quoin-hpc/quoin/topology"
)

// watch plays the site's timeline.
func (d *demonstration) watch(ctx context.Context) error {
	made, err := d.round(ctx, true)
	if err != nil {
		return err
	}
	if made.Refused != "" {
		return errors.New(made.Message)
	}
	days := []*topology.Plan{made.Plan}
	moments := map[string]int{} // file -> moments that changed it
	files := made.Files
	for _, s := range d.cluster.Steps {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(d.Pause):
		}
		d.Printf("\n%s\n%s  %s\n", d.Dim(strings.Repeat("─", min(d.Width, 100))), d.Bold(s.At), s.Say)
		d.cluster.Apply(s)
		made, err := d.round(ctx, true)
		if err != nil {
			return err
		}
		d.Printf("\n")
		if len(d.silent) > 0 {
			d.Printf("  silent: %s, whose last reports stay\n", d.Cut(hostlist.Compress(d.silent), 40))
		}
		if made.Refused != "" {
			d.Printf("%s: %s; the last good files stay\n", d.Red("held"), made.Message)
			continue
		}
		d.changes(files, made.Files, moments)
		files, days = made.Files, append(days, made.Plan)
	}
	d.dayEnds(days, moments)
	return nil
}

// changes prints the lines that a step changed, each with the line that it belongs to.
// It counts the changed files in moments.
func (d *demonstration) changes(before, after map[string]string, moments map[string]int) {
	names := maps.Clone(before)
	maps.Copy(names, after)
	changed := false
	for _, name := range publisher.FileNames(names) {
		list := changesOf(before[name], after[name])
		if len(list) == 0 {
			continue
		}
		changed = true
		moments[name]++
		added := 0
		for _, c := range list {
			sign := d.Red("-")
			if c.added {
				added++
				sign = d.Green("+")
			}
			under := ""
			if c.under != "" {
				under = d.Dim("   " + c.under)
			}
			d.Printf("  %s: %s %s%s\n", name, sign, d.Cut(c.text, len(name)+6), under)
		}
		lines := strings.Count(after[name], "\n")
		d.Printf("  %s\n", d.Dim(fmt.Sprintf("%s: %d of %d lines changed", name, max(added, len(list)-added), lines)))
	}
	if !changed {
		d.Printf("  %s\n", d.Green("no file changed"))
	}
}

// dayEnds prints a summary of the day.
func (d *demonstration) dayEnds(days []*topology.Plan, moments map[string]int) {
	d.Printf("\n%s  %d moments", d.Bold("The day is over"), len(d.cluster.Steps))
	for _, name := range slices.Sorted(maps.Keys(moments)) {
		d.Printf(" · %s changed at %d of them", name, moments[name])
	}
	d.Printf("\n")
	moved := movedBlocks(days)
	switch {
	case len(days[0].Blocks()) == 0:
	case len(moved) == 0:
		d.Printf("Every block kept its name and its place in the file.\n")
	default:
		d.Printf("Blocks that lost their name or place: %s\n", strings.Join(moved, ", "))
	}
	d.place()
}

// movedBlocks lists the blocks that lost their place among the others, or went.
func movedBlocks(days []*topology.Plan) []string {
	var moved []string
	for i := range len(days) - 1 {
		var was, is []string
		for _, b := range days[i].Blocks() {
			was = append(was, b.Name)
		}
		for _, b := range days[i+1].Blocks() {
			if slices.Contains(was, b.Name) {
				is = append(is, b.Name)
			}
		}
		for k, name := range was {
			if (k >= len(is) || is[k] != name) && !slices.Contains(moved, name) {
				moved = append(moved, name)
			}
		}
	}
	return moved
}
