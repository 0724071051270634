package lint

import (
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/syntax"
)

// lintCgroup judges what cgroup.conf lets a job see of the GPUs. Of a key given twice the last one
// counts.
func (l *linter) lintCgroup(f File) {
	lines, err := syntax.Scan(f.Name, f.Data)
	if err != nil {
		l.NotJudged(err.Line, "%s", err.Message)
		return
	}
	at, constrains := 1, false
	for i := range lines {
		for _, a := range append([]syntax.Pair{lines[i].Pair}, lines[i].Attrs...) {
			if strings.ToLower(a.Key) == "constraindevices" {
				at, constrains = lines[i].Number, slices.Contains(yes, strings.ToLower(a.Value))
			}
		}
	}
	if constrains || !l.gpus {
		return
	}
	l.Warn(at, "DevicesNotConstrained", "set ConstrainDevices=yes", "ConstrainDevices is not yes: a job sees all GPUs of its node, not only its own")
}

// yes are the values that Slurm takes for yes, in lower case.
var yes = []string{"yes", "up", "true", "1"}
