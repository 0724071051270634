package lint

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/gres"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
)

// lintFiles reads the device files and counts the devices of a line.
func (g *gresFile) lintFiles(r *gresRecord) {
	if r.has("file") {
		r.count = g.fileCount(r, "File", r.values["file"])
	}
	if !r.has("multiplefiles") {
		return
	}
	files := g.fileCount(r, "MultipleFiles", r.values["multiplefiles"])
	if r.has("file") {
		g.report(r, "FileAndMultipleFiles", "leave one of them", "File and MultipleFiles are on one line")
	} else if files < 2 {
		g.report(r, "MultipleFiles", "use File for a device of one file", "MultipleFiles has fewer than two files")
	}
	r.count = 1
}

func (g *gresFile) fileCount(r *gresRecord, key, value string) (count uint64) {
	err := hostlist.Walk(value, func([]byte) { count++ })
	switch {
	case errors.Is(err, hostlist.ErrNotPlain) || count == 0 && err == nil:
		g.oddLine(r, "%s: %q is no plain list of files", key, hostlist.Shorten(value))
	case err != nil:
		g.report(r, reasonHostlist, "want such as /dev/nvidia[0-3]", "%s: %v", key, err)
	}
	return count
}

// gresFlags are the flags that choose the variables of a job. The others are not
// judged.
var gresFlags = []string{"nvidia_gpu_env", "amd_gpu_env", "intel_gpu_env", "opencl_env", "no_gpu_env"}

// lintFlags reads Flags. Their order does not count.
func (g *gresFile) lintFlags(r *gresRecord) {
	if !r.has("flags") {
		return
	}
	words := strings.Split(strings.ToLower(r.values["flags"]), ",")
	if slices.ContainsFunc(words, func(w string) bool { return !slices.Contains(gresFlags, w) }) {
		g.oddLine(r, "Flags=%s: only %s are judged", r.values["flags"], strings.Join(gresFlags, ", "))
		return
	}
	slices.Sort(words)
	words = slices.Compact(words)
	if len(words) > 1 && slices.Contains(words, "no_gpu_env") {
		g.report(r, "Flags", "leave no_gpu_env or the others", "Flags=%s has no_gpu_env beside variables to set", r.values["flags"])
	}
	r.flags = strings.Join(words, ",")
}

// lintCount reads Count.
func (g *gresFile) lintCount(r *gresRecord) {
	if !r.has("count") {
		r.count = max(r.count, 1)
		return
	}
	n, ok := gres.ReadCount(r.values["count"])
	if !ok || n == 0 || n >= math.MaxInt64 {
		g.oddLine(r, "Count=%s is no plain number", r.values["count"])
	} else if r.count > 0 && r.count != n {
		g.report(r, "Count", "leave Count out if there are files", "Count=%d and %d devices in the files", n, r.count)
	}
	r.count = n
}

// lintCores asks for plain ranges. slurmd binds jobs to other cores than others say,
// or to none.
func (g *gresFile) lintCores(r *gresRecord) {
	if _, ok := gres.ParseCPUs(r.values["cores"]); r.has("cores") && !ok {
		g.oddLine(r, "Cores=%s: want such as 0-35,72-107", hostlist.Shorten(r.values["cores"]))
	}
}

// lintLinks warns of Links that slurmd ignores.
func (g *gresFile) lintLinks(r *gresRecord) {
	if !r.has("links") {
		return
	}
	self := 0
	for word := range strings.SplitSeq(r.values["links"], ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < -1 {
			self = 2
		} else if n == -1 {
			self++
		}
	}
	if self != 1 {
		g.Warn(r.Number, "Links", "want one number per device, -1 once, for the device itself; leave it out on NVSwitch machines", "Links=%s: slurmd ignores it", r.values["links"])
	} else if r.count > 1 {
		g.Warn(r.Number, "Links", "write one line per device, or leave it out", "Links on a line of several devices counts for each of them")
	}
}
