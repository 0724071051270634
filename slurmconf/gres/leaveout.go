package gres

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// ReasonLeaveOut names a node or a GPU that Options.LeaveOut names, and that nobody knows.
const ReasonLeaveOut = "LeaveOutUnknown"

// CheckLeaveOut refuses what does not name a GPU for sure: an index may be another GPU's after a
// boot.
func CheckLeaveOut(gpu string) error {
	number, isFile := strings.CutPrefix(gpu, deviceFiles)
	if isFile && number != "" && strings.Trim(number, "0123456789") == "" || strings.HasPrefix(gpu, "GPU-") && len(gpu) > len("GPU-") {
		return nil
	}
	return fmt.Errorf("%q: want the UUID of a GPU, such as GPU-5a1f..., or its device file, such as /dev/nvidia3", gpu)
}

// leaveOut takes a node's GPUs that LeaveOut names out of its facts and its published lines. It
// returns what is wrong with the names, and why the node's lines cannot be made, if they cannot.
func (o *Options) leaveOut(f *topology.Facts, published []Line) (rest *topology.Facts, old []Line, problems []topology.Finding, unknown string) {
	names := o.LeaveOut[f.Name]
	if len(names) == 0 {
		return f, published, nil, ""
	}
	files := make(map[string]bool, len(names))
	for _, name := range names {
		files[name] = true // a UUID is no file of a line
	}
	if f.Report == nil {
		unknown = "it has no report, and gres.leaveOut names GPUs of it"
	} else {
		report := *f.Report
		found := make(map[string]bool, len(names))
		report.GPUs = slices.DeleteFunc(slices.Clone(report.GPUs), func(g topology.GPU) (left bool) {
			file := ""
			if g.Minor != nil {
				file = deviceFile(*g.Minor)
			}
			for _, name := range names {
				if name == g.UUID || name == file {
					left, found[name] = true, true
				}
			}
			files[file] = files[file] || left
			return left
		})
		lost := slices.ContainsFunc(report.Problems, topology.Finding.LosesGPU)
		for _, name := range names {
			if isFile := strings.HasPrefix(name, deviceFiles); !found[name] && (!lost || !isFile) {
				problems = append(problems, topology.Finding{Subject: topology.Subject{Node: f.Name}, Severity: topology.Warning, Reason: ReasonLeaveOut,
					Message: fmt.Sprintf("gres.leaveOut names %s, which its report does not have: it leaves out nothing", name), Remedy: "correct the name; a GPU that NVML no longer lists is named by its device file"})
			}
		}
		without := *f
		without.Report = &report
		rest = &without
	}
	for _, l := range published {
		if len(l.MultipleFiles) > 0 && files[l.MultipleFiles[0]] {
			continue
		}
		had := len(l.Files) > 0
		if l.Files = slices.DeleteFunc(slices.Clone(l.Files), func(file string) bool { return files[file] }); !had || len(l.Files) > 0 {
			old = append(old, l)
		}
	}
	return cmp.Or(rest, f), old, problems, unknown
}

// Without returns the facts without the GPUs that LeaveOut names: what Slurm has of the nodes.
func (o *Options) Without(facts []topology.Facts) []topology.Facts {
	if len(o.LeaveOut) == 0 {
		return facts
	}
	out := make([]topology.Facts, len(facts))
	for i := range facts {
		rest, _, _, _ := o.leaveOut(&facts[i], nil)
		out[i] = *rest
	}
	return out
}

// unknownNodes names the nodes of LeaveOut that there are no facts of.
func (o *Options) unknownNodes(facts []topology.Facts) (problems []topology.Finding) {
	if len(o.LeaveOut) == 0 {
		return nil
	}
	known := make(map[string]bool, len(facts))
	for i := range facts {
		known[facts[i].Name] = true
	}
	for _, node := range slices.Sorted(maps.Keys(o.LeaveOut)) {
		if !known[node] {
			problems = append(problems, topology.Finding{Subject: topology.Subject{Node: node}, Severity: topology.Warning, Reason: ReasonLeaveOut,
				Message: "gres.leaveOut names this node, which the publication does not have", Remedy: "correct the name, or take it out"})
		}
	}
	return problems
}
