package picture

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
)

// maxListed bounds the rows of a list.
const maxListed = 12

// saying is what is said of several nodes.
type saying struct {
	// order is that of the list: what has no problem comes first.
	order         int
	what, message string
	nodes         []string
}

// lists draws what is said of nodes, and jobs.
type lists struct{ *drawer }

// said lists what Slurm and the publisher say of the nodes.
func (d *lists) said(s *Site) {
	order := map[string]int{free: 0, busy: 1, unavailable: 2}
	states := "Slurm's states"
	if s.Asked != "" {
		states += ", asked at " + s.Asked
	}
	d.alike(s, states, func(says *Said) saying {
		what := says.Use
		if what == unavailable || what == "" {
			what = says.Slurm
		}
		return saying{order: order[says.Use], what: what, message: says.Why}
	})
	d.alike(s, "IMEX", func(says *Said) saying { return says.IMEX.saying() })
	d.alike(s, "Published place", func(says *Said) saying { return says.Drift.saying() })
	d.alike(s, "NVLink fabric", func(says *Said) saying { return says.Fabric.saying() })
}

// saying is a verdict as a row of a list.
func (v *Verdict) saying() saying {
	if v.Wrong {
		return saying{1, v.Reason, v.Message, nil}
	}
	return saying{what: v.Reason}
}

// alike lists nodes in groups: each group has nodes with the same words. If these are too many
// groups, each has one message that stands for all.
func (d *lists) alike(s *Site, title string, of func(*Said) saying) {
	all := sayingsOf(s, of, true)
	if len(all) > maxListed {
		all = sayingsOf(s, of, false)
	}
	if len(all) == 0 {
		return
	}
	d.printf("%s\n", d.paint(bold, title))
	width := 0
	for _, row := range all[:min(len(all), maxListed)] {
		width = max(width, utf8.RuneCountInString(row.what))
	}
	for i, row := range all {
		if i == maxListed {
			d.printf("  %s\n", d.paint(dim, fmt.Sprintf("and %d more", len(all)-maxListed)))
			break
		}
		d.row(fmt.Sprintf("  %5d  %-*s", len(row.nodes), min(width, d.o.Width/2), row.what), row.nodes)
		if row.message != "" {
			d.text(9, row.message)
		}
	}
	d.printf("\n")
}

// sayingsOf puts nodes with the same words together: what has no problem first, then by number.
func sayingsOf(s *Site, of func(*Said) saying, byMessage bool) []*saying {
	type key struct {
		order         int
		what, message string
	}
	rows := map[key]*saying{}
	for i := range s.Plan.Nodes {
		name := s.Plan.Nodes[i].SlurmName
		says := s.Said[name]
		row := of(&says)
		if row.what == "" {
			continue
		}
		k := key{row.order, row.what, row.message}
		if !byMessage {
			k.message = ""
			row.message = strings.TrimSuffix("such as: "+row.message, "such as: ")
		}
		if rows[k] == nil {
			rows[k] = &row
		}
		rows[k].nodes = append(rows[k].nodes, name)
	}
	return slices.SortedFunc(maps.Values(rows), func(a, b *saying) int {
		return cmp.Or(cmp.Compare(a.order, b.order), cmp.Compare(len(b.nodes), len(a.nodes)), cmp.Compare(a.what, b.what), cmp.Compare(a.message, b.message))
	})
}

// row draws a line with as many names as there is room for.
func (d *lists) row(head string, nodes []string) {
	head = cut(head, d.o.Width)
	if room := d.o.Width - utf8.RuneCountInString(head) - 2; room >= 10 {
		head += "  " + d.paint(dim, shortList(nodes, room))
	}
	d.printf("%s\n", strings.TrimRight(head, " "))
}

// text draws words of a warning below a row, on as many lines as they need.
func (d *lists) text(indent int, words string) {
	for _, line := range hostlist.Wrap(printable(words), d.o.Width-indent) {
		d.printf("%*s%s\n", indent, "", d.paint(looks[warned].color, line))
	}
}

// jobs lists the running jobs, the largest first.
func (d *lists) jobs(all []Job) {
	if len(all) == 0 {
		return
	}
	largest := slices.SortedStableFunc(slices.Values(all), func(a, b Job) int { return cmp.Compare(len(b.Nodes), len(a.Nodes)) })
	shown := largest[:min(len(largest), maxRows/2)]
	d.printf("%s\n", d.paint(bold, countOf(len(all), "running job")))
	ids, users, sizes := 0, 0, 0
	for i := range shown {
		j := &shown[i]
		ids, users, sizes = max(ids, utf8.RuneCountInString(j.ID)), max(users, utf8.RuneCountInString(j.User)), max(sizes, utf8.RuneCountInString(sizeOf(j)))
	}
	for i := range shown {
		j := &shown[i]
		d.row(fmt.Sprintf("  %*s  %-*s  %-*s", ids, j.ID, users, j.User, sizes, sizeOf(j)), j.Nodes)
		if j.Note != "" {
			d.text(ids+4, j.Note)
		}
	}
	if more := len(all) - len(shown); more > 0 {
		d.printf("  %s\n", d.paint(dim, fmt.Sprintf("and %d more, each with fewer nodes or as many", more)))
	}
	d.printf("\n")
}

// sizeOf is how many nodes and blocks a job has.
func sizeOf(j *Job) string {
	text := countOf(len(j.Nodes), "node")
	if j.Blocks > 0 {
		text += " in " + countOf(j.Blocks, "block")
	}
	return text
}
