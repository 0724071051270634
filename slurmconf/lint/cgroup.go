package lint

import (
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/syntax"
)

// The values that Slurm takes for yes and for no, in lower case.
var (
	yes = []string{"yes", "up", "true", "1"}
	no  = []string{"no", "down", "false", "0"}
)

// lintCgroup judges what cgroup.conf lets a job see of the GPUs. Of a key given twice the last one
// counts. Other keys are not judged.
func (l *linter) lintCgroup(f File) {
	lines, err := syntax.Scan(f.Name, f.Data)
	if err != nil {
		l.Fatal(err.Line, syntax.ReasonSyntax, "want a line Key=Value for each key", "%s", err.Message)
		return
	}
	at, value := 1, no[0]
	for i := range lines {
		line := &lines[i]
		if len(line.Attrs) > 0 {
			l.Fatal(line.Number, syntax.ReasonSyntax, "want a line Key=Value for each key", "%s follows %s on one line: Slurm refuses the whole file", line.Attrs[0].Key, line.Key)
			return
		}
		if strings.ToLower(line.Key) == "constraindevices" {
			at, value = line.Number, strings.ToLower(line.Value)
		}
	}
	switch {
	case slices.Contains(yes, value):
	case !slices.Contains(no, value):
		l.Fatal(at, syntax.ReasonBadValue, "want yes or no", "ConstrainDevices=%s: Slurm refuses the whole file", hostlist.Shorten(value))
	case l.gpus:
		l.Warn(at, reasonDevices, "set ConstrainDevices=yes", "ConstrainDevices is not yes: a job sees all GPUs of its node, not only its own")
	}
}
