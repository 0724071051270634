package picture

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// shortList writes names as people write them, gb200-[001-007,009], in at most room
// columns. Names that do not fit are counted. It is for people: package hostlist
// writes the host lists of Slurm's files.
func shortList(names []string, room int) string {
	names = slices.Clone(names)
	slices.Sort(names)
	runs := runsOf(names)
	text := writeRuns(runs)
	shown := len(runs)
	if utf8.RuneCountInString(text) > room {
		shown = min(shown, max(room, 0)/2+1) // a run takes two columns or more
	}
	for shown--; utf8.RuneCountInString(text) > room && shown > 0; shown-- {
		left := 0
		for _, r := range runs[shown:] {
			left += r.last - r.first + 1
		}
		text = fmt.Sprintf("%s … +%d", writeRuns(runs[:shown]), left)
	}
	if utf8.RuneCountInString(text) > room {
		text = cut(text, max(room, 8))
	}
	return text
}

// run is consecutive names with one prefix, or a single name.
type run struct {
	prefix      string
	width       int // digits; 0 is a name without a number
	first, last int
}

func runsOf(names []string) []run {
	var runs []run
	for _, name := range names {
		prefix := strings.TrimRight(name, "0123456789")
		digits := name[len(prefix):]
		n, err := strconv.Atoi(digits)
		if err != nil || len(digits) > 9 {
			runs = append(runs, run{prefix: name})
			continue
		}
		if i := len(runs) - 1; i >= 0 && runs[i].prefix == prefix && runs[i].width == len(digits) && runs[i].last+1 == n {
			runs[i].last = n
			continue
		}
		runs = append(runs, run{prefix, len(digits), n, n})
	}
	return runs
}

// writeRuns brackets runs of one prefix together.
func writeRuns(runs []run) string {
	var b strings.Builder
	for i := 0; i < len(runs); {
		k := i + 1
		for k < len(runs) && runs[i].width > 0 && runs[k].width > 0 && runs[k].prefix == runs[i].prefix {
			k++
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(runs[i].prefix)
		single := k == i+1 && runs[i].first == runs[i].last
		if !single {
			b.WriteByte('[')
		}
		for j, r := range runs[i:k] {
			if j > 0 {
				b.WriteByte(',')
			}
			b.WriteString(r.numbers())
		}
		if !single {
			b.WriteByte(']')
		}
		i = k
	}
	return b.String()
}

func (r run) numbers() string {
	switch {
	case r.width == 0:
		return ""
	case r.first == r.last:
		return fmt.Sprintf("%0*d", r.width, r.first)
	}
	return fmt.Sprintf("%0*d-%0*d", r.width, r.first, r.width, r.last)
}
