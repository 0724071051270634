package picture

import (
	"fmt"
	"slices"
	"sort"
	"unicode/utf8"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
)

// inOrder returns the names in Slurm's order, in which n9 stands before n10, each once.
func inOrder(names []string) []string {
	return slices.Compact(slices.SortedFunc(slices.Values(names), hostlist.Compare))
}

// shortList writes names as Slurm does, gb200-[001-007,009], in at most room columns.
// Names that do not fit are counted.
func shortList(names []string, room int) string {
	names = inOrder(names)
	text := func(shown int) string {
		list := hostlist.Compress(names[:shown])
		if left := len(names) - shown; left > 0 {
			list = fmt.Sprintf("%s … +%d", list, left)
		}
		return list
	}
	fits := func(text string) bool { return utf8.RuneCountInString(text) <= room }
	if all := text(len(names)); fits(all) {
		return all
	}
	shown := sort.Search(len(names), func(i int) bool { return !fits(text(i + 1)) })
	if shown == 0 {
		room = max(room, 8)
		if short := names[0] + " …"; len(names) > 1 && fits(short) { // the number does not fit
			return short
		}
		return cut(names[0], room)
	}
	return text(shown)
}
